"""Intervals: months, days and microseconds, which PostgreSQL keeps apart because none of them has a fixed length.

They are compared by their length, for which a month has 30 days and a day 24 hours. What is stored is a struct that
begins with it, so that Spark, Arrow and keys in bytes sort intervals without knowing what they are.

>>> parse_interval("1 year 2 mons 3 days 04:05:06.5")
Interval(months=14, days=3, micros=14706500000)
>>> str(parse_interval("30 hours")), str(parse_interval("-1 mon +3 days 1.5 sec"))
('30:00:00', '-1 mons +3 days 00:00:01.5')
>>> Interval(months=0, days=1, micros=1).stored
{'length': 86400000001, 'months': 0, 'days': 1}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_DOWN, ROUND_HALF_DOWN, ROUND_HALF_EVEN, Decimal
from typing import NamedTuple

import pyarrow as pa

from headrace.errors import DataError

DAY = 86_400_000_000
MONTH = 30 * DAY
"""In microseconds, in comparisons"""

FIELDS = ("length", "months", "days")
"""Of what is stored"""

ARROW = pa.struct(list(zip(FIELDS, (pa.int64(), pa.int32(), pa.int32()), strict=True)))


class Interval(NamedTuple):
    months: int
    days: int
    micros: int

    @property
    def length(self) -> int:
        return self.months * MONTH + self.days * DAY + self.micros

    @property
    def stored(self) -> dict[str, int]:
        return {"length": self.length, "months": self.months, "days": self.days}

    @staticmethod
    def of(stored: Mapping[str, int]) -> Interval:
        length, months, days = (stored[field] for field in FIELDS)
        return Interval(months, days, length - months * MONTH - days * DAY)

    def __str__(self) -> str:
        """As PostgreSQL prints it, with IntervalStyle postgres."""
        parts: list[str] = []
        negative = False  # whether the last part was: then a plus stands before one that is not
        years, months = (abs(self.months) // 12, abs(self.months) % 12)
        sign = -1 if self.months < 0 else 1
        for number, unit in ((sign * years, "year"), (sign * months, "mon"), (self.days, "day")):
            if number:
                plus = "+" if negative and number > 0 else ""
                parts.append(f"{plus}{number} {unit}{'' if number == 1 else 's'}")
                negative = number < 0
        if self.micros or not parts:
            seconds, fraction = divmod(abs(self.micros), 1_000_000)
            before = "-" if self.micros < 0 else "+" if negative else ""
            clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
            parts.append(before + clock + (f".{fraction:06}".rstrip("0") if fraction else ""))
        return " ".join(parts)

    @staticmethod
    def between(micros: int) -> Interval:
        """So many microseconds, as days and the rest of them, of one sign."""
        days, rest = divmod(abs(micros), DAY)
        return Interval(0, -days, -rest) if micros < 0 else Interval(0, days, rest)


def from_arrow(values: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Arrow's durations and intervals as what is stored; anything else as it is."""
    if pa.types.is_duration(values.type):
        micros = values.cast(pa.duration("us")).cast(pa.int64()).to_pylist()
        found = [None if each is None else Interval.between(each) for each in micros]
    elif values.type == pa.month_day_nano_interval():
        parts = values.to_pylist()
        found = [None if each is None else Interval(each.months, each.days, each.nanoseconds // 1000) for each in parts]
    else:
        return values
    array = pa.array([None if each is None else each.stored for each in found], ARROW)
    return array if isinstance(values, pa.Array) else pa.chunked_array([array])


# --- text to interval -------------------------------------------------------------------------------------------

MICROS = {"microsecond": 1, "millisecond": 1_000, "second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}
DAYS = {"day": 1, "week": 7}
MONTHS = {"month": 1, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
ALIASES = {
    "us": "microsecond", "usec": "microsecond", "usecond": "microsecond", "ms": "millisecond", "msec": "millisecond",
    "msecond": "millisecond", "s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour",
    "hr": "hour", "d": "day", "w": "week", "mon": "month", "y": "year", "yr": "year", "dec": "decade",
    "cent": "century", "c": "century", "centurie": "century", "mil": "millennium", "millennia": "millennium",
}  # fmt: skip

_CLOCK = re.compile(r"([+-]?)(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d*)?)|(\.\d*))?(?![\d:])")
_YEARS_MONTHS = re.compile(r"([+-]?)(\d+)-(\d{1,2})(?!\S)")
_AMOUNT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]+)?")
_NUMBER = r"(-?(?:\d+(?:\.\d*)?|\.\d+))"
_ISO = re.compile(
    rf"p(?:{_NUMBER}y)?(?:{_NUMBER}m)?(?:{_NUMBER}w)?(?:{_NUMBER}d)?(?:t(?:{_NUMBER}h)?(?:{_NUMBER}m)?(?:{_NUMBER}s)?)?"
)
_ISO_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")
_ISO_DATE = re.compile(r"p(-?\d+)-(\d+)-(\d+)(?:t(-?\d+):(\d+):(\d+(?:\.\d*)?))?")

_Parts = list[tuple[Decimal, str]]


def parse_interval(text: str) -> Interval:
    rest = text.strip().lower()
    if rest.startswith("p"):
        return _checked(_total(_iso_parts(rest, text)), text)
    rest = rest.removeprefix("@").strip()
    ago = rest.endswith(" ago")
    rest = rest.removesuffix(" ago").strip()
    parts: _Parts = []
    bare = False  # whether the last amount has no unit: it is days before a clock, and seconds at the end
    if not rest:
        raise _invalid(text)
    while rest:
        if match := _CLOCK.match(rest):
            if bare:
                parts[-1] = (parts[-1][0], "day")
            parts += _clock(match)
            bare = False
        elif bare:
            raise _invalid(text)
        elif match := _YEARS_MONTHS.match(rest):
            sign = -1 if match[1] == "-" else 1
            parts += [(sign * Decimal(match[2]), "year"), (sign * Decimal(match[3]), "month")]
        elif match := _AMOUNT.match(rest):
            bare = match[2] is None
            parts.append((Decimal(match[1]), "second" if bare else _unit(match[2], text)))
        else:
            raise _invalid(text)
        rest = rest[match.end() :].strip(" \t\n,")
    units = [unit for _, unit in parts]
    if len(set(units)) < len(units):
        raise _invalid(text)
    months, days, micros = _total(parts)
    return _checked(Interval(-months, -days, -micros) if ago else Interval(months, days, micros), text)


def _clock(match: re.Match) -> _Parts:
    """hours:minutes, hours:minutes:seconds, or minutes:seconds if there is a fraction"""
    sign = -1 if match[1] == "-" else 1
    if match[5] is not None:
        units = (("minute", match[2]), ("second", match[3] + match[5]))
    else:
        units = (("hour", match[2]), ("minute", match[3]), ("second", match[4] or "0"))
    return [(sign * Decimal(number), unit) for unit, number in units]


def _iso_parts(rest: str, text: str) -> _Parts:
    if (match := _ISO.fullmatch(rest)) and any(match.groups()):
        return [(Decimal(amount), unit) for amount, unit in zip(match.groups(), _ISO_UNITS, strict=True) if amount]
    if match := _ISO_DATE.fullmatch(rest):
        units = ("year", "month", "day", "hour", "minute", "second")
        return [(Decimal(amount), unit) for amount, unit in zip(match.groups(), units, strict=True) if amount]
    raise _invalid(text)


def _unit(name: str, text: str) -> str:
    for candidate in (name, name.removesuffix("s")):
        unit = ALIASES.get(candidate, candidate)
        if unit in MICROS or unit in DAYS or unit in MONTHS:
            return unit
    raise _invalid(text)


def _total(parts: _Parts) -> Interval:
    """A fraction of a year is whole months; one of a month or a week days, and the rest of those microseconds."""
    months, days, micros = 0, 0, 0
    for amount, unit in parts:
        whole = int(amount)
        fraction = amount - whole
        if unit in MICROS:
            micros += whole * MICROS[unit] + _rounded(fraction * MICROS[unit])
            continue
        if unit in MONTHS and unit != "month":
            months += whole * MONTHS[unit]
            months += int((fraction * MONTHS[unit]).to_integral_value(ROUND_HALF_EVEN))
            continue
        if unit == "month":
            months += whole
            rest = fraction * 30
        else:
            days += whole * DAYS[unit]
            rest = fraction * DAYS[unit]
        days += int(rest.to_integral_value(ROUND_DOWN))
        micros += _rounded((rest - int(rest)) * DAY)
    return Interval(months, days, micros)


def _rounded(micros: Decimal) -> int:
    return int(micros.to_integral_value(ROUND_HALF_DOWN))


def _checked(found: Interval, text: str) -> Interval:
    if not (in_range(found)):
        raise DataError(f'interval field value out of range: "{text}"', sqlstate="22015")
    return found


def in_range(found: Interval) -> bool:
    narrow = all(-(2**31) <= each < 2**31 for each in (found.months, found.days))
    return narrow and all(-(2**63) <= each < 2**63 for each in (found.micros, found.length))


def _invalid(text: str) -> DataError:
    return DataError(f'invalid input syntax for type interval: "{text}"', sqlstate="22007")
