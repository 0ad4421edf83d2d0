"""Nexmark as live views: created before the events, in the middle of them, after them, and on views; each equal to its
query.

All queries in all four ways with ``HYPOTHESIS_PROFILE=thorough`` (`pytest -k above` for one way). Otherwise those that
are linear, and four others, each in another way; which ones is drawn, and ``HEADRACE_SEED`` draws them again.
"""

from __future__ import annotations

import os
import random
import re

import pytest

from tests.support.nexmark import ABOVE, QUERIES, TABLES, WITH_MORE_COLUMNS, Generator

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
WAYS = ("before", "between", "after", "above")
ALL = QUERIES | WITH_MORE_COLUMNS
LINEAR = ("q0", "q1", "q2", "q10", "q14", "q21", "q22")
_READ = re.compile(rf"(\b(?:FROM|JOIN)\s+|,\s+(?=\w+ AS )|\b(?:HOP|TUMBLE|SESSION)\()({'|'.join(TABLES)})\b")


def chosen() -> list[dict[str, str]]:
    """Queries and their ways, for one database after the other."""
    if THOROUGH:
        parts = [[*ALL][at : at + 6] for at in range(0, len(ALL), 6)]
        return [dict.fromkeys(names, way) for way in WAYS for names in parts]
    chance = random.Random(int(os.environ.get("HEADRACE_SEED", "20261116")))
    drawn = chance.sample([name for name in ALL if name not in LINEAR], len(WAYS))
    return [dict(zip(drawn, WAYS, strict=True)) | {name: WAYS[at % 4] for at, name in enumerate(LINEAR)}]


def on_views(query: str) -> str:
    """The query over views in place of tables.

    >>> on_views("SELECT b.auction, bidder FROM auction AS a, bid AS b JOIN person ON true")
    'SELECT b.auction, bidder FROM v_auction AS a, v_bid AS b JOIN v_person ON true'
    """
    return _READ.sub(r"\1v_\2", query)


def name_of(ways: dict[str, str]) -> str:
    return (
        "_".join(f"{name}{way}" for name, way in ways.items())
        if len({*ways.values()}) > 1
        else (f"{next(iter(ways.values()))}-{'_'.join(ways)}")
    )


@pytest.mark.parametrize("ways", chosen(), ids=name_of)
def test_nexmark(db, ways):
    generator = Generator(3)
    for statement in generator.tables():
        db.sql(statement)
    if "above" in ways.values():
        for name in TABLES:
            db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
    made = []

    def create(when: str) -> None:
        for name in (name for name, way in ways.items() if way == when):
            query = on_views(ALL[name]) if when == "above" else ALL[name]
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
            made.append(name)

    create("before")
    for statement in generator.events(2):
        db.sql(statement)
    create("between")
    create("above")
    for name, (below, lower, upper) in ABOVE.items() if ways.get("q4") == "above" else ():
        db.sql(f"CREATE MATERIALIZED VIEW {below} AS {lower}")
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {upper}")
        made.append(name)
    for statement in generator.events(1):
        db.sql(statement)
    create("after")
    for statement in generator.events(1, size=4):
        db.sql(statement)
    for name in made:
        ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert said.startswith("equal") and not said.startswith("equal, 0 rows"), (name, said)
