"""psycopg 3: values both ways, cursors, pipelines, transactions, COPY, cancellation."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import partial
from uuid import UUID

import psycopg
import pytest
from psycopg.types.json import Jsonb

from headrace.serving.server import copying
from headrace.serving.wire.copy_format import read_pieces
from tests.support.waiting import eventually

ROW = (
    True, 7, 2**40, 1.5, "it's", b"\0\1", date(2026, 2, 3), datetime(2026, 2, 3, 4, 5, 6, 700),
    datetime(2026, 2, 3, tzinfo=UTC), timedelta(days=1, hours=2), Decimal("12.50"), {"a": [1, None]}, [1, None, 3],
    UUID(int=2**127 + 1), [UUID(int=7), None], time(4, 5, 6, 700), [time(0), None],
)  # fmt: skip
TYPES = (
    "bool, int, bigint, float8, varchar, bytea, date, timestamp, timestamptz, interval, numeric(10,2), jsonb, int[],"
    " uuid, uuid[], time, time[]"
)
OIDS = [16, 23, 20, 701, 1043, 17, 1082, 1114, 1184, 1186, 1700, 3802, 1007, 2950, 2951, 1083, 1183]


@pytest.mark.parametrize("binary", [False, True])
def test_values_come_back_as_they_were_sent(connect, table, binary):
    columns = ", ".join(f"c{at} {kind}" for at, kind in enumerate(TYPES.split(", ")))
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, {columns})")
    sent = [Jsonb(value) if isinstance(value, dict) else value for value in ROW]
    mark = "%b" if binary else "%t"
    connection.execute(f"INSERT INTO {table} VALUES (1, {', '.join([mark] * len(ROW))})", sent)
    connection.execute(f"INSERT INTO {table} (id) VALUES (2)")
    cursor = connection.cursor(binary=binary)
    cursor.execute(f"SELECT * FROM {table} ORDER BY id")
    assert [column.type_code for column in cursor.description][1:] == OIDS
    assert cursor.fetchall() == [(1, *ROW), (2, *[None] * len(ROW))]


def test_command_tags_and_counts(connect, table):
    connection = connect()
    assert connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)").statusmessage == "CREATE_TABLE"
    cursor = connection.cursor()
    cursor.executemany(f"INSERT INTO {table} VALUES (%s)", [(n,) for n in range(20)])
    assert cursor.rowcount == 20
    assert connection.execute(f"DELETE FROM {table} WHERE id < %s RETURNING id", (2,)).rowcount == 2
    assert connection.execute(f"SELECT * FROM {table}").statusmessage == "SELECT 18"


def test_a_result_is_fetched_in_parts(connect):
    connection = connect(autocommit=False)
    with connection.cursor("named") as cursor:
        cursor.execute("SELECT x FROM generate_series(1, 100000) s(x)")
        assert cursor.fetchmany(3) == [(1,), (2,), (3,)]
        assert sum(1 for _ in cursor) == 99_997


def test_a_large_result_is_streamed(connect, server):
    cursor = connect().cursor()
    total = 0
    for (value,) in cursor.stream("SELECT x FROM generate_series(1, 300000) s(x)", size=1000):
        total += value
    assert total == 300_000 * 300_001 // 2


def test_pipeline(connect):
    connection = connect()
    with connection.pipeline():
        first, second = connection.execute("SELECT 1"), connection.execute("SELECT %s::int + 1", (5,))
        assert (first.fetchone(), second.fetchone()) == ((1,), (6,))
    later = None  # it is not even sent if the error is back before
    with pytest.raises(psycopg.errors.UndefinedTable), connection.pipeline() as pipeline:
        connection.execute("SELECT * FROM nowhere")
        later = connection.execute("SELECT 1")
        pipeline.sync()
    skipped = later is None or later.pgresult is None
    assert skipped or later.pgresult.status != psycopg.pq.ExecStatus.TUPLES_OK
    assert connection.execute("SELECT 2").fetchone() == (2,)


def test_prepared_statements(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n varchar)")
    connection.execute(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')")
    for id, name in ((1, "a"), (2, "b"), (3, None)):
        found = connection.execute(f"SELECT n FROM {table} WHERE id = %s", (id,), prepare=True).fetchone()
        assert found == (None if name is None else (name,))


def test_prepare_and_execute_in_sql(connect, table):
    connection = connect()

    def ask(sql: str) -> list[tuple]:
        return connection.execute(sql).fetchall()

    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n varchar, d date)")
    assert connection.execute(f"PREPARE put AS INSERT INTO {table} VALUES ($1, $2, $3)").statusmessage == "PREPARE"
    assert connection.execute("EXECUTE put (1, 'it''s', '2026-01-01')").statusmessage == "INSERT 0 1"
    assert connection.execute("EXECUTE put (1 + 1, lower('B'), NULL)").statusmessage == "INSERT 0 1"
    ask_for = f"PREPARE ask (bigint, int) AS SELECT n, d, $1 FROM {table} WHERE id = $1 LIMIT $2"
    connection.execute(ask_for)
    assert ask("EXECUTE ask (1, 5)") == [("it's", date(2026, 1, 1), 1)]
    assert connection.execute("EXECUTE ask (%s, %s)", (2, 5)).fetchall() == [("b", None, 2)]
    with pytest.raises(psycopg.errors.DuplicatePreparedStatement):
        connection.execute(ask_for)
    with pytest.raises(psycopg.errors.SyntaxError, match="wrong number of parameters"):
        connection.execute("EXECUTE ask (1)")
    with pytest.raises(psycopg.errors.SyntaxError) as caught:
        connection.execute("PREPARE wrong AS SELECT $1 FROM WHERE")
    assert caught.value.diag.statement_position == "33"
    with pytest.raises(psycopg.errors.SyntaxError, match="can be prepared"):
        connection.execute("PREPARE wrong AS FLUSH")
    assert connection.execute("DEALLOCATE ask").statusmessage == "DEALLOCATE"
    with pytest.raises(psycopg.errors.InvalidSqlStatementName):
        connection.execute("EXECUTE ask (1, 5)")


def test_errors_point_into_the_text_that_was_sent(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    for parameters in (("a parameter that is much longer than its place",), ("",)):
        with pytest.raises(psycopg.errors.UndefinedColumn) as caught:
            connection.execute(f"SELECT %s::varchar, nothing FROM {table}", parameters)
        assert caught.value.diag.statement_position == "21"


def test_a_pipeline_of_inserts_is_one_commit(database, connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int NOT NULL)")
    connection.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id, 10 / n AS tenth FROM {table}")
    before = database.engine.coordinator.stats.epochs
    with connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s)", [(id % 500, id + 1) for id in range(600)])
        assert cursor.rowcount == 600
    assert database.engine.coordinator.stats.epochs - before < 20
    assert connection.execute(f"SELECT count(*), max(n) FROM {table}").fetchone() == (500, 600)

    # One that fails while it is bound, and one that fails in the epoch.
    with pytest.raises(psycopg.errors.NotNullViolation), connection.cursor() as cursor:
        cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s)", [(1001, 1), (1002, None), (1003, 1)])
    assert connection.execute(f"SELECT id FROM {table} WHERE id > 1000").fetchall() == [(1001,)]
    with pytest.raises(psycopg.errors.DivisionByZero), connection.pipeline() as pipeline:
        connection.execute(f"INSERT INTO {table} VALUES (2001, 1)")
        connection.execute(f"INSERT INTO {table} VALUES (2002, 0)")
        pipeline.sync()
    with connection.pipeline():
        connection.execute(f"INSERT INTO {table} VALUES (3001, 1)")
        found = connection.execute(f"SELECT n FROM {table} WHERE id = 3001")
        connection.execute(f"INSERT INTO {table} VALUES (3002, 1)")
        assert found.fetchall() == [(1,)], "a query sees what was sent before it"
    assert connection.execute(f"SELECT id FROM {table} WHERE id > 3000 ORDER BY id").fetchall() == [(3001,), (3002,)]


def test_sessions_have_variables_of_their_own(connect):
    one, other = connect(options="-c backfill_rate_limit=7"), connect()
    other.execute("SET background_ddl = true")
    for connection, values in ((one, ("false", "7")), (other, ("true", "default"))):
        assert connection.execute("SHOW background_ddl").fetchone() == values[:1]
        assert connection.execute("SELECT current_setting('backfill_rate_limit')").fetchone() == values[1:]


def test_a_client_that_is_in_another_time_zone(connect):
    connection, other = connect(options="-c timezone=Europe/Berlin"), connect()
    assert connection.info.parameter_status("TimeZone") == "Europe/Berlin"
    moment = connection.execute("SELECT timestamptz '2024-07-01 12:00'").fetchone()[0]
    assert (moment.isoformat(), str(moment.tzinfo)) == ("2024-07-01T12:00:00+02:00", "Europe/Berlin")
    for binary in (False, True):  # what is asked with parameters is meant there, too
        answer = connection.execute(
            "SELECT %s::timestamptz::date, %s::text", ("2024-07-01 00:30", moment), binary=binary
        )
        assert answer.fetchone() == (date(2024, 7, 1), "2024-07-01 12:00:00+02")
    assert other.execute("SELECT timestamptz '2024-07-01 12:00'::text").fetchone() == ("2024-07-01 12:00:00+00",)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        connection.execute("SET timezone = 'Mars/Olympus'")
    with pytest.raises(psycopg.OperationalError, match="DateStyle"):
        connect(options="-c datestyle=German")


def test_a_client_in_the_c_locale(psql, connect):
    """psql says SQL_ASCII then, of its own accord: bytes as they are, which are UTF-8."""
    answer = psql("SELECT 'ä'", "SHOW client_encoding", env=os.environ | {"PGCLIENTENCODING": "SQL_ASCII"})
    assert answer.stdout.split() == ["ä", "UTF8"], answer.stderr
    with pytest.raises(psycopg.OperationalError, match="client_encoding"):
        connect(client_encoding="LATIN1")


def test_errors_say_where(connect):
    with pytest.raises(psycopg.errors.SyntaxError) as caught:
        connect().execute("SELECT * FORM t")
    assert caught.value.diag.statement_position == "10"
    with pytest.raises(psycopg.errors.UndefinedTable) as caught:
        connect().execute("SELECT * FROM nowhere")
    assert caught.value.diag.message_hint.startswith("SHOW TABLES")


def test_a_failed_transaction_takes_no_statement_of_the_connection_either(connect, table):
    notices = []
    connection = connect()
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    connection.execute("BEGIN")
    connection.execute("DECLARE c CURSOR FOR SELECT 1")
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    for sql in (f"COPY {table} FROM STDIN", "FETCH c", "MOVE c", "CLOSE c", "PREPARE p AS SELECT 1", "DEALLOCATE ALL"):
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            connection.execute(sql)
    connection.execute("ROLLBACK")
    connection.execute("BEGIN")
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN") as copy:
        copy.write_row((7,))
    connection.execute("ROLLBACK")
    assert notices[-1].startswith("nothing is undone")
    with pytest.raises(psycopg.DataError, match="line 3"):
        with connection.cursor() as cursor, cursor.copy(f"COPY {table} FROM STDIN (FORMAT csv, HEADER)") as copy:
            copy.write("id\n8\nx\n")
    assert connection.execute(f"SELECT * FROM {table}").fetchall() == [(7,)]


def test_what_is_read_only_writes_nothing(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    insert, copy = f"INSERT INTO {table} VALUES (1)", f"COPY {table} FROM STDIN"
    for begin in ("BEGIN READ ONLY", "BEGIN; SET TRANSACTION READ ONLY", "BEGIN; SET transaction_read_only = on"):
        for sql in (insert, copy, f"DROP TABLE {table}"):
            connection.execute(begin)
            assert connection.execute("SHOW transaction_read_only").fetchone() == ("on",)
            with pytest.raises(psycopg.errors.ReadOnlySqlTransaction, match=f"cannot execute {sql.split()[0]}"):
                connection.execute(sql)
            connection.execute("ROLLBACK")
    connection.execute("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        connection.execute(f"INSERT INTO {table} VALUES (%s)", (1,))
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    connection.execute("BEGIN READ WRITE")
    connection.execute(insert)
    connection.execute("COMMIT")
    connection.execute("SET default_transaction_read_only = off")
    connection.execute(f"INSERT INTO {table} VALUES (2)")


def test_held_cursors_stay(connect):
    connection = connect()
    connection.execute("BEGIN")
    for name, hold in (("held", "WITH HOLD"), ("plain", "")):
        connection.execute(f"DECLARE {name} CURSOR {hold} FOR SELECT * FROM (VALUES (1), (2), (3)) v(n)")
    assert connection.execute("FETCH held").fetchall() == [(1,)]
    connection.execute("COMMIT")
    assert connection.execute("FETCH held").fetchall() == [(2,)]
    with pytest.raises(psycopg.errors.InvalidCursorName):
        connection.execute("FETCH plain")
    connection.execute("BEGIN")
    connection.execute("DECLARE undone CURSOR WITH HOLD FOR SELECT 1")
    connection.execute("ROLLBACK")
    with pytest.raises(psycopg.errors.InvalidCursorName):
        connection.execute("FETCH undone")
    assert connection.execute("FETCH ALL held").fetchall() == [(3,)]
    connection.execute("CLOSE held")


@pytest.mark.parametrize("binary", [False, True])
def test_maps_are_texts(connect, binary):
    """PostgreSQL has no type for them."""
    query = "SELECT map('a', 1) AS m, ARRAY[map('b', 2)] AS several, count(*) AS n"
    with connect().cursor(binary=binary) as cursor:
        assert cursor.execute(query).fetchall() == [("{a:1}", ["{b:2}"], 1)]
        assert [column.type_code for column in cursor.description] == [25, 1009, 20]


def test_transactions_are_accepted_and_nothing_is_undone(connect, table):
    notices = []
    connection = connect(autocommit=False)
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary))
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    connection.execute(f"INSERT INTO {table} VALUES (1)")
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.INTRANS
    connection.rollback()
    assert connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    assert [text.split(":")[0] for text in notices] == ["there are no transactions", "nothing is undone"]
    assert connection.execute(f"SELECT * FROM {table}").fetchall() == [(1,)]
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    with pytest.raises(psycopg.errors.InFailedSqlTransaction):
        connection.execute("SELECT 1")
    connection.rollback()
    with connection.transaction(), pytest.raises(psycopg.errors.DivisionByZero), connection.transaction():
        connection.execute("SELECT 1 / 0")
    connection.commit()


def test_copy(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n varchar, d date)")
    rows = [(n, None if n % 2 else f"a\tb\\{n}", date(2026, 1, n + 1)) for n in range(20)]
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)
    assert connection.execute(f"SELECT * FROM {table} ORDER BY id").fetchall() == rows
    with connection.cursor().copy(
        f"COPY (SELECT id, n FROM {table} WHERE id < 2 ORDER BY id) TO STDOUT CSV HEADER"
    ) as copy:
        assert b"".join(copy) == b"id,n\n0,a\tb\\0\n1,\n"
    with connection.cursor().copy(f"COPY (SELECT id, n FROM {table} ORDER BY id) TO STDOUT") as copy:
        assert list(copy.rows()) == [(str(id), n) for id, n, _ in rows], "a message for each row"
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="line 2, column id"):
        with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
            copy.write(b"100\tx\t2026-01-01\nx\ty\t2026-01-01\n")
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (20,)


@pytest.mark.parametrize("form", ["text", "binary"])
def test_a_copy_of_many_rows_waits_in_files(connect, database, table, form, monkeypatch):
    """What waits is read by executors; as in a small one, the last row of a key is the one that stays."""
    monkeypatch.setattr("headrace.engine.arrivals.SMALL_ROWS", 10)
    monkeypatch.setattr(copying, "read_pieces", partial(read_pieces, piece_bytes=200))
    monkeypatch.setattr("headrace.serving.wire.copy_binary.PIECE_ROWS", 30)
    connection = connect()

    def copied(into: str, rows) -> int:
        cursor = connection.cursor()
        with cursor.copy(f"COPY {into} FROM STDIN (FORMAT {form})") as copy:
            copy.set_types(["int4", "varchar", "interval", "int4[]"])
            for row in rows:
                copy.write_row(row)
        return cursor.rowcount

    columns = "id int, n varchar, i interval, a int[]"
    row = [(n % 90, None if n % 7 else f"x{n}", timedelta(hours=n), [n, None]) for n in range(100)]
    last = {each[0]: each for each in row}
    first = {each[0]: each for each in reversed(row)}
    for name, more, kept in (
        ("a", "PRIMARY KEY (id)", last.values()),
        ("b", "PRIMARY KEY (id)) ON CONFLICT DO NOTHING", first.values()),
        ("c", "f int DEFAULT 5, g int GENERATED ALWAYS AS (f * 2) STORED", [(*each, 5, 10) for each in row]),
    ):
        connection.execute(f"CREATE TABLE {table}{name} ({columns}, {more}{'' if ')) ' in more else ')'}")
        into = f"{table}{name} (id, n, i, a)" if name == "c" else f"{table}{name}"
        assert copied(into, row) == (90 if name == "b" else 100)
        found = connection.execute(f"SELECT * FROM {table}{name}").fetchall()
        assert sorted(found, key=repr) == sorted(kept, key=repr)
    assert copied(f"{table}a", [(n, "new", None, None) for n in range(95)]) == 95
    assert connection.execute(f"SELECT count(*), count(i) FROM {table}a WHERE n = 'new'").fetchone() == (95, 0)
    with pytest.raises(psycopg.errors.NotNullViolation):
        copied(f"{table}a", [*row, (None, "x", None, None)])
    storage = database.engine.storage
    assert not database.engine.arriving and not list(storage.walk("staging"))


def test_copy_in_binary(connect, table):
    connection = connect()
    connection.execute(
        f"CREATE TABLE {table} (id int PRIMARY KEY, n varchar, d date, x numeric(10,2), b bytea, u uuid, t time)"
    )
    rows = [
        (
            n,
            None if n % 2 else f"a\t{n}",
            date(2026, 1, n + 1),
            Decimal(n) / 4,
            bytes([n]),
            UUID(int=n << 90),
            time(n, n),
        )
        for n in range(20)
    ]
    kinds = ["int4", "varchar", "date", "numeric", "bytea", "uuid", "time"]
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT binary)") as copy:
        copy.set_types(kinds)
        for row in rows:
            copy.write_row(row)
    with connection.cursor().copy(f"COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT (FORMAT binary)") as copy:
        copy.set_types(kinds)
        assert list(copy.rows()) == rows
    with pytest.raises(psycopg.errors.BadCopyFileFormat):
        with connection.cursor().copy(f"COPY {table} FROM STDIN WITH BINARY") as copy:
            copy.write(b"not that")


@pytest.mark.parametrize("binary", [False, True])
def test_uuids(connect, table, binary):
    """As keys; and to a column of text PostgreSQL assigns them, but does not compare it with them."""
    connection, mark = connect(), "%b" if binary else "%t"
    connection.execute(f"CREATE TABLE {table} (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), t varchar)")
    drawn = [UUID(int=number << 64) for number in range(5)]
    for each in drawn:
        connection.execute(f"INSERT INTO {table} VALUES ({mark}, {mark})", (each, each))
    connection.execute(f"INSERT INTO {table} (t) VALUES ('drawn')")
    cursor = connection.cursor(binary=binary)
    found = cursor.execute(f"SELECT id FROM {table} WHERE id = {mark}", (drawn[3],)).fetchall()
    assert found == [(drawn[3],)]
    several = cursor.execute(f"SELECT id, t FROM {table} WHERE id = ANY ({mark}) ORDER BY id", (drawn,)).fetchall()
    assert several == [(each, str(each)) for each in drawn]
    (made,) = cursor.execute(f"SELECT id FROM {table} WHERE t = 'drawn'").fetchone()
    assert isinstance(made, UUID) and made.version == 4
    text = cursor.execute(f"SELECT t FROM {table} WHERE id = %s", (str(drawn[2]).upper(),)).fetchone()
    assert text == (str(drawn[2]),)
    with pytest.raises(psycopg.errors.UndefinedFunction, match="operator does not exist"):
        connection.execute(f"SELECT 1 FROM {table} WHERE t = {mark}", (drawn[0],))
    with pytest.raises(psycopg.errors.InvalidTextRepresentation, match="invalid input syntax for type uuid"):
        connection.execute(f"SELECT 1 FROM {table} WHERE id = %s", ("x",))


@pytest.mark.parametrize("binary", [False, True])
def test_times(connect, table, binary):
    """As keys. psycopg has no 24:00 either."""
    connection, mark = connect(), "%b" if binary else "%t"
    connection.execute(f"CREATE TABLE {table} (t time PRIMARY KEY, short time(0))")
    given = [time(0), time(4, 5, 6, 789), time(23, 59, 59, 999_999)]
    for each in given:
        connection.execute(f"INSERT INTO {table} VALUES ({mark}, {mark})", (each, each.replace(microsecond=0)))
    cursor = connection.cursor(binary=binary)
    assert cursor.execute(f"SELECT t FROM {table} WHERE t = {mark}", (given[1],)).fetchall() == [(given[1],)]
    several = cursor.execute(f"SELECT t, t - %s FROM {table} WHERE t = ANY ({mark}) ORDER BY t", (time(4), given[1:]))
    assert several.fetchall() == [
        (each, timedelta(hours=each.hour - 4, minutes=each.minute, seconds=each.second, microseconds=each.microsecond))
        for each in given[1:]
    ]
    added = cursor.execute(f"SELECT %s::date + t, t + {mark} FROM {table} WHERE t > %s", (
        date(2026, 1, 2), timedelta(hours=1), "23:00",
    )).fetchone()  # fmt: skip
    assert added == (datetime(2026, 1, 2, 23, 59, 59, 999_999), time(0, 59, 59, 999_999))
    cursor.execute("SELECT time '24:00'")
    with pytest.raises(psycopg.DataError, match="24"):
        cursor.fetchone()
    with pytest.raises(psycopg.errors.DatetimeFieldOverflow):
        connection.execute(f"SELECT 1 FROM {table} WHERE t = %s", ("25:00",))


def cancelled_after(connection, wait, sql: str) -> None:
    def cancel() -> None:
        wait()
        # Not cancel(): it holds Python's lock while it waits for the server, which is in the same process here.
        connection.cancel_safe()

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="user request|cancel"):
        connection.execute(sql)
    canceller.join()


def test_a_running_query_can_be_cancelled(connect, long_query, wait_for_busy):
    connection = connect()
    cancelled_after(connection, wait_for_busy, long_query)
    assert connection.execute("SELECT 1").fetchone() == (1,)


@pytest.fixture
def compiled(database) -> Iterator[None]:
    """As queries are outside of tests, where they are loops of Java's and not of an interpreter."""
    conf, how = database.engine.spark.conf, {"wholeStage": "true", "factoryMode": "FALLBACK"}
    before = {name: conf.get(f"spark.sql.codegen.{name}") for name in how}
    for name, value in how.items():
        conf.set(f"spark.sql.codegen.{name}", value)
    yield
    for name, value in before.items():
        conf.set(f"spark.sql.codegen.{name}", value)


@pytest.mark.parametrize("condition", ["a.id + b.id + c.id > d.id", "a.id < b.id AND c.id < d.id"])
def test_a_loop_that_is_cancelled_gives_its_slots_back(
    database, connect, long_query, wait_for_busy, condition, compiled
):
    """All of it is one loop inside of Spark, which ends in minutes and hands out no row before."""
    connection = connect()
    query = f"SELECT count(*) FROM many a, many b, many c, many d WHERE {condition}"
    cancelled_after(connection, lambda: eventually(lambda: running_tasks(database) > 0), query)
    eventually(lambda: running_tasks(database) == 0)
    assert connection.execute("SELECT count(*) FROM many").fetchone() == (400,)


def running_tasks(database) -> int:
    tracker = database.engine.spark.sparkContext._jsc.sc().statusTracker()
    return sum(executor.numRunningTasks() for executor in tracker.getExecutorInfos())


def test_a_create_that_waits_can_be_cancelled_and_leaves_nothing(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    connection.execute(f"INSERT INTO {table} SELECT x FROM generate_series(1, 1000) s(x)")
    connection.execute("SET backfill_rate_limit = 1")
    notices, told = [], threading.Event()
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary) or told.set())
    cancelled_after(connection, told.wait, f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id FROM {table}")
    assert ["SHOW JOBS" in text for text in notices] == [True]
    assert connection.execute(f"SHOW MATERIALIZED VIEWS LIKE '{table}%'").fetchall() == []
    assert connection.execute("SHOW JOBS").fetchall() == []


def test_a_statement_may_take_only_so_long(connect, long_query):
    connection = connect()
    connection.execute("SET statement_timeout = '100ms'")
    with pytest.raises(psycopg.errors.QueryCanceled, match="statement timeout"):
        connection.execute(long_query)


def test_sessions_have_their_own_variables(connect):
    first, second = connect(), connect(options="-c background_ddl=true")
    assert first.execute("SHOW background_ddl").fetchone() == ("false",)
    assert second.execute("SHOW background_ddl").fetchone() == ("true",)
    second.execute("SET application_name = 'second'")
    assert second.info.parameter_status("application_name") == "second"


EVERYTHING = """
    (1, ARRAY[1, NULL, -3], ARRAY['a,b', '"', '', 'NULL', NULL, 'x\\y'], ARRAY[1.50, NULL]::numeric(10,2)[],
     ARRAY['2026-01-02 03:04:05'::timestamp], ARRAY[ARRAY[1, 2], ARRAY[3, 4]], 'NaN', '{"a": 1.50, "b": "é"}',
     ROW(7, 'it''s "so"'), 1.005),
    (2, ARRAY[]::int[], NULL, NULL, NULL, NULL, '-Infinity', NULL, ROW(NULL, ''), -0.005)"""


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_what_copy_writes_it_reads(connect, table, form):
    connection = connect()
    columns = """(id int PRIMARY KEY, i int[], t varchar[], n numeric(10,2)[], d timestamp[], deep int[][], f float8,
        j jsonb, s struct<x int, y varchar>, r numeric(10,2))"""
    for name in (table, f"{table}_copy"):
        connection.execute(f"CREATE TABLE {name} {columns}")
    connection.execute(f"INSERT INTO {table} VALUES {EVERYTHING}")
    connection.execute(f"INSERT INTO {table} (id) VALUES (3)")
    with connection.cursor().copy(f"COPY (SELECT * FROM {table} ORDER BY id) TO STDOUT (FORMAT {form})") as copy:
        written = b"".join(copy)
    with connection.cursor().copy(f"COPY {table}_copy FROM STDIN (FORMAT {form})") as copy:
        copy.write(written)
    rows = [connection.execute(f"SELECT * FROM {name} ORDER BY id").fetchall() for name in (table, f"{table}_copy")]
    assert repr(rows[0]) == repr(rows[1]), "of NaN even a copy is not equal"
    assert rows[0][0][2] == ["a,b", '"', "", "NULL", None, "x\\y"] and rows[0][0][5] == [[1, 2], [3, 4]]


def test_what_copy_has_to_round_or_to_refuse(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n numeric(10,2), f float8, j jsonb, a int[])")
    with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
        copy.write(b'1\t1.005\tnan\t{"b": 1.50, "a": "\xc3\xa9"}\t{1,NULL}\n')
    row = connection.execute(f"SELECT n, f::text, j, a FROM {table}").fetchone()
    assert row == (Decimal("1.01"), "NaN", {"a": "é", "b": 1.5}, [1, None])
    for line, message in (
        (b"2\t1\t1\t1\t{1,x}\n", 'invalid input syntax for type integer: "x" .COPY, line 1, column a'),
        (b'2\t1\t1\t1\t{"1\n', "malformed array literal.*line 1, column a"),
        (b"2\t1\tmany\t1\t{}\n", 'invalid input syntax for type double precision: "many" .COPY, column f'),
        (b"2\t99999999999\t1\t1\t{}\n", "COPY, column n"),
    ):
        with pytest.raises(psycopg.DataError, match=message):
            with connection.cursor().copy(f"COPY {table} FROM STDIN") as copy:
                copy.write(line)
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_more_parameters_than_a_signed_count_holds(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY)")
    count = 40_000
    marks = ", ".join(["(%s)"] * count)
    assert connection.execute(f"INSERT INTO {table} VALUES {marks}", range(count)).rowcount == count
