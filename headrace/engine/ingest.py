"""Reading ranges of a source, by executors: events to rows, and rows to the runs of views.

A task reads its range, holds it, and sorts it. It also writes what those views make of it that Arrow can evaluate. If
there are others it stages the events, and Spark evaluates those.
"""

from __future__ import annotations

import dataclasses
import pickle
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog import Catalog, Relation
from headrace.engine.direct import in_stored_schema
from headrace.engine.fills import View
from headrace.engine.plans import plan_of, vectors_of
from headrace.engine.small import with_vnode
from headrace.engine.spark import spark_errors
from headrace.engine.watermarks import late as late_of
from headrace.errors import HeadraceError
from headrace.failpoints import failpoint
from headrace.operators.linear import WideQuery, branches
from headrace.operators.vectors import FAULTS
from headrace.sources.connector import BadEvent, BadRecord, Decoded, Feed, Reader
from headrace.sources.definition import DEAD_LETTER, FAIL, OFFSET, PARTITION
from headrace.sources.handover import Range
from headrace.state.files import Files
from headrace.state.layout import LEFT_OUT, Layout
from headrace.state.prepared import giving_way, run_tasks
from headrace.state.runs import EPOCH, VNODE, WEIGHT, RunFile
from headrace.state.scan import read_files
from headrace.state.storage import Storage
from headrace.state.writer import REPORT_SCHEMA, Output, RunFileWriter, WriteDelta, written_files
from headrace.types import quote_spark

PART_BYTES = 64 << 20
"""Of decoded events that a task holds before it writes them"""

MOST_BAD = 10_000
"""Bad records of one range that go to the dead letters; a source with more of them is not what it was said to be."""

BAD_BYTES = 16 << 20
"""Of their content that are kept; beyond, it is only said what is wrong with them"""


@dataclass(kw_only=True)
class Report:
    """What a task, or all tasks of a range, have done."""

    rows: int = 0
    files: dict[int, list[RunFile]] = field(default_factory=dict)
    """By view"""
    staged: list[RunFile] = field(default_factory=list)
    bad: list[BadRecord] = field(default_factory=list)
    bad_bytes: int = 0
    bad_count: int = 0
    lost: int = 0
    late: dict[int, int] = field(default_factory=dict)
    """By view"""
    error: HeadraceError | None = None
    spark_must_judge: int | None = None
    """The view of which Arrow could not say what Spark would"""

    def add(self, other: Report) -> None:
        self.rows += other.rows
        for id, files in other.files.items():
            self.files.setdefault(id, []).extend(files)
        self.staged += other.staged
        self.keep(other.bad)
        self.bad_count += other.bad_count
        self.lost += other.lost
        for id, count in other.late.items():
            self.late[id] = self.late.get(id, 0) + count
        self.error = self.error or other.error
        if self.spark_must_judge is None:
            self.spark_must_judge = other.spark_must_judge

    def keep(self, bad: Iterable[BadRecord]) -> None:
        """For the dead letters: not more than can be held, here and by the driver."""
        for each in bad:
            size = len(each.raw or b"")
            if size and self.bad_bytes + size > BAD_BYTES:
                reason = f"{each.reason} ({size} bytes, not kept by this read: too many are bad at once)"
                each = dataclasses.replace(each, raw=None, reason=reason)
            else:
                self.bad_bytes += size
            self.bad.append(each)
            if len(self.bad) > MOST_BAD:
                self.error = self.error or BadEvent(
                    f"more than {MOST_BAD} events at once cannot be read, the last one because {each.reason}",
                    hint="are the columns and the encoding of the source right?",
                    sqlstate="22P02",
                )
                return


@dataclass(frozen=True, kw_only=True)
class IngestRange:
    """A task body for ``mapInArrow``: a pickled task of a feed in, a pickled report out."""

    reader: Reader
    files: Files
    source: Layout
    views: tuple[View, ...]
    """What is evaluated here"""
    whole: frozenset[int] = frozenset()
    """Those of them whose files are to have all columns, because others are derived from them"""
    stage: bool
    """Whether somebody else needs the events, too"""
    late: tuple[tuple[int, str, int], ...] = ()
    """Of views that leave late events out: their time, and the watermark"""
    on_bad: str
    patient: bool
    """Whether epochs go first"""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                path, task = pickle.loads(packed)
                work: Callable[[], Report] = lambda: self._ingest(path, task)  # noqa: B023, E731 (called at once)
                report = giving_way(work) if self.patient else work()
                yield pa.record_batch({"report": pa.array([pickle.dumps(report)], pa.binary())})

    def _ingest(self, path: str, task: Any) -> Report:
        report = Report()
        try:
            for number, rows in enumerate(self._parts(task, report)):
                rows = rows.take(pa.array(by_vnode(rows)))
                if self.stage:
                    report.staged.append(self._stage(rows, f"{path}-{number}.parquet"))
                self._write(rows, report)
                if report.spark_must_judge is not None:
                    break
        except HeadraceError as problem:
            # Handed over, not raised: Spark would try the task again, and bury the reason.
            report.error = problem
        return report

    def _parts(self, task: Any, report: Report) -> Iterator[pa.Table]:
        """What is held, and written, at a time: all of it, unless events are large."""
        held: list[pa.Table] = []
        size = 0
        for decoded in self.reader.read(task):
            judge(self.on_bad, decoded, report)
            report.lost += decoded.lost
            report.rows += decoded.rows.num_rows
            if decoded.rows.num_rows:
                held.append(decoded.rows.select(self.source.names))
                size += held[-1].nbytes
            if size >= PART_BYTES:
                yield with_vnode(self.source, pa.concat_tables(held).combine_chunks())
                held, size = [], 0
        if held:
            yield with_vnode(self.source, pa.concat_tables(held).combine_chunks())

    def _write(self, rows: pa.Table, report: Report) -> None:
        late = {id: (column, watermark) for id, column, watermark in self.late}
        for view in self.views:
            whole = view.layout.relation_id in self.whole
            for branch in view.branches:
                writer = RunFileWriter(view.layout, self.files, leave_out=not whole)
                try:
                    found = branch.apply(rows).select([*view.layout.names, VNODE]).cast(_written_schema(view))
                    if (id := view.layout.relation_id) in late:
                        before = found.num_rows
                        found = found.filter(pc.invert(late_of(found, *late[id])))
                        report.late[id] = report.late.get(id, 0) + before - found.num_rows
                    writer.push(view.layout.stored(found) if whole else found)
                    report.files.setdefault(view.layout.relation_id, []).extend(writer.finish())
                except FAULTS:
                    writer.abort()
                    report.spark_must_judge = view.layout.relation_id
                    return
                except BaseException:
                    writer.abort()
                    raise

    def _stage(self, rows: pa.Table, path: str) -> RunFile:
        rows = rows.append_column(WEIGHT, pa.repeat(pa.scalar(1, pa.int8()), rows.num_rows))
        stored = in_stored_schema(self.source, [rows], LEFT_OUT[EPOCH])
        with self.files.open_scratch(path) as sink:
            with pq.ParquetWriter(sink, stored.schema, compression="lz4") as writer:
                writer.write_table(stored)
            size = sink.tell()
        low, high = (self.source.bound(stored, at) for at in (0, stored.num_rows - 1))
        return RunFile(path=path, rows=stored.num_rows, bytes=size, low=low, high=high, groups=1, retractions=0)


def judge(on_bad: str, decoded: Decoded, report: Report) -> None:
    """Events that cannot be read: an error, or counted, and perhaps kept."""
    if not decoded.bad:
        return
    if on_bad == FAIL:
        first = decoded.bad[0]
        raise BadEvent(
            f"the event at offset {first.offset} of partition {first.split} cannot be read: {first.reason}",
            hint="bad.records = 'skip' or 'dead_letter', when the source is created, leaves such events out",
            sqlstate="22P02",
        )
    report.bad_count += len(decoded.bad)
    if on_bad == DEAD_LETTER:
        report.keep(decoded.bad)
        if report.error is not None:
            raise report.error


def _written_schema(view: View) -> pa.Schema:
    left = [each for each in view.layout.stored_schema if each.name not in LEFT_OUT]
    return pa.schema(left)


def by_vnode(rows: pa.Table) -> np.ndarray:
    """The order of (vnode, partition, offset). What comes of one split is in the order of its offsets already."""
    order = np.arange(rows.num_rows)
    for name in (OFFSET, PARTITION):
        column = rows[name].to_numpy()[order]
        if len(column) and (np.diff(column) < 0).any():
            order = order[np.argsort(column, kind="stable")]
    return order[np.argsort(rows[VNODE].to_numpy()[order], kind="stable")]


class Ingestion:
    """Reads the ranges of one source."""

    def __init__(self, spark: SparkSession, storage: Storage, *, vectorized: Callable[[], bool]):
        self._spark, self._storage, self._vectorized = spark, storage, vectorized
        self._spark_only: set[int] = set()

    def fused(self, catalog: Catalog, source: Relation, views: Sequence[Relation]) -> tuple[View, ...]:
        """How tasks can evaluate views themselves: those which Spark does not have to evaluate."""
        found = []
        for view in views:
            # What leaves late events out only copies columns: Arrow can always do that.
            fits = view.lateness is not None or (self._vectorized() and view.id not in self._spark_only)
            vectors = vectors_of(view, catalog) if fits else None
            if vectors is not None:
                mine = tuple(each for each in vectors if each.relation_id == source.id)
                found.append(View(layout=Layout.of(view), branches=mine))
        return tuple(found)

    def read(
        self,
        feed: Feed,
        source: Relation,
        ranges: Sequence[Range],
        views: tuple[View, ...],
        *,
        stage: bool,
        whole: Iterable[int] = (),
        late: Iterable[tuple[int, str, int]] = (),
        patient: bool,
        parallelism: int = 0,
        tasks: Sequence[Any] = (),
    ) -> tuple[Report, str]:
        """What the tasks (those of the ranges, if none are given) did, and the folder in which they staged."""
        folder = f"staging/{uuid.uuid4().hex}"
        body = IngestRange(
            reader=feed.reader, files=self._storage.files, source=Layout.of(source), views=views,
            whole=frozenset(whole), stage=stage, late=tuple(late), on_bad=feed.definition.on_bad, patient=patient,
        )  # fmt: skip
        tasks = tasks or feed.tasks(ranges, parallelism or self._spark.sparkContext.defaultParallelism)
        packed = [pickle.dumps((f"{folder}/{number}", task)) for number, task in enumerate(tasks)]
        whole = Report()
        try:
            if stage:
                self._storage.make_dirs(folder)
            with spark_errors(f'reading source "{source.name}"'):
                for report in run_tasks(self._spark, body, packed, "report BINARY")["report"].to_pylist():
                    whole.add(pickle.loads(report))
            failpoint("after_ingest")
            if whole.error is not None:
                raise whole.error
        except BaseException:
            self._storage.delete([folder])
            raise
        return whole, folder

    def judged_by_spark(self, view_id: int) -> None:
        """Where one value was Spark's to judge, the next range has more."""
        self._spark_only.add(view_id)

    def evaluate(self, catalog: Catalog, source: Relation, view: Relation, staged: Sequence[RunFile]) -> list[RunFile]:
        """What a view makes of staged events, by Spark."""
        if not staged:
            return []
        source_layout, layout = Layout.of(source), Layout.of(view)
        frame = read_files(self._spark, self._storage.uri(""), staged, source_layout.spark_schema)
        wide = WideQuery(columns=source_layout.names)
        found = branches(plan_of(view, catalog), {source.id: ["n0"]}, wide, layout.types)
        body = WriteDelta(
            files=self._storage.files,
            epoch=LEFT_OUT[EPOCH],
            outputs=(Output(layout=layout, branches=tuple(found)),),
            sort=True,
        )
        with spark_errors(f'filling {view.kind} "{view.name}"'):
            lines = wide.apply(frame, dict.fromkeys(found)).mapInArrow(body, REPORT_SCHEMA).collect()
        return written_files(lines).get(view.id, [])


# --- batch -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class ScanRange:
    """A task body for ``mapInArrow``: pickled tasks of a feed in, rows out."""

    ingest: IngestRange

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = self.ingest.source.names
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                for decoded in self.ingest.reader.read(pickle.loads(packed)):
                    judge(self.ingest.on_bad, decoded, Report())
                    yield from decoded.rows.select(names).combine_chunks().to_batches()


def scan_source(
    spark: SparkSession, storage: Storage, feed: Feed, source: Relation, ranges: Sequence[Range]
) -> DataFrame:
    """The events of ranges, as a frame that reads them when it is run."""
    layout = Layout.of(source)
    schema = ", ".join(f"{quote_spark(name)} {kind.spark}" for name, kind in layout.columns)
    ingest = IngestRange(
        reader=feed.reader, files=storage.files, source=layout, views=(), stage=False,
        on_bad=feed.definition.on_bad, patient=False,
    )  # fmt: skip
    tasks = [pickle.dumps(task) for task in feed.tasks(ranges, spark.sparkContext.defaultParallelism)]
    if not tasks:
        return spark.createDataFrame(layout.row_schema.empty_table(), schema=schema)
    frame = spark.createDataFrame(pa.table({"task": pa.array(tasks, pa.binary())}), schema="task BINARY")
    spread = frame.repartition(len(tasks)) if len(tasks) > 1 else frame
    return spread.mapInArrow(ScanRange(ingest=ingest), schema)
