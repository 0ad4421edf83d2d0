"""The temporary tables of one session: what a name means to it that means something else, or nothing, to others.

A statement is rewritten before it is run: where it names a temporary table of the session, it names from then on what
the table is stored as. Queries of views are not rewritten, so a table that stands before another of the same name hides
that from the session's own statements and from nothing else.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

from sqlglot import exp

from headrace.catalog import OF_SESSION, TABLE, Relation, shown_name
from headrace.engine.coordinator import Coordinator
from headrace.engine.temporary import is_of_session, temporary_name, without_temporary
from headrace.errors import HeadraceError, InvalidDefinition, Unsupported
from headrace.sql import statements as ast
from headrace.sql.names import TEMPORARY_SCHEMA, NameInSchema
from headrace.state.manifest import Manifest

_NAMED: dict[type[ast.Statement], str] = {
    ast.Insert: "table", ast.Update: "table", ast.Delete: "table", ast.Truncate: "table", ast.Copy: "table",
    ast.Describe: "name", ast.ShowCreate: "name", ast.Compact: "name", ast.Comment: "name", ast.CreateIndex: "table",
}  # fmt: skip
"""Where a statement names a table"""


class TemporaryTables:
    def __init__(self, session: int):
        self._session = session
        self._names: set[str] = set()

    def owns(self, relation: Relation) -> bool:
        return is_of_session(relation, self._session)

    def meant(self, statement: ast.Statement) -> ast.Statement:
        created = isinstance(statement, (ast.CreateTable, ast.CreateTableAs)) and statement.temporary
        if not self._names and not created:
            return statement
        changes: dict[str, Any] = {}
        for field in dataclasses.fields(statement):
            before = getattr(statement, field.name)
            after = self._inside(before)
            if after is not before:
                changes[field.name] = after
        if changes and isinstance(statement, (ast.CreateMaterializedView, ast.CreateView)):
            raise InvalidDefinition("a view cannot read a temporary table, which goes with its session")
        if created:
            changes["name"] = self._stored(statement.name)
        elif isinstance(statement, ast.Drop) and statement.kind == TABLE:
            changes["names"] = tuple(map(self._name, statement.names))
        elif isinstance(statement, ast.Rename) and self._is_temporary(statement.name):
            changes |= {"name": self._stored(statement.name), "new_name": self._stored(statement.new_name)}
        elif (field := _NAMED.get(type(statement))) is not None and self._is_temporary(getattr(statement, field)):
            if isinstance(statement, ast.CreateIndex):
                raise Unsupported("an index on a temporary table is not supported")
            changes[field] = self._stored(getattr(statement, field))
            if isinstance(statement, (ast.Update, ast.Delete)):
                changes["alias"] = statement.alias or shown_name(statement.table)
        return dataclasses.replace(statement, **changes) if changes else statement

    def writes_only_there(self, statement: ast.Statement) -> bool:
        """Whether it changes rows of a temporary table, and nothing else."""
        if not isinstance(statement, (ast.Insert, ast.Update, ast.Delete, ast.Copy)):
            return False
        return not isinstance(statement, ast.Truncate) and self._is_temporary(statement.table)

    def performed(self, statement: ast.Statement) -> None:
        """What was asked for with the names that are meant is done."""
        if isinstance(statement, (ast.CreateTable, ast.CreateTableAs)) and statement.temporary:
            self._names.add(shown_name(statement.name))
        elif isinstance(statement, ast.Drop):
            self._names -= {shown_name(name) for name in statement.names if OF_SESSION in name}
        elif isinstance(statement, ast.Rename) and OF_SESSION in statement.name:
            self._names = (self._names - {shown_name(statement.name)}) | {shown_name(statement.new_name)}

    def drop(self, coordinator: Coordinator) -> None:
        """All of them. What an engine cannot remove that is closed, say, goes when the warehouse is opened again."""
        if not self._names:
            return
        self._names.clear()

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            return without_temporary(state, self.owns), None

        with contextlib.suppress(HeadraceError):
            coordinator.mutate(apply, "the end of a session")

    def _is_temporary(self, name: str | None) -> bool:
        return name is not None and not isinstance(name, NameInSchema) and shown_name(name) in self._names

    def _stored(self, name: str) -> str:
        return temporary_name(shown_name(name), self._session)

    def _name(self, name: str) -> str:
        return self._stored(name) if self._is_temporary(name) else name

    def _inside(self, value: Any) -> Any:
        """A field of a statement, with all that is in it; itself, if it names none of the tables."""
        if isinstance(value, exp.Expression):
            if not any(each.name in self._names for each in value.find_all(exp.Table)):
                return value
            copied = value.copy()
            return copied if self._tables(copied, frozenset()) else value
        if isinstance(value, ast.Statement):
            return self.meant(value)
        if isinstance(value, tuple):
            items = tuple(map(self._inside, value))
            return items if any(new is not old for new, old in zip(items, value, strict=True)) else value
        return value

    def _tables(self, node: exp.Expression, hidden: frozenset[str]) -> bool:
        """Names the tables in place; ``hidden`` are the names that WITH has given to something else."""
        found = False
        common = node.args.get("with_")
        for each in common.expressions if common is not None else ():
            within = hidden | {each.alias} if common.args.get("recursive") else hidden
            found |= self._tables(each.this, within)
            hidden |= {each.alias}
        for child in node.iter_expressions():
            if child is not common:
                found |= self._tables(child, hidden)
        if not isinstance(node, exp.Table) or node.name not in self._names:
            return found
        if node.db != TEMPORARY_SCHEMA and (node.db or node.name in hidden):
            return found
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(node.name, quoted=True)))
        stored = exp.to_identifier(self._stored(node.name), quoted=True)
        if (start := node.this.meta_get("start")) is not None:
            stored.meta["start"] = start
        node.set("this", stored)
        node.set("db", None)
        return True
