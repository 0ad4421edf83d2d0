"""Which part of which stored relation a query has to read: the decisions, without Spark.

A table that a query filters by constants need not be scanned. If the whole primary key is given, its rows are looked
up. If the first columns of an index are given, and with them the vnode, that part of the index is read. The query's
conditions are applied all the same, so what is decided here changes what is read and never what is answered: where
there is any doubt, nothing is decided, and the table is scanned.

>>> from headrace.catalog import Column, KeyColumn
>>> from headrace.sql.dialect import parse_expression
>>> table = Relation(id=1, name="t", kind="table", columns=(Column(name="id", type=SqlType("integer")),),
...                  pk=(KeyColumn(name="id"),), distribution=("id",))
>>> found = conditions(parse_expression("id IN (1, 2) AND id + 1 > 2"), table, "")
>>> print(choose(table, found, needed={"id"}).describe())
uses primary key (id IN (1, 2))
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sqlglot import exp

from headrace.catalog import INDEX, Catalog, Relation
from headrace.plan.explain import sql
from headrace.sql.literals import NOT_CONSTANT, constant
from headrace.sql.names import SCHEMA
from headrace.state.layout import Layout
from headrace.state.predicates import Bounds, spark_literal
from headrace.state.vnode import vnode_of
from headrace.types import SqlType, quote_spark, quote_sql

FEW = 256
"""Up to so many keys are looked up one by one, and so many values of an IN are taken apart."""

_EXACT = frozenset("boolean smallint integer bigint numeric varchar uuid bytea date time timestamp timestamptz".split())
"""Types in which a constant is one value and equals nothing else. Floats have two zeros, and meet decimal constants
rounded; they are scanned for."""

_FLIPPED = {exp.LT: exp.GT, exp.LTE: exp.GTE, exp.GT: exp.LT, exp.GTE: exp.LTE}
_OPERATORS = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}


@dataclass(frozen=True, kw_only=True)
class Condition:
    """What a WHERE demands of one column."""

    values: tuple[Any, ...] = ()
    """It is one of these."""
    limits: tuple[tuple[str, Any], ...] = ()
    """It is on this side of all of these: an operator and a value each."""
    texts: tuple[str, ...] = ()
    """As written."""


@dataclass(frozen=True, kw_only=True)
class Path:
    """A stored relation that holds rows of the table: the table itself, or an index of it."""

    relation: Relation
    columns: Mapping[str, str]
    """Columns of the table that it holds → what they are called in it."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """A part of a path: the first columns of its key have given values, and the next may lie in a range."""

    table: Relation
    path: Path
    pinned: tuple[tuple[str, tuple[Any, ...]], ...]
    """Columns of the path, in the order of its key."""
    limits: tuple[tuple[str, str, Any], ...] = ()
    texts: tuple[str, ...] = ()
    lookup: bool = False
    """The key is given in full."""
    missing: frozenset[str] = field(default_factory=frozenset)
    """What the query needs of the table and the path does not hold."""

    def describe(self) -> str:
        name = (
            "primary key" if self.path.relation.id == self.table.id else f"index {quote_sql(self.path.relation.name)}"
        )
        then = ", then the primary key" if self.missing else ""
        return f"uses {name} ({' AND '.join(self.texts)}){then}"

    def keys(self) -> list[dict[str, Any]]:
        """Every combination of the given values."""
        names = [name for name, _ in self.pinned]
        return [dict(zip(names, each, strict=True)) for each in itertools.product(*(each for _, each in self.pinned))]

    def vnodes(self) -> list[int]:
        relation = self.path.relation
        kinds = [relation.column(name).type for name in relation.distribution]
        return sorted({vnode_of([key[name] for name in relation.distribution], kinds) for key in self.keys()})

    def bounds(self) -> list[Bounds]:
        return [Bounds(after=(vnode, None), upto=(vnode, None)) for vnode in self.vnodes()]

    def predicate(self) -> str:
        """In Spark SQL, over key columns only: it holds of a row and of what retracts the row."""
        types = Layout.of(self.path.relation).types
        parts = []
        for name, values in self.pinned:
            literals = [spark_literal(value, types[name].spark) for value in values]
            test = f"= {literals[0]}" if len(literals) == 1 else f"IN ({', '.join(literals)})"
            parts.append(f"{quote_spark(name)} {test}")
        for name, operator, value in self.limits:
            parts.append(f"{quote_spark(name)} {operator} {spark_literal(value, types[name].spark)}")
        return " AND ".join(parts)


# --- what a condition says --------------------------------------------------------------------------------------


def conditions(where: exp.Expression | None, relation: Relation, alias: str) -> dict[str, Condition]:
    """What a bound WHERE demands of columns of the relation, which it calls by the alias (empty: by no name)."""
    found: dict[str, Condition] = {}
    types = {column.name: column.type for column in relation.columns}
    for part in _conjuncts(where):
        column = _column(part, alias)
        if column is None or types.get(column, SqlType("jsonb")).name not in _EXACT:
            continue
        if (demand := _demand(part, types[column])) is not None:
            found[column] = _both(found.get(column), demand)
    return found


def _conjuncts(where: exp.Expression | None) -> Iterator[exp.Expression]:
    if where is None:
        return
    where = where.unnest()
    if isinstance(where, exp.And):
        yield from _conjuncts(where.this)
        yield from _conjuncts(where.expression)
    else:
        yield where


def _both(one: Condition | None, other: Condition) -> Condition:
    """Of two demands for values the first is enough: the query checks both."""
    if one is None:
        return other
    if one.values:
        return one
    if other.values:
        return other
    return Condition(limits=one.limits + other.limits, texts=one.texts + other.texts)


def _column(part: exp.Expression, alias: str) -> str | None:
    """The one column that a comparison is about."""
    sides = [part.this, part.expression] if isinstance(part, (exp.EQ, *_OPERATORS)) else [part.this]
    columns = [each for each in sides if isinstance(each, exp.Column) and each.table == alias]
    return columns[0].name if len(columns) == 1 else None


def _demand(part: exp.Expression, kind: SqlType) -> Condition | None:
    if isinstance(part, (exp.EQ, *_OPERATORS)):
        turned = not isinstance(part.this, exp.Column)
        value = constant(part.this if turned else part.expression, kind)
        if value is NOT_CONSTANT or value is None:
            return None
        if isinstance(part, exp.EQ):
            return Condition(values=(value,), texts=(_text(part),))
        operator = _OPERATORS[_FLIPPED[type(part)] if turned else type(part)]
        return Condition(limits=((operator, value),), texts=(_text(part),))
    if isinstance(part, exp.In) and set(_given(part)) == {"this", "expressions"}:
        values = [constant(each, kind) for each in part.expressions]
        if any(each is NOT_CONSTANT for each in values):
            return None
        distinct = tuple(dict.fromkeys(each for each in values if each is not None))
        return Condition(values=distinct, texts=(_text(part),)) if distinct else None
    if isinstance(part, exp.Between) and set(_given(part)) == {"this", "low", "high"}:
        low, high = constant(part.args["low"], kind), constant(part.args["high"], kind)
        if low is NOT_CONSTANT or high is NOT_CONSTANT or low is None or high is None:
            return None
        return Condition(limits=((">=", low), ("<=", high)), texts=(_text(part),))
    return None


def _given(node: exp.Expression) -> list[str]:
    return [name for name, value in node.args.items() if value]


def _text(part: exp.Expression) -> str:
    copy = part.copy()
    for column in copy.find_all(exp.Column):
        column.set("table", None)
    return sql(copy)


# --- the choice -------------------------------------------------------------------------------------------------


def choose(
    table: Relation, found: Mapping[str, Condition], *, needed: Iterable[str], indexes: Iterable[Path] = ()
) -> Access | None:
    """How to read the rows that may meet the conditions; None is a scan.

    A lookup by the primary key comes first, then the index of which most columns are given.
    """
    own = Path(relation=table, columns={column.name: column.name for column in table.columns})
    ways = [way for path in (own, *indexes) if (way := _way(table, path, found, frozenset(needed))) is not None]
    return max(ways, key=_rank, default=None)


def _rank(access: Access) -> tuple:
    return (
        access.lookup and not access.path.relation.kind == INDEX,
        len(access.pinned),
        bool(access.limits),
        not access.missing,
        -access.path.relation.id,
    )


def _way(table: Relation, path: Path, found: Mapping[str, Condition], needed: frozenset[str]) -> Access | None:
    of_table = {name: column for column, name in path.columns.items()}
    pinned, limits, texts, combinations = [], [], [], 1
    for key in path.relation.pk:
        condition = found.get(of_table.get(key.name, ""))
        if condition is None:
            break
        if not condition.values:
            limits = [(key.name, operator, value) for operator, value in condition.limits]
            texts += condition.texts
            break
        if combinations * len(condition.values) > FEW:
            break
        combinations *= len(condition.values)
        pinned.append((key.name, condition.values))
        texts += condition.texts
    names = {name for name, _ in pinned}
    if not pinned or not names.issuperset(path.relation.distribution):
        return None  # without the vnode it could be anywhere
    return Access(
        table=table,
        path=path,
        pinned=tuple(pinned),
        limits=tuple(limits),
        texts=tuple(texts),
        lookup=len(pinned) == len(path.relation.pk),
        missing=needed.difference(path.columns),
    )


# --- the tables of a query --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Narrowed:
    """A query with another name for each table that it need not read in full."""

    expression: exp.Expression
    parts: dict[str, Access]
    """By that name, which no relation can have."""
    whole: tuple[str, ...]
    """The relations that it still reads in full."""


def narrow(query: exp.Expression, catalog: Catalog, indexes: Callable[[Relation], Iterable[Path]]) -> Narrowed:
    """Decides for each mention of a table in a bound query."""
    tree = query.copy()
    parts: dict[str, Access] = {}
    for select in list(tree.find_all(exp.Select, bfs=False)):
        for table in _filtered_tables(select):
            relation = catalog.find(table.name)
            where = select.args["where"].this
            if relation is None or not relation.stored or not (found := conditions(where, relation, table.alias)):
                continue
            needed = {column.name for column in select.find_all(exp.Column) if column.table == table.alias}
            access = choose(relation, found, needed=needed, indexes=indexes(relation))
            if access is not None:
                name = f"{relation.name}\0{len(parts)}"
                parts[name] = access
                table.set("this", exp.to_identifier(name, quoted=True))
    mentioned = dict.fromkeys(table.name for table in tree.find_all(exp.Table) if table.db == SCHEMA)
    return Narrowed(expression=tree, parts=parts, whole=tuple(name for name in mentioned if name not in parts))


def demands(query: exp.Expression, relation: Relation) -> dict[str, Condition]:
    """What a bound query demands of all rows of a relation that it reads; nothing, if it reads the relation twice."""
    mentions = [each for each in query.find_all(exp.Table) if each.db == SCHEMA and each.name == relation.name]
    for select in query.find_all(exp.Select):
        for table in _filtered_tables(select):
            if len(mentions) == 1 and table is mentions[0]:
                return conditions(select.args["where"].this, relation, table.alias)
    return {}


def _filtered_tables(select: exp.Select) -> list[exp.Table]:
    """The stored relations in FROM whose rows reach WHERE as they are, or not at all."""
    source = select.args.get("from_")
    if source is None or select.args.get("where") is None:
        return []
    tables = [source.this]
    for join in select.args.get("joins") or []:
        side, kind = join.side.upper(), join.kind.upper()
        if kind not in ("", "INNER", "OUTER", "CROSS") or side not in ("", "LEFT", "RIGHT"):
            return []
        if side == "RIGHT":
            tables = []  # they may come out as NULLs
        if side != "LEFT":
            tables.append(join.this)
    return [each for each in tables if _is_plain(each)]


def _is_plain(node: exp.Expression) -> bool:
    return (
        isinstance(node, exp.Table)
        and node.db == SCHEMA
        and set(_given(node)) == {"this", "db", "alias"}
        and not node.args["alias"].args.get("columns")  # AS t(a, b) gives columns other names
    )


def usable_indexes(table: Relation, catalog: Catalog) -> list[Relation]:
    """The complete indexes of a table."""
    return [each for each in catalog.of_kind(INDEX) if each.depends_on == (table.id,) and not each.creating]
