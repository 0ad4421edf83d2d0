"""Large sorted writes by Spark's own Parquet writer.

What comes out of a sorted run through filters and projections is still sorted, so nothing needs to be sorted, shuffled
or sent to Python: Spark reads, evaluates and writes as it does for any table, at the speed of a plain copy. Afterwards
one small job reads back the key columns for the bounds of row groups and files that every
run has (see :mod:`headrace.state.runs`), and makes the files durable.

A Spark task reads its splits one after the other, and a file must be sorted from end to end: the session that reads
for this module has one split per task (ONE_SPLIT_PER_TASK).
"""

from __future__ import annotations

import contextlib
import itertools
import pickle
import uuid
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.errors import CorruptWarehouse
from headrace.state.files import Files, open_parquet
from headrace.state.layout import Layout
from headrace.state.prepared import run_tasks
from headrace.state.runs import SIDECAR, VNODE, GroupIndex, RunFile
from headrace.state.writer import GROUP_ROWS, REPORT_SCHEMA, counted_columns, report, written_files
from headrace.types import quote_spark

if TYPE_CHECKING:
    from headrace.state.storage import Storage

SPLIT_BYTES = 32 << 20
"""Of stored rows that one task reads."""

GROUPS_AT_ONCE = 64
"""Row groups whose keys an indexing task holds."""

ONE_SPLIT_PER_TASK = {
    "spark.sql.files.maxPartitionBytes": str(SPLIT_BYTES),
    "spark.sql.files.openCostInBytes": str(SPLIT_BYTES),
    # A list of values is then no part of generated code, see headrace/state/scan.py.
    "spark.sql.optimizer.inSetConversionThreshold": "1",
    "spark.sql.optimizer.inSetSwitchThreshold": "0",
}
"""Settings of a session in which Spark does not pack several pieces of files into one task."""


def write_sorted(
    frame: DataFrame, storage: Storage, layout: Layout, turn: AbstractContextManager | None = None
) -> list[RunFile]:
    """Writes a frame whose partitions are each sorted. Answers the files with their bounds.

    It has the relation's columns and the vnode; what may be left out (:mod:`headrace.state.layout`) is.

    ``turn`` is held while Spark writes, so that of several writers one has the executors and the others prepare.
    """
    folder = f"{layout.folder}/{uuid.uuid4().hex}"
    writer = (
        frame.select(*(quote_spark(name) for name in (*layout.names, VNODE)))
        .write.option("mapreduce.fileoutputcommitter.algorithm.version", "2")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .option("parquet.enable.dictionary", "false")
        .option("parquet.block.row.count.limit", str(GROUP_ROWS))
        .option("parquet.column.statistics.enabled", "false")
        .option("parquet.size.statistics.enabled", "false")
        .option("compression", "lz4_raw")
    )
    for name in counted_columns(layout):  # one that is not there does no harm
        writer = writer.option(f"parquet.column.statistics.enabled#{name}", "true")
    try:
        with turn or nullcontext():
            writer.parquet(storage.uri(folder))
        return _indexed(frame.sparkSession, storage, layout, folder)
    except BaseException:
        # It may be large, and the disk full of it.
        with contextlib.suppress(Exception):
            storage.delete([folder])
        raise


def _indexed(spark: SparkSession, storage: Storage, layout: Layout, folder: str) -> list[RunFile]:
    sizes = {f"{folder}/{name}": size for name, size, _ in storage.list(folder) if name.endswith(".parquet")}
    if not sizes:
        return []
    count = min(len(sizes), spark.sparkContext.defaultParallelism)
    tasks = [pickle.dumps(list(sizes.items())[number::count]) for number in range(count)]
    lines = run_tasks(spark, IndexFiles(files=storage.files, layout=layout), tasks, REPORT_SCHEMA).to_pylist()
    return sorted(written_files(lines).get(layout.relation_id, []), key=lambda file: file.low)


@dataclass(frozen=True, kw_only=True)
class IndexFiles:
    """A task body for ``mapInArrow``: paths and sizes of written files in, one line per file that has rows out."""

    files: Files
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                files = [self._indexed(path, size) for path, size in pickle.loads(packed)]
                yield from report({self.layout.relation_id: [file for file in files if file is not None]})

    def _indexed(self, path: str, size: int) -> RunFile | None:
        groups: list[tuple[bytes, bytes, int]] = []
        with open_parquet(self.files, path) as parquet:
            metadata = parquet.metadata
            filled = [at for at in range(metadata.num_row_groups) if metadata.row_group(at).num_rows]
            # Many groups at a time: what a read costs is the read, not the rows.
            for at in range(0, len(filled), GROUPS_AT_ONCE):
                some = filled[at : at + GROUPS_AT_ONCE]
                keys = parquet.read_row_groups(some, columns=[*self.layout.key_names, VNODE], use_threads=False)
                groups += self._bounds(keys, [metadata.row_group(number).num_rows for number in some])
                if np.any(np.diff(keys[VNODE].to_numpy()) < 0) or not _in_order(groups):
                    raise CorruptWarehouse(
                        f"{path} is not sorted", hint="this is a fault of Headrace: please report it"
                    )
        if not groups:
            return None
        self.files.make_durable(path)
        if len(groups) > 1:
            with self.files.open_output(path + SIDECAR) as sidecar:
                sidecar.write(GroupIndex(tuple(groups)).to_bytes())
        return RunFile(
            path=path,
            rows=sum(rows for _, _, rows in groups),
            bytes=size,
            low=groups[0][0],
            high=groups[-1][1],
            groups=len(groups),
        )

    def _bounds(self, keys: pa.Table, sizes: Sequence[int]) -> list[tuple[bytes, bytes, int]]:
        stops = np.cumsum(sizes)
        edges = keys.take(pa.array(np.column_stack([stops - sizes, stops - 1]).ravel()))
        schema = pa.schema([self.layout.stored_schema.field(name) for name in edges.column_names])
        encoded = self.layout.encode(edges.cast(schema))
        return list(zip(encoded[::2], encoded[1::2], sizes, strict=True))


def _in_order(groups: Sequence[tuple[bytes, bytes, int]]) -> bool:
    bounds = [bound for low, high, _ in groups for bound in (low, high)]
    return all(before <= after for before, after in itertools.pairwise(bounds))
