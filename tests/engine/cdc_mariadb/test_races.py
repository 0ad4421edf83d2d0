"""What is in the log before a SELECT sees it, and what changes while a chunk is read."""

from __future__ import annotations

import threading

import pytest

from headrace.cdc.mysql.positions import Snapshot
from headrace.cdc.mysql.server import Control
from headrace.cdc.mysql.session import Address
from headrace.engine import splits
from tests.engine.cdc import stories
from tests.engine.cdc_mariadb.conftest import (
    BOTH,
    caught_up,
    commits_held,
    follower,
    log_end,
    rows,
    servers,
    theirs,
)
from tests.engine.conftest import eventually
from tests.support.mariadb import PASSWORD, USER

SERVERS = BOTH
FORTY = ("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", "INSERT INTO t SELECT seq, 'old' FROM seq_1_to_40")


class Held:
    """A transaction that is in the log and that nobody sees."""

    def __init__(self, mariadb, *statements: str):
        self._connection = mariadb.connect()
        self._before = log_end(mariadb)
        self._thread = threading.Thread(target=self._run, args=(statements,), daemon=True)
        self._thread.start()
        eventually(lambda: log_end(mariadb) > self._before)

    def _run(self, statements: tuple[str, ...]) -> None:
        with self._connection.cursor() as cursor:
            for statement in ("BEGIN", *statements, "COMMIT"):
                cursor.execute(statement)

    def end(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()
        self._connection.close()


CHANGES = (
    "UPDATE t SET v = 'new' WHERE id IN (5, 25)", "DELETE FROM t WHERE id IN (6, 26)",
    "INSERT INTO t VALUES (41, 'new'), (0, 'new')",
)  # fmt: skip


def through_a_held_commit(db, mariadb, gate: threading.Event, reached: threading.Event, *, lost: bool = False) -> None:
    """A transaction is held in its commit while the first chunk has been read and others have not. `lost`: it will be
    taken too early, which may be a while after the chunk came."""
    db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (backfill.num_rows_per_split = 5, backfill.parallelism = 2)")
    assert reached.wait(60)
    with commits_held(mariadb):
        held = Held(mariadb, *CHANGES)
        eventually(lambda: follower(db)._stream.received >= log_end(mariadb))
        assert mariadb.run("SELECT v FROM t WHERE id = 5") == [("old",)]
        gate.set()
        if lost:
            eventually(lambda: not follower(db)._stream.peek(1) or ("new",) in rows(db, "SELECT v FROM t"))
        elif mariadb.name == "MariaDB":
            eventually(lambda: rows(db, "SELECT v FROM t"))  # the chunk that was read lands all the same
        assert follower(db)._stream.peek(1), "a transaction that nobody can see was taken"
        assert ("new",) not in rows(db, "SELECT v FROM t")
    held.end()
    db.sql("WAIT t")
    caught_up(db, mariadb)


@pytest.fixture
def slow_chunks(monkeypatch) -> tuple[threading.Event, threading.Event]:
    """What is read does not arrive until it is let through."""
    gate, reached = threading.Event(), threading.Event()
    read = splits.read_chunk

    def slow(*arguments):
        staged = read(*arguments)
        reached.set()
        assert gate.wait(60)
        return staged

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", slow)
    return gate, reached


def test_a_commit_that_is_held_while_chunks_are_read(db, mariadb, source, slow_chunks):
    mariadb.run(*FORTY)
    through_a_held_commit(db, mariadb, *slow_chunks)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")


def test_the_end_of_the_log_would_lose_it(db, mariadb, source, slow_chunks, monkeypatch):
    """A canary: with the mark that others take, the test above fails."""
    monkeypatch.setattr(Control, "snapshot", lambda control: Snapshot(log_end(mariadb)))
    mariadb.run(*FORTY)
    with pytest.raises(AssertionError, match="nobody can see|new"):
        through_a_held_commit(db, mariadb, *slow_chunks, lost=True)


@servers("mariadb")
def test_a_commit_that_is_held_when_a_table_is_created(db, mariadb, source):
    mariadb.run(*FORTY)
    with commits_held(mariadb):
        held = Held(mariadb, *CHANGES)
        db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (backfill.num_rows_per_split = 50); WAIT t")
        assert sorted(row[1] for row in rows(db, "SELECT * FROM t")) == ["old"] * 40
    held.end()
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")


@servers("mysql")
def test_a_table_waits_for_a_commit_that_is_held(db, mariadb, source):
    """MySQL does not say what a snapshot shows, only whose commits are not through yet: so chunks are read, and land
    when all is through that was in the log."""
    mariadb.run(*FORTY)
    with commits_held(mariadb):
        held = Held(mariadb, *CHANGES)
        db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (backfill.num_rows_per_split = 5)")
        eventually(lambda: follower(db)._stream.received >= log_end(mariadb))
        assert ("new",) not in rows(db, "SELECT v FROM t")
    held.end()
    db.sql("WAIT t")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")


@servers("mysql")
def test_numbers_that_somebody_keeps_hold_up_nobody(db, mariadb, source):
    """Somebody may own one for as long as they like; what is not in the log need not be waited for."""
    mariadb.run(*FORTY)
    owner = mariadb.connect()
    with owner.cursor() as cursor:
        cursor.execute("SET gtid_next = 'bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb:7'")
        assert "bbbb" in mariadb.run("SELECT @@GLOBAL.gtid_owned")[0][0]
        db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (backfill.num_rows_per_split = 5); WAIT t")
        mariadb.run("DELETE FROM t WHERE id = 1")
        caught_up(db, mariadb)
        assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")
        cursor.execute("INSERT INTO t VALUES (50, 'own')")
        cursor.execute("SET gtid_next = 'AUTOMATIC'")
    owner.close()
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")


def test_splits_of_a_chunk_see_different_moments(db, mariadb, source, monkeypatch):
    """No two connections share a snapshot. What is committed between two of them is in one split and not in another."""
    mariadb.run(*FORTY)
    between = splits.run_tasks
    reads = []

    def one_after_the_other(spark, body, tasks, report):
        import pyarrow as pa

        found = []
        for task in tasks:
            found.append(between(spark, body, [task], report))
            number = len(reads)
            reads.append(task)
            mariadb.run(
                f"UPDATE t SET v = 'u{number}' WHERE id % 10 = {number % 10}",
                f"UPDATE t SET id = {100 + number} WHERE id = {3 + number}",
                f"UPDATE t SET id = {-1 - number} WHERE id = {38 - number}",
                f"DELETE FROM t WHERE id = {20 + number}",
                f"INSERT IGNORE INTO t VALUES ({20 + number}, 'again')",
            )
        return pa.concat_tables(found)

    monkeypatch.setattr(splits, "run_tasks", one_after_the_other)
    db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (backfill.num_rows_per_split = 4, backfill.parallelism = 3)")
    db.sql("WAIT t")
    caught_up(db, mariadb)
    assert len(reads) > 3
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")


@pytest.mark.parametrize("before", [True, False], ids=["before-it-lands", "before-it-is-read"])
def test_truncate_while_a_chunk_is_read(db, followed, monkeypatch, before):
    stories.truncate_while_a_chunk_is_read(db, followed, monkeypatch, before=before)


def test_reading_locks_nothing_and_leaves_no_transaction(mariadb):
    """A SELECT that is in the middle of a table, because nobody fetches what it has found."""
    mariadb.run(
        "CREATE TABLE t (id INT PRIMARY KEY, v TEXT)",
        "INSERT INTO t SELECT seq, REPEAT('x', 2000) FROM seq_1_to_20000",
    )
    address = Address(host="127.0.0.1", port=mariadb.port, user=USER, database="shop", password=PASSWORD)
    session, control = address.session(), Control(address)
    batches = session.packets(control.table("shop", "t").rows_between(None, None), 10)
    first = len(next(batches).starts)
    assert 10 <= first < 1_000
    control.snapshot()
    look = "SELECT trx_tables_locked, trx_rows_locked, trx_lock_structs FROM information_schema.innodb_trx"
    assert mariadb.run(look) == [(0, 0, 0)]
    mariadb.run(
        "SET SESSION innodb_lock_wait_timeout = 1", "UPDATE t SET v = 'y'", "DELETE FROM t WHERE id % 2 = 0",
        "INSERT INTO t VALUES (20001, 'z')",
    )  # fmt: skip
    assert sum(len(batch.starts) for batch in batches) == 20_000 - first
    assert mariadb.run(look) == []
    session.close()
    control.close()
