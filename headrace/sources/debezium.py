"""What Debezium means by values in JSON: days, microseconds, decimals as bytes. The schema beside the payload says it.

>>> meant(20455, {"type": "int32", "name": "io.debezium.time.Date"}, SqlType("date"))
datetime.date(2026, 1, 2)
>>> meant("BNI=", {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}, SqlType("numeric"))
Decimal('12.34')
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from headrace.sources import avro
from headrace.sources.values import NotThis, read_json
from headrace.times import time_text
from headrace.types import INTEGERS, SqlType

DECIMAL = "org.apache.kafka.connect.data.Decimal"

_DAYS = ("io.debezium.time.Date", "org.apache.kafka.connect.data.Date")
_MOMENTS = {
    "io.debezium.time.Timestamp": Decimal(1000),
    "org.apache.kafka.connect.data.Timestamp": Decimal(1000),
    "io.debezium.time.MicroTimestamp": Decimal(1),
    "io.debezium.time.NanoTimestamp": Decimal("0.001"),
}
"""Of what they count: microseconds"""
_TIMES = {
    "io.debezium.time.Time": Decimal(1000),
    "org.apache.kafka.connect.data.Time": Decimal(1000),
    "io.debezium.time.MicroTime": Decimal(1),
    "io.debezium.time.NanoTime": Decimal("0.001"),
}


def schemas_of(event: Mapping[str, Any], part: str) -> dict[str, Any]:
    """Of the fields of the row before or after the change; none, if the event has no schema."""
    for each in _fields(event.get("schema")):
        if each.get("field") == part:
            return {inner["field"]: inner for inner in _fields(each) if "field" in inner}
    return {}


def _fields(schema: Any) -> list[Mapping[str, Any]]:
    found = schema.get("fields") if isinstance(schema, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def field_value(fields: Mapping[str, Any], name: str, kind: SqlType, schema: Mapping[str, Any] | None) -> Any:
    value = fields.get(name)
    try:
        return avro.avro_value(meant(value, schema or {}, kind), kind)
    except NotThis as reason:
        raise NotThis(f'column "{name}": {reason}') from None
    except (ValueError, ArithmeticError, TypeError, AttributeError):
        raise NotThis(f'column "{name}": {value!r} is not what its schema says') from None


def meant(value: Any, schema: Mapping[str, Any], kind: SqlType) -> Any:
    """A value as one of Avro's is read: whoever has a column of whole numbers gets the number."""
    name = schema.get("name")
    if value is None:
        return None
    if name == DECIMAL:
        return _typed(_decimal(value, int(schema["parameters"]["scale"])), kind)
    if name == "io.debezium.data.VariableScaleDecimal":
        return _typed(_decimal(value["value"], value["scale"]), kind)
    if name == "io.debezium.data.Json" and kind.name == "jsonb":
        return read_json(value)
    if schema.get("type") == "array" and kind.name == "array":
        return [meant(each, schema["items"], kind.element) for each in value]
    if not isinstance(value, int) or isinstance(value, bool) or kind.name in INTEGERS:
        return value
    if name in _DAYS or (name is None and kind.name == "date"):
        return date(1970, 1, 1) + timedelta(days=value)
    if name in _MOMENTS:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(value * _MOMENTS[name] // 1))
    if name in _TIMES and kind.name == "time":
        return time_text(int(value * _TIMES[name] // 1))  # which may be 24:00:00
    if name in _TIMES:
        return (datetime(1970, 1, 1) + timedelta(microseconds=int(value * _TIMES[name] // 1))).time()
    return value


def _decimal(text: str, scale: int) -> Decimal:
    digits = int.from_bytes(base64.b64decode(text, validate=True), "big", signed=True)
    return Decimal(f"{digits}E{-scale}")


def _typed(number: Decimal, kind: SqlType) -> Decimal | str:
    return f"{number:f}" if kind.name == "varchar" else number
