"""Values of events as those of columns: what JSON has, and texts.

Whatever a column cannot hold is said, in a :class:`NotThis`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.sources.json_texts import normal_text
from headrace.sql.literals import NOT_CONSTANT, from_text
from headrace.types import INTEGERS, SqlType

_WIDE = Context(prec=80, rounding=ROUND_HALF_UP)
"""Python's own has 28 digits, and a numeric 38; rounded as PostgreSQL does"""

_RANGES = {"smallint": 1 << 15, "integer": 1 << 31, "bigint": 1 << 63}


LONGEST_REASON = 500
"""Characters of what is said of an event: it may quote a value of any length"""


class NotThis(Exception):
    """An event is not what its source says; the text says why."""

    def __init__(self, reason: str = ""):
        # It may quote half a character, which no column of text can hold.
        super().__init__(reason[:LONGEST_REASON].encode(errors="backslashreplace").decode())


def reason_of(problem: Exception) -> str:
    """Why an event cannot be read; raises what is not the event's fault, but that of its surroundings.

    What nobody has thought of is the event's fault: otherwise one of them would hold up its source for ever.
    """
    if isinstance(problem, (HeadraceError, OSError, MemoryError, ImportError)):
        raise problem
    return str(problem if isinstance(problem, NotThis) else NotThis(f"{type(problem).__name__}: {problem}"))


@dataclass(frozen=True)
class _NotJson:
    """NaN and its like, which some write, and JSON has not. No column holds it; where nobody looks it is no matter."""

    text: str

    def __repr__(self) -> str:
        return self.text


def read_json(text: bytes | str) -> Any:
    """With Decimals for numbers that have a point. ValueError, if it is not JSON."""
    try:
        return _loaded(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except InvalidOperation:
        raise ValueError("a number has an exponent that is too large") from None


def _loaded(text: bytes | str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal, parse_constant=_NotJson)
    except ValueError as problem:
        if "integer string conversion" not in str(problem):
            raise
        # Python has a limit to the digits of whole numbers that it reads, and its decimals have none.
        return json.loads(text, parse_float=Decimal, parse_int=_whole, parse_constant=_NotJson)


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) < 1000 else Decimal(text)


def field_value(found: Mapping[str, Any], name: str, kind: SqlType) -> Any:
    try:
        return json_value(found.get(name), kind)
    except NotThis as reason:
        raise NotThis(f'column "{name}": {reason}') from None


def json_value(value: Any, kind: SqlType) -> Any:
    """A value as ``json.loads`` has it, with Decimals for what has a point, as one of a column."""
    if value is None:
        return None
    name = kind.name
    if name == "varchar":
        if isinstance(value, Decimal):
            return f"{value:f}" if abs(value.adjusted()) < 40 else str(value)  # all digits that were written
        return _text(value) if isinstance(value, str) else _json_text(value)
    if name == "jsonb":
        return _json_text(value)
    if name == "boolean":
        return _required(value, isinstance(value, bool), kind)
    if name in INTEGERS:
        fits = isinstance(value, int) and not isinstance(value, bool) and -_RANGES[name] <= value < _RANGES[name]
        return _required(value, fits, kind)
    if name in ("real", "double precision"):
        return _float(_required(value, isinstance(value, (int, Decimal)) and not isinstance(value, bool), kind), kind)
    if name == "numeric":
        return _numeric(value, kind)
    if name in ("timestamp", "timestamptz") and isinstance(value, int) and not isinstance(value, bool):
        return _moment(value, kind)
    if name == "array":
        return [json_value(each, kind.element) for each in _required(value, isinstance(value, list), kind)]
    if name == "struct":
        fields = _required(value, isinstance(value, dict), kind)
        return {field: field_value(fields, field, inner) for field, inner in kind.fields}
    if name == "map":
        (_, keys), (_, values) = kind.fields
        pairs = _required(value, isinstance(value, dict), kind).items()
        return [(text_value(key, keys), json_value(each, values)) for key, each in pairs]
    return text_value(_required(value, isinstance(value, str), kind), kind)


def _required(value: Any, fits: bool, kind: SqlType) -> Any:
    if not fits:
        raise NotThis(f"{_shown(value)} is not a value of type {kind}")
    return value


def _text(value: str) -> str:
    """JSON can escape half of a character (\\ud800), and nothing can store it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise NotThis(f"{_shown(value)} has half of a character in it") from None
    return value


def _float(value: int | Decimal, kind: SqlType) -> float:
    """What is too large for the type is not infinite."""
    try:
        found = float(value)
        struct.pack("<f" if kind.name == "real" else "<d", found)
        if found - found == 0:
            return _real(str(value)) if kind.name == "real" else found
    except OverflowError:
        pass
    raise NotThis(f"{_shown(value)} is not a value of type {kind}")


def _real(text: str) -> float:
    """Rounded once: the nearest real of a number is not always that of its double."""
    return pa.scalar(text).cast(pa.float32()).as_py()


def _numeric(value: Any, kind: SqlType) -> Decimal:
    fits = isinstance(value, (int, Decimal, str)) and not isinstance(value, bool)
    try:
        number = Decimal(_required(value, fits, kind))
        return pa.scalar(number.quantize(Decimal(1).scaleb(-kind.arrow.scale), context=_WIDE), kind.arrow).as_py()
    except (InvalidOperation, pa.ArrowException, ValueError):
        raise NotThis(f"{_shown(value)} is not a value of type {kind}") from None


def _moment(millis: int, kind: SqlType) -> datetime:
    """A number is milliseconds since 1970."""
    try:
        found = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    except OverflowError:
        raise NotThis(f"{millis} is not a value of type {kind}") from None
    return found if kind.name == "timestamptz" else found.replace(tzinfo=None)


def _json_text(value: Any) -> str:
    try:
        return _text(normal_text(value))
    except (ValueError, RecursionError) as problem:
        raise NotThis(f"{_shown(value)} is not JSON: {problem}") from None


def _shown(value: Any) -> str:
    """For somebody to read, whatever it is."""
    if isinstance(value, (int, Decimal, _NotJson)) and not isinstance(value, bool):
        text = str(value)  # as it was written: as a double it may be infinite
    else:
        text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)
    return text if len(text) <= 40 else f"{text[:40]}…"


def text_value(text: str | None, kind: SqlType) -> Any:
    """A text as PostgreSQL reads a constant of the type."""
    if text is None:
        return None
    if kind.name == "varchar":
        return _text(text)
    if kind.name == "bytea":
        return _bytes(text)
    text, more = _micros(text) if kind.name in ("timestamp", "timestamptz") else (text, timedelta())
    try:
        found = from_text(text, kind)
        if found is not NOT_CONSTANT:
            return found + more if more else found
    except HeadraceError as problem:
        raise NotThis(problem.message) from None
    except OverflowError:
        raise NotThis(f"{_shown(text)} is not a value of type {kind}") from None
    try:
        if kind.name == "jsonb":
            return _json_text(read_json(text))
        if kind.name == "real":
            return _real(text.strip())  # one half way between two; all else is known by now
        if kind.name == "double precision":
            raise ValueError
        if kind.name == "numeric":
            return _numeric(text, kind)
        if kind.name == "date":
            return date.fromisoformat(text.strip())
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise NotThis(f"{_shown(text)} is not a value of type {kind}") from None
    if kind.name == "timestamptz":
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return moment.replace(tzinfo=None)


_FINER = re.compile(r"(:\d\d\.\d{6})(\d+)")
"""A second with more than its millionths: many languages write billionths"""


def _micros(text: str) -> tuple[str, timedelta]:
    """A time with six digits of a second, and what is lost by rounding it so.

    >>> _micros("2026-01-02 03:04:05.123456789Z")
    ('2026-01-02 03:04:05.123456Z', datetime.timedelta(microseconds=1))
    """
    if (found := _FINER.search(text)) is None:
        return text, timedelta()
    return _FINER.sub(r"\1", text), timedelta(microseconds=round(Decimal(f"0.{found[2]}")))


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise NotThis(f"{_shown(text)} is neither \\x and hexadecimal digits nor base64") from None
