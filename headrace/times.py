"""Times of day: microseconds since midnight, up to 24:00:00, which PostgreSQL has, and Python, Arrow and Spark lack.

That is why a whole number is stored and computed with, and not Spark's TIME, which ends a microsecond before. To Python
a time is :class:`datetime.time`, but for 24:00:00, which is its text; to Arrow, a ``time64``.

>>> parse_time("04:05:06.789"), time_text(14706789000)
(14706789000, '04:05:06.789')
>>> to_python(parse_time("04:05 PM")), to_python(DAY)
(datetime.time(16, 5), '24:00:00')
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, time
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError
from headrace.zones import named_zone, posix_name

DAY = 86_400_000_000
ARROW = pa.time64("us")
"""As which programs get and bring them"""

_CLOCK = r"(?P<first>\d+):(?P<second>\d+)(?::(?P<third>\d+)(?P<fraction>\.\d*)?|(?P<short>\.\d*))?"
_DIGITS = r"(?P<hh>\d{2})(?P<mm>\d{2})(?:(?P<ss>\d{2})(?P<ff>\.\d*)?)?"
_ZONE = r"\s*(?P<zone>[+-]\d{1,2}(?::?\d{2}){0,2}|[a-z][a-z_/+-]*\d*)"
_TIME = re.compile(
    rf"(?:(?P<date>\d{{4}}-\d{{1,2}}-\d{{1,2}})\s+|t)?(?:{_CLOCK}|{_DIGITS})\s*(?P<half>[ap]m)?(?:{_ZONE})?",
    re.IGNORECASE,
)


def parse_time(text: str, digits: int | None = None) -> int:
    """As PostgreSQL reads it: what is said of a time zone, or a day, is checked and ignored.

    ``digits``: of the fraction of a second, which is rounded to them."""
    bare = text.strip()
    if bare.lower() == "allballs":
        return 0
    match = _TIME.fullmatch(bare)
    if match is None:
        raise _invalid(text)
    part = match.groupdict()
    hour, minute, second, fraction = _parts(part)
    if part["zone"] is not None:
        _check_zone(part["zone"], text, dated=part["date"] is not None)
    try:
        date.fromisoformat("-".join(each.zfill(2) for each in (part["date"] or "2000-01-01").split("-")))
    except ValueError:
        raise _out_of_range(text) from None
    half = (part["half"] or "").lower()
    if hour > 24 or minute > 59 or second > 60 or (half and hour > 12):
        raise _out_of_range(text)
    if half:
        hour = hour % 12 + (12 if half == "pm" else 0)
    found = ((hour * 60 + minute) * 60 + second) * 1_000_000 + round(float(f"0{fraction or '.0'}0") * 1_000_000)
    if found > DAY:
        raise _out_of_range(text)
    return rounded(found, digits)


def _parts(part: dict[str, str | None]) -> tuple[int, int, int, str | None]:
    if part["hh"] is not None:
        return int(part["hh"]), int(part["mm"] or 0), int(part["ss"] or 0), part["ff"]
    first, second = int(part["first"] or 0), int(part["second"] or 0)
    if part["short"] is not None:  # minutes and seconds
        return 0, first, second, part["short"]
    return first, second, int(part["third"] or 0), part["fraction"]


def _check_zone(name: str, text: str, *, dated: bool) -> None:
    try:
        if "/" in name and not dated:  # whose offset follows from the day
            raise ValueError(name)
        named_zone(posix_name(name))
    except ValueError:
        if name[0] in "+-":
            raise DataError(f'time zone displacement out of range: "{text}"', sqlstate="22009") from None
        raise _invalid(text) from None


def _invalid(text: str) -> DataError:
    return DataError(f'invalid input syntax for type time: "{text}"', sqlstate="22007")


def _out_of_range(text: str) -> DataError:
    return DataError(f'date/time field value out of range: "{text}"', sqlstate="22008")


def rounded(micros: int, digits: int | None) -> int:
    """To so many digits of a second, half of one up."""
    unit = unit_of(digits)
    return micros if unit == 1 else (micros + unit // 2) // unit * unit


def unit_of(digits: int | None) -> int:
    """In microseconds"""
    return 1 if digits is None else 10 ** (6 - digits)


def time_text(micros: int) -> str:
    seconds, fraction = divmod(micros, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return clock + (f".{fraction:06}".rstrip("0") if fraction else "")


def to_python(micros: int) -> time | str:
    if micros >= DAY:
        return time_text(micros)
    seconds, fraction = divmod(micros, 1_000_000)
    return time(seconds // 3600, seconds // 60 % 60, seconds % 60, fraction)


def of_time(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def from_python(value: Any, digits: int | None = None) -> int:
    """A value of Python's, or one that is stored, as it is stored."""
    if isinstance(value, time):
        return rounded(of_time(value), digits)
    return parse_time(value, digits) if isinstance(value, str) else rounded(_checked(int(value)), digits)


def _checked(micros: int) -> int:
    if not 0 <= micros <= DAY:
        raise DataError("time out of range", sqlstate="22008")
    return micros


_IN_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def from_arrow(values: pa.Array, digits: int | None = None) -> pa.Array:
    """Arrow's times, texts, or whole microseconds, as what is stored; anything else as it is."""
    kind = values.type
    if pa.types.is_time(kind) and kind.unit != "ns":
        numbers = values.cast(pa.int64() if pa.types.is_time64(kind) else pa.int32()).cast(pa.int64())
        values = pc.multiply(numbers, _IN_MICROS[kind.unit])
    elif pa.types.is_time(kind):
        values = pc.divide(pc.add(values.cast(pa.int64()), 500), 1_000)
    elif pa.types.is_dictionary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return pa.array([None if each is None else parse_time(each, digits) for each in values.to_pylist()], pa.int64())
    elif not pa.types.is_integer(kind):
        return values
    for edge in pc.min_max(values.cast(pa.int64())).values():
        _checked(edge.as_py() or 0)
    unit = unit_of(digits)
    return values if unit == 1 else pc.multiply(pc.divide(pc.add(values, unit // 2), unit), unit)


# --- for programs -----------------------------------------------------------------------------------------------


def presenter(kind: Any) -> Callable[[Any], Any] | None:
    """What makes times of the numbers in a value of the SQL type; None where there are none."""
    if kind.name == "time":
        return to_python
    if kind.name == "array":
        inner = presenter(kind.element)
        return inner and (lambda values: [None if each is None else inner(each) for each in values])
    found = {name: inner for name, each in kind.fields if (inner := presenter(each)) is not None}
    if not found:
        return None
    if kind.name == "map":
        of_key, of_item = (found.get(name, lambda each: each) for name in ("key", "value"))
        return lambda pairs: [(of_key(key), None if item is None else of_item(item)) for key, item in pairs]
    return lambda value: {
        name: found[name](each) if each is not None and name in found else each for name, each in value.items()
    }


def presented(kind: Any, arrow: pa.DataType) -> pa.DataType:
    """The Arrow type of a column of the SQL type, which is stored as ``arrow``, with times in place of numbers."""
    if kind.name == "time":
        return ARROW
    if kind.name == "array" and pa.types.is_list(arrow):
        return pa.list_(presented(kind.element, arrow.value_type))
    if kind.name == "struct" and pa.types.is_struct(arrow):
        inner = zip(kind.fields, arrow, strict=True)
        return pa.struct([pa.field(field.name, presented(each, field.type)) for (_, each), field in inner])
    return arrow
