"""What following costs the server: locks, long transactions, log that it keeps."""

from __future__ import annotations

import itertools
import threading

from headrace.cdc.postgres.server import parse_lsn
from headrace.engine import splits
from headrace.engine.following import source_state
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, caught_up, follower, rows, theirs
from tests.engine.conftest import eventually

pytestmark = NEEDS_POSTGRES

LOCKS = """
SELECT l.mode FROM pg_locks l JOIN pg_stat_activity a USING (pid)
WHERE a.application_name = 'headrace' AND l.locktype = 'relation' AND l.relation = 't'::regclass
"""
TRANSACTIONS = (
    "SELECT state, query FROM pg_stat_activity WHERE application_name = 'headrace' AND xact_start IS NOT NULL"
)


def test_a_snapshot_locks_nothing_and_holds_nothing_open(db, postgres, source, monkeypatch):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    postgres.run("INSERT INTO t SELECT g, repeat('x', 1000) FROM generate_series(1, 3000) g")
    seen: set[str] = set()
    over, between, go_on = threading.Event(), threading.Event(), threading.Event()
    connection = postgres.connect()

    def watch() -> None:
        with connection.cursor() as cursor:
            while not over.is_set():
                cursor.execute(LOCKS)
                seen.update(mode for (mode,) in cursor.fetchall())

    read, numbers = splits.read_chunk, itertools.count(1)

    def hold_third(*arguments):
        number, staged = next(numbers), read(*arguments)
        if number == 3:
            between.set()
            assert go_on.wait(60)
        return staged

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", hold_third)
    wanted = "backfill.num_rows_per_split = 200, backfill.parallelism = 2"
    db.sql(f"PAUSE; CREATE TABLE t (*) FROM pg TABLE 't' WITH ({wanted})")
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    db.sql("RESUME")
    assert between.wait(60)
    # A chunk has been read and has not landed: its transaction is over, and writers and DDL are free to do anything.
    eventually(lambda: not [row for row in postgres.run(TRANSACTIONS) if "START_REPLICATION" not in row[1]])
    postgres.run("SET lock_timeout = '5s'; ALTER TABLE t SET (fillfactor = 90)")
    postgres.run("VACUUM t")
    postgres.run("UPDATE t SET v = 'y' WHERE id % 100 = 0")
    go_on.set()
    db.sql("WAIT t")
    over.set()
    watcher.join()
    connection.close()
    assert seen <= {"AccessShareLock"} and seen
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


def test_log_of_others_is_let_go(db, postgres, source, monkeypatch):
    """Nothing happens to the tables that are followed, and much to others: the server need not keep that."""
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE busy (v text)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run("INSERT INTO busy SELECT repeat('x', 100) FROM generate_series(1, 20000)")
    (end,) = postgres.run("SELECT pg_current_wal_lsn()::text")[0]

    def confirmed() -> int:
        return parse_lsn(postgres.run("SELECT confirmed_flush_lsn::text FROM pg_replication_slots")[0][0])

    eventually(lambda: confirmed() >= parse_lsn(end))
    assert rows(db, "SELECT * FROM t") == []


def test_the_slot_is_never_ahead_of_what_is_committed(db, postgres, source, monkeypatch):
    """Who is killed finds it where the manifest says, or before. What else the server has sent, we have not got yet."""
    monkeypatch.setattr("headrace.cdc.postgres.stream.FEEDBACK_SECONDS", 0.05)
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.5)
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1); CREATE TABLE busy (n int)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run("INSERT INTO t VALUES (2)")
    caught_up(db, postgres)
    before = source_state(db.engine.committed, follower(db)._id).lsn
    for _ in range(50):
        postgres.run("INSERT INTO busy SELECT generate_series(1, 500)")
        confirmed = parse_lsn(postgres.run("SELECT confirmed_flush_lsn::text FROM pg_replication_slots")[0][0])
        assert confirmed <= source_state(db.engine.committed, follower(db)._id).lsn
    eventually(lambda: source_state(db.engine.committed, follower(db)._id).lsn > before)
