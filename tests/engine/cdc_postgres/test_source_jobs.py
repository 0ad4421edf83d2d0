"""Jobs that read a table of a source: how far they are, and what can be asked of them."""

from __future__ import annotations

import contextlib
import threading

import pytest

import headrace
from headrace.engine import splits
from headrace.engine.coordinator import Mutation
from headrace.errors import DependentObjects, JobCancelled, UndefinedJob
from headrace.serving.session import Session
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, caught_up, follower, rows, theirs
from tests.engine.conftest import eventually

pytestmark = NEEDS_POSTGRES


def jobs(db) -> list[dict]:
    return db.sql("SHOW JOBS").arrow().to_pylist()


@pytest.fixture
def items(db, postgres, source) -> str:
    postgres.run(
        "CREATE TABLE items (id int PRIMARY KEY, v int); INSERT INTO items SELECT g, g FROM generate_series(1, 40) g"
    )
    postgres.run("ANALYZE items")
    return (
        "CREATE TABLE items (*) FROM pg TABLE 'items' WITH (backfill.num_rows_per_split = 5, backfill.parallelism = 2)"
    )


def test_how_far_a_table_is(db, postgres, items, monkeypatch):
    landed = threading.Semaphore(2)
    read = splits.read_chunk

    def one_by_one(*arguments):
        landed.acquire(timeout=60)
        return read(*arguments)

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", one_by_one)
    db.sql(items)
    job = db.job("items")
    eventually(lambda: job.progress().rows_read == 20)
    progress = job.progress()
    assert (progress.splits_done, progress.splits_total, progress.rows_total, progress.fraction) == (4, 8, 40, 0.5)
    assert progress.state == "running" and progress.rows_per_second > 0 and progress.seconds_left > 0
    eventually(lambda: job.progress().lag_seconds == 0.0)
    (shown,) = jobs(db)
    assert (shown["Splits"], shown["Progress"], shown["Rows"], shown["Lag"]) == ("4/8", "50.0%", 20, "0.0 s")
    assert db.sql(f"SHOW JOB {job.id} POSITIONS").rows() == [('"public"."items"', None, "before (21)")]
    progressed = "SELECT split_completed_count, split_total_count FROM rw_catalog.rw_cdc_progress"
    assert db.sql(progressed).rows() == [(4, 8)]
    for _ in range(9):
        landed.release()
    job.wait(60)
    assert jobs(db) == [] and job.progress().fraction == 1.0
    assert rows(db, "SELECT * FROM items") == theirs(postgres, "SELECT * FROM items")


def test_how_far_behind_a_source_is(db, postgres, items):
    db.sql(items)
    db.sql("WAIT items")
    caught_up(db, postgres)

    def shown() -> dict:
        (found,) = db.sql("SHOW SOURCES").arrow().to_pylist()
        return found

    eventually(lambda: shown()["Lag Bytes"] == 0)
    assert (shown()["Name"], shown()["Connector"], shown()["State"]) == ("pg", "postgres-cdc", "running")
    following = follower(db)
    taking, following._take = following._take, lambda: False  # as if an epoch took long
    try:
        postgres.run("UPDATE items SET v = 0")
        eventually(lambda: shown()["Lag Bytes"] > 0)
        eventually(lambda: shown()["Lag"] not in (None, "0.0 s"))
    finally:
        following._take = taking
    eventually(lambda: shown()["Lag Bytes"] == 0 and shown()["Lag"] == "0.0 s")
    postgres.stop(immediate=True)
    eventually(lambda: shown()["State"] == "retrying" and "connect" in shown()["Error"])
    postgres.start()
    eventually(lambda: shown()["State"] == "running" and shown()["Error"] is None)


def test_a_table_is_held_and_goes_on_also_after_a_restart(spark, warehouse, postgres, source, items, db):
    db.sql(items.replace("WITH (", "WITH (snapshot.batch_size = 3, "))
    job = db.job("items")
    eventually(lambda: job.progress().rows_read > 0)
    job.pause()
    before = job.progress().rows_read
    db.sql("ALTER TABLE items SET PARALLELISM = 3")
    assert job.progress().state in ("paused", "done")
    postgres.run("UPDATE items SET v = -1 WHERE id = 1; INSERT INTO items VALUES (41, 41)")
    caught_up(db, postgres)
    db.engine.abandon()
    with headrace.connect(warehouse, spark=spark) as again:
        (found,) = again.jobs()
        assert found.progress().state == "paused" and found.progress().rows_read >= before
        assert again.engine.jobs.progress(found.id)["parallelism"] == 3
        again.sql("ALTER SOURCE pg SET BACKFILL_RATE_LIMIT = 0")
        found.resume()
        assert found.progress().state == "paused"
        again.sql("ALTER TABLE items SET BACKFILL_RATE_LIMIT = 100")
        found.wait(60)
        caught_up(again, postgres)
        assert rows(again, "SELECT * FROM items") == theirs(postgres, "SELECT * FROM items")
        assert "complete" in again.sql("ALTER TABLE items SET BACKFILL_RATE_LIMIT = 1").notice
        with pytest.raises(UndefinedJob):
            again.sql(f"PAUSE JOB {found.id}")


def test_cancelling_drops_the_table_and_takes_it_out_of_the_publication(db, postgres, items):
    db.sql("PAUSE")
    db.sql(items)
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM items")
    job = db.job("items")
    with pytest.raises(DependentObjects):
        job.cancel()
    db.sql("DROP MATERIALIZED VIEW v")
    waiting = db.engine.jobs.finished(job.id)
    assert job.cancel() and job.progress().state == "cancelled"
    with pytest.raises(JobCancelled):
        waiting.result(60)
    assert postgres.run("SELECT * FROM pg_publication_tables") == []
    db.sql("RESUME")
    db.sql(items)
    db.sql("WAIT items")
    assert db.sql("SELECT count(*) FROM items").rows() == [(40,)]
    assert db.job("items").cancel() is False


def test_a_table_is_taken_out_of_the_publication_though_who_drops_it_goes_away(db, postgres, items):
    db.sql(items)
    db.sql("WAIT items")
    go_on = threading.Event()

    def busy(state, epoch):
        go_on.wait(60)
        return state, None

    def gone() -> None:
        raise ConnectionError

    db.engine.coordinator.submit(Mutation(apply=busy, describe="busy"))
    threading.Timer(1, go_on.set).start()
    with contextlib.suppress(ConnectionError):
        Session(db.engine, while_waiting=gone).sql("DROP TABLE items")
    db.sql("FLUSH")
    assert db.sql("SHOW TABLES").rows() == [] == postgres.run("SELECT * FROM pg_publication_tables")


def test_only_what_changes_from_now_on(db, postgres, items):
    db.sql("CREATE TABLE items (*) FROM pg TABLE 'items' WITH (snapshot = 'false')")
    db.sql("CREATE TABLE late (*) FROM pg TABLE 'items' WITH (scan.startup.mode = 'latest')")
    db.sql("WAIT items")
    postgres.run(
        "UPDATE items SET v = 100 WHERE id = 7; DELETE FROM items WHERE id = 8; INSERT INTO items VALUES (50, 1)"
    )
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM items") == rows(db, "SELECT * FROM late") == [(50, 1), (7, 100)]
