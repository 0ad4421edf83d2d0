"""Histories: what views on a source read for themselves, in chunks beside the stream, and how that lands.

Chunks of a view are read in order, two at a time, so that executors have work while one lands, and land in order: where
a view is in each split is one offset. What is in flight is in memory only.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.backfill.pacing import Adaptive, RateLimit
from headrace.catalog import Relation
from headrace.engine.feeds import (
    ViewState,
    stream_state,
    view_state,
    views_being_filled,
    with_stream,
    with_view,
    without_view,
)
from headrace.engine.filling import failed, jobs_of, new_runs, with_chunks_joined
from headrace.engine.ingest import Ingestion, Report
from headrace.engine.spark import use_pool
from headrace.errors import DataError, HeadraceError, SparkJobCancelled
from headrace.failpoints import failpoint
from headrace.sources.connector import Feed
from headrace.sources.handover import Extent, Gap, Handover, OutOfPlace, Range
from headrace.state.manifest import Manifest
from headrace.state.runs import RunFile

if TYPE_CHECKING:
    from headrace.engine.source_reader import SourceReader

log = logging.getLogger("headrace")

CHUNK_ROWS = 1_000_000
"""Offsets that a chunk of a history has at most"""

AT_ONCE = 2
"""Chunks of a view in flight"""

CHUNKS = 4
"""Chunks that are read at the same time, of all views of a source"""

ATTEMPTS = 3

LONGEST_WAIT = 30.0
"""Seconds until a chunk that could not be read is tried again, at most"""


class RetentionGap(DataError):
    """Events were removed before they were read, and the source says that this is an error."""


@dataclass(frozen=True, kw_only=True)
class Read:
    files: list[RunFile]
    report: Report
    seconds: float


@dataclass(frozen=True, kw_only=True, eq=False)
class Flight:
    ranges: tuple[Range, ...]
    reading: Future[Read]


@dataclass(kw_only=True, eq=False)
class Filling:
    """A view's history on its way; what is durable of it is in the manifest."""

    policy: Adaptive
    limit: RateLimit
    rate_limit: int | None
    flights: list[Flight] = field(default_factory=list)
    failures: int = 0
    retry_at: float = 0.0
    error: HeadraceError | None = None
    """Why the last chunk could not be read; None once one was"""
    recent: list[tuple[float, int]] = field(default_factory=list)

    @property
    def rate(self) -> float | None:
        if len(self.recent) < 2:
            return None
        span = self.recent[-1][0] - self.recent[0][0]
        return sum(rows for _, rows in self.recent[1:]) / span if span > 0 else None

    def after(self, handover: Handover) -> Handover:
        """Where the view will be when all that is in flight has landed."""
        for flight in self.flights:
            handover = handover.landed(*flight.ranges)
        return handover


class Histories:
    """Of the views of one source; all but the reading is done by the source's own thread."""

    def __init__(self, reader: SourceReader, source_id: int, feed: Feed, ingestion: Ingestion):
        self._reader, self._id, self._feed, self._ingestion = reader, source_id, feed, ingestion
        self._pool = ThreadPoolExecutor(max_workers=CHUNKS, thread_name_prefix="headrace-history")
        self._fillings: dict[int, Filling] = {}
        self._stopping = False

    def stop(self) -> None:
        self._stopping = True
        self._pool.shutdown(wait=True, cancel_futures=True)

    def clear(self) -> None:
        self._fillings.clear()

    def rate(self, view_id: int) -> float | None:
        filling = self._fillings.get(view_id)
        return None if filling is None else filling.rate

    def error(self, view_id: int) -> HeadraceError | None:
        """Why nothing more is read for a view at the moment."""
        filling = self._fillings.get(view_id)
        return None if filling is None else filling.error

    def any_error(self) -> HeadraceError | None:
        return next((each.error for each in list(self._fillings.values()) if each.error is not None), None)

    def in_flight(self, view_id: int) -> int:
        filling = self._fillings.get(view_id)
        return 0 if filling is None else sum(each.size for flight in filling.flights for each in flight.ranges)

    # --- launching ---------------------------------------------------------------------------------------------

    def launch(self, state: Manifest, extents: Mapping[int, Extent], *, paused: bool, interval: float) -> None:
        filling = {id: each for id, each in views_being_filled(state).items() if self._id in each.inputs}
        for id in [id for id in self._fillings if id not in filling]:
            del self._fillings[id]
        if paused:
            return
        for id, view in filling.items():
            if view.error is not None or view.on_hold or view.inputs[self._id].done:
                continue
            while self._launch_one(state, id, view, extents, interval):
                pass

    def _launch_one(
        self, state: Manifest, id: int, view: ViewState, extents: Mapping[int, Extent], interval: float
    ) -> bool:
        now = time.monotonic()
        filling = self._filling(id, view, interval)
        if len(filling.flights) >= AT_ONCE or now < filling.retry_at:
            return False
        try:
            handover, gaps = filling.after(view.inputs[self._id]).skip(extents)
        except OutOfPlace:  # it was begun anew meanwhile
            filling.flights.clear()
            return False
        if gaps:
            if not filling.flights:
                self._lose(id, view, gaps)
            return False
        budget = min(CHUNK_ROWS, filling.policy.budget(), filling.limit.allowance(now))
        ranges = tuple(self._feed.portion(handover.open_ranges(), budget)) if budget > 0 else ()
        if not ranges:
            return False
        filling.limit.take(self._feed.rows(ranges), now)
        filling.recent = filling.recent or [(now, 0)]
        relation, source = state.catalog.relations[id], state.catalog.relations[self._id]
        reading = self._pool.submit(self._read, state, source, relation, ranges, view.parallelism)
        reading.add_done_callback(lambda _: self._reader.wake())
        filling.flights.append(Flight(ranges=ranges, reading=reading))
        return True

    def _filling(self, id: int, view: ViewState, interval: float) -> Filling:
        filling = self._fillings.get(id)
        if filling is None or filling.rate_limit != view.rate_limit:
            limit = RateLimit(view.rate_limit, now=time.monotonic(), portion=interval)
            fresh = Filling(policy=Adaptive(barrier_interval=interval), limit=limit, rate_limit=view.rate_limit)
            if filling is not None:
                fresh.flights = filling.flights
            self._fillings[id] = filling = fresh
        return filling

    def _read(
        self, state: Manifest, source: Relation, view: Relation, ranges: Sequence[Range], parallelism: int
    ) -> Read:
        began = time.monotonic()
        engine = self._reader.engine
        use_pool(engine.spark, "backfill")
        fused = self._ingestion.fused(state.catalog, source, [view])
        report, folder = self._ingestion.read(
            self._feed, source, ranges, fused, stage=not fused, patient=True, parallelism=parallelism
        )
        try:
            if report.spark_must_judge is not None:
                self._ingestion.judged_by_spark(view.id)
                return self._read(state, source, view, ranges, parallelism)
            if fused:
                files = report.files.get(view.id, [])
            else:
                files = self._ingestion.evaluate(state.catalog, source, view, report.staged)
            return Read(files=files, report=report, seconds=time.monotonic() - began)
        finally:
            engine.storage.delete([folder])

    # --- landing -----------------------------------------------------------------------------------------------

    def land(self) -> bool:
        """What has been read becomes a part of its view; whether there was something."""
        landed = False
        for id, filling in list(self._fillings.items()):
            while filling.flights and filling.flights[0].reading.done():
                flight = filling.flights.pop(0)
                try:
                    read = flight.reading.result()
                    self._reader.confirm()
                except Exception as error:
                    filling.flights.clear()
                    self._not_read(id, filling, error)
                    break
                began = time.monotonic()
                try:
                    self._reader.mutate(self._landing(id, flight.ranges, read))
                except OutOfPlace:  # then it is read again
                    filling.flights.clear()
                    break
                failpoint("after_history")
                landed = True
                size = self._feed.rows(flight.ranges)
                filling.policy.landed(size, read.seconds, time.monotonic() - began)
                filling.failures, filling.error = 0, None
                filling.recent = [*filling.recent[-49:], (time.monotonic(), size)]
        return landed

    def _landing(
        self, id: int, ranges: Sequence[Range], read: Read
    ) -> Callable[[Manifest, int], tuple[Manifest, None]]:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            view = view_state(state, id)
            if view is None or view.error is not None or self._id not in view.inputs:
                raise OutOfPlace("the view is not filled any more")
            after = view.inputs[self._id].landed(*ranges)
            state = self._reader.recorded(state, read.report, max(epoch, state.epoch))
            if read.files:
                # No key of it was in the view before, and none is in another chunk.
                runs = new_runs(state.runs.get(id, ()), read.files, view.created_epoch, base=True)
                state = dataclasses.replace(state, runs=state.runs | {id: runs})
            return with_progress(state, id, {**view.inputs, self._id: after}), None

        return apply

    def _not_read(self, id: int, filling: Filling, error: Exception) -> None:
        if self._stopping or isinstance(error, SparkJobCancelled):
            return
        filling.failures += 1
        filling.retry_at = time.monotonic() + min(LONGEST_WAIT, 0.2 * 2 ** min(filling.failures, 10))
        name = self._reader.name
        if not isinstance(error, HeadraceError):
            log.error('source "%s": unexpected error while a history is read', name, exc_info=error)
            error = HeadraceError(f"{type(error).__name__}: {error}")
        if isinstance(error, DataError) or (filling.failures >= ATTEMPTS and not error.retryable):
            self.give_up(id, error)
            return
        filling.error = error
        if filling.failures == 1:
            log.warning('source "%s": reading a history failed, and is tried again: %s', name, error.for_log)

    def give_up(self, id: int | None, error: HeadraceError) -> bool:
        """A view that is only being made must not stand in the way of the others; False: it is not one of those."""
        committed = self._reader.engine.committed
        if id is None or (view_state(committed, id) is None and id not in jobs_of(committed)):
            return False

        view = committed.catalog.relations[id]
        log.error('job %d of "%s" has failed, SHOW JOBS says why: %s', id, view.name, error.for_log)

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            return failed_view(failed(state, id, error), id, error), None

        self._reader.mutate(apply)
        return True

    def _lose(self, id: int, view: ViewState, gaps: Sequence[Gap]) -> None:
        """History that was removed before the view had read it."""
        known = stream_state(self._reader.engine.committed, self._id)
        assert known is not None
        try:
            self._reader.tell(gaps, known)
        except RetentionGap as error:
            self.give_up(id, error)
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

        self._reader.mutate(apply)


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
