"""psql, as people use it."""

from __future__ import annotations

import shutil
import signal
import subprocess

import pytest

from tests.support.waiting import eventually

pytestmark = pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")


@pytest.fixture(scope="module")
def shop(database) -> None:
    for sql in (
        "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR DEFAULT 'tea', price NUMERIC(10,2) NOT NULL)",
        "CREATE INDEX orders_item ON orders (item DESC)",
        "CREATE MATERIALIZED VIEW cheap AS SELECT id, item FROM orders WHERE price < 10",
        "CREATE VIEW items AS SELECT DISTINCT item FROM orders",
        "COMMENT ON TABLE orders IS 'what was sold'",
        "CREATE SOURCE clicks (id BIGINT, at TIMESTAMPTZ) WITH (connector = 'datagen')",
        "INSERT INTO orders VALUES (1, 'tea', 4.5), (2, NULL, 240)",
    ):
        database.sql(sql)


def test_several_statements_and_an_error_between(psql, shop):
    done = psql("SELECT item FROM orders WHERE id = 1; SELECT nothing; SELECT 3", "SELECT 4")
    assert done.stdout == "tea\n4\n"
    assert 'ERROR:  column "nothing" does not exist\nLINE 1: ' in done.stderr


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (r"\dt", ["public|orders|table|root"]),
        (r"\dm", ["public|cheap|materialized view|root"]),
        (r"\dv", ["public|items|view|root"]),
        (r"\di", ["public|orders_item|index|root|orders", "public|orders_pkey|index|root|orders"]),
        (r"\dn", ["public|root"]),
        (r"\l+", ["dev|root|UTF8"]),
        (r"\du", ["root|Superuser"]),
        (r"\d orders", ["item|character varying|||'tea'", "price|numeric(10,2)||not null|",
                        '"orders_pkey" PRIMARY KEY, btree (id)', '"orders_item" btree (item DESC)']),
        (r"\d", ["public|cheap|materialized view|root", "public|clicks|table|root", "public|items|view|root",
                "public|orders|table|root"]),
        (r"\d orders_item", ['Index "public.orders_item"', "item|character varying|yes|item",
                             'btree, for table "public.orders"']),
        (r"\d orders_pkey", ['Index "public.orders_pkey"', "id|integer|yes|id",
                             'primary key, btree, for table "public.orders"']),
        (r"\d clicks", ['Table "public.clicks"', "id|bigint||", "at|timestamp with time zone||"]),
        (r"\df", ["Schema|Name|Result data type|Argument data types|Type", "(0 rows)"]),
        (r"\d cheap", ["id|integer||", "item|character varying||"]),
        (r"\d+ items", ["View definition:", "SELECT DISTINCT"]),
        (r"\dt+ orders", ["what was sold"]),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("spark_is_not_asked")
def test_what_there_is(psql, shop, command, words):
    done = psql(command, rows_only=False)
    assert done.stderr == "" and done.returncode == 0
    for word in words:
        assert word in done.stdout
    assert "rw_tables" not in done.stdout  # what the system has is listed only for who asks for it


@pytest.mark.usefixtures("spark_is_not_asked")
def test_everything_that_psql_can_describe(psql, shop):
    """What there is not is an empty list, and no error."""
    words = """l+ db+ dc+ dC dd ddp dD+ des+ deu+ dew+ dF dFd dFp dFt dl dL+ do+ dO+ dp drds dRp dRs+ dT+ dP+ dX dy dAc+
        dAf+ dAo dAp dconfig"""
    done = psql(*(f"\\{word}" for word in words.split()))
    wrong = [line for line in done.stderr.splitlines() if "ERROR" in line]
    assert wrong == []
    assert 'function "nothing" does not exist' in psql(r"\sf nothing").stderr
    assert 'relation "pg_catalog.pg_nothing" does not exist' in psql("SELECT * FROM pg_catalog.pg_nothing").stderr


def test_copy(psql, table, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text('id,n\n1,"a, b"\n2,\n', encoding="utf-8")
    done = psql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, n VARCHAR)",
        rf"\copy {table} FROM '{rows}' WITH (FORMAT csv, HEADER)",
        rf"\copy (SELECT * FROM {table} ORDER BY id) TO STDOUT",
    )
    assert done.stdout == "CREATE_TABLE\nCOPY 2\n1\ta, b\n2\t\\N\n", done.stderr


def test_what_copy_brings_out_it_takes(psql, table, tmp_path):
    """Which is no generated column, as in PostgreSQL."""
    rows = tmp_path / "rows.txt"
    done = psql(
        f"CREATE TABLE {table} (id INT PRIMARY KEY, twice INT GENERATED ALWAYS AS (id * 2) STORED, n VARCHAR)",
        f"INSERT INTO {table} (id, n) VALUES (1, 'a'), (2, NULL)",
        rf"\copy {table} TO '{rows}'",
        f"DELETE FROM {table}",
        rf"\copy {table} FROM '{rows}'",
        f"SELECT * FROM {table} ORDER BY id",
    )
    assert done.stdout.splitlines()[-2:] == ["1|2|a", "2|4|"], done.stderr
    done = psql(r"\set VERBOSITY sqlstate", f"COPY {table} (id, twice) TO STDOUT", f"COPY {table} (twice) FROM STDIN")
    assert done.stderr == "ERROR:  42P10\n" * 2


def test_control_c(dsn, long_query, wait_for_busy):
    running = subprocess.Popen(["psql", "-X", dsn, "-c", long_query], stderr=subprocess.PIPE, text=True)
    wait_for_busy()
    running.send_signal(signal.SIGINT)
    assert "canceling statement due to user request" in running.communicate(timeout=60)[1]


def test_control_c_ends_a_create(dsn, psql, table):
    """Afterwards there is nothing, and the name is free."""
    running, create = waiting_for_ever(dsn, psql, table)
    running.send_signal(signal.SIGINT)
    assert "ERROR:  " in running.communicate(timeout=60)[1]
    assert psql("SHOW JOBS", create, f"SELECT count(*) FROM {table}_v").stdout.splitlines()[-1] == "2"


def test_a_client_that_is_killed_while_it_waits_for_a_create(server, dsn, psql, table):
    """It holds no session for ever, and what it asked for goes on."""
    running, _ = waiting_for_ever(dsn, psql, table)
    assert server.busy_sessions
    running.kill()
    running.communicate(timeout=60)
    eventually(lambda: not server.busy_sessions)
    done = psql(
        f"ALTER MATERIALIZED VIEW {table}_v SET BACKFILL_RATE_LIMIT = DEFAULT",
        f"WAIT {table}_v",
        f"SELECT count(*) FROM {table}_v",
    )
    assert done.stdout.splitlines()[-1] == "2", done.stderr


def waiting_for_ever(dsn, psql, table) -> tuple[subprocess.Popen, str]:
    """A client that waits for a CREATE for which nothing may be read; and the statement."""
    psql(f"CREATE TABLE {table} (id INT PRIMARY KEY)", f"INSERT INTO {table} VALUES (1), (2)")
    create = f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id FROM {table}"
    command = ["psql", "-X", dsn, "-c", "SET backfill_rate_limit = 0", "-c", create]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    told = running.stderr.readline()  # and no more: there is nothing else to come
    assert told.startswith("NOTICE:") and "SHOW JOBS" in told
    return running, create


def test_watch(dsn, psql, shop):
    running = subprocess.Popen(
        ["psql", "-X", "-A", "-t", dsn],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    running.stdin.write("SELECT 'rows: ' || count(*) FROM orders \\watch 0.1\n")
    running.stdin.flush()
    seen = 0
    while seen < 3:
        line = running.stdout.readline()
        assert line, running.stderr.read()
        seen += line == "rows: 2\n"
    running.send_signal(signal.SIGINT)
    running.communicate(timeout=60)
