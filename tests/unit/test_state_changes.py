"""Changes that tasks have staged, applied to a table's rows by MergeRange, against a dict."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog import TABLE, Column, KeyColumn, Relation
from headrace.state.files import LocalFiles
from headrace.state.layout import Layout
from headrace.state.ranges import MergeRange
from headrace.state.resolve import CHANGES, TAG
from headrace.state.runs import EPOCH, VNODE, WEIGHT
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
