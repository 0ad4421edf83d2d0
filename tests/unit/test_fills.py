"""Chunks that Python tasks read, evaluate and write: any range of any runs gives the live rows of just that range."""

from __future__ import annotations

import dataclasses
import os
import pickle
import random
import subprocess
import sys
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.backfill.positions import Chunk, split
from headrace.catalog import KeyColumn
from headrace.engine import fills
from headrace.engine.fills import FillRange, FillVnodes, View, steps_of
from headrace.operators.vectors import Call, Column, Constant, VectorBranch, VectorFilter, VectorProject
from headrace.state import writer as writer_module
from headrace.state.files import LocalFiles
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.prepared import GIVING_WAY, giving_way
from headrace.state.runs import EPOCH, VNODE, WEIGHT
from headrace.state.sorting import sort_stored
from headrace.state.storage import LocalStorage
from headrace.state.vnode import vnodes_of
from headrace.state.writer import NO_RELATION, RunFileWriter, with_internal, written_files
from headrace.types import SqlType

INT, TEXT = SqlType("integer"), SqlType("varchar")
UPSTREAMS = {
    "one column": Layout(
        relation_id=1,
        columns=(("id", INT), ("v", INT), ("note", TEXT)),
        pk=(KeyColumn(name="id"),),
        distribution=("id",),
    ),
    "descending, of two": Layout(
        relation_id=1,
        columns=(("id", INT), ("v", INT), ("note", TEXT), ("part", TEXT)),
        pk=(KeyColumn(name="part", descending=True, nulls_first=True), KeyColumn(name="id")),
        distribution=("part",),
    ),
}


class History:
    """A table's runs, and what is alive in them."""

    def __init__(self, layout: Layout, folder, source: random.Random):
        self.layout, self.source = layout, source
        self.files = LocalFiles(f"file://{folder}")
        self.live: dict[tuple, tuple[dict, int, bytes]] = {}
        self.run_files = []
        self.epoch = 0

    def write(self, count: int, keys: int) -> None:
        self.epoch += 1
        rows, weights = [], []
        for _ in range(count):
            row = {
                "id": self.source.randrange(keys),
                "v": self.source.choice([None, self.source.randrange(100)]),
                "note": f"n{self.epoch}",
                "part": self.source.choice([None, "a", "b", "c"]),
            }
            row = {name: row[name] for name in self.layout.names}
            key = tuple(row[name] for name in self.layout.key_names)
            if key in self._touched(rows):
                continue
            if key in self.live:
                rows.append(self.live.pop(key)[0])
                weights.append(-1)
                if self.source.random() < 0.4:
                    continue
            rows.append(row)
            weights.append(1)
            self.live[key] = (row, self.epoch, b"")
        if not rows:
            return
        table = pa.Table.from_pylist(rows, schema=self.layout.row_schema)
        kinds = [self.layout.types[name] for name in self.layout.distribution]
        vnodes = pa.array(vnodes_of(table, self.layout.distribution, kinds), pa.int16())
        stored = with_internal(table, pa.chunked_array([vnodes]), self.epoch, pa.chunked_array([pa.array(weights)]))
        stored = sort_stored(self.layout, stored)
        writer = RunFileWriter(self.layout, self.files)
        writer.push(stored)
        self.run_files += writer.finish()
        for row, vnode, encoded in zip(
            stored.to_pylist(), stored[VNODE].to_pylist(), self.layout.encode(stored), strict=True
        ):
            key = tuple(row[name] for name in self.layout.key_names)
            if row[WEIGHT] > 0:
                self.live[key] = (self.live[key][0], vnode, encoded)

    def _touched(self, rows: list[dict]) -> set[tuple]:
        return {tuple(row[name] for name in self.layout.key_names) for row in rows}

    def within(self, chunk: Chunk) -> list[dict]:
        found = [(encoded, row) for row, _, encoded in self.live.values() if chunk.holds(*split(encoded))]
        return [row for _, row in sorted(found, key=lambda pair: pair[0])]


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    monkeypatch.setattr(writer_module, "GROUP_ROWS", 6)
    monkeypatch.setattr(fills, "KEPT_ROWS", 20)


def any_chunk(history: History, source: random.Random) -> Chunk:
    keys = sorted(encoded for _, _, encoded in history.live.values())
    low, high = sorted(source.sample(range(256), 2))
    chunk = Chunk(first_vnode=low, after=None, last_vnode=high, upto=None, rows=1)
    if keys and source.random() < 0.8:
        vnode, key = split(source.choice(keys))
        chunk = dataclasses.replace(chunk, first_vnode=vnode, after=key, last_vnode=max(vnode, high))
    if keys and source.random() < 0.8:
        vnode, key = split(source.choice(keys))
        if (vnode, key) > (chunk.first_vnode, chunk.after or b""):
            chunk = dataclasses.replace(chunk, last_vnode=vnode, upto=key)
    if source.random() < 0.2:
        chunk = Chunk(first_vnode=0, after=None, last_vnode=255, upto=None, rows=1)
    return chunk


def view_of(layout: Layout) -> tuple[Layout, VectorBranch]:
    target = dataclasses.replace(layout, relation_id=2, columns=tuple(c for c in layout.columns if c[0] != "note"))
    doubled = Call("add", (Column("v"), Column("v")), pa.int32())
    columns = tuple((name, doubled if name == "v" else Column(name), kind.arrow) for name, kind in target.columns)
    condition = Call("<", (Column("v"), Constant(70, pa.int32())), pa.bool_())
    return target, VectorBranch(1, (VectorFilter(condition), VectorProject(columns)))


def filled(history: History, chunk: Chunk, folder, step_rows: int) -> list[dict] | None:
    storage = LocalStorage(str(folder))
    steps = steps_of(history.run_files, chunk, IndexCache(storage), step_rows)
    for before, after in zip(steps, steps[1:], strict=False):
        assert before.chunk.high <= after.chunk.low
    target, branch = view_of(history.layout)
    body = FillRange(files=history.files, source=history.layout, views=(View(layout=target, branches=(branch,)),))
    batch = pa.record_batch({"task": pa.array([pickle.dumps(steps)], pa.binary())})
    written = written_files(line for out in pickle.loads(pickle.dumps(body))(iter([batch])) for line in out.to_pylist())
    if NO_RELATION in written:
        return None
    rows = []
    for file in written.get(2, []):
        table = pq.read_table(f"{folder}/{file.path}")
        assert EPOCH not in table.column_names
        assert table.num_rows == file.rows
        assert file.retractions == 0
        rows += table.drop_columns([VNODE]).to_pylist()
    return rows


@pytest.mark.parametrize("kind", UPSTREAMS)
@pytest.mark.parametrize("seed", range(60))
def test_a_chunk_has_the_live_rows_of_its_range(tmp_path, kind, seed):
    source = random.Random(seed)
    history = History(UPSTREAMS[kind], tmp_path, source)
    history.write(source.choice([5, 150]), 100)
    for _ in range(source.randrange(5)):
        history.write(source.choice([1, 10, 40]), 100)
    for _ in range(3):
        chunk = any_chunk(history, source)
        expected = [
            {name: (row[name] * 2 if name == "v" else row[name]) for name in row if name != "note"}
            for row in history.within(chunk)
            if row["v"] is not None and row["v"] < 70
        ]
        found = filled(history, chunk, tmp_path, source.choice([1, 10, 1000]))
        assert found == expected, f"seed {seed}: {chunk}"


@pytest.mark.parametrize("seed", range(20))
def test_an_index_has_them_by_its_own_key(tmp_path, seed):
    """Each task has the rows of its vnodes, in the order of the index, whatever is NULL."""
    source = random.Random(seed)
    history = History(UPSTREAMS["one column"], tmp_path, source)
    for count in (150, 30, 5):
        history.write(count, 100)
    chunk = any_chunk(history, source)
    nulls_first = source.random() < 0.5
    layout = Layout(
        relation_id=2,
        columns=(("v", INT), ("id", INT)),
        pk=(KeyColumn(name="v", nulls_first=nulls_first), KeyColumn(name="id")),
        distribution=("v",),
    )
    branch = VectorBranch(1, (VectorProject((("v", Column("v"), pa.int32()), ("id", Column("id"), pa.int32()))),))
    body = FillVnodes(files=history.files, source=history.layout, view=View(layout=layout, branches=(branch,)))
    steps = steps_of(history.run_files, chunk, IndexCache(LocalStorage(str(tmp_path))), source.choice([1, 10, 1000]))
    tasks = pa.array([pickle.dumps((first, last, steps)) for first, last in ((0, 100), (100, 256))], pa.binary())
    lines = [line for out in body(iter([pa.record_batch({"task": tasks})])) for line in out.to_pylist()]
    found = []
    for file in sorted(written_files(lines).get(2, []), key=lambda file: file.low):
        table = pq.read_table(f"{tmp_path}/{file.path}")
        assert table[VNODE].to_numpy().tolist() == vnodes_of(table, ["v"], [INT]).tolist()
        found += zip(layout.encode(table), table["v"].to_pylist(), table["id"].to_pylist(), strict=True)
    assert [key for key, _, _ in found] == sorted(key for key, _, _ in found)
    expected = [(row["v"], row["id"]) for row in history.within(chunk)]
    assert sorted(map(repr, ((v, id) for _, v, id in found))) == sorted(map(repr, expected)), f"seed {seed}"


def test_a_value_that_only_spark_can_judge(tmp_path):
    history = History(UPSTREAMS["one column"], tmp_path, random.Random(1))
    history.write(50, 100)
    everything = Chunk(first_vnode=0, after=None, last_vnode=255, upto=None, rows=1)
    target, _ = view_of(history.layout)
    too_much = Call("multiply", (Column("v"), Constant(2**31 - 1, pa.int32())), pa.int32())
    branch = VectorBranch(1, (VectorProject((("id", Column("id"), pa.int32()), ("v", too_much, pa.int32()))),))
    body = FillRange(files=history.files, source=history.layout, views=(View(layout=target, branches=(branch,)),))
    steps = steps_of(history.run_files, everything, IndexCache(LocalStorage(str(tmp_path))))
    batch = pa.record_batch({"task": pa.array([pickle.dumps(steps)], pa.binary())})
    (line,) = [line for out in body(iter([batch])) for line in out.to_pylist()]
    assert (line["relation_id"], line["path"]) == (NO_RELATION, "2")


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads are Linux's")
def test_fills_give_way_and_what_comes_next_does_not():
    def niceness() -> int:
        return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())

    before = niceness()
    assert giving_way(niceness) == max(before, GIVING_WAY)
    assert niceness() == before
    with pytest.raises(ZeroDivisionError):
        giving_way(lambda: 1 // 0)


@pytest.mark.skipif(sys.platform != "linux", reason="priorities of threads are Linux's")
def test_who_gives_way_already_is_not_pushed_forward():
    """Which only root may ask for."""
    ask = "import os, threading; from headrace.state.prepared import giving_way; "
    ask += "print(giving_way(lambda: os.getpriority(os.PRIO_PROCESS, threading.get_native_id())))"
    told = subprocess.run(["nice", "-n", "19", sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "19"
