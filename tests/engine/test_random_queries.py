"""Random queries in what SQLite does not have, as views: they are what Spark says of the tables in the same epoch.

Some are created before there are rows, some among random changes, and some in the background, slowed down and rescaled,
so that the engine crashes while they are filled. The queries and changes are new ones in every run, and a failure says
how to draw them again; ``HEADRACE_QUERIES=1000`` tries more. Those that SQLite knows are in ``test_incremental.py``.
"""

from __future__ import annotations

import random

import pytest

import headrace
from headrace.engine import builds
from tests.engine.test_operators import lines
from tests.support.batch import Batch
from tests.support.four_ways import THOROUGH, drawn_seed
from tests.support.random_queries import how_many
from tests.support.spark_queries import TABLES, Changes, SparkQueries
from tests.support.stored import live_rows

AT_ONCE = 12 if THOROUGH else 9
"""Views of one database"""

QUERIES = how_many(AT_ONCE)


@pytest.mark.parametrize("first", range(0, QUERIES, AT_ONCE))
def test_random_queries_are_what_spark_says(spark, warehouse, monkeypatch, first):
    monkeypatch.setattr(builds, "PART_ROWS", 10)  # so that there are parts
    seed = drawn_seed() + first
    chance = random.Random(seed)
    queries, changes = SparkQueries(chance), Changes(chance)
    views = {f"v{at}": queries.query() for at in range(min(AT_ONCE, QUERIES - first))}
    print(f"HEADRACE_SEED={seed}", *(f"{name}: {query}" for name, query in views.items()), sep="\n")
    names = [*views]
    before, between, meanwhile = names[::3], names[1::3], names[2::3]

    def opened():
        return headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "50ms"})

    def create(chosen: list[str]) -> None:
        for name in chosen:
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {views[name]}")

    def check(chosen: list[str]) -> None:
        batch = Batch(db)
        for name in chosen:
            there, wanted = (lines(rows) for rows in (live_rows(db.engine, name), batch.answer(views[name])))
            assert there == wanted, f"{name}, HEADRACE_SEED={seed}: {views[name]}"

    def write(count: int) -> None:
        for _ in range(count):
            statement = changes.statement()
            print(statement)
            db.sql(statement)

    db = opened()
    for name, columns in TABLES.items():
        db.sql(f"CREATE TABLE {name} ({columns})")
    db.sql("SET background_ddl = true")
    create(before)
    db.sql("WAIT")
    for name in TABLES:
        db.sql(changes.insert(name, 12))
    create(between)
    db.sql("WAIT")
    write(2)
    check([*before, *between])
    db.sql("SET backfill_rate_limit = 8")
    create(meanwhile)
    write(1)
    for name in meanwhile:
        if db.engine.committed.catalog.get(name).creating:
            db.sql(f"ALTER MATERIALIZED VIEW {name} SET PARALLELISM = {chance.randint(1, 3)}")
    db.engine.abandon()
    db = opened()
    write(1)
    for name in meanwhile:
        if db.engine.committed.catalog.get(name).creating:
            db.sql(f"ALTER MATERIALIZED VIEW {name} SET BACKFILL_RATE_LIMIT = DEFAULT")
    db.sql("WAIT")
    write(2)
    check(names)
    db.close()
