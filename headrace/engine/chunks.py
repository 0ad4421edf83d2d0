"""Reading a chunk of an upstream into a view that is being filled, on Spark."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from headrace.backfill.filters import bounds_of
from headrace.backfill.positions import Chunk, split
from headrace.catalog import INDEX, Catalog, Relation
from headrace.engine.plans import plan_of
from headrace.engine.spark import sorted_session, spark_errors
from headrace.failpoints import failpoint
from headrace.operators.linear import WideQuery, branches, frames
from headrace.state.layout import Layout
from headrace.state.native import write_sorted
from headrace.state.runs import EPOCH, VNODE, WEIGHT, Run, RunFile
from headrace.state.scan import key_order, scan, sorted_scan
from headrace.state.storage import Storage
from headrace.state.vnode import spark_expression
from headrace.state.writer import REPORT_SCHEMA, Output, WriteDelta, written_files
from headrace.types import quote_spark

SMALL_CHUNK = 50_000
SMALL_CHUNK_BYTES = 16 << 20
"""Up to so many stored rows a chunk is one Python task, which holds it and costs one job; larger ones cost two."""


@dataclass(frozen=True, kw_only=True)
class ReadChunk:
    parts: tuple[Chunk, ...]
    """As read: cut, if there was a limit."""
    files: tuple[RunFile, ...]
    seconds: float
    live: int | None = None
    """The upstream's live rows in it, where they were counted: if there was a limit."""

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


class ChunkReader:
    def __init__(self, spark: SparkSession, storage: Storage):
        self._spark, self._storage = spark, storage
        self._sorted = sorted_session(spark)

    def read(
        self,
        catalog: Catalog,
        view: Relation,
        upstream: Relation,
        runs: Sequence[Run],
        parts: Sequence[Chunk],
        *,
        epoch: int,
        turn: AbstractContextManager,
    ) -> ReadChunk:
        """Writes the view's rows of a chunk, one or more key ranges. ``epoch`` is the runs',
        ``turn`` what the chunks of a job wait for each other with."""
        started = time.perf_counter()
        parts, live = tuple(parts), None
        rows = sum(part.rows for part in parts)
        with spark_errors(f'filling {view.kind} "{view.name}"'):
            if rows == 0:
                files: list[RunFile] = []
            elif any(part.limit is not None for part in parts) or self._is_small(rows, runs):
                parts, files, live = self._read_small(catalog, view, upstream, runs, parts, epoch)
            else:
                files = self._read_large(catalog, view, upstream, runs, parts, epoch, turn)
        failpoint("after_chunk")
        return ReadChunk(parts=parts, files=tuple(files), seconds=time.perf_counter() - started, live=live)

    def _is_small(self, rows: int, runs: Sequence[Run]) -> bool:
        stored = sum(run.rows for run in runs)
        average = sum(run.bytes for run in runs) / stored if stored else 0
        return rows <= SMALL_CHUNK and rows * average <= SMALL_CHUNK_BYTES

    def _read_small(
        self,
        catalog: Catalog,
        view: Relation,
        upstream: Relation,
        runs: Sequence[Run],
        parts: tuple[Chunk, ...],
        epoch: int,
    ) -> tuple[tuple[Chunk, ...], list[RunFile], int | None]:
        source, layout = Layout.of(upstream), Layout.of(view)
        bounds = [bounds_of(source, part) for part in parts]
        rows = scan(self._spark, self._storage.uri(""), source, runs, internal=True, bounds=bounds)
        live = None
        if len(parts) == 1 and (limit := parts[0].limit) is not None:
            taken = rows.orderBy(*key_order(source)).limit(limit).toArrow().cast(source.stored_schema)
            if taken.num_rows == limit:
                parts = (parts[0].cut(*split(source.bound(taken, taken.num_rows - 1))),)
            live = taken.num_rows
            if live == 0:
                return parts, [], 0
            rows = self._spark.createDataFrame(taken, schema=source.spark_schema)
        wide = WideQuery(columns=source.names)
        found = branches(plan_of(view, catalog), {upstream.id: ["n0"]}, wide, layout.types)
        if view.kind == INDEX:
            found = [wide.with_vnode(branch, layout) for branch in found]
        output = Output(layout=layout, branches=tuple(found))
        body = WriteDelta(files=self._storage.files, epoch=epoch, outputs=(output,), sort=True)
        lines = wide.apply(rows.coalesce(1), dict.fromkeys(found)).mapInArrow(body, REPORT_SCHEMA).collect()
        return parts, written_files(lines).get(view.id, []), live

    def _read_large(
        self,
        catalog: Catalog,
        view: Relation,
        upstream: Relation,
        runs: Sequence[Run],
        parts: tuple[Chunk, ...],
        epoch: int,
        turn: AbstractContextManager,
    ) -> list[RunFile]:
        source, layout = Layout.of(upstream), Layout.of(view)
        bounds = [bounds_of(source, part) for part in parts]
        stored_rows = sum(part.rows for part in parts)
        rows = sorted_scan(self._sorted, self._storage.uri(""), source, runs, bounds, rows=stored_rows)
        if rows is None:
            return []
        combined: DataFrame | None = None
        for branch in frames(plan_of(view, catalog), {upstream.id: rows}, layout.types):
            stored = self._stored(branch, view, layout, epoch)
            combined = stored if combined is None else combined.unionAll(stored)
        return [] if combined is None else write_sorted(combined, self._storage, layout, turn)

    def _stored(self, part: DataFrame, view: Relation, layout: Layout, epoch: int) -> DataFrame:
        columns = [quote_spark(name) for name in layout.names]
        vnode = spark_expression(layout.distribution) if view.kind == INDEX else quote_spark(VNODE)
        rows = part.selectExpr(
            *columns, f"{vnode} AS {VNODE}", f"CAST({epoch} AS BIGINT) AS {EPOCH}", f"CAST(1 AS TINYINT) AS {WEIGHT}"
        )
        # An index has an order of its own. Its chunk is sorted as one, so that it is one file and not many.
        return rows.repartition(1).sortWithinPartitions(*key_order(layout)) if view.kind == INDEX else rows
