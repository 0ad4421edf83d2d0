"""The first rows of keys, from files whose row groups are small, against all rows sorted."""

from __future__ import annotations

import random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.catalog import KeyColumn
from headrace.state import first_rows as module
from headrace.state.first_rows import first_rows
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.recent import RecentRows
from headrace.state.runs import EPOCH, SIDECAR, VNODE, WEIGHT, GroupIndex, Run, RunFile
from headrace.state.storage import LocalStorage
from headrace.state.vnode import vnodes_of
from headrace.types import SqlType

INT = SqlType("integer")
GROUP = 3


def _layout(by_key: bool) -> Layout:
    order = (KeyColumn(name="x", descending=True, nulls_first=False), KeyColumn(name="id"))
    return Layout(
        relation_id=7,
        columns=(("k", INT), ("x", INT), ("id", INT)),
        pk=((KeyColumn(name="k"), *order) if by_key else order),
        distribution=("k",) if by_key else (),
    )


def _write(
    storage: LocalStorage, layout: Layout, rows: list[tuple], epoch: int, recent: RecentRows | None = None
) -> Run:
    """Rows with a weight as one run of small row groups."""
    columns = list(zip(*rows, strict=True))
    table = pa.table([pa.array(values, pa.int32()) for values in columns[:3]], names=["k", "x", "id"])
    kinds = [layout.types[name] for name in layout.distribution]
    table = table.append_column(VNODE, pa.array(vnodes_of(table, layout.distribution, kinds), pa.int16()))
    table = table.append_column(EPOCH, pa.array([epoch] * len(rows), pa.int64()))
    table = table.append_column(WEIGHT, pa.array(columns[3], pa.int8()))
    keys = layout.encode(table)
    order = sorted(range(len(keys)), key=lambda at: (keys[at], columns[3][at]))
    table, keys = table.take(pa.array(order)), [keys[at] for at in order]
    path = f"data/7/{epoch}.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=GROUP)
    storage.write(path, sink.getvalue().to_pybytes())
    if recent is not None:
        recent.put((storage.files.root, path), table)
    bounds = [(part[0], part[-1], len(part)) for part in (keys[at : at + GROUP] for at in range(0, len(keys), GROUP))]
    storage.write(f"{path}{SIDECAR}", GroupIndex(tuple(bounds)).to_bytes())
    file = RunFile(path=path, rows=len(rows), bytes=1, low=keys[0], high=keys[-1], groups=len(bounds))
    return Run(id=str(epoch), first_epoch=epoch, last_epoch=epoch, files=(file,))


@pytest.mark.parametrize("by_key", [True, False])
@pytest.mark.parametrize("seed", range(8))
def test_they_are_the_first_of_all(tmp_path, monkeypatch, by_key, seed):
    chance = random.Random(seed)
    monkeypatch.setattr(module, "FRONT_ROWS", (64, 1)[seed % 2])
    recent = RecentRows(10_000 if seed % 4 < 2 else 0)
    monkeypatch.setattr(module, "RECENT", recent)
    storage, layout = LocalStorage(tmp_path), _layout(by_key)
    alive: dict[int, tuple] = {}
    runs = []
    for epoch in range(1, 6):
        rows = []
        for id in chance.sample(range(60), 40 if epoch == 1 else 15):
            if id in alive:
                rows.append((*alive.pop(id), -1))
            if chance.random() < 0.6:
                alive[id] = (chance.choice([None, 1, 2]), chance.choice([None, *range(9)]), id)
                rows.append((*alive[id], 1))
        # an epoch's delta has each row once
        rows = [row for row in dict.fromkeys(rows) if (*row[:3], -row[3]) not in rows]
        if rows:
            runs.append(_write(storage, layout, rows, epoch, recent))
    count = chance.choice([1, 2, 7])
    wanted = [None, 1, 5] if by_key else None
    keys = pa.table({"k": pa.array(wanted, pa.int32())}) if by_key else None
    found = first_rows(storage.files, layout, runs, keys, count, IndexCache(storage), most=10_000)

    def place(row: tuple) -> tuple:
        return (row[1] is None, -(row[1] or 0), row[2])

    expected = []
    for key in wanted or ["all"]:
        mine = [row for row in alive.values() if not by_key or row[0] == key]
        expected += sorted(mine, key=place)[:count]
    actual = list(zip(*(found[name].to_pylist() for name in ("k", "x", "id")), strict=True))
    assert sorted(actual, key=str) == sorted(expected, key=str)


def test_what_is_much_is_left_to_others(tmp_path):
    storage, layout = LocalStorage(tmp_path), _layout(False)
    runs = [_write(storage, layout, [(1, x, x, 1) for x in range(40)], 1)]
    assert first_rows(storage.files, layout, runs, None, 30, IndexCache(storage), most=10) is None
    assert first_rows(storage.files, layout, runs, None, 2, IndexCache(storage), most=10).num_rows == 2
