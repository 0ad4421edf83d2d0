"""Reading one source of events: the shared stream of all its views, and the history of those that are being filled.

One thread for each source. It asks what there is, has executors read a bounded part of it, and hands what they wrote to
the epoch loop as one mutation: the views' rows and the stream's position commit together, or not at all. Histories are
read by a pool beside it, in chunks, and land the same way; a stream never waits for them. What is in flight is in
memory only: after a crash it is read again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.backfill.pacing import Adaptive, RateLimit
from headrace.catalog import Relation
from headrace.engine.changes import InsertRows
from headrace.engine.coordinator import Write
from headrace.engine.deltas import TableDelta
from headrace.engine.feeds import (
    StreamState,
    ViewState,
    stood_on,
    stream_state,
    view_state,
    views_being_filled,
    views_on,
    with_stream,
    with_view,
    without_view,
)
from headrace.engine.filling import failed, jobs_of, new_runs, with_chunks_joined
from headrace.engine.ingest import Ingestion, Report
from headrace.engine.spark import use_pool
from headrace.errors import DataError, EngineClosed, Fenced, HeadraceError, SparkJobCancelled
from headrace.failpoints import failpoint
from headrace.sources.connector import BadRecord, Feed
from headrace.sources.handover import Extent, Gap, OutOfPlace, Range, Stream
from headrace.state.manifest import Manifest
from headrace.state.runs import RunFile

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = logging.getLogger("headrace")

STREAM_ROWS = 200_000
"""Offsets that the stream takes in an epoch at most"""

CHUNK_ROWS = 1_000_000
"""Offsets that a chunk of a history has at most"""

POLL_SECONDS = 0.1
"""How often an idle source is asked for more"""

CHUNKS = 4
"""Histories that are read at the same time, of all views of a source"""

ATTEMPTS = 3


class RetentionGap(DataError):
    """Events were removed before they were read, and the source says that this is an error."""


@dataclass(kw_only=True, eq=False)
class Filling:
    """A view's history on its way; what is durable of it is in the manifest."""

    policy: Adaptive
    limit: RateLimit
    rate_limit: int | None
    reading: Future[tuple[list[RunFile], Report]] | None = None
    ranges: tuple[Range, ...] = ()
    launched_at: float = 0.0
    failures: int = 0
    retry_at: float = 0.0
    recent: list[tuple[float, int]] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        if len(self.recent) < 2:
            return None
        span = self.recent[-1][0] - self.recent[0][0]
        return sum(rows for _, rows in self.recent[1:]) / span if span > 0 else None


@dataclass(frozen=True, kw_only=True)
class TheRead:
    """For whom a range of the stream was read, by their ids."""

    views: frozenset[int]
    fused: frozenset[int]
    """Those for which the tasks wrote; of the others, the events are staged"""
    whole: frozenset[int]
    """Those that others stand on, so what was written for them has all columns"""


class SourceReader:
    def __init__(self, engine: Engine, source: Relation, feed: Feed):
        self._engine, self._id, self.name, self.feed = engine, source.id, source.name, feed
        self._ingestion = Ingestion(engine.spark, engine.storage, vectorized=lambda: engine.parameter("vectorized"))
        self._pool = ThreadPoolExecutor(max_workers=CHUNKS, thread_name_prefix="headrace-history")
        self._fillings: dict[int, Filling] = {}
        self._news = threading.Event()
        self._stopping = False
        self._catalog: Any = None
        self.error: HeadraceError | None = None
        self.lag_rows: int | None = None
        self._took: list[tuple[float, int]] = []
        self.rows_taken, self.seconds_taking = 0, 0.0
        """By the stream, since the start: events, and the time of its epochs"""
        self._asking = threading.Lock()
        """Around the feed, which one thread uses at a time"""
        self._thread = threading.Thread(target=self._run, name="headrace-source", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._news.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)
        with self._asking:
            self.feed.close()

    def committed(self, state: Manifest) -> None:
        """Wakes up if views have come or gone, or are to be filled in another way."""
        if state.catalog is not self._catalog:
            self._catalog = state.catalog
            self._news.set()

    def wake(self) -> None:
        self._news.set()

    # --- for whoever looks -------------------------------------------------------------------------------------

    def extents(self) -> dict[int, Extent]:
        """What there is now, for others than the reader itself."""
        with self._asking:
            return self.feed.extents(fresh=True)

    @property
    def rows_per_second(self) -> float | None:
        """Of the stream, lately."""
        now = time.monotonic()
        recent = [(at, rows) for at, rows in self._took if now - at < 10]
        return sum(rows for _, rows in recent) / 10 if recent else 0.0

    def rate(self, view_id: int) -> float | None:
        filling = self._fillings.get(view_id)
        return None if filling is None else filling.rate

    def in_flight(self, view_id: int) -> int:
        filling = self._fillings.get(view_id)
        return 0 if filling is None or filling.reading is None else sum(each.size for each in filling.ranges)

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        patience = 0.1
        while not self._stopping:
            self._news.clear()
            try:
                busy = self._turn()
                self.error, patience = None, 0.1
                if not busy:
                    self._news.wait(POLL_SECONDS)
            except (EngineClosed, Fenced):
                return
            except SparkJobCancelled:
                continue
            except HeadraceError as error:
                if self._stopping:
                    return
                if self.error is None or self.error.message != error.message:
                    log.warning('source "%s": %s', self.name, error.message)
                self.error = error
                self._news.wait(patience)
                patience = min(30.0, patience * 2)
            except Exception as error:  # a fault of ours: it is shown, and tried again
                if self._stopping:
                    return
                log.exception('source "%s": unexpected error', self.name)
                self.error = HeadraceError(f"unexpected error: {type(error).__name__}: {error}")
                self._news.wait(5.0)

    def _turn(self) -> bool:
        """Whatever can be done now; whether there may be more."""
        state = self._engine.committed
        source, known = state.catalog.relations.get(self._id), stream_state(state, self._id)
        if source is None or known is None:
            raise EngineClosed("the source was dropped")
        self.name = source.name
        if known.stream is None:
            self._fillings.clear()
            return False
        views = views_on(state, self._id)
        if not views:
            self._mutate(_nobody_reads(self._id))
            return False
        landed = self._land()
        with self._asking:
            extents = self.feed.extents()
        known = self._meet(known, extents)
        took = self._take(state, source, known, views, extents)
        self._launch(extents)
        return took or landed

    def _confirm(self) -> None:
        with self._asking:
            self.feed.confirm()

    def _mutate(self, apply: Callable[[Manifest, int], tuple[Manifest, Any]]) -> Any:
        return self._engine.coordinator.mutate(apply, f"reading {self.name}")

    # --- the stream --------------------------------------------------------------------------------------------

    def _meet(self, known: StreamState, extents: Mapping[int, Extent]) -> StreamState:
        """Splits that are new, and offsets that are gone, before anything is read."""
        assert known.stream is not None
        met = known.stream.meets({split: extent.begin for split, extent in extents.items()})
        moved, gaps = met.skip(extents)
        if moved == known.stream:
            return known
        self._tell(gaps, known)
        new = {split: met.next[split] for split in met.next if split not in known.starts}

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, StreamState]:
            now = _present(state, self._id, known.stream)
            lost = now.lost + sum(gap.size for gap in gaps)
            now = dataclasses.replace(now, stream=moved, starts={**now.starts, **new}, lost=lost)
            return with_stream(state, self._id, now), now

        return self._mutate(apply)

    def _tell(self, gaps: Sequence[Gap], known: StreamState) -> None:
        for gap in gaps:
            if known.definition.gaps_are_errors:
                raise RetentionGap(
                    f"{gap} were removed before they were read",
                    hint="drop the source and its views, and create them again; or create it with"
                    " retention.gaps = 'warn', which goes on without them",
                )
            log.warning('source "%s": %s were removed before they were read', self.name, gap)

    def _take(
        self,
        state: Manifest,
        source: Relation,
        known: StreamState,
        views: Sequence[Relation],
        extents: Mapping[int, Extent],
    ) -> bool:
        assert known.stream is not None
        ahead = known.stream.ahead(extents)
        self.lag_rows = self.feed.rows(ahead)
        ranges = self.feed.portion(ahead, STREAM_ROWS) if ahead else []
        if not ranges:
            return False
        began = time.monotonic()
        use_pool(self._engine.spark, "epochs")
        fused = self._ingestion.fused(state.catalog, source, views)
        read = TheRead(
            views=frozenset(view.id for view in views),
            fused=frozenset(view.layout.relation_id for view in fused),
            whole=frozenset(stood_on(state.catalog, views)),
        )
        report, folder = self._ingestion.read(
            self.feed, source, ranges, fused, stage=read.fused != read.views, whole=read.whole, patient=False
        )
        if report.spark_must_judge is not None:
            self._ingestion.judged_by_spark(report.spark_must_judge)
            self._engine.storage.delete([folder])
            return True
        try:
            self._confirm()
            moved = self._mutate(self._taking(source, known.stream, ranges, report, read))
        except OutOfPlace:
            return True  # another view has come meanwhile: what was read is read again, for it, too
        except DataError as error:
            if not self._give_up(getattr(error, "view_id", None), error):
                raise
            return True
        finally:
            self._engine.storage.delete([folder])
        self._took = [*self._took[-99:], (time.monotonic(), report.rows)]
        self.rows_taken += report.rows
        self.seconds_taking += time.monotonic() - began
        with self._asking:
            self.feed.committed(moved.next)
        return True

    def _taking(
        self, source: Relation, before: Stream, ranges: Sequence[Range], report: Report, read: TheRead
    ) -> Callable[[Manifest, int], tuple[Manifest, Stream]]:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Stream]:
            _present(state, self._id, before)
            epoch = max(epoch, state.epoch)
            here = views_on(state, self._id)
            bases = stood_on(state.catalog, here)
            if not read.views.issuperset(view.id for view in here) or not read.whole >= bases & read.fused:
                raise OutOfPlace("there are views now for which it was not read")
            runs, deltas = dict(state.runs), []
            for view in here:
                if files := report.files.get(view.id):
                    runs[view.id] = new_runs(runs.get(view.id, ()), files, epoch)
                    # What stands on one that is being filled waits for all of it.
                    if view.id in bases and not view.creating:
                        deltas.append(TableDelta(relation=view, files=tuple(files)))
            state = dataclasses.replace(state, runs=runs)
            if report.staged:
                deltas.append(TableDelta(relation=source, files=tuple(report.staged)))
            if deltas:
                state = self._evaluated(state, deltas, read.fused, epoch)
            after = before.took(*ranges)
            state = self._recorded(state, report, epoch)
            now = dataclasses.replace(_present(state, self._id, before), stream=after)
            failpoint("before_stream")
            return dataclasses.replace(with_stream(state, self._id, now), epoch=epoch), after

        return apply

    def _evaluated(self, state: Manifest, deltas: Sequence[TableDelta], fused: frozenset[int], epoch: int) -> Manifest:
        """What staged events, and rows of views that tasks have written, are to all relations above, by Spark."""
        evaluator = self._engine.evaluator
        use_pool(self._engine.spark, "epochs")
        given_up = [id for id, each in views_being_filled(state).items() if each.error is not None]
        catalog = state.catalog
        for id in given_up:
            catalog, _ = catalog.drop(catalog.relations[id], cascade=True)
        for id in fused & set(catalog.relations):  # they have got what the source brings
            catalog = catalog.update(catalog.relations[id].replace(depends_on=(), reads=()))
        given = {delta.relation.id for delta in deltas}
        written = evaluator.deriver.write(catalog, deltas, epoch=epoch, jobs=jobs_of(state))
        runs = dict(state.runs)
        for relation_id, files in written.files.items():
            if relation_id not in given:
                runs[relation_id] = new_runs(runs.get(relation_id, ()), files, epoch)
        state = evaluator.keyed.advance(
            dataclasses.replace(state, runs=runs), written, epoch, evaluator.deriver, missed={}
        )
        self._engine.backfills.record(state, written, epoch)
        return state

    def _recorded(self, state: Manifest, report: Report, epoch: int) -> Manifest:
        """With what could not be read counted, and, if somebody wants to see it, kept."""
        now = stream_state(state, self._id)
        assert now is not None
        if not report.bad_count and not report.lost:
            return state
        if report.bad and now.dead_letters in state.catalog.relations:
            write = Write(table_id=now.dead_letters, change=InsertRows(rows=dead_letters(report.bad)))
            state, _ = self._engine.evaluator(state, [write], epoch)
        now = dataclasses.replace(now, skipped=now.skipped + report.bad_count, lost=now.lost + report.lost)
        return dataclasses.replace(with_stream(state, self._id, now), epoch=epoch)

    # --- histories ---------------------------------------------------------------------------------------------

    def _launch(self, extents: Mapping[int, Extent]) -> None:
        state = self._engine.committed
        filling = {id: each for id, each in views_being_filled(state).items() if self._id in each.inputs}
        for id in [id for id in self._fillings if id not in filling]:
            del self._fillings[id]
        if self._engine.parameter("paused"):
            return
        for id, view in filling.items():
            if view.error is not None or view.on_hold or view.inputs[self._id].done:
                continue
            self._launch_view(state, id, view, extents)

    def _launch_view(self, state: Manifest, id: int, view: ViewState, extents: Mapping[int, Extent]) -> None:
        now = time.monotonic()
        filling = self._filling(id, view)
        if filling.reading is not None or now < filling.retry_at:
            return
        handover, gaps = view.inputs[self._id].skip(extents)
        if gaps:
            self._lose(id, view, gaps)
            return
        budget = min(CHUNK_ROWS, filling.policy.budget(), filling.limit.allowance(now))
        if budget <= 0:
            return
        ranges = tuple(self.feed.portion(handover.open_ranges(), budget))
        filling.limit.take(self.feed.rows(ranges), now)
        filling.ranges, filling.launched_at = ranges, now
        filling.recent = filling.recent or [(now, 0)]
        relation, source = state.catalog.relations[id], state.catalog.relations[self._id]
        filling.reading = self._pool.submit(self._read_history, state, source, relation, ranges, view.parallelism)
        filling.reading.add_done_callback(lambda _: self._news.set())

    def _filling(self, id: int, view: ViewState) -> Filling:
        filling = self._fillings.get(id)
        if filling is None or filling.rate_limit != view.rate_limit:
            interval = self._engine.parameter("barrier_interval") / 1000
            limit = RateLimit(view.rate_limit, now=time.monotonic(), portion=interval)
            fresh = Filling(policy=Adaptive(barrier_interval=interval), limit=limit, rate_limit=view.rate_limit)
            if filling is not None:
                fresh.reading, fresh.ranges, fresh.launched_at = filling.reading, filling.ranges, filling.launched_at
            self._fillings[id] = filling = fresh
        return filling

    def _read_history(
        self, state: Manifest, source: Relation, view: Relation, ranges: Sequence[Range], parallelism: int
    ) -> tuple[list[RunFile], Report]:
        use_pool(self._engine.spark, "backfill")
        fused = self._ingestion.fused(state.catalog, source, [view])
        report, folder = self._ingestion.read(
            self.feed, source, ranges, fused, stage=not fused, patient=True, parallelism=parallelism
        )
        try:
            if report.spark_must_judge is not None:
                self._ingestion.judged_by_spark(view.id)
                return self._read_history(state, source, view, ranges, parallelism)
            if fused:
                return report.files.get(view.id, []), report
            return self._ingestion.evaluate(state.catalog, source, view, report.staged), report
        finally:
            self._engine.storage.delete([folder])

    def _land(self) -> bool:
        landed = False
        for id, filling in list(self._fillings.items()):
            if filling.reading is None or not filling.reading.done():
                continue
            reading, filling.reading = filling.reading, None
            try:
                files, report = reading.result()
                self._confirm()
            except Exception as error:
                self._not_read(id, filling, error)
                continue
            seconds = time.monotonic() - filling.launched_at
            began = time.monotonic()
            with contextlib.suppress(OutOfPlace):  # then it is read again
                self._mutate(self._landing(id, filling.ranges, files, report))
                failpoint("after_history")
                landed = True
                size = self.feed.rows(filling.ranges)
                filling.policy.landed(size, seconds, time.monotonic() - began)
                filling.failures = 0
                filling.recent = [*filling.recent[-49:], (time.monotonic(), size)]
        return landed

    def _landing(
        self, id: int, ranges: Sequence[Range], files: Sequence[RunFile], report: Report
    ) -> Callable[[Manifest, int], tuple[Manifest, None]]:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            view = view_state(state, id)
            if view is None or view.error is not None or self._id not in view.inputs:
                raise OutOfPlace("the view is not filled any more")
            after = view.inputs[self._id].landed(*ranges)
            state = self._recorded(state, report, max(epoch, state.epoch))
            if files:
                # No key of it was in the view before, and none is in another chunk.
                runs = new_runs(state.runs.get(id, ()), files, view.created_epoch, base=True)
                state = dataclasses.replace(state, runs=state.runs | {id: runs})
            return with_progress(state, id, {**view.inputs, self._id: after}), None

        return apply

    def _not_read(self, id: int, filling: Filling, error: Exception) -> None:
        if self._stopping or isinstance(error, SparkJobCancelled):
            return
        filling.failures += 1
        filling.retry_at = time.monotonic() + 0.2 * 2**filling.failures
        if not isinstance(error, HeadraceError):
            log.error('source "%s": unexpected error while a history is read', self.name, exc_info=error)
            error = HeadraceError(f"{type(error).__name__}: {error}")
        if isinstance(error, DataError) or (filling.failures >= ATTEMPTS and not error.retryable):
            self._give_up(id, error)
        elif filling.failures == 1:
            log.warning('source "%s": reading a history failed, and is tried again: %s', self.name, error.message)

    def _give_up(self, id: int | None, error: HeadraceError) -> bool:
        """A view that is only being made must not stand in the way of the others; False: it is not one of those."""
        committed = self._engine.committed
        if id is None or (view_state(committed, id) is None and id not in jobs_of(committed)):
            return False

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            return failed_view(failed(state, id, error), id, error), None

        self._mutate(apply)
        return True

    def _lose(self, id: int, view: ViewState, gaps: Sequence[Gap]) -> None:
        """History that was removed before the view had read it."""
        known = stream_state(self._engine.committed, self._id)
        assert known is not None
        try:
            self._tell(gaps, known)
        except RetentionGap as error:
            self._give_up(id, error)
            return
        before = view.inputs[self._id]

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            now, of = view_state(state, id), stream_state(state, self._id)
            if now is None or of is None or now.inputs.get(self._id) != before:
                return state, None
            extents = {gap.split: Extent(gap.end, gap.end) for gap in gaps}
            after, _ = before.skip(extents)
            state = with_stream(state, self._id, dataclasses.replace(of, lost=of.lost + sum(gap.size for gap in gaps)))
            return with_progress(state, id, {**now.inputs, self._id: after}), None

        self._mutate(apply)


def dead_letters(bad: Sequence[BadRecord]) -> pa.Table:
    """As rows of the table that :func:`headrace.engine.event_sources.dead_letter_table` makes."""
    now = datetime.datetime.now(datetime.UTC)
    return pa.table(
        {
            "partition": pa.array([each.split for each in bad], pa.int64()),
            "offset": pa.array([each.offset for each in bad], pa.int64()),
            "at": pa.array([now] * len(bad), pa.timestamp("us", tz="UTC")),
            "reason": pa.array([each.reason for each in bad], pa.string()),
            "raw": pa.array([each.raw for each in bad], pa.binary()),
        }
    )


# --- mutations ---------------------------------------------------------------------------------------------------


def _present(state: Manifest, id: int, expected: Stream) -> StreamState:
    now = stream_state(state, id)
    if now is None:
        raise EngineClosed("the source was dropped")
    if now.stream != expected:
        raise OutOfPlace("the stream is somewhere else")
    return now


def _nobody_reads(id: int) -> Callable[[Manifest, int], tuple[Manifest, None]]:
    """The last view is gone. Who comes next reads all of it for itself."""

    def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
        now = stream_state(state, id)
        if now is None or views_on(state, id):
            return state, None
        return with_stream(state, id, dataclasses.replace(now, stream=None)), None

    return apply


def with_progress(state: Manifest, id: int, inputs: Mapping[int, Any]) -> Manifest:
    """With what a view has read; complete, if that is all."""
    view = view_state(state, id)
    assert view is not None
    view = dataclasses.replace(view, inputs=inputs)
    if not view.done:
        return with_view(state, id, view)
    relation = state.catalog.relations[id].replace(creating=False)
    state = dataclasses.replace(with_chunks_joined(state, id), catalog=state.catalog.update(relation))
    return without_view(state, id)


def failed_view(state: Manifest, id: int, error: HeadraceError) -> Manifest:
    """The view empty: what it lacks from now on could not be told from what it has. What waits for it fails, too."""
    view = view_state(state, id)
    if view is None:
        return state
    runs = {key: each for key, each in state.runs.items() if key != id}
    state = with_view(dataclasses.replace(state, runs=runs), id, dataclasses.replace(view, error=error.message))
    for each in state.catalog.dependents(id):
        state = failed(state, each.id, error)
    return state
