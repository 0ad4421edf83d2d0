"""Random histories of views that are filled under writes, on Spark: the invariant at every committed barrier.

Many histories share an engine: each is a table and a view on it, with its own kind of key, chunk size, strategy and
luck. Whatever happens to one (pauses, rescales, cancels) the others go on; crashes happen to all. Every manifest that
is committed is kept and looked at: a view must hold exactly the rows that its query makes of those rows of its table
that its positions cover. What a manifest holds is read here with Arrow alone, by the rule that newer versions win.

    HEADRACE_SEED=7 HEADRACE_HISTORIES=500 pytest tests/engine/test_histories.py
"""

from __future__ import annotations

import contextlib
import math
import os
import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import headrace
from headrace.backfill.filters import PositionColumns
from headrace.engine import backfill, chunks, direct
from headrace.engine.chunks import ChunkReader
from headrace.engine.filling import jobs_of
from headrace.errors import DuplicateRelation, UndefinedJob
from headrace.state import writer
from headrace.state.layout import Layout
from headrace.state.whole import newest_live

TABLES = 10
VIEWS_OF_EACH = 2
HISTORIES = int(os.environ.get("HEADRACE_HISTORIES", "120"))
BATCHES = math.ceil(HISTORIES / (TABLES * VIEWS_OF_EACH))
STEPS = 4

KEYS = {
    "int": ("id INT PRIMARY KEY, v INT", ["id"], lambda n: {"id": n}),
    "text": ("id VARCHAR PRIMARY KEY, v INT", ["id"], lambda n: {"id": f"k{n % 7}ü{n}"}),
    "two": ("a VARCHAR, b BIGINT, v INT, PRIMARY KEY (b, a)", ["a", "b"], lambda n: {"a": "x" * (n % 3), "b": n // 3}),
    "float": ("id DOUBLE PRECISION PRIMARY KEY, v INT", ["id"], lambda n: {"id": math.nan if n == 5 else n / 4}),
    "none": ("n INT, v INT", ["n"], lambda n: {"n": n % 20}),
}


@dataclass
class History:
    name: str
    kind: str
    rng: random.Random
    alike: bool = False
    """Whether its views may be filled together."""

    @property
    def columns(self) -> list[str]:
        return KEYS[self.kind][1]

    def rows(self, count: int) -> pa.Table:
        """Around a few hot keys, so that changes fall on both sides of a position and on it."""
        middle = self.rng.randrange(120)
        keys = {max(0, round(self.rng.gauss(middle, 12))) for _ in range(count)}
        made = [KEYS[self.kind][2](n) | {"v": self.rng.randrange(50)} for n in keys]
        types = {"id": {"int": pa.int32(), "text": pa.string(), "float": pa.float64()}.get(self.kind)}
        types |= {"a": pa.string(), "b": pa.int64(), "n": pa.int32(), "v": pa.int32()}
        return pa.table({name: pa.array([row[name] for row in made], types[name]) for name in made[0]})

    def change(self, db) -> None:
        what = self.rng.random()
        if what < 0.7:
            db.insert(self.name, self.rows(self.rng.randrange(1, 25)))
        elif what < 0.8:
            db.sql(f"DELETE FROM {self.name} WHERE v % 5 = {self.rng.randrange(5)}")
        elif what < 0.9:
            db.sql(f"UPDATE {self.name} SET v = v + 1 WHERE v < {self.rng.randrange(50)}")
        elif what < 0.95 and self.kind == "int":
            db.sql(f"UPDATE {self.name} SET id = id + 1000 WHERE v % 9 = {self.rng.randrange(9)}")
        elif what < 0.97:
            db.sql(f"DELETE FROM {self.name}")

    def create(self, db, number: int) -> None:
        session = db.session()
        arrangement = number % 2 == 0 or self.alike
        session.sql(f"SET background_ddl = true; SET streaming_use_arrangement_backfill = {str(arrangement).lower()}")
        session.sql(f"SET backfill_pacing = {10 if self.alike else self.rng.choice((1, 3, 10, 40))}")
        if arrangement:
            session.sql(f"SET streaming_parallelism = {2 if self.alike else self.rng.randrange(1, 6)}")
        columns = ", ".join(self.columns)
        session.sql(
            f"CREATE MATERIALIZED VIEW {self.name}_{number} AS SELECT {columns}, v * 2 AS d FROM {self.name} "
            "WHERE v % 7 <> 3"
        )

    def meddle(self, db, number: int) -> None:
        """What people do to a job; it may be over already."""
        name = f"{self.name}_{number}"
        found = [job for job in db.engine.jobs.list() if job["name"] == name]
        if not found:
            return
        id, what = found[0]["id"], self.rng.random()
        try:
            if what < 0.15:
                db.sql(f"PAUSE JOB {id}")
            elif what < 0.4:
                db.sql(f"RESUME JOB {id}")
            elif what < 0.6 and (number % 2 == 0 or self.alike):
                db.sql(f"ALTER MATERIALIZED VIEW {name} SET PARALLELISM = {self.rng.randrange(1, 9)}")
            elif what < 0.65:
                db.sql(f"CANCEL JOBS {id}")
                self.create(db, number)
        except (UndefinedJob, DuplicateRelation):
            pass  # it was over before we came


class Watched:
    """A database, and every manifest that it commits."""

    def __init__(self, warehouse, spark, parameters: dict[str, str]):
        self._open = lambda: headrace.connect(warehouse, spark=spark, parameters=parameters)
        self.manifests: list = []
        self.checked = 0
        self.reopen()

    def reopen(self) -> None:
        self.db = self._open()
        committed = self.db.engine.coordinator._on_commit

        def watch(manifest) -> None:
            self.manifests.append(manifest)
            committed(manifest)

        self.db.engine.coordinator._on_commit = watch

    def crash(self) -> None:
        self.db.engine.coordinator.abandon()
        self.db.close()
        self.reopen()

    def check(self) -> None:
        """All that was committed since the last time. Nothing that a view is made of changes twice in a manifest."""
        manifests, self.manifests = self.manifests, []
        seen: set[tuple] = set()
        for manifest in manifests:
            jobs = jobs_of(manifest)
            for view in manifest.catalog.relations.values():
                if view.kind != "materialized view":
                    continue
                (table_id,) = view.depends_on
                job = jobs.get(view.id)
                state = (view.id, manifest.runs.get(view.id), manifest.runs.get(table_id), job and str(job.to_json()))
                if state in seen or (job is not None and job.error is not None):
                    continue
                seen.add(state)
                self._check(manifest, view, manifest.catalog.relations[table_id], job)
                self.checked += 1

    def _check(self, manifest, view, table, job) -> None:
        held = self._live(manifest, table)
        layout = Layout.of(table)
        names = [column.name for column in table.visible_columns if column.name != "v"]
        expected = []
        for vnode, key, row in zip(held["_hr_vnode"].to_pylist(), _keys(layout, held), held.to_pylist(), strict=True):
            covered = job is None or job.inputs[table.id].positions.covers(vnode, key)
            if covered and row["v"] is not None and row["v"] % 7 != 3:
                expected.append(repr([*(row[name] for name in names), row["v"] * 2]))
        rows = self._live(manifest, view)
        found = [repr([*(row[name] for name in names), row["d"]]) for row in rows.to_pylist()]
        assert sorted(found) == sorted(expected), f"{view.name} at epoch {manifest.epoch}, {job}"

    def _live(self, manifest, relation) -> pa.Table:
        layout = Layout.of(relation)
        root = self.db.engine.storage.uri("").removeprefix("file://")
        tables = [layout.stored_schema.empty_table()]
        for run in manifest.runs.get(relation.id, ()):
            for file in run.files:
                rows = pq.read_table(f"{root}/{file.path}", partitioning=None)
                tables.append(layout.stored(rows))
        return newest_live(layout, pa.concat_tables(tables))


def _keys(layout: Layout, rows: pa.Table) -> list[bytes]:
    return layout.codec.encode_table(rows, layout.key_names)


@pytest.fixture
def watch(spark, tmp_path):
    opened = []

    def connect(**parameters: str) -> Watched:
        opened.append(Watched(tmp_path / "warehouse", spark, parameters))
        return opened[-1]

    yield connect
    for each in opened:
        each.db.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_every_barrier_of_every_history(watch, batch):
    seed = int(os.environ.get("HEADRACE_SEED", "20261115"))
    print(f"HEADRACE_SEED={seed}")
    rng = random.Random(f"{seed} {batch}")
    frequency, vectorized = rng.choice((1, 1, 3)), batch % 3 < 2
    watched = watch(barrier_interval="100ms", checkpoint_frequency=str(frequency), vectorized=str(vectorized).lower())
    run_histories(watched, rng, TABLES)
    print(f"{watched.checked} states of views")
    assert watched.checked > TABLES * VIEWS_OF_EACH * 2


@pytest.mark.timeout(900)
@pytest.mark.parametrize("batch", range(2))
def test_every_barrier_with_chunks_that_tasks_read_and_views_share(watch, batch, monkeypatch):
    """As if ten rows were many: no chunk is small, and row groups are tiny."""
    monkeypatch.setattr(chunks, "SMALL_CHUNK", 0)
    monkeypatch.setattr(backfill, "EXACT", 0)
    monkeypatch.setattr(writer, "GROUP_ROWS", 8)
    read, shared = ChunkReader.read_together, []

    def counted(self, catalog, views, *args, **kwargs):
        shared.append(len(views))
        return read(self, catalog, views, *args, **kwargs)

    monkeypatch.setattr(ChunkReader, "read_together", counted)
    rng = random.Random(f"{os.environ.get('HEADRACE_SEED', '20261115')} large {batch}")
    watched = watch(barrier_interval="100ms")
    run_histories(watched, rng, TABLES, alike=True)
    print(f"{watched.checked} states of views; chunks for one view: {shared.count(1)}, for two: {shared.count(2)}")
    assert 2 in shared


@pytest.mark.timeout(300)
@pytest.mark.parametrize("vectorized", ["true", "false"])
@pytest.mark.parametrize("broken", [True, False])
def test_a_broken_filter_is_caught(watch, monkeypatch, broken, vectorized):
    """The canary: with a filter that lets everything through, or nothing, the check above must fail."""
    monkeypatch.setattr(PositionColumns, "covered", lambda self, within: str(broken).upper())
    monkeypatch.setattr(direct, "_covered", lambda positions, rows: np.full(rows.num_rows, broken))
    with pytest.raises(AssertionError, match="at epoch"):
        run_histories(watch(barrier_interval="100ms", vectorized=vectorized), random.Random(1), 3)


def run_histories(watched: Watched, rng: random.Random, tables: int, *, alike: bool = False) -> None:
    kinds = list(KEYS)
    histories = [
        History(name=f"t{number}", kind=kinds[number % len(kinds)], rng=random.Random(rng.random()), alike=alike)
        for number in range(tables)
    ]
    with ThreadPoolExecutor(tables) as pool:

        def all_do(what) -> None:
            list(pool.map(what, histories))

        all_do(lambda each: watched.db.sql(f"CREATE TABLE {each.name} ({KEYS[each.kind][0]})"))
        all_do(lambda each: watched.db.insert(each.name, each.rows(80)))
        all_do(lambda each: [each.create(watched.db, number) for number in range(VIEWS_OF_EACH)])
        for _ in range(STEPS):
            all_do(lambda each: each.change(watched.db))
            all_do(lambda each: each.meddle(watched.db, each.rng.randrange(VIEWS_OF_EACH)))
            if rng.random() < 0.15:
                watched.crash()
            watched.check()
        for job in watched.db.engine.jobs.list():
            with contextlib.suppress(UndefinedJob):  # it is over by now
                watched.db.sql(f"RESUME JOB {job['id']}")
        all_do(lambda each: [watched.db.sql(f"WAIT {each.name}_{number}") for number in range(VIEWS_OF_EACH)])
        all_do(lambda each: watched.db.insert(each.name, each.rows(10)))
    watched.check()
