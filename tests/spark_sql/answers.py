"""Answers of Spark to queries that were translated, as the text that PostgreSQL prints.

Floats and the last digits of long quotients are compared by value; everything else to the letter.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from headrace.catalog import Catalog
from headrace.sql.bind import bind_query
from headrace.sql.parse import parse
from headrace.sql.translate import to_spark
from headrace.types import SqlType


def run(session, sql: str) -> list[tuple[str | None, ...]]:
    bound = bind_query(parse(sql)[0].query, Catalog())
    again = bind_query(parse(bound.text())[0].query, Catalog())
    assert again.text() == bound.text()
    frame = session.sql(to_spark(bound.expression))
    for field, kind in zip(frame.schema.fields, bound.types, strict=True):
        expected = session.sql(f"SELECT CAST(NULL AS {kind.spark})").schema[0] if kind is not None else field
        assert field.dataType.simpleString() == expected.dataType.simpleString()
    rows = frame.collect()
    return [tuple(show(value, kind) for value, kind in zip(row, bound.types, strict=True)) for row in rows]


def show(value: Any, kind: SqlType | None) -> str | None:
    """The value as PostgreSQL prints it, more or less: see same()."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, bytes | bytearray):
        return "\\x" + bytes(value).hex()
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(" ")
        return (text.rstrip("0") if "." in text else text) + ("+00" if kind == SqlType("timestamptz") else "")
    if isinstance(value, list):
        return "{" + ",".join(_element(each, kind) for each in value) + "}"
    return str(value)


def _element(value: Any, kind: SqlType | None) -> str:
    value = value.normalize() if isinstance(value, Decimal) else value
    text = show(value, kind.element if kind is not None else None)
    if text is None:
        return "NULL"
    return f'"{text}"' if isinstance(value, str) and (text == "" or " " in text) else text


def same(ours: str | None, expected: str | None) -> bool:
    if ours == expected or ours is None or expected is None:
        return ours == expected
    try:
        a, b = Decimal(ours), Decimal(expected)
    except InvalidOperation:
        # jsonb is printed without blanks here
        return ours == expected.replace(": ", ":").replace(", ", ",") if expected[:1] in "{[" else False
    return a == b or abs(a - b) <= abs(b) * Decimal("1e-14")
