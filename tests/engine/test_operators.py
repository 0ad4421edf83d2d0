"""Operators that SQLite does not have, or has in another way: random changes, and after every barrier each view equals
its query, run by Spark over the same epoch. The others are in ``test_incremental.py``.
"""

from __future__ import annotations

import random

import pytest

import headrace

OPERATORS = {
    "from_the_old_rows": {
        "avg_and_stddev": "SELECT k, avg(x) AS a, stddev_samp(x) AS s, var_pop(x) AS v FROM t GROUP BY k",
        "grouping_sets": "SELECT k, s, count(*) AS c, sum(x) AS q FROM t GROUP BY GROUPING SETS ((k), (s), (k, s), ())",
        "cube": "SELECT k, s, max(x) AS m FROM t GROUP BY CUBE (k, s)",
        "collected": "SELECT k, string_agg(s, ',' ORDER BY id) AS l, array_agg(x ORDER BY id) AS a FROM t GROUP BY k",
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
    "two_sides": {
        "right_join": "SELECT t.id, u.id AS other FROM t RIGHT JOIN u ON t.k = u.y AND t.x > u.n",
        "cross_join": "SELECT t.id, u.id AS other FROM t CROSS JOIN u WHERE t.x IS NULL",
        "not_equal": "SELECT t.id, u.id AS other FROM t LEFT JOIN u ON t.x < u.n",
        "except_all": "SELECT k FROM t EXCEPT ALL SELECT y FROM u",
        "intersect_all": "SELECT k FROM t INTERSECT ALL SELECT y FROM u",
        "asof": "SELECT t.id, u.id AS other FROM t ASOF LEFT JOIN u ON t.k = u.y AND t.id >= u.id",
        "lateral": "SELECT t.id, q.n FROM t, LATERAL (SELECT n FROM u WHERE u.y = t.k ORDER BY n, u.id LIMIT 1) AS q",
        "series": "SELECT id, generate_series(1, x) AS g FROM t WHERE x < 4",
    },
}


@pytest.mark.parametrize("group", OPERATORS)
def test_views_are_their_queries_after_every_barrier(spark, warehouse, group):
    views = OPERATORS[group]
    seed = random.randrange(1 << 30)
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
    statements = [insert(8), "UPDATE t SET k = 1, x = x + 1 WHERE id % 3 = 0", insert(5), "DELETE FROM t WHERE k = 1"]
    statements += ["DELETE FROM u WHERE n > 2", insert(6)]
    made = list(before)
    for number, statement in enumerate([insert(8), *statements]):
        db.sql(statement)
        if number == 2:
            db.sql("SET background_ddl = true")
            for name in views.keys() - before:
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {views[name]}")
        if number == 3:
            db.engine.abandon()
            db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
            db.sql("WAIT")
            made = [*views]
        wrong = differing(db, {name: views[name] for name in made})
        assert not wrong, f"{wrong} after {statement}, seed {seed}"
    db.close()


def differing(db, views: dict[str, str]) -> list[str]:
    """The views that are not what their queries say, by one query over all of them."""
    parts = [
        f"(SELECT '{name}' AS name FROM ((({query}) EXCEPT ALL (SELECT * FROM {name}))"
        f" UNION ALL ((SELECT * FROM {name}) EXCEPT ALL ({query}))) AS d)"
        for name, query in views.items()
    ]
    return [name for (name,) in db.sql(" UNION ALL ".join(parts)).rows()]
