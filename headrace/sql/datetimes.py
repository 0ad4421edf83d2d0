"""Dates and times: extract, date_trunc, AT TIME ZONE, generate_series.

What clocks show at an instant depends on where: see :mod:`headrace.sql.zoned`.

>>> zone(Typed("NULL", None, literal="europe/paris"))
'Europe/Paris'
"""

from __future__ import annotations

from headrace.errors import InvalidParameterValue, TypeMismatch, UndefinedFunction, Unsupported
from headrace.sql import spans, zoned
from headrace.sql.casts import cast
from headrace.sql.signatures import call_by_signature, check_arity, no_function
from headrace.sql.typed import (
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    TIMESTAMP,
    TIMESTAMPTZ,
    Typed,
    describe,
    digits,
    is_integer,
    is_moment,
    numeric,
)
from headrace.types import SqlType
from headrace.zones import named_zone

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
    # days since the beginning of 4713 BC
    "julian": "(unix_date(CAST({0} AS DATE)) + 2440588)",
}
_ALIASES = {
    "years": "year",
    "months": "month",
    "days": "day",
    "hours": "hour",
    "minutes": "minute",
    "seconds": "second",
}
_ZONE_FIELDS = {"timezone": "{0}", "timezone_hour": "({0} DIV 3600)", "timezone_minute": "({0} DIV 60 % 60)"}
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
    "julian",
)
_MONTH_FIELDS = {
    "year": "({0} DIV 12)",
    "month": "({0} % 12)",
    "quarter": "({0} % 12 DIV 3 + 1)",
    "decade": "({0} DIV 120)",
    "century": "({0} DIV 1200)",
    "millennium": "({0} DIV 12000)",
}
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
        raise UndefinedFunction(f"function {name}(unknown, {describe(value.type)}) does not exist")
    if field == "epoch":
        return _epoch(value)
    if field in _ZONE_FIELDS and value.type == TIMESTAMPTZ:
        seconds = _ZONE_FIELDS[field].format(zoned.offset_seconds(value.sql, zoned.current()))
        return Typed(f"CAST(IF({value.sql} IS NULL, NULL, {seconds}) AS DECIMAL(10,0))", numeric(10, 0))
    if field not in _FIELDS and field not in _ZONE_FIELDS:
        raise InvalidParameterValue(f'unit "{field}" not recognized for type {value.type}')
    if value.type == INTERVAL and field in _MONTH_FIELDS:
        return Typed(f"CAST({_MONTH_FIELDS[field].format(value.months)} AS DECIMAL(10,0))", numeric(10, 0))
    if (value.type == DATE and field not in _DATE_FIELDS) or (value.type == INTERVAL and field not in _INTERVAL_FIELDS):
        raise Unsupported(f'unit "{field}" is not supported for type {value.type}')
    if field in _ZONE_FIELDS:
        raise Unsupported(f'unit "{field}" is not supported for type {value.type}')
    if field == "julian" and value.type != DATE:
        raise Unsupported("extract(julian) is only supported for dates")
    if value.type == TIMESTAMPTZ:
        value = _here(value)
    kind = _FIELD_TYPES.get(field, numeric(10, 0))
    return Typed(f"CAST({_FIELDS[field].format(value.sql)} AS {kind.spark})", kind)


_FIELD_TYPES = {"second": numeric(8, 6), "milliseconds": numeric(8, 3), "microseconds": numeric(8, 0)}


def _epoch(value: Typed) -> Typed:
    if value.type == DATE:
        return Typed(f"CAST(CAST(unix_date({value.sql}) AS BIGINT) * 86400 AS DECIMAL(20,0))", numeric(20, 0))
    if value.type == INTERVAL:
        # PostgreSQL: a year has 365.25 days, a month 30
        months = f"{value.months} DIV 12 * 31557600000000 + {value.months} % 12 * 2592000000000"
        micros = f"({spans.micros(value)} + {months})" if value.months else spans.micros(value)
    else:
        micros = f"unix_micros({_in_utc(value)})"
    return Typed(f"CAST(CAST({micros} AS DECIMAL(20,0)) * 0.000001BD AS DECIMAL(26,6))", numeric(26, 6))


def extract(name: str, args: list[Typed]) -> Typed:
    return _field(name, args)


def date_part(name: str, args: list[Typed]) -> Typed:
    return cast(_field(name, args), DOUBLE)


_TRUNCATED = ("microseconds", "milliseconds", "second", "minute", "hour", "day", "week", "month", "quarter", "year")


_LONG = {"decade": (10, 0), "century": (100, 1), "millennium": (1000, 1)}
"""How many years, and the number of the first one of them."""


def date_trunc(name: str, args: list[Typed]) -> Typed:
    if not 2 <= len(args) <= 3:
        raise TypeMismatch("date_trunc() takes two or three arguments")
    field = _constant_word(name, "field", args[0]).lower()
    field = _ALIASES.get(field, field)
    if field not in _TRUNCATED and field not in _LONG:
        raise InvalidParameterValue(f'unit "{field}" not recognized for type {describe(args[1].type)}')
    value = args[1]
    if value.type is None or value.type == DATE:
        value = cast(value, TIMESTAMPTZ)
    if value.type == INTERVAL and field in _INTERVAL_UNITS:
        unit = f"{_INTERVAL_UNITS[field]}"
        rest = f"pmod({spans.micros(value)}, {unit})"
        return Typed(f"({value.sql} - make_dt_interval(0, 0, 0, CAST({rest} AS DECIMAL(18,0)) * 0.000001BD))", INTERVAL)
    if not is_moment(value.type):
        raise Unsupported(f"date_trunc('{field}', …) of {describe(value.type)} is not supported")
    if len(args) == 3:
        if value.type != TIMESTAMPTZ:
            raise UndefinedFunction(f"function date_trunc(unknown, {value.type}, unknown) does not exist")
        return _truncated_there(field, value, zone(args[2]))
    if value.type == TIMESTAMPTZ and (here := zoned.current()) is not None:
        return _truncated_there(field, value, here)
    return _truncated(field, value)


def _truncated(field: str, value: Typed) -> Typed:
    if field in _LONG:
        years, first = _LONG[field]
        year = f"extract(YEAR FROM {value.sql})"
        start = (
            f"make_timestamp_ntz(CAST(floor(({year} - {first}) / {years}) * {years} + {first} AS INT), 1, 1, 0, 0, 0)"
        )
        return Typed(f"CAST({start} AS {value.type.spark})", value.type)
    unit = {"microseconds": "MICROSECOND", "milliseconds": "MILLISECOND"}.get(field, field.upper())
    truncated = f"date_trunc('{unit}', {_in_utc(value)})"
    return Typed(truncated if value.type == TIMESTAMPTZ else f"CAST({truncated} AS {value.type.spark})", value.type)


_OF_A_DAY = ("microseconds", "milliseconds", "second", "minute", "hour")


def _truncated_there(field: str, value: Typed, there: str) -> Typed:
    """A part of a day is cut off of the instant itself: the clocks may show it again an hour later."""
    shown = Typed(zoned.local(value.sql, there), TIMESTAMP)
    start = _truncated(field, shown).sql
    if field in _OF_A_DAY:
        return Typed(f"({value.sql} - ({shown.sql} - {start}))", TIMESTAMPTZ)
    return Typed(zoned.instant(start, there), TIMESTAMPTZ)


_INTERVAL_UNITS = {
    "day": 86_400_000_000, "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "milliseconds": 1_000,
}  # fmt: skip


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
    width = spans.micros(stride)
    gap = f"(unix_micros({_in_utc(value)}) - unix_micros({_in_utc(origin)}))"
    moved = f"({value.sql} - make_dt_interval(0, 0, 0, CAST(pmod({gap}, {width}) AS DECIMAL(18,0)) * 0.000001BD))"
    return Typed(moved, kind)


INTERVAL_PARTS = ("years", "months", "weeks", "days", "hours", "mins", "secs")


def make_interval(name: str, args: list[Typed]) -> Typed:
    """make_interval(years, months, weeks, days, hours, mins, secs), all optional"""
    if len(args) > len(INTERVAL_PARTS):
        raise TypeMismatch("make_interval() takes at most seven arguments")
    parts = dict(zip(INTERVAL_PARTS, args, strict=False))
    months = _months(parts.pop("years", None), parts.pop("months", None))
    weeks, days, hours, mins = (
        cast(parts[part], INTEGER).sql if part in parts else "0" for part in ("weeks", "days", "hours", "mins")
    )
    seconds = f"CAST({parts['secs'].sql} AS DECIMAL(18,6))" if "secs" in parts else "0"
    return Typed(f"make_dt_interval({weeks} * 7 + {days}, {hours}, {mins}, {seconds})", INTERVAL, months=months)


def _months(years: Typed | None, months: Typed | None) -> spans.Months:
    """A number if both are constants."""
    counts = [_count(value) for value in (years, months)]
    if all(isinstance(count, int) for count in counts):
        return 12 * counts[0] + counts[1]
    return f"({counts[0]} * 12 + {counts[1]})"


def _count(value: Typed | None) -> spans.Months:
    if value is None:
        return 0
    sql = cast(value, INTEGER).sql
    text = sql.removeprefix("(- ").removesuffix(")")
    if text.isdigit():
        return -int(text) if sql.startswith("(- ") else int(text)
    return sql


def age(name: str, args: list[Typed]) -> Typed:
    """Years, months, days and the time between two moments, counted as on a calendar; of one, until today."""
    if not 1 <= len(args) <= 2:
        raise TypeMismatch("age() takes one or two arguments")
    if len(args) == 1:
        args = [current_date(name, []), *args]
    if not all(is_moment(arg.type) or arg.type is None for arg in args):
        raise UndefinedFunction(f"function age({', '.join(describe(arg.type) for arg in args)}) does not exist")
    left, right = (_in_utc(_here(cast(arg, TIMESTAMPTZ) if arg.type is None else arg)) for arg in args)

    def clock(moment: str) -> str:
        return f"pmod(unix_micros({moment}), {spans.DAY})"

    # From the earlier to the later one. A day that is missing is borrowed from the earlier one's month.
    borrowed = f"IF({clock('_h')} < {clock('_l')}, 1, 0)"
    days = f"(day(_h) - day(_l) - {borrowed})"
    months = f"((year(_h) - year(_l)) * 12 + month(_h) - month(_l) - IF({days} < 0, 1, 0))"
    rest = f"({days} + IF({days} < 0, day(last_day(CAST(_l AS DATE))), 0) + {borrowed})"
    time = spans.from_micros(f"({clock('_h')} - {clock('_l')})")
    both = f"named_struct('m', {months}, 'r', make_dt_interval({rest}) + {time})"
    sides = f"array(least({left}, {right})), array(greatest({left}, {right}))"
    known = f"{left} IS NOT NULL AND {right} IS NOT NULL"
    found = f"(CASE WHEN {known} THEN get(zip_with({sides}, (_l, _h) -> {both}), 0) END)"
    sign = f"CASE WHEN {left} < {right} THEN -1 ELSE 1 END"
    return Typed(f"({found}.r * {sign})", INTERVAL, months=f"({found}.m * {sign})")


def justify(name: str, args: list[Typed]) -> Typed:
    """30 days become a month. 24 hours are a day anyway: an interval is microseconds."""
    if len(args) != 1 or (args[0].type is not None and args[0].type != INTERVAL):
        raise UndefinedFunction(f"function {name}({', '.join(describe(arg.type) for arg in args)}) does not exist")
    value = cast(args[0], INTERVAL, months=True)
    if name == "justify_hours":
        return value
    days = spans.PARTS["day"]
    whole = f"({days} DIV 30)"
    months = f"(_m + {whole})"
    left = f"({days} % 30)" if name == "justify_days" else f"(_u - {whole} * {30 * spans.DAY})"
    # months and the rest shall have the same sign
    borrowed = f"CASE WHEN {months} > 0 AND {left} < 0 THEN 1 WHEN {months} < 0 AND {left} > 0 THEN -1 ELSE 0 END"
    moved = f"CAST({whole} - {borrowed} AS INT)"
    both = spans.unfolded(
        value, f"named_struct('m', _m + {moved}, 'r', {spans.from_micros(f'(_u - {moved} * {30 * spans.DAY})')})"
    )
    return Typed(f"{both}.r", INTERVAL, months=f"{both}.m")


# --- time zones -------------------------------------------------------------------------------------------------


def zone(value: Typed) -> str:
    """A time zone as Spark spells it. PostgreSQL's bare offsets are POSIX's: positive is west of Greenwich."""
    if value.literal is None:
        raise Unsupported("AT TIME ZONE with a zone that is not a string constant is not supported")
    try:
        return named_zone(value.literal.strip())
    except ValueError:
        raise InvalidParameterValue(f'time zone "{value.literal.strip()}" not recognized') from None


def at_time_zone(value: Typed, name: Typed) -> Typed:
    there = zone(name)
    if value.type is None or value.type == DATE:
        value = cast(value, TIMESTAMPTZ)
    if value.type == TIMESTAMPTZ:
        return Typed(zoned.local(value.sql, there), TIMESTAMP)
    if value.type == TIMESTAMP:
        return Typed(zoned.instant(value.sql, there), TIMESTAMPTZ)
    raise TypeMismatch(f"AT TIME ZONE does not take {describe(value.type)}")


def _here(value: Typed) -> Typed:
    """What clocks show where an expression is meant; of what is no instant, itself."""
    if value.type != TIMESTAMPTZ or (here := zoned.current()) is None:
        return value
    return Typed(zoned.local(value.sql, here), TIMESTAMP)


def _in_utc(value: Typed) -> str:
    """An instant for Spark's functions that take nothing else; of a time without a zone, where clocks show UTC."""
    return value.sql if value.type == TIMESTAMPTZ else f"CAST({value.sql} AS TIMESTAMP)"


def current_date(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 0)
    here = zoned.current()
    if here is None:
        return Typed("current_date()", DATE)
    return Typed(f"CAST({zoned.local('current_timestamp()', here)} AS DATE)", DATE)


def localtimestamp(name: str, args: list[Typed]) -> Typed:
    check_arity(name, args, 0)
    here = zoned.current()
    return Typed("localtimestamp()" if here is None else zoned.local("current_timestamp()", here), TIMESTAMP)


def make_timestamptz(name: str, args: list[Typed]) -> Typed:
    """make_timestamptz(year, month, day, hour, minute, seconds[, zone])"""
    check_arity(name, args, 6, 7)
    there = zone(args[6]) if len(args) == 7 else zoned.current()
    return Typed(zoned.instant(call_by_signature("make_timestamp", args[:6]).sql, there), TIMESTAMPTZ)


# --- generate_series --------------------------------------------------------------------------------------------


def series(args: list[Typed]) -> Typed:
    """The array of generate_series(start, stop[, step])."""
    if not 2 <= len(args) <= 4:
        raise TypeMismatch("generate_series() takes two to four arguments")
    kinds = [arg.type for arg in args[:2] if arg.type is not None]
    if any(map(is_moment, kinds)):
        return _moment_series(args)
    if len(args) == 4:
        raise no_function("generate_series", args)
    if any(arg.type is not None and arg.type.name == "numeric" for arg in args):
        return _numeric_series(args)
    if not all(map(is_integer, [arg.type for arg in args if arg.type is not None])):
        raise Unsupported("generate_series() is only supported for integers, numerics and timestamps")
    wide = any(arg.type == SqlType("bigint") for arg in args)
    kind = SqlType("bigint" if wide else "integer")
    start, stop, *rest = [cast(arg, kind).sql for arg in args]
    step = rest[0] if rest else "1"
    return Typed(_sequence(start, stop, step, f"{step} > 0", f"{step} < 0", kind), kind)


def _moment_series(args: list[Typed]) -> Typed:
    if len(args) == 2:
        raise TypeMismatch("generate_series() of timestamps needs a step")
    kind = TIMESTAMPTZ if TIMESTAMPTZ in (args[0].type, args[1].type) else TIMESTAMP
    if kind == TIMESTAMP and DATE in (args[0].type, args[1].type) and TIMESTAMP not in (args[0].type, args[1].type):
        kind = TIMESTAMPTZ  # as PostgreSQL: of the two, the preferred type
    if len(args) == 4 and kind != TIMESTAMPTZ:
        raise no_function("generate_series", args)
    start, stop, step = cast(args[0], kind).sql, cast(args[1], kind).sql, cast(args[2], INTERVAL, months=True)
    there = zone(args[3]) if len(args) == 4 else zoned.current() if kind == TIMESTAMPTZ else None
    constant = zoned.whole_days(step.sql)
    if there is not None and (step.months or (constant is not None and constant[0])):
        # Months and days are those of the calendar there; what is only hours goes on like time itself.
        local = [Typed(zoned.local(each, there), TIMESTAMP) for each in (start, stop)]
        return Typed(f"transform({_moment_series([*local, step]).sql}, _d -> {zoned.instant('_d', there)})", kind)
    if step.months and step.sql != "INTERVAL '0 00:00:00.000000' DAY TO SECOND":
        raise Unsupported("generate_series() with a step of months and days is not supported")
    if step.months:
        sql = spans.spark_months(step.months)
        up, down = f"{step.months} > 0", f"{step.months} < 0"
        # PostgreSQL goes on from the last day of a short month; Spark returns to the day that it began with.
        longer = _sequence(
            start, f"({stop} + CASE WHEN {up} THEN INTERVAL '3' DAY ELSE INTERVAL '0' DAY END)", sql, up, down, kind
        )
        earliest = "array_min(transform(slice(_s, 1, _i + 1), _d -> day(_d)))"
        days = f"transform(_s, (_e, _i) -> _e - make_dt_interval(day(_e) - {earliest}))"
        inside = f"filter({days}, _e -> CASE WHEN {up} THEN _e <= {stop} ELSE _e >= {stop} END)"
        moved = f"get(transform(array({longer}), _s -> {inside}), 0)"
        return Typed(
            f"CASE WHEN day({start}) <= 28 THEN {_sequence(start, stop, sql, up, down, kind)} ELSE {moved} END", kind
        )
    zero = "INTERVAL '0' DAY"
    return Typed(_sequence(start, stop, step.sql, f"{step.sql} > {zero}", f"{step.sql} < {zero}", kind), kind)


def _numeric_series(args: list[Typed]) -> Typed:
    values = [cast(arg, NUMERIC) for arg in [*args, Typed("1", INTEGER)][:3]]
    whole = max(precision - scale for precision, scale in (digits(value.type) for value in values))
    scale = max(digits(value.type)[1] for value in values)
    kind = numeric(whole + scale, scale, *(value.type for value in values))
    start, stop, step = (f"CAST({value.sql} AS {kind.spark})" for value in values)
    count = f"CAST(floor(({stop} - {start}) / {step}) AS BIGINT)"
    numbers = f"transform(sequence(0L, {count}), _n -> CAST({start} + _n * {step} AS {kind.spark}))"
    return Typed(f"CASE WHEN {count} < 0 THEN CAST(array() AS ARRAY<{kind.spark}>) ELSE {numbers} END", kind)


def _sequence(start: str, stop: str, step: str, up: str, down: str, kind: SqlType) -> str:
    """Spark's sequence runs backwards, or fails, where PostgreSQL's is empty. A step of zero fails in both."""
    empty = f"(({up}) AND {start} > {stop}) OR (({down}) AND {start} < {stop})"
    return f"CASE WHEN {empty} THEN CAST(array() AS ARRAY<{kind.spark}>) ELSE sequence({start}, {stop}, {step}) END"
