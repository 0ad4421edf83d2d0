"""Views of several inputs that are filled in some order, while others write, through a crash, rescaled meanwhile."""

from __future__ import annotations

import random

from headrace.engine import builds, evaluate
from headrace.engine.filling import jobs_of
from tests.support.four_ways import drawn_seed
from tests.support.waiting import eventually

ROWS = 400
ORDERS = ["FIXED(w -> t)", "FIXED(t -> w)", "AUTO"]
"""One of them in each run"""

QUERY = (
    "SELECT t.k, count(*) AS c, sum(w.x) AS s, max(t.x) AS m FROM t JOIN w ON t.k = w.k"
    " WHERE t.x <> (SELECT min(x) FROM w) GROUP BY t.k"
)


def reading(db, table: str) -> list[int]:
    """Of internal tables that are filled from a table, how many rows each has read."""
    jobs = jobs_of(db.engine.committed).values()
    return [job.rows_read for job in jobs if [each.name for each in job.inputs.values()] == [table] and not job.builds]


def test_inputs_in_some_order(open_database, monkeypatch):
    seed = drawn_seed()
    print(f"HEADRACE_SEED={seed}")
    order = random.Random(seed).choice(ORDERS)
    monkeypatch.setattr(builds, "PART_ROWS", 200)
    monkeypatch.setattr(evaluate, "ONE_TASK_ROWS", 10)
    db = open_database()
    for name in "tw":
        db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, k INT, x INT)")
        db.sql(f"INSERT INTO {name} SELECT g, g % 23, g % 7 FROM generate_series(1, {ROWS}) AS g")
    db.sql("SET background_ddl = true")
    db.sql("SET backfill_rate_limit = 40")
    db.sql(f"CREATE MATERIALIZED VIEW v WITH (backfill_order = {order}, parallelism = 2) AS {QUERY}")

    def change(number: int) -> None:
        """Rows that come, go, and move to another key, on either side."""
        db.sql(f"UPDATE t SET k = k + 1, x = x + 1 WHERE id % 5 = {number}")
        db.sql(f"DELETE FROM w WHERE id % 11 = {number}")
        db.sql(f"INSERT INTO w VALUES ({1000 + number}, {number}, -{number}), ({number}, 3, 50)")

    change(1)
    first, last = ("t", "w") if order == "FIXED(t -> w)" else ("w", "t")
    eventually(lambda: any(reading(db, first)))
    db.sql("ALTER MATERIALIZED VIEW v SET PARALLELISM = 3")
    change(2)
    if "->" in order:
        assert not any(reading(db, last)) or not reading(db, first), f"{last} was read before {first}"
    assert db.engine.committed.catalog.get("v").creating
    db.engine.abandon()
    db = open_database()
    change(3)
    db.sql("ALTER MATERIALIZED VIEW v SET PARALLELISM = 1")
    db.sql("ALTER MATERIALIZED VIEW v SET BACKFILL_RATE_LIMIT = 4000")
    eventually(lambda: not reading(db, "w") and not reading(db, "t"))
    change(4)
    db.sql("WAIT v")
    change(0)
    ((said, *_),) = db.sql("CHECK MATERIALIZED VIEW v").rows()
    assert said.startswith("equal"), said
    assert db.sql("SELECT count(*) FROM v").rows() != [(0,)]
