"""Views with joins, aggregates and the like against SQLite: random statements, and after each of them every view is
what its query says of the tables, in the manifest that was committed.

Which views there are, and what happens to them, is drawn anew in every run. They are created before there are rows,
between writes, and while others write, in parts, and rescaled meanwhile; the engine is abandoned as if it had crashed,
and opened again. A failure names its seed: ``HEADRACE_SEED=7`` draws the same again.
``HYPOTHESIS_PROFILE=thorough`` has more runs, with all views at once, and ``HEADRACE_QUERIES=100`` more random queries.
"""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Iterator

import pytest

import headrace
from headrace.engine import builds
from tests.support.four_ways import THOROUGH, drawn_seed
from tests.support.random_queries import Queries, how_many
from tests.support.stored import stored

TABLES = {
    "t": "CREATE TABLE t (id INTEGER PRIMARY KEY, k INTEGER, x INTEGER, s VARCHAR)",
    "u": "CREATE TABLE u (id INTEGER PRIMARY KEY, y INTEGER, n INTEGER)",
    "w": "CREATE TABLE w (a INTEGER, b INTEGER)",
}

VIEWS = {
    "grouped": "SELECT k, count(*) AS c, count(x) AS cx, sum(x) AS sx, min(x) AS mi, max(s) AS ma FROM t GROUP BY k",
    "by_expression": "SELECT k % 2 AS g, count(DISTINCT x) AS d, sum(x) + 1 AS sx FROM t WHERE x > 1 GROUP BY k % 2",
    "of_more_than_one": "SELECT sum(x) AS sx FROM t GROUP BY k, s HAVING count(*) > 1",
    "filtered": "SELECT y, count(*) FILTER (WHERE n > 3) AS c FROM u GROUP BY y",
    "total": "SELECT count(*) AS c, sum(x) AS sx FROM t",
    "different": "SELECT DISTINCT k, s FROM t",
    "without_key": "SELECT a, count(*) AS c FROM w GROUP BY a",
    "inner_join": "SELECT t.id, t.k, u.n FROM t JOIN u ON t.k = u.y",
    "by_key": "SELECT t.id, u.n FROM t JOIN u ON t.k = u.id",
    "residual": "SELECT t.id, u.id AS uid FROM t JOIN u ON t.k = u.y AND t.x < u.n",
    "left_join": "SELECT t.id, u.n FROM t LEFT JOIN u ON t.k = u.y AND u.n > 2",
    "full_join": "SELECT t.id, u.id AS uid FROM t FULL JOIN u ON t.k = u.y",
    "keyless_join": "SELECT w.a, w.b, u.n FROM w JOIN u ON w.a = u.y",
    "self_join": "SELECT p.id, q.id AS other FROM t AS p JOIN t AS q ON p.k = q.x WHERE p.id <> q.id",
    "three": "SELECT t.id, u.n, w.b FROM t, u, w WHERE t.k = u.y AND u.n = w.a",
    "joined_groups": "SELECT t.s, sum(u.n) AS sn, count(*) AS c FROM t JOIN u ON t.k = u.y GROUP BY t.s",
    "self_groups": "SELECT p.s, count(*) AS c, sum(q.id) AS si FROM t AS p JOIN t AS q ON p.k = q.x GROUP BY p.s",
    "has_partner": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.y = t.k AND u.n > 2)",
    "has_no_partner": "SELECT id, x FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.y = t.k)",
    "among": "SELECT id FROM t WHERE k IN (SELECT y FROM u WHERE n > 1)",
    "not_among": "SELECT x FROM t WHERE id NOT IN (SELECT id FROM u WHERE n > 1)",
    "ranked": "SELECT id, row_number() OVER (PARTITION BY k ORDER BY x NULLS FIRST, id) AS rn FROM t",
    "best": "SELECT * FROM (SELECT id, k, row_number() OVER (PARTITION BY k ORDER BY x DESC NULLS LAST, id) AS rn"
    " FROM t) q WHERE rn <= 2",
    "either": "SELECT k FROM t UNION SELECT y FROM u",
    "shared": "SELECT k FROM t INTERSECT SELECT y FROM u",
    "only_left": "SELECT k FROM t EXCEPT SELECT y FROM u",
    "most_frequent": "SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY c DESC, k NULLS LAST LIMIT 2",
    "largest": "SELECT id, x FROM t ORDER BY x DESC NULLS LAST, id LIMIT 3",
    "next_smallest": "SELECT s FROM t ORDER BY x NULLS FIRST, id DESC LIMIT 2 OFFSET 2",
    "extremes": "SELECT min(x) AS mi, max(x) FILTER (WHERE k > 0) AS ma, count(DISTINCT k) AS d, sum(x) AS sx FROM t",
    "distinct_counts": "SELECT k, count(DISTINCT x) AS d, count(DISTINCT x) FILTER (WHERE x > 2) AS e, count(*) AS c"
    " FROM t GROUP BY k",
    "scalar": "SELECT id FROM t WHERE x > (SELECT avg(n) FROM u)",
    "correlated": "SELECT id FROM t WHERE x > (SELECT max(n) - 2 FROM u WHERE u.y = t.k)",
    "alternatives": "SELECT t.id, u.id AS uid FROM t, u WHERE (t.k = u.y AND t.x > 3) OR (t.k = u.y AND u.n < 2)",
    "groups_of_groups": "SELECT c, count(*) AS n FROM (SELECT k, count(*) AS c FROM t GROUP BY k) q GROUP BY c",
    "with_groups": "SELECT t.id, q.c FROM t JOIN (SELECT y, count(*) AS c FROM u GROUP BY y) q ON t.k = q.y",
}

ABOVE = {
    "above_grouped": "SELECT k, c FROM grouped WHERE c > 1",
    "above_join": "SELECT n, count(*) AS c FROM inner_join GROUP BY n",
}
STOOD_ON = ["grouped", "inner_join"]

TURNS = range(12 if THOROUGH else 1)
"""Runs of one test, each with the seed after that of the one before"""

VIEWS_OF_RUN = 10 if THOROUGH else 4
RANDOM_VIEWS = how_many(VIEWS_OF_RUN * len(TURNS))
RANDOM_TURNS = range(0, RANDOM_VIEWS, VIEWS_OF_RUN)
"""Runs with random queries, by their first one"""
VIEWS_AT_ONCE = len(VIEWS) - len(STOOD_ON) if THOROUGH else 8


class Model:
    """The same tables in SQLite."""

    def __init__(self):
        self.database = sqlite3.connect(":memory:")
        for text in TABLES.values():
            self.database.execute(text)

    def rows(self, query: str) -> Counter:
        for name, text in VIEWS.items():
            query = query.replace(f"FROM {name} ", f"FROM ({text}) AS {name} ")
        return Counter(self.database.execute(query).fetchall())


class Run:
    def __init__(self, spark, warehouse: str, turn: int):
        self.seed = drawn_seed() + turn
        print(f"HEADRACE_SEED={self.seed}")
        self.random, self.model = random.Random(self.seed), Model()
        self._spark, self._warehouse = spark, warehouse
        self.open()
        self.queries: dict[str, str] = {}
        for text in TABLES.values():
            self.database.sql(text)

    def open(self) -> None:
        self.database = headrace.connect(self._warehouse, spark=self._spark, parameters={"barrier_interval": "100ms"})

    def crash(self) -> None:
        self.database.engine.abandon()
        self.open()

    def create(self, name: str, query: str, *, wait: bool = True) -> None:
        self.database.sql(f"SET background_ddl = {'false' if wait else 'true'}")
        self.database.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.queries[name] = query

    def write(self) -> None:
        text = self.statement()
        self.model.database.execute(text)
        self.database.sql(text)

    def statement(self) -> str:
        def value(most: int = 4) -> str:
            return self.random.choice(["NULL", *map(str, range(most))])

        table = self.random.choice(["t", "t", "u", "u", "w"])
        kind = self.random.choice(["insert", "insert", "insert", "update", "delete"])
        if kind == "insert":
            rows = []
            for _ in range(self.random.randint(1, 5)):
                id = str(self.random.randrange(1_000_000_000))
                text = self.random.choice(["NULL", "'a'", "'b'", "'b b'"])
                rows.append(
                    {"t": [id, value(), value(9), text], "u": [id, value(), value(7)], "w": [value(), value()]}[table]
                )
            return f"INSERT INTO {table} VALUES {', '.join('(' + ', '.join(row) + ')' for row in rows)}"
        where = self.random.choice({"t": ["k = 1", "x < 3", "s = 'a'", "k IS NULL"], "u": ["y = 1", "n > 4"],
                                    "w": ["a = 1", "b IS NULL"]}[table])  # fmt: skip
        if self.random.random() < 0.1:
            where = "TRUE"
        if kind == "delete":
            return f"DELETE FROM {table} WHERE {where}"
        assign = {"t": ["k = 2", "x = x + 1", "k = x", "s = 'b'"], "u": ["y = 1", "n = n - 1"], "w": ["a = b"]}[table]
        return f"UPDATE {table} SET {self.random.choice(assign)} WHERE {where}"

    def check(self) -> None:
        engine = self.database.engine
        for name, query in self.queries.items():
            if not engine.committed.catalog.get(name).creating:
                said = f"{name} at epoch {engine.committed.epoch}, HEADRACE_SEED={self.seed}"
                assert stored(engine, name) == self.model.rows(f"{query} "), said


@pytest.fixture
def run(spark, warehouse, request, monkeypatch) -> Iterator[Run]:
    monkeypatch.setattr(builds, "PART_ROWS", 10)  # so that there are parts
    found = Run(spark, warehouse, request.param)
    yield found
    found.database.close()


@pytest.mark.parametrize("run", TURNS, ids=lambda turn: f"turn{turn}", indirect=True)
def test_views_are_their_queries_after_every_statement(run):
    names = run.random.sample([name for name in VIEWS if name not in STOOD_ON], VIEWS_AT_ONCE) + STOOD_ON
    run.random.shuffle(names)
    before, between, meanwhile = names[::3], names[1::3], names[2::3]
    for name in before:
        run.create(name, VIEWS[name])
    for _ in range(4):
        run.write()
        run.check()
    for name in between:
        run.create(name, VIEWS[name])
        run.write()
        run.check()
    for name in meanwhile:
        run.create(name, VIEWS[name], wait=False)
        run.write()
        run.database.sql(f"ALTER MATERIALIZED VIEW {name} SET PARALLELISM = {run.random.randint(1, 3)}")
        run.check()
    run.crash()
    run.write()
    run.check()
    run.database.sql("WAIT")
    run.check()
    for name, query in ABOVE.items():
        run.create(name, query)
    run.crash()
    for _ in range(4):
        run.write()
        run.check()
    for name in run.random.sample([*run.queries], 3):
        ((said, *_),) = run.database.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert said.startswith("equal"), name


@pytest.mark.parametrize("run", RANDOM_TURNS, ids=lambda turn: f"from{turn}", indirect=True)
def test_random_queries_are_what_sqlite_says(run, request):
    turn = request.node.callspec.params["run"]
    queries = Queries(run.random)
    for _ in range(3):
        run.write()
    for number in range(min(VIEWS_OF_RUN, RANDOM_VIEWS - turn)):
        query = queries.query()
        print(f"q{number}: {query}")  # shown if it fails
        run.create(f"q{number}", query, wait=number % 2 == 0)
        run.write()
        run.check()
    run.database.sql("WAIT")
    for _ in range(4):
        run.write()
        run.check()
