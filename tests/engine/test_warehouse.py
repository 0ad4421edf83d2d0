"""A warehouse and its surroundings: who may open it, what the disk does to it, and what is kept of its past."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import headrace
from headrace.engine import changed, maintenance, writes
from headrace.errors import (
    CorruptWarehouse,
    Fenced,
    HeadraceError,
    InvalidParameterValue,
    StorageError,
    UndefinedRelation,
    WarehouseInUse,
)
from headrace.state import blocks, first_rows, small_blocks, whole
from headrace.state import storage as storage_module
from headrace.state.recent import RecentRows
from tests.engine.conftest import PATIENCE, Clients, Gate, eventually

ROOT = Path(__file__).parents[2]
FAST = {"barrier_interval": "100ms"}


def rows(db, query: str) -> list[tuple]:
    return sorted(db.sql(query).rows(), key=repr)


def connect(warehouse, spark, **options):
    return headrace.connect(warehouse, spark=spark, parameters=FAST, **options)


@pytest.fixture
def t(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT v FROM t WHERE v > 0")
    db.sql("INSERT INTO t VALUES (1, 1), (2, 2)")


@pytest.fixture
def no_grace(monkeypatch):
    monkeypatch.setattr(maintenance, "GRACE_SECONDS", 0)


def files_of(db, name: str) -> list[Path]:
    manifest = db.engine.committed
    runs = manifest.runs[manifest.catalog.get(name).id]
    return [Path(db.engine.storage.root) / file.path for run in runs for file in run.files]


# --- one engine -------------------------------------------------------------------------------------------------

HOLD = """
import sys
from headrace.engine.lock import WarehouseLock
from headrace.errors import WarehouseInUse
from headrace.state.storage import LocalStorage
try:
    lock = WarehouseLock(LocalStorage(sys.argv[1]), takeover=False)
except WarehouseInUse as error:
    print("refused:", error.message, flush=True)
else:
    print("held", flush=True)
    sys.stdin.read()
"""


def holder(warehouse: str) -> subprocess.Popen:
    command = [sys.executable, "-c", HOLD, warehouse]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)


def test_a_second_engine_is_refused(db, t, warehouse, spark):
    with pytest.raises(WarehouseInUse, match=f"process {os.getpid()}"):
        connect(warehouse, spark)
    with holder(warehouse) as other:
        assert other.stdout.readline().startswith(f"refused: the warehouse {warehouse} is open in another engine")
        other.stdin.close()
    db.sql("INSERT INTO t VALUES (3, 3)")
    db.close()
    with connect(warehouse, spark) as again:
        assert len(rows(again, "SELECT * FROM t")) == 3


def test_a_dead_process_holds_no_lock(warehouse, spark):
    with holder(warehouse) as other:
        assert other.stdout.readline() == "held\n"
        with pytest.raises(WarehouseInUse, match=f"process {other.pid}"):
            connect(warehouse, spark)
        other.send_signal(signal.SIGKILL)
    connect(warehouse, spark).close()


def test_takeover_fences_the_engine_before(db, t, warehouse, spark, no_grace):
    with connect(warehouse, spark, takeover=True) as other:
        other.sql("INSERT INTO t VALUES (3, 3)")
        for statement in ("INSERT INTO t VALUES (4, 4)", "UPDATE t SET v = 0", "VACUUM", "DROP TABLE t CASCADE"):
            with pytest.raises(Fenced, match="taken over"):
                db.sql(statement)
        assert rows(db, "SELECT * FROM t") == [(1, 1), (2, 2)]  # what it had committed it still serves
        assert rows(other, "SELECT * FROM t") == [(1, 1), (2, 2), (3, 3)]
        db.close()
        other.sql("UPDATE t SET v = v * 10")
        assert rows(other, "SELECT * FROM m") == [(10,), (20,), (30,)]
    with connect(warehouse, spark) as again:
        assert rows(again, "SELECT * FROM t") == [(1, 10), (2, 20), (3, 30)]


def test_takeover_in_the_middle_of_an_epoch(db, t, warehouse, spark):
    gate, clients = Gate(db), Clients(db)
    gate.shut()
    under_way = clients.sql("INSERT INTO t VALUES (3, 3)")
    gate.wait_for(1)
    queued = clients.sql("UPDATE t SET v = 0")
    gate.queued(1)
    with connect(warehouse, spark, takeover=True) as other:
        gate.open()
        for each in (under_way, queued):
            with pytest.raises(Fenced):
                each.result(PATIENCE)
        assert rows(other, "SELECT * FROM t") == [(1, 1), (2, 2)]
        other.sql("VACUUM")
        assert rows(other, "SELECT * FROM t") == [(1, 1), (2, 2)]


def test_takeover_while_a_view_is_filled(db, t, warehouse, spark):
    """Whoever waits for it at the engine before is told; the new one goes on with it."""
    db.sql("SET backfill_rate_limit = 0")
    clients = Clients(db)
    created = clients.run(lambda: db.sql("CREATE MATERIALIZED VIEW filled AS SELECT id FROM t"))
    eventually(lambda: db.engine.backfills.waited_for)
    waiting = clients.sql("WAIT filled")
    with connect(warehouse, spark, takeover=True) as other:
        with pytest.raises(Fenced):
            db.sql("INSERT INTO t VALUES (3, 3)")
        for each in (created, waiting, clients.sql("WAIT filled")):
            with pytest.raises(Fenced):
                each.result(PATIENCE)
        other.sql("ALTER MATERIALIZED VIEW filled SET BACKFILL_RATE_LIMIT = DEFAULT")
        other.sql("WAIT filled")
        assert rows(other, "SELECT * FROM filled") == [(1,), (2,)]


def test_whoever_took_over_holds_the_lock(db, t, warehouse, spark):
    """Not the one before, which still lives."""
    other = connect(warehouse, spark, takeover=True)
    for _ in range(2):
        with pytest.raises(WarehouseInUse, match=f"process {os.getpid()}"):
            connect(warehouse, spark)
        db.close()
    other.sql("INSERT INTO t VALUES (3, 3)")
    other.close()
    with holder(warehouse) as third:
        assert third.stdout.readline() == "held\n"
        third.stdin.close()
    assert sorted(os.listdir(warehouse)) == ["data", "lock", "manifest", "results"]


def test_a_takeover_that_fails_leaves_the_lock_alone(db, t, warehouse, spark):
    with pytest.raises(InvalidParameterValue):
        headrace.connect(warehouse, spark=spark, takeover=True, parameters={"retention": "soon"})
    with pytest.raises(WarehouseInUse):
        connect(warehouse, spark)
    db.sql("INSERT INTO t VALUES (3, 3)")


def test_results_of_a_fenced_engine_and_of_its_successor(db, t, warehouse, spark):
    """Both stream, and both keep what waits in the same folder."""
    query = "SELECT g, repeat('x', 50) AS x FROM generate_series(1, 20000) AS s(g) ORDER BY g"
    with connect(warehouse, spark, takeover=True) as other:
        streams = []
        for each in (db, other):
            each.engine.streams.cut_bytes = 100_000
            streams.append(each.sql(query).batches())
        first = [next(stream) for stream in streams]
        streams[0].close()
        assert first[1].num_rows + sum(batch.num_rows for batch in streams[1]) == 20_000


# --- the place is wrong -----------------------------------------------------------------------------------------


def test_a_path_that_cannot_be_a_warehouse(tmp_path, monkeypatch):
    """Said before a JVM is started."""
    monkeypatch.setattr("headrace.database.start_session", lambda **_: pytest.fail("Spark was started"))
    file = tmp_path / "file"
    file.write_text("mine")
    for path in (file, file / "below"):
        with pytest.raises(StorageError, match=str(file)):
            headrace.connect(path)
    assert file.read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o555)
    for path in (folder, folder / "below"):
        with pytest.raises(StorageError, match=str(path)):
            headrace.connect(path)


@pytest.mark.parametrize("name", ["100% ünïcødé 水 %20", "[a-z]{a,b}?* it's #1 $HOME \\b"])
def test_a_path_with_any_characters(tmp_path, spark, name):
    path = tmp_path / name
    with connect(path, spark) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
        db.sql("CREATE MATERIALIZED VIEW m AS SELECT v + 1 AS w FROM t")
        db.sql("INSERT INTO t VALUES (1, 1)")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writes, "SMALL_ROWS", 1)
            db.sql("INSERT INTO t SELECT g, g FROM generate_series(1, 3) AS x(g)")
        db.sql("UPDATE t SET v = 20 WHERE id = 2")
        db.sql("COMPACT")
        db.sql("VACUUM")
        assert rows(db, "SELECT * FROM t") == [(1, 1), (2, 20), (3, 3)]
    assert sorted(headrace.read(path, "m", spark=spark).toArrow()["w"].to_pylist()) == [2, 4, 21]
    assert os.listdir(tmp_path) == [name], "something was written beside the warehouse"


def test_a_relative_path_and_a_uri(tmp_path, spark, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with connect("here", spark) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
        monkeypatch.chdir("/")
        db.sql("INSERT INTO t VALUES (1)")
    with connect((tmp_path / "here").as_uri(), spark) as db:
        assert rows(db, "SELECT * FROM t") == [(1,)]


# --- damage -----------------------------------------------------------------------------------------------------


def manifests(warehouse: str) -> list[Path]:
    return sorted(Path(warehouse, "manifest").glob("*.json"))


def contents(warehouse: str) -> dict[str, bytes]:
    return {
        str(path): path.read_bytes() for path in Path(warehouse).rglob("*") if path.is_file() and path.name != "lock"
    }


@pytest.mark.parametrize("damage", ["truncated", "empty", "changed", "missing"])
def test_a_damaged_manifest(db, t, warehouse, spark, damage):
    db.close()
    newest = manifests(warehouse)[-2 if damage == "missing" else -1]
    good = newest.read_bytes()
    if damage == "missing":
        newest.unlink()
    else:
        bad = {"truncated": good[: len(good) // 2], "empty": b"", "changed": good.replace(b'"epoch":', b'"epocj":')}
        newest.write_bytes(bad[damage])
    before = contents(warehouse)
    for attempt in (lambda: connect(warehouse, spark), lambda: headrace.read(warehouse, "t", spark=spark)):
        with pytest.raises(CorruptWarehouse, match=newest.name):
            attempt()
    assert contents(warehouse) == before
    newest.write_bytes(good)
    with connect(warehouse, spark) as again:
        assert rows(again, "SELECT * FROM t") == [(1, 1), (2, 2)]


@pytest.fixture
def nothing_kept(monkeypatch):
    """Who has just written the rows, or has read them, does not need the file for a while."""
    for reader in (changed, first_rows, small_blocks, whole):
        monkeypatch.setattr(reader, "RECENT", RecentRows())
    monkeypatch.setattr(blocks, "BLOCKS", blocks.BlockCache())


@pytest.mark.parametrize("damage", ["truncated", "missing"])
def test_a_damaged_data_file(db, t, damage, nothing_kept):
    db.sql("CREATE TABLE other (id INT PRIMARY KEY)")
    (file,) = files_of(db, "t")
    good = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(good[: len(good) // 2])
    by_scan = ["SELECT * FROM t", "UPDATE t SET v = 1"]
    by_key = ["UPDATE t SET v = 1 WHERE id = 1", "INSERT INTO t VALUES (1, 5)"]
    for statement in by_scan + by_key:
        with pytest.raises(HeadraceError) as caught:
            db.sql(statement).rows()
        assert file.name in caught.value.message, f"{statement}: {caught.value.message}"
        assert isinstance(caught.value, CorruptWarehouse) or (damage == "truncated" and statement in by_scan)
        assert "\n" not in caught.value.message
    # Everything else goes on.
    db.sql("INSERT INTO other VALUES (1)")
    assert rows(db, "SELECT * FROM other") == [(1,)]
    assert rows(db, "SELECT * FROM m") == [(1,), (2,)]
    file.write_bytes(good)
    db.sql("UPDATE t SET v = v + 1")
    assert rows(db, "SELECT * FROM t") == [(1, 2), (2, 3)]


def test_an_empty_data_file_is_not_a_table_without_rows(db, t, warehouse, spark, nothing_kept):
    """Spark takes it for one."""
    (file,) = files_of(db, "t")
    good = file.read_bytes()
    file.write_bytes(b"")
    for query in (
        lambda: db.sql("SELECT count(*) FROM t").rows(),
        lambda: headrace.read(warehouse, "t", spark=spark).count(),
        lambda: db.sql("CHECK MATERIALIZED VIEW m"),
        lambda: db.sql("CREATE MATERIALIZED VIEW other AS SELECT id FROM t"),
    ):
        with pytest.raises(CorruptWarehouse, match=file.name):
            query()
    file.write_bytes(good)
    assert rows(db, "SELECT * FROM t") == [(1, 1), (2, 2)]


def test_a_data_file_that_cannot_be_unpacked(db, monkeypatch):
    monkeypatch.setattr(writes, "SMALL_ROWS", 1)
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR)")
    db.sql("INSERT INTO t SELECT g, md5(g::varchar) FROM generate_series(1, 3000) AS x(g)")
    (file,) = files_of(db, "t")
    damaged = bytearray(file.read_bytes())
    damaged[len(damaged) // 3 : len(damaged) // 2] = b"\x5a" * (len(damaged) // 2 - len(damaged) // 3)
    file.write_bytes(damaged)
    for statement in ("SELECT max(v) FROM t", "UPDATE t SET v = '' WHERE id = 7", "COMPACT t"):
        with pytest.raises(CorruptWarehouse, match=file.name):
            db.sql("UPDATE t SET v = ''" if statement == "COMPACT t" else statement).rows()


def test_a_missing_index_of_row_groups(db, monkeypatch, warehouse, spark):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("INSERT INTO t SELECT g, g FROM generate_series(1, 20000) AS x(g)")
    (sidecar,) = Path(warehouse, "data").rglob("*.index")
    sidecar.unlink()
    db.abandon()  # it knows what was in it
    with connect(warehouse, spark) as again:
        for statement in ("UPDATE t SET v = 0 WHERE id = 7", "SELECT v FROM t WHERE id = 7"):
            with pytest.raises(CorruptWarehouse, match=sidecar.name):
                again.sql(statement).rows()
        assert rows(again, "SELECT count(*) FROM t") == [(20000,)]


# --- what is left over ------------------------------------------------------------------------------------------


def test_orphans_do_not_matter_and_go(db, t, warehouse, spark, monkeypatch):
    (kept,) = files_of(db, "t")
    orphans = [kept.with_name("0123.parquet"), kept.with_name("0123.parquet.index")]
    orphans += [Path(warehouse, "data/999/x.parquet")]
    orphans += [Path(warehouse, "staging/abc/part-0.parquet"), Path(warehouse, "manifest/.000000000099.json.abc.tmp")]
    for orphan in orphans:
        orphan.parent.mkdir(parents=True, exist_ok=True)
        orphan.write_bytes(kept.read_bytes())
    assert rows(db, "SELECT * FROM t") == [(1, 1), (2, 2)]
    db.sql("VACUUM")
    assert all(orphan.exists() for orphan in orphans), "they may belong to an epoch that is being written"
    monkeypatch.setattr(maintenance, "GRACE_SECONDS", 0)
    db.sql("VACUUM")
    assert not any(orphan.exists() for orphan in orphans)
    assert not Path(warehouse, "staging/abc").exists()
    assert kept.exists()
    db.abandon()
    with connect(warehouse, spark) as again:
        assert rows(again, "SELECT * FROM t") == [(1, 1), (2, 2)]
        assert rows(again, "SELECT * FROM m") == [(1,), (2,)]


def test_what_a_dead_engine_staged_goes_when_the_warehouse_is_opened(db, t, warehouse, spark, monkeypatch):
    db.abandon()
    staged = Path(warehouse, "staging", "abc", "part-0.parquet")
    staged.parent.mkdir(parents=True)
    staged.write_bytes(b"rows")
    with monkeypatch.context() as patch:
        # Executors of the dead engine may write there for a while; that must keep nobody out.
        patch.setattr(storage_module.shutil, "rmtree", raising(OSError(errno.ENOTEMPTY, "Directory not empty")))
        connect(warehouse, spark).close()
    assert staged.exists()
    with connect(warehouse, spark) as again:
        assert not staged.exists()
        assert rows(again, "SELECT * FROM t") == [(1, 1), (2, 2)]


def raising(error: Exception):
    def call(*args, **kwargs):
        raise error

    return call


def test_vacuum_leaves_the_files_of_a_merge_alone(db, t, no_grace, monkeypatch):
    """They are named by nobody until the merge takes effect."""
    db.sql("INSERT INTO t VALUES (3, 3)")
    clients, merged, go_on = Clients(db), threading.Event(), threading.Event()

    def stop_after_merge(place: str) -> None:
        if place == "after_merge":
            merged.set()
            assert go_on.wait(PATIENCE)

    class Watched:
        def __init__(self, lock):
            self.lock, self.waiting = lock, 0

        def __enter__(self):
            self.waiting += 1
            self.lock.acquire()

        def __exit__(self, *_):
            self.waiting -= 1
            self.lock.release()

    lock = db.engine.maintenance._merging = Watched(db.engine.maintenance._merging)
    monkeypatch.setattr(maintenance, "failpoint", stop_after_merge)
    compact = clients.sql("COMPACT t")
    assert merged.wait(PATIENCE)
    vacuum = clients.sql("VACUUM")
    eventually(lambda: vacuum.done() or lock.waiting == 2)
    go_on.set()
    compact.result(PATIENCE)
    vacuum.result(PATIENCE)
    assert rows(db, "SELECT * FROM t") == [(1, 1), (2, 2), (3, 3)]


# --- the past ---------------------------------------------------------------------------------------------------


def test_old_epochs_stay_readable_for_the_retention(db, t, warehouse, spark, no_grace):
    first = db.engine.committed
    db.sql("UPDATE t SET v = v * 10")
    db.sql("DELETE FROM t WHERE id = 1")
    db.sql("COMPACT")
    db.sql("DROP TABLE t CASCADE")
    db.sql("VACUUM")
    session = db.session()
    with pytest.raises(UndefinedRelation):
        session.sql("SELECT * FROM t")

    session.sql(f"SET query_epoch = {first.epoch}")
    assert rows(session, "SELECT * FROM t") == [(1, 1), (2, 2)]
    assert rows(session, "SELECT * FROM m") == [(1,), (2,)]
    session.sql(f"SET query_epoch = {first.epoch + 1}")
    assert rows(session, "SELECT * FROM t") == [(1, 10), (2, 20)]
    session.sql(f"SET query_epoch = {first.epoch + 2}")
    assert rows(session, "SELECT * FROM m") == [(20,)]
    session.sql("SET query_epoch = 0")
    assert headrace.read(warehouse, "t", epoch=first.epoch + 1, spark=spark).count() == 2
    assert headrace.read(warehouse, "m", epoch=first.epoch + 2, spark=spark).count() == 1
    for never in (db.engine.committed.epoch + 1, -1):
        with pytest.raises(InvalidParameterValue, match=f"epoch {never} cannot be read"):
            headrace.read(warehouse, "t", epoch=never, spark=spark)
    with pytest.raises(InvalidParameterValue, match=f"epoch {db.engine.committed.epoch + 1}"):
        session.sql(f"SET query_epoch = {db.engine.committed.epoch + 1}")
        session.sql("SHOW TABLES")
        session.sql("SELECT 1")

    db.sql("ALTER SYSTEM SET retention = '0s'")
    db.sql("VACUUM")
    session = db.session()
    session.sql(f"SET query_epoch = {first.epoch}")
    with pytest.raises(InvalidParameterValue, match="cannot be read.*"):
        session.sql("SELECT * FROM t")
    assert not list(Path(warehouse, "data").rglob("*.parquet")), "no epoch that is kept has rows"


def test_reading_what_is_vacuumed_meanwhile(db, t, warehouse, spark, no_grace, monkeypatch):
    """The versions are known, and their files go before they are opened."""
    oldest = db.engine.committed.epoch
    real = headrace.database.as_of

    def vacuumed_afterwards(*arguments):
        found = real(*arguments)
        monkeypatch.setattr(headrace.database, "as_of", real)
        db.sql("UPDATE t SET v = v * 10")
        db.sql("COMPACT; ALTER SYSTEM SET retention = '0s'; VACUUM")
        return found

    monkeypatch.setattr(headrace.database, "as_of", vacuumed_afterwards)
    with pytest.raises(InvalidParameterValue, match=f"epoch {oldest} cannot be read"):
        db.sql("FLUSH")
        headrace.read(warehouse, "t", epoch=oldest, spark=spark)
    assert headrace.read(warehouse, "m", spark=spark).count() == 2
    (file,) = files_of(db, "t")
    file.unlink()
    with pytest.raises(CorruptWarehouse, match=file.name):
        headrace.read(warehouse, "t", spark=spark)


def test_as_of_a_moment(db, t):
    first = db.engine.committed
    db.sql("UPDATE t SET v = 0")
    assert rows(db, f"SELECT v FROM t FOR SYSTEM_TIME AS OF {first.epoch}") == [(1,), (2,)]
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(first.committed_at / 1e6))
    moment += f".{first.committed_at % 1_000_000:06d}"
    assert rows(db, f"SELECT v FROM t FOR SYSTEM_TIME AS OF '{moment}'") == [(1,), (2,)]
    assert rows(db, "SELECT v FROM t") == [(0,), (0,)]
    with pytest.raises(InvalidParameterValue, match="nothing as old"):
        db.sql("SELECT v FROM t FOR SYSTEM_TIME AS OF '1999-01-01 00:00:00'")


def test_reading_while_the_engine_writes(db, warehouse, spark):
    """Whenever it looks, a reader sees whole epochs: pairs that sum up to nothing."""
    db.sql("CREATE TABLE pairs (id INT PRIMARY KEY, v INT)")
    db.sql("CREATE MATERIALIZED VIEW mirrored AS SELECT id, -v AS v FROM pairs")
    stop, failed = threading.Event(), []

    def write() -> None:
        try:
            number = 0
            while not stop.is_set():
                number += 1
                db.sql(f"INSERT INTO pairs VALUES ({number % 40}, {number}), ({100 + number % 40}, {-number})")
                if number % 10 == 0:
                    db.sql("DELETE FROM pairs WHERE id IN (5, 105)")
                    db.sql("COMPACT")
                    db.sql("VACUUM")
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        seen = set()
        while len(seen) < 6 and not failed:
            epoch = headrace.database.ManifestStore(headrace.database.LocalStorage(warehouse)).load().epoch
            tables = [
                headrace.read(warehouse, name, epoch=each, spark=spark).toArrow().to_pydict()
                for name, each in (("pairs", None), ("pairs", epoch), ("mirrored", epoch))
            ]
            for table in tables:
                assert sum(table["v"]) == 0 and len(set(table["id"])) == len(table["id"]) and len(table["id"]) % 2 == 0
            pairs, mirrored = (dict(zip(table["id"], table["v"], strict=True)) for table in tables[1:])
            assert mirrored == {id: -v for id, v in pairs.items()}
            seen.add(epoch)
    finally:
        stop.set()
        thread.join()
    assert not failed, failed


# --- a session that is not ours ---------------------------------------------------------------------------------


def test_a_session_that_was_brought_stays_as_it_is(spark, warehouse):
    mine = spark.newSession()
    mine.conf.set("spark.sql.ansi.enabled", "false")
    mine.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    mine.range(3).createOrReplaceTempView("t")
    before = dict(mine.sparkContext.getConf().getAll()), {row.key: row.value for row in mine.sql("SET").collect()}
    with connect(warehouse, mine) as db:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, at TIMESTAMPTZ)")
        db.sql("INSERT INTO t VALUES (1, '2024-01-01 00:00:00+00')")
        assert db.sql("SELECT at::varchar FROM t").rows()[0][0].startswith("2024-01-01 00:00:00")
        assert mine.sql("SELECT CAST('x' AS INT) AS n FROM t").collect()[0].n is None
        assert mine.sql("SELECT count(*) AS n FROM t").collect()[0].n == 3
        with pytest.raises(HeadraceError):
            db.sql("SELECT 'x'::int").rows()
    assert (
        dict(mine.sparkContext.getConf().getAll()),
        {row.key: row.value for row in mine.sql("SET").collect()},
    ) == before
    assert mine.range(5).count() == 5
    assert [table.tableName for table in mine.sql("SHOW TABLES").collect()] == ["t"]
    assert headrace.read(warehouse, "t", spark=mine).count() == 1


WORKER = """
import sys
import headrace

def imported(batches):
    found = {"headrace.state.ranges", "pyarrow.parquet"} <= sys.modules.keys()
    for batch in batches:
        yield batch
    assert found

with headrace.connect(sys.argv[1]) as db:
    rows = db.engine.spark.range(8).mapInArrow(imported, "id BIGINT").count()
    db.sql("CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1)")
    print(rows, db.sql("SELECT id FROM t").rows())
"""


def test_workers_have_imported_what_tasks_need(tmp_path):
    """Also where Headrace is not installed but on the path of the one process that the user starts."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{WORKER}", str(tmp_path / "w")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert done.stdout == "8 [(1,)]\n", done.stderr[-3000:]
