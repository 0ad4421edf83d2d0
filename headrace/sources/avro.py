"""ENCODE AVRO: events that are one record of Avro's each.

Either all of them have the schema that the source gives (``schema``), and nothing in front of the record. Or each says
which schema it has, by a number that a registry knows (``schema.registry``, :mod:`headrace.sources.registry`). Either
way it is read by the schema that it was written with, and the columns of the source say which fields are wanted.
"""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any, Protocol
from uuid import UUID

from headrace.errors import EnvironmentProblem, InvalidDefinition
from headrace.sources.definition import Definition
from headrace.sources.values import NotThis, json_value, text_value
from headrace.times import from_python
from headrace.types import SqlType

SCHEMA = "schema"
REGISTRY = "schema.registry"
USERNAME, PASSWORD = f"{REGISTRY}.username", f"{REGISTRY}.password"
OPTIONS = {SCHEMA, REGISTRY, USERNAME, PASSWORD}

_CONNECT = {
    "io.debezium.time.Date": "date",
    "io.debezium.time.Timestamp": "local-timestamp-millis",
    "io.debezium.time.MicroTimestamp": "local-timestamp-micros",
}
"""What Debezium means by numbers, which it says in a way of its own"""


class Records(Protocol):
    """Bytes to the values of a record; it pickles."""

    def read(self, data: bytes) -> Any: ...


def library() -> Any:
    try:
        import fastavro
    except ImportError:
        raise EnvironmentProblem(
            "ENCODE AVRO needs the package fastavro",
            hint="pip install 'headrace[avro]', on the driver and where executors run",
        ) from None
    return fastavro


def check(definition: Definition) -> None:
    options = dict(definition.encode_options)
    if (SCHEMA in options) == (REGISTRY in options):
        raise InvalidDefinition(
            "ENCODE AVRO needs a schema, or a registry of schemas",
            hint="ENCODE AVRO (schema.registry = 'http://…'), or (schema = '{\"type\": \"record\", …}')",
        )
    avro = library()
    if SCHEMA in options:
        try:
            found = json.loads(options[SCHEMA])
            avro.parse_schema(found)
        except (ValueError, KeyError, TypeError, avro.schema.SchemaParseException, avro.schema.UnknownType) as problem:
            raise InvalidDefinition(f"the schema of ENCODE AVRO cannot be read: {problem}") from None
        if not isinstance(found, dict) or found.get("type") != "record":
            raise InvalidDefinition("the schema of ENCODE AVRO is not that of a record")


@dataclass(frozen=True)
class OneSchema:
    """All events have it."""

    text: str

    def read(self, data: bytes) -> Any:
        return read_value(data, _parsed(self.text))


@lru_cache(maxsize=64)
def _parsed(text: str) -> Any:
    return library().parse_schema(meant(json.loads(text)))


def meant(schema: Any) -> Any:
    """A schema in which Debezium's types are Avro's.

    >>> meant({"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"})["logicalType"]
    'local-timestamp-micros'
    """
    if isinstance(schema, list):
        return [meant(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {
        key: meant(value) if key in ("type", "items", "values", "fields") else value for key, value in schema.items()
    }
    if (kind := _CONNECT.get(found.get("connect.name", ""))) is not None and "logicalType" not in found:
        found["logicalType"] = kind
    return found


def read_value(data: bytes, schema: Any, start: int = 0) -> Any:
    source = io.BytesIO(data)
    source.seek(start)
    avro = library()
    try:
        found = avro.schemaless_reader(source, schema, None)
    except MemoryError:
        raise
    except Exception as problem:  # whatever it makes of bytes that are something else: they are not a record
        raise NotThis(f"it is not a record of the schema: {problem or type(problem).__name__}") from None
    if source.tell() != len(data):
        raise NotThis(f"its record ends {len(data) - source.tell()} bytes before it does")
    return found


def columns_of(records: Records) -> Callable[[Definition, bytes | None], list[Any]]:
    """What makes the values of the columns of an event."""

    def values(definition: Definition, data: bytes | None) -> list[Any]:
        found = fields_of(records, data)
        return [field_value(found, name, kind) for name, kind in definition.columns]

    return values


def fields_of(records: Records, data: bytes | None) -> Mapping[str, Any]:
    if data is None:
        raise NotThis("it has no content")
    found = records.read(data)
    if not isinstance(found, dict):
        raise NotThis("it is a value of Avro's, but not a record")
    return found


def field_value(found: Mapping[str, Any], name: str, kind: SqlType) -> Any:
    try:
        return avro_value(found.get(name), kind)
    except NotThis as reason:
        raise NotThis(f'column "{name}": {reason}') from None


def avro_value(value: Any, kind: SqlType) -> Any:
    """A value of Avro's as one of a column."""
    if kind.name == "array" and isinstance(value, list):
        return [avro_value(each, kind.element) for each in value]
    if kind.name == "struct" and isinstance(value, dict):
        return {field: field_value(value, field, inner) for field, inner in kind.fields}
    if kind.name == "map" and isinstance(value, dict):
        (_, keys), (_, values) = kind.fields
        return [(text_value(key, keys), avro_value(each, values)) for key, each in value.items()]
    if kind.name == "jsonb" or (kind.name == "varchar" and isinstance(value, (dict, list, UUID, time))):
        return json_value(_in_json(value), kind)
    if isinstance(value, datetime):
        return _moment(value, kind)
    if isinstance(value, float) and kind.name in ("real", "double precision"):
        return _float(value, kind)
    if isinstance(value, date) and kind.name == "date":
        return value
    if isinstance(value, bytes) and kind.name == "bytea":
        return value
    if isinstance(value, UUID) and kind.name == "uuid":
        return str(value)
    if isinstance(value, time) and kind.name == "time":
        return from_python(value, kind.precision)
    if isinstance(value, (float, date, time, bytes, UUID)):
        raise NotThis(f"{value!r} is not a value of type {kind}")
    return json_value(value, kind)


def _float(value: float, kind: SqlType) -> float:
    """Infinite only if it was."""
    try:
        struct.pack("<f" if kind.name == "real" else "<d", value)
    except OverflowError:
        raise NotThis(f"{value!r} is not a value of type {kind}") from None
    return value


def _in_json(value: Any) -> Any:
    """What JSON has in place of it: texts of times and UUIDs, and bytes in PostgreSQL's form.

    >>> _in_json({"at": time(1, 2), "raw": [b"hi"]})
    {'at': '01:02:00', 'raw': ['\\\\x6869']}
    """
    if isinstance(value, dict):
        return {key: _in_json(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_in_json(each) for each in value]
    if isinstance(value, (date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    if isinstance(value, float) and math.isfinite(value):
        return Decimal(repr(value))  # written like any other number: not as Python would
    return str(value) if isinstance(value, UUID) else value


def _moment(value: datetime, kind: SqlType) -> datetime:
    """A moment has UTC as its time zone, a local time none."""
    if kind.name not in ("timestamp", "timestamptz"):
        raise NotThis(f"{value} is not a value of type {kind}")
    moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return moment if kind.name == "timestamptz" else moment.replace(tzinfo=None)
