"""Operators: which types they take, which they give, and how Spark says them.

>>> arithmetic("/", Typed("`a`", INTEGER), Typed("`b`", INTEGER)).sql
'CAST((`a` DIV `b`) AS INT)'
"""

from __future__ import annotations

from headrace.decimals import SIGNIFICANT
from headrace.errors import TypeMismatch, UndefinedFunction, Unsupported
from headrace.sql import intervals, times, zoned
from headrace.sql.casts import cast
from headrace.sql.decimals import is_dynamic, quotient_decimals, shown_decimals
from headrace.sql.typed import (
    BOOLEAN,
    BYTEA,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    MAX_DIGITS,
    NUMERIC,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Typed,
    common_type,
    describe,
    digits,
    is_float,
    is_integer,
    is_moment,
    is_number,
    is_text,
    is_time,
    least_shown,
    loosened,
    numeric,
    undeclared,
    widen,
)
from headrace.types import SqlType, array_of


def no_operator(symbol: str, left: SqlType | None, right: SqlType | None, position: int | None = None) -> TypeMismatch:
    return UndefinedFunction(
        f"operator does not exist: {describe(left)} {symbol} {describe(right)}",
        hint="No operator matches the given types. You might need to add explicit type casts.",
        position=position,
    )


# --- arithmetic -------------------------------------------------------------------------------------------------


def arithmetic(symbol: str, left: Typed, right: Typed) -> Typed:
    left, right = _give_types(symbol, left, right)
    if is_number(left.type) and is_number(right.type):
        return _numbers(symbol, left, right)
    if is_time(left.type) or is_time(right.type):
        return _times(symbol, left, right)
    if symbol in "+-" and (is_moment(left.type) or is_moment(right.type)):
        return _moments(symbol, left, right)
    if INTERVAL in (left.type, right.type):
        return _intervals(symbol, left, right)
    raise no_operator(symbol, left.type, right.type)


def _give_types(symbol: str, left: Typed, right: Typed) -> tuple[Typed, Typed]:
    """A constant without a type takes the type of the other side, or the one that makes sense beside it."""
    if left.type is None and right.type is None:
        raise TypeMismatch(f"operator is not unique: unknown {symbol} unknown", hint="add explicit type casts")

    def beside(kind: SqlType) -> SqlType:
        if (is_moment(kind) or is_time(kind)) and symbol == "+":
            return INTERVAL
        if (kind == INTERVAL or is_time(kind)) and symbol in "*/":
            return DOUBLE
        return kind

    if left.type is None:
        return cast(left, beside(right.type)), right
    if right.type is None:
        return left, cast(right, beside(left.type))
    return left, right


def _numbers(symbol: str, left: Typed, right: Typed) -> Typed:
    kind = widen(left.type, right.type)
    if is_float(kind):
        if left.type != right.type:
            kind = DOUBLE
        if symbol == "%":
            raise no_operator(symbol, left.type, right.type)
        return Typed(f"({cast(left, kind).sql} {symbol} {cast(right, kind).sql})", kind)
    if is_integer(kind):
        left, right = cast(left, kind), cast(right, kind)
        if symbol == "/":
            return Typed(f"CAST(({left.sql} DIV {right.sql}) AS {kind.spark})", kind)
        return Typed(f"({left.sql} {symbol} {right.sql})", kind)
    return _decimals(symbol, left, right)


def _decimals(symbol: str, left: Typed, right: Typed) -> Typed:
    if symbol == "/":
        return _quotient(left, right)
    kinds = left.type, right.type
    (p1, s1), (p2, s2) = map(digits, kinds)
    sides, more = (_decimal(left), _decimal(right)), None
    if symbol == "*" and (kinds[0].quotient or kinds[1].quotient):
        scales = factor_scales(*kinds)
        sides = tuple(
            side if scale == digits(kind)[1] else f"CAST({side} AS DECIMAL(38,{scale}))"
            for side, kind, scale in zip(sides, kinds, scales, strict=True)
        )
        s1, s2 = scales
        more = _shown_of_product(*kinds)
    whole, scale = max(p1 - s1, p2 - s2), max(s1, s2)
    result = {
        "+": numeric(whole + scale + 1, scale, *kinds),
        "-": numeric(whole + scale + 1, scale, *kinds),
        "*": numeric(p1 + p2 + 1, s1 + s2, *kinds, quotient=more),
        "%": numeric(min(p1 - s1, p2 - s2) + scale, scale, *kinds),
    }[symbol]
    decimals = None
    if is_dynamic(left) or is_dynamic(right):
        one, other = shown_decimals(left), shown_decimals(right)
        decimals = f"({one} + {other})" if symbol == "*" else f"greatest({one}, {other})"
    return Typed(f"({sides[0]} {symbol} {sides[1]})", result, decimals=decimals)


def _quotient(left: Typed, right: Typed) -> Typed:
    over, under, result = quotient_types(left.type, right.type)
    sql = f"(CAST({left.sql} AS {over.spark}) / CAST({right.sql} AS {under.spark}))"
    if result.scale == QUOTIENT_SCALE:  # it may be more in Spark
        sql = f"CAST({sql} AS {result.spark})"
    return Typed(sql, result, decimals=quotient_decimals(left, right))


QUOTIENT_SCALE = 20


def quotient_types(left: SqlType, right: SqlType) -> tuple[SqlType, SqlType, SqlType]:
    """What the operands of a division are cast to, and the type that it gives.

    Spark gives a quotient 38 digits, of which 38 - n / 2 - 1 are decimals, where n is how many digits the dividend has
    before the point plus the divisor behind it. With its own rules 1.0 / 3 would have six decimals. So both get all
    the digits that there are, divided up such that n is 35, if they have the room: then it has 20.
    """
    (p1, s1), (p2, s2) = digits(left), digits(right)
    wanted = 2 * (MAX_DIGITS - 1 - QUOTIENT_SCALE) + 1
    whole = min(max(p1 - s1, wanted - s2), MAX_DIGITS - s1)
    # Numbers of more than 20 digits are not expected of a divisor that has not said how many it has.
    scale = min(max(s2, wanted - whole), MAX_DIGITS - min(p2 - s2, 20))
    decimals = MAX_DIGITS - min(whole + scale, MAX_DIGITS) // 2 - 1
    shown = max(least_shown(left), least_shown(right))
    return (
        numeric(MAX_DIGITS, MAX_DIGITS - whole),
        numeric(MAX_DIGITS, scale),
        numeric(MAX_DIGITS, min(decimals, QUOTIENT_SCALE), quotient=(shown, 0)),
    )


def factor_scales(left: SqlType, right: SqlType) -> tuple[int, int]:
    """Decimals of two factors, one of them a quotient: as many as it has would leave no room before the point."""
    s1, s2 = digits(left)[1], digits(right)[1]
    if left.quotient is not None and right.quotient is not None:
        return min(s1, SIGNIFICANT), min(s2, SIGNIFICANT)
    if left.quotient is not None:
        return min(s1, max(SIGNIFICANT, 26 - s2)), s2
    return s1, min(s2, max(SIGNIFICANT, 26 - s1))


def _shown_of_product(left: SqlType, right: SqlType) -> tuple[int, int]:
    if left.quotient is not None and right.quotient is not None:
        return left.quotient[0], left.quotient[1] + right.quotient[1] + SIGNIFICANT
    quotient, other = (left, right) if left.quotient is not None else (right, left)
    return quotient.quotient[0], quotient.quotient[1] + least_shown(other)


def _decimal(value: Typed) -> str:
    """Integers as decimals by their type: a literal's own digits would give the result another type."""
    if is_integer(value.type):
        return f"CAST({value.sql} AS DECIMAL({digits(value.type)[0]},0))"
    return value.sql


def _moments(symbol: str, left: Typed, right: Typed) -> Typed:
    if is_moment(left.type) and is_moment(right.type):
        if symbol == "+":
            raise no_operator(symbol, left.type, right.type)
        if left.type == right.type == DATE:
            return Typed(f"datediff({left.sql}, {right.sql})", INTEGER)
        kind = widen(left.type, right.type)
        later, earlier = (f"unix_micros({zoned.in_utc(cast(side, kind))})" for side in (left, right))
        return intervals.between(later, earlier)
    if is_moment(right.type):
        if symbol == "-":
            raise no_operator(symbol, left.type, right.type)
        left, right = right, left
    if left.type == DATE and right.type in (INTEGER, SqlType("smallint")):
        function = "date_add" if symbol == "+" else "date_sub"
        return Typed(f"{function}({left.sql}, {cast(right, INTEGER).sql})", DATE)
    if right.type != INTERVAL:
        raise no_operator(symbol, left.type, right.type)
    if left.type == DATE:
        left = cast(left, TIMESTAMP)
    move = zoned.moved if left.type == TIMESTAMPTZ else intervals.moved
    return Typed(move(left.sql, symbol, right), left.type)


def _times(symbol: str, left: Typed, right: Typed) -> Typed:
    """Beside a time or an interval a time is one; beside anything else it is the interval since midnight."""
    kinds = left.type, right.type
    if symbol == "-" and is_time(left.type) and is_time(right.type):
        return times.between(left, right)
    if symbol in "+-" and is_time(left.type) and right.type == INTERVAL:
        return times.moved(left, symbol, right)
    if symbol == "+" and left.type == INTERVAL:
        return times.moved(right, symbol, left)
    if all(map(is_time, kinds)) or (symbol == "-" and is_moment(right.type)):
        raise no_operator(symbol, *kinds)
    left, right = (times.as_interval(side) if is_time(side.type) else side for side in (left, right))
    try:
        return arithmetic(symbol, left, right)
    except UndefinedFunction:
        raise no_operator(symbol, *kinds) from None


def _intervals(symbol: str, left: Typed, right: Typed) -> Typed:
    if left.type == right.type == INTERVAL and symbol in "+-":
        return intervals.added(left, symbol, right)
    if symbol == "*" and right.type == INTERVAL:
        left, right = right, left
    if left.type != INTERVAL or not is_number(right.type) or symbol not in "*/":
        raise no_operator(symbol, left.type, right.type)
    if symbol == "*" and is_integer(right.type):
        return intervals.scaled(left, right)
    return intervals.scaled_exactly(left, symbol, cast(right, DOUBLE).sql)


def negate(value: Typed) -> Typed:
    if value.type is None:
        value = cast(value, DOUBLE)
    if is_time(value.type):
        value = times.as_interval(value)
    if not is_number(value.type) and value.type != INTERVAL:
        raise UndefinedFunction(f"operator does not exist: - {describe(value.type)}")
    if value.type == INTERVAL:
        return intervals.negated(value)
    return Typed(f"(- {value.sql})", undeclared(value.type), decimals=value.decimals)


def power(left: Typed, right: Typed) -> Typed:
    left, right = cast(left, DOUBLE), cast(right, DOUBLE)
    return Typed(f"power({left.sql}, {right.sql})", DOUBLE)


def bitwise(symbol: str, left: Typed, right: Typed) -> Typed:
    left, right = _give_types(symbol, left, right)
    if not is_integer(left.type) or not is_integer(right.type):
        raise no_operator(symbol, left.type, right.type)
    if symbol in ("<<", ">>"):
        function = "shiftleft" if symbol == "<<" else "shiftright"
        wide = left.type if left.type != SqlType("smallint") else INTEGER
        bits = 64 if wide.name == "bigint" else 32
        shifted = f"{function}({cast(left, wide).sql}, {cast(right, INTEGER).sql} % {bits})"
        return cast(Typed(shifted, wide), left.type)
    kind = widen(left.type, right.type)
    spark = {"#": "^"}.get(symbol, symbol)
    return Typed(f"({cast(left, kind).sql} {spark} {cast(right, kind).sql})", kind)


# --- comparison -------------------------------------------------------------------------------------------------


def compare(symbol: str, left: Typed, right: Typed) -> Typed:
    if INTERVAL in (left.type, right.type):
        left, right = (times.as_interval(side) if is_time(side.type) else side for side in (left, right))
    left, right = same_type(symbol, left, right)
    if left.type is not None and left.type.name == "jsonb" and symbol not in ("=", "<>", "<=>"):
        raise Unsupported(f"{symbol} on jsonb is not supported", hint="extract a value with ->> and cast it")
    if left.type is not None and left.type.name == "map":
        raise no_operator(symbol, left.type, right.type)
    left, right = intervals.comparable(left), intervals.comparable(right)
    return Typed(f"({left.sql} {symbol} {right.sql})", BOOLEAN)


def same_type(symbol: str, *values: Typed) -> list[Typed]:
    """The operands of a comparison, converted to the type in which PostgreSQL compares them."""
    result: SqlType | None = None
    for value in values:
        if value.type is None:
            continue
        wider = value.type if result is None else widen(result, value.type)
        if wider is None:
            raise no_operator(symbol, result, value.type)
        result = wider
    kind = result or TEXT
    if kind == NUMERIC:  # Spark compares decimals of any scale; a cast could only lose digits
        return [cast(value, kind) if value.type is None or not is_number(value.type) else value for value in values]
    return [cast(value, kind) for value in values]


def as_boolean(construct: str, value: Typed) -> str:
    if value.type is None:
        value = cast(value, BOOLEAN)
    if value.type != BOOLEAN:
        raise TypeMismatch(f"argument of {construct} must be type boolean, not type {value.type}")
    return value.sql


# --- concatenation ----------------------------------------------------------------------------------------------


def concatenate(left: Typed, right: Typed) -> Typed:
    kinds = [kind for kind in (left.type, right.type) if kind is not None]
    if any(kind.name == "array" for kind in kinds):
        return _concatenate_arrays(left, right)
    if kinds and all(kind == BYTEA for kind in kinds):
        left, right = cast(left, BYTEA), cast(right, BYTEA)
        return Typed(f"concat({left.sql}, {right.sql})", BYTEA)
    if any(kind.name in ("jsonb", "struct") for kind in kinds) or (
        kinds and len(kinds) == 2 and not any(map(is_text, kinds))
    ):
        raise no_operator("||", left.type, right.type)
    return Typed(f"concat({cast(left, TEXT).sql}, {cast(right, TEXT).sql})", TEXT)


def _concatenate_arrays(left: Typed, right: Typed) -> Typed:
    """NULL beside an array is an empty array; an element is an array of one."""

    def parts(value: Typed, other: Typed) -> tuple[str, SqlType]:
        if value.type is None:
            return (
                f"CAST(array() AS {other.type.spark})" if value.literal is None else cast(value, other.type).sql
            ), other.type
        if value.type.name == "array":
            return value.sql, value.type
        return f"array({value.sql})", array_of(value.type)

    (a, a_type), (b, b_type) = parts(left, right), parts(right, left)
    kind = loosened(common_type("||", [a_type, b_type]))
    a, b = cast(Typed(a, a_type), kind).sql, cast(Typed(b, b_type), kind).sql
    if left.type is not None and left.type.name == "array" and right.type is not None and right.type.name == "array":
        return Typed(f"CASE WHEN {a} IS NULL THEN {b} WHEN {b} IS NULL THEN {a} ELSE concat({a}, {b}) END", kind)
    return Typed(f"concat(coalesce({a}, array()), coalesce({b}, array()))", kind)
