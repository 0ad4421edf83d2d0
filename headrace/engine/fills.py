"""Large chunks of views that Arrow can evaluate: read, evaluated and written by Python tasks, without the JVM. Views
that are filled from the same rows at the same time share the reading.

A chunk is cut into *steps* of about STEP_ROWS stored rows, along the bounds of row groups. A task takes neighbouring
steps: for each it reads the row groups, finds out which rows are alive, applies the view's plan
(:mod:`headrace.operators.vectors`), and appends what comes out to its file. What it holds is one step, whatever the
chunk's size, and small files that it needs for every step (KEPT_ROWS).

An index, or an arrangement, has vnodes and an order of its own. Each of its tasks reads the whole chunk, keeps what
belongs to a range of vnodes (:class:`FillVnodes`), sorts that and writes it: reading twice costs less than a shuffle.

If a value turns up that only Spark can judge, the task says so, nothing of the chunk counts, and Spark reads it.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.backfill.positions import Chunk, split
from headrace.engine.pieces import rehashed, rows_of_chunk
from headrace.operators.vectors import FAULTS, VectorBranch, columns_read
from headrace.state.files import Files, FooterCache, open_parquet
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.merge import merge_versions
from headrace.state.precedence import gives_way
from headrace.state.prepared import giving_way, in_one_process, run_tasks
from headrace.state.ranges import within
from headrace.state.runs import EPOCH, VNODE, WEIGHT, Run, RunFile
from headrace.state.sorting import sort_order, sort_stored
from headrace.state.vnode import VNODES
from headrace.state.writer import NO_RELATION, REPORT_SCHEMA, RunFileWriter, report, written_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STEP_ROWS = 1 << 15
"""Stored rows that a task holds at a time, as they are in the bounds of row groups."""

TASK_ROWS = 1 << 19
"""Stored rows of a task: a fraction of a second, so that the tasks of epochs do not wait long for a processor."""

FOOTER_BYTES = 10 << 20
"""Of footers that a task keeps for its next step; a fill reads a file once, so that its worker need not remember it."""

MOST_READERS = 4
"""Tasks that each read a whole chunk to keep a part of it; where there are more processors, Spark shuffles instead."""

KEPT_ROWS = 1 << 18
"""Rows of small files that a task reads once and keeps for its next step."""


@dataclass(frozen=True, kw_only=True)
class Portion:
    """What a step reads of one file."""

    path: str
    inside: tuple[int, ...]
    """Row groups that lie in the step as a whole."""
    across: tuple[int, ...]
    """… and those of which it has a part."""
    small: bool
    """Whether the file is one row group, which other steps will want as well."""


@dataclass(frozen=True, kw_only=True)
class Step:
    chunk: Chunk
    portions: tuple[Portion, ...]


def steps_of(files: Iterable[RunFile], chunk: Chunk, indexes: IndexCache, step_rows: int = STEP_ROWS) -> list[Step]:
    """A chunk in pieces that follow each other, cut where a row group ends."""
    bounds = {file.path: indexes.get(file).groups for file in files if chunk.overlaps(file.low, file.high)}
    steps = []
    for part in _cut(chunk, bounds.values(), step_rows):
        portions = [portion for path, groups in bounds.items() if (portion := _portion(path, groups, part))]
        if portions:
            steps.append(Step(chunk=part, portions=tuple(portions)))
    return steps


Bounds = Sequence[tuple[bytes, bytes, int]]


def _cut(chunk: Chunk, bounds: Iterable[Bounds], step_rows: int) -> Iterator[Chunk]:
    ends = sorted((high, rows) for groups in bounds for low, high, rows in groups if chunk.overlaps(low, high))
    vnode, after, taken = chunk.first_vnode, chunk.after, 0
    for number, (high, rows) in enumerate(ends):
        taken += rows
        end_vnode, key = split(high)
        if taken < step_rows or not chunk.holds(end_vnode, key) or number == len(ends) - 1:
            continue
        if split(ends[number + 1][0])[0] > end_vnode and end_vnode < chunk.last_vnode:
            yield Chunk(first_vnode=vnode, after=after, last_vnode=end_vnode, upto=None, rows=taken)
            vnode, after, taken = end_vnode + 1, None, 0
        elif (end_vnode, key) > (vnode, after or b""):
            yield Chunk(first_vnode=vnode, after=after, last_vnode=end_vnode, upto=key, rows=taken)
            vnode, after, taken = end_vnode, key, 0
    yield Chunk(first_vnode=vnode, after=after, last_vnode=chunk.last_vnode, upto=chunk.upto, rows=taken)


def _portion(path: str, groups: Bounds, part: Chunk) -> Portion | None:
    first = bisect.bisect_left(groups, part.low, key=lambda group: group[1])
    last = bisect.bisect_right(groups, part.high, key=lambda group: group[0])
    inside, across = [], []
    for number in range(first, last):
        low, high, _ = groups[number]
        if part.overlaps(low, high):
            whole = part.holds(*split(low)) and part.holds(*split(high))
            (inside if whole else across).append(number)
    if not inside and not across:
        return None
    return Portion(path=path, inside=tuple(inside), across=tuple(across), small=len(groups) == 1)


@dataclass(frozen=True, kw_only=True)
class View:
    layout: Layout
    branches: tuple[VectorBranch, ...]
    """What becomes of the upstream's rows."""


class SparkMustJudge(Exception):
    """A value turned up that only Spark can judge, in the view of this id."""

    def __init__(self, view_id: int):
        super().__init__(view_id)
        self.view_id = view_id


@dataclass(frozen=True, kw_only=True)
class FillRange:
    """A task body for ``mapInArrow``: pickled steps in, one line per written file out."""

    files: Files
    source: Layout
    """Of the upstream."""
    views: tuple[View, ...]
    precedence: str | None = None
    """Where epochs that run on this machine say so"""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                steps = pickle.loads(packed)
                yield from giving_way(lambda: list(self._fill(steps)))  # noqa: B023 (called at once)

    def _fill(self, steps: Sequence[Step]) -> Iterator[pa.RecordBatch]:
        # A writer per branch: two branches of a union are each sorted, but not with each other.
        outputs = [
            (view.layout, branch, RunFileWriter(view.layout, self.files, leave_out=True))
            for view in self.views
            for branch in view.branches
        ]
        give_way = gives_way(self.precedence)
        rows = _LiveRows(self, give_way)
        at = NO_RELATION
        try:
            for step in steps:
                live = rows.of(step)
                for layout, branch, writer in outputs:
                    at = layout.relation_id
                    give_way()
                    writer.push(branch.apply(live).select([*layout.names, VNODE]))
                pa.default_memory_pool().release_unused()  # or what steps leave adds up, to several of them
            for layout, _, writer in outputs:
                yield from report({layout.relation_id: writer.finish()})
        except BaseException as error:
            for _, _, writer in outputs:
                writer.abort()
            if not isinstance(error, FAULTS):
                raise
            yield from report({NO_RELATION: [dataclasses.replace(_NOT_VECTORIZED, path=str(at))]})

    @property
    def columns(self) -> list[str]:
        return _columns_of(self.source, [branch for view in self.views for branch in view.branches])


@dataclass(frozen=True, kw_only=True)
class FillVnodes:
    """A task body for ``mapInArrow``: pickled ranges of vnodes with all steps of a chunk in, one line per file out.

    What it holds is what becomes of a chunk in its range of vnodes, once, and a piece of that in order.
    """

    files: Files
    source: Layout
    view: View
    precedence: str | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                first, last, steps = pickle.loads(packed)
                yield from giving_way(lambda: list(self._fill(first, last, steps)))  # noqa: B023 (called at once)

    def _fill(self, first: int, last: int, steps: Sequence[Step]) -> Iterator[pa.RecordBatch]:
        layout = self.view.layout
        try:
            rows = self._rows(first, last, steps)
        except FAULTS:
            yield from report({NO_RELATION: [dataclasses.replace(_NOT_VECTORIZED, path=str(layout.relation_id))]})
            return
        give_way = gives_way(self.precedence)
        order = sort_order(layout, rows, [])
        writer = RunFileWriter(layout, self.files, leave_out=True)
        try:
            for at in range(0, rows.num_rows, STEP_ROWS):
                give_way()
                writer.push(rows.take(order.slice(at, STEP_ROWS)))
            yield from report({layout.relation_id: writer.finish()})
        except BaseException:
            writer.abort()
            raise

    def _rows(self, first: int, last: int, steps: Sequence[Step]) -> pa.Table:
        give_way = gives_way(self.precedence)
        reader, layout = _LiveRows(self, give_way), self.view.layout
        names = [*layout.names, VNODE]
        kept = [pa.schema([layout.stored_schema.field(name) for name in names]).empty_table()]
        for step in steps:
            live = reader.of(step)
            for branch in self.view.branches:
                give_way()
                kept.append(within(rehashed(layout, branch.apply(live)).select(names), first, last))
        return pa.concat_tables(kept).combine_chunks()

    @property
    def columns(self) -> list[str]:
        return _columns_of(self.source, self.view.branches)


def _columns_of(source: Layout, branches: Sequence[VectorBranch]) -> list[str]:
    """What is read of the upstream's files."""
    needed = columns_read(branches)
    wanted = [name for name in source.names if needed is None or name in needed]
    keys = [name for name in source.key_names if name not in wanted]
    return [*wanted, *keys, VNODE, EPOCH, WEIGHT]


_NOT_VECTORIZED = RunFile(path="", rows=0, bytes=0, low=b"", high=b"", groups=0, retractions=0)


class _LiveRows:
    """Reads steps, one after the other."""

    def __init__(self, fill: FillRange | FillVnodes, give_way: Callable[[], None]):
        self._files, self._layout, self._columns = fill.files, fill.source, fill.columns
        self._give_way = give_way
        self._kept: dict[str, pa.Table] = {}
        self._footers = FooterCache(FOOTER_BYTES)

    def of(self, step: Step) -> pa.Table:
        """The live rows of a step, in order, with the columns that the view reads and the internal ones."""
        tables = []
        for portion in step.portions:
            if portion.inside:
                tables.append(self._read(portion, portion.inside))
            if portion.across:
                tables.append(rows_of_chunk(self._layout, self._read(portion, portion.across), step.chunk))
        tables = [table for table in tables if table.num_rows] or tables[:1]
        if len(tables) == 1 and not _retracts(tables[0]):
            return tables[0].combine_chunks()
        rows = sort_stored(self._layout, pa.concat_tables(tables))
        if _retracts(rows):
            rows = merge_versions(rows, [VNODE, *self._layout.key_names], True)
        return rows.combine_chunks()

    def _read(self, portion: Portion, groups: Sequence[int]) -> pa.Table:
        if portion.path in self._kept:
            return self._kept[portion.path]
        self._give_way()
        with open_parquet(self._files, portion.path, footers=self._footers) as parquet:
            stored = parquet.read_row_groups(list(groups), columns=self._columns, use_threads=False)
        rows = self._layout.completed(stored, self._columns)
        if portion.small and rows.num_rows + sum(kept.num_rows for kept in self._kept.values()) <= KEPT_ROWS:
            self._kept[portion.path] = rows
        return rows


def _retracts(rows: pa.Table) -> bool:
    return rows.num_rows > 0 and int(rows[WEIGHT].to_numpy().min()) < 0


def fill(
    spark: SparkSession, body: FillRange, runs: Sequence[Run], chunk: Chunk, indexes: IndexCache
) -> dict[int, list[RunFile]]:
    """Writes the rows that views have of a chunk; answers the files by view."""
    steps = steps_of((file for run in runs for file in run.files), chunk, indexes)
    tasks: list[list[Step]] = []
    most = _task_rows(spark, steps)
    rows = most
    for step in steps:
        if rows + step.chunk.rows > most:
            tasks.append([])
            rows = 0
        tasks[-1].append(step)
        rows += step.chunk.rows
    return _run(spark, body, [pickle.dumps(task) for task in tasks])


def fill_vnodes(
    spark: SparkSession, body: FillVnodes, runs: Sequence[Run], chunk: Chunk, indexes: IndexCache
) -> dict[int, list[RunFile]]:
    """The same for one that has vnodes of its own."""
    steps = steps_of((file for run in runs for file in run.files), chunk, indexes)
    count = spark.sparkContext.defaultParallelism
    edges = [VNODES * number // count for number in range(count + 1)]
    tasks = [pickle.dumps((first, last, steps)) for first, last in itertools.pairwise(edges)]
    return _run(spark, body, tasks if steps else [])


def _run(spark: SparkSession, body: FillRange | FillVnodes, tasks: list[bytes]) -> dict[int, list[RunFile]]:
    if not tasks:
        return {}
    written = written_files(run_tasks(spark, body, tasks, REPORT_SCHEMA).to_pylist())
    if NO_RELATION in written:
        raise SparkMustJudge(int(written[NO_RELATION][0].path))
    return {view_id: sorted(files, key=lambda file: file.low) for view_id, files in written.items()}


def _task_rows(spark: SparkSession, steps: Sequence[Step]) -> int:
    """Stored rows of a task. Where the driver's JVM has more slots than processors, which are for epochs, there are not
    more tasks than processors: each of them would only be slower to give way."""
    context = spark.sparkContext
    if not in_one_process(context.master):
        return TASK_ROWS
    total = sum(step.chunk.rows for step in steps)
    longest = max((step.chunk.rows for step in steps), default=0)
    return max(TASK_ROWS, -(-total // context.defaultParallelism) + longest)
