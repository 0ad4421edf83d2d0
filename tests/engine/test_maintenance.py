"""Merging runs and removing files, while everything else goes on."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import headrace
from headrace.engine import maintenance
from headrace.errors import EngineClosed, EpochFailed
from tests.engine.conftest import PATIENCE, eventually


def rows(db, query: str) -> list[tuple]:
    return sorted(db.sql(query).rows())


def runs_of(db, name: str) -> tuple:
    manifest = db.engine.committed
    return manifest.runs.get(manifest.catalog.get(name).id, ())


@pytest.fixture
def t(db):
    """Four runs: what is merged has something to merge."""
    db.sql("ALTER SYSTEM SET compaction = false")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v * 2 AS d FROM t WHERE v <> 3")
    db.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    db.sql("INSERT INTO t VALUES (2, 20), (4, 4)")
    db.sql("DELETE FROM t WHERE id = 3")
    db.sql("UPDATE t SET v = 10 WHERE id = 1")


class Merging:
    """A merge that waits, its files written, until it is told to go on."""

    def __init__(self, monkeypatch):
        self._arrived, self._go_on = threading.Event(), threading.Event()
        monkeypatch.setattr(maintenance, "failpoint", self._stop)

    def _stop(self, place: str) -> None:
        if place == "after_merge":
            self._arrived.set()
            assert self._go_on.wait(PATIENCE)

    def wait(self) -> None:
        assert self._arrived.wait(PATIENCE)

    def go_on(self) -> None:
        self._go_on.set()


@pytest.fixture
def merging(monkeypatch):
    held = Merging(monkeypatch)
    yield held
    held.go_on()


def test_runs_are_merged_in_the_background(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT v FROM t")
    for number in range(24):
        db.sql(f"INSERT INTO t VALUES ({number % 5}, {number}), ({100 + number}, 0)")
    eventually(lambda: db.engine.maintenance.compactions >= 2 and len(runs_of(db, "t")) < 16)
    expected = [(number % 5, number) for number in range(19, 24)] + [(100 + number, 0) for number in range(24)]
    assert rows(db, "SELECT * FROM t") == sorted(expected)
    assert rows(db, "SELECT * FROM m") == sorted((v,) for _, v in expected)


def test_no_merging_when_told_so(db, t):
    for number in range(10):
        db.sql(f"INSERT INTO t VALUES (1, {number})")
    assert (len(runs_of(db, "t")), db.engine.maintenance.compactions) == (14, 0)
    db.sql("COMPACT")
    assert [len(runs_of(db, name)) for name in ("t", "m")] == [1, 1]
    assert sum(run.retractions for run in runs_of(db, "t")) == 0
    assert rows(db, "SELECT * FROM t") == [(1, 9), (2, 20), (4, 4)]


def test_compact_of_what_is_empty(db, t):
    db.sql("DELETE FROM t")
    db.sql("COMPACT")
    assert (runs_of(db, "t"), runs_of(db, "m")) == ((), ())
    assert rows(db, "SELECT * FROM t") == []
    db.sql("COMPACT")
    db.sql("INSERT INTO t VALUES (1, 1)")
    assert rows(db, "SELECT * FROM m") == [(1, 2)]


@pytest.mark.parametrize("name", ["t", "m"])
def test_writes_go_on_during_a_merge(db, t, merging, clients, name):
    """They touch rows that are being merged, and nothing of them may be lost."""
    compact = clients.sql(f"COMPACT {name}")
    merging.wait()
    db.sql("UPDATE t SET v = v + 1 WHERE id = 2")
    db.sql("DELETE FROM t WHERE id = 1")
    db.sql("INSERT INTO t VALUES (3, 33), (5, 5)")
    expected = [(2, 21), (3, 33), (4, 4), (5, 5)]
    doubled = [(id, 2 * v) for id, v in expected]
    assert (rows(db, "SELECT * FROM t"), rows(db, "SELECT * FROM m")) == (expected, doubled)
    merging.go_on()
    compact.result(PATIENCE)
    assert [run.level > 0 for run in runs_of(db, name)] == [True, False, False, False]
    assert (rows(db, "SELECT * FROM t"), rows(db, "SELECT * FROM m")) == (expected, doubled)
    db.sql("COMPACT")
    assert (rows(db, "SELECT * FROM t"), rows(db, "SELECT * FROM m")) == (expected, doubled)


def test_a_table_dropped_during_its_merge(db, t, merging, clients, warehouse, monkeypatch):
    compact = clients.sql("COMPACT t")
    merging.wait()
    db.sql("DROP TABLE t CASCADE")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (7)")
    merging.go_on()
    compact.result(PATIENCE)
    assert rows(db, "SELECT * FROM t") == [(7,)]
    monkeypatch.setattr(maintenance, "GRACE_SECONDS", 0)
    db.sql("ALTER SYSTEM SET retention = '0s'")
    db.sql("VACUUM")
    assert len(list(Path(warehouse, "data").rglob("*.parquet"))) == 1
    assert rows(db, "SELECT * FROM t") == [(7,)]


def test_two_merges_of_one_table(db, t, merging, clients):
    both = [clients.sql("COMPACT t"), clients.sql("COMPACT t")]
    merging.wait()
    merging.go_on()
    for each in both:
        each.result(PATIENCE)
    assert len(runs_of(db, "t")) == 1
    assert rows(db, "SELECT * FROM t") == [(1, 10), (2, 20), (4, 4)]


def test_a_merge_that_fails_changes_nothing(db, t, monkeypatch):
    before = runs_of(db, "t")

    def broken(*args, **kwargs):
        raise RuntimeError("an executor was lost")

    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "merge_ranges", broken)
        with pytest.raises(EpochFailed, match='merging runs of "t".*an executor was lost'):
            db.sql("COMPACT t")
    assert runs_of(db, "t") == before
    db.sql("COMPACT t")
    assert rows(db, "SELECT * FROM t") == [(1, 10), (2, 20), (4, 4)]


def test_closing_during_a_merge(db, t, merging, clients, warehouse, spark):
    """The one who asked for the merge hears that it is too late; nothing else does."""
    compact = clients.sql("COMPACT t")
    merging.wait()
    db.close()
    merging.go_on()
    with pytest.raises(EngineClosed):
        compact.result(PATIENCE)
    with headrace.connect(warehouse, spark=spark) as again:
        assert rows(again, "SELECT * FROM t") == [(1, 10), (2, 20), (4, 4)]


def test_a_merge_of_what_is_dropped_is_ended(db, t, clients, monkeypatch):
    """It would go on for as long as it takes, for nobody."""
    started = threading.Event()

    def endless(spark, body, **_):
        def forever(batches):
            while True:
                time.sleep(0.01)
            yield

        started.set()
        return spark.range(1).mapInArrow(forever, "id BIGINT").collect()

    monkeypatch.setattr(maintenance, "merge_ranges", endless)
    compact = clients.sql("COMPACT t")
    assert started.wait(PATIENCE)
    db.sql("DROP TABLE t CASCADE")
    assert compact.result(PATIENCE) == "COMPACT"
    assert db.engine.maintenance.being_merged == frozenset()
    assert db.engine.maintenance.compactions == 0
