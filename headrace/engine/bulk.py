"""Bulk writes: a change whose rows only executors see.

Spark runs the query and stages its rows as plain Parquet, in its own way and at its own speed; then tasks that own
a range of vnodes sort and merge them into a run (:mod:`headrace.state.ranges`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.engine.changes import NEW_ROW, OLD_ROW
from headrace.failpoints import failpoint
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.ranges import MergeRange, Staged, merge_ranges
from headrace.state.resolve import WHOLE
from headrace.state.runs import VNODE, WEIGHT, Run, RunFile
from headrace.state.storage import Storage
from headrace.state.vnode import spark_expression
from headrace.types import quote_spark

SORT_STAGED_BYTES = 1 << 30
"""Each range reads all staged files; beyond this size they are first sorted by vnode, so that it can skip."""


class BulkWriter:
    def __init__(self, spark: SparkSession, storage: Storage, indexes: IndexCache):
        self._spark, self._storage, self._indexes = spark, storage, indexes

    def insert(
        self,
        layout: Layout,
        frame: DataFrame,
        *,
        epoch: int,
        policy: str,
        old_runs: tuple[Run, ...],
        keep_unchanged: bool = False,
    ) -> tuple[list[RunFile], int]:
        """``frame`` has the table's columns; ``old_runs`` may hold rows of the same keys. Answers its row count."""
        rows = frame.selectExpr(*_columns(layout), f"{spark_expression(layout.distribution)} AS {VNODE}")
        body = self._body(layout, policy, epoch, keep_unchanged)
        with self._staged(rows) as staged:
            files = merge_ranges(self._spark, body, runs=old_runs, staged=staged, indexes=self._indexes)
            return files, sum(file.rows for file in staged)

    def update(
        self, layout: Layout, frame: DataFrame, *, epoch: int, deletes: bool, keep_unchanged: bool = False
    ) -> tuple[list[RunFile], int]:
        """``frame`` has the struct ``old`` and, unless it deletes, ``new`` with the same key. Answers its rows.

        Either may be NULL: a row comes, or goes.
        """
        puts = "" if deletes else f", named_struct('w', CAST(1 AS TINYINT), 'r', {NEW_ROW})"
        change = f"array(named_struct('w', CAST(-1 AS TINYINT), 'r', {OLD_ROW}){puts})"
        rows = frame.select(F.explode(F.expr(change)).alias("c"))
        rows = rows.where("c.r IS NOT NULL").selectExpr("c.r.*", f"c.w AS {WEIGHT}")
        rows = rows.selectExpr(*_columns(layout), WEIGHT, f"{spark_expression(layout.distribution)} AS {VNODE}")
        body = self._body(layout, "weighted", epoch, keep_unchanged)
        with self._staged(rows) as staged:
            files = merge_ranges(self._spark, body, runs=(), staged=staged, indexes=self._indexes)
            return files, sum(file.rows for file in staged) // (1 if deletes else 2)

    def replace(self, layout: Layout, frame: DataFrame, *, epoch: int, old_runs: tuple[Run, ...]) -> list[RunFile]:
        """``frame`` has all rows that the relation is to hold, each key once."""
        rows = frame.selectExpr(*_columns(layout), f"{spark_expression(layout.distribution)} AS {VNODE}")
        body = self._body(layout, WHOLE, epoch, False)
        with self._staged(rows) as staged:
            return merge_ranges(self._spark, body, runs=old_runs, staged=staged, indexes=self._indexes)

    def merge(
        self, layout: Layout, staged: Sequence[Staged], *, epoch: int, policy: str, old_runs: tuple[Run, ...]
    ) -> list[RunFile]:
        """What others have staged, into the rows that there are."""
        body = self._body(layout, policy, epoch, False)
        return merge_ranges(self._spark, body, runs=old_runs, staged=staged, indexes=self._indexes)

    def _body(self, layout: Layout, policy: str, epoch: int, keep_unchanged: bool) -> MergeRange:
        files = self._storage.files
        return MergeRange(files=files, layout=layout, policy=policy, epoch=epoch, keep_unchanged=keep_unchanged)

    @contextmanager
    def _staged(self, rows: DataFrame) -> Iterator[list[Staged]]:
        folders = [f"staging/{uuid.uuid4().hex}"]
        try:
            self._write(rows, folders[0])
            staged = self._list(folders[0])
            if sum(size for _, size in staged) > SORT_STAGED_BYTES:
                folders.append(f"staging/{uuid.uuid4().hex}")
                unsorted = self._spark.read.option("__globPaths__", "false").parquet(self._storage.uri(folders[0]))
                self._write(unsorted.sortWithinPartitions(VNODE), folders[1])
                staged = self._list(folders[1])
            failpoint("after_stage")
            yield [Staged(path=path, rows=self._rows_of(path), bytes=size) for path, size in staged]
        finally:
            self._storage.delete(folders)

    def _write(self, rows: DataFrame, folder: str) -> None:
        (
            rows.write.option("mapreduce.fileoutputcommitter.algorithm.version", "2")
            .option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false")
            .option("parquet.enable.dictionary", "false")
            .option("parquet.block.size", str(16 << 20))
            .option("compression", "lz4_raw")
            .parquet(self._storage.uri(folder))
        )

    def _list(self, folder: str) -> list[tuple[str, int]]:
        return [(f"{folder}/{name}", size) for name, size, _ in self._storage.list(folder) if name.endswith(".parquet")]

    def _rows_of(self, path: str) -> int:
        with self._storage.open_input(path) as source:
            return pq.read_metadata(source).num_rows


def _columns(layout: Layout) -> list[str]:
    return [quote_spark(name) for name in layout.names]
