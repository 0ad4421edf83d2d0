"""Intervals in Spark SQL: a struct of their length, months and days (:mod:`headrace.intervals`).

Arithmetic is done part by part, with what is constant worked out here, so that ``at + n * INTERVAL '1 hour'`` is no
more for Spark than it looks. The struct is made where a value is wanted. What is long is written once, as a variable.

>>> hours = scaled(interval(Parts(3_600_000_000, 0, 0)), Typed("`n`", INTEGER))
>>> hours.parts
Parts(length='(3600000000L * `n`)', months=0, days=0)
>>> moved("`at`", "+", hours)
"(`at` + ((3600000000L * `n`) * INTERVAL '0.000001' SECOND))"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from headrace.intervals import DAY, MONTH, Interval, in_range
from headrace.sql.typed import BIGINT, INTEGER, INTERVAL, Number, Parts, Typed  # noqa: F401 (the doctest's)
from headrace.types import SqlType, array_of, quote_spark

_LONG = 300
"""Characters of Spark SQL that are not written twice"""

# --- parts ------------------------------------------------------------------------------------------------------


def constant_parts(value: Interval) -> Parts:
    return Parts(value.length, value.months, value.days)


def constant_of(value: Typed) -> Interval | None:
    """The interval, if it is known here."""
    if value.parts is None or not all(isinstance(part, int) for part in value.parts):
        return None
    return Interval.of(value.parts._asdict())


def interval(parts: Parts) -> Typed:
    return Typed(_struct(parts), INTERVAL, parts=parts)


def _struct(parts: Parts) -> str:
    """An interval whose length is NULL is NULL."""
    months, days = (str(part) if isinstance(part, int) else f"CAST({part} AS INT)" for part in parts[1:])
    made = f"named_struct('length', {number(parts.length)}, 'months', {months}, 'days', {days})"
    return made if isinstance(parts.length, int) else f"IF({parts.length} IS NULL, NULL, {made})"


def number(part: Number) -> str:
    """A part as a bigint."""
    if isinstance(part, str):
        return part
    return f"{part}L" if part >= 0 else f"({part}L)"


def parts_of(value: Typed) -> Parts:
    if value.parts is not None:
        return value.parts
    return Parts(*(f"{_enclosed(value.sql)}.{field}" for field in Parts._fields))


def _enclosed(sql: str) -> str:
    return sql if sql.replace("`", "").replace(".", "").replace("_", "").isalnum() else f"({sql})"


def micros(parts: Parts) -> Number:
    """What is neither months nor days."""
    months, days = _times(parts.months, MONTH), _times(parts.days, DAY)
    return _sum("-", _sum("-", parts.length, months), days)


def of_micros(months: Number, days: Number, rest: Number) -> Parts:
    length = _sum("+", _sum("+", rest, _times(months, MONTH)), _times(days, DAY))
    return Parts(length, months, days)


def _times(part: Number, factor: int) -> Number:
    return part * factor if isinstance(part, int) else f"({part} * {factor}L)"


def _sum(symbol: str, left: Number, right: Number) -> Number:
    if isinstance(left, int) and isinstance(right, int):
        return left + right if symbol == "+" else left - right
    if right == 0:
        return left
    if left == 0 and symbol == "+":
        return right
    return f"({number(left)} {symbol} {number(right)})"


# --- what is long is a variable ---------------------------------------------------------------------------------


def let(values: Mapping[str, str], body: str) -> str:
    """Spark SQL in which ``_i.name`` is a value, evaluated once."""
    fields = ", ".join(f"'{name}', {sql}" for name, sql in values.items())
    return f"get(transform(array(named_struct({fields})), _i -> {body}), 0)"


def _is_short(value: Typed) -> bool:
    text = value.sql if value.parts is None else "".join(str(part) for part in value.parts)
    return len(text) <= _LONG or "SELECT" in text  # of which Spark takes none beside a lambda


def _combined(make: Callable[..., Parts], *values: Typed) -> Typed:
    """The interval that is made of some, and of other values."""

    def given(value: Typed, sql: str | None = None) -> Parts | str:
        if value.type != INTERVAL:
            return sql or value.sql
        return parts_of(value) if sql is None else parts_of(Typed(sql, INTERVAL))

    if all(map(_is_short, values)):
        return interval(make(*map(given, values)))
    names = [f"v{at}" for at in range(len(values))]
    body = _struct(make(*(given(value, f"_i.{name}") for name, value in zip(names, values, strict=True))))
    return Typed(let({name: value.sql for name, value in zip(names, values, strict=True)}, body), INTERVAL)


def unfolded(value: Typed, body: str) -> str:
    """Spark SQL over the parts of an interval: ``_i.m`` are its months, ``_i.d`` its days, ``_i.u`` its microseconds.

    All are bigints, and NULL if it is. See PARTS."""
    parts = parts_of(value)
    return let({"m": _wide(parts.months), "d": _wide(parts.days), "u": number(micros(parts))}, body)


def _wide(part: Number) -> str:
    return number(part) if isinstance(part, int) else f"CAST({part} AS BIGINT)"


# --- arithmetic -------------------------------------------------------------------------------------------------


def added(left: Typed, symbol: str, right: Typed) -> Typed:
    return _combined(lambda a, b: Parts(*(_sum(symbol, x, y) for x, y in zip(a, b, strict=True))), left, right)


def negated(value: Typed) -> Typed:
    return _combined(lambda a: Parts(*(-x if isinstance(x, int) else f"(- {x})" for x in a)), value)


def scaled(value: Typed, factor: Typed) -> Typed:
    """By a whole number, which changes no part into another."""
    constant = constant_of(value)
    if constant is not None and factor.sql.isdigit():
        known = Interval(*(int(factor.sql) * part for part in constant))
        if in_range(known):
            return interval(constant_parts(known))
    return _combined(lambda a, n: Parts(*(0 if x == 0 else f"({number(x)} * {n})" for x in a)), value, factor)


def scaled_exactly(value: Typed, symbol: str, factor: str) -> Typed:
    """By any number, ``*`` or ``/``: what is left of a month becomes days, and of a day microseconds.

    With the same steps, in the same doubles, as PostgreSQL has, to get to the same microsecond."""
    parts = parts_of(value)
    given = {"m": _wide(parts.months), "d": _wide(parts.days), "u": number(micros(parts)), "f": factor}
    products = {part: f"(CAST(_i.{part} AS DOUBLE) {symbol} _i.f)" for part in "mdu"}
    months = {
        "m": _whole("_i.m"),
        "r": _to_micros(f"((_i.m - {_whole('_i.m')}) * 30)"),  # days of a part of a month
        "d": "_i.d",
        "u": "_i.u",
    }
    days = {
        "m": "_i.m",
        "d": f"({_whole('_i.d')} + {_whole('_i.r')})",
        "s": _to_micros(f"((_i.d - {_whole('_i.d')} + _i.r - {_whole('_i.r')}) * 86400)"),
        "u": "_i.u",
    }
    more = f"IF(abs(_i.s) >= 86400, {_whole('(_i.s / 86400)')}, 0L)"
    rest = f"CAST(rint(_i.u + (_i.s - {more} * 86400) * 1000000D) AS BIGINT)"
    made = let({"m": "_i.m", "d": f"(_i.d + {more})", "u": rest}, _struct(of_micros("_i.m", "_i.d", "_i.u")))
    return Typed(let(given, let(products, let(months, let(days, made)))), INTERVAL)


def _whole(sql: str) -> str:
    return f"CAST(CAST({sql} AS INT) AS BIGINT)"


def _to_micros(sql: str) -> str:
    """A double without what floats add to its sixth digit."""
    return f"(rint({sql} * 1000000D) / 1000000D)"


def between(later: str, earlier: str) -> Typed:
    """What lies between two numbers of microseconds: days, and the rest of them."""
    gap = f"({later} - {earlier})"
    return interval(Parts(gap, 0, f"({gap} DIV {DAY})"))


def day_time(parts: Parts) -> str:
    """All but the months, as an interval of Spark's: days of 24 hours, as where there are no time zones."""
    rest = _sum("-", parts.length, _times(parts.months, MONTH))
    return spark_interval(rest) if isinstance(rest, int) else f"({rest} * INTERVAL '0.000001' SECOND)"


def spark_interval(micros: int) -> str:
    """A day-time interval in Spark SQL."""
    sign = "-" if micros < 0 else ""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"


def spark_months(months: Number) -> str:
    """Months as an interval of Spark's."""
    return f"INTERVAL '{months}' MONTH" if isinstance(months, int) else f"make_ym_interval(0, CAST({months} AS INT))"


def moved(moment: str, symbol: str, value: Typed) -> str:
    """A timestamp and an interval."""

    def steps(parts: Parts) -> str:
        months = f" {symbol} {spark_months(parts.months)}" if parts.months != 0 else ""
        rest = "" if months and parts.length == _times(parts.months, MONTH) else f" {symbol} {day_time(parts)}"
        return f"{months}{rest}"

    return over_parts(moment, value, lambda time, parts: f"({time}{steps(parts)})")


def over_parts(moment: str, value: Typed, body: Callable[[str, Parts], str]) -> str:
    """Spark SQL over a timestamp and the parts of an interval."""
    if _is_short(value):
        return body(moment, parts_of(value))
    return let({"t": moment, "v": value.sql}, body("_i.t", parts_of(Typed("_i.v", INTERVAL))))


def clock(parts: Parts) -> str:
    """What is neither months nor days, as an interval of Spark's."""
    return day_time(Parts(micros(parts), 0, 0))


def of_day_time(sql: str) -> str:
    """An interval of Spark's, days to seconds, as one of ours."""
    return let({"u": f"unix_micros({EPOCH} + {sql})"}, _struct(Parts("_i.u", 0, f"(_i.u DIV {DAY})")))


EPOCH = "TIMESTAMP_LTZ '1970-01-01 00:00:00+00:00'"

# --- comparison -------------------------------------------------------------------------------------------------


def comparable(value: Typed) -> Typed:
    """What to compare in place of a value: where there are intervals in it, their lengths."""
    if value.type is None or not holds_interval(value.type):
        return value
    kind = _comparable_type(value.type)
    if value.type == INTERVAL:
        return Typed(number(parts_of(value).length), kind)
    if value.type.name == "array":
        inner = comparable(Typed("_l", value.type.element)).sql
        return Typed(f"transform({value.sql}, _l -> {inner})", kind)
    if value.type.name == "struct":
        fields = [
            f"'{name}', {comparable(Typed(f'{_enclosed(value.sql)}.{quote_spark(name)}', each)).sql}"
            for name, each in value.type.fields
        ]
        return Typed(f"IF({value.sql} IS NULL, NULL, named_struct({', '.join(fields)}))", kind)
    return value


def holds_interval(kind: SqlType) -> bool:
    if kind.name == "array":
        return holds_interval(kind.element)
    return kind == INTERVAL or (kind.name == "struct" and any(holds_interval(each) for _, each in kind.fields))


def _comparable_type(kind: SqlType) -> SqlType:
    if kind.name == "array":
        return array_of(_comparable_type(kind.element))
    if kind.name == "struct":
        return SqlType("struct", fields=tuple((name, _comparable_type(each)) for name, each in kind.fields))
    return BIGINT if kind == INTERVAL else kind


# --- aggregates -------------------------------------------------------------------------------------------------


def total(length: str, months: str, days: str) -> str:
    """Of the sums of the parts, which are NULL if there were none."""
    return _struct(Parts(length, months, days))


def average(length: str, months: str, days: str, count: str) -> str:
    return scaled_exactly(interval(Parts(length, months, days)), "/", f"CAST({count} AS DOUBLE)").sql


def of_different(collected: str, *, averaged: bool) -> str:
    """The sum or the average of an array of intervals, each length once; NULL of none."""
    once = "filter(_s, (_e, _n) -> _n = 0 OR get(_s, _n - 1).length <> _e.length)"
    start = "named_struct('length', 0L, 'months', 0L, 'days', 0L, 'count', 0L)"
    sums = ", ".join(f"'{field}', _t.{field} + _e.{field}" for field in Parts._fields)
    added = f"named_struct({sums}, 'count', _t.count + 1L)"
    total = f"aggregate({once}, {start}, (_t, _e) -> {added})"
    parts = Parts(*(f"_i.{field}" for field in Parts._fields))
    found = average(*parts, "_i.count") if averaged else _struct(parts)
    fields = {name: f"_t.{name}" for name in (*Parts._fields, "count")}
    made = f"transform(array({total}), _t -> {let(fields, f'IF(_i.count = 0, NULL, {found})')})"
    return f"get(get(transform(array(array_sort({collected})), _s -> {made}), 0), 0)"


# --- text -------------------------------------------------------------------------------------------------------

PARTS = {
    "year": "(_i.m DIV 12)",
    "month": "(_i.m % 12)",
    "day": "_i.d",
    "clock": "_i.u",
    "hour": "(_i.u DIV 3600000000)",
    "minute": "(_i.u DIV 60000000 % 60)",
    "second": "(_i.u DIV 1000000 % 60)",
    "fraction": "(_i.u % 1000000)",
}
"""What is printed of an interval, as integers; all have the sign of what they are a part of."""

KNOWN = "_i.u IS NOT NULL"


def printed(value: Typed) -> str:
    """As PostgreSQL prints it: 1 year 2 mons -3 days +04:05:06.7"""
    return unfolded(value, f"CASE WHEN {KNOWN} THEN {_PRINTED} END")


def _unit(number: str, word: str, plus: str = "''") -> str:
    ending = f"CASE WHEN {number} = 1 THEN ' {word}' ELSE ' {word}s' END"
    return f"CASE WHEN {number} <> 0 THEN concat({plus}, CAST({number} AS STRING), {ending}) END"


def _two(name: str) -> str:
    digits = f"CAST(abs({PARTS[name]}) AS STRING)"
    return f"lpad({digits}, greatest(2, length({digits})), '0')"


# a plus sign stands behind something negative
_SIGN = "CASE WHEN _i.u < 0 THEN '-' WHEN _i.d < 0 OR (_i.d = 0 AND _i.m < 0) THEN '+' ELSE '' END"
_FRACTION = f"regexp_replace(concat('.', lpad(CAST(abs({PARTS['fraction']}) AS STRING), 6, '0')), '[.]?0+$', '')"
_CLOCK = f"concat({_SIGN}, {_two('hour')}, ':', {_two('minute')}, ':', {_two('second')}, {_FRACTION})"
_PRINTED = (
    f"concat_ws(' ', {_unit(PARTS['year'], 'year')}, {_unit(PARTS['month'], 'mon')}, "
    + _unit(PARTS["day"], "day", "CASE WHEN _i.m < 0 AND _i.d > 0 THEN '+' ELSE '' END")
    + f", CASE WHEN _i.u <> 0 OR (_i.m = 0 AND _i.d = 0) THEN {_CLOCK} END)"
)
