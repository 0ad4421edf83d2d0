"""Where the interpreter leaves a query to Spark, and what keeps it from taking long. No JVM."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

from headrace.serving.interpreter.queries import evaluate
from headrace.serving.interpreter.scope import STEPS
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from tests.unit.test_pg_catalog import CLIENT_QUERIES, CONTEXT, resolve


def ask(sql: str) -> pa.Table | None:
    system = resolve(parse_query(sql), CONTEXT)
    tables = {system.catalog.relations[id].name: table for id, table in system.tables.items()}
    return evaluate(bind_query(system.query, system.catalog), tables)


@pytest.mark.parametrize("sql", CLIENT_QUERIES)
def test_queries_of_clients_need_no_spark(sql):
    assert ask(sql) is not None


@pytest.mark.parametrize(
    "expression",
    [
        "2147483647 + 1", "1 / 0", "-(-32768)::smallint", "70000::smallint", "1.5 + 1", "upper('é')",
        "'é' ILIKE 'É'", "'a' ~ '[[:alpha:]]'", "'a' ~ 'a{2}'", "'a' ~ '\\w'", "now()", "random()",
        "ARRAY[1, NULL] < ARRAY[2]", "(SELECT unnest(ARRAY[1, 2]))",
        "rank() OVER (ORDER BY 1)", "ROW(1, 2) < ROW(1, 3)", "avg(1)",
        "(SELECT count(*) FROM generate_series(1, 1000000) s (x))",
    ],
)  # fmt: skip
def test_what_is_left_to_spark(expression):
    assert ask(f"SELECT {expression}") is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1 FROM pg_class c RIGHT JOIN pg_index i ON i.indrelid = c.oid",
        "SELECT DISTINCT ON (relkind) relname FROM pg_class ORDER BY relkind",
        "SELECT relkind FROM pg_class EXCEPT ALL SELECT 'r'",
        "SELECT relkind, count(*) FROM pg_class GROUP BY ROLLUP (relkind)",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT * FROM r",
    ],
)
def test_clauses_that_are_left_to_spark(sql):
    assert ask(sql) is None


def test_what_no_row_gets_to_is_not_evaluated():
    sql = "SELECT json_build_object('a', pol.polname), avg(pol.polrelid) OVER () FROM pg_policy pol"
    assert ask(sql.partition(", avg")[0] + " FROM pg_policy pol").num_rows == 0


def test_too_much_work_is_given_up():
    started = time.process_time()
    assert ask("SELECT count(*) FROM pg_class a, pg_class b, pg_class c, pg_class d") is None
    assert time.process_time() - started < 5 and STEPS < 10**6
    assert ask("SELECT count(*) > 10000 AS many FROM pg_class a, pg_class b").to_pylist() == [{"many": True}]


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        ("0", "0 bytes"), ("10239", "10239 bytes"), ("10240", "10 kB"), ("10751", "10 kB"), ("10752", "11 kB"),
        ("10485247", "10239 kB"), ("10485248", "10 MB"), ("123456789012", "115 GB"), ("NULL", None),
        ("98765432109876", "90 TB"),
    ],
)  # fmt: skip
def test_sizes_are_printed_as_in_postgresql(size, shown):
    assert ask(f"SELECT pg_size_pretty({size}) AS shown").to_pylist() == [{"shown": shown}]


def test_functions_that_look_something_up():
    (row,) = ask(
        """SELECT format_type(1700, NULL) AS plain, format_type(NULL, -1) AS none, format_type(5, -1) AS odd,
        col_description(CAST(format('%I.%I', 'public', c.relname) AS regclass)::oid, 2) AS comment
        FROM pg_class c WHERE c.relname = 'orders' AND c.relpersistence = 'p'"""
    ).to_pylist()
    assert row == {"plain": "numeric", "none": None, "odd": "???", "comment": "in euros"}
    found = ask("SELECT relname, n_live_tup FROM pg_stat_user_tables ORDER BY relname").to_pylist()
    assert {"relname": "sums", "n_live_tup": 0} in found
