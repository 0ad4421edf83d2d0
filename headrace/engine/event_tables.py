"""Tables whose rows are changed by events: FORMAT UPSERT and FORMAT DEBEZIUM.

Like a source, with one difference: what the stream brings are changes of rows by their key, so there is one reader for
the table itself, and nothing like a history. Executors read and decode. They stage what they have read, and tasks that
own a range of vnodes find the old rows of the keys and write the table's delta: the driver sees names of files. Only if
there are few events does the driver apply them itself, as it does other small writes. Either way they are committed
together with the stream's position.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import pickle
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.catalog import TABLE, Column, KeyColumn, Relation
from headrace.engine.changes import ChangelogRows, StagedChanges
from headrace.engine.coordinator import Mutate, Write
from headrace.engine.dead_letters import dead_letters, with_dead_letters
from headrace.engine.feeds import StreamState, table_stream, with_table_stream
from headrace.engine.ingest import Report, judge
from headrace.engine.small import with_vnode
from headrace.engine.spark import spark_errors, use_pool
from headrace.engine.turns import Turns
from headrace.errors import EngineClosed, HeadraceError
from headrace.failpoints import failpoint
from headrace.sources.changes import DELETED
from headrace.sources.connector import Feed, Reader
from headrace.sources.handover import CutBack, Extent, Range, Stream
from headrace.sql import statements as ast
from headrace.state.files import Files
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.prepared import packed_rows, run_tasks
from headrace.state.ranges import Staged
from headrace.state.resolve import NEW, TAG
from headrace.state.runs import WEIGHT

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = logging.getLogger("headrace")

TABLE_EVENTS = 500_000
"""Events of one epoch"""

SMALL_EVENTS = 10_000
"""Up to this many come to the driver: so few old rows are looked up faster by it than by tasks that read for them"""

SMALL_BYTES = 32 << 20
"""… if they are not large: of decoded rows, of all tasks together"""

TASK_TAGS = 1 << 32
"""More than a task has events; what a later task read comes later"""

POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True)
class FoldRange:
    """A task body for ``mapInArrow``: a pickled range in; out comes a report, and what it does to each key: NULL, if
    that is too much to be handed over."""

    reader: Reader
    key: tuple[str, ...]
    on_bad: str
    most_bytes: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                report = Report()
                rows: bytes | None = b""
                try:
                    rows = self._folded(pickle.loads(packed), report)
                except HeadraceError as problem:
                    report.error = problem
                yield pa.record_batch(
                    {"report": pa.array([pickle.dumps(report)], pa.binary()), "rows": pa.array([rows], pa.binary())}
                )

    def _folded(self, task: Any, report: Report) -> bytes | None:
        tables: list[pa.Table] = []
        size = 0
        for decoded in self.reader.read(task):
            judge(self.on_bad, decoded, report)
            tables.append(decoded.rows)
            if (size := size + decoded.rows.nbytes) > self.most_bytes:
                return None
        return packed_rows(last_of_each(pa.concat_tables(tables), self.key)) if tables else b""


def last_of_each(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    """Of each key the last row, in the order in which those came."""
    columns = [_comparable(rows[name]).to_pylist() for name in key]
    last = {each: at for at, each in enumerate(zip(*columns, strict=True))}
    return rows if len(last) == rows.num_rows else rows.take(pa.array(np.sort(list(last.values()))))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """In Python a NaN is no other, and in a key they are all one. No key has a NULL, which can stand for it."""
    if not pa.types.is_floating(column.type):
        return column
    return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)


@dataclass(frozen=True, kw_only=True)
class StageRange:
    """A task body for ``mapInArrow``: a pickled range in, a report and the file of its changes out."""

    reader: Reader
    files: Files
    layout: Layout
    on_bad: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                report, staged = Report(), None
                try:
                    staged = self._staged(*pickle.loads(packed), report)
                except HeadraceError as problem:
                    report.error = problem
                yield pa.record_batch({"answer": pa.array([pickle.dumps((report, staged))], pa.binary())})

    def _staged(self, number: int, path: str, task: Any, report: Report) -> Staged | None:
        tag = number * TASK_TAGS + NEW
        writer, count, size = None, 0, 0
        with contextlib.ExitStack() as opened:
            for decoded in self.reader.read(task):
                judge(self.on_bad, decoded, report)
                rows = self._changes(decoded.rows, tag + count)
                if writer is None:
                    sink = opened.enter_context(self.files.open_scratch(path))
                    writer = opened.enter_context(pq.ParquetWriter(sink, rows.schema, compression="lz4"))
                writer.write_table(rows)
                count, size = count + rows.num_rows, size + rows.nbytes
        return Staged(path=path, rows=count, bytes=size) if count else None

    def _changes(self, rows: pa.Table, first: int) -> pa.Table:
        gone = rows[DELETED].to_numpy()
        plain = with_vnode(self.layout, rows.select(self.layout.names).cast(self.layout.row_schema).combine_chunks())
        plain = plain.append_column(WEIGHT, pa.array(np.where(gone, -1, 1).astype(np.int8)))
        return plain.append_column(TAG, pa.array(np.arange(first, first + rows.num_rows)))


class TableReader:
    """Follows the events of one table, in a thread of its own."""

    def __init__(self, engine: Engine, table: Relation, feed: Feed):
        self._engine, self._id, self.name, self._feed = engine, table.id, table.name, feed
        self.lag_rows: int | None = None
        self._cut_back = CutBack()
        self._turns = Turns(
            self._turn,
            thread="headrace-source",
            subject=lambda: f'table "{self.name}"',
            idle_seconds=lambda: POLL_SECONDS,
        )

    @property
    def error(self) -> HeadraceError | None:
        return self._turns.error

    def start(self) -> None:
        self._turns.start()

    def stop(self) -> None:
        self._turns.stop()
        self._feed.close()

    def _turn(self) -> bool:
        state = self._engine.committed
        table, known = state.catalog.relations.get(self._id), table_stream(state, self._id)
        if table is None or known is None or known.stream is None:
            raise EngineClosed("the table was dropped")
        self.name = table.name
        extents = self._feed.extents()
        for text, first in self._cut_back.lasting(known.stream, extents, now=time.monotonic()):
            if known.definition.gaps_are_errors:
                raise HeadraceError(text, hint="create the table again")
            if first:
                log.warning('table "%s": %s', self.name, text)
        stream = known.stream.meets({split: extent.begin for split, extent in extents.items()})
        stream, gaps = stream.skip(extents)
        for gap in gaps:
            log.warning('table "%s": %s were removed before they were read', self.name, gap)
            if known.definition.gaps_are_errors:
                raise HeadraceError(f"{gap} were removed before they were read", hint="create the table again")
        ahead = stream.ahead(extents)
        self.lag_rows = sum(each.size for each in ahead)
        ranges = self._feed.portion(ahead, TABLE_EVENTS) if ahead else []
        if not ranges and stream == known.stream:
            return False
        folder = f"staging/{uuid.uuid4().hex}"
        try:
            few = sum(each.size for each in ranges) <= SMALL_EVENTS
            report, change = (self._read(table, ranges) if few else None) or self._stage(table, ranges, folder)
            report.lost += sum(gap.size for gap in gaps)
            after = stream.took(*ranges)
            self._feed.confirm()
            self._engine.coordinator.mutate(self._taking(known.stream, after, report, change), f"reading {self.name}")
        finally:
            self._engine.storage.delete([folder])
        self._feed.committed(after.next)
        return bool(ranges)

    def _stage(self, table: Relation, ranges: Sequence[Range], folder: str) -> tuple[Report, StagedChanges | None]:
        storage = self._engine.storage
        on_bad = self._feed.definition.on_bad
        body = StageRange(
            reader=self._feed.reader, files=storage.files, layout=Layout.of(table), on_bad=on_bad
        )  # fmt: skip
        # A key's events are in one split, and the tasks of a split are in the order of its offsets.
        tasks = enumerate(self._feed.tasks(ranges, self._engine.default_parallelism))
        packed = [pickle.dumps((number, f"{folder}/{number}.parquet", task)) for number, task in tasks]
        storage.make_dirs(folder)
        use_pool(self._engine.spark, "epochs")
        with spark_errors(f'reading table "{table.name}"'):
            answers = run_tasks(self._engine.spark, body, packed, "answer BINARY")["answer"].to_pylist()
        failpoint("after_ingest")
        whole, staged = Report(), []
        for report, file in map(pickle.loads, answers):
            whole.add(report)
            staged += [] if file is None else [file]
        if whole.error is not None:
            raise whole.error
        return whole, StagedChanges(files=tuple(staged)) if staged else None

    def _read(self, table: Relation, ranges: Sequence[Range]) -> tuple[Report, ChangelogRows | None] | None:
        """None, if they are too large to pass through here."""
        if not ranges:
            return Report(), None
        # A key's events are in one split, and the tasks of a split answer in the order of its offsets.
        tasks = [pickle.dumps(task) for task in self._feed.tasks(ranges, self._engine.default_parallelism)]
        key = tuple(each.name for each in table.pk)
        body = FoldRange(
            reader=self._feed.reader, key=key, on_bad=self._feed.definition.on_bad,
            most_bytes=SMALL_BYTES // len(tasks),
        )  # fmt: skip
        use_pool(self._engine.spark, "epochs")
        with spark_errors(f'reading table "{table.name}"'):
            lines = run_tasks(self._engine.spark, body, tasks, "report BINARY, rows BINARY").to_pylist()
        failpoint("after_ingest")
        if any(line["rows"] is None for line in lines):
            return None
        whole, parts = Report(), []
        for line in lines:
            whole.add(pickle.loads(line["report"]))
            if line["rows"]:
                parts.append(pa.ipc.open_stream(line["rows"]).read_all())
        if whole.error is not None:
            raise whole.error
        rows = last_of_each(pa.concat_tables(parts), key) if parts else None
        return whole, changes_of(Layout.of(table), rows) if rows is not None and rows.num_rows else None

    def _taking(
        self, before: Stream, after: Stream, report: Report, change: ChangelogRows | StagedChanges | None
    ) -> Callable[[Manifest, int], tuple[Manifest, None]]:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            now, relation = table_stream(state, self._id), state.catalog.relations.get(self._id)
            if now is None or relation is None or now.stream != before:
                raise EngineClosed("the table was dropped")
            epoch = max(epoch, state.epoch)
            writes = dead_letters(state.catalog, now.dead_letters, report.bad)
            if change is not None:
                writes.append(Write(table_id=self._id, change=change))
            if writes:
                state, _ = self._engine.evaluator(state, writes, epoch)
            now = dataclasses.replace(
                now, stream=after, skipped=now.skipped + report.bad_count, lost=now.lost + report.lost
            )
            failpoint("before_stream")
            return dataclasses.replace(with_table_stream(state, self._id, now), epoch=epoch), None

        return apply


def changes_of(layout: Layout, rows: pa.Table) -> ChangelogRows:
    gone = rows[DELETED]
    keys = pa.schema([layout.row_schema.field(name) for name in layout.key_names])
    return ChangelogRows(
        rows=rows.filter(pc.invert(gone)).select(layout.names).cast(layout.row_schema),
        deletes=rows.filter(gone).select(layout.key_names).cast(keys),
        origins=keys.empty_table(),
    )


def adding(statement: ast.CreateTableOfEvents, known: StreamState, extents: Mapping[int, Extent]) -> Mutate:
    """The mutation that makes the table; its stream begins where the source does."""
    starts = {**{split: extent.begin for split, extent in extents.items()}, **known.starts}

    def apply(state: Manifest, epoch: int) -> tuple[Manifest, Relation]:
        columns = tuple(
            Column(name=name, type=kind, nullable=name not in statement.pk) for name, kind in known.definition.shown
        )
        relation = Relation(
            id=state.catalog.next_id, name=statement.name, kind=TABLE, columns=columns,
            pk=tuple(KeyColumn(name=name) for name in statement.pk), distribution=statement.pk,
            definition=statement.sql, options=statement.options, created_epoch=epoch,
        )  # fmt: skip
        KeyCodec.of(relation)  # refuses key types that have no order
        catalog, letters = with_dead_letters(state.catalog.add(relation), relation, known.definition, epoch)
        state = dataclasses.replace(state, catalog=catalog)
        begun = dataclasses.replace(known, stream=Stream(next=starts), dead_letters=letters)
        return with_table_stream(state, relation.id, begun), relation

    return apply
