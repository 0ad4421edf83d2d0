"""TPC-H as live views, all of them in one database, in one of four ways each (:mod:`tests.support.four_ways`), while
orders come, change and go.
"""

from __future__ import annotations

import pytest

from tests.support.four_ways import THOROUGH, TURNS, differing, drawn_seed, ways
from tests.support.tpch import QUERIES, TABLES, Generator, on_views

ORDERS = 60


@pytest.mark.parametrize("turn", TURNS)
def test_every_query_is_a_live_view(db, turn):
    seed = drawn_seed()
    chosen = ways(QUERIES, seed, turn)
    print(f"HEADRACE_SEED={seed}: {chosen}")
    generator = Generator(seed, ORDERS)
    statements = [*generator.load()]
    tables, rows, lines = statements[: len(TABLES)], statements[len(TABLES) : -1], statements[-1]
    for statement in tables:
        db.sql(statement)
    db.sql("SET background_ddl = true")
    made = {}

    def create(*when: str) -> None:
        for number, way in chosen.items():
            if way in when:
                made[f"q{number}"] = QUERIES[number]
                query = on_views(QUERIES[number]) if way == "above" else QUERIES[number]
                db.sql(f"CREATE MATERIALIZED VIEW q{number} AS {query}")

    for name in TABLES:
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
    create("before")
    db.sql("WAIT")
    for statement in rows:
        db.sql(statement)
    create("between")
    changes = [*generator.changes(1)]
    for statement in [lines, *changes[:2]]:  # while they are being filled, and orders come
        db.sql(statement)
    create("after", "above")
    db.sql("WAIT")
    for statement in [*changes[2:], *(generator.changes(1) if THOROUGH else ())]:
        db.sql(statement)  # lines and an order go; others, suppliers and what parts cost change
    wrong, empty = differing(db, made)
    assert not wrong, f"{wrong}, HEADRACE_SEED={seed}, turn {turn}: {chosen}"
    assert len(empty) <= 4, f"{empty}, HEADRACE_SEED={seed}"
