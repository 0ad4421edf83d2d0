"""Values in PostgreSQL's binary format, out and in.

>>> from headrace.types import array_of
>>> encoder(SqlType("integer"))(7)
b'\\x00\\x00\\x00\\x07'
>>> decode(encoder(array_of(SqlType("integer")))([1, None]), array_of(SqlType("integer")))
'{1,NULL}'
>>> nested = array_of(array_of(SqlType("integer")))
>>> decode(encoder(nested)([[1, 2], [3, None]]), array_of(SqlType("integer")))
'{{1,2},{3,NULL}}'
"""

from __future__ import annotations

import decimal
import json
import math
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.errors import DataError, Unsupported
from headrace.intervals import Interval
from headrace.serving.render import render, renderer
from headrace.serving.wire.oids import oid_of
from headrace.times import from_python
from headrace.types import SqlType, array_of

MOST_DIMENSIONS = 6
"""Of an array, as in PostgreSQL."""
_WIDE = decimal.Context(prec=400)
_EPOCH = datetime(2000, 1, 1)
_DAY = date(2000, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def encoder(kind: SqlType, zone: str = "UTC") -> Callable[[Any], bytes]:
    """The function that encodes a non-NULL value of the type; what is sent as text has the times of the zone."""
    if kind.name == "array":
        return _array_encoder(kind, zone)
    if kind.name == "struct":
        return _struct_encoder(kind, zone)
    if kind.name == "map":
        as_text = renderer(kind, zone)  # as which clients are told of it
        return lambda value: as_text(value).encode()
    if kind.name == "numeric":
        as_text = renderer(kind)  # which knows how many decimals are shown
        return lambda value: _numeric(as_text(value))
    return _ENCODERS[kind.name]


def decode(data: bytes, kind: SqlType) -> str:
    """A binary parameter as text: what a constant in the statement would say.

    >>> decode(bytes(range(16)), SqlType("uuid"))
    '00010203-0405-0607-0809-0a0b0c0d0e0f'
    """
    try:
        value = _value(data, kind)
        return render(value, _as_deep_as(value, kind) if kind.name == "array" else kind)
    except (struct.error, IndexError, UnicodeDecodeError, OverflowError, ValueError):
        raise DataError("incorrect binary data format in bind parameter", sqlstate="22P03") from None


def _array_encoder(kind: SqlType, zone: str) -> Callable[[Any], bytes]:
    leaf, depth = kind.element, 1
    while leaf.name == "array":
        leaf, depth = leaf.element, depth + 1
    encode, oid = encoder(leaf, zone), oid_of(leaf)
    # Types that clients were told of do not count dimensions, but a map is itself a list.
    most = depth if leaf.name == "map" else math.inf

    def whole(values: list) -> bytes:
        sizes, level = [], values
        while isinstance(level, list) and level and len(sizes) < most:
            sizes.append(len(level))
            level = level[0]
        flat = values
        for _ in sizes[1:]:
            if any(not isinstance(row, list) or len(row) != len(flat[0]) for row in flat):
                raise Unsupported("an array of arrays of different lengths has no binary format", hint="ask for text")
            flat = [item for row in flat for item in row]
        items = [b"\xff\xff\xff\xff" if item is None else _sized(encode(item)) for item in flat]
        has_null = int(any(item is None for item in flat))
        head = struct.pack("!iiI", len(sizes), has_null, oid) + b"".join(struct.pack("!ii", n, 1) for n in sizes)
        return head + b"".join(items)

    return whole


def _struct_encoder(kind: SqlType, zone: str) -> Callable[[Any], bytes]:
    fields = [(name, oid_of(inner), encoder(inner, zone)) for name, inner in kind.fields]

    def whole(value: Any) -> bytes:
        values = [value.get(name) for name, _, _ in fields] if isinstance(value, Mapping) else list(value)
        parts = [struct.pack("!i", len(fields))]
        for item, (_, oid, encode) in zip(values, fields, strict=True):
            parts.append(struct.pack("!I", oid))
            parts.append(b"\xff\xff\xff\xff" if item is None else _sized(encode(item)))
        return b"".join(parts)

    return whole


def _sized(data: bytes) -> bytes:
    return struct.pack("!i", len(data)) + data


def _timestamp(value: datetime) -> bytes:
    if value.tzinfo is not None:
        value = value.astimezone(UTC).replace(tzinfo=None)
    return struct.pack("!q", (value - _EPOCH) // _MICROSECOND)


def _interval(value: Interval) -> bytes:
    return struct.pack("!qii", value.micros, value.days, value.months)


def _numeric(text: str) -> bytes:
    """Digits in base 10,000, how many are before the point, the sign, and how many decimals are shown."""
    whole, _, fraction = text.lstrip("-").partition(".")
    whole = whole.lstrip("0")
    digits = "0" * (-len(whole) % 4) + whole + fraction + "0" * (-len(fraction) % 4)
    groups = [int(digits[at : at + 4]) for at in range(0, len(digits), 4)]
    weight = -(-len(whole) // 4) - 1
    while groups and groups[0] == 0:
        groups.pop(0)
        weight -= 1
    while groups and groups[-1] == 0:
        groups.pop()
    if not groups:
        return struct.pack("!hhHh", 0, 0, 0, len(fraction))
    sign = 0x4000 if text.startswith("-") else 0
    return struct.pack(f"!hhHh{len(groups)}h", len(groups), weight, sign, len(fraction), *groups)


_ENCODERS: dict[str, Callable[[Any], bytes]] = {
    "boolean": lambda value: b"\1" if value else b"\0",
    "smallint": struct.Struct("!h").pack,
    "integer": struct.Struct("!i").pack,
    "bigint": struct.Struct("!q").pack,
    "real": struct.Struct("!f").pack,
    "double precision": struct.Struct("!d").pack,
    "varchar": str.encode,
    "bytea": bytes,
    "date": lambda value: struct.pack("!i", (value - _DAY).days),
    "timestamp": _timestamp,
    "timestamptz": _timestamp,
    "interval": _interval,
    "jsonb": lambda value: b"\1" + render(value, SqlType("jsonb")).encode(),
    "uuid": lambda value: uuid.UUID(value).bytes,
    "time": struct.Struct("!q").pack,
}


def _as_deep_as(value: list, kind: SqlType) -> SqlType:
    """PostgreSQL's types do not count dimensions: an integer[] may be an array of arrays."""
    deep = array_of(_leaf(kind))
    while value and isinstance(value[0], list):
        deep, value = array_of(deep), value[0]
    return deep


def _leaf(kind: SqlType) -> SqlType:
    return _leaf(kind.element) if kind.name == "array" else kind


def _value(data: bytes, kind: SqlType) -> Any:
    if kind.name == "array":
        return _array(data, _leaf(kind))
    if kind.name == "struct":
        return _struct(data, kind)
    if kind.name in ("smallint", "integer", "bigint") and len(data) in (2, 4, 8):
        return int.from_bytes(data, signed=True)  # of the width that the client chose: an oid has four bytes
    if kind.name in FIXED:
        form = FIXED[kind.name]
        (value,) = struct.unpack(form, data)
        return value
    return _DECODERS[kind.name](data)


def _array(data: bytes, element: SqlType) -> list:
    (dimensions,) = struct.unpack_from("!i", data)
    if dimensions == 0:
        return []
    if not 1 <= dimensions <= MOST_DIMENSIONS:
        raise ValueError(dimensions)
    sizes = [struct.unpack_from("!i", data, 12 + 8 * at)[0] for at in range(dimensions)]
    if any(size < 0 for size in sizes) or math.prod(sizes) > len(data):
        raise ValueError(sizes)
    if 0 in sizes:  # asyncpg says of an empty array that it has a dimension, of no length
        return []
    at, values = 12 + 8 * dimensions, []
    for _ in range(math.prod(sizes)):
        (size,) = struct.unpack_from("!i", data, at)
        at += 4
        values.append(None if size == -1 else _value(data[at : at + size], element))
        at += max(size, 0)
    for size in reversed(sizes[1:]):
        values = [values[start : start + size] for start in range(0, len(values), size)]
    return values


def _struct(data: bytes, kind: SqlType) -> dict[str, Any]:
    (count,) = struct.unpack_from("!i", data)
    if count != len(kind.fields):
        raise ValueError(count)
    at, value = 4, {}
    for name, inner in kind.fields:
        _, size = struct.unpack_from("!Ii", data, at)
        at += 8
        value[name] = None if size == -1 else _value(data[at : at + size], inner)
        at += max(size, 0)
    return value


def _read_numeric(data: bytes) -> Decimal:
    count, weight, sign, _ = struct.unpack_from("!hhHh", data)
    if sign not in (0, 0x4000):
        raise DataError("NaN and infinity are not supported in numeric", sqlstate="22003")
    digits = struct.unpack_from(f"!{count}h", data, 8)
    whole = sum(digit * 10_000 ** (count - 1 - at) for at, digit in enumerate(digits))
    return Decimal(-whole if sign else whole).scaleb(4 * (weight - count + 1), _WIDE)


def _read_jsonb(data: bytes) -> str:
    if data[:1] == b"\1":
        data = data[1:]  # jsonb has a version byte, json has none
    text = data.decode()
    json.loads(text)
    return text


def _read_interval(data: bytes) -> Interval:
    micros, days, months = struct.unpack("!qii", data)
    return Interval(months, days, micros)


def _read_timestamp(data: bytes) -> datetime:
    return _EPOCH + timedelta(microseconds=struct.unpack("!q", data)[0])


def _read_uuid(data: bytes) -> str:
    return str(uuid.UUID(bytes=data))


def _read_text(data: bytes) -> str:
    text = data.decode()
    if "\0" in text:
        raise ValueError("zero byte")
    return text


FIXED = {
    "boolean": "!?", "smallint": "!h", "integer": "!i", "bigint": "!q", "real": "!f", "double precision": "!d",
}  # fmt: skip
_DECODERS: dict[str, Callable[[bytes], Any]] = {
    "varchar": _read_text,
    "bytea": bytes,
    "date": lambda data: _DAY + timedelta(days=struct.unpack("!i", data)[0]),
    "timestamp": _read_timestamp,
    "timestamptz": _read_timestamp,
    "interval": _read_interval,
    "numeric": _read_numeric,
    "jsonb": _read_jsonb,
    "uuid": _read_uuid,
    "time": lambda data: from_python(struct.unpack("!q", data)[0]),
}
