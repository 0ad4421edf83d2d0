"""Views on a topic of a real broker."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading

import fastavro
import pytest

import headrace
from headrace.cdc.problems import SourceRefused, SourceUnreachable
from headrace.engine import ingest
from headrace.errors import HeadraceError, InvalidDefinition, InvalidParameterValue, JobFailed
from headrace.sources import kafka
from tests.engine.conftest import eventually
from tests.engine.sources.conftest import NEEDS_KAFKA, ROOT, event, events_of, holds, offsets, rows, send, source

pytestmark = NEEDS_KAFKA


def test_views_before_during_and_after_hold_every_offset_once(db, broker):
    topic = broker.topic(partitions=3)
    db.sql(source(broker, topic))
    db.sql("CREATE MATERIALIZED VIEW before AS SELECT id, word, p, o FROM s")
    for partition in (0, 1):
        send(broker, topic, range(300), partition)
    eventually(lambda: offsets(db, "before"))
    db.sql("CREATE MATERIALIZED VIEW during AS SELECT id, p, o FROM s")
    send(broker, topic, range(300, 500), 0)
    expected = [(0, at) for at in range(500)] + [(1, at) for at in range(300)]
    for view in ("before", "during"):
        holds(db, view, expected)
    db.sql("CREATE MATERIALIZED VIEW after AS SELECT lower(word) AS w, p, o FROM s WHERE id < 400")
    holds(db, "after", [(0, at) for at in range(400)] + [(1, at) for at in range(300)])
    assert rows(db, "SELECT p, count(*) FROM s GROUP BY p") == [(0, 500), (1, 300)]
    ((_, _, state, *_),) = db.sql("SHOW SOURCES").rows()
    assert state == "running"


def test_startup_modes_are_resolved_when_the_source_is_created(db, broker):
    topic = broker.topic(retention_ms="-1")
    broker.send(topic, [event(0)], timestamp=1_000_000_000_000)
    broker.send(topic, [event(1)], timestamp=1_500_000_000_000)
    for name, mode in (
        ("earliest", {"scan__startup__mode": "earliest"}),
        ("latest", {"scan__startup__mode": "latest"}),
        ("since", {"scan__startup__mode": "timestamp", "scan__startup__timestamp__millis": "1200000000000"}),
        ("never", {"scan__startup__mode": "timestamp", "scan__startup__timestamp__millis": "9000000000000"}),
    ):
        db.sql(source(broker, topic, name, **mode))
    send(broker, topic, range(2, 4))
    for name, first in (("earliest", 0), ("latest", 2), ("since", 1), ("never", 2)):
        db.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT p, o FROM {name}")
        holds(db, f"of_{name}", [(0, at) for at in range(first, 4)])
        assert rows(db, f"SELECT o FROM {name}") == [(at,) for at in range(first, 4)]


def test_a_query_reads_only_what_it_can_want(db, broker):
    topic = broker.topic(partitions=2, retention_ms="-1")
    for partition in (0, 1):
        broker.send(topic, map(event, range(50)), partition=partition, timestamp=1_000_000_000_000)
        broker.send(topic, map(event, range(50, 100)), partition=partition, timestamp=1_500_000_000_000)
    create = source(broker, topic).replace("offset AS o", "offset AS o, timestamp AS ts")
    db.sql(create)

    def read(where: str) -> tuple[int, str]:
        """How many rows there are, and how many offsets were read for them."""
        query = f"SELECT p, o FROM s WHERE {where}"
        said = [line for (line,) in db.sql(f"EXPLAIN {query}").rows() if line.startswith("reads ")]
        return len(db.sql(query).rows()), said[0].split()[1] if said else "all"

    assert read("p = 1") == (100, "100")
    assert read("p = 1 AND o >= 90") == (10, "10")
    assert read("o BETWEEN 10 AND 12") == (6, "6")
    assert read("o IN (3, 5)") == (4, "6")
    assert read("ts >= '2015-01-01'") == (100, "100")
    assert read("ts < '2015-01-01'") == (100, "all")
    assert read("p = 1 OR o = 3") == (101, "all")
    assert db.sql("SELECT count(*) FROM s a JOIN s b ON a.o = b.o WHERE a.p = 0 AND b.p = 1").rows() == [(100,)]


def test_latest_on_an_idle_topic_and_empty_partitions_are_complete_at_once(db, broker):
    topic = broker.topic(partitions=4)
    db.sql(source(broker, topic, scan__startup__mode="latest"))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    assert offsets(db, "m") == [] and not db.jobs()
    send(broker, topic, range(2), partition=3)
    holds(db, "m", [(3, 0), (3, 1)])


def test_partitions_that_come_later(db, broker):
    topic = broker.topic()
    send(broker, topic, range(5))
    db.sql(source(broker, topic, scan__startup__mode="latest"))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    broker.grow(topic, 3)
    send(broker, topic, range(5), partition=2)
    holds(db, "m", [(2, at) for at in range(5)])
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT p, o FROM s")
    holds(db, "n", [(2, at) for at in range(5)])


def test_a_partition_that_comes_while_a_view_is_being_filled(db, broker):
    topic = broker.topic()
    send(broker, topic, range(5))
    db.sql(source(broker, topic))
    db.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    broker.grow(topic, 2)
    send(broker, topic, range(5), partition=1)
    reader = db.engine.event_sources.reader(_id(db, "s"))
    eventually(lambda: reader.rows_taken == 5)
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT m")
    holds(db, "m", [(p, at) for p in (0, 1) for at in range(5)])


def test_restarts_between_the_source_its_view_and_what_retention_removes(spark, broker, warehouse):
    topic = broker.topic()
    send(broker, topic, range(5))
    with headrace.connect(warehouse, spark=spark) as db:
        db.sql(source(broker, topic, scan__startup__mode="latest"))
    send(broker, topic, range(5, 10))
    with headrace.connect(warehouse, spark=spark) as db:
        db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
        holds(db, "m", [(0, at) for at in range(5, 10)])
    send(broker, topic, range(10, 20))
    broker.remove_before(topic, 0, 13)
    with headrace.connect(warehouse, spark=spark) as db:
        # Of what the stream had not read three are gone, and this is said.
        eventually(lambda: len(offsets(db, "m")) == 12)
        assert offsets(db, "m") == [(0, at) for at in (*range(5, 10), *range(13, 20))]
        assert db.engine.sources.status()[0]["lost"] == 3


def test_transactions_aborted_committed_and_left_open(db, broker):
    """The marks have offsets of their own: a history that ends with one is complete, nevertheless."""
    topic = broker.topic()
    producer = broker.producer(transactional_id=f"x-{topic}")
    producer.init_transactions()
    expected = []
    at = 0
    for commit in (True, False, True, False):
        producer.begin_transaction()
        for number in range(3):
            producer.produce(topic, event(number), partition=0)
            expected += [(0, at)] if commit else []
            at += 1
        producer.flush()  # or an abort would only forget them
        producer.commit_transaction() if commit else producer.abort_transaction()
        at += 1  # the mark
    db.sql(source(broker, topic))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    holds(db, "m", expected)
    producer.begin_transaction()
    producer.produce(topic, event(0), partition=0)
    producer.flush()
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT p, o FROM s")
    holds(db, "n", expected)
    producer.commit_transaction()
    holds(db, "m", [*expected, (0, at)])


def test_a_compacted_topic_has_gaps(db, broker):
    topic = broker.topic(
        cleanup_policy="compact", segment_ms="100", min_cleanable_dirty_ratio="0.01", max_compaction_lag_ms="100"
    )
    for number in range(40):
        broker.send(topic, [event(number)], key=f"k{number % 2}")
    eventually(lambda: broker.send(topic, [event(99)], key="last") or events_of(broker, topic) < 30)
    db.sql(source(broker, topic))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, p, o FROM s")
    found = offsets(db, "m")
    assert len(found) == len(set(found)) and not db.jobs()
    assert len({id for id, _, _ in rows(db, "SELECT id, p, o FROM m")} & {38, 39, 99}) == 3


def test_what_retention_removes_is_counted_or_an_error(db, broker):
    topic = broker.topic()
    send(broker, topic, range(20))
    db.sql(source(broker, topic))
    db.sql(source(broker, topic, "strict", retention__gaps="fail"))
    db.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s; CREATE MATERIALIZED VIEW n AS SELECT p, o FROM strict")
    broker.remove_before(topic, 0, 5)
    for view in ("m", "n"):
        db.sql(f"ALTER MATERIALIZED VIEW {view} SET BACKFILL_RATE_LIMIT = DEFAULT")
    db.sql("WAIT m")
    assert offsets(db, "m") == [(0, at) for at in range(5, 20)]
    by_name = {each["name"]: each for each in db.engine.sources.status()}
    assert by_name["s"]["lost"] == 5 and by_name["strict"]["lost"] == 0
    with pytest.raises(JobFailed, match="5 offsets of partition 0 \\(0 to 4\\) were removed"):
        db.sql("WAIT n")
    # A view begins with what there is: to it nothing is lost.
    db.sql("SET backfill_rate_limit = DEFAULT; SET background_ddl = false")
    db.sql("CREATE MATERIALIZED VIEW later AS SELECT p, o FROM strict")
    assert offsets(db, "later") == [(0, at) for at in range(5, 20)]


def test_rate_zero_produce_and_resume(db, broker):
    topic = broker.topic()
    send(broker, topic, range(10))
    db.sql(source(broker, topic))
    db.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    send(broker, topic, range(10, 20))
    eventually(lambda: db.engine.event_sources.reader(_id(db, "s")).lag_rows == 0)
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT m")
    holds(db, "m", [(0, at) for at in range(20)])


def _id(db, name: str) -> int:
    return db.engine.committed.catalog.get(name).id


def test_what_an_event_has_besides_its_content(db, broker):
    topic = broker.topic(retention_ms="-1")
    broker.send(
        topic, [b'{"id": 1}'], key=b"k", timestamp=1_700_000_000_123, headers=[("h", b"1"), ("h", b"2"), ("e", None)]
    )
    db.sql(
        "CREATE SOURCE s (id BIGINT, missing VARCHAR) INCLUDE timestamp AS ts, key AS k, header 'h' AS h,"
        f" headers AS hs, payload AS raw WITH (connector = 'kafka', topic = '{topic}',"
        f" properties.bootstrap.server = '{broker.servers}') FORMAT PLAIN ENCODE JSON"
    )
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT * FROM s")
    for relation in ("s", "m"):
        ((id, missing, ts, k, h, hs, raw),) = db.sql(f"SELECT * FROM {relation}").rows()
        assert (id, missing, k, h, raw) == (1, None, b"k", b"2", b'{"id": 1}')
        assert ts.timestamp() == pytest.approx(1_700_000_000.123)
        assert len(hs) == 3


def test_bad_events_fail_or_are_left_out(db, broker):
    topic = broker.topic()
    broker.send(topic, [event(0), b"{", None, b'{"id": "x"}', event(4)])
    db.sql(source(broker, topic, "lenient", bad__records="skip"))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM lenient")
    assert offsets(db, "m") == [(0, 0), (0, 4)]
    assert rows(db, "SELECT o FROM lenient") == [(0,), (4,)]
    broker.send(topic, [b"not this", event(6)])
    eventually(lambda: offsets(db, "m") == [(0, 0), (0, 4), (0, 6)])
    db.sql(source(broker, topic, "strict"))
    with pytest.raises(HeadraceError, match="offset 1 of partition 0 cannot be read: it is not JSON"):
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT p, o FROM strict")
    with pytest.raises(HeadraceError, match="offset 1 of partition 0"):
        db.sql("SELECT * FROM strict").rows()


def test_dead_letters_are_kept_once_with_their_bytes_and_the_reason(db, broker, monkeypatch):
    topic = broker.topic()
    broker.send(topic, [event(0), b"\xff", event(2)])
    db.sql(source(broker, topic, bad__records="dead_letter"))
    for view in ("m", "n"):
        db.sql(f"CREATE MATERIALIZED VIEW {view} AS SELECT p, o FROM s")
        assert offsets(db, view) == [(0, 0), (0, 2)]
    broker.send(topic, [None, b'{"id": 1.5}', event(5)])
    eventually(lambda: len(offsets(db, "n")) == 3)
    found = rows(db, 'SELECT "offset", raw, reason FROM s_dead_letters')
    assert [(offset, raw) for offset, raw, _ in found] == [(1, b"\xff"), (3, None), (4, b'{"id": 1.5}')]
    assert 'column "id": 1.5 is not a value of type bigint' in found[2][2]
    # Who reads them again when too many are bad takes nothing away.
    monkeypatch.setattr(ingest, "BAD_BYTES", 2)
    db.sql("CREATE MATERIALIZED VIEW again AS SELECT p, o FROM s")
    kept = rows(db, 'SELECT "offset", raw, reason FROM s_dead_letters')
    assert [row[:2] for row in kept] == [row[:2] for row in found] and "not kept by this read" in kept[2][2]
    db.sql("DELETE FROM s_dead_letters")
    db.sql("DROP SOURCE s CASCADE")


def test_a_deleted_topic_and_one_made_anew_are_noticed(db, broker):
    topic = broker.topic()
    send(broker, topic, range(3))
    db.sql(source(broker, topic))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    broker.delete(topic)
    error = eventually(lambda: db.sql("SHOW SOURCES").rows()[0][5])
    assert "does not exist" in error
    broker.create(topic)
    send(broker, topic, range(9))
    eventually(lambda: "made anew" in (db.sql("SHOW SOURCES").rows()[0][5] or ""))
    assert offsets(db, "m") == [(0, 0), (0, 1), (0, 2)]


def test_the_broker_goes_away_and_comes_back(db, broker):
    topic = broker.topic()
    send(broker, topic, range(3))
    db.sql(source(broker, topic))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    broker.stop()
    try:
        eventually(lambda: db.sql("SHOW SOURCES").rows()[0][2] == "retrying")
        assert offsets(db, "m") == [(0, 0), (0, 1), (0, 2)]
    finally:
        broker.start()
    send(broker, topic, range(3, 6))
    holds(db, "m", [(0, at) for at in range(6)])


def test_the_group_knows_how_far_the_stream_is(db, broker):
    topic = broker.topic()
    db.sql(source(broker, topic, group__id__prefix="watched"))
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    send(broker, topic, range(7))
    group = db.engine.committed.offsets[f"source:{_id(db, 's')}"]["resolved"]["known"]["group"]
    assert group.startswith("watched-")

    def known() -> int:
        asked = broker.kafka.ConsumerGroupTopicPartitions(group, [broker.kafka.TopicPartition(topic, 0)])
        (future,) = broker.admin.list_consumer_group_offsets([asked]).values()
        return future.result().topic_partitions[0].offset

    eventually(lambda: known() == 7)


def test_rescaled_before_during_and_after(db, broker):
    """How many tasks read says nothing about where: positions are those of partitions."""
    topic = broker.topic(partitions=2)
    for partition in (0, 1):
        send(broker, topic, range(400), partition)
    db.sql(source(broker, topic))
    db.sql("SET background_ddl = true; SET backfill_rate_limit = 0; SET streaming_parallelism = 1")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT p, o FROM s")
    (job,) = db.jobs()
    db.sql("ALTER MATERIALIZED VIEW m SET PARALLELISM = 3; ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = 100")
    assert db.engine.jobs.progress(job.id)["parallelism"] == 3
    eventually(lambda: 0 < job.progress().rows_read < 800)
    db.sql("ALTER MATERIALIZED VIEW m SET PARALLELISM = 1")
    send(broker, topic, range(400, 500), 1)
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT m")
    db.sql("ALTER MATERIALIZED VIEW m SET PARALLELISM = 2")
    send(broker, topic, range(500, 510), 1)
    holds(db, "m", [(0, at) for at in range(400)] + [(1, at) for at in range(510)])


PLACES = ["after_ingest:2", "before_stream:2", "before_commit:5", "after_history:1"]
BURST = 15_000


class Producer(threading.Thread):
    """As fast as the broker takes them, so many each time that it is told to, and then a few at a time; to two
    partitions."""

    def __init__(self, broker, topic: str):
        super().__init__(daemon=True)
        self._producer, self._topic = broker.producer(), topic
        self._left, self._ended = 0, threading.Event()
        self.sent = {0: 0, 1: 0}
        self.start()

    def burst(self) -> None:
        self._left = BURST

    def finish(self) -> dict[int, int]:
        self._ended.set()
        self.join()
        return self.sent

    def run(self) -> None:
        while not self._ended.wait(0 if self._left > 0 else 0.05):
            for _ in range(500 if self._left > 0 else 20):
                for partition in self.sent:
                    self._producer.produce(self._topic, event(self.sent[partition]), partition=partition)
                    self.sent[partition] += 1
            self._left -= 500
            assert self._producer.flush(60) == 0


@pytest.mark.slow
def test_killed_at_any_place_while_producers_are_at_full_speed(spark, broker, warehouse):
    """Views are made, dropped and rescaled, some of them with groups, and the engine dies with -9 again and again."""
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    topic = broker.topic(partitions=2)
    create = source(broker, topic).replace("CREATE SOURCE s", "CREATE SOURCE IF NOT EXISTS s")
    groups = "CREATE MATERIALIZED VIEW IF NOT EXISTS groups AS SELECT p, count(*) AS n, max(o) AS o FROM s GROUP BY p"
    producer = Producer(broker, topic)
    for number, place in enumerate(PLACES):
        producer.burst()
        statements = (
            f"{create}; SET background_ddl = true; SET backfill_rate_limit = 20000"
            f"; CREATE MATERIALIZED VIEW IF NOT EXISTS m{number} AS SELECT id, p, o FROM s"
            f"; ALTER MATERIALIZED VIEW m{number} SET PARALLELISM = {1 + number % 3}"
            f"; {groups}; DROP MATERIALIZED VIEW IF EXISTS passing"
            f"; CREATE MATERIALIZED VIEW IF NOT EXISTS passing AS SELECT upper(word) AS w, p, o FROM s"
        )
        process = subprocess.run(
            [sys.executable, "-m", "tests.engine.cdc_child", warehouse, statements], cwd=ROOT, timeout=200,
            text=True, capture_output=True, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": place},
        )  # fmt: skip
        assert process.returncode == -signal.SIGKILL, f"{place} was not reached: {process.stderr[-2000:]}"
    sent = producer.finish()
    with headrace.connect(warehouse, spark=spark) as db:
        db.sql(f"{create}; ALTER SOURCE s SET BACKFILL_RATE_LIMIT = DEFAULT")
        views = ["passing", *(f"m{number}" for number in range(len(PLACES)))]
        for view in views:
            db.sql(f"CREATE MATERIALIZED VIEW IF NOT EXISTS {view} AS SELECT id, p, o FROM s")
        db.sql(
            "CREATE MATERIALIZED VIEW IF NOT EXISTS groups AS SELECT p, count(*) AS n, max(o) AS o FROM s GROUP BY p"
        )
        db.sql("WAIT")
        every_offset_once = [(p, n, n, 0, n - 1) for p, n in sent.items()]
        counted = "SELECT p, count(*), count(DISTINCT o), min(o), max(o) FROM {} GROUP BY p"
        for view in views:
            eventually(lambda view=view: sum(n for _, n, *_ in rows(db, counted.format(view))) >= sum(sent.values()))
            assert rows(db, counted.format(view)) == every_offset_once
        eventually(lambda: rows(db, "SELECT p, n, o FROM groups") == [(p, n, n - 1) for p, n in sent.items()])


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"topic": "no_such_topic"}, SourceRefused),
        ({"properties__bootstrap__server": "127.0.0.1:1"}, SourceUnreachable),
        ({"scan__startup__mode": "sometime"}, InvalidParameterValue),
        ({"scan__startup__mode": "timestamp"}, InvalidParameterValue),
        ({"properties__sasl__password": "plain"}, InvalidParameterValue),
        ({"unknown": "1"}, InvalidParameterValue),
    ],
)
def test_what_is_refused(db, broker, options, error, monkeypatch):
    monkeypatch.setattr(kafka, "ASK_SECONDS", 0.5)
    given = {"topic": "t", "properties__bootstrap__server": broker.servers} | options
    more = ", ".join(f"{key.replace('__', '.')} = '{value}'" for key, value in given.items())
    with pytest.raises(error):
        db.sql(f"CREATE SOURCE s (a INT) WITH (connector = 'kafka', {more}) FORMAT PLAIN ENCODE JSON")
    assert not db.sql("SHOW SOURCES").rows()


def test_a_source_without_columns_or_format_is_refused(db, broker):
    given = f"WITH (connector = 'kafka', topic = 't', properties.bootstrap.server = '{broker.servers}')"
    with pytest.raises(InvalidDefinition):
        db.sql(f"CREATE SOURCE s {given} FORMAT PLAIN ENCODE JSON")
    with pytest.raises(InvalidDefinition):
        db.sql(f"CREATE SOURCE s (a INT) {given}")


def test_text_and_lines(db, broker):
    topic = broker.topic()
    broker.send(topic, [b"1;a", b"2;b"])
    given = f"WITH (connector = 'kafka', topic = '{topic}', properties.bootstrap.server = '{broker.servers}')"
    db.sql(f"CREATE SOURCE c (id INT, w VARCHAR) {given} FORMAT PLAIN ENCODE CSV (delimiter = ';')")
    db.sql(f"CREATE SOURCE b (raw VARCHAR) {given} FORMAT PLAIN ENCODE BYTES")
    assert rows(db, "SELECT * FROM c") == [(1, "a"), (2, "b")]
    assert rows(db, "SELECT * FROM b") == [("1;a",), ("2;b",)]


def test_avro(db, broker):
    schema = {
        "type": "record", "name": "e", "fields": [{"name": "id", "type": "long"}, {"name": "w", "type": "string"}],
    }  # fmt: skip
    topic = broker.topic()

    def written(id: int) -> bytes:
        sink = io.BytesIO()
        fastavro.schemaless_writer(sink, schema, {"id": id, "w": f"w{id}"})
        return sink.getvalue()

    broker.send(topic, [written(1), b"\0\0\0\0\7" + written(2), written(3)])
    given = f"topic = '{topic}', properties.bootstrap.server = '{broker.servers}', bad.records = 'skip'"
    db.sql(
        f"CREATE SOURCE a (w VARCHAR, id BIGINT, absent INT) WITH (connector = 'kafka', {given})"
        f" FORMAT PLAIN ENCODE AVRO (schema = '{json.dumps(schema)}')"
    )
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT * FROM a")
    assert rows(db, "SELECT * FROM m") == [("w1", 1, None), ("w3", 3, None)]
    assert db.engine.sources.status()[0]["skipped"] == 1
