"""Reading a chunk of an upstream into a view that is being filled, on Spark."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.backfill.filters import bounds_of
from headrace.backfill.positions import Chunk, split
from headrace.catalog import Catalog, Relation
from headrace.engine.direct import in_stored_schema, is_here
from headrace.engine.fills import MOST_READERS, FillRange, FillVnodes, SparkMustJudge, View, fill, fill_vnodes
from headrace.engine.pieces import LiveChunkRows, packed_pieces, pieces_of, rehashed
from headrace.engine.plans import plan_of, vectors_of
from headrace.engine.spark import sorted_session, spark_errors
from headrace.failpoints import failpoint
from headrace.operators.linear import WideQuery, branches, frames
from headrace.operators.vectors import FAULTS, VectorBranch
from headrace.plan.nodes import Node
from headrace.state.layout import LEFT_OUT, Layout
from headrace.state.lookup import IndexCache
from headrace.state.native import write_sorted
from headrace.state.precedence import precedence
from headrace.state.predicates import Bounds
from headrace.state.prepared import PreparedJobs
from headrace.state.runs import EPOCH, VNODE, WEIGHT, Run, RunFile
from headrace.state.scan import key_order, scan, sorted_by_key, sorted_scan
from headrace.state.storage import Storage
from headrace.state.vnode import VNODES, spark_expression
from headrace.state.writer import KEY, NO_RELATION, REPORT_SCHEMA, Output, WriteDelta, write_outputs, written_files
from headrace.types import quote_spark

SMALL_CHUNK = 50_000
SMALL_CHUNK_BYTES = 16 << 20
"""Up to so many stored rows a chunk is one Python task, which holds it and costs one prepared job."""


def is_small(rows: int, runs: Sequence[Run]) -> bool:
    """Whether so many stored rows of these runs are a small chunk."""
    stored = sum(run.rows for run in runs)
    average = sum(run.bytes for run in runs) / stored if stored else 0
    return rows <= SMALL_CHUNK and rows * average <= SMALL_CHUNK_BYTES


@dataclass(frozen=True, kw_only=True)
class ReadChunk:
    chunk: Chunk
    """As read: cut, if there was a limit."""
    files: tuple[RunFile, ...]
    seconds: float
    live: int | None = None
    """The upstream's live rows in it, where they were counted: in small ones."""

    @property
    def rows(self) -> int:
        """The upstream's rows in it, for people. The bounds of row groups would count those of a group that several
        small chunks share with each of them."""
        return self.chunk.rows if self.live is None else self.live


@dataclass(frozen=True, kw_only=True)
class _Reading:
    """What is read, from where and into what."""

    catalog: Catalog
    view: Relation
    upstream: Relation
    runs: Sequence[Run]
    chunk: Chunk

    @property
    def plan(self) -> Node:
        return plan_of(self.view, self.catalog)

    @cached_property
    def source(self) -> Layout:
        return Layout.of(self.upstream)

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.view)

    @property
    def bounds(self) -> Bounds:
        return bounds_of(self.source, self.chunk)

    @property
    def small(self) -> bool:
        return is_small(self.chunk.rows, self.runs)

    def wide(self) -> tuple[WideQuery, tuple[str, ...]]:
        wide = WideQuery(columns=self.source.names)
        found = branches(self.plan, {self.upstream.id: ["n0"]}, wide, self.layout.types)
        if self.view.rehashed:
            found = [wide.with_vnode(branch, self.layout) for branch in found]
        return wide, tuple(found)


class ChunkReader:
    def __init__(self, spark: SparkSession, storage: Storage, indexes: IndexCache, *, vectorized: Callable[[], bool]):
        self._spark, self._storage, self._indexes = spark, storage, indexes
        self._vectorized = vectorized
        self._here = is_here(spark, storage.files)
        self._sorted = sorted_session(spark)
        self._spark_only: set[int] = set()

    def read(
        self,
        catalog: Catalog,
        view: Relation,
        upstream: Relation,
        runs: Sequence[Run],
        chunk: Chunk,
        *,
        turn: AbstractContextManager,
    ) -> ReadChunk:
        """Writes the view's rows of a chunk. ``turn`` is what the chunks of a job wait for each other with."""
        started = time.perf_counter()
        reading = _Reading(catalog=catalog, view=view, upstream=upstream, runs=runs, chunk=chunk)
        live, files = None, []
        with spark_errors(f'filling {view.kind} "{view.name}"'):
            if chunk.rows and reading.small:
                chunk, files, live = self._read_here(reading) or self._read_small(reading)
            elif chunk.rows and chunk.limit is not None:
                chunk, files, live = self._read_limited(reading)
            elif chunk.rows:
                filled = self._fill([reading], turn)
                files = self._read_large(reading, turn) if filled is None else filled.get(view.id, [])
        failpoint("after_chunk")
        return ReadChunk(chunk=chunk, files=tuple(files), seconds=time.perf_counter() - started, live=live)

    def shares(self, catalog: Catalog, view: Relation) -> bool:
        """Whether a view's chunks can be read together with those of others."""
        able = self._vectorized() and view.id not in self._spark_only and not view.rehashed
        return able and vectors_of(view, catalog) is not None

    def read_together(
        self,
        catalog: Catalog,
        views: Sequence[Relation],
        upstream: Relation,
        runs: Sequence[Run],
        chunk: Chunk,
        *,
        turn: AbstractContextManager,
    ) -> list[ReadChunk | Exception]:
        """One chunk for several views, whose rows are read once if they can be."""
        readings = [_Reading(catalog=catalog, view=view, upstream=upstream, runs=runs, chunk=chunk) for view in views]
        if len(views) > 1 and chunk.rows and not readings[0].small:
            started = time.perf_counter()
            with spark_errors(f"filling {', '.join(view.name for view in views)}"):
                files = self._fill(readings, turn)
            if files is not None:
                failpoint("after_chunk")
                took = time.perf_counter() - started
                return [ReadChunk(chunk=chunk, files=tuple(files.get(view.id, ())), seconds=took) for view in views]
        found: list[ReadChunk | Exception] = []
        for view in views:
            try:
                found.append(self.read(catalog, view, upstream, runs, chunk, turn=turn))
            except Exception as error:  # what goes wrong with one view is no matter of the others
                found.append(error)
        return found

    def _branches(self, reading: _Reading) -> tuple[VectorBranch, ...] | None:
        """How to evaluate the view without Spark, if that is possible."""
        if not self._vectorized() or reading.view.id in self._spark_only:
            return None
        found = vectors_of(reading.view, reading.catalog)
        return None if found is None else tuple(each for each in found if each.relation_id == reading.upstream.id)

    def _read_here(self, reading: _Reading) -> tuple[Chunk, list[RunFile], int] | None:
        """By the driver itself, as it derives small deltas."""
        branches = self._branches(reading) if self._here else None
        if branches is None:
            return None
        source, layout, chunk = reading.source, reading.layout, reading.chunk
        pieces = pieces_of((file for run in reading.runs for file in run.files), chunk, self._indexes)
        live = LiveChunkRows(files=self._storage.files, layout=source).read(
            [(piece.path, piece.groups) for piece in pieces], chunk
        )
        try:
            tables = [branch.apply(live) for branch in branches]
        except FAULTS:
            self._spark_only.add(reading.view.id)
            return None
        if reading.view.rehashed:
            tables = [rehashed(layout, rows) for rows in tables]
        stored = in_stored_schema(layout, tables, LEFT_OUT[EPOCH])
        files = write_outputs(self._storage.files, [(layout, stored, "consolidate")]).get(layout.relation_id, [])
        if chunk.limit is not None and live.num_rows == chunk.limit:
            chunk = chunk.cut(*split(source.bound(live, live.num_rows - 1)))
        return chunk, files, live.num_rows

    def _read_small(self, reading: _Reading) -> tuple[Chunk, list[RunFile], int]:
        """By one task, which holds it, in a job that is planned once for the view."""
        rows = LiveChunkRows(files=self._storage.files, layout=reading.source)
        pieces = pieces_of((file for run in reading.runs for file in run.files), reading.chunk, self._indexes)
        wide, found = reading.wide()
        body = self._body(reading, found, extent=True)
        prepared = PreparedJobs.of(self._spark)
        frame = prepared.frame(
            ("chunk", pickle.dumps((rows, body)), tuple(map(tuple, wide.levels))),
            lambda: wide.apply(
                prepared.leaf(0, rows, rows.schema), dict.fromkeys(found), (VNODE, WEIGHT, KEY)
            ).mapInArrow(body, REPORT_SCHEMA),
        )
        with prepared.given({"0": packed_pieces(pieces, reading.chunk)}):
            written = written_files(frame.collect())
        extent = written.get(NO_RELATION, [])
        live = sum(each.rows for each in extent)
        chunk = reading.chunk
        if chunk.limit is not None and live == chunk.limit:
            chunk = chunk.cut(*split(extent[-1].high))
        return chunk, written.get(reading.layout.relation_id, []), live

    def _read_limited(self, reading: _Reading) -> tuple[Chunk, list[RunFile], int]:
        """A few live rows among many stored ones, most of which are deleted."""
        source, layout, chunk = reading.source, reading.layout, reading.chunk
        rows = scan(self._spark, self._storage.uri(""), source, reading.runs, internal=True, bounds=[reading.bounds])
        taken = rows.orderBy(*key_order(source)).limit(chunk.limit).toArrow().cast(source.stored_schema)
        live = taken.num_rows
        if live == chunk.limit:
            chunk = chunk.cut(*split(source.bound(taken, live - 1)))
        if live == 0:
            return chunk, [], 0
        frame = self._spark.createDataFrame(taken, schema=source.spark_schema).coalesce(1)
        wide, found = reading.wide()
        body = self._body(reading, found)
        lines = wide.apply(frame, dict.fromkeys(found)).mapInArrow(body, REPORT_SCHEMA).collect()
        return chunk, written_files(lines).get(layout.relation_id, []), live

    def _body(self, reading: _Reading, branches: tuple[str, ...], *, extent: bool = False) -> WriteDelta:
        output = Output(layout=reading.layout, branches=branches)
        return WriteDelta(files=self._storage.files, epoch=LEFT_OUT[EPOCH], outputs=(output,), sort=True, extent=extent)

    def _fill(self, readings: Sequence[_Reading], turn: AbstractContextManager) -> dict[int, list[RunFile]] | None:
        """By Python tasks alone, if they can evaluate all of the views; the files by view."""
        first, views = readings[0], []
        for reading in readings:
            branches = self._branches(reading)
            if branches is None:
                return None
            views.append(View(layout=reading.layout, branches=branches))
        common = {
            "files": self._storage.files,
            "source": first.source,
            "precedence": precedence().path if self._here else None,
        }
        try:
            if first.view.rehashed:
                if self._spark.sparkContext.defaultParallelism > MOST_READERS:
                    return None
                with turn:
                    body = FillVnodes(view=views[0], **common)
                    return fill_vnodes(self._spark, body, first.runs, first.chunk, self._indexes)
            with turn:
                return fill(
                    self._spark, FillRange(views=tuple(views), **common), first.runs, first.chunk, self._indexes
                )
        except SparkMustJudge as fault:
            self._spark_only.add(fault.view_id)  # where one value was Spark's to judge, the next chunk has more
            return None

    def _read_large(self, reading: _Reading, turn: AbstractContextManager) -> list[RunFile]:
        """Nothing of the query's text may change from chunk to chunk: Spark would generate other code, and the JVM
        would compile that anew, which takes longer than reading a million rows (docs/design/backfill.md)."""
        layout, rows = reading.layout, reading.chunk.rows
        found = sorted_scan(
            self._sorted, self._storage.uri(""), reading.source, reading.runs, reading.bounds, rows=rows
        )
        if found is None:
            return []
        combined: DataFrame | None = None
        for branch in frames(reading.plan, {reading.upstream.id: found}, layout.types):
            stored = self._stored(branch, reading.view, layout)
            combined = stored if combined is None else combined.unionAll(stored)
        return [] if combined is None else write_sorted(combined, self._storage, layout, turn)

    def _stored(self, part: DataFrame, view: Relation, layout: Layout) -> DataFrame:
        columns = [quote_spark(name) for name in layout.names]
        vnode = spark_expression(layout.distribution) if view.rehashed else quote_spark(VNODE)
        rows = part.selectExpr(*columns, f"{vnode} AS {VNODE}")
        if not view.rehashed:
            return rows
        # An index has an order of its own. Its chunk is sorted by vnode ranges, so that no two files share a key.
        count = min(VNODES, self._spark.sparkContext.defaultParallelism)
        by_range = rows.repartitionById(count, F.expr(f"CAST({VNODE} * {count} DIV {VNODES} AS INT)"))
        return sorted_by_key(by_range, layout)
