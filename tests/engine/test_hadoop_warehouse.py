"""A warehouse that is not on a local path: every file, also those of tasks, goes through Hadoop's FileSystem."""

from __future__ import annotations

import itertools
import threading

import pytest

import headrace
from headrace.engine import writes
from headrace.errors import CorruptWarehouse, EnvironmentProblem, Fenced

MOUNT = "fs.viewfs.mounttable.headrace.link./warehouses"


@pytest.fixture
def warehouse(spark, tmp_path):
    """Hadoop's viewfs, which only Hadoop understands, mounted on a folder."""
    (tmp_path / "mounted").mkdir()
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set(MOUNT, f"file://{tmp_path}/mounted")
    conf.setBoolean("fs.viewfs.impl.disable.cache", True)
    yield "viewfs://headrace/warehouses/w"
    conf.unset(MOUNT)


def test_everything_works_and_survives_a_crash(open_database, tmp_path, monkeypatch):
    monkeypatch.setattr(writes, "SMALL_ROWS", 50_000)
    db = open_database()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("CREATE MATERIALIZED VIEW even AS SELECT id, v FROM t WHERE v % 2 = 0")
    db.sql("INSERT INTO t SELECT g, g FROM generate_series(1, 60000) AS s(g)")  # staged and merged on executors
    db.sql("INSERT INTO t VALUES (1, 2), (60001, 4)")  # looks up an old row
    db.sql("UPDATE t SET v = v + 1 WHERE id = 2")
    db.sql("DELETE FROM t WHERE id BETWEEN 1000 AND 5999")
    expected = [(55001, 27501)]
    assert db.sql("SELECT count(*), (SELECT count(*) FROM even) AS even FROM t").rows() == expected
    db.engine.maintenance.compact(db.engine.committed.catalog.get("t").id)
    db.abandon()
    again = open_database()
    assert again.sql("SELECT count(*), (SELECT count(*) FROM even) AS even FROM t").rows() == expected
    assert list((tmp_path / "mounted" / "w" / "data").rglob("*.parquet")), "the data is not where the mount points"
    assert headrace.read("viewfs://headrace/warehouses/w", "even", spark=again.engine.spark).count() == 27501


def test_a_large_result_waits_in_files(open_database):
    db = open_database()
    db.engine.streams.cut_bytes = 100_000
    result = db.sql("SELECT g, repeat('x', 50) AS x FROM generate_series(1, 100000) AS s(g) ORDER BY g")
    batches = result.batches()
    first = next(batches)
    assert db.engine.storage.list("results"), "nothing waits"
    numbers = [first, *batches]
    assert [n for batch in numbers for n in batch.column(0).to_pylist()] == list(range(1, 100_001))
    assert not db.engine.storage.list("results")


def test_whoever_opens_last_fences_the_one_before(open_database):
    first = open_database()
    first.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    second = open_database()
    second.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(Fenced, match="taken over"):
        first.sql("INSERT INTO t VALUES (2)")
    assert second.sql("SELECT id FROM t").rows() == [(1,)]


def test_a_missing_data_file_is_named(open_database, tmp_path):
    db = open_database()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t VALUES (1, 1)")
    (data,) = (tmp_path / "mounted" / "w").rglob("*.parquet")
    data.unlink()
    with pytest.raises(CorruptWarehouse, match=data.name):
        db.sql("INSERT INTO t VALUES (1, 2)")


def test_without_the_bridge_opening_says_what_to_install(open_database, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "jpype", None)
    with pytest.raises(EnvironmentProblem, match="jpype1") as caught:
        open_database()
    assert "headrace[hadoop]" in caught.value.hint


def test_settings_reach_tasks_but_not_what_is_printed(open_database, spark):
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    conf.set("fs.headrace.test.secret.key", "hunter2")
    try:
        files = open_database().engine.storage.files
    finally:
        conf.unset("fs.headrace.test.secret.key")
    assert ("fs.headrace.test.secret.key", "hunter2") in files.settings
    assert "hunter2" not in repr(files)
    assert len(files.settings) < 100, "Hadoop's own defaults need not travel"


def test_folders_that_are_deleted_while_they_are_listed(open_database):
    """VACUUM looks everywhere while bulk writes stage and remove their folders."""
    storage, stop = open_database().engine.storage, threading.Event()
    storage.write("data/kept/kept.parquet", b"rows")
    kept = [entry.name for entry in storage.walk("data")]

    def come_and_go() -> None:
        for number in itertools.count():
            if stop.is_set():
                return
            storage.write(f"data/{number}/x/part.parquet", b"rows")
            storage.delete([f"data/{number}"])

    thread = threading.Thread(target=come_and_go)
    thread.start()
    try:
        for _ in range(30):
            assert set(kept) <= {entry.name for entry in storage.walk("data")}
    finally:
        stop.set()
        thread.join()


def test_an_empty_data_file_is_not_a_table_without_rows(open_database, tmp_path):
    db = open_database()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t VALUES (1, 1)")
    (data,) = (tmp_path / "mounted" / "w").rglob("[!.]*.parquet")
    data.write_bytes(b"")
    with pytest.raises(CorruptWarehouse, match=data.name):
        db.sql("SELECT * FROM t").rows()
