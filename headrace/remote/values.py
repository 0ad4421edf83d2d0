"""Values as a server writes them, back to those that an engine in this process answers.

>>> from headrace.types import SqlType
>>> python_values([b"12.50", None], SqlType("numeric"))
[Decimal('12.50'), None]
>>> python_values([b"{{1,NULL},{3,4}}", b"{}"], array_of(SqlType("integer")))
[[[1, None], [3, 4]], []]
>>> arrow_array([b"1.5", b"2.25"], SqlType("numeric")).type
Decimal128Type(decimal128(38, 10))
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from headrace.errors import DataError
from headrace.intervals import Interval, parse_interval
from headrace.serving.wire.oids import oid_of, typed
from headrace.sources.json_texts import normal_text
from headrace.sql.composites import array_items
from headrace.times import from_python, parse_time, presented, to_python
from headrace.types import DEFAULT_PRECISION, DEFAULT_SCALE, SqlType, array_of

Texts = Sequence[bytes | None]


def column_type(oid: int, modifier: int) -> SqlType:
    """What a server says of a column, by number. A record's fields have no names there: it is the text that is sent.

    >>> from headrace.types import numeric_of
    >>> str(column_type(1231, numeric_of(10, 2).modifier)), str(column_type(2249, -1))
    ('numeric(10,2)[]', 'varchar')
    """
    kind = typed(oid, modifier)
    leaf = kind.element if kind is not None and kind.name == "array" else kind
    if leaf is None or leaf.name not in _READERS:
        return SqlType("varchar")
    return array_of(typed(oid_of(leaf), modifier)) if kind.name == "array" else kind


def python_values(texts: Texts, kind: SqlType) -> list[Any]:
    read = _reader(kind)
    return [None if text is None else read(text) for text in texts]


def arrow_array(texts: Texts, kind: SqlType) -> pa.Array:
    """All values of a column. What a type leaves open is seen from them: how deep an array is, and the digits of a
    numeric for which none were declared, of which the server has chosen how many it shows."""
    values = python_values(texts, kind)
    leaf = kind.element if kind.name == "array" else kind
    depth = max(map(_depth_of_value, values), default=0) if kind.name == "array" else 0
    if leaf.name in ("interval", "time"):
        values = [_stored(value) for value in values]
    found, shown = _numeric_type(values) if leaf.name == "numeric" and leaf.modifier is None else leaf.arrow, leaf
    for _ in range(max(depth, 1) if kind.name == "array" else 0):
        found, shown = pa.list_(found), array_of(shown)
    array = pa.array(values, found)
    return array.cast(presented(shown, found)) if leaf.name == "time" else array


def _reader(kind: SqlType) -> Callable[[bytes], Any]:
    if kind.name == "array":
        read = _READERS[kind.element.name]
        return lambda text: _array(text.decode(), read)
    return _READERS[kind.name]


def _real(text: bytes) -> float:
    """The 32-bit number, as Python's 64-bit one."""
    return struct.unpack("f", struct.pack("f", float(text)))[0]


def _jsonb(text: bytes) -> str:
    return normal_text(json.loads(text, parse_float=Decimal))


def _timestamptz(text: bytes) -> datetime:
    return datetime.fromisoformat(text.decode()).astimezone(UTC)


_READERS: dict[str, Callable[[bytes], Any]] = {
    "boolean": lambda text: text == b"t",
    "smallint": int,
    "integer": int,
    "bigint": int,
    "numeric": lambda text: Decimal(text.decode()),
    "real": _real,
    "double precision": float,
    "varchar": bytes.decode,
    "bytea": lambda text: bytes.fromhex(text[2:].decode()),
    "date": lambda text: date.fromisoformat(text.decode()),
    "timestamp": lambda text: datetime.fromisoformat(text.decode()),
    "timestamptz": _timestamptz,
    "interval": lambda text: parse_interval(text.decode()),
    "jsonb": _jsonb,
    "uuid": bytes.decode,
    "time": lambda text: to_python(parse_time(text.decode())),
}


# --- arrays -----------------------------------------------------------------------------------------------------


def _array(text: str, read: Callable[[bytes], Any]) -> list:
    return _nested(text, read, 1 if text.count("{") == 1 else _depth_of_text(text))


def _nested(text: str, read: Callable[[bytes], Any], depth: int) -> list:
    items = array_items(text)
    if depth > 1:
        return [None if item is None else _nested(item, read, depth - 1) for item in items]
    return [None if item is None else read(item.encode()) for item in items]


def _depth_of_text(text: str) -> int:
    """How deep its braces go, those in quotes left out: PostgreSQL's types do not count dimensions.

    >>> _depth_of_text('{"{{","\\\\"{"}'), _depth_of_text("{NULL,{1}}")
    (1, 2)
    """
    depth = deepest = position = 0
    quoted = False
    while position < len(text):
        character = text[position]
        if character == "\\":
            position += 1
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in "{}":
            depth += 1 if character == "{" else -1
            deepest = max(deepest, depth)
        position += 1
    return deepest


def _depth_of_value(value: Any) -> int:
    return 1 + max(map(_depth_of_value, value), default=0) if isinstance(value, list) else 0


# --- Arrow ------------------------------------------------------------------------------------------------------


def _stored(value: Any) -> Any:
    if isinstance(value, list):
        return [_stored(each) for each in value]
    if isinstance(value, (time, str)):
        return from_python(value)
    return value.stored if isinstance(value, Interval) else value


def _numeric_type(values: Sequence[Any]) -> pa.DataType:
    """What holds all of them: `numeric(38,10)`, as a column without digits has, unless they need other digits.

    >>> _numeric_type([Decimal("0.3333333333333333"), None])
    Decimal128Type(decimal128(38, 16))
    """
    whole = fraction = 0
    for value in _leaves(values):
        digits, exponent = value.as_tuple()[1:]
        fraction = max(fraction, -exponent)
        whole = max(whole, len(digits) + exponent if value else 0)
    if fraction <= DEFAULT_SCALE and whole <= DEFAULT_PRECISION - DEFAULT_SCALE:
        return pa.decimal128(DEFAULT_PRECISION, DEFAULT_SCALE)
    if whole + fraction > DEFAULT_PRECISION:
        raise DataError(
            f"the numbers of a column have more than {DEFAULT_PRECISION} digits in all",
            hint="round them, or ask for their rows()",
            sqlstate="22003",
        )
    return pa.decimal128(DEFAULT_PRECISION, fraction)


def _leaves(values: Iterable[Any]) -> Iterable[Decimal]:
    for value in values:
        if isinstance(value, list):
            yield from _leaves(value)
        elif value is not None:
            yield value
