"""WATERMARK FOR at AS at - INTERVAL '5 seconds': what it says, and how a query names the watermark of a relation.

The query of a view with EMIT ON WINDOW CLOSE has the condition that the watermark has passed. It is written as a call
that nobody else writes, and that the engine answers as it answers now(): ``_hr_watermark(3)``, of relation 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX, Column, Lateness
from headrace.errors import InvalidDefinition, Unsupported
from headrace.intervals import parse_interval
from headrace.sql.bind import bind_expression
from headrace.sql.dialect import parse_expression
from headrace.sql.statements import Watermark

FUNCTION = f"{INTERNAL_PREFIX}watermark"


def lateness_of(watermark: Watermark, columns: Sequence[Column], relation: str) -> Lateness:
    """What the clause says, or why it does not say it."""
    bound = bind_expression(parse_expression(watermark.expression), columns, relation)
    kind = next(column.type for column in columns if column.name == watermark.column)
    if kind.name not in ("timestamp", "timestamptz"):
        raise InvalidDefinition(
            f'column "{watermark.column}" named in WATERMARK is of type {kind}', hint="it must be a timestamp"
        )
    delay: int | None = 0
    node = bound.unnest()
    if isinstance(node, exp.Sub):
        node, delay = node.this.unnest(), constant_micros(node.expression)
    if not isinstance(node, exp.Column) or node.name != watermark.column or delay is None or delay < 0:
        raise Unsupported(
            "a WATERMARK that is not its column, less a constant interval without months, is not supported",
            hint=f"WATERMARK FOR {watermark.column} AS {watermark.column} - INTERVAL '5 seconds'",
        )
    return Lateness(column=watermark.column, delay=delay)


def constant_micros(node: exp.Expression) -> int | None:
    """The microseconds of a constant interval; None if it is not one, or has months, which are of no fixed length."""
    node = node.unnest()
    literal = node.this if isinstance(node, (exp.Cast, exp.Interval)) else None
    if not isinstance(literal, exp.Literal) or not literal.is_string or not node.is_type("interval"):
        return None
    span = parse_interval(literal.name)
    return None if span.months else span.length


def watermark_call(relation_id: int) -> exp.Anonymous:
    return exp.Anonymous(this=FUNCTION, expressions=[exp.Literal.number(relation_id)])


def watermark_of(node: exp.Expression) -> int | None:
    """The relation whose watermark is named; None if it is another call."""
    if not isinstance(node, exp.Anonymous) or str(node.this).lower() != FUNCTION:
        return None
    return int(node.expressions[0].name)
