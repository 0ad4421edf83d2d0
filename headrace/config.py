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
from headrace.zones import Zone, session_zone

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


def parse_query_mode(text: str) -> str:
    """RisingWave's words; what is small is answered in one place here, so auto and local are the same."""
    folded = text.strip().lower()
    if folded not in ("auto", "local", "distributed"):
        raise ValueError("auto, local or distributed is expected")
    return folded


def parse_one_of(*values: str) -> Callable[[str], str]:
    """For parameters that drivers set: only what is so anyway."""

    def parse(text: str) -> str:
        for value in values:
            if text.strip().strip("'").lower() == value.lower():
                return values[0]
        raise ValueError(f"only {values[0]} is supported")

    return parse


def parse_date_style(text: str) -> str:
    if text.split(",")[0].strip().upper() != "ISO":
        raise ValueError("only ISO is supported")
    return "ISO, MDY"


def parse_whole(text: str) -> int:
    if not re.fullmatch(r"\s*-?\d+\s*", text):
        raise ValueError("a whole number is expected")
    return int(text)


def parse_search_path(text: str) -> str:
    names = [name.strip().strip("\"'") for name in text.split(",")]
    if not {"public", "pg_catalog", ""}.intersection(names):
        raise ValueError("the only schema is public")
    return text


def show_plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def show_switch(value: bool) -> str:
    """As PostgreSQL shows its own."""
    return "on" if value else "off"


def show_timeout(milliseconds: int) -> str:
    return show_duration(milliseconds) if milliseconds else "0"


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
                f'invalid value for parameter "{_SPELLED.get(self.name, self.name)}": "{text}"', hint=str(error)
            ) from None


SERVER_VERSION = "13.14.0"
SERVER_VERSION_NUMBER = "130014"
"""Drivers decide by it what they may ask for. RisingWave says much the same."""

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
        name="vectorized", default=True, parse_text=parse_boolean, system=True,
        description="views are evaluated over Arrow arrays where that gives what Spark gives; else always by Spark",
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
        name="query_mode", default="auto", parse_text=parse_query_mode,
        description="auto (or local): queries that read few rows are answered without Spark; distributed: none are",
    ),
    Parameter(
        name="implicit_flush", default=False, parse_text=parse_boolean,
        description="kept for RisingWave's scripts: a write is acknowledged when it is committed and visible, always",
    ),
    Parameter(
        name="query_epoch", default=0, parse_text=parse_epoch,
        description="read every relation as of this committed epoch; 0 is the newest",
    ),
    Parameter(
        name="timezone", default=Zone("UTC", "UTC"), parse_text=session_zone,
        description="the session's time zone: a name of the IANA database, or hours east of Greenwich",
    ),
    Parameter(name="application_name", default="", parse_text=str, description="the name of the client"),
    Parameter(
        name="statement_timeout", default=0, parse_text=parse_duration, show=show_timeout,
        description="how long a statement sent to the server may take; 0 is no limit",
    ),
    Parameter(
        name="search_path", default="public", parse_text=parse_search_path,
        description="schemas in which names are looked for; there is only public",
    ),
    *(
        Parameter(name=name, default=values[0], parse_text=parse_one_of(*values), description=description)
        for name, values, description in (
            # psql in the C locale says SQL_ASCII, which is: bytes as they are. They are UTF-8.
            ("client_encoding", ("UTF8", "UTF-8", "unicode", "SQL_ASCII"), "the encoding of text to and from clients"),
            ("server_encoding", ("UTF8", "UTF-8"), "the encoding of text that is stored"),
            ("server_version", (SERVER_VERSION,), "the version of PostgreSQL that clients should take this for"),
            ("standard_conforming_strings", ("on", "true"), "a backslash in a string constant is a backslash"),
            ("integer_datetimes", ("on", "true"), "times are whole microseconds"),
            ("bytea_output", ("hex",), "how bytea is printed"),
            ("intervalstyle", ("postgres",), "how intervals are printed"),
            ("default_table_access_method", ("heap",), "how tables are stored; clients ask for it"),
            ("server_version_num", (SERVER_VERSION_NUMBER,), "the same as a number"),
            ("max_index_keys", ("32",), "columns that an index may have; clients ask for it"),
            ("jit", ("off", "on", "true", "false"), "no effect: Spark compiles queries as it sees fit"),
            (
                "default_transaction_isolation",
                ("serializable", "read committed", "repeatable read", "read uncommitted"),
                "no effect: see transaction_isolation",
            ),
            (
                "transaction_isolation",
                ("serializable", "read committed", "repeatable read", "read uncommitted"),
                "what a statement sees of others: a whole committed epoch, always",
            ),
        )
    ),
    *(
        Parameter(name=name, default=False, parse_text=parse_boolean, show=show_switch, description=description)
        for name, description in (
            ("default_transaction_read_only", "statements that write are refused, unless a transaction says otherwise"),
            ("transaction_read_only", "the same until the end of the transaction"),
        )
    ),
    Parameter(name="datestyle", default="ISO, MDY", parse_text=parse_date_style, description="how dates are printed"),
    Parameter(
        name="extra_float_digits", default=1, parse_text=parse_whole,
        description="no effect: floats are printed as short as they can be read back from",
    ),
    Parameter(
        name="client_min_messages", default="notice", parse_text=str.lower,
        description="no effect: all notices are sent",
    ),
    Parameter(
        name="lock_timeout", default=0, parse_text=parse_duration, show=show_timeout,
        description="no effect: nothing waits for a lock",
    ),
    Parameter(
        name="idle_in_transaction_session_timeout", default=0, parse_text=parse_duration,
        show=show_timeout,
        description="no effect: an open transaction holds nothing",
    ),
)  # fmt: skip

PARAMETERS = {parameter.name: parameter for parameter in _ALL}

_SPELLED = {"timezone": "TimeZone", "datestyle": "DateStyle", "intervalstyle": "IntervalStyle"}
"""As PostgreSQL does, in what it says about them."""
_ALIASES = {
    "rw_implicit_flush": "implicit_flush",
    "barrier_interval_ms": "barrier_interval",
    "streaming_rate_limit": "backfill_rate_limit",  # its older name
    "time zone": "timezone",
    "names": "client_encoding",
    "default_transaction_isolation": "transaction_isolation",
}


def find_parameter(name: str) -> Parameter:
    folded = name.lower()
    folded = _ALIASES.get(folded, folded)
    if folded not in PARAMETERS:
        raise UndefinedParameter(f'unrecognized configuration parameter "{name}"', hint="SHOW ALL lists what there is")
    return PARAMETERS[folded]
