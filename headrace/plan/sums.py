"""Aggregates that can be had from their old value and a change alone: counts, and sums of exact numbers.

They need no row of the group but those that came and went, however large it is. So the groups are an internal table of
their own, and the query is a linear one over it:

    SELECT k, sum(x) + 1 FROM t GROUP BY k HAVING count(*) > 1

    G  SELECT k AS group_0, sum(x) AS value_0, count(*) AS value_1, … FROM t GROUP BY k
       SELECT group_0, value_0 + 1 FROM G WHERE value_1 > 1

A sum of nothing is NULL and not 0: beside each sum there is a count of what it is the sum of. And a group is gone when
it has no rows, so those are counted, too. A sum of floats is not exact: what was added cannot be taken away again.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.catalog import Relation
from headrace.plan.pieces import HIDDEN, Inputs, Keyed, select, table, typed_column
from headrace.sql.aggregates import is_aggregate, is_ordered_set
from headrace.sql.dialect import parse_expression
from headrace.sql.translate import type_of
from headrace.sql.typed import is_integer

Items = Sequence[tuple[str, exp.Expression]]


def additive(expressions: Sequence[exp.Expression]) -> list[exp.Expression] | None:
    """The aggregate calls in some expressions, each once; None if one of them is of another kind."""
    found: list[exp.Expression] = []
    for expression in expressions:
        for node in expression.walk():
            if not isinstance(node, exp.Anonymous) or not (is_aggregate(node.this) or is_ordered_set(node.this)):
                continue
            if isinstance(node.parent, exp.WithinGroup) or not _adds_up(node):
                return None
            call = node.parent if isinstance(node.parent, exp.Filter) else node
            if call not in found:
                found.append(call)
    return found


def _adds_up(call: exp.Anonymous) -> bool:
    name = str(call.this).lower()
    if name not in ("count", "sum") or len(call.expressions) != 1:
        return False
    (argument,) = call.expressions
    if isinstance(argument, (exp.Distinct, exp.Order)):
        return False
    if name == "count":
        return True
    kind = type_of(argument)
    return kind is not None and (is_integer(kind) or kind.name == "numeric")


def groups(
    calls: Sequence[exp.Expression], keys: Sequence[exp.Expression], source: exp.Expression, inputs: Inputs
) -> Keyed:
    """The groups with the values of the calls, all over a source."""
    named = [(f"group_{at}", key) for at, key in enumerate(keys)]
    values = [(f"value_{at}", call) for at, call in enumerate(calls)]
    hidden: list[tuple[str, exp.Expression]] = [(f"{HIDDEN}0", parse_expression("count(*)"))]
    adds: list[tuple[str, str | None]] = [(hidden[0][0], None)]
    for name, call in values:
        counted = None
        if str((call.this if isinstance(call, exp.Filter) else call).this).lower() == "sum":
            counted = f"{HIDDEN}{len(hidden)}"
            hidden.append((counted, _count_of(call)))
            adds.append((counted, None))
        adds.append((name, counted))
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
    )


def _count_of(call: exp.Expression) -> exp.Expression:
    copy = call.copy()
    (copy.this if isinstance(copy, exp.Filter) else copy).set("this", "count")
    return copy


def over_groups(
    relation: Relation,
    items: Items,
    having: exp.Expression | None,
    calls: Sequence[exp.Expression],
    keys: Sequence[exp.Expression],
) -> exp.Query:
    """The query over the table of its groups."""

    def stored(name: str) -> exp.Column:
        return typed_column(relation.name, name, relation.column(name).type)

    def replaced(node: exp.Expression) -> exp.Expression:
        if node in calls:
            return stored(f"value_{calls.index(node)}")
        return stored(f"group_{keys.index(node)}") if node in keys else node

    shown = [(name, each.copy().transform(replaced)) for name, each in items]
    where = [having.copy().transform(replaced)] if having is not None else []
    return select(shown, table(relation.name, relation.name), where)
