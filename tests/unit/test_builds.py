"""Which parts of a relation are computed, and when the next one may be."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.backfill.job import Job
from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Operator, Relation
from headrace.engine.builds import Builds, next_part
from headrace.engine.replica import DeltaLog
from headrace.state.manifest import Manifest
from headrace.state.runs import Run, RunFile
from headrace.types import SqlType

ROWS = 2560
COMMON = {"columns": (Column(name="k", type=SqlType("integer")),), "pk": (KeyColumn(name="k"),), "distribution": ("k",)}
GROUPED = Relation(
    id=2,
    name="v",
    kind="materialized view",
    reads=(1,),
    depends_on=(1,),
    operator=Operator(key=("k",), inputs=((1, ("k",)),), describe="aggregate"),
    **COMMON,
)


@pytest.fixture
def state() -> Manifest:
    file = RunFile(path="data/1/a.parquet", rows=ROWS, bytes=1, low=b"", high=b"\xff", groups=1)
    catalog = Catalog().add(Relation(id=1, name="t", kind=TABLE, **COMMON)).add(GROUPED)
    return Manifest(catalog=catalog, runs={1: (Run(id="a", first_epoch=1, last_epoch=1, files=(file,)),)})


def test_a_rate_limit_makes_parts_small(state):
    assert next_part(GROUPED, state, 0) == range(256)
    assert next_part(GROUPED, state, 0, 256) == range(26)
    assert next_part(GROUPED, state, 250, 256) == range(250, 256)
    assert next_part(GROUPED, state, 7, 1) == range(7, 8)


def test_and_the_next_one_waits(state):
    job = Job(id=2, name="v", statement="", rate_limit=100, created_epoch=0, builds=True)
    with ThreadPoolExecutor(1) as pool:
        builds = Builds(pool, DeltaLog(), lambda: None)
        builds.compute = lambda state, relation, vnodes: []
        assert builds.may_launch(job) == 0
        before = time.monotonic()
        builds.launch(job, state, lambda name: None)
        assert before + 1 <= builds.may_launch(job) <= time.monotonic() + 1.1
        assert builds.may_launch(job.replace(rate_limit=None)) == 0
