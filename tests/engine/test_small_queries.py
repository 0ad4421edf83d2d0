"""Queries that read few rows are answered by the driver: which, with what, and that Spark says the same."""

from __future__ import annotations

import random

import pytest

from headrace.engine import small_queries
from headrace.errors import ObjectNotReady
from headrace.serving.result import Result

COLUMNS = "id INT PRIMARY KEY, k INT, s VARCHAR, n NUMERIC(12, 2), d DATE, f DOUBLE PRECISION, b BOOLEAN, j JSONB"


@pytest.fixture
def tables(db):
    db.sql(f"CREATE TABLE t ({COLUMNS}); CREATE TABLE w (a INT, b VARCHAR)")
    db.sql(
        "INSERT INTO t SELECT g, nullif(g % 7, 3), 's' || g % 11, g / 4.0, DATE '2026-01-01' + g % 40, g * 0.25,"
        " g % 2 = 0, jsonb_build_object('g', g) FROM generate_series(1, 200) AS g"
    )
    db.sql("INSERT INTO w VALUES (1, 'x'), (1, 'x'), (NULL, 'y'), (2, NULL)")
    db.sql("UPDATE t SET s = 'é', k = NULL WHERE id % 13 = 0; DELETE FROM t WHERE id % 17 = 0")
    db.sql("CREATE INDEX by_k ON t (k) INCLUDE (s); CREATE INDEX by_s ON t (s) INCLUDE (id)")
    return db


def without_spark(session, query: str) -> list[tuple] | None:
    """Its rows, if they come so."""
    before = session._engine.answered_without_spark
    session.sql("SET query_mode = auto")
    rows = session.sql(query).rows()
    return rows if session._engine.answered_without_spark > before else None


def by_spark(session, query: str) -> list[tuple]:
    session.sql("SET query_mode = distributed")
    return session.sql(query).rows()


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM t WHERE id = 21",
        "SELECT * FROM t WHERE id = 17",
        "SELECT id, s FROM t WHERE id IN (1, 13, 17, 26, 500) ORDER BY id",
        "SELECT s, id FROM t WHERE k = 5 ORDER BY id",
        "SELECT id, n, d FROM t WHERE s = 'é' ORDER BY id DESC LIMIT 3",
        "SELECT count(*), sum(n), min(d), max(s) FROM t",
        "SELECT k, count(*) AS c FROM t WHERE d > '2026-01-20' GROUP BY k ORDER BY c DESC, k",
        "SELECT t.id, u.id FROM t JOIN t AS u ON t.k = u.id WHERE t.id < 9 ORDER BY 1",
        "SELECT * FROM w ORDER BY a, b",
        "SELECT DISTINCT k FROM t ORDER BY 1 DESC",
        "SELECT id FROM t WHERE b AND NOT k IS NULL ORDER BY id LIMIT 5 OFFSET 2",
        "SELECT j, f FROM t WHERE id = 4",
        "SELECT 1, 'a', NULL, DATE '2026-02-03'",
    ],
)
def test_the_same_as_by_spark(tables, query):
    session = tables.session()
    found = without_spark(session, query)
    assert found is not None, f"{query} was left to Spark"
    assert found == by_spark(session, query)
    types = [str(kind) for kind in session.sql(query).types]
    session.sql("SET query_mode = auto")
    assert [str(kind) for kind in session.sql(query).types] == types


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, upper(s) FROM t WHERE id = 13",  # not ASCII
        "SELECT id FROM t ORDER BY f LIMIT 1",
        "SELECT avg(n) FROM t",
        "SELECT id / (id - 13) FROM t WHERE id IN (14, 15) ORDER BY id",
        "SELECT a FROM w WHERE EXISTS (SELECT count(*) FROM t WHERE t.id = 1000) ORDER BY a",
        "SELECT a FROM w WHERE EXISTS (SELECT 1) AND a = 2",
        "SELECT k, k AS again, count(*) FROM t GROUP BY k, b ORDER BY k, 3",
        "SELECT date_trunc('day', TIMESTAMP '9999-12-31 10:00:00' - INTERVAL '2 days')",
    ],
)
def test_either_way_the_same(tables, query):
    """Whoever it is that answers."""
    session = tables.session()
    session.sql("SET query_mode = auto")
    assert session.sql(query).rows() == by_spark(session, query)


def test_quotients_are_ordered_by_their_value(tables):
    """Also where a query has to be numbered: the struct that says how many decimals are shown is never NULL."""
    tables.sql("CREATE TABLE q (a NUMERIC, b NUMERIC)")
    tables.sql("INSERT INTO q VALUES (3, 2), (15000, 10000), (1, 0), (9, 2)")
    tied = "SELECT a / nullif(b, 0) AS x FROM q ORDER BY x {} FETCH FIRST 1 ROW WITH TIES"
    assert tables.sql(tied.format("")).rows() == [(1.5,), (1.5,)]
    assert tables.sql(tied.format("DESC NULLS LAST")).rows() == [(4.5,)]
    assert tables.sql(tied.format("DESC")).rows() == [(None,)]
    grouped = "SELECT sum(a) / nullif(sum(b), 0) AS x FROM q GROUP BY b HAVING count(*) > 0 ORDER BY 1, sum(a)"
    assert [x for (x,) in tables.sql(grouped).rows()][-1] is None
    within = "SELECT a / b AS y FROM (SELECT a, b FROM q ORDER BY a / nullif(b, 0) LIMIT 3) AS s ORDER BY y"
    assert len(tables.sql(within).rows()) == 3


def test_a_view_with_exists_of_one_row(tables):
    """What a piece of a view makes of its rows is the same question."""
    tables.sql("CREATE MATERIALIZED VIEW v AS SELECT a FROM w WHERE EXISTS (SELECT count(*) FROM t WHERE t.id = w.a)")
    tables.sql("CREATE MATERIALIZED VIEW u AS SELECT a FROM w WHERE EXISTS (SELECT 1)")
    tables.sql("INSERT INTO w VALUES (1000, 'n'); DELETE FROM w WHERE a = 2")
    for view in ("v", "u"):
        assert tables.sql(f"CHECK MATERIALIZED VIEW {view}").rows()[0][0].startswith("equal, 4 rows")


def test_a_value_that_fails_is_spark_s_error(tables):
    with pytest.raises(Exception, match="division by zero"):
        tables.sql("SELECT 1 / (id - 13) FROM t WHERE id = 13").rows()


def test_much_is_spark_s(tables, monkeypatch):
    session = tables.session()
    monkeypatch.setattr(small_queries, "WHOLE_ROWS", 150)
    assert without_spark(session, "SELECT count(*) FROM t") is None
    assert without_spark(session, "SELECT count(*) FROM t WHERE id = 3") == [(1,)]
    monkeypatch.setattr(small_queries, "FOUND_ROWS", 0)
    assert without_spark(session, "SELECT count(*) FROM t WHERE k = 3") is None
    monkeypatch.undo()
    monkeypatch.setattr(small_queries, "DECODED_BYTES", 1000)
    assert without_spark(session, "SELECT count(*) FROM t") is None


def test_a_value_that_is_stored_once_and_decoded_often(tables):
    """Ten thousand rows with one long text are a small file and a large table."""
    tables.sql("CREATE TABLE wide (id INT PRIMARY KEY, s VARCHAR)")
    tables.sql("INSERT INTO wide SELECT g, repeat('x', 100000) FROM generate_series(1, 2000) AS g")
    session = tables.session()
    assert without_spark(session, "SELECT count(*), max(length(s)) FROM wide") is None
    assert session.sql("SELECT count(*), max(length(s)) FROM wide").rows() == [(2000, 100000)]


def test_as_of_an_epoch_and_while_rows_change(tables):
    session = tables.session()
    epoch = tables.status()["epoch"]
    assert without_spark(session, "SELECT count(*) FROM w") == [(4,)]
    tables.sql("DELETE FROM w WHERE a = 1; INSERT INTO w VALUES (7, 'z')")
    assert without_spark(session, "SELECT count(*) FROM w") == [(3,)]
    session.sql(f"SET query_epoch = {epoch}")
    assert without_spark(session, "SELECT count(*) FROM w") == [(4,)]


def test_views_that_are_being_created_are_refused(tables):
    tables.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    tables.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM t")
    with pytest.raises(ObjectNotReady, match='"v" is still being created'):
        tables.sql("SELECT * FROM v")


def test_explain_says_so(tables):
    def first_line(query: str) -> str:
        return tables.sql(f"EXPLAIN {query}").rows()[0][0]

    assert first_line("SELECT s FROM t WHERE k = 2") == "answered without Spark: uses index by_k (k = 2)"
    assert first_line("SELECT count(*) FROM w") == "answered without Spark: 4 stored rows"
    assert first_line("SELECT 1") == "answered without Spark: nothing is read"
    tables.sql("SET query_mode = distributed")
    assert first_line("SELECT s FROM t WHERE k = 2") == "uses index by_k (k = 2)"


def test_frames_are_spark_s_all_the_same(tables):
    result = tables.sql("SELECT id, s FROM t WHERE id = 21")
    assert isinstance(result, Result) and result.spark().collect() == [(21, "s10")]


def test_random_queries(tables):
    """Columns, conditions, groups, orders: both ways give the same."""
    session, seed = tables.session(), random.randrange(1_000_000)
    chance = random.Random(seed)
    answered = 0
    for _ in range(60):
        query = _random_query(chance)
        found = without_spark(session, query)
        if found is not None:
            answered += 1
            assert found == by_spark(session, query), f"seed {seed}: {query}"
    assert answered > 30, f"seed {seed}"


CONDITIONS = [
    "id = {n}", "id IN ({n}, {m}, 13)", "id BETWEEN {n} AND {m}", "k = 2", "k IS NULL", "s = 's3'", "s LIKE 's1%'",
    "n > {n}", "d < DATE '2026-01-15'", "b", "NOT b", "k + id > {m}", "s IN ('s1', 'é')", "n * 2 <= {m}", "id % 3 = 1",
    "EXISTS (SELECT 1 FROM w WHERE w.a = t.k)",
]  # fmt: skip
ITEMS = [
    "id",
    "k",
    "s",
    "n",
    "d",
    "b",
    "id + k",
    "n * 2",
    "s || '!'",
    "CASE WHEN k > 2 THEN 'x' ELSE s END",
    "coalesce(k, -1)",
]
TOTALS = ["count(*)", "count(k)", "sum(id)", "sum(n)", "min(s)", "max(d)", "count(*) FILTER (WHERE b)"]


def _random_query(chance: random.Random) -> str:
    def where() -> str:
        some = chance.sample(CONDITIONS, chance.randrange(3))
        text = chance.choice((" AND ", " OR ")).join(some).format(n=chance.randrange(220), m=chance.randrange(220))
        return f" WHERE {text}" if some else ""

    if chance.random() < 0.3:
        keys = chance.sample(["k", "s", "b", "k % 2"], chance.randrange(3))
        items = ", ".join([*keys, *chance.sample(TOTALS, 2)])
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        order = ", ".join(str(at + 1) for at in range(len(keys)))
        return f"SELECT {items} FROM t{where()}{group}" + (f" ORDER BY {order}" if order else "")
    if chance.random() < 0.2:
        return f"SELECT DISTINCT k, b FROM t{where()} ORDER BY 1, 2 DESC"
    items = ", ".join(chance.sample(ITEMS, chance.randrange(1, 4)))
    direction = chance.choice(("", " DESC", " NULLS FIRST"))
    limit = f" LIMIT {chance.randrange(20)}" if chance.random() < 0.5 else ""
    return f"SELECT {items} FROM t{where()} ORDER BY {chance.choice(('k', 's', 'n', 'd'))}{direction}, id{limit}"
