"""Interval constants.

PostgreSQL keeps months, days and microseconds apart. Spark's day-time interval has no months, so they are kept
aside here and applied by the arithmetic on dates.

>>> parse_interval("1 year 2 mons 3 days 04:05:06.5")
Span(months=14, micros=273906500000)
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple

from headrace.errors import DataError

_MICROS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120, "century": 1200, "millennium": 12000}
_ALIASES = {
    "us": "microsecond", "usec": "microsecond", "usecond": "microsecond", "ms": "millisecond", "msec": "millisecond",
    "msecond": "millisecond", "s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour",
    "hr": "hour", "d": "day", "w": "week", "mon": "month", "y": "year", "yr": "year", "dec": "decade",
    "cent": "century", "c": "century", "centurie": "century", "mil": "millennium", "millennia": "millennium",
}  # fmt: skip

_CLOCK = re.compile(r"([+-]?)(\d+):(\d{1,2})(?::(\d{1,2}(?:\.\d*)?))?")
_AMOUNT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))\s*([a-z]+)?")
_ISO = re.compile(
    r"p(?:(-?[\d.]+)y)?(?:(-?[\d.]+)m)?(?:(-?[\d.]+)w)?(?:(-?[\d.]+)d)?(?:t(?:(-?[\d.]+)h)?(?:(-?[\d.]+)m)?(?:(-?[\d.]+)s)?)?"
)
_ISO_UNITS = ("year", "month", "week", "day", "hour", "minute", "second")


class Span(NamedTuple):
    months: int
    micros: int


def parse_interval(text: str) -> Span:
    rest = text.strip().lower().removeprefix("@").strip()
    if rest.startswith("p") and (match := _ISO.fullmatch(rest)) and any(match.groups()):
        parts = [(Decimal(amount), unit) for amount, unit in zip(match.groups(), _ISO_UNITS, strict=True) if amount]
        return _total(parts)
    ago = rest.endswith(" ago")
    rest = rest.removesuffix(" ago").strip()
    parts, clock = [], 0
    if not rest:
        raise _invalid(text)
    while rest:
        if match := _CLOCK.match(rest):
            sign, hours, minutes, seconds = match.groups()
            micros = int((Decimal(hours) * 3600 + Decimal(minutes) * 60 + Decimal(seconds or 0)) * 1_000_000)
            clock += -micros if sign == "-" else micros
        elif match := _AMOUNT.match(rest):
            parts.append((Decimal(match[1]), _unit(match[2], text)))
        else:
            raise _invalid(text)
        rest = rest[match.end() :].strip(" ,")
    months, micros = _total(parts)
    span = Span(months, micros + clock)
    return Span(-span.months, -span.micros) if ago else span


def _unit(name: str | None, text: str) -> str:
    if name is None:
        return "second"  # a bare number
    for candidate in (name, name.removesuffix("s"), name.removesuffix("es")):
        unit = _ALIASES.get(candidate, candidate)
        if unit in _MICROS or unit in _MONTHS:
            return unit
    raise _invalid(text)


def _total(parts: list[tuple[Decimal, str]]) -> Span:
    months, micros = 0, Decimal(0)
    for amount, unit in parts:
        if unit in _MICROS:
            micros += amount * _MICROS[unit]
        else:
            exact = amount * _MONTHS[unit]
            months += int(exact)
            micros += (exact - int(exact)) * 30 * _MICROS["day"]  # PostgreSQL: a fraction of a month has 30 days
    return Span(months, int(micros.to_integral_value()))


def _invalid(text: str) -> DataError:
    return DataError(f'invalid input syntax for type interval: "{text}"', sqlstate="22007")


def spark_interval(micros: int) -> str:
    """A day-time interval in Spark SQL."""
    sign = "-" if micros < 0 else ""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    days, seconds = divmod(seconds, 86_400)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"
    return f"INTERVAL '{sign}{days} {clock}' DAY TO SECOND"
