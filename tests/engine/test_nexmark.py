"""Nexmark as live views, all of them in one database, in one of four ways each (:mod:`tests.support.four_ways`).

Some of the queries are there twice: alone, and in layers, as views on views of theirs.
"""

from __future__ import annotations

import pytest

from tests.support.four_ways import THOROUGH, TURNS, differing, drawn_seed, ways
from tests.support.nexmark import ABOVE, LOWER, QUERIES, TABLES, WITH_MORE_COLUMNS, Generator, below, on_views

ALONE = QUERIES | WITH_MORE_COLUMNS
ALL = ALONE | ABOVE


def _in_its_way(query: str, way: str) -> str:
    return on_views(query) if way == "above" else query


@pytest.mark.parametrize("turn", TURNS)
def test_every_query_is_a_live_view(db, turn):
    seed = drawn_seed()
    chosen = ways(ALL, seed, turn)
    print(f"HEADRACE_SEED={seed}: {chosen}")
    generator = Generator(seed)
    for statement in generator.tables():
        db.sql(statement)
    db.sql("SET background_ddl = true")
    made = {}

    def create(*when: str) -> None:
        for name, way in chosen.items():
            for view in below(ALL[name]) if way in when else ():
                if view not in made:
                    made[view] = LOWER[view]
                    # What others are to stand on has to be there.
                    db.sql(f"CREATE MATERIALIZED VIEW {view} AS {_in_its_way(LOWER[view], way)}; WAIT {view}")
        for name, way in chosen.items():
            if way in when:
                # Layers are compared with the query that they are made of, over the tables.
                made[name] = ALONE[name.removesuffix("_above")]
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {_in_its_way(ALL[name], way)}")

    for name in TABLES:
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
    create("before")
    db.sql("WAIT")
    first, second = [*generator.events(1)], [*generator.events(1)]
    for statement in first[:3]:  # what was inserted; nothing has changed or gone
        db.sql(statement)
    create("between", "above")
    for statement in second[:3]:  # while they are being filled
        db.sql(statement)
    create("after")
    db.sql("WAIT")
    for statement in [*first[3:], *(generator.events(1, size=4) if THOROUGH else ())]:
        db.sql(statement)  # an auction changes, and bids go
    wrong, empty = differing(db, made)
    assert not wrong, f"{wrong}, HEADRACE_SEED={seed}, turn {turn}: {chosen}"
    assert len(empty) < len(made) / 4, f"{empty}, HEADRACE_SEED={seed}"
