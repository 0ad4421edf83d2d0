"""Dates and times: extract, date_trunc, to_char and AT TIME ZONE.

>>> java_format("YYYY-MM-DD HH24:MI")
"yyyy'-'MM'-'dd' 'HH':'mm"
"""

from __future__ import annotations

import re
import zoneinfo
from functools import cache

from headrace.errors import InvalidParameterValue, TypeMismatch, Unsupported
from headrace.sql.casts import cast
from headrace.sql.literals import spark_string
from headrace.sql.typed import (
    DATE,
    DOUBLE,
    INTERVAL,
    TEXT,
    TIMESTAMP,
    TIMESTAMPTZ,
    Typed,
    describe,
    is_integer,
    is_moment,
    numeric,
)
from headrace.types import SqlType

_EPOCH = "TIMESTAMP_LTZ '1970-01-01 00:00:00+00:00'"

_FIELDS = {
    "year": "extract(YEAR FROM {0})",
    "month": "extract(MONTH FROM {0})",
    "day": "extract(DAY FROM {0})",
    "hour": "extract(HOUR FROM {0})",
    "minute": "extract(MINUTE FROM {0})",
    "second": "extract(SECOND FROM {0})",
    "milliseconds": "(extract(SECOND FROM {0}) * 1000)",
    "microseconds": "(extract(SECOND FROM {0}) * 1000000)",
    "quarter": "extract(QUARTER FROM {0})",
    "week": "extract(WEEK FROM {0})",
    "isoyear": "extract(YEAROFWEEK FROM {0})",
    "dow": "(extract(DOW FROM {0}) - 1)",
    "isodow": "extract(DOW_ISO FROM {0})",
    "doy": "extract(DOY FROM {0})",
    "decade": "CAST(floor(extract(YEAR FROM {0}) / 10) AS INT)",
    "century": "CAST(ceil(extract(YEAR FROM {0}) / 100) AS INT)",
    "millennium": "CAST(ceil(extract(YEAR FROM {0}) / 1000) AS INT)",
}
_ALIASES = {
    "years": "year",
    "months": "month",
    "days": "day",
    "hours": "hour",
    "minutes": "minute",
    "seconds": "second",
}
_DATE_FIELDS = (
    "year",
    "month",
    "day",
    "quarter",
    "week",
    "isoyear",
    "dow",
    "isodow",
    "doy",
    "decade",
    "century",
    "millennium",
)
_INTERVAL_FIELDS = ("day", "hour", "minute", "second", "milliseconds", "microseconds")


def _constant_word(name: str, what: str, value: Typed) -> str:
    if value.literal is None:
        raise Unsupported(f"{name}() with a {what} that is not a string constant is not supported")
    return value.literal


def _field(name: str, args: list[Typed]) -> Typed:
    if len(args) != 2:
        raise TypeMismatch(f"{name}() takes two arguments")
    field = _constant_word(name, "field", args[0]).lower()
    field = _ALIASES.get(field, field)
    value = cast(args[1], TIMESTAMPTZ) if args[1].type is None else args[1]
    if not is_moment(value.type) and value.type != INTERVAL:
        raise TypeMismatch(f"function {name}(unknown, {describe(value.type)}) does not exist")
    if field == "epoch":
        return _epoch(value)
    if field not in _FIELDS:
        raise Unsupported(f"{name}({field}) is not supported")
    if (value.type == DATE and field not in _DATE_FIELDS) or (value.type == INTERVAL and field not in _INTERVAL_FIELDS):
        raise Unsupported(f'unit "{field}" is not supported for type {value.type}')
    kind = _FIELD_TYPES.get(field, numeric(10, 0))
    return Typed(f"CAST({_FIELDS[field].format(value.sql)} AS {kind.spark})", kind)


_FIELD_TYPES = {"second": numeric(8, 6), "milliseconds": numeric(8, 3), "microseconds": numeric(8, 0)}


def _epoch(value: Typed) -> Typed:
    if value.type == DATE:
        return Typed(f"CAST(CAST(unix_date({value.sql}) AS BIGINT) * 86400 AS DECIMAL(20,0))", numeric(20, 0))
    if value.type == INTERVAL:
        micros = f"unix_micros({_EPOCH} + {value.sql})"
    else:
        micros = f"unix_micros({cast(value, TIMESTAMPTZ).sql})"
    return Typed(f"CAST(CAST({micros} AS DECIMAL(20,0)) * 0.000001BD AS DECIMAL(26,6))", numeric(26, 6))


def extract(name: str, args: list[Typed]) -> Typed:
    return _field(name, args)


def date_part(name: str, args: list[Typed]) -> Typed:
    return cast(_field(name, args), DOUBLE)


_TRUNCATED = ("microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year")


def date_trunc(name: str, args: list[Typed]) -> Typed:
    if len(args) != 2:
        raise Unsupported("date_trunc() with a time zone is not supported", hint="use AT TIME ZONE")
    field = _constant_word(name, "field", args[0]).lower()
    field = _ALIASES.get(field, field)
    if field not in _TRUNCATED:
        raise Unsupported(f"date_trunc('{field}', …) is not supported")
    value = args[1]
    if value.type is None or value.type == DATE:
        value = cast(value, TIMESTAMPTZ)
    if not is_moment(value.type):
        raise Unsupported(f"date_trunc() of {describe(value.type)} is not supported")
    unit = {"microseconds": "MICROSECOND", "milliseconds": "MILLISECOND"}.get(field, field.upper())
    truncated = Typed(f"date_trunc('{unit}', {cast(value, TIMESTAMPTZ).sql})", TIMESTAMPTZ)
    return cast(truncated, value.type)


def date_bin(name: str, args: list[Typed]) -> Typed:
    if len(args) != 3:
        raise TypeMismatch("date_bin() takes three arguments")
    stride, value, origin = cast(args[0], INTERVAL, months=True), args[1], args[2]
    if stride.months:
        raise Unsupported("timestamps cannot be binned into intervals containing months or years")
    kind = value.type or origin.type or TIMESTAMP
    if kind == DATE:
        kind = TIMESTAMP
    value, origin = cast(value, kind), cast(origin, kind)
    width = f"unix_micros({_EPOCH} + {stride.sql})"
    gap = f"(unix_micros({cast(value, TIMESTAMPTZ).sql}) - unix_micros({cast(origin, TIMESTAMPTZ).sql}))"
    moved = f"({value.sql} - make_dt_interval(0, 0, 0, CAST(pmod({gap}, {width}) AS DECIMAL(18,0)) * 0.000001BD))"
    return Typed(moved, kind)


def make_interval(name: str, args: list[Typed]) -> Typed:
    raise Unsupported("make_interval() is not supported", hint="multiply an interval: n * INTERVAL '1 day'")


# --- to_char and back -------------------------------------------------------------------------------------------

_PATTERNS = {
    "YYYY": "yyyy", "YY": "yy", "MM": "MM", "FMMM": "M", "DD": "dd", "FMDD": "d", "DDD": "DDD", "HH24": "HH",
    "FMHH24": "H", "HH12": "hh", "HH": "hh", "FMHH12": "h", "MI": "mm", "FMMI": "m", "SS": "ss", "FMSS": "s",
    "MS": "SSS", "US": "SSSSSS", "AM": "a", "PM": "a", "Mon": "MMM", "FMMonth": "MMMM", "TMMonth": "MMMM", "Dy": "EEE",
    "FMDay": "EEEE", "TMDay": "EEEE", "Q": "Q",
}  # fmt: skip
# Patterns of PostgreSQL's that must not be taken for a shorter one (Month is padded with blanks to nine characters).
_REFUSED = ("Month", "MONTH", "month", "Day", "DAY", "day", "MON", "mon", "DY", "dy", "IYYY", "IYY", "IY", "IW", "IDDD",
            "ID", "WW", "YYY", "Y,YYY", "SSSSS", "SSSS", "DDth", "TZH", "TZM", "TZ", "OF", "CC", "RM")  # fmt: skip
_CASELESS = ("YYYY", "YY", "MM", "DDD", "DD", "HH24", "HH12", "HH", "MI", "SS", "MS", "US")
_WORDS = sorted({*_PATTERNS, *_REFUSED, *_CASELESS, *map(str.lower, _CASELESS)}, key=len, reverse=True)
_TOKEN = re.compile("|".join(map(re.escape, _WORDS)) + r"|\"[^\"]*\"|[A-Za-z]+|[^A-Za-z\"]")


def java_format(pattern: str) -> str:
    """The pattern of to_char() as Java's; letters that are no pattern are refused, the rest is quoted."""
    out: list[str] = []
    literal = ""
    for token in _TOKEN.findall(pattern):
        known = _PATTERNS.get(token) or _PATTERNS.get(token.upper() if token.upper() in _CASELESS else "")
        if known is None and token[0].isalpha():
            raise Unsupported(f'the pattern "{token}" of to_char() is not supported')
        if known is None:
            literal += token.strip('"').replace("'", "''")
            continue
        if literal:
            out.append(f"'{literal}'")
            literal = ""
        out.append(known)
    return "".join([*out, f"'{literal}'"] if literal else out)


def to_char(name: str, args: list[Typed]) -> Typed:
    if len(args) != 2:
        raise TypeMismatch("to_char() takes two arguments")
    value = args[0]
    if not is_moment(value.type):
        raise Unsupported(f"to_char() of {describe(value.type)} is not supported")
    pattern = java_format(_constant_word(name, "pattern", args[1]))
    return Typed(f"date_format({cast(value, TIMESTAMP).sql}, {spark_string(pattern)})", TEXT)


def to_date(name: str, args: list[Typed]) -> Typed:
    if len(args) != 2:
        raise TypeMismatch("to_date() takes two arguments")
    pattern = java_format(_constant_word(name, "pattern", args[1]))
    return Typed(f"to_date({cast(args[0], TEXT).sql}, {spark_string(pattern)})", DATE)


# --- time zones -------------------------------------------------------------------------------------------------


@cache
def _zones() -> dict[str, str]:
    return {name.lower(): name for name in zoneinfo.available_timezones()}


def zone(value: Typed) -> str:
    """A time zone as Spark spells it. PostgreSQL's bare offsets are POSIX's: positive is west of Greenwich."""
    if value.literal is None:
        raise Unsupported("AT TIME ZONE with a zone that is not a string constant is not supported")
    name = value.literal.strip()
    if match := re.fullmatch(r"([+-])(\d{1,2})(?::?(\d{2}))?", name):
        sign = "-" if match[1] == "+" else "+"
        return f"{sign}{int(match[2]):02}:{match[3] or '00'}"
    known = _zones().get(name.lower())
    if known is None:
        raise InvalidParameterValue(f'time zone "{name}" not recognized')
    return known


def at_time_zone(value: Typed, name: Typed) -> Typed:
    spark_zone = spark_string(zone(name))
    if value.type is None or value.type == DATE:
        value = cast(value, TIMESTAMPTZ)
    if value.type == TIMESTAMPTZ:
        return Typed(f"CAST(from_utc_timestamp({value.sql}, {spark_zone}) AS TIMESTAMP_NTZ)", TIMESTAMP)
    if value.type == TIMESTAMP:
        return Typed(f"to_utc_timestamp(CAST({value.sql} AS TIMESTAMP), {spark_zone})", TIMESTAMPTZ)
    raise TypeMismatch(f"AT TIME ZONE does not take {describe(value.type)}")


# --- generate_series --------------------------------------------------------------------------------------------


def series(args: list[Typed]) -> Typed:
    """The array of generate_series(start, stop[, step])."""
    if not 2 <= len(args) <= 3:
        raise TypeMismatch("generate_series() takes two or three arguments")
    kinds = [arg.type for arg in args[:2] if arg.type is not None]
    if any(map(is_moment, kinds)):
        return _moment_series(args)
    if not all(map(is_integer, [arg.type for arg in args if arg.type is not None])):
        raise Unsupported("generate_series() is only supported for integers and timestamps")
    wide = any(arg.type == SqlType("bigint") for arg in args)
    kind = SqlType("bigint" if wide else "integer")
    start, stop, *rest = [cast(arg, kind).sql for arg in args]
    step = rest[0] if rest else "1"
    return Typed(_sequence(start, stop, step, f"{step} > 0", f"{step} < 0", kind), kind)


def _moment_series(args: list[Typed]) -> Typed:
    if len(args) != 3:
        raise TypeMismatch("generate_series() of timestamps needs a step")
    kind = TIMESTAMPTZ if TIMESTAMPTZ in (args[0].type, args[1].type) else TIMESTAMP
    if kind == TIMESTAMP and DATE in (args[0].type, args[1].type) and TIMESTAMP not in (args[0].type, args[1].type):
        kind = TIMESTAMPTZ  # as PostgreSQL: of the two, the preferred type
    start, stop, step = cast(args[0], kind).sql, cast(args[1], kind).sql, cast(args[2], INTERVAL, months=True)
    if step.months and step.sql != "INTERVAL '0 00:00:00.000000' DAY TO SECOND":
        raise Unsupported("generate_series() with a step of months and days is not supported")
    if step.months:
        sql, up = f"INTERVAL '{step.months}' MONTH", "true" if step.months > 0 else "false"
        return Typed(_sequence(start, stop, sql, up, "false" if up == "true" else "true", kind), kind)
    zero = "INTERVAL '0' DAY"
    return Typed(_sequence(start, stop, step.sql, f"{step.sql} > {zero}", f"{step.sql} < {zero}", kind), kind)


def _sequence(start: str, stop: str, step: str, up: str, down: str, kind: SqlType) -> str:
    """Spark's sequence runs backwards, or fails, where PostgreSQL's is empty. A step of zero fails in both."""
    empty = f"(({up}) AND {start} > {stop}) OR (({down}) AND {start} < {stop})"
    return f"CASE WHEN {empty} THEN CAST(array() AS ARRAY<{kind.spark}>) ELSE sequence({start}, {stop}, {step}) END"
