"""TPC-H as live views: created on rows that are there, kept while they change, and each equal to its query.

All 22 with ``HYPOTHESIS_PROFILE=thorough``; otherwise those that have most to say.
"""

from __future__ import annotations

import os

import pytest

from tests.support.tpch import QUERIES, Generator

CHOSEN = QUERIES if os.environ.get("HYPOTHESIS_PROFILE") == "thorough" else [18]
ORDERS = 60


@pytest.fixture
def generator(db) -> Generator:
    found = Generator(7, ORDERS)
    for statement in found.load():
        db.sql(statement)
    return found


def test_tpch(db, generator):
    for number in CHOSEN:
        db.sql(f"CREATE MATERIALIZED VIEW q{number} AS {QUERIES[number]}")
    for statement in generator.changes(1):
        db.sql(statement)
    answered = 0
    for number in CHOSEN:
        ((said, *_),) = db.sql(f"CHECK MATERIALIZED VIEW q{number}").rows()
        assert said.startswith("equal"), f"q{number}"
        answered += not said.startswith("equal, 0 rows")
    assert answered > len(CHOSEN) / 2
