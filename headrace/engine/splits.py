"""Reading a chunk of another database's table: its splits, by executors, side by side.

A task reads its range of keys as columns, sorts them, and writes them as files of the table: what lands is only their
names. A file has as many rows as a task can sort at once (SORT_BYTES), so a split may be several. They overlap, as all
that is read in another order than the table's does; compaction merges them later, when nobody waits.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.cdc.changelog import Key
from headrace.cdc.database import Hold, SplitReader
from headrace.engine.spark import spark_errors, use_pool
from headrace.errors import HeadraceError
from headrace.failpoints import failpoint
from headrace.state.files import Files
from headrace.state.layout import Layout
from headrace.state.prepared import PreparedJobs, giving_way, run_tasks
from headrace.state.runs import SIDECAR, VNODE, RunFile
from headrace.state.sorting import in_order
from headrace.state.storage import Storage
from headrace.state.vnode import vnodes_of
from headrace.state.writer import RunFileWriter

SORT_BYTES = 64 << 20
"""Of columns that a task holds, and sorts together"""

_REPORT = "files BINARY, error BINARY"


@dataclass(frozen=True, kw_only=True)
class ReadSplit:
    """A task body: pickled splits in, the files that it wrote out."""

    reader: SplitReader
    files: Files
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                split, error = pickle.loads(packed), None
                written: list[RunFile] = []
                try:
                    giving_way(lambda: self._write(split, written))  # noqa: B023 (called at once)
                except HeadraceError as problem:
                    # Handed over, not raised: Spark would try the task again, and bury the reason.
                    error = pickle.dumps(problem)
                yield pa.record_batch({"files": [pickle.dumps(written)], "error": pa.array([error], pa.binary())})

    def _write(self, split: Any, written: list[RunFile]) -> None:
        """Adds the files that are whole, also if the next one fails: they have to be removed then."""
        held: list[pa.Table] = []
        size = 0
        for table in self.reader.tables(split, self.layout):
            held.append(table)
            size += table.nbytes
            if size >= SORT_BYTES:
                written += self._write_sorted(held)
                held, size = [], 0
        if held:
            written += self._write_sorted(held)

    def _write_sorted(self, tables: Sequence[pa.Table]) -> list[RunFile]:
        rows = self._sorted(tables)
        writer = RunFileWriter(self.layout, self.files, leave_out=True)
        try:
            writer.push(rows)
            files = writer.finish()
        except BaseException:
            writer.abort()
            raise
        first_key = self.layout.first_key(rows)
        return [dataclasses.replace(file, first_key=first_key) for file in files]

    def _sorted(self, tables: Sequence[pa.Table]) -> pa.Table:
        rows, layout = pa.concat_tables(tables), self.layout
        kinds = [layout.types[name] for name in layout.distribution]
        vnodes = pa.array(vnodes_of(rows, layout.distribution, kinds), pa.int16())
        return in_order(layout, rows.append_column(pa.field(VNODE, pa.int16()), vnodes), [])


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
) -> list[RunFile]:
    """``bounds`` are the start of the first split and the ends of all of them. What is held is closed."""
    written: list[RunFile] = []
    try:
        use_pool(spark, "backfill")
        tasks = [pickle.dumps(held.split(table, start, end)) for start, end in zip(bounds, bounds[1:], strict=False)]
        body = ReadSplit(reader=held.reader(), files=storage.files, layout=layout)
        with spark_errors(f"reading {table.full_name}"):
            lines = run_tasks(spark, body, tasks, _REPORT).to_pylist()
        failed = [line["error"] for line in lines if line["error"] is not None]
        written = [file for line in lines for file in pickle.loads(line["files"])]
        failpoint("after_split")
        if failed:
            raise pickle.loads(failed[0])
        held.read()
        return written
    except BaseException:
        forget_files(storage, written)
        raise
    finally:
        held.close()


def forget_files(storage: Storage, written: Sequence[RunFile]) -> None:
    """That will not be in any table."""
    storage.delete({name for file in written for name in (file.path, file.path + SIDECAR)})


@dataclass(frozen=True)
class _Nothing:
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield pa.record_batch({"files": [b""], "error": pa.array([None], pa.binary())})


def warm_up(spark: SparkSession) -> None:
    """The first job of a process takes seconds longer than the next: this is it, for nobody who waits."""
    if not PreparedJobs.of(spark).any_planned:
        threading.Thread(target=_first_job, args=(spark,), name="headrace-warm-up", daemon=True).start()


def _first_job(spark: SparkSession) -> None:
    with contextlib.suppress(Exception):  # the engine may be closed meanwhile
        use_pool(spark, "backfill")
        run_tasks(spark, _Nothing(), [b""] * spark.sparkContext.defaultParallelism, _REPORT)
