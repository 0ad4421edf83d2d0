"""Intervals with months: what can be done with them although no column holds one.

An interval is microseconds, in Spark SQL, and months beside them: a number if it is a constant, Spark SQL if it differs
from row to row (:attr:`headrace.sql.typed.Typed.months`). It can move a date, be printed, be taken apart, be compared.

>>> scaled(1, "`n`"), added(2, "+", "`m`"), added(2, "-", 5), negated("`m`")
('(1 * `n`)', '(2 + `m`)', -3, '(- `m`)')
"""

from __future__ import annotations

from headrace.errors import Unsupported
from headrace.sql.typed import Typed

Months = int | str

EPOCH = "TIMESTAMP_LTZ '1970-01-01 00:00:00+00:00'"
DAY = 86_400_000_000


def not_a_value(position: int | None = None) -> Unsupported:
    return Unsupported(
        "an interval with months can only be added to or subtracted from a date or a timestamp, compared, taken apart "
        "by extract(), or printed by to_char() or a cast to text",
        hint="months have no fixed length; use days",
        position=position,
    )


# --- months -----------------------------------------------------------------------------------------------------


def added(left: Months, symbol: str, right: Months) -> Months:
    if isinstance(left, int) and isinstance(right, int):
        return left + right if symbol == "+" else left - right
    return f"({left} {symbol} {right})"


def negated(months: Months) -> Months:
    return -months if isinstance(months, int) else f"(- {months})"


def scaled(months: Months, factor: str) -> Months:
    return months * int(factor) if isinstance(months, int) and factor.isdigit() else f"({months} * {factor})"


def spark_months(months: Months) -> str:
    """Months as an interval of Spark's."""
    return f"INTERVAL '{months}' MONTH" if isinstance(months, int) else f"make_ym_interval(0, {months})"


# --- all of it --------------------------------------------------------------------------------------------------


def micros(value: Typed) -> str:
    """All but the months, in microseconds."""
    return f"unix_micros({EPOCH} + {value.sql})"


def from_micros(number: str) -> str:
    return f"make_dt_interval(0, 0, 0, CAST({number} AS DECIMAL(18,0)) * 0.000001BD)"


def comparable(value: Typed) -> str:
    """In comparisons a month has 30 days, as in PostgreSQL."""
    return f"({value.sql} + make_dt_interval({value.months} * 30))" if value.months else value.sql


def unfolded(value: Typed, body: str) -> str:
    """Spark SQL over the parts of an interval: ``_u`` are its microseconds, ``_m`` its months. See PARTS."""
    months = f"CAST({value.months} AS INT)"
    return f"get(zip_with(array({micros(value)}), array({months}), (_u, _m) -> {body}), 0)"


PARTS = {
    "year": "(_m DIV 12)",
    "month": "(_m % 12)",
    "day": f"(_u DIV {DAY})",
    "clock": f"(_u % {DAY})",
    "hour": f"(_u % {DAY} DIV 3600000000)",
    "minute": f"(_u % {DAY} DIV 60000000 % 60)",
    "second": f"(_u % {DAY} DIV 1000000 % 60)",
    "fraction": "(_u % 1000000)",
}
"""What is printed of an interval, as integers; all have the sign of what they are a part of."""


def printed(value: Typed) -> str:
    """As PostgreSQL prints it: 1 year 2 mons -3 days -04:05:06.7"""
    return unfolded(value, f"CASE WHEN _u IS NOT NULL AND _m IS NOT NULL THEN {_PRINTED} END")


def _unit(number: str, word: str, plus: str = "''") -> str:
    ending = f"CASE WHEN {number} = 1 THEN ' {word}' ELSE ' {word}s' END"
    return f"CASE WHEN {number} <> 0 THEN concat({plus}, CAST({number} AS STRING), {ending}) END"


def _two(name: str) -> str:
    return f"lpad(CAST(abs({PARTS[name]}) AS STRING), 2, '0')"


# a plus sign stands behind something negative
_SIGN = f"CASE WHEN _u < 0 THEN '-' WHEN _m < 0 AND {PARTS['day']} = 0 THEN '+' ELSE '' END"
_FRACTION = f"regexp_replace(concat('.', lpad(CAST(abs({PARTS['fraction']}) AS STRING), 6, '0')), '[.]?0+$', '')"
_CLOCK = f"concat({_SIGN}, {_two('hour')}, ':', {_two('minute')}, ':', {_two('second')}, {_FRACTION})"
_PRINTED = (
    f"concat_ws(' ', {_unit(PARTS['year'], 'year')}, {_unit(PARTS['month'], 'mon')}, "
    + _unit(PARTS["day"], "day", f"CASE WHEN _m < 0 AND {PARTS['day']} > 0 THEN '+' ELSE '' END")
    + f", CASE WHEN {PARTS['clock']} <> 0 OR (_u = 0 AND _m = 0) THEN {_CLOCK} END)"
)
