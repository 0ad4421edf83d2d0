"""Nexmark as live views: created before the events, in the middle of them, and after; each equal to its query.

All queries in all ways with ``HYPOTHESIS_PROFILE=thorough`` (`pytest -k before` for one); otherwise those that have
most to say.
"""

from __future__ import annotations

import os

import pytest

from tests.support.nexmark import ABOVE, QUERIES, Generator

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
WAYS = ["before", "between", "after"] if THOROUGH else ["between"]
CHOSEN = [[*QUERIES][at : at + 6] for at in range(0, len(QUERIES), 6)] if THOROUGH else [["q5", "q11"]]


@pytest.mark.parametrize("names", CHOSEN, ids="_".join)
@pytest.mark.parametrize("way", WAYS)
def test_nexmark(db, way, names):
    generator = Generator(3)
    for statement in generator.tables():
        db.sql(statement)
    made = []

    def create(when: str) -> None:
        if when != way:
            return
        for name in names:
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {QUERIES[name]}")
            made.append(name)

    create("before")
    for statement in generator.events(2):
        db.sql(statement)
    create("between")
    for name, (below, lower, upper) in ABOVE.items() if way == "between" and "q5" in names else ():
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
        assert said.startswith("equal"), name
