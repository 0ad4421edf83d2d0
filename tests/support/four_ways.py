"""Which views are made when: before the rows, among them, after them, and on views in place of tables.

Each query in one way, and about as many in each. Which way is drawn anew in every run; the seed is printed, and
``HEADRACE_SEED=7`` draws the same again. With ``HYPOTHESIS_PROFILE=thorough`` there are four runs, after which each
query was made in all ways, if they had the same seed.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa

from tests.support.batch import Batch
from tests.support.stored import live_rows

WAYS = ("before", "between", "after", "above")
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
TURNS = range(len(WAYS)) if THOROUGH else (0,)


def drawn_seed() -> int:
    """The one that was asked for, or else that of this run, which ``tests/conftest.py`` draws and shows."""
    given = os.environ.get("HEADRACE_SEED") or os.environ.get("HEADRACE_DRAWN")
    return int(given) if given else random.SystemRandom().randrange(1_000_000)


def ways(names: Sequence, seed: int, turn: int) -> dict:
    """The way of each query; with another turn, another one.

    >>> sorted(ways(["q1", "q2", "q3", "q4", "q5"], 7, 0).values())
    ['above', 'after', 'before', 'before', 'between']
    >>> [len({ways(["q1", "q2"], 7, turn)[name] for turn in range(4)}) for name in ("q1", "q2")]
    [4, 4]
    """
    chance = random.Random(seed)
    shuffled = chance.sample(list(names), len(names))
    return {name: WAYS[(at + turn) % len(WAYS)] for at, name in enumerate(shuffled)}


def differing(
    database, views: Mapping[str, str], given: Mapping[str, pa.Table] | None = None
) -> tuple[list[str], list[str]]:
    """The views that are not what their query says of the same epoch, and those that are empty. ``given`` are the rows
    of relations that store none."""
    wrong, empty, batch = [], [], Batch(database, given)
    for name, query in views.items():
        there = _lines(live_rows(database.engine, name))
        if there != _lines(batch.answer(query)):
            wrong.append(name)
        if not there:
            empty.append(name)
    return wrong, empty


def _lines(rows: pa.Table) -> Counter:
    return Counter(zip(*(column.to_pylist() for column in rows.columns), strict=True))
