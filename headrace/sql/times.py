"""Times of day in Spark SQL, where they are microseconds since midnight (:mod:`headrace.times`).

>>> moved(Typed("`t`", TIME), "+", Typed("`i`", INTERVAL, parts=Parts(3_600_000_000, 0, 0))).sql
'pmod((`t` + 3600000000L), 86400000000L)'
"""

from __future__ import annotations

from headrace.sql import intervals, zoned
from headrace.sql.intervals import let
from headrace.sql.literals import spark_string
from headrace.sql.typed import INTERVAL, TIME, Parts, Typed  # noqa: F401 (the doctest's)
from headrace.times import DAY, unit_of
from headrace.types import SqlType


def in_a_day(micros: str) -> str:
    return f"pmod({micros}, {DAY}L)"


def as_interval(value: Typed) -> Typed:
    return intervals.interval(Parts(value.sql, 0, 0))


def of_interval(value: Typed) -> str:
    """What is neither months nor days of it, within a day."""
    return in_a_day(intervals.number(intervals.micros(intervals.parts_of(value))))


def of_timestamp(value: Typed) -> str:
    return in_a_day(f"unix_micros({zoned.in_utc(value)})")


def moved(value: Typed, symbol: str, by: Typed) -> Typed:
    rest = intervals.number(intervals.micros(intervals.parts_of(by)))
    return Typed(in_a_day(f"({value.sql} {symbol} {rest})"), TIME)


def between(later: Typed, earlier: Typed) -> Typed:
    return intervals.interval(Parts(f"({later.sql} - {earlier.sql})", 0, 0))


def rounded(sql: str, digits: int | None) -> str:
    unit = unit_of(digits)
    return sql if unit == 1 else f"(({sql} + {unit // 2}L) DIV {unit}L * {unit}L)"


def printed(sql: str) -> str:
    two = "lpad(CAST({} AS STRING), 2, '0')"
    hour, minute, second = (
        two.format(part)
        for part in (f"({sql} DIV 3600000000)", f"({sql} DIV 60000000 % 60)", f"({sql} DIV 1000000 % 60)")
    )
    fraction = f"regexp_replace(concat('.', lpad(CAST({sql} % 1000000 AS STRING), 6, '0')), '[.]?0+$', '')"
    return f"concat({hour}, ':', {minute}, ':', {second}, {fraction})"


_ENDING = r"\s*([ap]m)?(?:\s*(?:[+-]\d{1,2}(?::?\d{2}){0,2}|z|utc|gmt))?\s*\z"
_CLOCK = spark_string(r"\A\s*(?:\d{4}-\d{1,2}-\d{1,2}\s+|t)?(\d{1,9}):(\d{1,9})(?::(\d{1,9})(\.\d*)?)?" + _ENDING)
_DIGITS = spark_string(r"\A(\s*t?\d{2})(\d{2})(\d{2}(?:\.\d*)?)(?!\d)")
_FEWER_DIGITS = spark_string(r"\A(\s*t?\d{2})(\d{2})(?![\d.:-])")


def of_text(text: str, target: SqlType) -> str:
    """Row by row what :func:`headrace.times.parse_time` does, but for other names of time zones than UTC, and for
    minutes and seconds without hours."""
    plain = f"regexp_replace(regexp_replace(lower({text}), {_DIGITS}, '$1:$2:$3'), {_FEWER_DIGITS}, '$1:$2')"
    wrong = f"raise_error(concat('invalid input syntax for type time: \"', {text}, '\"'))"
    outside = f"raise_error(concat('date/time field value out of range: \"', {text}, '\"'))"

    def number(group: int) -> str:
        return f"CAST(concat('0', regexp_extract(_i.t, {_CLOCK}, {group})) AS BIGINT)"

    fraction = f"concat('0', regexp_extract(_i.t, {_CLOCK}, 4), '0')"
    parts = {
        "h": number(1), "m": number(2), "s": number(3),
        "f": f"CAST(rint(CAST(IF({fraction} = '00', '0', {fraction}) AS DOUBLE) * 1000000D) AS BIGINT)",
        "a": f"regexp_extract(_i.t, {_CLOCK}, 5)",
    }  # fmt: skip
    hour = "IF(_i.a = '', _i.h, _i.h % 12 + IF(_i.a = 'pm', 12, 0))"
    micros = f"((({hour} * 60 + _i.m) * 60 + _i.s) * 1000000L + _i.f)"
    beyond = f"_i.h > 24 OR _i.m > 59 OR _i.s > 60 OR (_i.a <> '' AND _i.h > 12) OR {micros} > {DAY}L"
    made = let(parts, f"CASE WHEN {beyond} THEN {outside} ELSE {rounded(micros, target.precision)} END")
    found = let({"t": plain}, f"CASE WHEN NOT _i.t RLIKE {_CLOCK} THEN {wrong} ELSE {made} END")
    return f"CASE WHEN {text} IS NOT NULL THEN {found} END"


def made(hour: str, minute: str, second: str) -> str:
    """make_time()"""
    micros = f"((({hour} * 60L + {minute}) * 60L) * 1000000L + CAST(rint({second} * 1000000D) AS BIGINT))"
    parts = f"{hour} NOT BETWEEN 0 AND 24 OR {minute} NOT BETWEEN 0 AND 59 OR isnan({second})"
    wrong = f"{parts} OR {second} NOT BETWEEN 0 AND 60 OR {micros} > {DAY}L"
    two = "lpad(CAST({} AS STRING), 2, '0')"
    seconds = f"IF({second} = rint({second}), {two.format(f'CAST({second} AS INT)')}, CAST({second} AS STRING))"
    shown = f"concat('time field value out of range: ', {hour}, ':', {two.format(minute)}, ':', {seconds})"
    return f"CASE WHEN {wrong} THEN raise_error({shown}) ELSE {micros} END"
