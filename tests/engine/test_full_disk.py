"""A disk without room: the engine says so, loses nothing, takes no room for what has failed, and goes on."""

from __future__ import annotations

import errno
import os
import random
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import headrace
from headrace.engine import maintenance, writes
from headrace.errors import DiskFull
from headrace.state import storage as storage_module
from headrace.state.manifest import referenced_files
from tests.engine.conftest import eventually

FAST = {"barrier_interval": "100ms"}


def hashes(count: int, text: str) -> str:
    """An expression of 32 characters a time that nothing compresses."""
    return " || ".join(f"md5({text} || '{number}')" for number in range(count))


MANY = f"SELECT g, {hashes(4, 'g::varchar')} FROM generate_series(1, 16000) AS x(g)"
"""Two megabytes."""


def rows(db, query: str) -> list[tuple]:
    return sorted(db.sql(query).rows(), key=repr)


def unnamed(db) -> set[str]:
    """Data files that no version names."""
    root = db.engine.storage.root
    found = {str(path.relative_to(root)) for path in Path(root, "data").rglob("*") if path.is_file()}
    return found - referenced_files([db.engine.committed])


@pytest.fixture
def small_disk(tmp_path):
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a file system of its own needs root")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class Ballast:
    """A file that takes the room of a disk."""

    def __init__(self, disk: Path):
        self._path, self._disk = disk / "ballast", disk

    def leave(self, free: int) -> None:
        room = os.statvfs(self._disk)
        self._path.write_bytes(b"x" * (room.f_bavail * room.f_frsize - free))

    def remove(self) -> None:
        self._path.unlink()


@pytest.fixture
def ballast(small_disk) -> Ballast:
    return Ballast(small_disk)


@pytest.fixture
def full(small_disk, spark, monkeypatch):
    """A database in which all but single rows are written by executors."""
    monkeypatch.setattr(writes, "SMALL_ROWS", 1)
    with headrace.connect(small_disk / "w", spark=spark, parameters=FAST) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR)")
        db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v || v AS v FROM t")
        db.sql("INSERT INTO t VALUES (0, 'a')")
        yield db


def test_a_full_disk(full, ballast, small_disk, spark, monkeypatch):
    ballast.leave(200_000)
    noise = [random.Random(id).randbytes(2_000).hex() for id in range(400)]
    big = pa.table({"id": pa.array(range(400), pa.int32()), "v": noise})
    with pytest.raises(DiskFull, match="disk is full") as caught:
        full.insert("t", big)
    assert "free some space" in caught.value.hint and caught.value.sqlstate == "53100"
    with pytest.raises(DiskFull, match="disk is full"):
        full.sql(f"INSERT INTO t {MANY}")
    assert rows(full, "SELECT * FROM t") == [(0, "a")]
    assert rows(full, "SELECT * FROM m") == [(0, "aa")]
    ballast.remove()
    assert full.insert("t", big) == 400
    assert rows(full, "SELECT count(*), count(DISTINCT v) FROM t") == [(400, 400)]
    full.close()
    with headrace.connect(small_disk / "w", spark=spark) as db:
        assert rows(db, "SELECT count(*) FROM m") == [(400,)]


def test_what_a_failed_statement_wrote_takes_no_room(full, small_disk):
    """Its rows fit, those of a view do not."""
    full.sql(f"CREATE MATERIALIZED VIEW large AS SELECT {hashes(16, 'v')} AS h FROM t")
    for _ in range(2):
        with pytest.raises(DiskFull):
            full.sql(f"INSERT INTO t {MANY}")
        full.sql("UPDATE t SET v = v || 'b' WHERE id = 0")
        assert unnamed(full) == set()
    assert rows(full, "SELECT v FROM m") == [("abbabb",)]


def test_what_a_failed_merge_wrote_takes_no_room(full, ballast):
    full.sql("ALTER SYSTEM SET compaction = false")
    for start in (1, 201):
        noise = pa.table({"id": pa.array(range(start, start + 200), pa.int32()), "v": _noise(start)})
        full.insert("t", noise)
    ballast.leave(600_000)
    with pytest.raises(DiskFull):
        full.sql("COMPACT t")
    eventually(lambda: not unnamed(full))
    full.sql("INSERT INTO t VALUES (1000, 'a')")
    ballast.remove()
    full.sql("COMPACT t")
    assert rows(full, "SELECT count(*) FROM t") == [(402,)]


def _noise(seed: int) -> list[str]:
    return [random.Random(seed + id).randbytes(2_000).hex() for id in range(200)]


def test_vacuum_removes_what_nothing_names_though_it_cannot_commit(full, ballast, small_disk, monkeypatch):
    monkeypatch.setattr(maintenance, "GRACE_SECONDS", 0)
    orphan = small_disk / "w" / "data" / "1" / "0.parquet"
    orphan.write_bytes(b"x" * 1_000_000)
    ballast.leave(0)
    with pytest.raises(DiskFull):
        full.sql("VACUUM")
    assert not orphan.exists()
    full.sql("VACUUM")
    assert rows(full, "SELECT * FROM t") == [(0, "a")]


def test_a_disk_that_a_dead_engine_filled_can_be_opened(full, ballast, small_disk, spark):
    full.abandon()
    left = [
        small_disk / "w" / path for path in ("staging/abc/part-0.parquet", "data/1/0.parquet", "replica/1/0.parquet")
    ]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100_000)
    ballast.leave(0)
    with headrace.connect(small_disk / "w", spark=spark, parameters=FAST) as db:
        assert not any(path.exists() for path in left)
        db.sql("INSERT INTO t VALUES (1, 'b')")
        assert rows(db, "SELECT * FROM m") == [(0, "aa"), (1, "bb")]


def test_a_fenced_engine_removes_nothing_of_its_successor(full, small_disk, spark):
    with headrace.connect(small_disk / "w", spark=spark, takeover=True) as other:
        other.sql("INSERT INTO t VALUES (1, 'b')")
        full.engine._make_room()
        assert rows(other, "SELECT * FROM m") == [(0, "aa"), (1, "bb")]


def test_a_disk_too_full_for_the_manifest(db, monkeypatch):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    with monkeypatch.context() as patch:

        def full(*args: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        patch.setattr(storage_module.os, "link", full)
        with pytest.raises(DiskFull, match="the disk is full"):
            db.sql("INSERT INTO t VALUES (3, 3)")
        assert rows(db, "SELECT * FROM t") == []
    db.sql("INSERT INTO t VALUES (4, 4)")
    assert rows(db, "SELECT id FROM t") == [(4,)]
    assert unnamed(db) == set()
