"""Relations that follow what changed in one epoch, and are computed anew in the next: both ways in turn on the same
view, as drawn in every run, through crashes, in parts, rescaled, and on each other, and after each statement it is what
SQLite says.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import pytest

from headrace.engine import builds, choice, stored_rows
from tests.engine.test_incremental import ABOVE, VIEWS, Run
from tests.support.four_ways import THOROUGH, drawn_seed

FAMILIES = {
    "sums": ["grouped", "joined_groups", "self_groups", "distinct_counts", "groups_of_groups", "total"],
    "joins": ["inner_join", "left_join", "full_join", "three", "self_join", "has_no_partner"],
    "keys": ["grouped", "inner_join", "ranked", "best", "only_left", "correlated", "different"],
}


class Turns:
    """In place of the decision: drawn anew each time it is asked for."""

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self.taken = {True: 0, False: 0}

    def __call__(self, followed, anew) -> bool:
        found = self._random.random() < 0.5
        self.taken[found] += 1
        return found


@pytest.fixture
def turns(monkeypatch) -> Turns:
    found = Turns(drawn_seed())
    monkeypatch.setattr(choice, "is_cheaper_anew", found)
    monkeypatch.setattr(builds, "PART_ROWS", 10)
    return found


@pytest.fixture
def run(spark, warehouse, request, turns) -> Iterator[Run]:
    found = Run(spark, warehouse, request.param)
    yield found
    found.database.close()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("run", range(6 if THOROUGH else 1), ids=lambda turn: f"turn{turn}", indirect=True)
def test_both_ways_give_the_same(run, turns, family, monkeypatch):
    names = FAMILIES[family]
    for name in names[::2]:
        run.create(name, VIEWS[name])
    for _ in range(5):
        run.write()
        run.check()
    for name in names[1::2]:
        run.create(name, VIEWS[name], wait=False)
        run.write()
        run.database.sql(f"ALTER MATERIALIZED VIEW {name} SET PARALLELISM = {run.random.randint(1, 3)}")
        run.check()
    run.crash()
    run.write()
    run.database.sql("WAIT")
    run.check()
    for name, query in ABOVE.items():
        if query.split(" FROM ")[1].split()[0] in names:
            run.create(name, query)
    for small in itertools.islice(itertools.cycle([stored_rows.SMALL_ROWS, 0]), 6):  # 0: executors compare all rows
        monkeypatch.setattr(stored_rows, "SMALL_ROWS", small)
        run.write()
        run.check()
    run.crash()
    run.write()
    run.check()
    assert all(turns.taken.values())
    assert run.database.engine.status()["computed_anew"] <= turns.taken[True]


def test_most_of_a_table_changes(db, monkeypatch):
    """By the figures themselves, of a start that costs nothing."""
    monkeypatch.setattr("headrace.engine.anew.START", 0)
    monkeypatch.setattr(stored_rows, "FEW_KEYS", 20)
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, x INT)")
    db.sql("CREATE TABLE u (id INT PRIMARY KEY, name VARCHAR)")
    db.sql("INSERT INTO u SELECT g, 'name ' || g FROM generate_series(0, 9) AS g")
    db.sql("INSERT INTO t SELECT g, g % 10, g % 7 FROM generate_series(1, 3000) AS g")
    db.sql("CREATE MATERIALIZED VIEW sums AS SELECT name, sum(x) AS s FROM t JOIN u ON t.k = u.id GROUP BY name")
    db.sql("CREATE MATERIALIZED VIEW most AS SELECT k, max(x) AS m FROM t GROUP BY k")
    db.sql("CREATE MATERIALIZED VIEW means AS SELECT k, avg(x) AS a FROM t GROUP BY k")

    def anew() -> int:
        before = db.engine.status()["computed_anew"]
        db.sql(statement)
        for view in ("sums", "most", "means"):
            ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {view}").rows()
            assert said.startswith("equal"), view
        return db.engine.status()["computed_anew"] - before

    statement = "UPDATE t SET x = x + 1 WHERE id <= 3"
    assert anew() == 0
    statement = "UPDATE t SET x = x + 1, k = (k + 1) % 11"
    assert anew() == 3
    statement = "DELETE FROM t WHERE id > 10"
    assert anew() == 3
    statement = "INSERT INTO t VALUES (4000, 1, 1)"
    assert anew() == 0


def test_explain_says_so(db):
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, k INT, x INT)")
    said = {
        query: "large changes: computed anew" in str(db.sql(f"EXPLAIN CREATE MATERIALIZED VIEW v AS {query}").rows())
        for query in ("SELECT k, max(x) AS m FROM t GROUP BY k", "SELECT id FROM t ORDER BY x LIMIT 3")
    }
    assert [*said.values()] == [True, False]
