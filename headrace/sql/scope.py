"""Scopes: what a name means at one level of a query, given what stands in FROM.

A scope knows no catalog and no query. :mod:`headrace.sql.bind` fills it, source by source, and asks it for the columns
that names stand for; what it does not know it looks for further out.

>>> scope = Scope()
>>> scope.add(Source("t", [Output("a", TEXT)]), None)
>>> scope.column(exp.column("a")).sql()
'"t"."a"'
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlglot import exp

from headrace.errors import (
    AmbiguousColumn,
    DuplicateAlias,
    HeadraceError,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedRelation,
)
from headrace.sql.expressions import COLUMN_TYPE, position_of, unsupported
from headrace.sql.names import relation_name
from headrace.sql.tree import LambdaVariable, WholeRow
from headrace.sql.typed import TEXT
from headrace.types import SqlType


@dataclass(frozen=True)
class Output:
    """A column of a source or of a query's result."""

    name: str
    type: SqlType
    hidden: bool = False


@dataclass
class Source:
    """Something in FROM."""

    alias: str
    columns: list[Output]
    scalar: bool = False
    """A function of one column, which its alias stands for."""
    optional: bool = False
    """On the side of an outer join that may be missing."""

    def find(self, name: str) -> Output | None:
        return next((column for column in self.columns if column.name == name), None)


@dataclass
class Scope:
    """What names mean at one level of a query."""

    parent: Scope | None = None
    ctes: dict[str, list[Output]] = field(default_factory=dict)
    sources: list[Source] = field(default_factory=list)
    merged: dict[str, exp.Expression] = field(default_factory=dict)
    """Columns that USING or NATURAL made one of several."""
    variables: dict[str, SqlType] = field(default_factory=dict)
    """Names that a lambda introduced."""
    absorbed: set[tuple[str, str]] = field(default_factory=set)
    """(alias, column) pairs that a merged column stands for in ``*``."""

    def add(self, source: Source, node: exp.Expression | None) -> None:
        if any(other.alias == source.alias for other in self.sources):
            raise DuplicateAlias(f'table name "{source.alias}" specified more than once', position=position_of(node))
        self.sources.append(source)

    def cte(self, name: str) -> list[Output] | None:
        if name in self.ctes:
            return self.ctes[name]
        return self.parent.cte(name) if self.parent is not None else None

    def star(self, item: exp.Expression) -> list[tuple[str, exp.Expression]]:
        """The names and columns that ``*`` or ``t.*`` stands for."""
        if isinstance(item, exp.Column):
            if item.args.get("db") is not None:
                relation_name([item.text("db"), item.table], position_of(item))
            source = next((each for each in self.sources if each.alias == item.table), None)
            if source is None:
                raise _missing_source(item.table, item)
            return [(column.name, _reference(source.alias, column)) for column in source.columns if not column.hidden]
        if not self.sources:
            raise SqlSyntaxError("SELECT * with no tables specified is not valid", position=position_of(item))
        columns = [(name, node.copy()) for name, node in self.merged.items()]
        for source in self.sources:
            for column in source.columns:
                if not column.hidden and (source.alias, column.name) not in self.absorbed:
                    columns.append((column.name, _reference(source.alias, column)))
        return columns

    def merge(self, names: list[str], side: str, before: list[Source], after: list[Source]) -> exp.Expression:
        """Makes each name one column of both sides of a join, as USING does, and returns the join's condition."""
        condition: exp.Expression | None = None
        for name in names:
            left = self.merged.get(name) or _only_column(name, before, "left")
            right = _only_column(name, after, "right")
            equal = exp.EQ(this=left.copy(), expression=right.copy())
            condition = equal if condition is None else exp.And(this=condition, expression=equal)
            if side == "FULL":
                merged: exp.Expression = exp.Anonymous(this="coalesce", expressions=[left.copy(), right.copy()])
            else:
                merged = right.copy() if side == "RIGHT" else left.copy()
            self.merged[name] = merged
            self.absorbed |= {(c.table, c.name) for c in [*left.find_all(exp.Column), *right.find_all(exp.Column)]}
        return condition

    def column(self, node: exp.Column) -> exp.Expression:
        """The column that a name stands for, here or further out."""
        if isinstance(node.this, exp.Star):
            row = self._whole_row(node.table)
            if row is None:
                raise _missing_source(node.table, node)
            return row
        if not isinstance(node.this, exp.Identifier):
            raise unsupported("this use of a dot", node)
        if node.args.get("db") is not None:
            relation_name([part.name for part in node.parts[:-1]], position_of(node))
        start = node.this.meta_get("start")
        level: Scope | None = self
        while level is not None:
            found = level._find(node, start)
            if found is not None:
                return found
            level = level.parent
        if node.table:
            raise self._no_such_source(node)
        row = self._whole_row(node.name)
        if row is not None:
            return row
        hint = self._candidates()
        raise UndefinedColumn(f'column "{node.name}" does not exist', hint=hint, position=position_of(node))

    def _variable(self, node: exp.Column) -> exp.Expression:
        """A variable of a lambda, or a field of it: what it holds has no other name that could stand before a dot."""
        name = node.table or node.name
        variable = LambdaVariable(this=exp.to_identifier(name, quoted=True))
        variable.meta[COLUMN_TYPE] = self.variables[name]
        return exp.Dot(this=exp.Paren(this=variable), expression=node.this) if node.table else variable

    def _whole_row(self, name: str) -> exp.Expression | None:
        """The row of the source of that name, here or further out."""
        level: Scope | None = self
        while level is not None:
            for source in level.sources:
                if source.alias == name:
                    return row_of_source(source)
            level = level.parent
        return None

    def _no_such_source(self, node: exp.Column) -> HeadraceError:
        for source in self.sources:
            kind = (source.find(node.table) or Output("", TEXT)).type
            if kind.name == "struct":
                error = _missing_source(node.table, node)
                error.hint = f"for a field of a struct, write ({node.table}).{node.name}"
                return error
        return _missing_source(node.table, node)

    def _find(self, node: exp.Column, start: int | None) -> exp.Expression | None:
        """The column at this level, None if it must be looked for further out."""
        if (node.table or node.name) in self.variables:
            return self._variable(node)
        if node.table:
            source = next((each for each in self.sources if each.alias == node.table), None)
            if source is None:
                return None
            column = source.find(node.name)
            if column is None:
                known = ", ".join(each.name for each in source.columns if not each.hidden)
                raise UndefinedColumn(
                    f"column {node.table}.{node.name} does not exist",
                    hint=f"{node.table} has: {known}",
                    position=position_of(node),
                )
            return _reference(source.alias, column, start)
        if node.name in self.merged:
            return self.merged[node.name].copy()
        found = [(source, column) for source in self.sources for column in source.columns if column.name == node.name]
        visible = [(source, column) for source, column in found if not column.hidden]
        found = visible or found
        if len(found) > 1:
            names = ", ".join(f"{source.alias}.{node.name}" for source, _ in found)
            raise AmbiguousColumn(
                f'column reference "{node.name}" is ambiguous', hint=f"it could be: {names}", position=position_of(node)
            )
        if not found:
            found = [(each, each.columns[0]) for each in self.sources if each.scalar and each.alias == node.name]
        return _reference(found[0][0].alias, found[0][1], start) if found else None

    def _candidates(self) -> str | None:
        level: Scope | None = self
        while level is not None and not level.sources:
            level = level.parent
        if level is None:
            return None
        names = [column.name for source in level.sources for column in source.columns if not column.hidden]
        return f"there are: {', '.join(dict.fromkeys(names))}" if names else None


def _only_column(name: str, sources: list[Source], side: str) -> exp.Column:
    found = [(source, source.find(name)) for source in sources if source.find(name) is not None]
    if not found:
        raise UndefinedColumn(f'column "{name}" specified in USING clause does not exist in {side} table')
    if len(found) > 1:
        raise AmbiguousColumn(f'common column name "{name}" appears more than once in {side} table')
    return _reference(found[0][0].alias, found[0][1])


def _missing_source(name: str, node: exp.Expression) -> UndefinedRelation:
    return UndefinedRelation(f'missing FROM-clause entry for table "{name}"', position=position_of(node))


def _reference(alias: str, column: Output, start: int | None = None) -> exp.Column:
    node = exp.Column(this=exp.to_identifier(column.name, quoted=True), table=exp.to_identifier(alias, quoted=True))
    node.meta[COLUMN_TYPE] = column.type
    if start is not None:
        node.meta["start"] = start
    return node


def row_of_source(source: Source) -> WholeRow:
    visible = [column for column in source.columns if not column.hidden] or source.columns
    columns = [_reference(source.alias, column) for column in visible]
    # a row that an outer join did not find is NULL, and all columns of it are, hidden ones too
    hidden = [_reference(source.alias, column) for column in source.columns if column.hidden]
    missing = [column.copy() for column in [*columns, *hidden]] if source.optional else None
    return WholeRow(this=exp.to_identifier(source.alias, quoted=True), expressions=columns, missing=missing)


def renamed(node: exp.Expression, columns: list[Output]) -> list[Output]:
    """The columns under the names of an alias like ``AS x(a, b)``, which may name only the first few."""
    alias = node.args.get("alias")
    given = [column.name for column in alias.args.get("columns") or []]
    if len(given) > len(columns):
        raise SqlSyntaxError(
            f'table "{alias.name}" has {len(columns)} columns available but {len(given)} columns specified',
            position=position_of(alias),
        )
    if given:
        given += [column.name for column in columns[len(given) :]]
        alias.set("columns", [exp.to_identifier(name, quoted=True) for name in given])
    return (
        [Output(name, column.type, column.hidden) for name, column in zip(given, columns, strict=True)]
        if given
        else columns
    )


def renamed_in_full(node: exp.Expression, columns: list[Output]) -> list[Output]:
    """The same for a source without names of its own, where the translation has to name all columns."""
    outputs = renamed(node, columns)
    node.args["alias"].set("columns", [exp.to_identifier(column.name, quoted=True) for column in outputs])
    return outputs
