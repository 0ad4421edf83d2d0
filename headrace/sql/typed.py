"""Spark SQL text together with the SQL type it has, and the rules by which types meet.

A string constant and NULL have no type of their own in PostgreSQL: they take the type of their surroundings. Here
they are :class:`Typed` with ``type=None``, and the string's value is kept so that it can be converted when the
surroundings are known.

>>> str(common_type("CASE", [SqlType("smallint"), None, SqlType("bigint")]))
'bigint'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from headrace.errors import TypeMismatch
from headrace.types import DEFAULT_PRECISION, DEFAULT_SCALE, INTEGERS, SqlType, array_of, map_of

BOOLEAN, SMALLINT, INTEGER, BIGINT = SqlType("boolean"), SqlType("smallint"), SqlType("integer"), SqlType("bigint")
NUMERIC, REAL, DOUBLE = SqlType("numeric"), SqlType("real"), SqlType("double precision")
TEXT, BYTEA, JSONB, UUID = SqlType("varchar"), SqlType("bytea"), SqlType("jsonb"), SqlType("uuid")
DATE, TIMESTAMP, TIMESTAMPTZ, INTERVAL, TIME = (
    SqlType("date"),
    SqlType("timestamp"),
    SqlType("timestamptz"),
    SqlType("interval"),
    SqlType("time"),
)

NUMBERS = (*INTEGERS, "numeric", "real", "double precision")
"""From the narrowest to the widest: each converts to the next without being asked."""

MOMENTS = ("date", "timestamp", "timestamptz")

MAX_DIGITS = 38


Number = int | str
"""Spark SQL, or a number that is known without it."""


class Parts(NamedTuple):
    """Of an interval, in the order of its fields in Spark. See headrace.sql.intervals."""

    length: Number
    months: Number
    days: Number


@dataclass(frozen=True)
class Typed:
    sql: str
    type: SqlType | None
    literal: str | None = None
    """The value of a string constant that has no type yet."""
    parts: Parts | None = None
    """Of an interval, where they are known without taking ``sql`` apart."""
    decimals: str | None = None
    """Of a numeric that comes from a division: Spark SQL for how many are shown, by its operands. Not that of a stored
    column, and only for results of a query: what is computed must not depend on it (:mod:`headrace.sql.decimals`)."""


def describe(kind: SqlType | None) -> str:
    return "unknown" if kind is None else str(kind)


def is_number(kind: SqlType | None) -> bool:
    return kind is not None and kind.name in NUMBERS


def is_integer(kind: SqlType | None) -> bool:
    return kind is not None and kind.name in INTEGERS


def is_float(kind: SqlType | None) -> bool:
    return kind is not None and kind.name in ("real", "double precision")


def is_moment(kind: SqlType | None) -> bool:
    return kind is not None and kind.name in MOMENTS


def is_time(kind: SqlType | None) -> bool:
    return kind is not None and kind.name == "time"


def is_text(kind: SqlType | None) -> bool:
    return kind is not None and kind.name == "varchar"


def digits(kind: SqlType) -> tuple[int, int]:
    """Precision and scale of an exact number as Spark computes with it."""
    if kind.name == "numeric":
        return kind.precision or DEFAULT_PRECISION, DEFAULT_SCALE if kind.scale is None else kind.scale
    return {"smallint": 5, "integer": 10, "bigint": 19}[kind.name], 0


def numeric(
    precision: int, scale: int, *operands: SqlType, free: bool = False, quotient: tuple[int, int] | None = None
) -> SqlType:
    """Spark's bounded decimal type (``spark.sql.decimalOperations.allowPrecisionLoss=false``).

    Its scale is nobody's choice if that holds of an operand, and then all of Spark's digits are there for it. Beside a
    quotient, a value has as many decimals as that has, or as the others have, if those are more."""
    precision, scale = min(precision, MAX_DIGITS), min(scale, MAX_DIGITS)
    quotient = quotient or _shown_together(operands)
    free = quotient is None and (free or any(map(is_free, operands)))
    return SqlType("numeric", precision=precision, scale=scale, free=free, quotient=quotient)


def is_free(kind: SqlType) -> bool:
    """Whether the zeros at the end of a numeric say nothing."""
    return kind.name == "numeric" and (kind.precision is None or kind.free)


def least_shown(kind: SqlType) -> int:
    """Decimals that are shown of every value, as far as its type knows."""
    if kind.quotient is not None:
        return sum(kind.quotient)
    return 0 if is_free(kind) else digits(kind)[1]


def _shown_together(kinds: Sequence[SqlType]) -> tuple[int, int] | None:
    if all(kind.quotient is None for kind in kinds):
        return None
    more = max(kind.quotient[1] for kind in kinds if kind.quotient is not None)
    return max(0, *(least_shown(kind) - more for kind in kinds)), more


def undeclared(kind: SqlType) -> SqlType:
    """The type of what a function makes of such a value."""
    if kind.name == "time":
        return TIME
    return kind if kind.modifier is None else replace(kind, modifier=None)


def loosened(kind: SqlType) -> SqlType:
    """Without a declared length or digits; a varchar stays one."""
    if kind.name == "array":
        return array_of(loosened(kind.element))
    if kind.name == "time":
        return TIME
    return kind if kind.modifier in (None, -1) else replace(kind, modifier=-1 if kind.name == "varchar" else None)


def _agreed(left: SqlType, right: SqlType) -> SqlType:
    """Of two that are equal but for what was declared."""
    if left.name == "array":
        return array_of(_agreed(left.element, right.element))
    if left.name == "varchar":  # the first says what it is
        return left if right.modifier in (None, left.modifier) else loosened(left)
    kind = left if left.modifier == right.modifier else undeclared(left)
    if (quotient := _shown_together((left, right))) is not None:
        return replace(undeclared(kind), free=False, quotient=quotient)
    return replace(kind, free=left.free or right.free)


def widen(left: SqlType, right: SqlType) -> SqlType | None:
    """The type to which both convert without being asked, or None."""
    if left == right:
        return _agreed(left, right)
    if is_number(left) and is_number(right):
        wider, narrower = sorted((left, right), key=lambda kind: NUMBERS.index(kind.name), reverse=True)
        if wider.name != "numeric":
            return wider
        (p1, s1), (p2, s2) = digits(wider), digits(narrower)
        scale = max(s1, s2)
        exact = numeric(max(p1 - s1, p2 - s2) + scale, scale, wider, narrower)
        return NUMERIC if NUMERIC in (left, right) and digits(exact) == digits(NUMERIC) else exact
    if is_time(left) and is_time(right):
        return TIME
    if is_moment(left) and is_moment(right):
        return max(left, right, key=lambda kind: MOMENTS.index(kind.name))
    if left.name == right.name == "array":
        element = widen(left.element, right.element)
        return None if element is None else array_of(element)
    if left.name == right.name == "map":
        key, value = (widen(a, b) for (_, a), (_, b) in zip(left.fields, right.fields, strict=True))
        return None if key is None or value is None else map_of(key, value)
    if left.name == right.name == "struct" and len(left.fields) == len(right.fields):
        inner = [widen(a, b) for (_, a), (_, b) in zip(left.fields, right.fields, strict=True)]
        names = [name for name, _ in left.fields]
        return None if None in inner else SqlType("struct", fields=tuple(zip(names, inner, strict=True)))
    return None


def common_type(construct: str, kinds: Sequence[SqlType | None], position: int | None = None) -> SqlType | None:
    """The type of a construct whose parts must agree; None if no part has a type."""
    result: SqlType | None = None
    for kind in kinds:
        if kind is None:
            continue
        wider = kind if result is None else widen(result, kind)
        if wider is None:
            raise TypeMismatch(f"{construct} types {result} and {kind} cannot be matched", position=position)
        result = wider
    return result if result is None or None not in kinds else loosened(result)


def converts_implicitly(source: SqlType | None, target: SqlType) -> bool:
    """Whether a function that wants the target takes the source."""
    if source is None or source == target:
        return True
    wider = widen(source, target)
    return wider is not None and wider.name == target.name and (wider.name != "array" or wider == target)
