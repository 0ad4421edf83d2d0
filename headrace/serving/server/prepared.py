"""The extended query protocol: statements that are prepared once, and bound to values each time they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass

from headrace.catalog import Catalog
from headrace.errors import HeadraceError, SqlSyntaxError
from headrace.serving.result import Result
from headrace.serving.server import parameters
from headrace.serving.server.budget import too_much_held, tree_bytes
from headrace.serving.server.parameters import Substituted
from headrace.serving.server.portal import Portal
from headrace.serving.server.templates import InsertTemplate
from headrace.serving.session import Session
from headrace.serving.wire import reader, writer
from headrace.serving.wire.oids import oid_of, pg_category
from headrace.serving.wire.rows import spread
from headrace.sql import statements as ast
from headrace.sql.parse import parse
from headrace.sql.unknowns import asked
from headrace.types import SqlType

STATEMENTS = 1_000
"""Prepared statements, and portals, of one session."""
Positions = Callable[[], AbstractContextManager[None]]
_PREPARABLE = (ast.Select, ast.Insert, ast.Update, ast.Delete)


class UndefinedStatement(HeadraceError):
    sqlstate = "26000"


class DuplicateStatement(HeadraceError):
    sqlstate = "42P05"


class UndefinedCursor(HeadraceError):
    sqlstate = "34000"


class DuplicateCursor(HeadraceError):
    sqlstate = "42P03"


class ChangedResult(HeadraceError):
    sqlstate = "0A000"


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
    open: set[int]
    """Which parameters have a type that nobody named, and that is not seen either: text, until it is found out"""
    declared: tuple[SqlType, ...] = ()
    """By PREPARE"""
    verbatim: bool = False
    """A PREPARE: the parameters in it are its own"""
    template: InsertTemplate | None = None
    """An INSERT that need not be parsed each time"""
    columns: list[tuple[str, SqlType]] | None = None
    """As the client was told"""
    size: int = 0
    """Bytes that it keeps, about"""
    tree: int = 0
    """Those that it takes when it is parsed"""


@dataclass(kw_only=True)
class Bound:
    """A statement with its values. It runs when it is executed first, or when only running it tells its columns."""

    statement: ast.Statement | None
    formats: tuple[int, ...]
    positions: Positions
    """Errors inside point into the text that was sent"""
    exact: Callable[[], tuple[ast.Statement, Positions]] | None = None
    """Parses the text, if the statement was made without it: it does for constants, and knows no positions."""
    columns: list[tuple[str, SqlType]] | None = None
    portal: Portal | None = None
    ran: bool = False
    """It wrote, or did something else that is not done again by asking for more rows."""
    declared: bool = False
    """By DECLARE: it stays until it is closed, or the transaction ends."""
    hold: bool = False
    """WITH HOLD: it stays after its transaction, if that is committed."""
    committed: bool = False
    size: int = 0
    """Bytes that it keeps, about, besides its rows"""


class PreparedStatements:
    def __init__(self, session: Session, keep: Callable[[int], bool] = lambda size: True):
        """``keep``: told how many bytes are kept by now, answers whether they may be."""
        self._session = session
        self._keep_bytes = keep
        self._kept = 0
        self._statements: dict[str, Prepared] = {}
        self.portals: dict[str, Bound] = {}
        self.before_running: Callable[[], None] = lambda: None
        """Called before a statement is run only to know its columns: what was sent before it comes first."""

    def parse(self, message: reader.Parse, catalog: Catalog) -> None:
        with self._while_parsed(tree_bytes(message.text)):
            statements = parameters.parse_with_names(message.text)
        if len(statements) > 1:
            raise SqlSyntaxError("cannot insert multiple commands into a prepared statement")
        self._keep(message, statements[0] if statements else None, catalog)

    @contextmanager
    def _while_parsed(self, size: int) -> Iterator[None]:
        """A tree counts as long as it is needed."""
        self._account(size)
        try:
            yield
        finally:
            self._account(-size)

    def prepare(self, statement: ast.Prepare, catalog: Catalog) -> None:
        """PREPARE: the same, said in SQL."""
        try:
            (inner,) = parameters.parse_with_names(statement.text)
        except SqlSyntaxError as error:
            error.position = error.position and error.position + statement.start
            raise
        if not isinstance(inner, _PREPARABLE):
            raise SqlSyntaxError(
                "only a query, an INSERT, an UPDATE or a DELETE can be prepared", position=statement.start + 1
            )
        message = reader.Parse(name=statement.name, text=statement.text, oids=tuple(map(oid_of, statement.types)))
        self._keep(message, inner, catalog, declared=statement.types)

    def _keep(
        self,
        message: reader.Parse,
        statement: ast.Statement | None,
        catalog: Catalog,
        declared: tuple[SqlType, ...] = (),
    ) -> None:
        if message.name and message.name in self._statements:
            raise DuplicateStatement(f'prepared statement "{message.name}" already exists')
        if len(self._statements) >= STATEMENTS:
            raise TooManyPrepared(f"a session may have {STATEMENTS:,} prepared statements", hint="close some")
        template = InsertTemplate.of(statement)
        # Trees of short texts are shared, see parse_with_names.
        own_tree = template is not None and len(message.text) > parameters.REMEMBERED_TEXT
        tree = tree_bytes(message.text)
        size = tree if own_tree else len(message.text)
        replaced = self._statements.get(message.name)
        verbatim = isinstance(statement, ast.Prepare)
        count = len(message.oids) if verbatim else max(parameters.parameter_count(message.text), len(message.oids))
        meant = statement and self._session.meant(statement)
        seen = parameters.parameter_types(meant, count, message.oids, catalog, otherwise=None)
        types = [kind or parameters.TEXT for kind in seen]
        named, given = parameters.named_oids(statement), [*message.oids, *([0] * count)]
        oids = [given[at] or named.get(at + 1) or oid_of(kind) for at, kind in enumerate(types)]
        self._account(size - (replaced.size if replaced is not None else 0))
        self._statements[message.name] = Prepared(
            name=message.name,
            text=message.text,
            types=types,
            oids=oids,
            limits=parameters.limit_parameters(statement),
            empty=statement is None,
            open={number for number, kind in enumerate(seen, 1) if kind is None and not given[number - 1]},
            declared=declared,
            verbatim=verbatim,
            template=template,
            size=size,
            tree=tree,
        )

    def _account(self, more: int) -> None:
        """Bounded by bytes, and not only by number: a statement may be long, and so may its values."""
        if not self._keep_bytes(self._kept + more):
            raise too_much_held()
        self._kept += more

    def executed(self, statement: ast.Execute) -> ast.Statement:
        """What an EXECUTE runs."""
        prepared = self._statement(statement.name)
        given, wanted = len(statement.values), len(prepared.types)
        if given != wanted:
            raise SqlSyntaxError(
                f'wrong number of parameters for prepared statement "{prepared.name}"',
                hint=f"it takes {wanted}, and {given} were given",
            )
        constants = [
            parameters.written(value, text, prepared.declared[at] if at < len(prepared.declared) else None)
            for at, (value, text) in enumerate(zip(statement.values, statement.texts, strict=True))
        ]
        with self._while_parsed(prepared.tree):
            found = parse(parameters.with_constants(prepared.text, constants).text)
        if not found:
            raise SqlSyntaxError(f'prepared statement "{prepared.name}" is empty')
        return found[0]

    def bind(self, message: reader.Bind) -> None:
        prepared = self._statement(message.statement)
        self._refuse_portal(message.portal)
        self.close_portals([message.portal])
        parameters.check_count(len(message.values), len(prepared.types), prepared.name)
        forms = spread(message.formats, len(message.values))
        values = list(zip(message.values, forms, prepared.types, prepared.oids, strict=True))
        given = sum(len(value) for value in message.values if value is not None)
        size = prepared.tree + given * 2  # as it came, and as a constant
        self._account(size)
        try:
            self.portals[message.portal] = self._bound(message, prepared, values, size)
        except BaseException:
            self._account(-size)
            raise

    def _bound(self, message: reader.Bind, prepared: Prepared, values: list[tuple], size: int) -> Bound:
        def exact() -> tuple[ast.Statement, Positions]:
            constants = [parameters.constant(*value) for value in values]
            return self._parsed(parameters.with_constants(prepared.text, constants))

        statement, positions, later = None, parameters.without_positions, None
        if prepared.template is not None:
            statement, later = prepared.template.filled([parameters.constant_tree(*value) for value in values]), exact
        elif prepared.verbatim:
            (statement,) = parse(prepared.text)
        elif not prepared.empty:
            statement, positions = exact()
        return Bound(
            statement=statement,
            formats=message.result_formats,
            positions=positions,
            exact=later,
            columns=prepared.columns,
            size=size,
        )

    def _parsed(self, source: Substituted) -> tuple[ast.Statement, Positions]:
        (statement,) = source.parse()
        if isinstance(statement, ast.Execute):
            return self.executed(statement), parameters.without_positions
        return statement, source.positions

    def describe(self, message: reader.Describe) -> bytes:
        if message.kind == "P":
            bound = self.portal(message.name)
            columns = self._columns(bound)
            if not columns:
                return writer.NO_DATA
            names, types = zip(*columns, strict=True)
            return writer.row_description(names, types, spread(bound.formats, len(names)))
        prepared = self._statement(message.name)
        prepared.columns = columns = [] if prepared.empty else self._columns_of_unbound(prepared)
        described = writer.parameter_description(prepared.oids)
        if not columns:
            return described + writer.NO_DATA
        names, types = zip(*columns, strict=True)
        return described + writer.row_description(names, types, [0] * len(names))

    def _columns_of_unbound(self, prepared: Prepared) -> list[tuple[str, SqlType]]:
        if prepared.verbatim:
            return []
        if prepared.open:
            self._find_types(prepared)
        source = parameters.with_constants(prepared.text, parameters.unknown_constants(prepared.types, prepared.limits))
        with self._while_parsed(prepared.tree):
            statement, positions = self._parsed(source)
        if isinstance(statement, ast.FetchCursor):
            return [] if statement.move else self.cursor(statement.name).columns
        with positions():
            columns = self._session.describe(statement)
        if columns is None:
            self.before_running()
            result = self._session.perform(statement)
            columns = list(zip(result.columns, result.types, strict=True))
        return columns

    def _find_types(self, prepared: Prepared) -> None:
        """What the surroundings of parameters ask for whose types nobody named: a driver sends such values then."""
        constants = parameters.unknown_constants(prepared.types, prepared.limits, prepared.open)
        source = parameters.with_constants(prepared.text, constants)
        # What is wrong with the statement is said when its columns are asked for.
        with self._while_parsed(prepared.tree), asked() as found, suppress(HeadraceError):
            statement, _ = self._parsed(source)
            query = parameters.asked_in(statement)
            if isinstance(statement, ast.Select) or query is not None:
                self._session.describe(statement if query is None else ast.Select(sql=statement.sql, query=query))
        for number, kind in found.items():
            kind = parameters.of_any_digits(kind)
            if number in prepared.open and kind.name not in ("struct", "map"):
                prepared.open.discard(number)
                prepared.types[number - 1], prepared.oids[number - 1] = kind, oid_of(kind)

    def _columns(self, bound: Bound) -> list[tuple[str, SqlType]]:
        if isinstance(bound.statement, ast.FetchCursor):
            return [] if bound.statement.move else self.cursor(bound.statement.name).columns
        if bound.statement is None:
            return bound.columns or []
        with bound.positions():
            if bound.columns is None:
                bound.columns = self._session.describe(bound.statement)
            if bound.columns is None:
                self.before_running()
                self.open(bound, self._session.perform(bound.statement))
        return bound.columns

    def declare(self, name: str, result: Result, *, hold: bool = False, committed: bool = False) -> None:
        self._refuse_portal(name)
        bound = Bound(
            statement=None, formats=(), positions=parameters.without_positions,
            declared=True, hold=hold, committed=committed,
        )  # fmt: skip
        self.open(bound, result)
        self.portals[name] = bound

    def _refuse_portal(self, name: str) -> None:
        if name and name in self.portals:
            raise DuplicateCursor(f'cursor "{name}" already exists')
        if len(self.portals) >= STATEMENTS:
            raise TooManyPrepared(f"a session may have {STATEMENTS:,} portals", hint="close some")

    def end_transaction(self, *, committed: bool) -> None:
        """Cursors go with their transaction, unless they are held; those that are, go if it is rolled back."""
        for bound in self.portals.values():
            bound.committed = bound.committed or committed
        self.close_portals([name for name, bound in self.portals.items() if not (bound.hold and bound.committed)])

    def forget_bound(self) -> None:
        """Portals that were bound live as long as their transaction, which is over."""
        self.close_portals([name for name, bound in self.portals.items() if not bound.declared])

    def close_portals(self, names: Iterable[str] | None = None) -> None:
        """These, or all."""
        for name in list(self.portals if names is None else names):
            if (bound := self.portals.pop(name, None)) is None:
                continue
            self._account(-bound.size)
            if bound.portal is not None:
                bound.portal.close()

    def cursor(self, name: str) -> Bound:
        if name not in self.portals or self.portals[name].portal is None:
            raise UndefinedCursor(f'cursor "{name}" does not exist')
        return self.portals[name]

    def refuse_if_changed(self, bound: Bound) -> None:
        """Of a statement that writes, before it does: would it answer other columns than the client was told of?"""
        if bound.columns and isinstance(bound.statement, (ast.Insert, ast.Update, ast.Delete)):
            now = self._session.describe(bound.statement)
            _refuse_other_types([kind for _, kind in bound.columns], [kind for _, kind in now])

    def open(self, bound: Bound, result: Result) -> Portal:
        described = None if bound.columns is None else [kind for _, kind in bound.columns]
        if described is not None and result.columns:
            _refuse_other_types(described, result.types)
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
        if message.kind == "S":
            self._forget(message.name)
        else:
            self.close_portals([message.name])

    def _forget(self, name: str) -> None:
        if (prepared := self._statements.pop(name, None)) is not None:
            self._account(-prepared.size)

    def deallocate(self, name: str | None) -> None:
        if name is not None:
            self._statement(name)
        for each in list(self._statements) if name is None else [name]:
            self._forget(each)


def _refuse_other_types(told: Sequence[SqlType], found: Sequence[SqlType]) -> None:
    """Numbers may be of other widths: a parameter that has a value is a constant, and narrower than its type."""

    def alike(one: SqlType, other: SqlType) -> bool:
        return one.name == other.name or pg_category(one) == pg_category(other) == "N"

    if len(told) != len(found) or not all(map(alike, told, found)):
        raise ChangedResult("cached plan must not change result type", hint="prepare the statement again")
