"""Conditions that become true or false by themselves: a time of the row compared with now().

    … WHERE at > now() - INTERVAL '1 hour'

is, for each row, true until a moment that can be computed from it: now() < at + INTERVAL '1 hour'. So the rows are
arranged by that moment, and when the clock goes on only those between the old and the new time come or go. The piece
lets rows pass as the clock stands; the clock is not a part of its query, but what the engine has in its manifest.

A watermark is a clock that goes on with the rows of a relation (:mod:`headrace.plan.closing`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlglot import exp

from headrace.plan.build import NOW, cast_to
from headrace.sql.translate import type_of
from headrace.sql.typed import TIMESTAMPTZ
from headrace.sql.watermarks import constant_micros, watermark_of

COMPARISONS: dict[type[exp.Expression], str] = {exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">="}
FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}


class Moment(NamedTuple):
    """A time that depends on the row, and how the clock must compare with it."""

    of_row: exp.Expression
    comparison: str
    watermark: int | None
    """The relation whose watermark is the clock; None: now() is."""


def has_now(node: exp.Expression) -> bool:
    return any(is_now(each) for each in node.find_all(exp.Anonymous))


def is_now(node: exp.Expression) -> bool:
    """Whether it is a clock: now(), or a watermark."""
    return isinstance(node, exp.Anonymous) and (str(node.this).lower() in NOW or watermark_of(node) is not None)


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
    if not isinstance(condition, exp.Between) or not has_now(condition) or condition.args.get("symmetric"):
        return [condition]  # which of two ends is the lower one may change with the clock
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
        return Moment(row, operator, watermark_of(one))
    if not isinstance(one, (exp.Add, exp.Sub)) or constant_micros(one.expression) is None:
        return None
    clock = one.this.unnest()
    if not is_now(clock):
        return None
    opposite = exp.Sub if isinstance(one, exp.Add) else exp.Add
    return Moment(opposite(this=row, expression=one.expression.copy()), operator, watermark_of(clock))
