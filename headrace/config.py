"""Named parameters: ``SET x = v`` for a session, ``ALTER SYSTEM SET x = v`` for the warehouse (durable).

>>> PARAMETERS["barrier_interval"].parse("250ms")
250
>>> PARAMETERS["barrier_interval"].show(250)
'250ms'
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.errors import InvalidParameterValue, UndefinedParameter

_UNITS_MS = {"ms": 1, "s": 1000, "sec": 1000, "min": 60_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_duration(text: str) -> int:
    """Milliseconds; a bare number is milliseconds too."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*", text.lower())
    if match is None or (match[2] and match[2] not in _UNITS_MS):
        raise ValueError("a duration such as 250ms, 1s, 10min or 7d is expected")
    return int(float(match[1]) * _UNITS_MS.get(match[2], 1))


def show_duration(milliseconds: int) -> str:
    for unit in ("d", "h", "min", "s"):
        if milliseconds and milliseconds % _UNITS_MS[unit] == 0:
            return f"{milliseconds // _UNITS_MS[unit]}{unit}"
    return f"{milliseconds}ms"


def parse_boolean(text: str) -> bool:
    folded = text.lower()
    if folded in ("true", "t", "on", "yes", "1"):
        return True
    if folded in ("false", "f", "off", "no", "0"):
        return False
    raise ValueError("true or false is expected")


def parse_positive(text: str) -> int:
    if not re.fullmatch(r"\s*\d+\s*", text) or int(text) < 1:
        raise ValueError("a whole number of at least 1 is expected")
    return int(text)


def parse_parallelism(text: str) -> int | None:
    """None: adaptive, which RisingWave also writes 0 or DEFAULT."""
    folded = text.strip().lower()
    if folded in ("adaptive", "default"):
        return None
    if not re.fullmatch(r"\d+", folded):
        raise ValueError("a whole number or ADAPTIVE is expected")
    return int(folded) or None


def parse_rate_limit(text: str) -> int | None:
    """Rows per second; None: no limit, which RisingWave also writes -1."""
    folded = text.strip().lower()
    if folded in ("default", "-1"):
        return None
    if not re.fullmatch(r"\d+", folded):
        raise ValueError("a whole number of rows per second or DEFAULT is expected; 0 pauses")
    return int(folded)


def parse_pacing(text: str) -> str | int:
    """adaptive, until_barrier, or a number of rows."""
    folded = text.strip().lower()
    if folded in ("adaptive", "until_barrier"):
        return folded
    if not re.fullmatch(r"\d+", folded) or int(folded) < 1:
        raise ValueError("adaptive, until_barrier or a whole number of rows of at least 1 is expected")
    return int(folded)


def parse_epoch(text: str) -> int:
    if not re.fullmatch(r"\s*\d+\s*", text):
        raise ValueError("an epoch number is expected; 0 means the newest")
    return int(text)


def parse_utc(text: str) -> str:
    if text.upper() not in ("UTC", "ETC/UTC", "GMT"):
        raise ValueError("only UTC is supported; use AT TIME ZONE to convert")
    return "UTC"


def show_plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def show_parallelism(value: int | None) -> str:
    return "adaptive" if value is None else str(value)


def show_rate_limit(value: int | None) -> str:
    return "default" if value is None else str(value)


@dataclass(frozen=True, kw_only=True)
class Parameter:
    name: str
    default: Any
    parse_text: Callable[[str], Any]
    show: Callable[[Any], str] = show_plain
    system: bool = False
    """Belongs to the warehouse and not to a session."""
    description: str = ""

    def parse(self, text: str) -> Any:
        try:
            return self.parse_text(text)
        except ValueError as error:
            raise InvalidParameterValue(
                f'invalid value for parameter "{self.name}": "{text}"', hint=str(error)
            ) from None


_ALL = (
    Parameter(
        name="barrier_interval", default=1000, parse_text=parse_duration, show=show_duration, system=True,
        description="time between two barriers while nobody waits for one",
    ),
    Parameter(
        name="checkpoint_frequency", default=1, parse_text=parse_positive, system=True,
        description="every how many barriers state is committed",
    ),
    Parameter(
        name="max_rows_per_epoch", default=50_000, parse_text=parse_positive, system=True,
        description="rows of small writes that one epoch takes from the queue",
    ),
    Parameter(
        name="retention", default=600_000, parse_text=parse_duration, show=show_duration, system=True,
        description="how long old epochs stay readable",
    ),
    Parameter(
        name="compaction", default=True, parse_text=parse_boolean, system=True,
        description="merge runs in the background",
    ),
    Parameter(
        name="paused", default=False, parse_text=parse_boolean, system=True,
        description="nothing is read to fill views; PAUSE and RESUME set it. Tables take writes all the same",
    ),
    Parameter(
        name="background_ddl", default=False, parse_text=parse_boolean,
        description="CREATE MATERIALIZED VIEW and CREATE INDEX return at once and are filled in the background",
    ),
    Parameter(
        name="streaming_parallelism", default=None, parse_text=parse_parallelism, show=show_parallelism,
        description="how many tasks work on a new relation; adaptive (or 0) leaves it to the engine",
    ),
    Parameter(
        name="backfill_rate_limit", default=None, parse_text=parse_rate_limit, show=show_rate_limit,
        description="existing rows per second that fill a new relation; default (or -1) is no limit, 0 pauses",
    ),
    Parameter(
        name="backfill_pacing", default="adaptive", parse_text=parse_pacing,
        description="existing rows that are read at once: adaptive, until_barrier, or a number of rows",
    ),
    Parameter(
        name="streaming_use_arrangement_backfill", default=True, parse_text=parse_boolean,
        description="a new relation is filled with a parallelism of its own, not that of what it stands on",
    ),
    Parameter(
        name="enable_index_selection", default=True, parse_text=parse_boolean,
        description="queries, UPDATE and DELETE read by primary keys and indexes where they can",
    ),
    Parameter(
        name="implicit_flush", default=False, parse_text=parse_boolean,
        description="kept for RisingWave's scripts: a write is acknowledged when it is committed and visible, always",
    ),
    Parameter(
        name="query_epoch", default=0, parse_text=parse_epoch,
        description="read every relation as of this committed epoch; 0 is the newest",
    ),
    Parameter(name="timezone", default="UTC", parse_text=parse_utc, description="the session's time zone"),
    Parameter(name="application_name", default="", parse_text=str, description="the name of the client"),
)  # fmt: skip

PARAMETERS = {parameter.name: parameter for parameter in _ALL}

_ALIASES = {
    "rw_implicit_flush": "implicit_flush",
    "barrier_interval_ms": "barrier_interval",
    "streaming_rate_limit": "backfill_rate_limit",  # its older name
    "time zone": "timezone",
}


def find_parameter(name: str) -> Parameter:
    folded = name.lower()
    folded = _ALIASES.get(folded, folded)
    if folded not in PARAMETERS:
        raise UndefinedParameter(f'unrecognized configuration parameter "{name}"', hint="SHOW ALL lists what there is")
    return PARAMETERS[folded]
