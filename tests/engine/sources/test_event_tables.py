"""Tables that a topic's events change, against what the events come to."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import fastavro
import pytest

import headrace
from headrace.engine import event_tables
from headrace.errors import HeadraceError, InvalidDefinition, Unsupported, WrongObjectKind
from headrace.sources import connector
from tests.engine.conftest import eventually
from tests.engine.sources.conftest import NEEDS_KAFKA, ROOT, events_of, rows

pytestmark = NEEDS_KAFKA


def table(broker, topic: str, format: str = "UPSERT", name: str = "t", more: str = "") -> str:
    return (
        f"CREATE TABLE IF NOT EXISTS {name} (id BIGINT PRIMARY KEY, w VARCHAR) WITH (connector = 'kafka',"
        f" topic = '{topic}', properties.bootstrap.server = '{broker.servers}'{more}) FORMAT {format} ENCODE JSON"
    )


def as_json(row: dict) -> bytes:
    return json.dumps(row).encode()


class Writer:
    """Random upserts and deletes, and what they come to."""

    def __init__(self, broker, topic: str, partitions: int, encoded: Callable[[dict], bytes] = as_json):
        self._producer, self._topic, self._partitions = broker.producer(), topic, partitions
        self._encoded = encoded
        self._dice = random.Random(1)
        self.expected: dict[int, str] = {}

    def write(self, count: int) -> None:
        for _ in range(count):
            id = self._dice.randrange(50)
            value = None
            if self._dice.random() < 0.3:
                self.expected.pop(id, None)
            else:
                self.expected[id] = word = f"w{self._dice.randrange(1000)}"
                value = self._encoded({"id": id, "w": word})
            self._producer.produce(self._topic, value, key=str(id), partition=id % self._partitions)
        assert self._producer.flush(60) == 0

    def reached(self, db, name: str = "t") -> None:
        expected = sorted(self.expected.items())
        eventually(lambda: rows(db, f"SELECT id, w FROM {name}") == expected)


@pytest.mark.parametrize("by", ["driver", "tasks"])
def test_upserts_deletes_and_views_on_them(db, broker, by, monkeypatch):
    if by == "tasks":
        monkeypatch.setattr(event_tables, "SMALL_BYTES", 1000)  # they are few, but large
        monkeypatch.setattr(connector, "TASK_OFFSETS", 20)  # a key's events are in several of them
    topic = broker.topic(partitions=3)
    writer = Writer(broker, topic, 3)
    writer.write(200)
    db.sql(table(broker, topic))
    writer.reached(db)
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, upper(w) AS w FROM t WHERE id < 25")
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT w, count(*) AS n, max(id) AS most FROM t GROUP BY w")
    writer.write(200)
    writer.reached(db)
    assert rows(db, "SELECT * FROM m") == [(id, w.upper()) for id, w in sorted(writer.expected.items()) if id < 25]
    for view in ("m", "n"):
        assert db.sql(f"CHECK MATERIALIZED VIEW {view}").rows()[0][0].startswith("equal")
    # Nothing is left of what was there before, and nothing is there twice.
    assert db.sql("SELECT count(*) FROM t").rows() == [(len(writer.expected),)]
    with pytest.raises(WrongObjectKind):
        db.sql("INSERT INTO t VALUES (1, 'x')")
    assert [row[:3] for row in db.sql("SHOW SOURCES").rows()] == [("t", "kafka", "running")]
    db.sql("DROP TABLE t CASCADE")
    assert not [key for key in db.engine.committed.offsets if key.startswith("source")]


def test_debezium(db, broker):
    topic = broker.topic()
    events = [
        {"op": "r", "before": None, "after": {"id": 1, "w": "a"}},
        {"op": "c", "before": None, "after": {"id": 2, "w": "b"}},
        {"op": "u", "before": {"id": 1, "w": "a"}, "after": {"id": 1, "w": "c"}},
        {"op": "d", "before": {"id": 2, "w": "b"}, "after": None},
    ]
    broker.send(topic, [*(json.dumps({"payload": each}).encode() for each in events), None])
    db.sql(table(broker, topic, "DEBEZIUM"))
    eventually(lambda: rows(db, "SELECT * FROM t") == [(1, "c")])


def change(format: str, id: int, word: str | None) -> tuple[bytes, bytes | None]:
    """An event that makes a row what it is from now on, or removes it: its key, and its content."""
    row = {"id": id, "w": word}
    if format == "UPSERT":
        return str(id).encode(), None if word is None else json.dumps(row).encode()
    before, after = (row, None) if word is None else (None, row)
    return json.dumps({"id": id}).encode(), json.dumps(
        {"op": "cd"[word is None], "before": before, "after": after}
    ).encode()


@pytest.mark.parametrize("format", ["UPSERT", "DEBEZIUM"])
def test_aborted_transactions_partitions_that_come_later_and_compaction(db, broker, format):
    """Offsets without events are nothing to wait for, and events of aborted transactions change nothing."""
    settings = {"cleanup_policy": "compact", "segment_ms": "100", "min_cleanable_dirty_ratio": "0.01"}
    topic = broker.topic(**settings, max_compaction_lag_ms="100", delete_retention_ms="0")

    def producing() -> Any:
        producer = broker.producer(transactional_id=f"x-{topic}")
        producer.init_transactions()
        return producer

    def transaction(events: dict[int, str | None], *, commit: bool, partition: int = 0) -> None:
        producer.begin_transaction()
        for id, word in events.items():
            key, value = change(format, id, word)
            producer.produce(topic, value, key=key, partition=partition)
        producer.flush()  # or an abort would only forget them
        producer.commit_transaction() if commit else producer.abort_transaction()

    producer = producing()
    transaction({1: "a", 2: "b", 3: "c"}, commit=True)
    transaction({1: "never", 2: None, 9: "never"}, commit=False)
    db.sql(table(broker, topic, format))
    eventually(lambda: rows(db, "SELECT * FROM t") == [(1, "a"), (2, "b"), (3, "c")])
    for round in range(20):
        transaction({1: f"a{round}", 3: None if round % 2 else "back"}, commit=True)
    transaction({2: "never"}, commit=False)
    broker.grow(topic, 2)
    producer = producing()  # one that knows of it
    transaction({4: "in the new one"}, commit=True, partition=1)
    transaction({4: "never"}, commit=False, partition=1)
    expected = [(1, "a19"), (2, "b"), (4, "in the new one")]
    eventually(lambda: rows(db, "SELECT * FROM t") == expected)
    # Who comes when the older events of each key are gone has the same rows.
    eventually(lambda: transaction({5: "x"}, commit=True) or events_of(broker, topic) < 30)
    db.sql(table(broker, topic, format, name="late"))
    for name in ("t", "late"):
        eventually(lambda name=name: rows(db, f"SELECT * FROM {name}") == [*expected, (5, "x")])
    assert [(each["lost"], each["error"]) for each in db.engine.sources.status()] == [(0, None)] * 2


def test_bad_events(db, broker, monkeypatch):
    topic = broker.topic()
    broker.send(topic, [b'{"id": 1}', b"nonsense", b'{"id": 2}'])
    db.sql(table(broker, topic, name="lenient", more=", bad.records = 'skip'"))
    eventually(lambda: rows(db, "SELECT id FROM lenient") == [(1,), (2,)])
    for by, few in (("tasks", 0), ("driver", event_tables.SMALL_EVENTS)):
        monkeypatch.setattr(event_tables, "SMALL_EVENTS", few)
        db.sql(table(broker, topic, name=by, more=", bad.records = 'dead_letter'"))
        eventually(lambda by=by: rows(db, f"SELECT id FROM {by}") == [(1,), (2,)])
        ((*place, raw, reason),) = rows(db, f'SELECT partition, "offset", raw, reason FROM {by}_dead_letters')
        assert (place, raw) == ([0, 1], b"nonsense") and reason.startswith("its content is not JSON")
    db.sql(table(broker, topic, name="strict"))
    db.sql(table(broker, topic, name="stricter", more=", retention.gaps = 'fail'"))

    def status(name: str) -> dict:
        return next(each for each in db.engine.sources.status() if each["name"] == name)

    for name in ("strict", "stricter"):
        eventually(lambda name=name: status(name)["error"])
        assert "offset 1 of partition 0" in status(name)["error"]
    assert status("lenient")["skipped"] == 1
    # What retention removes before it was read is said, with its size; by policy it is an error.
    broker.remove_before(topic, 0, 2)
    eventually(lambda: rows(db, "SELECT id FROM strict") == [(2,)])
    assert (status("strict")["error"], status("strict")["lost"]) == (None, 2)
    eventually(lambda: "2 offsets of partition 0 (0 to 1) were removed" in status("stricter")["error"])


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE TABLE t (id INT) WITH (connector = 'kafka') FORMAT UPSERT ENCODE JSON", InvalidDefinition),
        ("CREATE TABLE t (id INT PRIMARY KEY) WITH (connector = 'kafka') FORMAT PLAIN ENCODE JSON", Unsupported),
        ("CREATE TABLE t (id INT PRIMARY KEY) WITH (connector = 'file') FORMAT UPSERT ENCODE JSON", Unsupported),
        ("CREATE TABLE t (id INT PRIMARY KEY) WITH (connector = 'kafka')", Unsupported),
        ("CREATE SOURCE t (id INT) WITH (connector = 'kafka', topic = 'x') FORMAT UPSERT ENCODE JSON", HeadraceError),
    ],
)
def test_what_is_refused(db, statement, error):
    with pytest.raises(error):
        db.sql(statement)


@pytest.mark.slow
def test_killed_between_reading_and_the_commit(spark, broker, warehouse):
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    schema = {
        "type": "record",
        "name": "r",
        "fields": [{"name": "id", "type": "long"}, {"name": "w", "type": "string"}],
    }

    def in_avro(row: dict) -> bytes:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, row)
        return sink.getvalue()

    topics = {"t": broker.topic(partitions=2), "a": broker.topic(partitions=2)}
    writers = {"t": Writer(broker, topics["t"], 2), "a": Writer(broker, topics["a"], 2, in_avro)}
    of_avro = table(broker, topics["a"], name="a").replace("JSON", f"AVRO (schema = '{json.dumps(schema)}')")
    for place in ("before_stream:2", "after_commit:1"):
        for writer in writers.values():
            writer.write(100)
        process = subprocess.run(
            [sys.executable, "-m", "tests.engine.cdc_child", warehouse, f"{table(broker, topics['t'])}; {of_avro}"],
            cwd=ROOT, timeout=200,
            text=True, capture_output=True, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": place},
        )  # fmt: skip
        assert process.returncode == -signal.SIGKILL, f"{place} was not reached: {process.stderr[-2000:]}"
    with headrace.connect(warehouse, spark=spark) as db:
        for name, writer in writers.items():
            writer.write(100)
            writer.reached(db, name)
