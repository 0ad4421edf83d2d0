"""Events that are changes of rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from headrace.engine.event_tables import last_of_each
from headrace.sources.changes import Changes
from headrace.sources.decoding import NotThis
from headrace.sources.definition import Definition
from headrace.types import SqlType

COLUMNS = (("id", SqlType("bigint")), ("w", SqlType("varchar")), ("n", SqlType("numeric", precision=8, scale=2)))


def changes(format: str = "upsert", key: tuple[str, ...] = ("id",)) -> Changes:
    return Changes(definition=Definition(connector="kafka", columns=COLUMNS, format=format, encode="json"), key=key)


@pytest.mark.parametrize(
    ("key", "value", "row"),
    [
        (None, {"id": 1, "w": "a"}, [1, "a", None]),
        (b"1", {"w": "a"}, [1, "a", None]),
        (b'{"id": 1}', {"w": "a", "more": 1}, [1, "a", None]),
        (b'{"schema": {}, "payload": {"id": 1}}', {"w": "a"}, [1, "a", None]),
        (b"garbage", {"id": 1}, [1, None, None]),  # the content has the key
    ],
)
def test_upserts(key, value, row):
    assert changes().of(key, json.dumps(value).encode()) == (row, False)


def test_tombstones():
    assert changes().of(b"7", None) == ([7, None, None], True)
    assert changes(key=("id", "w")).of(b'{"id": 7, "w": "x"}', None) == ([7, "x", None], True)
    assert changes(key=("w",)).of(b"plain text", None) == ([None, "plain text", None], True)
    assert changes(key=("w",)).of(b'"json text"', None) == ([None, "json text", None], True)


def test_debezium():
    def event(**fields) -> bytes:
        return json.dumps(fields).encode()

    row = {"id": 1, "w": "a", "n": "1.50"}
    for operation in "cru":
        found, gone = changes("debezium").of(None, event(op=operation, before=None, after=row))
        assert (found[:2], str(found[2]), gone) == ([1, "a"], "1.50", False)
    wrapped = event(schema={}, payload={"op": "d", "before": row, "after": None})
    assert changes("debezium").of(None, wrapped) == ([1, None, None], True)
    assert changes("debezium").of(b"1", None) is None


@pytest.mark.parametrize(
    ("format", "key", "value"),
    [
        ("upsert", None, b'{"w": "a"}'), ("upsert", None, None), ("upsert", b"x", None), ("upsert", b"\xff", None),
        ("upsert", b"1", b"[]"), ("upsert", b"1", b"{"), ("upsert", b"1", b'{"n": "x"}'),
        ("debezium", None, b'{"op": "t"}'), ("debezium", None, b'{"op": "c"}'), ("debezium", None, b'{"payload": 1}'),
        ("debezium", None, b'{"op": "d", "before": {"w": "a"}}'),
    ],
)  # fmt: skip
def test_what_is_not_a_change(format, key, value):
    with pytest.raises(NotThis):
        changes(format).of(key, value)


def test_a_composite_key_is_an_object():
    with pytest.raises(NotThis, match="not an object with id, w"):
        changes(key=("id", "w")).of(b"1", None)


def test_of_each_key_the_last_counts():
    rows = pa.table({"a": [1, 2, 1, None, 2, None], "v": [1, 2, 3, 4, 5, 6]})
    assert last_of_each(rows, ["a"])["v"].to_pylist() == [3, 5, 6]
