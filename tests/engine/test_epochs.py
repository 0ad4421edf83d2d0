"""The epoch loop: who shares a commit, who fails, and what others notice of it."""

from __future__ import annotations

import errno
import os
import time

import pyarrow as pa
import pytest

import headrace
from headrace.engine import coordinator as coordinator_module
from headrace.errors import (
    DataError,
    EngineClosed,
    EpochFailed,
    Fenced,
    HeadraceError,
    JobCancelled,
    QueryCancelled,
    StorageError,
    UndefinedRelation,
)
from headrace.state import files as files_module
from headrace.state.prepared import PreparedJobs
from tests.engine.conftest import PATIENCE, eventually


def rows(db, query: str) -> list[tuple]:
    return sorted(db.sql(query).rows())


@pytest.fixture
def t(db):
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")


@pytest.fixture
def held(t, gate, clients):
    """An epoch that is under way, so that what is asked for now queues up behind it."""
    gate.shut()
    first = clients.sql("INSERT INTO t VALUES (0, 1)")
    gate.wait_for(1)
    yield first
    gate.open()


# --- sharing ----------------------------------------------------------------------------------------------------


def test_many_clients_share_a_commit(db, held, gate, clients):
    version = db.engine.committed.version
    waiting = [clients.sql(f"INSERT INTO t VALUES ({id}, 1), (100 + {id}, 1)") for id in range(1, 31)]
    gate.queued(30)
    gate.open()
    assert [each.result(PATIENCE) for each in waiting] == ["INSERT 0 2"] * 30
    assert held.result(PATIENCE) == "INSERT 0 1"
    assert db.engine.committed.version == version + 2
    assert len(rows(db, "SELECT * FROM t")) == 61


def test_an_epoch_takes_no_more_rows_than_it_may(db, t, gate, clients):
    db.sql("ALTER SYSTEM SET max_rows_per_epoch = 10")
    gate.shut()
    waiting = [clients.sql("INSERT INTO t VALUES (0, 1)")]
    gate.wait_for(1)
    waiting += [clients.sql(f"INSERT INTO t SELECT * FROM (VALUES ({id}, 1)) AS x(a, b)") for id in range(1, 3)]
    waiting += [clients.run(lambda n=n: db.insert("t", ids(n * 100, 4))) for n in range(5)]
    waiting += [clients.run(lambda: db.insert("t", ids(1000, 50)))]  # more than an epoch may have: alone then
    gate.queued(8)
    gate.open()
    for each in waiting:
        each.result(PATIENCE)
    for _, writes in gate.epochs:
        assert sum(write.rows for write in writes) <= 10 or len(writes) == 1
    assert {id for id, _ in rows(db, "SELECT * FROM t")} == (
        {0, 1, 2} | {n * 100 + i for n in range(5) for i in range(4)} | set(range(1000, 1050))
    )


def ids(first: int, count: int) -> pa.Table:
    return pa.table({"id": pa.array(range(first, first + count), pa.int32()), "v": pa.array([1] * count, pa.int32())})


@pytest.mark.parametrize(("policy", "stays"), [("", 3), ("ON CONFLICT IGNORE", 1)])
def test_statements_of_one_epoch_are_applied_in_order(db, held, gate, clients, policy, stays):
    gate.open()
    db.sql(f"CREATE TABLE o (id INT PRIMARY KEY, v INT) {policy}")
    gate.shut()
    clients.sql("INSERT INTO t VALUES (7, 7)")
    gate.wait_for(2)
    waiting = []
    for v in (1, 2, 3):
        waiting.append(clients.sql(f"INSERT INTO o VALUES (1, {v})"))
        gate.queued(v)
    gate.open()
    for each in waiting:
        each.result(PATIENCE)
    assert [len(writes) for _, writes in gate.epochs] == [1, 1, 3]
    assert rows(db, "SELECT * FROM o") == [(1, stays)]


def test_who_shares_an_epoch_with_something_cancelled_is_written(db, held, gate, clients):
    gate.open()
    db.sql("CREATE TABLE o (id INT PRIMARY KEY)")
    gate.shut()
    clients.sql("INSERT INTO t VALUES (7, 7)")
    gate.wait_for(2)
    session = db.session()
    loop = "SELECT count(*)::int FROM generate_series(1, 300000) a(x), generate_series(1, 300000) b(y) WHERE a.x < b.y"
    long = clients.run(lambda: session.sql(f"INSERT INTO t SELECT n, n FROM ({loop}) AS l(n)"))
    gate.queued(1)
    short = clients.sql("INSERT INTO o VALUES (1)")
    gate.queued(2)
    gate.open()
    eventually(lambda: [len(writes) for _, writes in gate.epochs] == [1, 1, 2])
    session.cancel()
    with pytest.raises(QueryCancelled):
        long.result(PATIENCE)
    assert short.result(PATIENCE) == "INSERT 0 1"
    assert (rows(db, "SELECT * FROM o"), rows(db, "SELECT * FROM t")) == ([(1,)], [(0, 1), (7, 7)])
    assert session.sql("INSERT INTO o VALUES (2)").tag == "INSERT 0 1", "only what ran was cancelled"


def test_an_update_sees_what_was_asked_for_before_it(db, held, gate, clients):
    statements = [
        "INSERT INTO t VALUES (1, 10), (2, 20)",
        "UPDATE t SET v = v + 1",
        "DELETE FROM t WHERE v = 11",
        "INSERT INTO t SELECT id + 50, v FROM t",
        "UPDATE t SET v = 5 WHERE id = 52",
    ]
    waiting = []
    for statement in statements:
        waiting.append(clients.sql(statement))
        gate.queued(len(waiting))
    gate.open()
    assert [each.result(PATIENCE) for each in waiting] == [
        "INSERT 0 2",
        "UPDATE 3",
        "DELETE 1",
        "INSERT 0 2",
        "UPDATE 1",
    ]
    assert rows(db, "SELECT * FROM t") == [(0, 2), (2, 21), (50, 2), (52, 5)]


def test_no_update_is_lost(db, t, clients):
    """Clients that count up the same row, and one that moves money between two: all at once."""
    db.sql("INSERT INTO t VALUES (1, 0), (2, 100), (3, 100)")

    def count_up() -> None:
        session = db.session()
        for _ in range(3):
            session.sql("UPDATE t SET v = v + 1 WHERE id = 1")

    def move() -> None:
        session = db.session()
        for _ in range(3):
            session.sql("UPDATE t SET v = v + CASE id WHEN 2 THEN -7 ELSE 7 END WHERE id IN (2, 3)")

    for each in [clients.run(count_up), clients.run(count_up), clients.run(count_up), clients.run(move)]:
        each.result(PATIENCE)
    assert rows(db, "SELECT * FROM t") == [(1, 9), (2, 79), (3, 121)]


# --- one statement is at fault ----------------------------------------------------------------------------------


def test_a_statement_at_fault_fails_alone(db, held, gate, clients):
    create = clients.sql("CREATE MATERIALIZED VIEW inverse AS SELECT id, 100 / v AS i FROM t")
    gate.queued(1)
    gate.open()
    create.result(PATIENCE)
    db.sql("CREATE TABLE u (id INT PRIMARY KEY)")
    gate.shut()
    arrived = gate.arrived  # chunks of the view may have come through, too
    first = clients.sql("INSERT INTO t VALUES (1, 1)")
    gate.wait_for(arrived + 1)
    good = [clients.sql(f"INSERT INTO t VALUES ({id}, {id})") for id in (2, 3)]
    gate.queued(2)
    bad = clients.sql("INSERT INTO t VALUES (4, 4), (5, 0)")
    gate.queued(3)
    good += [clients.sql("INSERT INTO t VALUES (6, 6)"), clients.sql("INSERT INTO u VALUES (1)")]
    gate.queued(5)
    gate.open()
    assert [each.result(PATIENCE) for each in [first, *good]] == ["INSERT 0 1"] * 5
    with pytest.raises(DataError, match="division by zero.*inverse"):
        bad.result(PATIENCE)
    assert rows(db, "SELECT id FROM t") == [(0,), (1,), (2,), (3,), (6,)]
    assert rows(db, "SELECT * FROM inverse") == [(0, 100), (1, 100), (2, 50), (3, 33), (6, 16)]
    assert rows(db, "SELECT id FROM u") == [(1,)]


def test_lag_is_how_long_the_first_of_those_who_wait_has_waited(db, held, gate, clients):
    """``held`` waits at the gate from the start."""
    coordinator = db.engine.coordinator
    waiting = clients.sql("INSERT INTO t VALUES (1, 1)")
    gate.queued(1)
    assert coordinator.queued_rows == 1
    before = coordinator.lag
    time.sleep(0.3)
    assert coordinator.lag >= before + 0.3
    gate.open()
    waiting.result(PATIENCE)
    held.result(PATIENCE)
    eventually(lambda: coordinator.lag == 0)
    assert coordinator.queued_rows == 0


@pytest.mark.parametrize("statement", ["INSERT INTO t VALUES (2, 2), (3, 0)", "UPDATE t SET v = v - 1 WHERE id = 1"])
def test_division_by_zero_in_a_view_refuses_the_statement(db, t, statement):
    db.sql("CREATE MATERIALIZED VIEW inverse AS SELECT id, 100 / v AS i FROM t")
    db.sql("CREATE MATERIALIZED VIEW guarded AS SELECT id, 100 / v AS i FROM t WHERE v <> 0")
    db.sql("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(DataError, match='division by zero.*"inverse"') as caught:
        db.sql(statement)
    assert caught.value.sqlstate == "22012"
    assert rows(db, "SELECT * FROM t") == [(1, 1)]
    assert rows(db, "SELECT * FROM inverse") == rows(db, "SELECT * FROM guarded") == [(1, 100)]
    db.sql("DROP MATERIALIZED VIEW inverse")
    db.sql(statement)
    assert all(v != 0 for _, v in rows(db, "SELECT * FROM guarded"))


def test_a_view_that_cannot_be_filled_is_not_made(db, t):
    db.sql("INSERT INTO t VALUES (1, 1), (2, 0)")
    with pytest.raises(DataError, match="division by zero"):
        db.sql("CREATE MATERIALIZED VIEW inverse AS SELECT id, 100 / v AS i FROM t")
    db.sql("INSERT INTO t VALUES (3, 0)")
    db.sql("DELETE FROM t WHERE v = 0")
    db.sql("CREATE MATERIALIZED VIEW inverse AS SELECT id, 100 / v AS i FROM t")
    assert rows(db, "SELECT * FROM inverse") == [(1, 100)]


def test_a_table_dropped_while_a_statement_waits(db, held, gate, clients):
    drop = clients.sql("DROP TABLE t")
    gate.queued(1)
    insert = clients.sql("INSERT INTO t VALUES (1, 1)")
    gate.queued(2)
    create = clients.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    gate.queued(3)
    gate.open()
    drop.result(PATIENCE)
    create.result(PATIENCE)
    with pytest.raises(UndefinedRelation, match="dropped"):
        insert.result(PATIENCE)
    assert rows(db, "SELECT * FROM t") == []


# --- Spark or the storage is at fault ---------------------------------------------------------------------------


class Failing:
    """Stands in for a function and fails the first times it is called."""

    def __init__(self, monkeypatch, owner, name: str, times: int, error: Exception, *, after: bool = False):
        self._real = getattr(owner, name)
        self._times, self._error, self._after = times, error, after
        self.calls = 0
        monkeypatch.setattr(owner, name, self)

    def __call__(self, *args, **kwargs):
        self.calls += 1
        fails = self.calls <= self._times
        if self._after or not fails:
            answer = self._real(*args, **kwargs)
        if fails:
            raise self._error
        return answer


@pytest.mark.parametrize("after", [False, True], ids=["before the job", "after it"])
def test_a_failed_job_is_tried_again(db, t, monkeypatch, after):
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT v FROM t")
    deriver = db.engine.evaluator.deriver
    failing = Failing(monkeypatch, deriver, "write", 1, RuntimeError("an executor was lost"), after=after)
    assert db.sql("INSERT INTO t VALUES (1, 1), (2, 2)").tag == "INSERT 0 2"
    assert failing.calls == 2
    assert rows(db, "SELECT * FROM t") == [(1, 1), (2, 2)]
    assert rows(db, "SELECT * FROM m") == [(1,), (2,)]


def test_rows_without_a_key_are_not_doubled_by_a_retry(db, monkeypatch):
    db.sql("CREATE TABLE n (v INT)")
    deriver = db.engine.evaluator.deriver
    Failing(monkeypatch, deriver, "write", 2, RuntimeError("an executor was lost"), after=True)
    db.sql("INSERT INTO n VALUES (1), (1)")
    db.sql("INSERT INTO n VALUES (1)")
    assert rows(db, "SELECT * FROM n") == [(1,), (1,), (1,)]


def test_a_job_that_keeps_failing_is_reported(db, t, monkeypatch):
    db.sql("INSERT INTO t VALUES (1, 1)")
    deriver = db.engine.evaluator.deriver
    with monkeypatch.context() as patch:
        Failing(patch, deriver, "write", 100, RuntimeError("an executor was lost"))
        with pytest.raises(EpochFailed, match="an executor was lost"):
            db.sql("INSERT INTO t VALUES (2, 2)")
        assert rows(db, "SELECT * FROM t") == [(1, 1)]
    db.sql("INSERT INTO t VALUES (3, 3)")
    assert rows(db, "SELECT * FROM t") == [(1, 1), (3, 3)]


def test_a_fault_of_our_own_does_not_end_the_loop(db, t, monkeypatch):
    coordinator = db.engine.coordinator
    with monkeypatch.context() as patch:
        Failing(patch, coordinator, "_evaluate", 1, KeyError("no such thing"))
        with pytest.raises(EpochFailed, match="KeyError"):
            db.sql("INSERT INTO t VALUES (2, 2)")
    with pytest.raises(EpochFailed, match="ZeroDivisionError"):
        coordinator.mutate(lambda state, epoch: (state, 1 // 0), "a mistake")
    db.sql("INSERT INTO t VALUES (3, 3)")
    assert rows(db, "SELECT * FROM t") == [(3, 3)]


def test_a_commit_that_fails_once_is_tried_again(db, t, monkeypatch):
    failing = Failing(monkeypatch, db.engine.store, "commit", 1, StorageError("the disk sulks"))
    db.sql("INSERT INTO t VALUES (1, 1)")
    assert failing.calls == 2
    assert rows(db, "SELECT * FROM t") == [(1, 1)]


def test_a_commit_that_keeps_failing_gives_the_epoch_up(db, t, monkeypatch):
    db.sql("INSERT INTO t VALUES (1, 1)")
    with monkeypatch.context() as patch:
        Failing(patch, db.engine.store, "commit", 100, StorageError("the disk sulks"))
        with pytest.raises(StorageError, match="the disk sulks"):
            db.sql("INSERT INTO t VALUES (2, 2)")
        assert rows(db, "SELECT * FROM t") == [(1, 1)]
    db.sql("UPDATE t SET v = v + 1")
    assert rows(db, "SELECT * FROM t") == [(1, 2)]


def test_an_epoch_is_durable_before_it_is_committed(db, t, monkeypatch):
    """What it wrote is synced before the manifest is; if that fails, it is given up, and not synced again."""
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT v, count(*) AS c FROM t GROUP BY v")
    synced, sync = [], files_module._sync_file
    commit = db.engine.store.commit

    def fails_once(full: str) -> None:
        synced.append(full)
        if len(synced) == 1:
            raise OSError(errno.EIO, "a test says so")
        sync(full)

    def committed(previous, new) -> None:
        named = {file.path for runs in new.runs.values() for run in runs for file in run.files}
        old = {file.path for runs in previous.runs.values() for run in runs for file in run.files}
        assert all(any(full.endswith(path) for full in synced) for path in named - old)
        commit(previous, new)

    monkeypatch.setattr(files_module, "_sync_file", fails_once)
    monkeypatch.setattr(db.engine.store, "commit", committed)
    with pytest.raises(StorageError, match="could not be made durable"):
        db.sql("INSERT INTO t VALUES (1001, 5)")
    first = set(synced)
    db.sql("INSERT INTO t VALUES (1001, 5)")
    assert not first & set(synced[len(first) :])
    ((said, *_),) = db.sql("CHECK MATERIALIZED VIEW v").rows()
    assert said.startswith("equal")
    assert db.sql("SELECT count(*) FROM t WHERE id = 1001").rows() == [(1,)]


def test_a_commit_that_was_made_but_not_confirmed(db, t, warehouse, spark, monkeypatch):
    """Whether the epoch is there is unknown to the engine, so it must not go on as if it were not."""
    with monkeypatch.context() as patch:
        Failing(patch, db.engine.store, "commit", 100, StorageError("no answer"), after=True)
        with pytest.raises(StorageError, match="no answer"):
            db.sql("INSERT INTO t VALUES (1, 1)")
    with pytest.raises(Fenced, match="has reached the storage"):
        db.sql("INSERT INTO t VALUES (2, 2)")
    db.close()
    with headrace.connect(warehouse, spark=spark) as again:
        assert rows(again, "SELECT * FROM t") == [(1, 1)]


# --- checkpoints ------------------------------------------------------------------------------------------------


@pytest.fixture
def rarely(db, t):
    """Checkpoints so rare that everything of a test is in one."""
    db.sql("ALTER SYSTEM SET checkpoint_frequency = 1000")


def test_between_checkpoints_epochs_are_in_the_buffer(db, rarely, gate, clients):
    before = db.engine.committed
    gate.shut()
    waiting = []
    for number, statement in enumerate(
        ["INSERT INTO t VALUES (1, 10)", "UPDATE t SET v = v + 1 WHERE id = 1", "INSERT INTO t SELECT 2, v FROM t"]
    ):
        waiting.append(clients.sql(statement))
        if number == 0:
            gate.wait_for(1)
        else:
            gate.queued(number)
    gate.let(2)
    gate.wait_for(3)
    # Two epochs are done, and nobody has seen anything of them.
    working = db.engine.coordinator.working
    assert working.epoch == before.epoch + 2
    assert db.engine.committed is before
    assert rows(db, "SELECT * FROM t") == []
    assert not any(each.done() for each in waiting)
    gate.open()
    assert [each.result(PATIENCE) for each in waiting] == ["INSERT 0 1", "UPDATE 1", "INSERT 0 1"]
    assert rows(db, "SELECT * FROM t") == [(1, 11), (2, 11)]
    assert db.engine.committed.version == before.version + 1
    assert db.engine.committed.epoch % 1000 == 0


def test_a_statement_at_fault_between_checkpoints(db, rarely, gate, clients):
    db.sql("CREATE MATERIALIZED VIEW inverse AS SELECT id, 100 / v AS i FROM t")
    gate.shut()
    first = clients.sql("INSERT INTO t VALUES (1, 1)")
    gate.wait_for(1)
    bad = clients.sql("UPDATE t SET v = 0")
    gate.queued(1)
    last = clients.sql("UPDATE t SET v = v + 1")
    gate.queued(2)
    gate.open()
    with pytest.raises(DataError, match="division by zero"):
        bad.result(PATIENCE)
    assert (first.result(PATIENCE), last.result(PATIENCE)) == ("INSERT 0 1", "UPDATE 1")
    assert rows(db, "SELECT * FROM inverse") == [(1, 50)]


def test_a_view_made_between_checkpoints_has_what_is_in_the_buffer(db, rarely, gate, clients):
    gate.shut()
    first = clients.sql("INSERT INTO t VALUES (1, 1)")
    gate.wait_for(1)
    create = clients.sql("CREATE MATERIALIZED VIEW m AS SELECT v + 1 AS w FROM t")
    gate.queued(1)
    second = clients.sql("INSERT INTO t VALUES (2, 2)")
    gate.queued(2)
    gate.open()
    for each in (first, create, second):
        each.result(PATIENCE)
    assert rows(db, "SELECT * FROM m") == [(2,), (3,)]


def test_what_is_in_the_buffer_dies_with_the_engine(db, rarely, gate, clients, warehouse, spark):
    gate.shut()
    first = clients.sql("INSERT INTO t VALUES (1, 1)")
    gate.wait_for(1)
    second = clients.sql("UPDATE t SET v = 2")
    gate.queued(1)
    third = clients.sql("UPDATE t SET v = 3")
    gate.queued(2)
    gate.let(1)
    gate.wait_for(2)  # the first is in the buffer, the second under way, the third in the queue
    dying = clients.run(db.abandon)
    eventually(lambda: db.engine.coordinator._closing)
    gate.open()
    dying.result(PATIENCE)
    for each in (first, second, third):
        with pytest.raises(EngineClosed):
            each.result(PATIENCE)
    with headrace.connect(warehouse, spark=spark) as again:
        assert rows(again, "SELECT * FROM t") == []
        again.sql("INSERT INTO t VALUES (1, 4)")
        assert rows(again, "SELECT * FROM t") == [(1, 4)]


def test_a_commit_that_fails_gives_up_all_that_is_in_the_buffer(db, rarely, gate, clients, monkeypatch):
    gate.shut()
    waiting = [clients.sql("INSERT INTO t VALUES (1, 1)")]
    gate.wait_for(1)
    waiting.append(clients.sql("UPDATE t SET v = 2"))
    gate.queued(1)
    with monkeypatch.context() as patch:
        Failing(patch, db.engine.store, "commit", 3, StorageError("the disk sulks"))
        gate.open()
        for each in waiting:
            with pytest.raises(StorageError):
                each.result(PATIENCE)
    assert rows(db, "SELECT * FROM t") == []
    db.sql("INSERT INTO t VALUES (1, 5)")
    assert rows(db, "SELECT * FROM t") == [(1, 5)]


# --- idle, full, closed -----------------------------------------------------------------------------------------


def test_an_idle_engine_writes_nothing(db, t, warehouse):
    db.sql("ALTER SYSTEM SET barrier_interval = '1ms'")
    version, files = db.engine.committed.version, sorted(os.listdir(f"{warehouse}/manifest"))
    coordinator = db.engine.coordinator
    epochs = coordinator.stats.epochs
    for _ in range(20):
        with coordinator._changed:
            coordinator._changed.notify_all()
        rows(db, "SELECT * FROM t")
    assert (db.engine.committed.version, coordinator.stats.epochs) == (version, epochs)
    assert sorted(os.listdir(f"{warehouse}/manifest")) == files
    db.sql("FLUSH")
    assert db.engine.committed.version == version + 1


def test_text_of_arrow_has_no_zero_byte(db):
    db.sql("CREATE TABLE texts (id INT PRIMARY KEY, v VARCHAR, a VARCHAR[])")
    for bad in ({"v": ["a\0"]}, {"a": [["b", "\0"]]}):
        with pytest.raises(DataError, match="0x00"):
            db.insert("texts", pa.table({"id": pa.array([1], pa.int32()), **bad}))
    assert db.insert("texts", pa.table({"id": pa.array([1], pa.int32()), "v": ["a"], "a": [["b"]]})) == 1


def test_what_fails_writes_no_manifest(db, t, warehouse):
    before = db.engine.committed, sorted(os.listdir(f"{warehouse}/manifest"))
    for statement in ("INSERT INTO t SELECT 1, 1 / (g - 1) FROM generate_series(1, 2) AS x(g)", "DROP TABLE nowhere"):
        with pytest.raises(HeadraceError):
            db.sql(statement)
    assert (db.engine.committed, sorted(os.listdir(f"{warehouse}/manifest"))) == before


def test_a_full_queue_makes_clients_wait(db, t, gate, clients, monkeypatch):
    monkeypatch.setattr(coordinator_module, "QUEUE_ROWS", 10)
    coordinator = db.engine.coordinator
    gate.shut()
    first = clients.run(lambda: db.insert("t", ids(0, 1)))
    gate.wait_for(1)
    fits = clients.run(lambda: db.insert("t", ids(100, 8)))
    gate.queued(1)
    waits = [clients.run(lambda n=n: db.insert("t", ids(n, 5))) for n in (200, 300)]
    eventually(lambda: len(coordinator._changed._waiters) == 2)
    assert coordinator._queued_rows == 8
    clients.sql("FLUSH")  # what has no rows need not wait
    gate.queued(2)
    gate.open()
    assert [each.result(PATIENCE) for each in (first, fits, *waits)] == [1, 8, 5, 5]
    assert coordinator._queued_rows == 0
    assert db.insert("t", ids(1000, 50)) == 50  # more than the queue may hold, but it is alone
    assert len(rows(db, "SELECT * FROM t")) == 69


def test_closing_lets_go_of_those_who_wait_for_the_queue(db, t, gate, clients, monkeypatch, spark, warehouse):
    monkeypatch.setattr(coordinator_module, "QUEUE_ROWS", 10)
    gate.shut()
    queued = [clients.run(lambda: db.insert("t", ids(0, 1)))]
    gate.wait_for(1)
    queued.append(clients.run(lambda: db.insert("t", ids(100, 8))))
    gate.queued(1)
    waits = clients.run(lambda: db.insert("t", ids(200, 5)))
    eventually(lambda: len(db.engine.coordinator._changed._waiters) == 1)
    closing = clients.run(db.close)
    with pytest.raises(EngineClosed):
        waits.result(PATIENCE)
    gate.open()
    closing.result(PATIENCE)
    assert [each.result(PATIENCE) for each in queued] == [1, 8]
    with headrace.connect(warehouse, spark=spark) as again:
        assert len(rows(again, "SELECT * FROM t")) == 9


def test_closing_commits_what_is_queued(db, rarely, held, gate, clients, spark, warehouse):
    waiting = [clients.sql(f"INSERT INTO t VALUES ({id}, 1)") for id in range(1, 6)]
    gate.queued(5)
    waiting.append(clients.sql("UPDATE t SET v = v + 1"))
    gate.queued(6)
    waiting.append(clients.sql("CREATE MATERIALIZED VIEW m AS SELECT v FROM t"))
    gate.queued(7)
    closing = clients.run(db.close)
    eventually(lambda: db.engine.coordinator._closing)
    gate.open()
    closing.result(PATIENCE)
    *written, create = waiting
    for each in [held, *written]:
        each.result(PATIENCE)
    with pytest.raises(JobCancelled, match="goes on when it is opened again"):
        create.result(PATIENCE)
    with headrace.connect(warehouse, spark=spark) as again:
        again.sql("WAIT m")
        assert rows(again, "SELECT * FROM t") == [(id, 2) for id in range(6)]
        assert rows(again, "SELECT * FROM m") == [(2,)] * 6


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_use_after_the_end(db, t, end):
    session = db.session()
    getattr(db, end)()
    statements = ["SELECT * FROM t", "INSERT INTO t VALUES (1, 1)", "UPDATE t SET v = 1", "SHOW TABLES", "FLUSH"]
    statements += ["COMPACT", "VACUUM", "CREATE TABLE u (id INT)", "ALTER SYSTEM SET compaction = false"]
    for statement in statements:
        for client in (db, session):
            with pytest.raises(EngineClosed):
                client.sql(statement)
    with pytest.raises(EngineClosed):
        db.insert("t", ids(1, 1))
    db.close()
    db.abandon()


def test_every_error_is_ours(db, t):
    """Whatever a client is told, it can tell apart from a bug: by its class, SQLSTATE and sentence."""
    for statement in [
        "INSERT INTO t VALUES (1, 1/0)",
        "UPDATE t SET v = 1/0",
        "SELECT 1/0 FROM t",
        "INSERT INTO x VALUES (1)",
    ]:
        with pytest.raises(HeadraceError) as caught:
            db.sql("INSERT INTO t VALUES (1, 1)")
            db.sql(statement).rows()
        assert caught.value.sqlstate != "XX000" and "\n\tat " not in str(caught.value)


def test_epochs_of_the_same_shape_are_planned_once(db, monkeypatch):
    """Also when other tables change with it, a view is being filled, and its positions move."""
    db.sql("ALTER SYSTEM SET vectorized = false")
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT); CREATE TABLE u (id INT PRIMARY KEY)")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v + 1 AS w FROM t")
    db.sql("INSERT INTO t SELECT g, g FROM generate_series(1, 300) AS s(g)")
    session = db.session()
    session.sql("SET background_ddl = true; SET backfill_pacing = 20; SET backfill_rate_limit = 20")
    session.sql("CREATE MATERIALIZED VIEW filling AS SELECT id FROM t")
    for _ in range(2):
        db.sql("INSERT INTO t VALUES (1, 1), (2, 5)")
    eventually(lambda: db.engine.jobs.list()[0]["rows_read"] > 40)
    db.sql("INSERT INTO u VALUES (1)")
    planned = []
    frame = PreparedJobs.frame

    def counted(self, key, build):
        return frame(self, key, lambda: planned.append(key[0]) or build())

    monkeypatch.setattr(PreparedJobs, "frame", counted)
    before = db.engine.jobs.list()[0]["rows_read"]
    for number in range(3):
        db.sql(f"INSERT INTO t VALUES (1, {number}), (2, {number})")
    eventually(lambda: db.engine.jobs.list()[0]["rows_read"] > before + 40)
    db.sql("INSERT INTO t VALUES (1, 7)")
    assert [kind for kind in planned if kind == "epoch"] == [], "an epoch was planned again"
    db.sql("ALTER MATERIALIZED VIEW filling SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT filling")
    assert db.sql("CHECK MATERIALIZED VIEW filling").rows()[0][0].startswith("equal, 300 rows")
