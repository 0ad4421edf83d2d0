"""The extended query protocol: statements that are prepared once, and bound to values each time they run."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.catalog import Catalog
from headrace.errors import HeadraceError, SqlSyntaxError
from headrace.serving.result import Result
from headrace.serving.server import parameters
from headrace.serving.server.portal import Portal
from headrace.serving.session import Session
from headrace.serving.wire import reader, writer
from headrace.serving.wire.oids import oid_of
from headrace.serving.wire.rows import spread
from headrace.sql import statements as ast
from headrace.sql.parse import parse
from headrace.types import SqlType

STATEMENTS = 1_000
"""Prepared statements, and portals, of one session."""


class UndefinedStatement(HeadraceError):
    sqlstate = "26000"


class DuplicateStatement(HeadraceError):
    sqlstate = "42P05"


class UndefinedCursor(HeadraceError):
    sqlstate = "34000"


class DuplicateCursor(HeadraceError):
    sqlstate = "42P03"


class TooManyPrepared(HeadraceError):
    sqlstate = "53400"


@dataclass(kw_only=True)
class Prepared:
    name: str
    text: str
    types: list[SqlType]
    oids: list[int]
    limits: set[int]
    """Which parameters are a LIMIT or OFFSET"""
    empty: bool
    columns: list[tuple[str, SqlType]] | None = None
    """As the client was told"""


@dataclass(kw_only=True)
class Bound:
    """A statement with its values. It runs when it is executed first, or when only running it tells its columns."""

    statement: ast.Statement | None
    formats: tuple[int, ...]
    columns: list[tuple[str, SqlType]] | None = None
    portal: Portal | None = None
    rows: int = 0
    declared: bool = False
    """By DECLARE: it stays until it is closed, or the transaction ends."""


class PreparedStatements:
    def __init__(self, session: Session):
        self._session = session
        self._statements: dict[str, Prepared] = {}
        self.portals: dict[str, Bound] = {}

    def parse(self, message: reader.Parse, catalog: Catalog) -> None:
        if message.name and message.name in self._statements:
            raise DuplicateStatement(f'prepared statement "{message.name}" already exists')
        if len(self._statements) >= STATEMENTS:
            raise TooManyPrepared(f"a session may have {STATEMENTS:,} prepared statements", hint="close some")
        count = max(parameters.parameter_count(message.text), len(message.oids))
        statements = parse(parameters.with_names(message.text))
        if len(statements) > 1:
            raise SqlSyntaxError("cannot insert multiple commands into a prepared statement")
        statement = statements[0] if statements else None
        types = parameters.parameter_types(statement, count, message.oids, catalog)
        oids = [given or oid_of(kind) for given, kind in zip([*message.oids, *([0] * count)], types, strict=False)]
        self._statements[message.name] = Prepared(
            name=message.name,
            text=message.text,
            types=types,
            oids=oids,
            limits=parameters.limit_parameters(statement),
            empty=statement is None,
        )

    def bind(self, message: reader.Bind) -> None:
        prepared = self._statement(message.statement)
        self._refuse_portal(message.portal)
        parameters.check_count(len(message.values), len(prepared.types), prepared.name)
        forms = spread(message.formats, len(message.values))
        constants = [
            parameters.constant(value, form, kind, oid)
            for value, form, kind, oid in zip(message.values, forms, prepared.types, prepared.oids, strict=True)
        ]
        statement = None
        if not prepared.empty:
            (statement,) = parse(parameters.with_constants(prepared.text, constants))
        self.portals[message.portal] = Bound(
            statement=statement, formats=message.result_formats, columns=prepared.columns
        )

    def describe(self, message: reader.Describe) -> bytes:
        if message.kind == "P":
            bound = self.portal(message.name)
            columns = self._columns(bound)
            if not columns:
                return writer.NO_DATA
            names, types = zip(*columns, strict=True)
            return writer.row_description(names, types, spread(bound.formats, len(names)))
        prepared = self._statement(message.name)
        described = writer.parameter_description(prepared.oids)
        prepared.columns = columns = [] if prepared.empty else self._columns_of_unbound(prepared)
        if not columns:
            return described + writer.NO_DATA
        names, types = zip(*columns, strict=True)
        return described + writer.row_description(names, types, [0] * len(names))

    def _columns_of_unbound(self, prepared: Prepared) -> list[tuple[str, SqlType]]:
        constants = parameters.unknown_constants(prepared.types, prepared.limits)
        (statement,) = parse(parameters.with_constants(prepared.text, constants))
        if isinstance(statement, ast.FetchCursor):
            return self.cursor(statement.name).columns
        columns = self._session.describe(statement)
        if columns is None:
            result = self._session.perform(statement)
            columns = list(zip(result.columns, result.types, strict=True))
        return columns

    def _columns(self, bound: Bound) -> list[tuple[str, SqlType]]:
        if isinstance(bound.statement, ast.FetchCursor):
            return self.cursor(bound.statement.name).columns
        if bound.statement is None:
            return bound.columns or []
        if bound.columns is None:
            bound.columns = self._session.describe(bound.statement)
        if bound.columns is None:
            self.open(bound, self._session.perform(bound.statement))
        return bound.columns

    def declare(self, name: str, result: Result) -> None:
        self._refuse_portal(name)
        bound = Bound(statement=None, formats=(), declared=True)
        self.open(bound, result)
        self.portals[name] = bound

    def _refuse_portal(self, name: str) -> None:
        if name and name in self.portals:
            raise DuplicateCursor(f'cursor "{name}" already exists')
        if len(self.portals) >= STATEMENTS:
            raise TooManyPrepared(f"a session may have {STATEMENTS:,} portals", hint="close some")

    def forget_bound(self) -> None:
        """Portals that were bound live as long as their transaction, which is over."""
        self.portals = {name: bound for name, bound in self.portals.items() if bound.declared}

    def cursor(self, name: str) -> Bound:
        if name not in self.portals or self.portals[name].portal is None:
            raise UndefinedCursor(f'cursor "{name}" does not exist')
        return self.portals[name]

    def open(self, bound: Bound, result: Result) -> Portal:
        described = None if bound.columns is None else [kind for _, kind in bound.columns]
        bound.portal = Portal(result, bound.formats, described if result.columns else None)
        bound.columns = list(zip(result.columns, bound.portal.types, strict=True))
        return bound.portal

    def portal(self, name: str) -> Bound:
        if name not in self.portals:
            raise UndefinedCursor(f'portal "{name}" does not exist')
        return self.portals[name]

    def _statement(self, name: str) -> Prepared:
        if name not in self._statements:
            raise UndefinedStatement(f'prepared statement "{name}" does not exist')
        return self._statements[name]

    def close(self, message: reader.Close) -> None:
        (self._statements if message.kind == "S" else self.portals).pop(message.name, None)

    def deallocate(self, name: str | None) -> None:
        if name is None:
            self._statements.clear()
        else:
            self._statement(name)
            del self._statements[name]
