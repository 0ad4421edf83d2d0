"""A server in place of an engine: the Python API with a URL. What an engine in this process answers is what it must."""

from __future__ import annotations

import math
import re
import threading
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import headrace
from headrace.errors import (
    EngineClosed,
    EnvironmentProblem,
    HeadraceError,
    InvalidParameterValue,
    JobCancelled,
    UndefinedColumn,
    UndefinedJob,
    Unsupported,
)
from headrace.intervals import Interval
from headrace.remote.copying import PIECE_BYTES, copy_pieces
from headrace.remote.result import RowsGone
from tests.docs.test_docs import blocks
from tests.support.waiting import eventually

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def url(server) -> str:
    return f"postgresql://root@127.0.0.1:{server.port}/dev"


@pytest.fixture
def remote(url):
    with headrace.connect(url) as remote:
        yield remote


# --- values -----------------------------------------------------------------------------------------------------------


def test_values_are_those_of_an_engine(remote, database):
    query = """SELECT 12.50::numeric(10,2), 'NaN'::float8, '-inf'::float8, 1e300::float8, 0.1::real, NULL::int,
        '-1 day -02:03:04.5'::interval, date '2026-02-03', '\\xdead'::bytea, true, 'it''s',
        '{"b": 1, "a": [true, 1.50, "\u00fc"]}'::jsonb, 12345678901234567890.5::numeric(38,10),
        time '04:05:06.5', time '24:00', ARRAY[time '24:00', NULL],
        ARRAY[ARRAY[1, NULL], ARRAY[3, 4]], ARRAY['{a', NULL, 'b"'], 1.0 / 3"""
    (row,) = remote.sql(query).rows()
    (local,) = database.sql(query).rows()
    shown = [str(value) if value != value else value for value in row]
    assert shown[:-1] == [str(value) if value != value else value for value in local[:-1]], (
        "of NaN even a copy is not equal"
    )
    assert row[0] == Decimal("12.50") and math.isnan(row[1]) and row[6] == Interval(0, -1, -7_384_500_000)
    assert row[7] == date(2026, 2, 3) and row[8] == b"\xde\xad"
    assert str(row[-1]) == "0.33333333333333333333", "of a quotient the server sends what is shown"


TYPES = (
    "boolean", "smallint", "integer", "bigint", "numeric", "numeric(12,3)", "real", "double precision", "varchar",
    "bytea", "date", "timestamp", "timestamptz", "interval", "jsonb", "int[]", "numeric(10,2)[]", "interval[]",
    "timestamptz[]", "varchar[]", "jsonb[]", "uuid", "uuid[]",
    "time", "time[]", "time(3)",
)  # fmt: skip
VALUES = """
    (1, false, -32768, -2147483648, -9223372036854775808, 1.25, -1.250, 0.1, 1e-300, 'a,"b\\c' || chr(10) || chr(9),
     '\\x00ff', '0001-01-01', '0001-01-01 00:00:00', '1969-12-31 23:59:59.999999+00', '1 year -2 days 03:04:05.6',
     '{"b": [1, 2.50, null], "a": "\u00fc\\n"}', '{1,NULL}', '{1.50,NULL}', '{1 day,NULL}',
     '{2024-07-01 12:00:00+02}', '{NULL,"NULL","","a,b","{"}', '{"{\\"a\\": 1}"}',
     '{A0EEBC999C0B4EF8BB6D6BB9BD380A11}', '{NULL,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11}', '04:05:06.000789',
     '{23:59:59.999999,NULL}', '04:05:06.7895'),
    (2, true, 32767, 2147483647, 9223372036854775807, 0, 123456789.999, 3.4e38, 'Infinity', '', '\\x', '9999-12-31',
     '9999-12-31 23:59:59.999999', '2024-07-01 12:00:00+02', '-1 month', '[]', '{}', '{}', '{}', '{}', '{}', '{}',
     'ffffffffffffffffffffffffffffffff', '{}', '00:00', '{}', '23:59')"""


@pytest.fixture
def types(database, table) -> str:
    """A table with a column of each type, and NULLs."""
    columns = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES))
    database.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, {columns}, s STRUCT<a INT, b VARCHAR>)")
    names = ", ".join(f"c{number}" for number in range(len(TYPES)))
    database.sql(f"INSERT INTO {table} (id, {names}) VALUES {VALUES}")
    database.sql(f"INSERT INTO {table} (id, s) VALUES (3, ROW(1, 'x, y')), (4, NULL)")
    return table


def test_every_type_comes_back_as_it_is(remote, database, types):
    columns = ", ".join(f"c{number}" for number in range(len(TYPES)))
    query = f"SELECT id, {columns} FROM {types} ORDER BY id"
    here, there = database.sql(query), remote.sql(query)
    assert there.columns == here.columns and [kind.arrow for kind in there.types] == [kind.arrow for kind in here.types]
    assert there.rows() == here.rows()
    assert there.arrow() == here.arrow() and there.arrow().schema.equals(here.arrow().schema)
    assert there.pandas().equals(here.pandas())
    assert len(there) == 4 and list(there) == there.rows() and there.tag == "SELECT 4"
    assert list(database.sql(query).stream()) == here.rows() == list(remote.sql(query).stream())
    remote.sql("SET timezone = 'Europe/Berlin'")
    assert remote.sql(query).arrow() == here.arrow()
    nothing = remote.sql(f"SELECT id, {columns} FROM {types} WHERE false").arrow()
    assert nothing.num_rows == 0 and nothing.schema == here.arrow().schema
    assert remote.sql(f"SELECT s FROM {types} WHERE id = 3").rows() == [('(1,"x, y")',)], "a record is its text"


def test_results(remote, capsys):
    result = remote.sql("SELECT x, 1.5 * x AS y FROM (VALUES (1), (2), (3)) s(x)")
    result.show(2)
    assert capsys.readouterr().out.splitlines()[2:] == [
        " 1 | 1.5",
        " 2 | 3.0",
        "(2 rows)",
        "",
    ]
    assert result.arrow()["y"].to_pylist() == [Decimal("1.5"), Decimal("3"), Decimal("4.5")]
    with pytest.raises(Unsupported, match="no DataFrame of Spark") as caught:
        result.spark()
    assert "headrace.read" in caught.value.hint
    empty = remote.sql("-- nothing")
    assert (empty.tag, empty.rows(), empty.arrow().num_rows, repr(empty)) == (
        "EMPTY", [], 0, "<RemoteResult EMPTY>",
    )  # fmt: skip


def test_rows_stream(remote, server):
    """Whoever wants a few of many has them while the others are on their way, and the server is not kept busy."""
    session = remote.session()
    results = session.execute("SELECT x FROM generate_series(1, 1000000) s(x)")
    rows = next(results).stream()
    assert [len(next(rows)) for _ in range(5)] == [1] * 5 and server.busy_sessions
    results.close()
    eventually(lambda: not server.busy_sessions)
    with pytest.raises(RowsGone):
        list(rows)
    assert session.sql("SELECT 1").rows() == [(1,)]


def test_results_one_after_the_other(remote):
    """What was not read of one is kept when the next is asked for."""
    one, two = remote.session().execute("SELECT x FROM generate_series(1, 5000) s(x); SELECT 2")
    assert (len(one), one.rows()[-1], two.rows(), two.tag) == (5000, (5000,), [(2,)], "SELECT 1")


# --- statements and errors --------------------------------------------------------------------------------------------


def test_statements_and_errors(remote, database, table):
    remote.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY); INSERT INTO {table} VALUES (1), (2)")
    statements = f"SELECT 1; SELECT id FROM {table}; DELETE FROM {table}"
    assert [result.tag for result in remote.session().execute(statements)] == ["SELECT 1", "SELECT 2", "DELETE 2"]
    for statement in (
        f"SELECT 1; SELECT nothing FROM {table}",
        "SELECT * FORM t",
        "SELECT * FROM nowhere",
        "SHOW JOB 987654",
        "SET nothing = 1",
        "SELECT '1'::nothing",
        "SELECT 1 / (x - x) FROM generate_series(1, 3) s(x)",
        f"INSERT INTO {table} VALUES (NULL)",
        f"CREATE TABLE {table} (id INT)",
    ):
        here, there = failure(rows_of, database, statement), failure(rows_of, remote, statement)
        assert there == here
    assert any(each["name"] == table for each in remote.status()["relations"])
    with pytest.raises(Unsupported, match="COPY is not supported here"):
        remote.sql(f"COPY {table} TO STDOUT")
    with pytest.raises(Unsupported, match="COPY is not supported here"):
        remote.sql(f"COPY {table} FROM STDIN")
    assert remote.sql("SELECT 1").rows() == [(1,)], "and the connection is as good as before"


def rows_of(database, query: str) -> list[tuple]:
    return database.sql(query).rows()


def failure(action, *arguments) -> tuple:
    with pytest.raises(HeadraceError) as caught:
        action(*arguments)
    error = caught.value
    return type(error), error.sqlstate, error.message, error.hint, error.position


def test_sessions_have_variables_and_tables_of_their_own(remote, table):
    one, two = remote.session(), remote.session()
    one.sql("SET statement_timeout = 1234")
    one.sql(f"CREATE TEMP TABLE {table} (id INT)")
    shown = [each.sql("SHOW statement_timeout").rows() for each in (one, two, remote)]
    assert shown[0] != shown[1] == shown[2]
    assert one.sql(f"SELECT * FROM {table}").rows() == []
    with pytest.raises(HeadraceError, match="does not exist"):
        two.sql(f"SELECT * FROM {table}")
    one.close()
    with pytest.raises(EngineClosed):
        one.sql("SELECT 1")


def test_notices(remote, table):
    assert remote.sql("SELECT 1").notice is None
    notice = remote.sql(f"DROP TABLE IF EXISTS {table}").notice
    assert table in notice
    session, heard = remote.session(), []
    session.on_notice = heard.append
    assert session.sql(f"DROP TABLE IF EXISTS {table}").notice is None and heard == [notice]


def test_it_can_be_closed(url):
    with headrace.connect(url) as remote:
        session = remote.session()
    for action in (lambda: remote.sql("SELECT 1"), remote.jobs, remote.session, lambda: session.sql("SELECT 1")):
        with pytest.raises(EngineClosed):
            action()
    with pytest.raises(InvalidParameterValue, match="has its engine already"):
        headrace.connect(url, takeover=True)


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://root:secret@127.0.0.1:1/dev", "127.0.0.1:1/dev"),
        ("postgresql://127.0.0.1:1/dev?user=root&password=secret", "127.0.0.1:1/dev"),
        ("postgresql://root:se%zzcret@127.0.0.1:1/dev", None),
        ("postgresql://root:se/cret@127.0.0.1:1/dev", None),
        ("postgresql://root:a@secret@127.0.0.1:1/dev", None),
        ("postgresql://root@127.0.0.1:1/dev?password=a&secret", None),
    ],
)
def test_a_password_is_never_told(url, place):
    with pytest.raises(HeadraceError) as caught:
        headrace.connect(url)
    told = f"{caught.value} {caught.value.__cause__}"
    assert "cret" not in told and "zz" not in told
    assert isinstance(caught.value, InvalidParameterValue if place is None else EnvironmentProblem)
    assert place is None or f"cannot connect to {place}" in told


def test_nor_in_what_is_printed(server):
    url = f"postgresql://root:secret@127.0.0.1:{server.port}/dev"
    with headrace.connect(url) as remote:
        assert repr(remote) == f"<RemoteDatabase 127.0.0.1:{server.port}/dev>"
        assert "secret" not in repr(remote.session())


# --- Arrow rows -------------------------------------------------------------------------------------------------------


def test_rows_of_every_type_are_inserted_as_they_are(remote, database, types):
    rows = database.sql(f"SELECT * FROM {types} ORDER BY id").arrow()
    database.sql(f"DELETE FROM {types}")
    assert remote.insert(types, rows) == 4
    assert database.sql(f"SELECT * FROM {types} ORDER BY id").arrow() == rows


def test_an_insert_means_the_same_here_and_there(remote, database, table):
    columns = 'id INT PRIMARY KEY, "A b" NUMERIC(10,2) NOT NULL, n INT DEFAULT 7, g INT GENERATED ALWAYS AS (id + 1)'
    database.sql(f"CREATE TABLE {table} ({columns})")
    database.sql(f"CREATE VIEW {table}_v AS SELECT id FROM {table}")
    assert remote.insert(table, pa.table({"A b": [1.5, 2], "id": pa.array([1, 2], pa.int8())})) == 2
    assert remote.insert(table, pa.table({"id": [2], "A b": ["9.25"], "n": pa.array([None], pa.int32())})) == 1
    assert remote.insert(table, pa.table({"id": pa.array([], pa.int32())})) == 0
    rows = [(1, Decimal("1.50"), 7, 2), (2, Decimal("9.25"), None, 3)]
    assert database.sql(f"SELECT * FROM {table} ORDER BY id").rows() == rows
    id, price = [3], pa.array([Decimal("1.00")])
    for name, wrong in (
        (table, {"id": id}),
        (table, {"id": ["x"], "A b": price}),
        (table, {"id": id, "A b": price, "g": id}),
        (table, {"id": id, "A b": price, "no": id}),
        (table, {"id": [2**40], "A b": price}),
        ("nowhere", {"id": id}),
        (f"{table}_v", {"id": id}),
    ):
        here, there = (failure(db.insert, name, pa.table(wrong)) for db in (database, remote))
        assert there == here
    session_table = f"{table}_t"
    remote.sql(f"CREATE TEMP TABLE {session_table} (id INT)")
    assert remote.insert(session_table, pa.table({"id": id})) == 1
    assert remote.sql(f"SELECT * FROM {session_table}").rows() == [(3,)]


def test_many_rows_are_inserted_in_pieces(remote, table):
    remote.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY, n VARCHAR)")
    rows = pa.table({"id": pa.array(range(100_000), pa.int32()), "n": pa.array(["x" * 100] * 100_000)})
    assert remote.insert(table, rows) == 100_000
    query = f"SELECT count(*), sum(id), sum(length(n)) FROM {table}"
    assert [tuple(map(int, row)) for row in remote.sql(query)] == [(100_000, 4_999_950_000, 10_000_000)]


def test_pieces_are_small_however_wide_rows_are():
    from headrace.catalog import Column
    from headrace.types import SqlType

    rows = pa.table({"n": ["x" * 300_000] * 20 + ["y"] * 5_000})
    sizes = [len(piece) for piece in copy_pieces(rows, [Column(name="n", type=SqlType("varchar"))])]
    assert sum(sizes) == 20 * 300_001 + 5_000 * 2 and max(sizes) <= PIECE_BYTES


# --- jobs -------------------------------------------------------------------------------------------------------------


def test_jobs(remote, table):
    remote.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY); INSERT INTO {table} VALUES (1), (2)")
    view = f"{table}_v"
    create = f"CREATE MATERIALIZED VIEW {view} AS SELECT id FROM {table}"
    remote.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    remote.sql(create)
    job = remote.job(view)
    assert [each.id for each in remote.jobs() if each.name == view] == [job.id]
    progress = job.progress()
    assert (job.name, job.statement, job.error) == (view, create, None)
    assert (progress.state, progress.fraction, progress.rows_read, progress.rows_total) == ("paused", 0.0, 0, 2)
    with pytest.raises(TimeoutError, match=f'"{view}" is not filled after 0.1 s'):
        job.wait(timeout=0.1)
    job.pause()
    remote.sql(f"ALTER MATERIALIZED VIEW {view} SET BACKFILL_RATE_LIMIT = DEFAULT")
    assert job.progress().state == "paused"
    job.resume()
    job.wait(timeout=60)
    assert (job.progress().state, job.progress().fraction, job.cancel()) == ("done", 1.0, False)
    assert repr(job) == f"<job {job.id}: {view}, done, 100%>" and remote.job(job.id).progress().over
    remote.sql(f"CREATE INDEX {table}_i ON {table} (id DESC)")
    index = remote.job(f"{table}_i")
    assert index.cancel() and index.progress().state == "cancelled"
    with pytest.raises(JobCancelled):
        index.wait()


def test_there_is_no_such_job(remote, database, table):
    database.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY)")
    for name in (table, "nowhere", 987_654):
        here, there = failure(database.job, name), failure(remote.job, name)
        assert there == here
    assert there[0] is UndefinedJob


def test_jobs_can_be_asked_for_while_a_statement_runs(remote, table):
    remote.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY); INSERT INTO {table} VALUES (1), (2)")
    remote.sql("SET backfill_rate_limit = 0")
    told: list[HeadraceError] = []

    def create() -> None:
        try:
            remote.sql(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id FROM {table}")
        except HeadraceError as error:
            told.append(error)

    thread = threading.Thread(target=create)
    thread.start()
    eventually(lambda: f"{table}_v" in [job.name for job in remote.jobs()])
    assert remote.job(f"{table}_v").cancel()
    thread.join(60)
    assert [type(error) for error in told] == [JobCancelled]


# --- the README -------------------------------------------------------------------------------------------------------


def test_python_of_the_readme_runs(url, table, monkeypatch):
    connect, ran = headrace.connect, 0
    monkeypatch.setattr(headrace, "connect", lambda _: connect(url))
    for block in blocks(README, "python"):
        if "headrace.read" in block.text:
            continue
        text = block.text.replace("result.spark()", "None")
        for name in ("orders", "cheap", "all_items"):  # others may have such a table
            text = re.sub(rf"\b{name}\b", f"{table}_{name}", text)
        exec(compile(text, f"README.md:{block.line}", "exec"), {"__name__": "readme"})
        ran += 1
    assert ran >= 2


def test_the_class_of_an_error_is_told(connect):
    """To every client, where PostgreSQL names a function of its own."""
    import psycopg

    with pytest.raises(psycopg.Error) as caught:
        connect().execute("SELECT nothing")
    assert caught.value.diag.source_function == UndefinedColumn.__name__
