"""Dates and times: extract, date_trunc, AT TIME ZONE, generate_series.

What clocks show at an instant depends on where: see :mod:`headrace.sql.zoned`.

>>> zone(Typed("NULL", None, literal="europe/paris"))
'Europe/Paris'
"""

from __future__ import annotations

from headrace.errors import InvalidParameterValue, TypeMismatch, UndefinedFunction, Unsupported
from headrace.intervals import DAY, MONTH, Interval
from headrace.sql import intervals, times, zoned
from headrace.sql.casts import cast, error_if
from headrace.sql.signatures import call_by_signature, check_arity, no_function
from headrace.sql.typed import (
    BIGINT,
    DATE,
    DOUBLE,
    INTEGER,
    INTERVAL,
    NUMERIC,
    TIME,
    TIMESTAMP,
    TIMESTAMPTZ,
    Parts,
    Typed,
    converts_implicitly,
    describe,
    digits,
    is_integer,
    is_moment,
    is_time,
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
_CLOCK_FIELDS = {
    "hour": "({0} DIV 3600000000)",
    "minute": "({0} DIV 60000000 % 60)",
    "second": "(CAST({0} % 60000000 AS DECIMAL(10,0)) * 0.000001BD)",
    "milliseconds": "(CAST({0} % 60000000 AS DECIMAL(10,0)) * 0.001BD)",
    "microseconds": "({0} % 60000000)",
}
"""Of the months of an interval, and of what is neither months nor days"""


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
    if not is_moment(value.type) and value.type != INTERVAL and not is_time(value.type):
        raise UndefinedFunction(f"function {name}(unknown, {describe(value.type)}) does not exist")
    if field == "epoch":
        return _epoch(value)
    if field in _ZONE_FIELDS and value.type == TIMESTAMPTZ:
        seconds = _ZONE_FIELDS[field].format(zoned.offset_seconds(value.sql, zoned.current()))
        return Typed(f"CAST(IF({value.sql} IS NULL, NULL, {seconds}) AS DECIMAL(10,0))", numeric(10, 0))
    if field not in _FIELDS and field not in _ZONE_FIELDS:
        raise InvalidParameterValue(f'unit "{field}" not recognized for type {value.type}')
    if value.type == INTERVAL:
        return _interval_field(field, value)
    if is_time(value.type):
        return _time_field(field, value)
    if value.type == DATE and field not in _DATE_FIELDS:
        raise Unsupported(f'unit "{field}" is not supported for type {value.type}')
    if field in _ZONE_FIELDS:
        raise Unsupported(f'unit "{field}" is not supported for type {value.type}')
    if field == "julian" and value.type != DATE:
        raise Unsupported("extract(julian) is only supported for dates")
    if value.type == TIMESTAMPTZ:
        value = _here(value)
    kind = _FIELD_TYPES.get(field, numeric(10, 0))
    return Typed(f"CAST({_FIELDS[field].format(value.sql)} AS {kind.spark})", kind)


def _interval_field(field: str, value: Typed) -> Typed:
    parts = intervals.parts_of(value)
    if field in _MONTH_FIELDS:
        sql = _MONTH_FIELDS[field].format(intervals.number(parts.months))
    elif field == "day":
        sql = intervals.number(parts.days)
    elif field in _CLOCK_FIELDS:
        sql = _CLOCK_FIELDS[field].format(intervals.number(intervals.micros(parts)))
    else:
        raise Unsupported(f'unit "{field}" is not supported for type {value.type}')
    kind = _FIELD_TYPES.get(field, numeric(10, 0))
    return Typed(f"CAST({sql} AS {kind.spark})", kind)


def _time_field(field: str, value: Typed) -> Typed:
    if field not in _CLOCK_FIELDS:
        raise Unsupported(f'unit "{field}" is not supported for type {value.type}')
    kind = _FIELD_TYPES.get(field, numeric(10, 0))
    return Typed(f"CAST({_CLOCK_FIELDS[field].format(value.sql)} AS {kind.spark})", kind)


_FIELD_TYPES = {"second": numeric(8, 6), "milliseconds": numeric(8, 3), "microseconds": numeric(8, 0)}


_YEAR_LONGER = 21 * DAY // 4
"""Microseconds of 5.25 days: what a year has more than 12 months"""


def _epoch(value: Typed) -> Typed:
    if value.type == DATE:
        return Typed(f"CAST(CAST(unix_date({value.sql}) AS BIGINT) * 86400 AS DECIMAL(20,0))", numeric(20, 0))
    if value.type == INTERVAL:
        # PostgreSQL: a year has 365.25 days, a month 30
        parts = intervals.parts_of(value)
        years = f" + {intervals.number(parts.months)} DIV 12 * {_YEAR_LONGER}" if parts.months != 0 else ""
        micros = intervals.number(parts.length) + years
    elif is_time(value.type):
        micros = value.sql
    else:
        micros = f"unix_micros({zoned.in_utc(value)})"
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
    if is_time(value.type):
        value = times.as_interval(value)
    if value.type == INTERVAL and field in _INTERVAL_UNITS:
        return _truncated_interval(field, value)
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
    truncated = f"date_trunc('{unit}', {zoned.in_utc(value)})"
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
    "millennium": 12000, "century": 1200, "decade": 120, "year": 12, "quarter": 3, "month": 1, "day": 1,
    "hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "milliseconds": 1_000, "microseconds": 1,
}  # fmt: skip


def _truncated_interval(field: str, value: Typed) -> Typed:
    """What is less than the field is taken away from it, of whatever sign it is."""
    unit, months, days, rest = _INTERVAL_UNITS[field], "_i.m", "_i.d", "(_i.u * 0)"
    if field in _MONTH_FIELDS:
        months, days = f"(_i.m - _i.m % {unit})", "0L"
    elif field != "day":
        rest = f"(_i.u - _i.u % {unit})"
    made = intervals.interval(intervals.of_micros(months, days, rest)).sql
    return Typed(intervals.unfolded(value, made), INTERVAL)


def date_bin(name: str, args: list[Typed]) -> Typed:
    if len(args) != 3:
        raise TypeMismatch("date_bin() takes three arguments")
    stride, value, origin = intervals.parts_of(cast(args[0], INTERVAL)), args[1], args[2]
    if isinstance(stride.months, int) and stride.months:
        raise Unsupported(_MONTHS_BINNED)
    kind = value.type or origin.type or TIMESTAMP
    if kind == DATE:
        kind = TIMESTAMP
    if not is_moment(kind):
        raise no_function(name, args)
    value, origin = cast(value, kind), cast(origin, kind)
    width = intervals.number(stride.length)
    if isinstance(stride.months, str):
        width = error_if(f"{stride.months} <> 0", _MONTHS_BINNED, width)
    gap = f"(unix_micros({zoned.in_utc(value)}) - unix_micros({zoned.in_utc(origin)}))"
    later = intervals.day_time(Parts(f"pmod({gap}, {width})", 0, 0))
    return Typed(f"({value.sql} - {later})", kind)


_MONTHS_BINNED = "timestamps cannot be binned into intervals containing months or years"


INTERVAL_PARTS = ("years", "months", "weeks", "days", "hours", "mins", "secs")


def make_interval(name: str, args: list[Typed]) -> Typed:
    """make_interval(years, months, weeks, days, hours, mins, secs), all optional"""
    if len(args) > len(INTERVAL_PARTS):
        raise TypeMismatch("make_interval() takes at most seven arguments")
    parts = dict(zip(INTERVAL_PARTS, args, strict=False))
    found = intervals.interval(Parts(0, 0, 0))
    for part, (unit, value) in zip(parts, zip(_PART_UNITS, parts.values(), strict=False), strict=True):
        one = intervals.interval(intervals.constant_parts(unit))
        if part == "secs":
            micros = f"CAST(rint({cast(value, DOUBLE).sql} * 1000000) AS BIGINT)"
            step = intervals.scaled(one, Typed("0" if value.sql == "0" else micros, BIGINT))
        else:
            step = intervals.scaled(one, cast(value, INTEGER))
        found = intervals.added(found, "+", step)
    return found


_PART_UNITS = (
    Interval(12, 0, 0), Interval(1, 0, 0), Interval(0, 7, 0), Interval(0, 1, 0), Interval(0, 0, 3_600_000_000),
    Interval(0, 0, 60_000_000), Interval(0, 0, 1),
)  # fmt: skip


def age(name: str, args: list[Typed]) -> Typed:
    """Years, months, days and the time between two moments, counted as on a calendar; of one, until today."""
    if not 1 <= len(args) <= 2:
        raise TypeMismatch("age() takes one or two arguments")
    if len(args) == 1:
        args = [current_date(name, []), *args]
    if not all(is_moment(arg.type) or arg.type is None for arg in args):
        raise UndefinedFunction(f"function age({', '.join(describe(arg.type) for arg in args)}) does not exist")
    left, right = (zoned.in_utc(_here(cast(arg, TIMESTAMPTZ) if arg.type is None else arg)) for arg in args)

    def clock(moment: str) -> str:
        return f"pmod(unix_micros({moment}), {DAY})"

    # From the earlier to the later one. A day that is missing is borrowed from the earlier one's month.
    borrowed = f"IF({clock('_h')} < {clock('_l')}, 1, 0)"
    days = f"(day(_h) - day(_l) - {borrowed})"
    months = f"((year(_h) - year(_l)) * 12 + month(_h) - month(_l) - IF({days} < 0, 1, 0))"
    rest = f"({days} + IF({days} < 0, day(last_day(CAST(_l AS DATE))), 0))"
    time = f"({clock('_h')} - {clock('_l')} + {borrowed} * {DAY}L)"
    sign = f"IF({left} < {right}, -1L, 1L)"
    both = f"named_struct('m', {months} * {sign}, 'd', {rest} * {sign}, 'u', {time} * {sign})"
    sides = f"array(least({left}, {right})), array(greatest({left}, {right}))"
    made = intervals.interval(intervals.of_micros("_p.m", "_p.d", "_p.u")).sql
    found = f"get(transform(zip_with({sides}, (_l, _h) -> {both}), _p -> {made}), 0)"
    return Typed(f"CASE WHEN {left} IS NOT NULL AND {right} IS NOT NULL THEN {found} END", INTERVAL)


def justify(name: str, args: list[Typed]) -> Typed:
    """24 hours become a day, or 30 days a month, or both; and the parts get the same sign."""
    if len(args) != 1 or (args[0].type is not None and args[0].type != INTERVAL):
        raise UndefinedFunction(f"function {name}({', '.join(describe(arg.type) for arg in args)}) does not exist")
    full_months = {"m": "_i.m + _i.d DIV 30", "d": "_i.d % 30", "u": "_i.u"}
    full_days = {"m": "_i.m", "d": f"_i.d + _i.u DIV {DAY}", "u": f"_i.u % {DAY}"}
    steps = {
        "justify_days": (full_months, _same_sign("_i.m", "_i.d", 30, "_i.u")),
        "justify_hours": (full_days, _same_sign("_i.d", "_i.u", DAY, "_i.m")),
        "justify_interval": (full_days, full_months, _SAME_SIGN, _same_sign("_i.d", "_i.u", DAY, "_i.m")),
    }[name]
    body = intervals.interval(intervals.of_micros("_i.m", "_i.d", "_i.u")).sql
    for step in reversed(steps):
        body = intervals.let(step, body)
    return Typed(intervals.unfolded(cast(args[0], INTERVAL), body), INTERVAL)


# Of the months, as to the days, and to the rest if there are no days.
_BORROWED = (
    "IF(_i.m > 0 AND (_i.d < 0 OR (_i.d = 0 AND _i.u < 0)), 1, "
    "IF(_i.m < 0 AND (_i.d > 0 OR (_i.d = 0 AND _i.u > 0)), -1, 0))"
)
_SAME_SIGN = {"m": f"_i.m - {_BORROWED}", "d": f"_i.d + {_BORROWED} * 30", "u": "_i.u"}


def _same_sign(large: str, small: str, ratio: int, other: str) -> dict[str, str]:
    """The larger part gives one of its units to the smaller one, if that has another sign."""
    borrowed = f"IF({large} > 0 AND {small} < 0, 1, IF({large} < 0 AND {small} > 0, -1, 0))"
    found = {large: f"{large} - {borrowed}", small: f"{small} + {borrowed} * {ratio}L", other: other}
    return {name.removeprefix("_i."): sql for name, sql in found.items()}


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


def localtime(name: str, args: list[Typed]) -> Typed:
    return Typed(times.of_timestamp(localtimestamp(name, args)), TIME)


def make_time(name: str, args: list[Typed]) -> Typed:
    """make_time(hour, minute, seconds)"""
    check_arity(name, args, 3)
    if not all(converts_implicitly(arg.type, kind) for arg, kind in zip(args, _OF_MAKE_TIME, strict=True)):
        raise no_function(name, args)
    return Typed(times.made(*(cast(arg, kind).sql for arg, kind in zip(args, _OF_MAKE_TIME, strict=True))), TIME)


_OF_MAKE_TIME = (INTEGER, INTEGER, DOUBLE)


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
    start, stop, given = cast(args[0], kind).sql, cast(args[1], kind).sql, cast(args[2], INTERVAL)
    step = intervals.parts_of(given)
    there = zone(args[3]) if len(args) == 4 else zoned.current() if kind == TIMESTAMPTZ else None
    if there is not None and (step.months, step.days) != (0, 0):
        # Months and days are those of the calendar there; what is only hours goes on like time itself.
        local = [Typed(zoned.local(each, there), TIMESTAMP) for each in (start, stop)]
        sql = f"transform({_moment_series([*local, given]).sql}, _d -> {zoned.instant('_d', there)})"
        if not isinstance(step.months, int) or not isinstance(step.days, int):
            plain = _clock_series(start, stop, step, kind)
            sql = f"CASE WHEN {step.months} = 0 AND {step.days} = 0 THEN {plain} ELSE {sql} END"
        return Typed(sql, kind)
    by_months = f"{intervals.number(step.length)} = {step.months} * {MONTH}L"
    if step.months == 0:
        sql = _clock_series(start, stop, step, kind)
    elif isinstance(step.months, str):
        found = f"CASE WHEN {by_months} THEN {_month_series(start, stop, step.months, kind)} ELSE "
        sql = f"CASE WHEN {step.months} = 0 THEN {_clock_series(start, stop, step, kind)} ELSE "
        sql += f"{found}{error_if('true', _MIXED_STEP, 'NULL')} END END"
    elif step.length == step.months * MONTH:
        sql = _month_series(start, stop, step.months, kind)
    else:
        raise Unsupported(_MIXED_STEP)
    return Typed(sql, kind)


_MIXED_STEP = "generate_series() with a step of months and days is not supported"


def _clock_series(start: str, stop: str, step: Parts, kind: SqlType) -> str:
    length = intervals.number(step.length)
    step = Parts(step.length, 0, 0)
    return _sequence(start, stop, intervals.day_time(step), f"{length} > 0", f"{length} < 0", kind)


def _month_series(start: str, stop: str, months: int | str, kind: SqlType) -> str:
    sql = intervals.spark_months(months)
    up, down = f"{months} > 0", f"{months} < 0"
    # PostgreSQL goes on from the last day of a short month; Spark returns to the day that it began with.
    longer = _sequence(
        start, f"({stop} + CASE WHEN {up} THEN INTERVAL '3' DAY ELSE INTERVAL '0' DAY END)", sql, up, down, kind
    )
    earliest = "array_min(transform(slice(_s, 1, _n + 1), _d -> day(_d)))"
    days = f"transform(_s, (_e, _n) -> _e - make_dt_interval(day(_e) - {earliest}))"
    inside = f"filter({days}, _e -> CASE WHEN {up} THEN _e <= {stop} ELSE _e >= {stop} END)"
    moved = f"get(transform(array({longer}), _s -> {inside}), 0)"
    return f"CASE WHEN day({start}) <= 28 THEN {_sequence(start, stop, sql, up, down, kind)} ELSE {moved} END"


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
