"""Intervals of one length are equal, although they are not the same: a month, 30 days, 720 hours.

So whatever looks for equal values, or puts them in order, does so by their lengths, here, while names are bound. A
group of them shows the one of which the most is not in months and days.

| what is written | what it becomes |
| --- | --- |
| `SELECT i, count(*) … GROUP BY i` | `SELECT min(i), count(*) … GROUP BY _hr_length(i)` |
| the same with `GROUPING SETS` | `CASE WHEN grouping(_hr_length(i)) = 0 THEN min(i) END` |
| `SELECT DISTINCT i …`, `… UNION …` | the same of a subquery, without the count |
| `… EXCEPT …`, `… INTERSECT …` | the same, `HAVING` rows of the one side only, or of both |
| `ORDER BY i`, `PARTITION BY i`, `DISTINCT ON (i)`, `count(DISTINCT i)` | the same of `_hr_length(i)` |

Comparisons, and the keys of joins, are left to those who translate them (:func:`headrace.sql.intervals.comparable`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlglot import exp

from headrace.sql.expressions import COLUMN_TYPE
from headrace.sql.grouping import is_own_aggregate
from headrace.sql.typed import INTERVAL, TEXT
from headrace.types import SqlType

FUNCTION = "_hr_length"
ALIAS = "_hr_equal"
"""Of the subquery whose rows are taken once"""
SIDE = "side"
"""0 for the rows on the left of EXCEPT or INTERSECT, 1 for those on the right"""

Kind = Callable[[exp.Expression], SqlType | None]
Types = Sequence[SqlType | None]


def length(node: exp.Expression) -> exp.Expression:
    return exp.Anonymous(this=FUNCTION, expressions=[node])


def _by_length(node: exp.Expression, kind_of: Kind) -> exp.Expression:
    return length(node) if kind_of(node) == INTERVAL else node


# --- parts of expressions ---------------------------------------------------------------------------------------


def in_expression(node: exp.Expression, kind_of: Kind) -> None:
    """What a window, or a count of different values, goes by."""
    if isinstance(node, exp.Window):
        node.set("partition_by", [_by_length(each, kind_of) for each in node.args.get("partition_by") or []])
        for each in node.args["order"].expressions if node.args.get("order") is not None else []:
            each.set("this", _by_length(each.this, kind_of))
    elif isinstance(node, exp.Anonymous) and node.this == "count" and len(node.expressions) == 1:
        (argument,) = node.expressions
        if isinstance(argument, exp.Distinct) and len(argument.expressions) == 1:
            argument.set("expressions", [_by_length(argument.expressions[0], kind_of)])


# --- SELECT -----------------------------------------------------------------------------------------------------


def in_select(node: exp.Select, kinds: Types, kind_of: Kind) -> None:
    _group(node, kind_of)
    distinct, order = node.args.get("distinct"), node.args.get("order")
    on = distinct.args.get("on") if distinct is not None else None
    if on is not None:
        on.set("expressions", [_ordered(each, node, kinds, kind_of) for each in on.expressions])
    if order is not None and (distinct is None or on is not None):
        for each in order.expressions:
            each.set("this", _ordered(each.this, node, kinds, kind_of))


def _ordered(item: exp.Expression, node: exp.Select, kinds: Types, kind_of: Kind) -> exp.Expression:
    """What to sort by; a number is that of an output."""
    if isinstance(item, exp.Literal):
        number = int(item.name) - 1
        return length(node.expressions[number].unalias().copy()) if kinds[number] == INTERVAL else item
    return _by_length(item, kind_of)


def _group(node: exp.Select, kind_of: Kind) -> None:
    group = node.args.get("group")
    if group is None:
        return
    owners = [group, *group.find_all(*_SETS, exp.Tuple)]
    listed = [each for owner in owners for each in owner.expressions]
    plain = [each for each in listed if not isinstance(each, (*_SETS, exp.Tuple, exp.Literal))]
    keys = [each for each in plain if kind_of(each) == INTERVAL]
    if not keys:
        return
    in_sets = any(isinstance(each, _SETS) for each in listed)
    # Only what looks at the group's rows is shown of them, and not what an aggregate takes.
    items = [(_shown(each.unalias(), keys, in_sets), each.alias) for each in node.expressions]
    node.set("expressions", [exp.alias_(each, name, quoted=True) for each, name in items])
    having, order = node.args.get("having"), node.args.get("order")
    if having is not None:
        having.set("this", _shown(having.this, keys, in_sets))
    for each in order.expressions if order is not None else []:
        each.set("this", _shown(each.this, keys, in_sets))
    for owner in owners:
        owner.set("expressions", [length(each) if each in keys else each for each in owner.expressions])


_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)


def _shown(node: exp.Expression, keys: list[exp.Expression], in_sets: bool) -> exp.Expression:
    if node in keys:
        least = exp.Anonymous(this="min", expressions=[node.copy()])
        if not in_sets:
            return least
        there = exp.EQ(this=_grouping([length(node.copy())]), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=there, true=least)])
    if isinstance(node, exp.Anonymous) and node.this == "grouping":
        return _grouping([length(each.copy()) if each in keys else each for each in node.expressions])
    if isinstance(node, exp.Query) or is_own_aggregate(node):
        return node
    for key, value in list(node.args.items()):
        if isinstance(value, exp.Expression):
            node.set(key, _shown(value, keys, in_sets))
        elif isinstance(value, list):
            node.set(key, [_shown(each, keys, in_sets) if isinstance(each, exp.Expression) else each for each in value])
    return node


def _grouping(arguments: list[exp.Expression]) -> exp.Expression:
    return exp.Anonymous(this="grouping", expressions=arguments)


# --- rows that are taken once -----------------------------------------------------------------------------------


def each_once(node: exp.Query, names: Sequence[str], kinds: Types, kind_of: Kind) -> exp.Query:
    """DISTINCT, UNION, EXCEPT or INTERSECT, if there are intervals among the columns."""
    if INTERVAL not in kinds or not node.args.get("distinct"):
        return node
    if isinstance(node, exp.Select) and node.args["distinct"].args.get("on") is not None:
        return node
    order = [_number(each.this, node) for each in node.args["order"].expressions] if node.args.get("order") else []
    columns = [f"c{number}" for number in range(len(kinds))]
    outer = exp.Select()
    for clause in ("with_", "order", "limit", "offset"):
        if node.args.get(clause) is not None:
            outer.set(clause, node.args[clause])
            node.set(clause, None)
    sides = isinstance(node, (exp.Except, exp.Intersect))
    inner = _with_sides(node, columns, kinds, kind_of) if sides else node
    inner.set("distinct", False if isinstance(inner, exp.SetOperation) else None)
    named = [*columns, SIDE] if sides else columns
    alias = exp.TableAlias(
        this=exp.to_identifier(ALIAS, quoted=True), columns=[exp.to_identifier(each, quoted=True) for each in named]
    )
    outer.set("from_", exp.From(this=exp.Subquery(this=inner, alias=alias)))
    keys = [_column(name, kind or TEXT) for name, kind in zip(columns, kinds, strict=True)]
    left = exp.EQ(this=_column(SIDE, SqlType("integer")), expression=exp.Literal.number(0))
    shown: list[exp.Expression] = []
    for key in keys:
        if key.meta[COLUMN_TYPE] != INTERVAL:
            shown.append(key.copy())
            continue
        least: exp.Expression = exp.Anonymous(this="min", expressions=[key.copy()])
        shown.append(exp.Filter(this=least, expression=exp.Where(this=left.copy())) if sides else least)
    outer.set("expressions", [exp.alias_(each, name, quoted=True) for each, name in zip(shown, names, strict=True)])
    grouped = [length(key) if key.meta[COLUMN_TYPE] == INTERVAL else key for key in keys]
    outer.set("group", exp.Group(expressions=[each.copy() for each in grouped]))
    if sides:
        outer.set("having", exp.Having(this=_on_sides(both=isinstance(node, exp.Intersect))))
    for ordered, number in zip(outer.args["order"].expressions if order else [], order, strict=True):
        if kinds[number - 1] == INTERVAL:
            ordered.set("this", length(shown[number - 1].copy()))
        else:
            ordered.set("this", exp.Literal.number(number))
    return outer


def _number(item: exp.Expression, node: exp.Query) -> int:
    """Which output it is: in an order of DISTINCT there is nothing else."""
    if isinstance(item, exp.Literal):
        return int(item.name)
    outputs = [each.unalias().unnest() for each in node.expressions]
    return outputs.index(item.unnest()) + 1


def _with_sides(node: exp.SetOperation, columns: list[str], kinds: Types, kind_of: Kind) -> exp.Union:
    branches = []
    for number, side in enumerate((node.this, node.expression)):
        alias = exp.TableAlias(
            this=exp.to_identifier(ALIAS, quoted=True),
            columns=[exp.to_identifier(each, quoted=True) for each in columns],
        )
        query = (side.this if isinstance(side, exp.Subquery) and not side.alias else side).copy()
        if isinstance(query, exp.Select):
            _settle(query, kinds, kind_of)
        branch = exp.Select()
        branch.set("from_", exp.From(this=exp.Subquery(this=query, alias=alias)))
        items = [
            exp.alias_(_column(each, kind or TEXT), each, quoted=True)
            for each, kind in zip(columns, kinds, strict=True)
        ]
        branch.set("expressions", [*items, exp.alias_(exp.Literal.number(number), SIDE, quoted=True)])
        branches.append(branch)
    return exp.Union(this=branches[0], expression=branches[1], distinct=False)


def _settle(query: exp.Select, kinds: Types, kind_of: Kind) -> None:
    """Constants take the type of the other side, which they no longer stand beside."""
    for item, kind in zip(query.expressions, kinds, strict=True):
        if kind == INTERVAL and kind_of(item.unalias()) is None:
            item.set("this", exp.Cast(this=item.this, to=exp.DataType.build("INTERVAL")))


def _on_sides(*, both: bool) -> exp.Expression:
    def is_side(function: str, number: int) -> exp.Expression:
        call = exp.Anonymous(this=function, expressions=[_column(SIDE, SqlType("integer"))])
        return exp.EQ(this=call, expression=exp.Literal.number(number))

    first = is_side("min", 0)
    return (
        exp.And(this=first, expression=is_side("max", 1)) if both else exp.And(this=first, expression=is_side("max", 0))
    )


def _column(name: str, kind: SqlType) -> exp.Column:
    node = exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(ALIAS, quoted=True))
    node.meta[COLUMN_TYPE] = kind
    return node
