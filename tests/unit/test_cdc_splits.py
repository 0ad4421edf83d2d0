"""Splits of a chunk, as a task writes them."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.catalog import KeyColumn
from headrace.cdc.database import SplitReader
from headrace.cdc.problems import SourceRefused
from headrace.engine import splits
from headrace.state.files import LocalFiles
from headrace.state.layout import Layout
from headrace.state.runs import VNODE, RunFile
from headrace.types import SqlType

LAYOUT = Layout(
    relation_id=1,
    columns=(("id", SqlType("bigint")), ("v", SqlType("varchar"))),
    pk=(KeyColumn(name="id"),),
    distribution=("id",),
)


class Numbers(SplitReader):
    """So many rows, in pieces of ten."""

    def tables(self, split: int, layout: Layout) -> Iterator[pa.Table]:
        for first in range(0, split, 10):
            ids = list(range(first, min(first + 10, split)))
            yield pa.table([ids, ["x" * 100] * len(ids)], schema=layout.row_schema)


def test_a_split_that_is_larger_than_a_task_may_hold_becomes_several_files(tmp_path, monkeypatch):
    monkeypatch.setattr(splits, "SORT_BYTES", 3000)
    task = splits.ReadSplit(reader=Numbers(), files=LocalFiles(f"file://{tmp_path}"), layout=LAYOUT)
    files: list[RunFile] = []
    task._write(95, files)
    assert len(files) == 4 and [file.rows for file in files] == [30, 30, 30, 5]
    found = []
    for file in files:
        rows = pq.read_table(tmp_path / file.path)
        order = list(zip(rows[VNODE].to_pylist(), rows["id"].to_pylist(), strict=True))
        assert order == sorted(order)
        found += rows["id"].to_pylist()
    assert sorted(found) == list(range(95))


def test_files_of_a_split_that_fails_are_told(tmp_path, monkeypatch):
    class Failing(Numbers):
        def tables(self, split: int, layout: Layout) -> Iterator[pa.Table]:
            yield from super().tables(split, layout)
            raise SourceRefused("no more")

    monkeypatch.setattr(splits, "SORT_BYTES", 3000)
    task = splits.ReadSplit(reader=Failing(), files=LocalFiles(f"file://{tmp_path}"), layout=LAYOUT)
    (told,) = task([pa.record_batch({"split": pa.array([pickle.dumps(65)], pa.binary())})])
    told = told.to_pylist()[0]
    files = [str(tmp_path / file.path) for file in pickle.loads(told["files"])]
    assert pickle.loads(told["error"]).message == "no more"
    assert sorted(files) == sorted(map(str, tmp_path.rglob("*.parquet"))) and len(files) == 2
