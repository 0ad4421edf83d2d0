"""Operators that SQLite does not have, or has in another way: random changes, and after every barrier each view equals
its query, run by Spark over the same epoch. The others are in ``test_incremental.py``.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pyarrow as pa
import pytest

import headrace
from tests.support.stored import live_rows

SPAN = "CASE WHEN id % 2 = 0 THEN x * INTERVAL '15 days' ELSE x * INTERVAL '360 hours' END"

OPERATORS = {
    "from_the_old_rows": {
        "average": "SELECT k, avg(x) AS a, avg(DISTINCT x) AS d FROM t GROUP BY k",
        "grouping_sets": "SELECT k, s, count(*) AS c, sum(x) AS q FROM t GROUP BY GROUPING SETS ((k), (s), (k, s), ())",
        "cube": "SELECT k, s, max(x) AS m FROM t GROUP BY CUBE (k, s)",
        "collected": "SELECT k, string_agg(s, ',' ORDER BY id) AS l, array_agg(x ORDER BY id) AS a FROM t GROUP BY k",
        # What fails where the condition does not hold is not evaluated there.
        "guarded": "SELECT max(10 / x) FILTER (WHERE x > 0) AS m, sum(10 / x) FILTER (WHERE x > 0) AS s,"
        " count(DISTINCT 10 / x) FILTER (WHERE x > 0) AS d FROM t",
        "percentile": "SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p FROM t GROUP BY k",
    },
    "by_partition": {
        "distinct_on": "SELECT DISTINCT ON (k) k, id, x FROM t ORDER BY k, x DESC NULLS LAST, id",
        "windows": "SELECT id, lag(x) OVER (PARTITION BY k ORDER BY id) AS l, sum(x) OVER (PARTITION BY k ORDER BY id"
        " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM t",
        "tumble": "SELECT window_start, count(*) AS c FROM TUMBLE(t, at, INTERVAL '3 minutes') GROUP BY window_start",
        "hop": "SELECT window_end, max(x) AS m FROM HOP(t, at, INTERVAL '2 minutes', INTERVAL '5 minutes')"
        " GROUP BY window_end",
        "session": "SELECT k, window_start, window_end, count(*) AS c FROM SESSION(t, at, INTERVAL '1 minute', k)"
        " GROUP BY k, window_start, window_end",
    },
    "subqueries": {
        "of_each": "SELECT id, (SELECT count(*) FROM u WHERE u.y = t.k) AS c, (SELECT max(n) FROM u) AS m FROM t",
        "largest": "SELECT id, (SELECT n FROM u WHERE u.y = t.k ORDER BY n DESC NULLS LAST, u.id LIMIT 1) AS l FROM t",
        "little": "SELECT id FROM t WHERE coalesce((SELECT sum(n) FROM u WHERE u.y = t.k), 0) < 3",
        "among_its_own": "SELECT id FROM t WHERE x IN (SELECT n FROM u WHERE u.y = t.k)",
        "pairs": "SELECT id FROM t WHERE (k, x) IN (SELECT y, n FROM u)",
        "if_any": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE n > 3)",
        "or_there_is": "SELECT id FROM t WHERE x = 1 OR NOT EXISTS (SELECT 1 FROM u WHERE u.y = t.k AND u.n > t.x)",
        "shares": "SELECT k, s, count(*) AS c, sum(count(*)) OVER (PARTITION BY k) AS of_k FROM t GROUP BY k, s",
    },
    "intervals": {
        # Of each length there are two that are equal, and not the same.
        "lengths": f"SELECT {SPAN} AS i, count(*) AS c, max(x) AS m FROM t GROUP BY 1",
        "each_once": f"SELECT DISTINCT k, {SPAN} AS i FROM t",
        "not_there": f"SELECT {SPAN} AS i FROM t EXCEPT SELECT n * INTERVAL '360 hours' FROM u",
        "joined": "SELECT t.id, u.id AS other FROM t JOIN u ON t.x * INTERVAL '15 days' = u.n * INTERVAL '360 hours'",
        "among": "SELECT id FROM t WHERE x * INTERVAL '1 month' IN (SELECT n * INTERVAL '30 days' FROM u)",
        "sums": f"SELECT k, sum({SPAN}) AS s, avg({SPAN}) AS a, max({SPAN}) AS m FROM t GROUP BY k",
        "ranks": f"SELECT id, rank() OVER (PARTITION BY k ORDER BY {SPAN}) AS r FROM t",
        "longest": f"SELECT id, {SPAN} AS i FROM t ORDER BY {SPAN} DESC, id LIMIT 4",
    },
    "two_sides": {
        "right_join": "SELECT t.id, u.id AS other FROM t RIGHT JOIN u ON t.k = u.y AND t.x > u.n",
        "cross_join": "SELECT t.id, u.id AS other FROM t CROSS JOIN u WHERE t.x IS NULL",
        "not_equal": "SELECT t.id, u.id AS other FROM t LEFT JOIN u ON t.x < u.n",
        "except_all": "SELECT k FROM t EXCEPT ALL SELECT y FROM u",
        "intersect_all": "SELECT k FROM t INTERSECT ALL SELECT y FROM u",
        "asof": "SELECT t.id, u.id AS other FROM t ASOF LEFT JOIN u ON t.k = u.y AND t.id >= u.id",
        "beside": "SELECT t.id, q.n FROM t, LATERAL (SELECT n FROM u WHERE u.y = t.k ORDER BY n, u.id LIMIT 1) AS q",
        "series": "SELECT id, generate_series(1, x) AS g FROM t WHERE x < 4",
    },
}


@pytest.mark.parametrize("group", OPERATORS)
def test_views_are_their_queries_after_every_barrier(spark, warehouse, group):
    views = OPERATORS[group]
    seed = int(os.environ.get("HEADRACE_SEED", "20261116"))
    print(f"seed {seed}")
    chance = random.Random(seed)
    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, k INT, x INT, s VARCHAR, at TIMESTAMP)")
    db.sql("CREATE TABLE u (id INT PRIMARY KEY, y INT, n INT)")

    def value(most: int) -> str:
        return chance.choice(["NULL", *map(str, range(most))])

    def insert(count: int) -> str:
        if chance.random() < 0.4:
            rows = [f"({chance.randrange(12)}, {value(3)}, {value(6)})" for _ in range(count)]
            return f"INSERT INTO u VALUES {', '.join(rows)}"
        rows = [
            f"({chance.randrange(40)}, {value(3)}, {value(6)}, {chance.choice(['NULL', repr('a'), repr('b')])},"
            f" TIMESTAMP '2026-01-01 00:{chance.randrange(12):02}:00')"
            for _ in range(count)
        ]
        return f"INSERT INTO t VALUES {', '.join(rows)}"

    before = chance.sample([*views], len(views) // 2)
    for name in before:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {views[name]}")
    made = list(before)
    changes = [insert(8), "UPDATE t SET k = 1, x = x + 1 WHERE id % 3 = 0", "DELETE FROM u WHERE n > 2", insert(6)]
    db.sql(insert(12))
    for number, statement in enumerate(changes):
        if number == 1:
            db.sql("SET background_ddl = true")
            for name in views.keys() - before:
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {views[name]}")
        db.sql(statement)
        if number == 2:
            db.engine.abandon()
            db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
            db.sql("WAIT")
            made = [*views]
        for name in made:
            there, wanted = (lines(rows) for rows in (live_rows(db.engine, name), db.sql(views[name]).arrow()))
            assert there == wanted, f"{name} after {statement}, seed {seed}"
    db.close()


def lines(rows: pa.Table) -> Counter:
    """Rows as text, because arrays are among them."""
    return Counter(map(repr, zip(*(column.to_pylist() for column in rows.columns), strict=True)))
