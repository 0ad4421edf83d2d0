"""RESNAPSHOT TABLE: all rows are read anew while the table can be read, and its views stay right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest

import headrace
from headrace.engine import splits
from headrace.errors import JobFailed, ObjectNotReady, UndefinedColumn, WrongObjectKind
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, ROOT, caught_up, rows, stopped, theirs
from tests.engine.conftest import eventually

pytestmark = NEEDS_POSTGRES


@pytest.fixture
def wrong(db, postgres, source):
    """A table with rows that its source does not have, and the other way round: what a detached partition leaves."""
    postgres.run(
        """CREATE TABLE t (id int, part text, v text, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
        CREATE TABLE t_a PARTITION OF t FOR VALUES IN ('a'); CREATE TABLE t_b (LIKE t INCLUDING ALL);
        INSERT INTO t SELECT g, 'a', 'v' || g FROM generate_series(1, 30) g;
        INSERT INTO t_b SELECT g, 'b', 'w' || g FROM generate_series(1, 4) g"""
    )
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 4, backfill.parallelism = 2)")
    db.sql("WAIT t")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t WHERE id % 2 = 0")
    db.sql("CREATE INDEX i ON t (v)")
    postgres.run("ALTER TABLE t ATTACH PARTITION t_b FOR VALUES IN ('b')")
    postgres.run("DELETE FROM t WHERE id = 5")
    caught_up(db, postgres)
    assert db.sql("SELECT count(*) FROM t").rows() == [(29,)]


def check(db, postgres) -> None:
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")
    assert rows(db, "SELECT id, v FROM m") == theirs(postgres, "SELECT id, v FROM t WHERE id % 2 = 0")
    assert rows(db, "SELECT id FROM t WHERE v = 'w4'") == theirs(postgres, "SELECT id FROM t WHERE v = 'w4'")


def test_a_table_is_read_anew_in_place(db, postgres, wrong, monkeypatch):
    gate, read = threading.Semaphore(1), splits.read_chunk

    def one_by_one(*arguments):
        assert gate.acquire(timeout=60)
        return read(*arguments)

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", one_by_one)
    assert "job" in db.sql("RESNAPSHOT TABLE t").notice
    job = db.job("t")
    eventually(lambda: job.progress().rows_read == 8)
    (shown,) = db.sql("SHOW JOBS").arrow().to_pylist()
    assert shown["Statement"] == "RESNAPSHOT TABLE t" and shown["State"] == "running"
    postgres.run("UPDATE t SET v = 'new' WHERE id IN (6, 29); DELETE FROM t WHERE id IN (7, 28)")
    postgres.run("INSERT INTO t VALUES (0, 'a', 'x'), (99, 'a', 'y')")
    caught_up(db, postgres)
    # Nothing is missing meanwhile: what the log says reaches the table as ever.
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t WHERE part = 'a'")
    assert [name for (name,) in db.sql("SHOW TABLES").rows()] == ["t"]
    for _ in range(20):
        gate.release()
    job.wait(60)
    check(db, postgres)
    assert db.sql("SHOW JOBS").rows() == []
    postgres.run("UPDATE t SET v = 'w4' WHERE id = 8; ALTER TABLE t DETACH PARTITION t_b")
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    check(db, postgres)
    db.sql("DROP TABLE t CASCADE")
    assert db.engine.committed.runs == {}


def test_giving_it_up_leaves_the_table(db, postgres, wrong):
    db.sql("PAUSE")
    db.sql("RESNAPSHOT TABLE t")
    job = db.job("t")
    assert job.progress().state == "paused"
    assert job.cancel() is True
    assert job.progress().state == "done" and db.sql("SELECT count(*) FROM t").rows() == [(29,)]
    db.sql("RESNAPSHOT TABLE t; RESNAPSHOT TABLE t")
    job.pause()
    db.sql("RESUME")
    assert job.progress().state == "paused"
    db.sql("COMPACT t")
    job.resume()
    job.wait(60)
    check(db, postgres)


def test_a_table_that_has_stopped_is_rescued(db, postgres, source):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, n numeric, d int); INSERT INTO t VALUES (1, 1, 1), (2, 2, 2)")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, n NUMERIC, d INT) FROM pg TABLE 't'; WAIT t")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, n FROM t")
    postgres.run("UPDATE t SET n = 'NaN' WHERE id = 1; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (3, 3, 3)")
    caught_up(db, postgres)
    assert stopped(db)["t"][0] == "failed" and rows(db, "SELECT id FROM t") == [(1,), (2,)]
    db.sql("RESNAPSHOT TABLE t")
    with pytest.raises(JobFailed, match="NaN"):
        db.sql("WAIT t")
    assert rows(db, "SELECT id FROM m") == [(1,), (2,)]
    postgres.run("UPDATE t SET n = 7 WHERE id = 1")
    db.job("t").resume()
    db.sql("WAIT t")
    postgres.run("INSERT INTO t VALUES (4, 4, 4)")
    caught_up(db, postgres)
    for name in ("t", "m"):
        assert rows(db, f"SELECT id, n FROM {name}") == theirs(postgres, "SELECT id, n FROM t")
    postgres.run("ALTER TABLE t DROP d; INSERT INTO t VALUES (5, 5)")
    caught_up(db, postgres)
    with pytest.raises(UndefinedColumn, match='has no column "d" any more'):
        db.sql("RESNAPSHOT TABLE t")
    # Another table of the same name, with more in it, will do.
    postgres.run("DROP TABLE t; CREATE TABLE t (more int, id int PRIMARY KEY, d int, n numeric)")
    postgres.run("INSERT INTO t VALUES (0, 8, 8, 8)")
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    postgres.run("INSERT INTO t VALUES (0, 9, 9, 9)")
    caught_up(db, postgres)
    assert rows(db, "SELECT id, n, d FROM t") == theirs(postgres, "SELECT id, n, d FROM t")
    assert rows(db, "SELECT * FROM m") == theirs(postgres, "SELECT id, n FROM t")


def test_what_cannot_be_read_anew(db, postgres, source):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    db.sql("CREATE TABLE plain (id INT PRIMARY KEY)")
    with pytest.raises(WrongObjectKind, match='"plain" does not follow a source'):
        db.sql("RESNAPSHOT TABLE plain")
    db.sql("PAUSE; CREATE TABLE t (*) FROM pg TABLE 't'")
    with pytest.raises(ObjectNotReady, match='"t" is being filled'):
        db.sql("RESNAPSHOT TABLE t")
    db.sql("RESUME; WAIT t")


def test_a_view_that_cannot_take_the_new_rows_stops_it_and_nothing_else(db, postgres, source):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE TABLE other (id int PRIMARY KEY)")
    db.sql(
        "CREATE TABLE t (*) FROM pg TABLE 't' WITH (snapshot = 'false'); CREATE TABLE other (*) FROM pg TABLE 'other'"
    )
    db.sql("WAIT; CREATE MATERIALIZED VIEW m AS SELECT id, 10 / v AS w FROM t")
    postgres.run("INSERT INTO t VALUES (2, 1)")
    caught_up(db, postgres)
    postgres.run("ALTER PUBLICATION " + postgres.run("SELECT pubname FROM pg_publication")[0][0] + " DROP TABLE t")
    postgres.run("INSERT INTO t VALUES (1, 0)")
    db.sql("RESNAPSHOT TABLE t")
    with pytest.raises(JobFailed, match="division by zero"):
        db.sql("WAIT t")
    assert rows(db, "SELECT * FROM m") == [(2, 10)]
    postgres.run("INSERT INTO other VALUES (5); UPDATE t SET v = 2 WHERE id = 1")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM other") == [(5,)]
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    assert rows(db, "SELECT * FROM m") == [(1, 5), (2, 10)]


@pytest.mark.slow
@pytest.mark.parametrize("place", ["after_split:2", "after_write:2", "before_commit:4"])
def test_it_survives_a_kill(spark, warehouse, postgres, db, wrong, place):
    db.close()
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    process = subprocess.run(
        [sys.executable, "-m", "tests.engine.cdc_child", warehouse, "RESNAPSHOT TABLE t"], cwd=ROOT, timeout=200,
        text=True, capture_output=True, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": place},
    )  # fmt: skip
    assert process.returncode == -signal.SIGKILL, process.stderr[-2000:]
    eventually(lambda: not postgres.run("SELECT 1 FROM pg_replication_slots WHERE active"))
    postgres.run("UPDATE t SET v = 'after' WHERE id IN (1, 30); DELETE FROM t WHERE id = 2")
    with headrace.connect(warehouse, spark=spark) as again:
        assert [job.statement for job in again.jobs()] == ["RESNAPSHOT TABLE t"]
        again.sql("WAIT t")
        check(again, postgres)
