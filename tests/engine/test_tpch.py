"""TPC-H as live views: created before the rows, among them, after them, and on views; each equal to its query.

All 22 queries in all four ways with ``HYPOTHESIS_PROFILE=thorough`` (`pytest -k above` for one way); otherwise one of
them in one way; which is drawn, and ``HEADRACE_SEED`` draws another one.
"""

from __future__ import annotations

import os
import random
import re

import pytest

from tests.support.tpch import QUERIES, TABLES, Generator

THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
WAYS = ("before", "between", "after", "above")
ORDERS = 60


def chosen() -> list[tuple[str, list[int]]]:
    """Ways, and the queries of which views are made so, for one database after the other."""
    if THOROUGH:
        return [(way, [*QUERIES][at : at + 6]) for way in WAYS for at in range(0, len(QUERIES), 6)]
    chance = random.Random(int(os.environ.get("HEADRACE_SEED", "20261116")))
    return [(way, chance.sample([*QUERIES], 1)) for way in chance.sample(WAYS, 1)]


@pytest.mark.parametrize(("way", "numbers"), chosen(), ids=lambda each: each if isinstance(each, str) else f"q{each}")
def test_tpch(db, way, numbers):
    generator = Generator(7, ORDERS)
    statements = [*generator.load()]
    tables, rows = statements[: len(TABLES)], statements[len(TABLES) :]
    # the last statement has all of lineitem
    before, later = {"before": ([], rows), "between": (rows[:-1], rows[-1:])}.get(way, (rows, []))
    for statement in [*tables, *before]:
        db.sql(statement)
    if way == "above":
        for name in TABLES:
            db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
    for number in numbers:
        query = QUERIES[number]
        if way == "above":
            query = re.sub(rf"\b({'|'.join(TABLES)})\b", r"v_\1", query)
        db.sql(f"CREATE MATERIALIZED VIEW q{number} AS {query}")
    for statement in [*later, *generator.changes(1)]:
        db.sql(statement)
    answered = 0
    for number in numbers:
        ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW q{number}").rows()
        assert said.startswith("equal"), f"q{number}"
        answered += not said.startswith("equal, 0 rows")
    assert answered > len(numbers) / 2
