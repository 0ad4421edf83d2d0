"""Text to interval, row by row: what :func:`headrace.intervals.parse_interval` does, in Spark SQL.

Amounts with their units, a clock, and ``ago``; not ISO 8601, and not ``1-2`` for years and months, which are errors of
the row.
"""

from __future__ import annotations

from headrace.intervals import ALIASES, DAY, DAYS, MICROS, MONTHS
from headrace.sql.intervals import interval, let, of_micros
from headrace.sql.literals import spark_string

_CLOCK = spark_string(r"(^|\s)([+-]?)([0-9]+):([0-9]{1,2})(?::([0-9]{1,2}(?:\.[0-9]*)?))?(?=\s|$)")
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
_BARE = spark_string(rf"(^|\s){_NUMBER}$")


def _names(unit: str) -> list[str]:
    """All that a unit is called, but for an s at the end."""
    return [unit, *(alias for alias, name in ALIASES.items() if name == unit)]


_UNITS = "|".join(sorted((name for unit in (*MICROS, *DAYS, *MONTHS) for name in _names(unit)), key=len, reverse=True))
_AMOUNT = spark_string(rf"({_NUMBER})\s*({_UNITS})s?(?![a-z])")
_LEFT = spark_string(r"^[\s,]*$")


def interval_of_text(text: str) -> str:
    """``_i.t``: the text; then also ``_i.c``, what it is without its clock, with a unit for a number that has none."""
    plain = f"regexp_replace(regexp_replace(lower(trim({text})), '^@', ''), '{chr(92) * 2}s+ago$', '')"
    ago = f"IF(lower(trim({text})) RLIKE '{chr(92) * 2}s+ago$', -1L, 1L)"
    words = f"trim(regexp_replace(_i.t, {_CLOCK}, ' '))"
    with_unit = f"IF({words} RLIKE {_BARE}, concat({words}, IF(_i.t RLIKE {_CLOCK}, ' day', ' second')), {words})"
    wrong = f"NOT regexp_replace(_i.c, {_AMOUNT}, '') RLIKE {_LEFT} OR (_i.c = '' AND NOT _i.t RLIKE {_CLOCK})"
    message = "concat('invalid input syntax for type interval: \"', _i.raw, '\"')"
    amounts = f"transform(regexp_extract_all(_i.c, {_AMOUNT}, 0), _a -> {_amount('_a')})"
    start = "named_struct('m', 0L, 'd', 0L, 'u', 0L)"
    added = "named_struct('m', _s.m + _a.m, 'd', _s.d + _a.d, 'u', _s.u + _a.u)"
    total = f"aggregate({amounts}, {start}, (_s, _a) -> {added})"
    signed = of_micros("(_i.s.m * _i.g)", "(_i.s.d * _i.g)", "((_i.s.u + _i.k) * _i.g)")
    made = let({"s": total, "k": _clock("_i.t"), "g": "_i.g"}, interval(signed).sql)
    checked = f"CASE WHEN {wrong} THEN raise_error({message}) ELSE {made} END"
    found = let({"t": "_i.t", "g": "_i.g", "raw": "_i.raw", "c": with_unit}, checked)
    parsed = let({"t": plain, "g": ago, "raw": text}, found)
    return f"CASE WHEN {text} IS NOT NULL THEN {parsed} END"


def _clock(text: str) -> str:
    sign, hours, minutes, seconds = (f"regexp_extract({text}, {_CLOCK}, {group})" for group in (2, 3, 4, 5))
    number = "CAST(CAST(IF({0} = '', '0', {0}) AS DECIMAL(18,6)) * {1} AS BIGINT)"
    parts = ((hours, 3_600_000_000), (minutes, 60_000_000), (seconds, 1_000_000))
    total = " + ".join(number.format(part, micros) for part, micros in parts)
    return f"(IF({sign} = '-', -1L, 1L) * ({total}))"


def _amount(token: str) -> str:
    """Its whole months, days and microseconds."""
    amount = f"CAST(regexp_extract({token}, {_AMOUNT}, 1) AS DECIMAL(30,9))"
    return let({"n": amount, "w": f"regexp_extract({token}, {_AMOUNT}, 2)"}, let(_scaled(), _parts()))


def _scaled() -> dict[str, str]:
    """In months, days or microseconds, of which only one is not 0."""
    found = {"one": "_i.w IN ('month', 'mon')"}  # of a year a fraction is whole months, of a month it is days
    for name, units in (("m", MONTHS), ("d", DAYS), ("u", MICROS)):
        cases = " ".join(
            f"WHEN _i.w IN ({', '.join(map(repr, _names(unit)))}) THEN _i.n * {size}" for unit, size in units.items()
        )
        found[name] = f"CAST(CASE {cases} ELSE 0 END AS DECIMAL(38,9))"
    return found


def _parts() -> str:
    whole = "CAST({0} - {0} % 1 AS BIGINT)"
    months = f"IF(_i.one, {whole.format('_i.m')}, CAST(bround(_i.m, 0) AS BIGINT))"
    rest = "(IF(_i.one, _i.m % 1, 0) * 30 + _i.d)"
    micros = f"CAST(round(({rest} % 1) * {DAY} + _i.u, 0) AS BIGINT)"
    return f"named_struct('m', {months}, 'd', {whole.format(rest)}, 'u', {micros})"
