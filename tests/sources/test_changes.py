"""Events that are changes of rows."""

from __future__ import annotations

import json
import random

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
        ("upsert", b"1", b'{"w": "\\ud800"}'), ("upsert", b"1", b'{"more": 1e99999999999999999999}'),
        ("upsert", b"1e99999999999999999999", b"{}"), ("upsert", b"[" * 100_000, b"{}"),
    ],
)  # fmt: skip
def test_what_is_not_a_change(format, key, value):
    with pytest.raises(NotThis):
        changes(format).of(key, value)
    assert changes(format).block([key], [value]) is None


def test_a_composite_key_is_an_object():
    with pytest.raises(NotThis, match="not an object with id, w"):
        changes(key=("id", "w")).of(b"1", None)


PLAIN = COLUMNS[:2] + (("d", SqlType("double precision")), ("t", SqlType("timestamptz")))


@pytest.mark.parametrize("format", ["upsert", "debezium"])
@pytest.mark.parametrize("columns", [COLUMNS, PLAIN], ids=["numeric", "plain"])
@pytest.mark.parametrize("seed", range(30))
def test_many_at_once_are_what_each_is(format, columns, seed):
    """Whatever is read by Arrow is read so by Python; and if nothing is strange, Arrow can read it."""
    dice = random.Random(seed)
    strange = seed % 3 == 0
    made = Changes(definition=Definition(connector="kafka", columns=columns, format=format, encode="json"), key=("id",))

    def row() -> dict:
        found = {"id": dice.randrange(5), "w": dice.choice(["a", "ä", None]), "n": "1.5", "d": 2, "more": [1]}
        found["t"] = "2026-01-02T03:04:05Z"
        if strange and dice.random() < 0.2:
            found |= dice.choice([{"id": None}, {"id": "x"}, {"w": 5}, {"d": "much"}, {"t": 1700000000000}])
        return found

    def event() -> tuple[bytes | None, bytes | None]:
        if dice.random() < 0.2:
            return str(dice.randrange(5)).encode(), None
        found = row()
        if format == "debezium":
            operation = dice.choice("crudd" + ("t" if strange else ""))
            found = {"op": operation, "before": row(), "after": None if operation == "d" else found}
            found = {"payload": found, "schema": {}} if seed % 2 or (strange and dice.random() < 0.1) else found
        return None, json.dumps(found).encode()

    events = [event() for _ in range(40)]
    block = made.block(*zip(*events, strict=True))
    if block is None:
        assert strange or (format == "debezium" and columns is COLUMNS)
        return
    one_by_one = [made.of(*each) for each in events]
    assert [at for at, each in enumerate(one_by_one) if each is not None] == list(block.said)
    rows = list(zip(*(block.columns[name].to_pylist() for name, _ in columns), strict=True))
    assert [(list(each), bool(gone)) for each, gone in zip(rows, block.gone, strict=True)] == [
        each for each in one_by_one if each is not None
    ]


def test_of_each_key_the_last_counts():
    rows = pa.table({"a": [1, 2, 1, None, 2, None], "v": [1, 2, 3, 4, 5, 6]})
    assert last_of_each(rows, ["a"])["v"].to_pylist() == [3, 5, 6]
