"""Large sorted writes by Spark's own Parquet writer.

What comes out of a sorted run through filters and projections is still sorted, so nothing needs to be sorted, shuffled
or sent to Python: Spark reads, evaluates and writes as it does for any table, at the speed of a plain copy. Afterwards
one small job reads back the key columns, a fifth of a copy's time, for the bounds of row groups and files that every
run has (see :mod:`headrace.state.runs`), and makes the files durable.

A Spark task reads its splits one after the other, and a file must be sorted from end to end: the session that reads
for this module has one split per task (ONE_SPLIT_PER_TASK).
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.errors import CorruptWarehouse
from headrace.state.files import Files, open_parquet
from headrace.state.layout import Layout
from headrace.state.prepared import run_tasks
from headrace.state.runs import SIDECAR, VNODE, WEIGHT, GroupIndex, RunFile
from headrace.state.writer import GROUP_ROWS, REPORT_SCHEMA, counted_columns, report, written_files
from headrace.types import quote_spark

if TYPE_CHECKING:
    from headrace.state.storage import Storage

SPLIT_BYTES = 32 << 20
"""Of stored rows that one task reads."""


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
    """Writes a frame of stored rows, each of whose partitions is sorted. Answers the files with their bounds.

    ``turn`` is held while Spark writes, so that of several writers one has the executors and the others prepare.
    """
    folder = f"{layout.folder}/{uuid.uuid4().hex}"
    writer = (
        frame.select(*(quote_spark(name) for name in layout.stored_schema.names))
        .write.option("mapreduce.fileoutputcommitter.algorithm.version", "2")
        .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
        .option("parquet.enable.dictionary", "false")
        .option("parquet.block.row.count.limit", str(GROUP_ROWS))
        .option("parquet.column.statistics.enabled", "false")
        .option("parquet.size.statistics.enabled", "false")
        .option("compression", "snappy")
    )
    for name in counted_columns(layout):
        writer = writer.option(f"parquet.column.statistics.enabled#{name}", "true")
    with turn or nullcontext():
        writer.parquet(storage.uri(folder))
    sizes = {f"{folder}/{name}": size for name, size, _ in storage.list(folder) if name.endswith(".parquet")}
    if not sizes:
        return []
    spark = frame.sparkSession
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
        retractions = 0
        with open_parquet(self.files, path) as parquet:
            for number in range(parquet.metadata.num_row_groups):
                keys = parquet.read_row_group(
                    number, columns=[*self.layout.key_names, VNODE, WEIGHT], use_threads=False
                )
                if keys.num_rows == 0:
                    continue
                vnodes = keys[VNODE].to_numpy()
                edges = keys.take(pa.array([0, keys.num_rows - 1]))
                low, high = self.layout.encode(edges.cast(self._schema(edges)))
                if np.any(np.diff(vnodes) < 0) or low > high or (groups and low < groups[-1][1]):
                    raise CorruptWarehouse(
                        f"{path} is not sorted", hint="this is a fault of Headrace: please report it"
                    )
                groups.append((low, high, keys.num_rows))
                retractions += int(np.count_nonzero(keys[WEIGHT].to_numpy() < 0))
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
            retractions=retractions,
        )

    def _schema(self, keys: pa.Table) -> pa.Schema:
        return pa.schema([self.layout.stored_schema.field(name) for name in keys.column_names])
