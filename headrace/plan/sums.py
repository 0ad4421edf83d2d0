"""Aggregates that can be had from their old value and a change alone: counts, sums and averages of exact numbers, and
minima and maxima as long as they do not go.

They need no row of the group but those that came and went, however large it is. So the groups are an internal table of
their own, and the query is a linear one over it:

    SELECT k, sum(x) + 1 FROM t GROUP BY k HAVING count(*) > 1

    G  SELECT k AS group_0, sum(x) AS value_0, count(*) AS value_1, … FROM t GROUP BY k
       SELECT group_0, value_0 + 1 FROM G WHERE value_1 > 1

A sum of nothing is NULL and not 0: beside each sum there is a count of what it is the sum of. And a group is gone when
it has no rows, so those are counted, too. A sum of floats is not exact: what was added cannot be taken away again.
Beside an average there are a sum and a count, and it is what an average of their rows would be, to the last digit.

A maximum is the greater of the old one and what came. If rows may go, so may the maximum: then the next greatest is
somewhere among the rows of the group. So what is grouped is an arrangement by the groups, and the rows of those that
have lost one are read. Where rows only come, none is needed.

With DISTINCT the same is done twice, first for the groups and the values in them:

    SELECT k, count(DISTINCT x) FROM t GROUP BY k

    V  SELECT k AS group_0, x AS group_1, count(*) AS value_0, … FROM t GROUP BY k, x
    G  SELECT group_0, count(group_1) FILTER (WHERE value_0 > 0) AS value_0, … FROM V GROUP BY group_0
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog import Relation
from headrace.plan.build import cast_to
from headrace.plan.pieces import HIDDEN, SOURCE, Inputs, Keyed, select, typed_column
from headrace.sql.aggregates import is_aggregate, is_ordered_set
from headrace.sql.dialect import parse_expression
from headrace.sql.translate import type_of
from headrace.sql.typed import INTERVAL, is_integer, numeric
from headrace.types import SqlType

Items = Sequence[tuple[str, exp.Expression]]

AVERAGED = numeric(35, 16)
"""As what an average sums up its values."""


def calls_in(expressions: Sequence[exp.Expression]) -> list[exp.Expression] | None:
    """The aggregate calls in some expressions, each once, with their FILTER; None if one of them has WITHIN GROUP."""
    found: list[exp.Expression] = []
    for expression in expressions:
        for node in expression.walk():
            if not isinstance(node, exp.Anonymous) or not (is_aggregate(node.this) or is_ordered_set(node.this)):
                continue
            if isinstance(node.parent, exp.WithinGroup):
                return None
            call = node.parent if isinstance(node.parent, exp.Filter) else node
            if call not in found:
                found.append(call)
    return found


def _name(call: exp.Expression) -> str:
    return str(_function(call).this).lower()


def _function(call: exp.Expression) -> exp.Anonymous:
    return call.this if isinstance(call, exp.Filter) else call


def _argument(call: exp.Expression) -> exp.Expression | None:
    """Its only argument, without DISTINCT; None if there are several, or an ORDER BY."""
    listed = _function(call).expressions
    if len(listed) != 1 or isinstance(listed[0], exp.Order):
        return None
    if not isinstance(listed[0], exp.Distinct):
        return listed[0]
    inner = listed[0].expressions
    return None if len(inner) != 1 or isinstance(inner[0], (exp.Order, exp.Tuple)) else inner[0]


def adds_up(call: exp.Expression) -> bool:
    argument = _argument(call)
    if argument is None or _name(call) not in ("count", "sum", "avg"):
        return False
    kind = type_of(argument) if not isinstance(argument, exp.Star) else None
    if distinct_argument(call) is not None and (kind is None or kind.name in ("array", "struct", "map")):
        return False
    return _name(call) == "count" or (kind is not None and (is_integer(kind) or kind.name == "numeric"))


def is_extreme(call: exp.Expression) -> bool:
    """Whether it is a minimum or maximum of values that can be stored in their order."""
    argument = _argument(call)
    if argument is None or _name(call) not in ("min", "max"):
        return False
    kind = type_of(argument)
    return kind is not None and kind.name not in ("array", "struct", "map")


def is_kept(call: exp.Expression) -> bool:
    """Whether it is one that can be kept beside the sums of its group: of values that are the same if they are equal,
    so that it does not matter which of them was there first."""
    return is_extreme(call) and type_of(_argument(call)) != INTERVAL


def distinct_argument(call: exp.Expression) -> exp.Expression | None:
    """What it takes each value of once."""
    if _name(call) in ("min", "max") or not isinstance(_function(call).expressions[0], exp.Distinct):
        return None
    return _argument(call)


def groups(
    calls: Sequence[exp.Expression], keys: Sequence[exp.Expression], source: exp.Expression, inputs: Inputs
) -> Keyed:
    """The groups with the values of the calls, all over a source."""
    named = [(f"group_{at}", key) for at, key in enumerate(keys)]
    values = [(f"value_{at}", call) for at, call in enumerate(calls)]
    hidden: list[tuple[str, exp.Expression]] = [(f"{HIDDEN}0", parse_expression("count(*)"))]
    adds: list[tuple[str, str | None]] = [(hidden[0][0], None)]
    averages: list[tuple[str, str, str]] = []
    extremes: list[tuple[str, str]] = []
    for name, call in values:
        if _name(call) in ("min", "max"):
            extremes.append((name, _name(call)))
            continue
        if _name(call) == "count":
            adds.append((name, None))
            continue
        counted = f"{HIDDEN}{len(hidden)}"
        hidden.append((counted, _changed(call, "count")))
        adds.append((counted, None))
        if _name(call) == "sum":
            adds.append((name, counted))
            continue
        total = f"{HIDDEN}{len(hidden)}"
        hidden.append((total, _changed(call, "sum", AVERAGED)))
        adds.append((total, counted))
        averages.append((name, total, counted))
    query = select([*named, *values, *hidden], source)
    if keys:
        query.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    return Keyed(
        query=query,
        visible=len(named) + len(values),
        key=tuple(name for name, _ in named),
        rest=(),
        inputs=inputs,
        describe="aggregate",
        adds=tuple(adds),
        averages=tuple(averages),
        extremes=tuple(extremes),
    )


def _changed(call: exp.Expression, name: str, kind: SqlType | None = None) -> exp.Expression:
    """Another function of the same values, or of those as another type."""
    copy = call.copy()
    function = _function(copy)
    function.set("this", name)
    if kind is not None:
        function.set("expressions", [cast_to(each.copy(), kind) for each in function.expressions])
    return copy


def distinct_groups(calls: Sequence[exp.Expression], keys: int) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """For calls with DISTINCT of the same argument: what to count of each group and value, and the calls over that."""
    counts: list[exp.Expression] = []
    outer: list[exp.Expression] = []
    for call in calls:
        count = parse_expression("count(*)")
        if isinstance(call, exp.Filter):
            count = exp.Filter(this=count, expression=call.expression.copy())
        if count not in counts:
            counts.append(count)
        value = f'"{SOURCE}"."group_{keys}"'
        there = f'"{SOURCE}"."value_{counts.index(count)}" > 0'
        outer.append(parse_expression(f"{_name(call)}({value}) FILTER (WHERE {there})"))
    return counts, outer


@dataclass(frozen=True, kw_only=True)
class Part:
    """Some of the aggregates of a block, all over the same groups."""

    source: exp.Expression
    """What stands in FROM."""
    alias: str
    calls: tuple[tuple[exp.Expression, str], ...]
    """The aggregates, and which columns they are."""
    input: tuple[str, tuple[str, ...]]
    types: Mapping[str, SqlType]
    stored: Relation | None = None
    """The relation that it is, if it is one."""

    @staticmethod
    def of_groups(relation: Relation, source: exp.Expression, calls: Sequence[tuple[exp.Expression, str]]) -> Part:
        types = {each.name: each.type for each in relation.columns}
        return Part(
            source=source,
            alias=relation.name,
            calls=tuple(calls),
            input=(relation.name, ()),
            types=types,
            stored=relation,
        )

    @property
    def relation(self) -> Relation:
        assert self.stored is not None
        return self.stored

    def column(self, name: str) -> exp.Column:
        return typed_column(self.alias, name, self.types[name])


def over_parts(
    parts: Sequence[Part], items: Items, having: exp.Expression | None, keys: Sequence[exp.Expression]
) -> exp.Select:
    """The query over its parts, which have a row for each group."""
    first = parts[0]
    known = [(call, part.column(name)) for part in parts for call, name in part.calls]
    known += [(key, first.column(f"group_{at}")) for at, key in enumerate(keys)]

    def replaced(node: exp.Expression) -> exp.Expression:
        return next((column.copy() for each, column in known if each == node), node)

    shown = [(name, each.copy().transform(replaced)) for name, each in items]
    where = [having.copy().transform(replaced)] if having is not None else []
    joins = []
    for part in parts[1:]:
        same = [
            exp.NullSafeEQ(this=first.column(f"group_{at}"), expression=part.column(f"group_{at}"))
            for at in range(len(keys))
        ]
        on = exp.and_(*same) if same else None
        joins.append(exp.Join(this=part.source, on=on) if on else exp.Join(this=part.source, kind="CROSS"))
    return select(shown, first.source, where, joins)
