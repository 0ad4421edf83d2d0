"""Commits that are in the log and not visible, and transactions that began before anybody looked."""

from __future__ import annotations

import threading

import pytest

from headrace.engine import splits
from tests.engine.cdc import stories
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, caught_up, follower, rows, theirs
from tests.engine.conftest import eventually

pytestmark = NEEDS_POSTGRES


def test_a_commit_that_is_logged_and_not_visible_is_not_lost(db, postgres, source):
    """The log has it, no SELECT sees it: for as long as a standby does not answer."""
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'old' FROM generate_series(1, 20) g"
    )
    postgres.run("CREATE TABLE other (id int PRIMARY KEY)")
    db.sql("CREATE TABLE other (*) FROM pg TABLE 'other'; WAIT other")
    postgres.run("ALTER SYSTEM SET synchronous_standby_names = 'nonexistent'")
    postgres.run("SELECT pg_reload_conf()")
    eventually(lambda: postgres.run("SHOW synchronous_standby_names")[0][0] == "nonexistent")
    held = postgres.connect()
    change = "UPDATE t SET v = 'new' WHERE id = 5; DELETE FROM t WHERE id = 6; INSERT INTO t VALUES (21, 'new')"
    change = f"SET synchronous_commit = on; BEGIN; {change}; COMMIT"
    writer = threading.Thread(target=lambda: held.cursor().execute(change), daemon=True)
    writer.start()
    eventually(lambda: postgres.run("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
    assert postgres.run("SELECT v FROM t WHERE id = 5") == [("old",)]
    made = threading.Thread(
        target=lambda: db.session().sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 3)"),
        daemon=True,
    )
    made.start()
    eventually(lambda: db.engine.committed.catalog.find("t") is not None)
    # It waits, because a transaction runs that may have written to the table before it was published.
    eventually(lambda: follower(db).waits_for_others(db.engine.committed.catalog.find("t").id))
    assert rows(db, "SELECT * FROM t") == []
    postgres.run("ALTER SYSTEM RESET synchronous_standby_names")
    postgres.run("SELECT pg_reload_conf()")
    writer.join(60)
    held.close()
    made.join(60)
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


def test_a_commit_that_is_held_while_chunks_are_read(db, postgres, source, monkeypatch):
    """The same race in the middle of a snapshot: what was logged is taken only when everybody can see it."""
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'old' FROM generate_series(1, 40) g"
    )
    gate, reached = threading.Event(), threading.Event()
    read = splits.read_chunk

    def slow(*arguments):
        staged = read(*arguments)
        reached.set()
        assert gate.wait(60)
        return staged

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", slow)
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 5, backfill.parallelism = 2)")
    assert reached.wait(60)
    postgres.run("ALTER SYSTEM SET synchronous_standby_names = 'nonexistent'")
    postgres.run("SELECT pg_reload_conf()")
    eventually(lambda: postgres.run("SHOW synchronous_standby_names")[0][0] == "nonexistent")
    held = postgres.connect()
    change = "UPDATE t SET v = 'new' WHERE id IN (5, 25); DELETE FROM t WHERE id IN (6, 26)"
    change = f"SET synchronous_commit = on; BEGIN; {change}; COMMIT"
    writer = threading.Thread(target=lambda: held.cursor().execute(change), daemon=True)
    writer.start()
    eventually(lambda: postgres.run("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
    eventually(lambda: follower(db)._stream.peek(1))
    gate.set()
    eventually(lambda: rows(db, "SELECT v FROM t"))  # the chunk that was read lands all the same
    assert follower(db)._stream.peek(1), "a transaction that nobody can see was taken"
    assert ("new",) not in rows(db, "SELECT v FROM t")
    postgres.run("ALTER SYSTEM RESET synchronous_standby_names")
    postgres.run("SELECT pg_reload_conf()")
    writer.join(60)
    held.close()
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


@pytest.mark.parametrize("before", [True, False], ids=["before-it-lands", "before-it-is-read"])
def test_truncate_while_a_chunk_is_read(db, followed, monkeypatch, before):
    stories.truncate_while_a_chunk_is_read(db, followed, monkeypatch, before=before)


def test_chunks_that_miss_too_much_are_read_again_in_smaller_splits(db, postgres, source, monkeypatch):
    """What waits for a chunk is bounded, by its bytes, however long the chunk takes."""
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'old' FROM generate_series(1, 40) g"
    )
    gate, reached, splits_read = threading.Event(), threading.Event(), []
    read = splits.read_chunk

    def slow(*arguments):
        staged = read(*arguments)
        splits_read.append(arguments[-1])
        reached.set()
        assert gate.wait(60)
        return staged

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", slow)
    monkeypatch.setattr("headrace.engine.follower.LATE_BYTES", 20_000)
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 40, backfill.parallelism = 1)")
    assert reached.wait(60)
    postgres.run("UPDATE t SET v = repeat('x', 20000) WHERE id = 3")
    (table,) = follower(db)._tables.values()
    eventually(lambda: table.split_rows == 20)
    assert all(flight.late_bytes <= 20_000 for flight in table.intake.flights)
    gate.set()
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert splits_read[0] == [None, None] and len(splits_read) >= 3
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


def test_a_transaction_that_wrote_before_the_table_was_published(db, postgres, source):
    """Its changes are only partly in the log; so the snapshot waits for it."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a')")
    writer = postgres.connect()
    writer.autocommit = False
    cursor = writer.cursor()
    cursor.execute("INSERT INTO t VALUES (2, 'early'); UPDATE t SET v = 'b' WHERE id = 1")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'")
    id = db.engine.committed.catalog.find("t").id
    eventually(lambda: follower(db).waits_for_others(id))
    assert [row[4] for row in db.sql("SHOW JOBS").rows()] == ["waiting"]
    cursor.execute("INSERT INTO t VALUES (3, 'late')")
    writer.commit()
    writer.close()
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == [(1, "b"), (2, "early"), (3, "late")]
