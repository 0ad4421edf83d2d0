"""Reading a chunk of another database's table: its splits, by executors, side by side.

A task reads its range of keys as columns and stages them as Parquet. What the chunk is read as of, the driver knows.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headrace.cdc.changelog import Key
from headrace.cdc.database import Hold, SplitReader
from headrace.engine.spark import spark_errors, use_pool
from headrace.errors import HeadraceError
from headrace.failpoints import failpoint
from headrace.state.files import Files
from headrace.state.layout import Layout
from headrace.state.prepared import run_tasks
from headrace.state.ranges import Staged
from headrace.state.runs import VNODE
from headrace.state.storage import Storage
from headrace.state.vnode import vnodes_of

_REPORT = "path STRING, rows BIGINT, bytes BIGINT, error BINARY"


@dataclass(frozen=True, kw_only=True)
class ReadSplit:
    """A task body: pickled (path, split) in, what it staged out."""

    reader: SplitReader
    files: Files
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                path, split = pickle.loads(packed)
                rows, size, error = 0, 0, None
                try:
                    rows, size = self._stage(path, split)
                except HeadraceError as problem:
                    # Handed over, not raised: Spark would try the task again, and bury the reason.
                    error = pickle.dumps(problem)
                yield pa.record_batch(
                    {"path": [path], "rows": [rows], "bytes": [size], "error": pa.array([error], pa.binary())}
                )

    def _stage(self, path: str, split: Any) -> tuple[int, int]:
        tables = self.reader.tables(split, self.layout)
        first = next(tables, None)
        if first is None:
            return 0, 0
        kinds = [self.layout.types[name] for name in self.layout.distribution]
        schema = self.layout.row_schema.append(pa.field(VNODE, pa.int16()))
        rows, size = 0, 0
        with self.files.open_scratch(path) as sink, pq.ParquetWriter(sink, schema, compression="lz4") as writer:
            while first is not None:
                table, taken = first
                vnodes = pa.array(vnodes_of(table, self.layout.distribution, kinds), pa.int16())
                writer.write_table(table.append_column(schema.field(VNODE), vnodes))
                rows, size = rows + table.num_rows, size + taken
                first = next(tables, None)
        return rows, size


def split_bounds(control: Any, table: Any, start: Key | None, *, splits: int, rows: int) -> list[Key | None]:
    """Where the next splits end; the last None, if there is nothing behind it.

    Asked for apart from the snapshot: who holds a lock on the table and waits for tasks that want one, waits for ever
    once somebody who wants all of it has come between them.
    """
    found: list[Key | None] = []
    for _ in range(splits):
        start = control.key_after(table, start, rows)
        found.append(start)
        if start is None:
            break
    return found


def read_chunk(
    spark: SparkSession, storage: Storage, layout: Layout, table: Any, held: Hold, bounds: Sequence
) -> list[Staged]:
    """``bounds`` are the start of the first split and the ends of all of them. What is held is closed."""
    folder = f"staging/{uuid.uuid4().hex}"
    try:
        use_pool(spark, "backfill")
        storage.make_dirs(folder)
        tasks = [
            pickle.dumps((f"{folder}/{number}.parquet", held.split(table, start, end)))
            for number, (start, end) in enumerate(zip(bounds, bounds[1:], strict=False))
        ]
        body = ReadSplit(reader=held.reader(), files=storage.files, layout=layout)
        with spark_errors(f"reading {table.full_name}"):
            lines = run_tasks(spark, body, tasks, _REPORT).to_pylist()
        failpoint("after_split")
        for line in lines:
            if line["error"] is not None:
                raise pickle.loads(line["error"])
        held.read()
        return [Staged(path=line["path"], rows=line["rows"], bytes=line["bytes"]) for line in lines if line["rows"]]
    except BaseException:
        storage.delete([folder])
        raise
    finally:
        held.close()
