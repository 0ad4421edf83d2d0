"""Nexmark as live views, all of them in one database, in one of four ways each (:mod:`tests.support.four_ways`)."""

from __future__ import annotations

import re

import pytest

from tests.support.four_ways import THOROUGH, TURNS, differing, drawn_seed, ways
from tests.support.nexmark import ABOVE, QUERIES, TABLES, WITH_MORE_COLUMNS, Generator

ALL = QUERIES | WITH_MORE_COLUMNS
_READ = re.compile(rf"(\b(?:FROM|JOIN)\s+|,\s+(?=\w+ AS )|\b(?:HOP|TUMBLE|SESSION)\()({'|'.join(TABLES)})\b")


def on_views(query: str) -> str:
    """The query over views in place of tables.

    >>> on_views("SELECT b.auction, bidder FROM auction AS a, bid AS b JOIN person ON true")
    'SELECT b.auction, bidder FROM v_auction AS a, v_bid AS b JOIN v_person ON true'
    """
    return _READ.sub(r"\1v_\2", query)


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
            if way in when:
                made[name] = ALL[name]
                db.sql(f"CREATE MATERIALIZED VIEW {name} AS {on_views(ALL[name]) if way == 'above' else ALL[name]}")

    for name in TABLES:
        db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
    for below, lower, _ in ABOVE.values():
        made[below] = lower
        db.sql(f"CREATE MATERIALIZED VIEW {below} AS {lower}")
    create("before")
    db.sql("WAIT")
    first, second = [*generator.events(1)], [*generator.events(1)]
    for statement in first[:3]:  # what was inserted; nothing has changed or gone
        db.sql(statement)
    create("between", "above")
    for name, (_, _, upper) in ABOVE.items():
        made[name] = upper
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {upper}")
    for statement in second[:3]:  # while they are being filled
        db.sql(statement)
    create("after")
    db.sql("WAIT")
    for statement in [*first[3:], *(generator.events(1, size=4) if THOROUGH else ())]:
        db.sql(statement)  # an auction changes, and bids go
    wrong, empty = differing(db, made)
    assert not wrong, f"{wrong}, HEADRACE_SEED={seed}, turn {turn}: {chosen}"
    assert len(empty) < len(made) / 4, f"{empty}, HEADRACE_SEED={seed}"
