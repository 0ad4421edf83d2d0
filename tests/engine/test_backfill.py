"""Views filled on live tables: the invariant at every barrier, on Spark."""

from __future__ import annotations

import itertools
import random
import threading
import time
from concurrent.futures import Future

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.backfill.filters import PositionColumns, bounds_of, covered
from headrace.backfill.positions import DONE, Chunk, Positions
from headrace.engine import backfill, changes, chunks, writes
from headrace.engine.check import check
from headrace.engine.chunks import ChunkReader
from headrace.engine.filling import jobs_of
from headrace.engine.flights import Flight
from headrace.engine.pieces import rows_of_chunk
from headrace.errors import (
    CorruptWarehouse,
    DataError,
    HeadraceError,
    JobCancelled,
    ObjectNotReady,
    SparkJobCancelled,
    Unsupported,
)
from headrace.state.layout import Layout
from headrace.state.runs import EPOCH, VNODE, WEIGHT
from headrace.state.scan import scan, sorted_scan


@pytest.fixture
def open_database(spark, tmp_path):
    opened = []

    def connect(**options):
        opened.append(headrace.connect(tmp_path / "warehouse", spark=spark, **options))
        return opened[-1]

    yield connect
    for db in opened:
        db.close()


@pytest.fixture
def db(open_database):
    return open_database()


def rows(db, query: str) -> list[tuple]:
    table = db.sql(query).arrow()
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True), key=repr)


def wait_until(condition, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


def equal(db, name: str) -> str:
    (line,) = db.sql(f"CHECK MATERIALIZED VIEW {name}").arrow().to_pylist()
    assert line.get("Check", "").startswith("equal"), line
    return line["Check"]


def background(db, **variables):
    session = db.session()
    session.sql("SET background_ddl = true")
    for name, value in variables.items():
        session.sql(f"SET {name} = '{value}'")
    return session


def test_a_view_on_history_is_complete_when_create_returns(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT g, g % 10 FROM generate_series(1, 5000) AS s(g)")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v + 1 AS w FROM t WHERE v < 5")
    assert rows(db, "SELECT count(*), sum(w) FROM m") == [(2500, 7500)]
    assert equal(db, "m").startswith("equal, 2500 rows at epoch ")
    assert db.sql("SHOW JOBS").arrow().num_rows == 0


@pytest.mark.parametrize("arrangement", ["true", "false"])
@pytest.mark.parametrize("frequency", [1, 4])
def test_every_barrier_shows_exactly_the_covered_part(open_database, arrangement, frequency):
    """Hot keys around the position, deletes of read and unread rows, new rows: checked at each committed epoch."""
    db = open_database(parameters={"checkpoint_frequency": str(frequency), "barrier_interval": "100ms"})
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT g, 0 FROM generate_series(1, 600) AS s(g)")
    session = (
        background(
            db,
            backfill_pacing=6,
            backfill_rate_limit=4,
            streaming_parallelism=3,
            streaming_use_arrangement_backfill=arrangement,
        )
        if arrangement == "true"
        else background(db, backfill_pacing=6, backfill_rate_limit=4, streaming_use_arrangement_backfill=arrangement)
    )
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t WHERE v % 7 <> 3")
    rng = random.Random(7)
    seen = set()
    view = db.engine.committed.catalog.get("m")
    for step in itertools.count():
        ids = ", ".join(f"({rng.randrange(1, 700)}, {step * 10 + rng.randrange(10)})" for _ in range(20))
        keys = list(dict.fromkeys(part for part in ids.split("), ")))
        db.sql(f"INSERT INTO t VALUES {ids}") if len(keys) else None
        db.sql(f"DELETE FROM t WHERE id % 37 = {rng.randrange(37)}")
        columns, lines = check(db.engine, view)
        assert lines[0][0].startswith("equal"), (step, lines)
        seen.add(lines[0][0].partition("over the")[2])
        if len(seen) > 3 and step > 4:
            break
        assert jobs_of(db.engine.committed), f"the view was not seen while it was being filled: {seen}"
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT m")
    equal(db, "m")
    db.sql("INSERT INTO t VALUES (10001, 1), (1, 1)")
    equal(db, "m")


def test_a_view_that_is_being_created_cannot_be_read(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1), (2)")
    background(db, backfill_rate_limit=0).sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    for statement in (
        "SELECT * FROM m",
        "CREATE MATERIALIZED VIEW n AS SELECT * FROM m",
        "INSERT INTO t SELECT * FROM m",
    ):
        with pytest.raises(ObjectNotReady, match='"m" is still being created'):
            db.sql(statement)
    with pytest.raises(ObjectNotReady, match='"m" is still being created'):
        headrace.read(db.engine.storage.root, "m", spark=db.engine.spark)
    (job,) = db.sql("SHOW JOBS").arrow().to_pylist()
    assert (job["State"], job["Progress"]) == ("paused", "0.0%")
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT")
    db.sql("WAIT m")
    assert rows(db, "SELECT * FROM m") == [(1,), (2,)]


def test_pause_resume_cancel_and_the_same_name_again(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1), (2), (3)")
    db.sql("PAUSE")
    session = background(db)
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    (job,) = db.engine.jobs.list()
    assert job["state"] == "paused"
    db.sql(f"CANCEL JOBS {job['id']}")
    assert db.engine.jobs.list() == []
    with pytest.raises(HeadraceError, match="does not exist"):
        db.sql("SELECT * FROM m")
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    (job,) = db.engine.jobs.list()
    db.sql(f"PAUSE JOB {job['id']}")
    db.sql("RESUME")
    assert db.engine.jobs.list()[0]["state"] == "paused"
    db.sql(f"RESUME JOB {job['id']}")
    db.sql("WAIT")
    assert rows(db, "SELECT * FROM m") == [(1,), (2,), (3,)]


def test_jobs_and_their_settings_survive_a_crash(open_database):
    db = open_database()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT g FROM generate_series(1, 500) AS s(g)")
    background(db, backfill_pacing=50).sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    wait_until(lambda: not db.engine.jobs.list() or db.engine.jobs.list()[0]["rows_read"] > 0)
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = 0")
    before = db.engine.jobs.list()
    db.abandon()
    again = open_database()
    if before:
        (job,) = again.engine.jobs.list()
        assert job["rate_limit"] == 0
        assert job["rows_read"] >= before[0]["rows_read"] > 0
        columns, lines = check(again.engine, again.engine.committed.catalog.get("m"))
        assert lines[0][0].startswith("equal")
        again.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT")
    again.sql("WAIT m")
    assert rows(again, "SELECT count(*) FROM m") == [(500,)]


def test_parallelism_changes_in_the_middle(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT g, g FROM generate_series(1, 800) AS s(g)")
    background(db, backfill_pacing=60, streaming_parallelism=2).sql("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t")
    for number, parallelism in enumerate((4, 1, 7, 3)):
        db.sql(f"ALTER MATERIALIZED VIEW m SET PARALLELISM = {parallelism}")
        db.sql(f"UPDATE t SET v = v + 1000 WHERE id % 5 = {number}")
        equal(db, "m")
    db.sql("WAIT m")
    assert equal(db, "m").startswith("equal, 800 rows")
    db.sql("ALTER MATERIALIZED VIEW m SET PARALLELISM = 2")


def test_without_shuffle_the_parallelism_is_the_upstreams(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1), (2)")
    session = background(db, streaming_use_arrangement_backfill="false", backfill_rate_limit=0)
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    with pytest.raises(Unsupported, match='without shuffle: its parallelism is that of "t"'):
        db.sql("ALTER MATERIALIZED VIEW m SET PARALLELISM = 5")
    db.sql("ALTER TABLE t SET PARALLELISM = 5")
    assert db.engine.jobs.list()[0]["parallelism"] == 5


def test_a_row_that_the_view_cannot_take_fails_the_creation_and_not_the_write(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t VALUES (1, 0), (2, 5)")
    with pytest.raises(HeadraceError, match='"m" was not created: division by zero'):
        db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, 10 / v AS w FROM t")
    assert db.sql("SHOW JOBS").arrow().num_rows == 0
    db.sql("DELETE FROM t WHERE v = 0")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, 10 / v AS w FROM t")
    with pytest.raises(DataError, match='division by zero, in materialized view "m"'):
        db.sql("INSERT INTO t VALUES (3, 0)")


def test_a_failed_background_job_says_why_and_can_be_resumed(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t VALUES (1, 0), (2, 5)")
    background(db).sql("CREATE MATERIALIZED VIEW m AS SELECT id, 10 / v AS w FROM t")
    wait_until(lambda: db.engine.jobs.list()[0]["state"] == "failed")
    (job,) = db.engine.jobs.list()
    assert "division by zero" in job["error"]
    db.sql("INSERT INTO t VALUES (3, 0)")  # whoever writes is not held up by it
    db.sql("DELETE FROM t WHERE v = 0")
    db.sql(f"RESUME JOB {job['id']}")
    db.sql("WAIT m")
    assert rows(db, "SELECT * FROM m") == [(2, 2)]


def test_a_statement_that_fails_does_not_fail_what_is_being_filled(db):
    """Though they share an epoch: a chunk that is ready lands with the next one."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT g, g FROM generate_series(1, 300) AS s(g)")
    background(db, backfill_pacing=2, backfill_rate_limit=5).sql("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t")
    failed = 0
    while failed < 8 and jobs_of(db.engine.committed):
        with pytest.raises(DataError, match="division by zero"):
            db.sql("UPDATE t SET v = 1 / (v - v)")
        failed += 1
    assert failed > 2
    assert all(job.error is None for job in jobs_of(db.engine.committed).values())
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT m")
    equal(db, "m")


def test_who_does_not_know_where_its_chunk_ends_joins_no_other(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t VALUES (1, 1)")
    background(db, backfill_rate_limit=0).sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    (job,) = jobs_of(db.engine.committed).values()
    (upstream_id,) = job.inputs
    backfills = db.engine.backfills
    for limit, free in ((None, True), (5, False)):
        chunk = Chunk(first_vnode=0, after=None, last_vnode=9, upto=None, rows=10, limit=limit)
        flight = Flight(
            job_id=job.id, upstream_id=upstream_id, strategy=job.strategy, chunk=chunk, snapshot=1, runs=(),
            future=Future(),
        )  # fmt: skip
        backfills._flights = [flight]
        try:
            assert backfills._free(job, upstream_id) is free
        finally:
            backfills._flights = []


def test_nobody_waits_for_chunks_that_cannot_be_shared(db, monkeypatch):
    """Rows so wide that few of them are a chunk: where it ends is known when it is read, and nobody can take part."""
    monkeypatch.setattr(backfill, "SPLIT_BYTES", 1 << 8)
    monkeypatch.setattr(chunks, "SMALL_CHUNK", 10)
    read, order = ChunkReader.read_together, []

    def noted(self, catalog, views, *args, **kwargs):
        order.append([view.name for view in views])
        return read(self, catalog, views, *args, **kwargs)

    monkeypatch.setattr(ChunkReader, "read_together", noted)
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR)")
    db.sql("INSERT INTO t SELECT g, repeat('wide ' || g, 20) FROM generate_series(1, 300) AS s(g)")
    db.sql("PAUSE")
    session = background(db)
    for name in ("first", "second"):
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT id, v FROM t")
    db.sql("RESUME")
    db.sql("WAIT")
    assert order.index(["second"]) < 2
    for name in ("first", "second"):
        assert equal(db, name).startswith("equal, 300 rows")


def test_several_views_at_once_and_views_on_views(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT g, g % 100 FROM generate_series(1, 3000) AS s(g)")
    session = background(db, backfill_pacing=500)
    for number in range(3):
        session.sql(f"CREATE MATERIALIZED VIEW m{number} AS SELECT id, v FROM t WHERE v % 3 = {number}")
    db.sql("UPDATE t SET v = v + 1 WHERE id < 1000")
    db.sql("WAIT")
    db.sql("CREATE MATERIALIZED VIEW joined AS SELECT id, v FROM m0 UNION ALL SELECT id, v FROM m1")
    db.sql("CREATE MATERIALIZED VIEW top AS SELECT v * 2 AS w FROM joined WHERE v > 50")
    db.sql("UPDATE t SET v = v + 1 WHERE id % 2 = 0")
    for name in ("m0", "m1", "m2", "joined", "top"):
        equal(db, name)


def test_large_chunks_under_writes(db):
    """Through Spark's own writer, with overlapping changes and deletions in the snapshot."""
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT, s VARCHAR)")
    db.sql("INSERT INTO t SELECT g, (g % 1000)::int, 'x' || g FROM generate_series(1, 150000) AS s(g)")
    db.sql("DELETE FROM t WHERE id % 11 = 0")
    db.sql("UPDATE t SET v = -v WHERE id % 13 = 0")
    background(db, backfill_pacing=55000).sql("CREATE MATERIALIZED VIEW m AS SELECT s, v FROM t WHERE v > -900")
    stop = threading.Event()

    def write() -> None:
        rng = random.Random(1)
        while not stop.is_set():
            ids = sorted({rng.randrange(1, 155000) for _ in range(300)})
            values = pa.array([rng.randrange(-1000, 1000) for _ in ids], pa.int32())
            db.insert("t", pa.table({"id": pa.array(ids, pa.int64()), "v": values, "s": pa.array(["w"] * len(ids))}))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        view = db.engine.committed.catalog.get("m")
        while jobs_of(db.engine.committed):
            _, lines = check(db.engine, view)
            assert lines[0][0].startswith("equal"), lines
    finally:
        stop.set()
        writer.join()
    equal(db, "m")


def test_files_of_large_chunks_leave_out_what_is_the_same_in_all_rows(db, spark, tmp_path):
    """And everybody who reads them knows: scans, small chunks, lookups, merges, other applications."""
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, v INT, s VARCHAR)")
    db.sql("INSERT INTO t SELECT g, (g % 1000)::int, 'x' || g FROM generate_series(1, 120000) AS s(g)")
    db.sql(
        "CREATE MATERIALIZED VIEW m AS SELECT id, v, s FROM t WHERE v > 10; CREATE INDEX i ON t (v DESC) INCLUDE (s)"
    )
    for name in ("m", "i"):
        runs = db.engine.committed.runs[db.engine.committed.catalog.get(name).id]
        for run in runs:
            for file in run.files:
                columns = pq.read_schema(f"{tmp_path}/warehouse/{file.path}").names
                assert VNODE in columns and EPOCH not in columns and WEIGHT not in columns
            # An index has an order of its own, in which each of the two chunks is cut in two.
            assert run.depth == (1 if name == "m" else 2)
    db.sql("UPDATE t SET v = v + 1 WHERE id <= 300; DELETE FROM t WHERE id % 1000 = 7")
    db.sql("CREATE MATERIALIZED VIEW large AS SELECT id, v FROM m WHERE v % 2 = 0")
    background(db, backfill_pacing=2000).sql("CREATE MATERIALIZED VIEW small AS SELECT id, s FROM m WHERE v > 990")
    db.sql("WAIT")
    db.sql("UPDATE t SET s = 'found by its index' WHERE v = 500")
    expected = rows(db, "SELECT id, v, s FROM t WHERE v > 10")
    for _ in range(2):
        for name in ("m", "large", "small"):
            equal(db, name)
        (line,) = db.sql("CHECK INDEX i").rows()
        assert line[0].startswith("equal")
        assert rows(db, "SELECT id, v, s FROM m") == expected
        other = headrace.read(tmp_path / "warehouse", "m", spark=spark).toArrow()
        assert sorted(zip(*(other[name].to_pylist() for name in ("id", "v", "s")), strict=True), key=repr) == expected
        assert rows(db, "SELECT s FROM t WHERE v = 999 AND id < 3000") == [("x1999",), ("x2999",), ("x999",)]
        db.sql("COMPACT")


def test_a_chunk_that_missed_too_much_is_read_again_in_smaller_pieces(db, monkeypatch):
    """Bulk writes go on while chunks are read, each larger than what a chunk may take along: the job gets there."""
    monkeypatch.setattr(backfill, "LATE_ROWS", 3_000)
    monkeypatch.setattr(changes, "SMALL_ROWS", 1_000)
    monkeypatch.setattr(writes, "SMALL_ROWS", 1_000)
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT g, 0 FROM generate_series(1, 60000) AS s(g)")
    read, caps = db.engine.backfills._reader.read, []

    def and_meanwhile(*arguments, **options):
        found = read(*arguments, **options)
        caps.append(found.chunk.rows)
        if len(caps) < 8:
            db.sql(f"UPDATE t SET v = v + {len(caps)} WHERE id % 3 = 0")  # 20,000 rows, whatever the chunk
        return found

    monkeypatch.setattr(db.engine.backfills._reader, "read", and_meanwhile)
    background(db, backfill_pacing=30000).sql("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t")
    db.sql("WAIT m")
    assert min(caps) < max(caps) / 2, f"no chunk was made smaller: {caps}"
    assert equal(db, "m").startswith("equal, 60000 rows")


def test_a_job_whose_chunks_cannot_be_started_fails_with_the_reason(db, monkeypatch):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT g FROM generate_series(1, 100) AS s(g)")
    broken = CorruptWarehouse("the index of a file is gone")
    monkeypatch.setattr(db.engine.backfills, "_groups", lambda *_: (_ for _ in ()).throw(broken))
    with pytest.raises(HeadraceError, match="the index of a file is gone"):
        db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    background(db).sql("CREATE MATERIALIZED VIEW n AS SELECT id FROM t")
    wait_until(lambda: [job["state"] for job in db.engine.jobs.list()] == ["failed"])
    db.sql("INSERT INTO t VALUES (101)")  # and nobody else is held up
    monkeypatch.undo()
    (job,) = db.engine.jobs.list()
    db.sql(f"RESUME JOB {job['id']}")
    db.sql("WAIT n")
    assert equal(db, "n").startswith("equal, 101 rows")


def test_spark_jobs_that_somebody_cancels_are_no_fault_of_a_job(db, monkeypatch):
    """As Ctrl-C does in a program, with Spark's own handler."""
    read, cancelled = ChunkReader.read_together, []

    def interrupted(self, *args, **kwargs):
        if len(cancelled) >= 2 * backfill.ATTEMPTS:
            return read(self, *args, **kwargs)
        over = threading.Event()

        def cancel() -> None:
            while not over.wait(0.001):
                db.engine.spark.sparkContext.cancelAllJobs()

        thread = threading.Thread(target=cancel, daemon=True)
        thread.start()
        try:
            (found,) = read(self, *args, **kwargs)
        finally:
            over.set()
            thread.join()
        cancelled.append(type(found))
        return [found]

    monkeypatch.setattr(ChunkReader, "read_together", interrupted)
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT g FROM generate_series(1, 100) AS s(g)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT md5(id::varchar) AS hash FROM t")  # which is Spark's to evaluate
    assert set(cancelled) == {SparkJobCancelled}
    assert equal(db, "v").startswith("equal, 100 rows")


def test_progress_counts_every_row_once(db):
    """Also where many small chunks share a row group."""
    seen, told = [], db.engine.coordinator._on_commit

    def note(manifest) -> None:
        seen.extend(job.rows_read for job in jobs_of(manifest).values())
        told(manifest)

    db.engine.coordinator._on_commit = note
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT g FROM generate_series(1, 1000) AS s(g)")
    background(db, backfill_pacing=90).sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    db.sql("WAIT v")
    assert 0 < max(seen) < 1000


def test_a_rate_limit_is_no_reason_for_many_small_chunks(db, monkeypatch):
    read, count = ChunkReader.read_together, itertools.count(1)

    def counted(self, *args, **kwargs):
        next(count)
        return read(self, *args, **kwargs)

    monkeypatch.setattr(ChunkReader, "read_together", counted)
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t SELECT g FROM generate_series(1, 3000) AS s(g)")
    db.sql("CREATE MATERIALIZED VIEW v WITH (rate_limit = 2000, parallelism = 2) AS SELECT id FROM t")
    assert next(count) == 3  # one chunk for each half of the vnodes, and a second between them
    assert equal(db, "v").startswith("equal, 3000 rows")


def test_dropping_what_is_being_created(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (1)")
    session = background(db, backfill_rate_limit=0)
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    waiting = db.engine.jobs.finished(db.engine.jobs.list()[0]["id"])
    db.sql("DROP MATERIALIZED VIEW m")
    with pytest.raises(JobCancelled):
        waiting.result(timeout=10)
    session.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
    db.sql("DROP TABLE t CASCADE")
    assert db.engine.jobs.list() == []


def test_backfill_order(db):
    db.sql("CREATE TABLE a (id INT PRIMARY KEY)")
    db.sql("CREATE TABLE b (id INT PRIMARY KEY)")
    db.sql("INSERT INTO a SELECT g FROM generate_series(1, 300) AS s(g)")
    db.sql("INSERT INTO b SELECT g FROM generate_series(1, 300) AS s(g)")
    query = "SELECT id FROM a UNION ALL SELECT id FROM b"
    with pytest.raises(HeadraceError, match="circle"):
        db.sql(f"CREATE MATERIALIZED VIEW m WITH (backfill_order = FIXED(a -> b, b -> a)) AS {query}")
    with pytest.raises(HeadraceError, match='"c"'):
        db.sql(f"CREATE MATERIALIZED VIEW m WITH (backfill_order = FIXED(a -> c)) AS {query}")
    background(db, backfill_pacing=50).sql(
        f"CREATE MATERIALIZED VIEW m WITH (backfill_order = FIXED(b -> a)) AS {query}"
    )
    a, b = (db.engine.committed.catalog.get(name).id for name in "ab")
    while jobs := jobs_of(db.engine.committed):
        (job,) = jobs.values()
        assert job.inputs[b].done or job.inputs[a].rows_read == 0
    equal(db, "m")


def test_the_filter_in_sql_is_the_filter_of_positions(db):
    """Every type and direction of key that an index can have, at every position."""
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR, c NUMERIC(8,2), d DOUBLE PRECISION, e BYTEA, f DATE)")
    db.sql(
        "INSERT INTO t SELECT g, NULLIF(g % 5, 0), CASE WHEN g % 4 > 0 THEN 'k''\\' || g % 7 END,"
        " (g % 3)::numeric(8,2) / 2, CASE WHEN g % 6 = 0 THEN 'NaN'::double precision ELSE g % 4 END,"
        " NULL, DATE '2024-01-01' + g % 5"
        " FROM generate_series(1, 60) AS s(g)"
    )
    for number, keys in enumerate(
        ("a", "a DESC, b", "b DESC NULLS LAST, a NULLS FIRST", "d, c DESC", "f DESC, d DESC")
    ):
        db.sql(f"CREATE INDEX i{number} ON t ({keys})")
        relation = db.engine.committed.catalog.get(f"i{number}")
        layout = Layout.of(relation)
        frame = scan(
            db.engine.spark, db.engine.storage.uri(""), layout, db.engine.committed.runs[relation.id], internal=True
        )
        table = frame.toArrow().cast(layout.stored_schema)
        keyed = list(
            zip(table["_hr_vnode"].to_pylist(), layout.codec.encode_table(table, layout.key_names), strict=True)
        )
        root, runs = db.engine.storage.uri(""), db.engine.committed.runs[relation.id]
        for vnode, key in keyed[::17]:
            states = [DONE if other < vnode else None for other in range(256)]
            states[vnode] = key
            positions = Positions(tuple(states))
            expected = sum(positions.covers(*each) for each in keyed)
            assert frame.where(covered(layout, positions)).count() == expected, (keys, vnode, key)
            columns = PositionColumns(name="p", layout=layout, positions=positions)
            by_row = db.engine.spark.createDataFrame(
                columns.added_to(table), schema=f"{layout.spark_schema}, {columns.ddl}"
            ).selectExpr("*", f"struct({', '.join(layout.key_names)}) AS r")
            assert by_row.where(columns.covered("r")).count() == expected, (keys, vnode, key)
            # A chunk that ends here, and the one that goes on from here: the range as data, and in tasks.
            for chunk in (
                Chunk(first_vnode=0, after=None, last_vnode=vnode, upto=key, rows=60),
                Chunk(first_vnode=vnode, after=key, last_vnode=255, upto=None, rows=60),
            ):
                inside = sum(chunk.holds(*each) for each in keyed)
                found = sorted_scan(db.engine.spark, root, layout, runs, bounds_of(layout, chunk), rows=60)
                assert found.count() == inside, (keys, chunk)
                assert rows_of_chunk(layout, table, chunk).num_rows == inside, (keys, chunk)
