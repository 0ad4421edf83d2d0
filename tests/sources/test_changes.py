"""Events that are changes of rows."""

from __future__ import annotations

import datetime
import json
import pickle
import random
from decimal import Decimal
from types import SimpleNamespace
from typing import NamedTuple

import pyarrow as pa
import pytest

from headrace.engine.event_tables import FoldRange, last_of_each
from headrace.sources.changes import DELETED, Changes, Truncated
from headrace.sources.connector import Decoded
from headrace.sources.decoding import NotThis
from headrace.sources.definition import Definition
from headrace.sources.kafka import ChangesReader
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


def test_a_table_that_was_truncated_is_an_error_whatever_becomes_of_bad_events():
    for read in (changes("debezium").of, lambda key, value: ChangesReader._decoded(READER, 0, [Message(value)])):
        with pytest.raises(Truncated, match="truncated"):
            read(None, b'{"op": "t"}')


class Message(NamedTuple):
    content: bytes

    def key(self) -> None:
        return None

    def value(self) -> bytes:
        return self.content


READER = ChangesReader(
    definition=Definition(connector="kafka", columns=COLUMNS, format="debezium", encode="json"), config=(), key=("id",)
)

DEBEZIUM = {
    "n": ("org.apache.kafka.connect.data.Decimal", {"parameters": {"scale": "2"}}),
    "v": ("io.debezium.data.VariableScaleDecimal", {}),
    "d": ("io.debezium.time.Date", {}),
    "micro": ("io.debezium.time.MicroTimestamp", {}),
    "milli": ("org.apache.kafka.connect.data.Timestamp", {}),
    "nano": ("io.debezium.time.NanoTimestamp", {}),
    "clock": ("io.debezium.time.MicroTime", {}),
    "j": ("io.debezium.data.Json", {}),
}


@pytest.mark.parametrize(
    ("field", "value", "kind", "meant"),
    [
        ("n", "BNI=", SqlType("numeric", precision=8, scale=2), Decimal("12.34")),
        ("n", "1234", SqlType("numeric", precision=12, scale=2), Decimal("-26588.24")),  # base64 has digits, too
        ("n", "1234", SqlType("varchar"), "-26588.24"), ("n", "BNI=", SqlType("double precision"), 12.34),
        ("v", {"scale": 1, "value": "ew=="}, SqlType("numeric", precision=8, scale=2), Decimal("12.30")),
        ("d", 20455, SqlType("date"), datetime.date(2026, 1, 2)), ("d", 20455, SqlType("integer"), 20455),
        ("micro", 1_000_001, SqlType("timestamp"), datetime.datetime(1970, 1, 1, 0, 0, 1, 1)),
        ("milli", 1001, SqlType("timestamp"), datetime.datetime(1970, 1, 1, 0, 0, 1, 1000)),
        ("nano", 1_000_001_999, SqlType("timestamptz"), datetime.datetime(1970, 1, 1, 0, 0, 1, 1, datetime.UTC)),
        ("clock", 3_600_000_001, SqlType("varchar"), "01:00:00.000001"),
        ("j", '{"a": 1}', SqlType("jsonb"), '{"a":1}'), ("j", '{"a": 1}', SqlType("varchar"), '{"a": 1}'),
        ("other", 20455, SqlType("date"), datetime.date(2026, 1, 2)),
        ("n", "?", SqlType("numeric", precision=8, scale=2), None), ("v", "x", SqlType("varchar"), None),
        ("micro", 1 << 62, SqlType("timestamp"), None), ("micro", 1, SqlType("date"), None),
    ],
)  # fmt: skip
def test_what_debezium_means_is_in_the_schema_beside_it(field, value, kind, meant):
    """None: it is a bad event."""
    name, more = DEBEZIUM.get(field, (None, {}))
    of_row = [{"field": "id", "type": "int64"}, {"field": field, "name": name, **more}]
    schema = {"fields": [{"field": part, "fields": of_row} for part in ("before", "after")]}
    event = {"schema": schema, "payload": {"op": "c", "after": {"id": 1, field: value}}}
    columns = (("id", SqlType("bigint")), (field, kind))
    made = Changes(
        definition=Definition(connector="kafka", columns=columns, format="debezium", encode="json"), key=("id",)
    )
    text = json.dumps(event).encode()
    if meant is None:
        with pytest.raises(NotThis, match=f'column "{field}"'):
            made.of(None, text)
        return
    assert made.of(None, text) == ([1, meant], False)
    if (block := made.block([None], [text])) is not None:
        assert block.columns[field].to_pylist() == [meant]


@pytest.mark.parametrize(
    ("format", "key", "value"),
    [
        ("upsert", None, b'{"w": "a"}'), ("upsert", None, None), ("upsert", b"x", None), ("upsert", b"\xff", None),
        ("upsert", b"1", b"[]"), ("upsert", b"1", b"{"), ("upsert", b"1", b'{"n": "x"}'),
        ("debezium", None, b'{"op": "m"}'), ("debezium", None, b'{"op": "c"}'), ("debezium", None, b'{"payload": 1}'),
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


def test_few_events_that_are_large_do_not_pass_through_the_driver():
    blocks = [Decoded(rows=pa.table({"a": [at], DELETED: [False], "v": ["x" * 1000]})) for at in range(10)]
    read = []
    reader = SimpleNamespace(read=lambda task: (read.append(each) or each for each in blocks))
    task = pa.record_batch({"task": pa.array([pickle.dumps("all")], pa.binary())})
    for most, taken in ((100_000, 10), (2_500, 3)):
        read.clear()
        (answer,) = FoldRange(reader=reader, key=("a",), on_bad="fail", most_bytes=most)(iter([task]))
        assert len(read) == taken and (answer.column("rows")[0].as_py() is None) == (taken < 10)


def test_of_each_key_the_last_counts():
    rows = pa.table({"a": [1, 2, 1, None, 2, None], "v": [1, 2, 3, 4, 5, 6]})
    assert last_of_each(rows, ["a"])["v"].to_pylist() == [3, 5, 6]
    nan = float("nan")
    rows = pa.table({"a": [nan, 1.0, -0.0, float("nan"), 0.0], "v": [1, 2, 3, 4, 5]})
    assert last_of_each(rows, ["a"])["v"].to_pylist() == [2, 4, 5]
