"""Time zones by the names that PostgreSQL takes, and the times of their clocks.

A zone has two spellings: the one that SHOW prints, and the one that Spark and the text of views have, which is a name
of the IANA database or an offset. Of an offset, the sign is a matter of where it stands: ``SET TIME ZONE 2`` is east of
Greenwich, and so is '+02' there; in ``AT TIME ZONE '+02'``, with letters before it or minutes behind, it is POSIX's,
which is west.

>>> session_zone("europe/berlin"), session_zone("+02")
(Zone(shown='Europe/Berlin', name='Europe/Berlin'), Zone(shown='<+02>-02', name='+02:00'))
>>> session_zone("UTC+3")
Zone(shown='UTC+3', name='-03:00')
>>> named_zone("+02")
'-02:00'
"""

from __future__ import annotations

import re
import zoneinfo
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import cache
from typing import NamedTuple

MOST_HOURS = 18
"""The largest offset from UTC that Java, and so Spark, has."""


class Zone(NamedTuple):
    shown: str
    name: str
    """As Spark spells it; UTC if the clocks are always the same as there."""

    def __str__(self) -> str:
        return self.shown


_UNDER_OTHER_NAMES = (
    "UTC", "GMT", "UCT", "Zulu", "Universal", "Greenwich", "GMT0", "GMT+0", "GMT-0", "Etc/UTC", "Etc/GMT", "Etc/UCT",
    "Etc/Zulu", "Etc/Universal", "Etc/Greenwich", "Etc/GMT0", "Etc/GMT+0", "Etc/GMT-0",
)  # fmt: skip
_NO_PLACE = ("Factory", "localtime", "posixrules")
_HOURS = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)")
_POSIX = re.compile(r"(?:[A-Za-z]{3,}|<[^<>]*>)?([+-]?)(\d{1,3})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d{2}))?(?::?(\d{2}))?")

ABBREVIATIONS = {
    "ut": 0, "utc": 0, "gmt": 0, "z": 0, "zulu": 0, "wet": 0, "west": 60, "bst": 60, "cet": 60, "cest": 120, "met": 60,
    "mest": 120, "eet": 120, "eest": 180, "msk": 180, "ist": 120, "jst": 540, "kst": 540, "awst": 480, "acst": 570,
    "acdt": 630, "aest": 600, "aedt": 660, "nzst": 720, "nzdt": 780, "nst": -210, "ndt": -150, "ast": -240,
    "adt": -180, "est": -300, "edt": -240, "cst": -360, "cdt": -300, "mst": -420, "mdt": -360, "pst": -480,
    "pdt": -420, "akst": -540, "akdt": -480, "hst": -600,
}  # fmt: skip
"""Minutes east of Greenwich, of the better-known names in PostgreSQL's own list. Good in constants and AT TIME ZONE."""


@cache
def _places() -> dict[str, str]:
    return {name.lower(): name for name in zoneinfo.available_timezones() if name not in _NO_PLACE}


def session_zone(text: str) -> Zone:
    """The zone that SET names. ValueError if there is none."""
    if _HOURS.fullmatch(text):
        seconds = int(Decimal(text) * 3600)
        east = offset_text(seconds)
        west = f"{'+' if seconds < 0 else '-'}{east[1:]}"
        return Zone(f"<{east}>{west}", _fixed(seconds))
    if (place := _places().get(text.lower())) is not None:
        return Zone(place, "UTC" if place in _UNDER_OTHER_NAMES else place)
    if (seconds := _west(text)) is not None:
        return Zone(text.upper(), _fixed(-seconds))
    raise ValueError("a name of the IANA database is expected, such as Europe/Berlin, or hours east of Greenwich")


def named_zone(text: str) -> str:
    """The zone that AT TIME ZONE or a constant names, as Spark spells it. ValueError if there is none."""
    if (match := _OFFSET.fullmatch(text)) is not None:
        seconds = _seconds(*match.groups()[1:])
        return _fixed(seconds if match[1] == "-" else -seconds)
    if (minutes := ABBREVIATIONS.get(text.lower())) is not None:
        return _fixed(60 * minutes)
    if (place := _places().get(text.lower())) is not None:
        return "UTC" if place in _UNDER_OTHER_NAMES else place
    if (seconds := _west(text)) is not None:
        return _fixed(-seconds)
    raise ValueError(f'time zone "{text}" not recognized')


def _west(text: str) -> int | None:
    """Seconds west of Greenwich, by POSIX' rules for zones without a summer time."""
    match = _POSIX.fullmatch(text)
    if match is None:
        return None
    seconds = _seconds(*match.groups()[1:])
    return -seconds if match[1] == "-" else seconds


def _seconds(hours: str, minutes: str | None, seconds: str | None) -> int:
    return int(hours) * 3600 + int(minutes or 0) * 60 + int(seconds or 0)


def _fixed(seconds: int) -> str:
    """An offset as Spark spells it; positive is east of Greenwich."""
    if abs(seconds) > MOST_HOURS * 3600:
        raise ValueError(f"an offset from UTC is at most {MOST_HOURS} hours")
    return offset_text(seconds, minutes=True) if seconds else "UTC"


def offset_text(seconds: int, *, minutes: bool = False) -> str:
    """An offset as PostgreSQL prints it: minutes and seconds only where there are any.

    >>> offset_text(7200), offset_text(-12600), offset_text(3208), offset_text(7200, minutes=True)
    ('+02', '-03:30', '+00:53:28', '+02:00')
    """
    sign, rest = "-" if seconds < 0 else "+", abs(seconds)
    text = f"{sign}{rest // 3600:02}"
    if minutes or rest % 3600:
        text += f":{rest // 60 % 60:02}"
    return text + (f":{rest % 60:02}" if rest % 60 else "")


def fixed_offset(name: str) -> int | None:
    """Seconds east of Greenwich, if the name is an offset or UTC; None: they change with the time.

    >>> fixed_offset("+05:30"), fixed_offset("UTC"), fixed_offset("Europe/Berlin")
    (19800, 0, None)
    """
    if name == "UTC":
        return 0
    match = _OFFSET.fullmatch(name)
    if match is None:
        return None
    seconds = _seconds(*match.groups()[1:])
    return -seconds if match[1] == "-" else seconds


def is_known(name: str) -> bool:
    """Whether a zone is spelled as Spark does."""
    return fixed_offset(name) is not None or _places().get(name.lower()) == name


def posix_name(name: str) -> str:
    """A zone as Spark spells it in the way that AT TIME ZONE reads it: the other way round, if it is an offset.

    >>> posix_name("+05:30"), posix_name("Europe/Berlin")
    ('-05:30', 'Europe/Berlin')
    """
    return name.translate({ord("+"): "-", ord("-"): "+"}) if _OFFSET.fullmatch(name) else name


@cache
def clock(name: str) -> tzinfo:
    """For Python's times; of a zone as Spark spells it."""
    seconds = fixed_offset(name)
    if seconds is None:
        return zoneinfo.ZoneInfo(name)
    return UTC if seconds == 0 else timezone(timedelta(seconds=seconds))


def instant(local: datetime, name: str) -> datetime:
    """When clocks of the zone show a time, in UTC. As PostgreSQL: of a time that they show twice, the second; of one
    that they skip, what would have been shown had they gone on.

    >>> str(instant(datetime(2024, 10, 27, 2, 30), "Europe/Berlin"))
    '2024-10-27 01:30:00+00:00'
    >>> str(instant(datetime(2024, 3, 31, 2, 30), "Europe/Berlin"))
    '2024-03-31 01:30:00+00:00'
    """
    if (seconds := fixed_offset(name)) is not None:
        return (local - timedelta(seconds=seconds)).replace(tzinfo=UTC) if seconds else local.replace(tzinfo=UTC)
    place = clock(name)
    offset = min(local.replace(tzinfo=place, fold=fold).utcoffset() or timedelta(0) for fold in (0, 1))
    return (local - offset).replace(tzinfo=UTC)
