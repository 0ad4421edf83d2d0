"""The pieces that a query is cut into: what is linear, what is not, and how the latter follows its inputs.

A piece that is linear is a query, and nothing else: changes of what it reads are mapped row by row. One that is not is
*keyed*: its rows of one key are computed from its inputs' rows of that key, so it is kept up to date key by key. It
reads them from an *arrangement*: a linear piece that is stored in the order of that key, unless the relation itself
already is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX, Catalog
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query, print_sql
from headrace.sql.expressions import COLUMN_TYPE, row_of
from headrace.sql.names import SCHEMA
from headrace.sql.translate import types_of
from headrace.types import SqlType

HIDDEN = f"{INTERNAL_PREFIX}key_"
"""Columns that a keyed piece has for its key alone."""

SOURCE = f"{INTERNAL_PREFIX}s"
"""What a piece calls its only input."""

Name = tuple[str, str]
"""A column of a source: its alias, and its name there."""

Inputs = tuple[tuple[str, tuple[str, ...]], ...]
"""Names of relations, and their columns that correspond to a key."""


class NotCut(Exception):
    """No rule applies: the whole of the query is computed anew when its inputs change."""


@dataclass(frozen=True, kw_only=True)
class Keyed:
    """A piece that is computed key by key, not stored yet."""

    query: exp.Query
    """Its columns are those that are asked for, then hidden ones."""
    visible: int
    key: tuple[str, ...]
    """By which it is recomputed: the first columns of its pk. None: all of it is."""
    rest: tuple[str, ...]
    """The other columns of the pk."""
    inputs: Inputs
    describe: str
    adds: tuple[tuple[str, str | None], ...] = ()
    """Columns whose new value is the old one and what the change adds, see :mod:`headrace.plan.sums`."""
    averages: tuple[tuple[str, str, str], ...] = ()
    """… and those that are one of them divided by another."""
    extremes: tuple[tuple[str, str], ...] = ()
    """… and those that are the least or the greatest value that ever came, unless it has gone again."""
    first: tuple[int, ...] = ()
    """How many rows of a key are needed of each input, in its order; none: all, see :mod:`headrace.plan.top`."""
    kept: tuple[tuple[str, str], ...] = ()
    """If it holds those first rows, and all that its query needs of them: columns of the input, and its own."""
    whole: tuple[str, ...] = ()
    """Inputs of which all rows belong to every key."""
    clock: tuple[str, str] | None = None
    """A column of the key, and how the time must compare with it, see :mod:`headrace.plan.moments`."""
    watermark: int | None = None
    """… if that time is the watermark of a relation."""
    as_of_now: tuple[str, ...] = ()
    """Inputs whose changes are not followed, by the first columns of the key: the other side of a temporal join."""
    linear: tuple[str, ...] = ()
    """Inputs of which each row gives rows of its own, whatever others of its key there are."""

    def __post_init__(self):
        columns = outputs_of(self.query)
        if len(set(columns)) < len(columns) or self.visible > len(columns):
            raise ValueError(f"{self.describe}: {self.visible} of the columns {columns} are asked for")
        own = (*self.key, *self.rest, *(name for name, *_ in (*self.adds, *self.averages, *self.extremes)))
        if unknown := {*own, *(name for _, name in self.kept)} - set(columns):
            raise ValueError(f"{self.describe}: {sorted(unknown)} are not among the columns {columns}")
        if unknown := {*self.whole, *self.as_of_now, *self.linear} - {name for name, _ in self.inputs}:
            raise ValueError(f"{self.describe}: {sorted(unknown)} are not among the inputs {self.inputs}")
        if self.first and len(self.first) != len(self.inputs):
            raise ValueError(f"{self.describe}: {self.first} is not a number of rows for each of {self.inputs}")
        if self.clock is not None and self.clock[0] not in self.key:
            raise ValueError(f"{self.describe}: the clock is compared with {self.clock[0]}, which is not in the key")

    @property
    def follows_changes(self) -> bool:
        """Whether changes of the inputs are all that it needs of them, beside its own rows."""
        return bool(self.adds) and not any(columns for _, columns in self.inputs)

    @property
    def distribution(self) -> tuple[str, ...]:
        return self.key or self.rest


Piece = exp.Query | Keyed


@dataclass(frozen=True, kw_only=True)
class Side:
    """A linear query with the columns of one or more sources under names of their own."""

    query: exp.Query
    names: Mapping[Name, str]
    """Columns of the sources, and what they are called in the query."""
    types: Mapping[str, SqlType]

    def over(self, alias: str) -> dict[Name, exp.Expression]:
        """The columns of the sources, where the query is called ``alias``."""
        return {name: typed_column(alias, flat, self.types[flat]) for name, flat in self.names.items()}


def typed_column(table: str, name: str, kind: SqlType | None) -> exp.Column:
    node = exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(table, quoted=True))
    node.meta[COLUMN_TYPE] = kind
    return node


def aliased(expression: exp.Expression, name: str) -> exp.Alias:
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def table(name: str, alias: str) -> exp.Table:
    return exp.Table(
        this=exp.to_identifier(name, quoted=True),
        db=exp.to_identifier(SCHEMA, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )


def subquery(query: exp.Query, alias: str) -> exp.Subquery:
    return exp.Subquery(this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def select(
    items: Iterable[tuple[str, exp.Expression]],
    source: exp.Expression,
    where: Sequence[exp.Expression] = (),
    joins: Sequence[exp.Join] = (),
) -> exp.Select:
    query = exp.Select(expressions=[aliased(each.copy(), name) for name, each in items])
    query.set("from_", exp.From(this=source))
    if joins:
        query.set("joins", list(joins))
    if where:
        query.set("where", exp.Where(this=conjunction(where)))
    return query


def conjuncts(condition: exp.Expression | None) -> list[exp.Expression]:
    """The parts of a condition all of which must be true."""
    if condition is None:
        return []
    if isinstance(condition, (exp.Paren, exp.Where)):
        return conjuncts(condition.this)
    if isinstance(condition, exp.And):
        return conjuncts(condition.this) + conjuncts(condition.expression)
    if isinstance(condition, exp.Or):
        return _factored(condition)
    if isinstance(condition, exp.EQ):  # (a, b) = (c, d) is a = c AND b = d
        one, other = (row_of(each.unnest()) or [] for each in (condition.this, condition.expression))
        if one and len(one) == len(other):
            pairs = zip(one, other, strict=True)
            return [part for a, b in pairs for part in conjuncts(exp.EQ(this=a.copy(), expression=b.copy()))]
    return [condition]


def _factored(condition: exp.Or) -> list[exp.Expression]:
    """``a AND b OR a AND c`` is ``a AND (b OR c)``: what all alternatives ask for is a part by itself."""
    alternatives = [conjuncts(each) for each in _disjuncts(condition)]
    common = [each for each in alternatives[0] if all(each in other for other in alternatives[1:])]
    if not common:
        return [condition]
    rest = [[each for each in parts if each not in common] for parts in alternatives]
    if not all(rest):
        return common
    whole: exp.Expression = conjunction(rest[0])
    for parts in rest[1:]:
        whole = exp.Or(this=whole, expression=conjunction(parts))
    return [*common, whole]


def _disjuncts(condition: exp.Expression) -> list[exp.Expression]:
    if isinstance(condition, exp.Paren):
        return _disjuncts(condition.this)
    if isinstance(condition, exp.Or):
        return _disjuncts(condition.this) + _disjuncts(condition.expression)
    return [condition]


def conjunction(parts: Sequence[exp.Expression]) -> exp.Expression:
    operands = [_operand(each) for each in parts]
    whole = operands[0]
    for each in operands[1:]:
        whole = exp.And(this=whole, expression=each)
    return whole


def _operand(condition: exp.Expression) -> exp.Expression:
    return exp.Paren(this=condition.copy()) if isinstance(condition, exp.Or) else condition.copy()


def sources_in(expression: exp.Expression) -> set[str]:
    """The aliases whose columns an expression uses."""
    return {each.table for each in expression.find_all(exp.Column)}


def columns_of(expression: exp.Expression) -> set[Name]:
    return {(each.table, each.name) for each in expression.find_all(exp.Column)}


def outer_columns(query: exp.Expression) -> list[exp.Column]:
    """The columns in a query that belong to no source of its own, nor of a query inside of it that they stand in.

    >>> from headrace.sql.dialect import parse_query
    >>> inner = "SELECT max(n) FROM u WHERE u.y = t.k AND u.n IN (SELECT t.x FROM t)"
    >>> [(each.table, each.name) for each in outer_columns(parse_query(inner)) if each.table]
    [('t', 'k')]
    """
    return [each for each in query.find_all(exp.Column) if not _is_inside(each, query)]


def _is_inside(column: exp.Column, query: exp.Expression) -> bool:
    node = column.parent
    while node is not None:
        if isinstance(node, exp.Select):
            joins = [each.this for each in node.args.get("joins") or ()]
            sources = [node.args["from_"].this, *joins] if node.args.get("from_") is not None else joins
            if any(each.alias_or_name == column.table for each in sources):
                return True
        if node is query:
            return False
        node = node.parent
    return False


def substituted(expression: exp.Expression, columns: Mapping[Name, exp.Expression]) -> exp.Expression:
    """The expression with others in place of its columns."""
    copy = exp.Paren(this=expression.copy())
    for each in list(copy.find_all(exp.Column)):
        new = columns.get((each.table, each.name))
        if new is not None:
            each.replace(new.copy())
    return copy.this.pop()


def has_query(expression: exp.Expression) -> bool:
    return expression.find(exp.Query) is not None


def rebound(query: exp.Expression, catalog: Catalog) -> exp.Query:
    """A query that was put together, bound again: every column knows its type."""
    return bind_query(parse_query(print_sql(query)), catalog).expression


def branches_of(query: exp.Expression) -> list[exp.Select]:
    if isinstance(query, exp.Subquery):
        return branches_of(query.this)
    if isinstance(query, exp.SetOperation):
        return branches_of(query.this) + branches_of(query.expression)
    if not isinstance(query, exp.Select):
        raise NotCut
    return [query]


def outputs_of(query: exp.Expression) -> list[str]:
    return [each.alias_or_name for each in branches_of(query)[0].expressions]


def relations_in(query: exp.Expression) -> list[str]:
    return list(dict.fromkeys(each.name for each in query.find_all(exp.Table) if each.db == SCHEMA))


def merged(inputs: Iterable[tuple[str, tuple[str, ...]]]) -> Inputs:
    """Each relation once. One that is read twice must be read by the same columns."""
    found: dict[str, tuple[str, ...]] = {}
    for name, columns in inputs:
        if found.setdefault(name, columns) != columns:
            raise NotCut
    return tuple(found.items())


def free_name(name: str, taken: Iterable[str]) -> str:
    """
    >>> free_name("a", ["a", "b"])
    'a_'
    """
    taken = set(taken)
    while name in taken:
        name += "_"
    return name


def flat_names(wanted: Iterable[Name]) -> dict[Name, str]:
    """A name for each column of some sources: its own, if that is clear.

    >>> flat_names([("t", "a"), ("u", "a"), ("u", "b"), ("u", "_row_id")])
    {('t', 'a'): 't_a', ('u', 'a'): 'u_a', ('u', 'b'): 'b', ('u', '_row_id'): 'u__row_id'}
    """
    wanted = list(wanted)
    bare = [name for _, name in wanted]
    found: dict[Name, str] = {}
    for alias, name in wanted:
        clear = bare.count(name) == 1 and not name.startswith("_")
        flat = name if clear else f"{alias}_{name}".lstrip("_") or "column"
        while flat in found.values() or (not clear and flat in bare):
            flat += "_"
        found[alias, name] = flat
    return found


def columns_above(below: Keyed, alias: str, given: Sequence[str]) -> dict[Name, exp.Expression]:
    """What a block calls the columns of a keyed piece in its FROM, and what they are; some have names of their own."""
    visible = outputs_of(below.query)[: below.visible]
    kinds = types_of(below.query)
    known = [*given, *visible[len(given) :]]
    return {
        (alias, name): typed_column(alias, own, kind) for name, own, kind in zip(known, visible, kinds, strict=False)
    }


def shown_alone(query: exp.Query, name: str) -> list[tuple[str, str]] | None:
    """What a query calls the columns of a relation, if it does nothing but show some of them, each once.

    >>> from headrace.sql.dialect import parse_query
    >>> shown_alone(parse_query('SELECT g.b AS x, g.a AS a FROM "g" AS g'), "g")
    [('x', 'b'), ('a', 'a')]
    >>> shown_alone(parse_query('SELECT g.b AS x FROM "g" AS g WHERE g.a > 1'), "g")
    """
    if not isinstance(query, exp.Select) or any(
        value for part, value in query.args.items() if part not in ("expressions", "from_")
    ):
        return None
    source = query.args["from_"].this
    if not isinstance(source, exp.Table) or source.name != name:
        return None
    items = [each.unalias() for each in query.expressions]
    if not all(isinstance(each, exp.Column) for each in items) or len(set(items)) < len(items):
        return None
    return [(each.alias_or_name, item.name) for each, item in zip(query.expressions, items, strict=True)]


def with_columns(piece: Keyed, shown: Sequence[tuple[str, str]]) -> Keyed:
    """The piece with some of its columns under other names, in another order; the others are hidden."""
    hidden = [name for name in outputs_of(piece.query) if name not in {own for _, own in shown}]
    names = {own: name for name, own in shown} | {own: f"{HIDDEN}{at}" for at, own in enumerate(hidden)}
    columns = {each.alias_or_name: each.unalias() for each in piece.query.expressions}
    query = piece.query.copy()
    query.set("expressions", [aliased(columns[own].copy(), name) for own, name in names.items()])
    return dataclasses.replace(renamed_columns(piece, names, query), visible=len(shown))


def renamed_columns(piece: Keyed, names: Mapping[str, str], query: exp.Query) -> Keyed:
    """The piece of a query that has other names for its columns."""

    def new(name: str) -> str:
        return names.get(name, name)

    return dataclasses.replace(
        piece,
        query=query,
        key=tuple(map(new, piece.key)),
        rest=tuple(map(new, piece.rest)),
        clock=piece.clock and (new(piece.clock[0]), piece.clock[1]),
        adds=tuple((new(name), counted and new(counted)) for name, counted in piece.adds),
        averages=tuple((new(name), new(total), new(counted)) for name, total, counted in piece.averages),
        extremes=tuple((new(name), function) for name, function in piece.extremes),
        kept=tuple((name, new(own)) for name, own in piece.kept),
    )


def on_top(
    below: Keyed,
    alias: str,
    items: list[tuple[str, exp.Expression]],
    where: Sequence[exp.Expression],
    *,
    leaves_first: bool = False,
) -> Keyed:
    """A projection and a filter of a keyed piece, computed together with it.

    ``leaves_first``: whether the filter takes away none of the first rows that the piece needs.
    """
    kept = below.kept if leaves_first or not where else ()
    kinds = dict(zip(outputs_of(below.query), types_of(below.query), strict=True))
    outputs = list(items)
    names: dict[str, str] = {}
    for own in dict.fromkeys((*below.key, *below.rest, *(own for _, own in kept))):
        column = typed_column(alias, own, kinds[own])
        shown = next((name for name, item in items if item == column), None)
        if shown is None:
            shown = f"{HIDDEN}{len(outputs) - len(items)}"
            outputs.append((shown, column))
        names[own] = shown
    return dataclasses.replace(
        below,
        query=select(outputs, subquery(below.query.copy(), alias), where),
        visible=len(items),
        key=tuple(names[each] for each in below.key),
        rest=tuple(names[each] for each in below.rest),
        clock=below.clock and (names[below.clock[0]], below.clock[1]),
        kept=tuple((name, names[own]) for name, own in kept),
    )
