"""What becomes of a statement that the epoch loop works on, or has in its queue, when nobody wants it any more."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest

from headrace.engine.coordinator import Mutation
from tests.support.waiting import eventually


class Running:
    """A statement in a thread of its own."""

    def __init__(self, connection: psycopg.Connection, sql: str):
        self.connection, self.notices, self.told = connection, [], threading.Event()
        self.error: Exception | None = None
        connection.add_notice_handler(self._hear)
        self._thread = threading.Thread(target=self._run, args=(sql,), daemon=True)
        self._thread.start()

    def _hear(self, notice) -> None:
        self.notices.append(notice.message_primary)
        self.told.set()

    def _run(self, sql: str) -> None:
        try:
            self.connection.execute(sql)
        except Exception as error:
            self.error = error

    @property
    def runs(self) -> bool:
        return self._thread.is_alive()

    def cancel(self) -> Exception | None:
        # Not cancel(): it holds Python's lock while it waits for the server, which is in the same process here.
        self.connection.cancel_safe()
        return self.end()

    def end(self) -> Exception | None:
        self._thread.join(120)
        assert not self.runs
        return self.error


@pytest.fixture
def long_rows(long_query) -> str:
    """A query that would take minutes to write."""
    return f"SELECT x % 1000 AS x FROM ({long_query}) AS products(x)"


@pytest.fixture
def quiet(database) -> Callable[[], None]:
    """Waits until nothing is left to compute."""
    tracker = database.engine.spark.sparkContext._jsc.sc().statusTracker()
    return lambda: eventually(lambda: not sum(each.numRunningTasks() for each in tracker.getExecutorInfos()))


def test_a_table_that_is_made_of_a_query(connect, table, long_rows, quiet):
    other = connect()
    running = Running(connect(), f"CREATE TABLE {table} AS {long_rows}")
    assert running.told.wait(120), running.error
    behind = Running(other, f"CREATE TABLE {table}_behind (id int PRIMARY KEY)")
    eventually(lambda: behind.runs)
    assert isinstance(running.cancel(), psycopg.errors.QueryCanceled), running.error
    assert ["in one epoch" in text for text in running.notices] == [True]
    assert behind.end() is None, "it waited, and is not cancelled"
    quiet()
    assert other.execute(f"SHOW TABLES LIKE '{table}%'").fetchall() == [(f"{table}_behind",)]
    running.connection.execute(f"CREATE TABLE {table} AS SELECT 1 AS x")
    assert other.execute(f"SELECT x FROM {table}").fetchall() == [(1,)]


def test_an_insert_that_takes_longer_than_it_may(connect, table, long_rows, quiet):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int)")
    connection.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT count(*) AS n FROM {table}")
    connection.execute("SET statement_timeout = '1s'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        connection.execute(f"INSERT INTO {table} {long_rows}")
    connection.execute("RESET statement_timeout")
    quiet()
    connection.execute(f"INSERT INTO {table} VALUES (1)")
    assert connection.execute(f"SELECT n FROM {table}_v").fetchall() == [(1,)]


def test_a_limit_that_no_timer_can_wait_for_is_none(connect, monkeypatch):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    connection = connect()
    connection.execute("SET statement_timeout = '100000000000s'")
    assert [connection.execute("SELECT 1").fetchone() for _ in range(3)] == [(1,)] * 3
    assert failed == []


def test_what_has_not_begun_is_taken_out_of_the_queue(connect, table, long_rows, database, quiet):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    first = Running(connection, f"CREATE TABLE {table}_long AS {long_rows}")
    queue = database.engine.coordinator._queue
    eventually(lambda: database.engine.coordinator.lag > 0 and not queue)
    waiting = [
        Running(connect(), sql)
        for sql in (
            f"INSERT INTO {table} VALUES (1)",
            f"DELETE FROM {table}",
            f"CREATE INDEX {table}_i ON {table} (id)",
        )
    ]
    eventually(lambda: len(queue) == len(waiting))
    for each in waiting:
        assert isinstance(each.cancel(), psycopg.errors.QueryCanceled), each.error
    assert first.runs and not queue
    assert isinstance(first.cancel(), psycopg.errors.QueryCanceled), first.error
    quiet()
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]


@pytest.fixture
def occupied(database) -> Iterator[Callable[[], threading.Event]]:
    """The epoch loop waits, in a definition of nobody's, until an event is set."""
    held = []

    def occupy() -> threading.Event:
        go_on = threading.Event()
        held.append(go_on)

        def wait(state, epoch):
            go_on.wait(120)
            return state, None

        database.engine.coordinator.submit(Mutation(apply=wait, describe="waiting"))
        return go_on

    yield occupy
    for each in held:
        each.set()


def test_other_statements_that_have_not_begun(connect, table, occupied):
    """Drivers send what has parameters as a pipeline, one row, too."""
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    connection.execute("SET statement_timeout = '500ms'")
    go_on = occupied()
    for statement in (f"INSERT INTO {table} VALUES (%b)", "FLUSH"):
        with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
            connection.execute(statement, (1,) if "%" in statement else None)
    go_on.set()
    connection.execute("RESET statement_timeout")
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(0,)]


def test_an_insert_that_there_is_no_room_for_in_the_queue(connect, table, database, occupied, monkeypatch):
    monkeypatch.setattr("headrace.engine.coordinator.QUEUE_ROWS", 2)
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    go_on = occupied()
    first = Running(connect(), f"INSERT INTO {table} VALUES (1), (2)")
    eventually(lambda: database.engine.coordinator.queued_rows == 2)
    connection.execute("SET statement_timeout = '500ms'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        connection.execute(f"INSERT INTO {table} VALUES (3)")
    assert not go_on.is_set()
    go_on.set()
    assert first.end() is None
    connection.execute("RESET statement_timeout")
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchall() == [(2,)]


def test_what_is_done_is_told_though_it_was_cancelled(connect, table, database, occupied):
    """Its epoch has others in it, which take longer."""
    connection, found = connect(), []
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    coordinator = database.engine.coordinator
    first = occupied()
    eventually(lambda: coordinator.lag > 0 and not coordinator._queue)
    sql = f"INSERT INTO {table} VALUES (1) RETURNING id"
    asking = threading.Thread(target=lambda: found.extend(connection.execute(sql).fetchall()), daemon=True)
    asking.start()
    eventually(lambda: len(coordinator._queue) == 1)
    behind = occupied()
    first.set()
    eventually(lambda: not coordinator._queue and coordinator._waiting)
    connection.cancel_safe()
    behind.set()
    asking.join(60)
    assert found == [(1,)] and connection.execute(f"SELECT id FROM {table}").fetchall() == [(1,)]


def test_an_index_that_is_waited_for(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)")
    connection.execute(f"INSERT INTO {table} SELECT x, x FROM generate_series(1, 1000) s(x)")
    connection.execute("SET backfill_rate_limit = 0")
    running = Running(connection, f"CREATE INDEX {table}_i ON {table} (n)")
    assert running.told.wait(120), running.error
    assert isinstance(running.cancel(), psycopg.errors.QueryCanceled), running.error
    assert connection.execute(f"SHOW INDEXES FROM {table}").fetchall() == []
    assert connection.execute("SHOW JOBS").fetchall() == []
