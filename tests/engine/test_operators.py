"""Operators that SQLite does not have, or has in another way: random changes, and after every barrier views equal
their queries, run by Spark over the same epoch. The others are in ``test_incremental.py``.

The rows are new ones in every run: the seed is printed, and ``HEADRACE_SEED=7`` draws the same again. After a barrier
some of the views are compared, in the end all of them; with ``HYPOTHESIS_PROFILE=thorough`` always all.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pyarrow as pa
import pytest

import headrace
from headrace.engine import builds, stored_rows
from headrace.errors import DataError
from tests.support.batch import Batch
from tests.support.four_ways import THOROUGH, drawn_seed
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
        "percentile": "SELECT k, percentile_cont(0.5) WITHIN GROUP (ORDER BY x) AS p, stddev(x) AS d,"
        " first_value(x ORDER BY id) AS f, last_value(x ORDER BY id) AS l FROM t GROUP BY k",
    },
    "aggregates_more": {
        "modes": "SELECT k, mode() WITHIN GROUP (ORDER BY x) AS m, variance(x) AS v, var_pop(x) AS p,"
        " stddev_pop(x) AS d FROM t GROUP BY k",
        "truths": "SELECT k, bool_and(x > 1) AS a, bool_or(x > 3) AS o, every(x IS NOT NULL) AS e FROM t GROUP BY k",
        "bits": "SELECT s, bit_and(x) AS a, bit_or(x) AS o, bit_xor(x) FILTER (WHERE k > 0) AS e FROM t GROUP BY s",
        "documents": "SELECT k, jsonb_agg(x ORDER BY id) AS a, jsonb_object_agg(id, s) AS o FROM t GROUP BY k",
        "any_of_them": "SELECT k, any_value(k) AS a, approx_count_distinct(x) AS c FROM t GROUP BY k",
        "together": "SELECT k, corr(x, id) AS c, covar_pop(x, id) AS p, covar_samp(x, id) AS s FROM t GROUP BY k",
        "lines": "SELECT s, regr_slope(x, id) AS b, regr_intercept(x, id) AS a, regr_r2(x, id) AS r,"
        " regr_count(x, id) AS n, regr_avgx(x, id) AS ax, regr_avgy(x, id) AS ay, regr_sxx(x, id) AS sx,"
        " regr_sxy(x, id) AS sp, regr_syy(x, id) AS sy FROM t GROUP BY s",
        "quartile": "SELECT k, percentile_disc(0.25) WITHIN GROUP (ORDER BY x DESC) AS q FROM t GROUP BY k",
    },
    "by_partition": {
        "distinct_on": "SELECT DISTINCT ON (k) k, id, x FROM t ORDER BY k, x DESC NULLS LAST, id",
        "windows": "SELECT id, lag(x) OVER (PARTITION BY k ORDER BY id) AS l, sum(x) OVER (PARTITION BY k ORDER BY id"
        " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM t",
        "two_partitions": "SELECT id, rank() OVER (PARTITION BY k ORDER BY x) AS a,"
        " rank() OVER (PARTITION BY s ORDER BY x) AS b FROM t",
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
        "by_a_value": "SELECT (SELECT max(n) FROM u WHERE u.y = t.k) AS m, count(*) AS c FROM t GROUP BY 1",
        "beside_counts": "SELECT k, count(*) AS c, (SELECT max(n) FROM u WHERE u.y = t.k) AS m FROM t GROUP BY k",
        "rows_as_values": "SELECT t.id, count(u) AS c, jsonb_agg(u ORDER BY u.id) AS l FROM t LEFT JOIN u ON u.y = t.k"
        " GROUP BY t.id",
        "any_of_them": "SELECT t.id, u.id AS other FROM t JOIN u ON u.y = ANY (ARRAY[t.k, t.x])",
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
    # Pieces without a key: all of them is computed when an input changes, and compared.
    "computed_anew": {
        "numbered": "SELECT id, row_number() OVER (ORDER BY x NULLS FIRST, id) AS n FROM t",
        "running": "SELECT id, sum(x) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) AS s,"
        " count(*) OVER () AS c FROM t",
        "listed": "SELECT string_agg(s, ',' ORDER BY id) AS l, bit_or(x) AS b, stddev(x) AS d, count(*) AS c FROM t",
        "right_join": "SELECT t.id, u.id AS other FROM t RIGHT JOIN u ON t.x < u.n",
        "full_join": "SELECT t.id, u.id AS other FROM t FULL JOIN u ON t.x < u.n",
        "one_of_them": "SELECT id, (SELECT n FROM u WHERE u.id = 3) AS n FROM t",
        "any_smaller": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.n < t.x)",
        "but_the_first": "SELECT id, x FROM t ORDER BY x NULLS FIRST, id OFFSET 2",
        "lists": "SELECT k, ARRAY[x, k] AS l, row_number() OVER (ORDER BY x NULLS FIRST, id) % 2 AS n FROM t",
        "nothing_but_lists": "SELECT ARRAY[x, k] AS l FROM t ORDER BY x NULLS FIRST, k NULLS FIRST, id OFFSET 2",
        "above": "SELECT n % 2 AS odd, count(*) AS c FROM"
        " (SELECT row_number() OVER (ORDER BY id) AS n FROM t) AS q GROUP BY 1",
    },
    # NaN, -0, infinity, rows that are there twice, a key that most rows have, sums beyond 64 bits, and 150 columns
    "edges": {
        "of_floats": "SELECT d, count(*) AS c, sum(b) AS s, avg(g) AS a, max(n) AS m FROM f GROUP BY d",
        "skewed": "SELECT g, min(d) AS lo, max(d) AS hi, sum(n) AS s, count(DISTINCT d) AS c FROM f GROUP BY g",
        "once": "SELECT DISTINCT d, b FROM f",
        "every_d": "SELECT d FROM f UNION ALL SELECT d FROM h",
        "without": "SELECT d FROM f EXCEPT ALL SELECT d FROM h",
        "met": "SELECT f.b, h.id FROM f LEFT JOIN h ON f.d = h.d",
        "unmet": "SELECT id FROM h WHERE NOT EXISTS (SELECT 1 FROM f WHERE f.d = h.d AND f.b > 0)",
        "largest": "SELECT d, b FROM f ORDER BY d DESC NULLS LAST, b NULLS FIRST LIMIT 3",
        "places": "SELECT d, b, row_number() OVER (PARTITION BY d ORDER BY b NULLS FIRST, n) AS p FROM f",
        "wide_join": f"SELECT {', '.join(f'w.w{at}' for at in range(148))}, h.d FROM w JOIN h ON w.k = h.id",
        "wide_groups": f"SELECT k, {', '.join(f'max(w{at}) AS w{at}' for at in range(148))} FROM w GROUP BY k",
        "wide_first": "SELECT * FROM w ORDER BY w0 DESC, w1, id LIMIT 2",
        "wide_ranks": "SELECT *, row_number() OVER (PARTITION BY k ORDER BY w0, id) AS n FROM w",
        # Without a value of d in the group it cannot be had: such a statement is refused, or the view.
        "share": "SELECT g, 100 / count(d) AS s FROM f GROUP BY g",
    },
}

TABLES = {
    "t": "id INT PRIMARY KEY, k INT, x INT, s VARCHAR, at TIMESTAMP",
    "u": "id INT PRIMARY KEY, y INT, n INT",
    "f": "d DOUBLE PRECISION, b BIGINT, n NUMERIC(28, 2), g INT",
    "h": "id INT PRIMARY KEY, d DOUBLE PRECISION",
    "w": f"id INT PRIMARY KEY, k INT, {', '.join(f'w{at} VARCHAR' for at in range(148))}",
}
COMPUTED_BY = [
    (stored_rows.ONE_TASK_ROWS, stored_rows.SMALL_ROWS),  # the driver, if Arrow can
    (0, stored_rows.SMALL_ROWS),  # a query, of which the driver compares what comes out
    (0, 0),  # a query, and executors compare all rows
]
TEXTS = ["NULL", "'a'", "'b'"]
FLOATS = ["NULL", "'NaN'", "'-0'", "0", "1.5", "'Infinity'", "'-Infinity'"]


class Statements:
    """Random changes, of values that are often the same."""

    def __init__(self, chance: random.Random):
        self._chance = chance

    def value(self, most: int) -> str:
        return self._chance.choice(["NULL", *map(str, range(most))])

    def insert(self, count: int) -> str:
        if self._chance.random() < 0.4:
            rows = [f"({self._chance.randrange(12)}, {self.value(3)}, {self.value(6)})" for _ in range(count)]
            return f"INSERT INTO u VALUES {', '.join(rows)}"
        rows = [
            f"({self._chance.randrange(40)}, {self.value(3)}, {self.value(6)}, {self._chance.choice(TEXTS)},"
            f" TIMESTAMP '2026-01-01 00:{self._chance.randrange(12):02}:00')"
            for _ in range(count)
        ]
        return f"INSERT INTO t VALUES {', '.join(rows)}"

    def plain(self) -> list[str]:
        keys = "UPDATE t SET id = id + 100 WHERE id % 5 = 0"
        return [self.insert(8), "UPDATE t SET k = 1, x = x + 1 WHERE id % 3 = 0", "DELETE FROM u WHERE n > 2", keys]

    def of_edges(self, count: int) -> str:
        pick, kind = self._chance.choice, self._chance.random()
        if kind < 0.2:
            return f"INSERT INTO h VALUES ({pick(range(6))}, {pick(FLOATS)}), (7, {pick(FLOATS)})"
        if kind < 0.4:
            rows = [", ".join(repr(pick("abc") * 20) for _ in range(148)) for _ in range(2)]
            return f"INSERT INTO w VALUES {', '.join(f'({pick(range(5))}, {self.value(6)}, {row})' for row in rows)}"
        numbers = ["NULL", "9223372036854775807", "-9223372036854775808", "0", "1"]
        large = ["NULL", "99999999999999999999999999.99", "-0.01", "1"]
        rows = [
            f"({pick(FLOATS)}, {pick(numbers)}, {pick(large)}, {pick([1, 1, 1, 1, 2, 'NULL'])})" for _ in range(count)
        ]
        return f"INSERT INTO f VALUES {', '.join(rows)}, {rows[0]}"

    def edges(self) -> list[str]:
        changes = ["UPDATE f SET d = -d WHERE d > 0 OR d = 0", "UPDATE f SET g = g + 1 WHERE b > 0", "DELETE FROM f"]
        return [self.of_edges(5), *self._chance.sample(changes, 2), self.of_edges(5)]


@pytest.mark.parametrize("group", OPERATORS)
def test_views_are_their_queries_after_every_barrier(spark, warehouse, monkeypatch, group):
    monkeypatch.setattr(builds, "PART_ROWS", 10)  # so that there are parts
    views, seed = OPERATORS[group], drawn_seed()
    print(f"HEADRACE_SEED={seed}")
    chance = random.Random(seed)
    statements = Statements(chance)
    insert: Callable[[int], str] = statements.of_edges if group == "edges" else statements.insert
    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
    for name in "fhw" if group == "edges" else "tu":
        db.sql(f"CREATE TABLE {name} ({TABLES[name]})")
    if group == "computed_anew":
        told = {name: db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {views[name]}").rows() for name in views}
        assert [name for name in views if "incremental: no, all of it is computed anew" not in str(told[name])] == []
    db.sql("SET background_ddl = true")
    before = chance.sample([*views], len(views) // 2)
    if "share" in views and "share" not in before:
        before.append("share")
    after = [name for name in views if name not in before]
    for name in before:
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {views[name]}")
    db.sql("WAIT")
    made = list(before)
    ways = chance.sample(COMPUTED_BY, len(COMPUTED_BY))
    changes = [insert(12), *(statements.edges() if group == "edges" else statements.plain()), insert(6)]
    for number, statement in enumerate(changes):
        if number == 2:
            db.sql("SET backfill_rate_limit = 10")  # so that they are not there when the engine crashes
            for name in after:
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {views[name]}")
                db.sql(f"ALTER MATERIALIZED VIEW {name} SET PARALLELISM = {chance.randint(1, 3)}")
        if group == "computed_anew":
            for limit, rows in zip(("ONE_TASK_ROWS", "SMALL_ROWS"), ways[number % len(ways)], strict=True):
                monkeypatch.setattr(stored_rows, limit, rows)
        try:
            db.sql(statement)
        except DataError as error:
            assert 'division by zero, in materialized view "share"' in str(error)
        compared = chance.sample(made, 2)
        if number == 3:
            db.engine.abandon()
            db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})
            for name in after:
                if db.engine.committed.catalog.get(name).creating:
                    db.sql(f"ALTER MATERIALIZED VIEW {name} SET BACKFILL_RATE_LIMIT = DEFAULT")
            db.sql("WAIT")
            compared = made = [*views]
        batch = Batch(db)
        for name in made if THOROUGH or number == len(changes) - 1 else compared:
            there, wanted = (lines(rows) for rows in (live_rows(db.engine, name), batch.answer(views[name])))
            assert there == wanted, f"{name} after {statement}, HEADRACE_SEED={seed}"
    db.close()


def lines(rows: pa.Table) -> Counter:
    """Rows as text, because arrays are among them; -0 is 0, and the last digits of floats depend on their order."""
    columns = ([_text(value) for value in column.to_pylist()] for column in rows.columns)
    return Counter(zip(*columns, strict=True))


def _text(value: object) -> str:
    return f"{round(value, 9) + 0.0:.9g}" if isinstance(value, float) else repr(value)
