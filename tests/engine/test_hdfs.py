"""A warehouse on a real HDFS: the commit rests on what its rename refuses, which no local file system shows."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.engine import writes
from headrace.errors import Fenced
from headrace.state.hadoop import HadoopStorage
from tests.support.hdfs import Hdfs
from tests.support.waiting import eventually

pytestmark = pytest.mark.xdist_group("hdfs")


@pytest.fixture(scope="module")
def hdfs(spark) -> Iterator[Hdfs]:
    cluster = Hdfs()
    yield cluster
    cluster.remove()


@pytest.fixture
def warehouse(hdfs, request) -> str:
    return f"{hdfs.url}/warehouses/{request.node.name}"


def test_of_many_rivals_one_wins(spark, warehouse, monkeypatch):
    context = spark.sparkContext
    storage = HadoopStorage(warehouse, context._jvm, context._jsc.hadoopConfiguration())
    # The look before the rename would hide that the rename has to refuse.
    monkeypatch.setattr(storage, "_exists", lambda path: False)
    rivals = 6
    together = threading.Barrier(rivals)

    def attempt(number: int) -> list[bool]:
        won = []
        for version in range(10):
            together.wait(60)
            won.append(storage.write_new(f"m/{version}", b"%d" % number * 1000))
        return won

    with ThreadPoolExecutor(rivals) as pool:
        outcomes = list(pool.map(attempt, range(rivals)))
    for version in range(10):
        (winner,) = (number for number, won in enumerate(outcomes) if won[version])
        assert storage.read(f"m/{version}") == b"%d" % winner * 1000
    assert [entry.name for entry in storage.list("m")] == [str(version) for version in range(10)]


def test_everything_works_and_survives_a_crash(spark, open_database, warehouse, monkeypatch):
    monkeypatch.setattr(writes, "SMALL_ROWS", 50_000)  # so that executors stage and merge
    db = open_database()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT, note VARCHAR)")
    db.sql("CREATE MATERIALIZED VIEW even AS SELECT id, v FROM t WHERE v % 2 = 0")
    db.sql("INSERT INTO t SELECT g, g, 'note ' || g FROM generate_series(1, 60000) AS s(g)")
    db.sql("FLUSH")
    epoch = db.engine.committed.epoch
    db.sql("INSERT INTO t VALUES (1, 2, 'b'), (60001, 4, 'c')")
    db.sql("UPDATE t SET v = v + 1 WHERE id = 2")
    db.sql("DELETE FROM t WHERE id BETWEEN 1000 AND 5999")
    db.sql("CREATE MATERIALIZED VIEW upper_notes AS SELECT id, upper(note) AS note FROM t")  # filled from history
    db.sql("CREATE INDEX by_v ON t (v) INCLUDE (note)")
    expected = [(55001, 27501, 55001)]
    query = "SELECT count(*), (SELECT count(*) FROM even) AS e, (SELECT count(*) FROM upper_notes) AS u FROM t"
    assert db.sql(query).rows() == expected
    db.engine.maintenance.compact(db.engine.committed.catalog.get("t").id)
    db.sql("INSERT INTO t VALUES (60002, 6, 'acknowledged')")
    db.abandon()
    again = open_database()
    assert again.sql(query).rows() == [(55002, 27502, 55002)]
    for kind, name in (("MATERIALIZED VIEW", "even"), ("MATERIALIZED VIEW", "upper_notes"), ("INDEX", "by_v")):
        assert "equal" in str(again.sql(f"CHECK {kind} {name}").rows())
    assert headrace.read(warehouse, "even", spark=spark).count() == 27502
    assert headrace.read(warehouse, "even", spark=spark, epoch=epoch).count() == 30000
    again.sql("VACUUM")
    assert again.sql(query).rows() == [(55002, 27502, 55002)]


def test_whoever_opens_last_fences_the_one_before(open_database):
    first = open_database()
    first.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    second = open_database()
    second.sql("INSERT INTO t VALUES (1)")
    with pytest.raises(Fenced, match="taken over"):
        first.sql("INSERT INTO t VALUES (2)")
    assert second.sql("SELECT id FROM t").rows() == [(1,)]


def test_files_there_become_views(spark, hdfs, open_database):
    context = spark.sparkContext
    storage = HadoopStorage(f"{hdfs.url}/in", context._jvm, context._jsc.hadoopConfiguration())
    encodings = ("json", "parquet")

    def write(number: int) -> None:
        ids = range(10 * number, 10 * number + 10)
        storage.write(f"{number}.json", "".join(f'{{"id": {id}}}\n' for id in ids).encode())
        sink = io.BytesIO()
        pq.write_table(pa.table({"id": pa.array(ids, pa.int64())}), sink)
        storage.write(f"{number}.parquet", sink.getvalue())

    def hold(db, files: int) -> None:
        for encode in encodings:
            query = f"SELECT id FROM v_{encode} ORDER BY id"
            eventually(lambda query=query: len(db.sql(query).rows()) >= 10 * files)
            assert db.sql(query).rows() == [(id,) for id in range(10 * files)]
            assert "equal" in str(db.sql(f"CHECK MATERIALIZED VIEW v_{encode}").rows())

    write(0)
    write(1)
    db = open_database()
    for encode in encodings:
        db.sql(
            f"CREATE SOURCE s_{encode} (id BIGINT) INCLUDE file WITH (connector = 'file',"
            f" path = '{hdfs.url}/in/*.{encode}') FORMAT PLAIN ENCODE {encode.upper()}"
        )
        db.sql(f"CREATE MATERIALIZED VIEW v_{encode} AS SELECT id, file FROM s_{encode}")
    write(2)
    hold(db, files=3)
    db.abandon()
    write(3)
    hold(open_database(), files=4)
