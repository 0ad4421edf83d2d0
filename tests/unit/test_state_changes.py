"""Changes that tasks have staged, applied to a table's rows by MergeRange, against a dict."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog import TABLE, Column, KeyColumn, Relation
from headrace.state import ranges
from headrace.state.files import LocalFiles
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.ranges import MergeRange, key_ranges
from headrace.state.resolve import CHANGES, TAG, WHOLE, resolve
from headrace.state.runs import EPOCH, SIDECAR, VNODE, WEIGHT, GroupIndex, Run, RunFile
from headrace.state.sorting import sort_stored
from headrace.state.storage import LocalStorage
from headrace.state.vnode import VNODES, vnodes_of
from headrace.types import SqlType

LAYOUT = Layout.of(
    Relation(
        id=1,
        name="t",
        kind=TABLE,
        columns=(Column(name="k", type=SqlType("varchar")), Column(name="v", type=SqlType("integer"))),
        pk=(KeyColumn(name="k"),),
        distribution=("k",),
    )
)


def stage(folder, name: str, changes: list[tuple[int, str, int | None]]) -> str:
    """Changes with their tags, in a file; without a value the row goes."""
    rows = pa.table({"k": [key for _, key, _ in changes], "v": pa.array([v for *_, v in changes], pa.int32())})
    vnodes = pa.array(vnodes_of(rows, LAYOUT.distribution, [LAYOUT.types["k"]]), pa.int16())
    weights = pa.array([-1 if value is None else 1 for *_, value in changes], pa.int8())
    rows = rows.append_column(VNODE, vnodes).append_column(WEIGHT, weights)
    rows = rows.append_column(TAG, pa.array(np.array([tag for tag, *_ in changes], dtype=np.int64)))
    pq.write_table(rows, folder / name)
    return name


def test_changes_leave_what_a_dict_would(tmp_path):
    (tmp_path / "data" / "1").mkdir(parents=True)
    files = LocalFiles(str(tmp_path))
    dice = random.Random(5)
    expected: dict[str, int] = {}
    run_groups: list[tuple[str, list[int]]] = []
    live: dict[str, int] = {}
    for epoch in range(1, 8):
        changes = []
        for tag in range(1, 60):
            key, value = f"k{dice.randrange(20)}", dice.choice([None, *range(3)])
            changes.append((tag, key, value))
            expected.pop(key, None) if value is None else expected.update({key: value})
        # Files are read in any order, and rows may be in any order in them: tags tell.
        dice.shuffle(changes)
        staged = [
            stage(tmp_path, f"b{epoch}.parquet", changes[30:]),
            stage(tmp_path, f"a{epoch}.parquet", changes[:30]),
        ]
        body = MergeRange(files=files, layout=LAYOUT, policy=CHANGES, epoch=epoch)
        for file in body._write(0, VNODES, run_groups, staged):
            written = pq.read_table(tmp_path / file.path)
            assert set(written[EPOCH].to_pylist()) == {epoch}
            for key, value, weight in zip(*(written[name].to_pylist() for name in ("k", "v", WEIGHT)), strict=True):
                if weight < 0:
                    assert live.pop(key) == value, "it retracts what is there"
                else:
                    assert live.setdefault(key, value) is value, "the old row goes before the new one comes"
            run_groups.append((file.path, list(range(pq.ParquetFile(tmp_path / file.path).num_row_groups))))
        assert live == expected


def written_run(storage: LocalStorage, layout: Layout, epoch: int, changes: dict[int, tuple[int | None, int]]) -> Run:
    """What an epoch did to keys, each with its old value and its new one, in row groups of five."""
    rows = [(key, old, -1) for key, (old, _) in changes.items() if old is not None]
    rows += [(key, new, 1) for key, (_, new) in changes.items()]
    columns = [pa.array(values, pa.int32()) for values in list(zip(*rows, strict=True))[:2]]
    internal = [pa.array([0] * len(rows), pa.int16()), pa.array([epoch] * len(rows)), [each[2] for each in rows]]
    table = pa.table([*columns, *internal], names=["k", "v", VNODE, EPOCH, WEIGHT]).cast(layout.stored_schema)
    table = sort_stored(layout, table)
    path, keys, sink = f"data/1/{epoch}.parquet", layout.encode(table), pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=5)
    storage.write(path, sink.getvalue().to_pybytes())
    bounds = [(part[0], part[-1], len(part)) for part in (keys[at : at + 5] for at in range(0, len(keys), 5))]
    storage.write(f"{path}{SIDECAR}", GroupIndex(tuple(bounds)).to_bytes())
    file = RunFile(path=path, rows=len(rows), bytes=len(rows), low=keys[0], high=keys[-1], groups=len(bounds))
    return Run(id=str(epoch), first_epoch=epoch, last_epoch=epoch, files=(file,))


def test_one_large_vnode_is_merged_in_ranges_of_its_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(ranges, "RANGE_ROWS", 40)
    storage, dice = LocalStorage(tmp_path), random.Random(3)
    columns = tuple(Column(name=name, type=SqlType("integer")) for name in ("k", "v"))
    layout = Layout.of(Relation(id=1, name="t", kind=TABLE, columns=columns, pk=(KeyColumn(name="k"),)))
    expected: dict[int, int] = {}
    runs = []
    for epoch in range(1, 6):
        changes = {key: (expected.get(key), dice.randrange(1000)) for key in dice.sample(range(-100, 100), 60)}
        expected |= {key: new for key, (_, new) in changes.items()}
        runs.append(written_run(storage, layout, epoch, changes))
    indexes = IndexCache(storage)
    split = key_ranges(runs, 0, VNODES, indexes)
    assert len(split) > 5 and key_ranges(runs[:1], 0, VNODES, indexes) == []
    every = [(run.files[0].path, list(range(run.files[0].groups))) for run in runs]
    for bottom in (True, False):
        body = MergeRange(files=storage.files, layout=layout, policy=None, bottom=bottom)
        whole = pa.concat_tables(body._merged(0, VNODES, every, []))
        parts = []
        for keys, groups in split:
            read = body._read_runs(0, VNODES, groups, keys)
            assert read.num_rows <= 40 + 5 * len(runs)
            parts += body._merged(0, VNODES, groups, [], keys)
        assert pa.concat_tables(parts) == whole
        live = {row["k"]: row["v"] for row in whole.to_pylist() if row[WEIGHT] > 0}
        assert live == expected


def test_of_nothing_comes_nothing():
    """A range whose stored rows are all dead, and for which nothing is new."""
    nothing = pa.table({"k": pa.array([], pa.string()), TAG: pa.array([], pa.int64())})
    for policy in (WHOLE, "overwrite", CHANGES):
        rows = nothing.append_column(WEIGHT, pa.array([], pa.int8())) if policy == CHANGES else nothing
        assert resolve(rows, np.zeros(0, dtype=np.int64), policy).column_names == ["k", WEIGHT]
