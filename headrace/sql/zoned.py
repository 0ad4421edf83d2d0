"""In which time zone an expression is meant, and the Spark SQL of clocks in a zone.

Spark's own session zone is always UTC, and so is the meaning of an expression by itself. One that is meant in another
zone says so: ``_hr_in_zone('Europe/Berlin', CAST(at AS DATE))``. The zone is that of this one cast, not of what stands
inside it. A bound query of a session in another zone has that around whatever needs it (:mod:`headrace.sql.explicit`),
so that its text means the same to every session that reads it, and to a view after a restart.

>>> local("`at`", "Europe/Berlin")
"CAST(from_utc_timestamp(`at`, 'Europe/Berlin') AS TIMESTAMP_NTZ)"
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX
from headrace.errors import InvalidParameterValue
from headrace.sql import intervals
from headrace.sql.typed import TIMESTAMPTZ, Parts, Typed
from headrace.zones import fixed_offset, is_known, offset_text

FUNCTION = f"{INTERNAL_PREFIX}in_zone"


class _Meant(threading.local):
    zone: str | None = None
    asked: bool = False


_meant = _Meant()


def current() -> str | None:
    """The zone in which what is being translated is meant; None: UTC."""
    _meant.asked = True
    return _meant.zone


def elsewhere() -> bool:
    """Whether it is another than UTC. Who only wants to leave it needs not ask for it."""
    return _meant.zone is not None


@contextmanager
def meant_in(zone: str | None) -> Iterator[_Meant]:
    """What is translated inside is meant in the zone; ``asked`` tells whether that made a difference."""
    before = _meant.zone, _meant.asked
    _meant.zone, _meant.asked = zone, False
    try:
        yield _meant
    finally:
        _meant.zone, _meant.asked = before


def in_zone(node: exp.Expression, zone: str) -> exp.Anonymous:
    return exp.Anonymous(this=FUNCTION, expressions=[exp.Literal.string(zone), node])


def zone_of(node: exp.Expression) -> str | None:
    """The zone that a call names; None if it is another call."""
    if not isinstance(node, exp.Anonymous) or node.this != FUNCTION:
        return None
    if len(node.expressions) != 2 or not is_known(node.expressions[0].name):  # nobody else is to write such a call
        raise InvalidParameterValue(f"{FUNCTION}() takes a time zone and what is meant there")
    return node.expressions[0].name


# --- Spark SQL --------------------------------------------------------------------------------------------------


def local(sql: str, zone: str | None) -> str:
    """What clocks in the zone show at an instant: a TIMESTAMP_NTZ of a TIMESTAMP."""
    return f"CAST({_shown(sql, zone)} AS TIMESTAMP_NTZ)"


def _shown(sql: str, zone: str | None) -> str:
    return sql if zone is None else f"from_utc_timestamp({sql}, '{zone}')"


def instant(sql: str, zone: str | None) -> str:
    """The instant at which clocks in the zone show a time: a TIMESTAMP of a TIMESTAMP_NTZ."""
    utc = f"CAST({sql} AS TIMESTAMP)"
    if zone is None:
        return utc
    if fixed_offset(zone) is not None:
        return f"to_utc_timestamp({utc}, '{zone}')"
    # Of an hour that clocks show twice PostgreSQL takes the second, Spark the first. The rule of three hours later is
    # that of the second.

    def chosen(shown: str) -> str:
        first = f"to_utc_timestamp({shown}, '{zone}')"
        second = f"(to_utc_timestamp({shown} + INTERVAL '3' HOUR, '{zone}') - INTERVAL '3' HOUR)"
        return f"IF(from_utc_timestamp({second}, '{zone}') = {shown}, {second}, {first})"

    return _let("_w", utc, chosen)


_LONG = 300
"""Characters of Spark SQL that are not written several times."""


def _let(name: str, sql: str, body: Callable[[str], str]) -> str:
    """What is made of a value that is needed more than once. Spark takes no query beside a lambda."""
    if len(sql) <= _LONG or "SELECT" in sql:
        return body(sql)
    return f"get(transform(array({sql}), {name} -> {body(name)}), 0)"


def in_utc(value: Typed) -> str:
    """An instant for Spark's functions that take nothing else; of a time without a zone, where clocks show UTC."""
    return value.sql if value.type == TIMESTAMPTZ else f"CAST({value.sql} AS TIMESTAMP)"


def offset_seconds(sql: str, zone: str | None) -> str:
    """How many seconds clocks in the zone are ahead of UTC at an instant."""
    if zone is None:
        return "0"
    if (seconds := fixed_offset(zone)) is not None:
        return str(seconds)
    return f"CAST((unix_micros(from_utc_timestamp({sql}, '{zone}')) - unix_micros({sql})) DIV 1000000 AS INT)"


def printed(sql: str, zone: str | None, *, minutes: bool = False) -> str:
    """An instant as PostgreSQL prints it; ``minutes``: of the offset, also where there are none."""
    shown = f"CAST({_shown(sql, zone)} AS STRING)"
    if zone is None or (seconds := fixed_offset(zone)) is not None:
        return f"concat({shown}, '{offset_text(seconds if zone else 0, minutes=minutes)}')"

    def offset(seconds: str) -> str:
        size, two = f"abs({seconds})", "lpad(CAST({} AS STRING), 2, '0')"
        in_minutes = f"concat(':', {two.format(f'({size} DIV 60 % 60)')})"
        parts = (
            f"IF({seconds} < 0, '-', '+')",
            two.format(f"({size} DIV 3600)"),
            in_minutes if minutes else f"IF({size} % 3600 = 0, '', {in_minutes})",
            f"IF({size} % 60 = 0, '', concat(':', {two.format(f'({size} % 60)')}))",
        )
        return f"concat({', '.join(parts)})"

    return f"concat({shown}, {_let('_o', offset_seconds(sql, zone), offset)})"


def moved(sql: str, symbol: str, value: Typed) -> str:
    """An instant and an interval: its months and days are those of the calendar, its hours are hours."""
    parts = intervals.parts_of(value)
    if (parts.months, parts.days) == (0, 0) or (zone := current()) is None:
        return intervals.moved(sql, symbol, value)  # the same everywhere

    def steps(moment: str, parts: Parts) -> str:
        calendar = [intervals.spark_months(parts.months)] if parts.months != 0 else []
        calendar += [f"make_dt_interval({parts.days})"] if parts.days != 0 else []
        there = instant(f"({local(moment, zone)} {symbol} {f' {symbol} '.join(calendar)})", zone)
        if not isinstance(parts.months, int) or not isinstance(parts.days, int):
            there = f"IF({parts.months} = 0 AND {parts.days} = 0, {moment}, {there})"
        return f"({there} {symbol} {intervals.clock(parts)})"

    return intervals.over_parts(sql, value, steps)
