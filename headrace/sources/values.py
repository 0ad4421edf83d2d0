"""Values of events as those of columns: what JSON has, and texts.

Whatever a column cannot hold is said, in a :class:`NotThis`.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from headrace.errors import HeadraceError
from headrace.sql.literals import NOT_CONSTANT, from_text
from headrace.types import INTEGERS, SqlType

_RANGES = {"smallint": 1 << 15, "integer": 1 << 31, "bigint": 1 << 63}


class NotThis(Exception):
    """An event is not what its source says; the text says why."""


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
        return value if isinstance(value, str) else _json_text(value)
    if name == "jsonb":
        return _json_text(value)
    if name == "boolean":
        return _required(value, isinstance(value, bool), kind)
    if name in INTEGERS:
        fits = isinstance(value, int) and not isinstance(value, bool) and -_RANGES[name] <= value < _RANGES[name]
        return _required(value, fits, kind)
    if name in ("real", "double precision"):
        return float(_required(value, isinstance(value, (int, Decimal)) and not isinstance(value, bool), kind))
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


def _numeric(value: Any, kind: SqlType) -> Decimal:
    fits = isinstance(value, (int, Decimal, str)) and not isinstance(value, bool)
    try:
        number = Decimal(_required(value, fits, kind))
        return pa.scalar(number.quantize(Decimal(1).scaleb(-kind.arrow.scale)), kind.arrow).as_py()
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
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_decimal_text)


def _decimal_text(value: Any) -> Any:
    # A Decimal is what a JSON number with a point was read as.
    return int(value) if value == value.to_integral_value() and abs(value) < 1 << 53 else float(value)


def _shown(value: Any) -> str:
    text = _json_text(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def text_value(text: str | None, kind: SqlType) -> Any:
    """A text as PostgreSQL reads a constant of the type."""
    if text is None:
        return None
    if kind.name == "varchar":
        return text
    if kind.name == "bytea":
        return _bytes(text)
    try:
        found = from_text(text, kind)
    except HeadraceError as problem:
        raise NotThis(problem.message) from None
    if found is not NOT_CONSTANT:
        return found
    try:
        if kind.name == "jsonb":
            return _json_text(json.loads(text, parse_float=Decimal))
        if kind.name in ("real", "double precision"):
            return float(text)
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


def _bytes(text: str) -> bytes:
    try:
        return bytes.fromhex(text[2:]) if text.startswith("\\x") else base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        raise NotThis(f"{_shown(text)} is neither \\x and hexadecimal digits nor base64") from None
