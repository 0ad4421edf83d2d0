"""Nexmark as live views: created before the events, in the middle of them, and after; each equal to its query.

All queries with ``HYPOTHESIS_PROFILE=thorough``; otherwise those that have most to say.
"""

from __future__ import annotations

import os

from tests.support.nexmark import ABOVE, QUERIES, Generator

CHOSEN = [*QUERIES] if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else ["q5"]


def test_nexmark(db):
    generator = Generator(3)
    for statement in generator.tables():
        db.sql(statement)
    made = []

    def create(when: str, names: list[str]) -> None:
        for name in names:
            db.sql(f"CREATE MATERIALIZED VIEW {name}_{when} AS {QUERIES[name]}")
            made.append(f"{name}_{when}")

    create("before", CHOSEN[::2])
    for statement in generator.events(2):
        db.sql(statement)
    create("between", CHOSEN[1::2])
    for name, (below, lower, upper) in ABOVE.items():
        db.sql(f"CREATE MATERIALIZED VIEW {below} AS {lower}")
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {upper}")
        made.append(name)
    for statement in generator.events(1):
        db.sql(statement)
    create("after", CHOSEN[::2])
    for statement in generator.events(1, size=4):
        db.sql(statement)
    for name in made:
        ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()
        assert said.startswith("equal"), name
