"""Conditions that become true or false by themselves: a time of the row compared with now().

    … WHERE at > now() - INTERVAL '1 hour'

is, for each row, true until a moment that can be computed from it: now() < at + INTERVAL '1 hour'. So the rows are
arranged by that moment, and when the clock goes on only those between the old and the new time come or go. The piece
lets rows pass as the clock stands; the clock is not a part of its query, but what the engine has in its manifest.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.plan.build import cast_to
from headrace.sql.intervals import parse_interval
from headrace.sql.translate import type_of
from headrace.sql.typed import TIMESTAMPTZ

NOW = ("now", "current_timestamp")

COMPARISONS: dict[type[exp.Expression], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}

Moment = tuple[exp.Expression, str]
"""A time that depends on the row, and how now() must compare with it."""


def has_now(node: exp.Expression) -> bool:
    return any(is_now(each) for each in node.find_all(exp.Anonymous))


def is_now(node: exp.Expression) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in NOW


def moments(where: Sequence[exp.Expression]) -> tuple[list[exp.Expression], list[Moment]]:
    """The conditions that do not depend on the clock, or not in a way that is known; and those that do."""
    others: list[exp.Expression] = []
    found: list[Moment] = []
    for condition in where:
        parts = _parts(condition)
        solved = [_solved(each) for each in parts]
        if any(each is None for each in solved):
            others.append(condition)
        else:
            found += [each for each in solved if each is not None]
    return others, found


def _parts(condition: exp.Expression) -> list[exp.Expression]:
    if not isinstance(condition, exp.Between) or not has_now(condition):
        return [condition]
    low, high = condition.args["low"], condition.args["high"]
    return [
        exp.GTE(this=condition.this.copy(), expression=low.copy()),
        exp.LTE(this=condition.this.copy(), expression=high.copy()),
    ]


def _solved(condition: exp.Expression) -> Moment | None:
    """
    >>> from headrace.sql.dialect import parse_expression
    >>> _solved(parse_expression("now() - CAST('1 hour' AS INTERVAL) < CAST('2026-01-01' AS TIMESTAMPTZ)"))[1]
    '<'
    """
    operator = COMPARISONS.get(type(condition))
    if operator is None:
        return None
    one, other = condition.this.unnest(), condition.expression.unnest()
    if has_now(other):
        one, other, operator = other, one, FLIPPED[operator]
    kind = type_of(other) if not has_now(other) and has_now(one) else None
    if kind is None or kind.name not in ("timestamp", "timestamptz", "date"):
        return None
    row = cast_to(other.copy(), TIMESTAMPTZ)
    if is_now(one):
        return row, operator
    if not isinstance(one, (exp.Add, exp.Sub)) or not is_now(one.this.unnest()) or not _is_span(one.expression):
        return None
    opposite = exp.Sub if isinstance(one, exp.Add) else exp.Add
    return opposite(this=row, expression=one.expression.copy()), operator


def _is_span(node: exp.Expression) -> bool:
    """Whether it is a constant interval that has no months, which are of no fixed length."""
    node = node.unnest()
    literal = node.this if isinstance(node, (exp.Cast, exp.Interval)) else None
    if not isinstance(literal, exp.Literal) or not literal.is_string or not node.is_type("interval"):
        return False
    return not parse_interval(literal.name).months
