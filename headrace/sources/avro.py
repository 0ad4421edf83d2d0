"""ENCODE AVRO (schema = '…'): events that are one record each, as Avro writes it, without a header.

Whoever writes them and the source must have the same schema; nobody is asked for another one. What a registry puts in
front of events, the id of a schema, is not understood: such an event is a bad one.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from datetime import UTC, date, datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

from headrace.errors import EnvironmentProblem, InvalidDefinition
from headrace.sources.definition import Definition
from headrace.sources.values import NotThis, json_value
from headrace.types import SqlType

SCHEMA = "schema"


def _library() -> Any:
    try:
        import fastavro
    except ImportError:
        raise EnvironmentProblem(
            "ENCODE AVRO needs the package fastavro",
            hint="pip install 'headrace[avro]', on the driver and where executors run",
        ) from None
    return fastavro


def check(definition: Definition) -> None:
    text = dict(definition.encode_options).get(SCHEMA)
    if text is None:
        raise InvalidDefinition(
            "ENCODE AVRO needs a schema", hint='ENCODE AVRO (schema = \'{"type": "record", "name": …, "fields": […]}\')'
        )
    avro = _library()
    try:
        found = json.loads(text)
        avro.parse_schema(found)
    except (ValueError, KeyError, TypeError, avro.schema.SchemaParseException, avro.schema.UnknownType) as problem:
        raise InvalidDefinition(f"the schema of ENCODE AVRO cannot be read: {problem}") from None
    if not isinstance(found, dict) or found.get("type") != "record":
        raise InvalidDefinition("the schema of ENCODE AVRO is not that of a record")


@lru_cache(maxsize=64)
def _schema(text: str) -> Any:
    return _library().parse_schema(json.loads(text))


def record(definition: Definition, value: bytes | None) -> list[Any]:
    """The values of the columns."""
    if value is None:
        raise NotThis("it has no content")
    data = io.BytesIO(value)
    try:
        found = _library().schemaless_reader(data, _schema(dict(definition.encode_options)[SCHEMA]), None)
    except Exception as problem:  # whatever it makes of bytes that are something else: they are not a record
        raise NotThis(f"it is not a record of the schema: {problem or type(problem).__name__}") from None
    if data.tell() != len(value):
        raise NotThis(f"its record ends {len(value) - data.tell()} bytes before it does")
    return [_of_field(found, name, kind) for name, kind in definition.columns]


def _of_field(found: dict[str, Any], name: str, kind: SqlType) -> Any:
    try:
        return avro_value(found.get(name), kind)
    except NotThis as reason:
        raise NotThis(f'column "{name}": {reason}') from None


def avro_value(value: Any, kind: SqlType) -> Any:
    """A value of Avro's as one of a column."""
    if kind.name == "array" and isinstance(value, list):
        return [avro_value(each, kind.element) for each in value]
    if kind.name == "struct" and isinstance(value, dict):
        return {field: _of_field(value, field, inner) for field, inner in kind.fields}
    if isinstance(value, UUID):
        value = str(value)
    if isinstance(value, datetime):
        return _moment(value, kind)
    if isinstance(value, float) and kind.name in ("real", "double precision"):
        return value
    if isinstance(value, date) and kind.name == "date":
        return value
    if isinstance(value, bytes) and kind.name == "bytea":
        return value
    if _holds(value, (float, date, bytes)):
        raise NotThis(f"{value!r} is not a value of type {kind}")
    return json_value(value, kind)


def _holds(value: Any, kinds: tuple[type, ...]) -> bool:
    """Whether there is something in it that JSON does not have."""
    inner: Sequence[Any] = ()
    if isinstance(value, dict):
        inner = list(value.values())
    elif isinstance(value, list):
        inner = value
    return isinstance(value, kinds) or any(_holds(each, kinds) for each in inner)


def _moment(value: datetime, kind: SqlType) -> datetime:
    """A moment has UTC as its time zone, a local time none."""
    if kind.name not in ("timestamp", "timestamptz"):
        raise NotThis(f"{value} is not a value of type {kind}")
    moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    return moment if kind.name == "timestamptz" else moment.replace(tzinfo=None)
