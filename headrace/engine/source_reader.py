"""Reading one source of events: the shared stream of all its views, and the history of those that are being filled.

One thread for each source. It asks what there is, has executors read a bounded part of it, and hands what they wrote to
the epoch loop as one mutation: the views' rows and the stream's position commit together, or not at all. Histories are
read by a pool beside it, in chunks, and land the same way; a stream never waits for them. What is in flight is in
memory only: after a crash it is read again.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.catalog import Relation
from headrace.engine.dead_letters import dead_letters
from headrace.engine.deltas import TableDelta
from headrace.engine.feeds import (
    StreamState,
    stood_on,
    stream_state,
    views_being_filled,
    views_on,
    with_stream,
)
from headrace.engine.filling import jobs_of, new_runs
from headrace.engine.fills import View
from headrace.engine.histories import Histories, RetentionGap
from headrace.engine.ingest import Ingestion, Report
from headrace.engine.spark import use_pool
from headrace.engine.turns import Turns
from headrace.engine.watermarks import NONE, count_late, watermark
from headrace.errors import DataError, EngineClosed, HeadraceError
from headrace.failpoints import failpoint
from headrace.sources.connector import Feed
from headrace.sources.handover import CutBack, Extent, Gap, OutOfPlace, Range, Stream
from headrace.state.manifest import Manifest

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = logging.getLogger("headrace")

STREAM_ROWS = 200_000
"""Offsets that the stream takes in an epoch at most"""

POLL_SECONDS = 0.1
"""How often an idle source is asked for more"""


@dataclass(frozen=True, kw_only=True)
class TheRead:
    """For whom a range of the stream was read, by their ids."""

    views: frozenset[int]
    fused: frozenset[int]
    """Those for which the tasks wrote; of the others, the events are staged"""
    whole: frozenset[int]
    """Those that others stand on, so what was written for them has all columns"""
    late: tuple[tuple[int, str, int], ...]
    """By which watermark events were left out for those that leave late ones out"""

    @property
    def staged(self) -> bool:
        """Whether events are kept for those who are evaluated later."""
        return self.fused != self.views


class SourceReader:
    def __init__(self, engine: Engine, source: Relation, feed: Feed):
        self.engine, self._id, self.name, self.feed = engine, source.id, source.name, feed
        self._ingestion = Ingestion(engine.spark, engine.storage, vectorized=lambda: engine.parameter("vectorized"))
        self._histories = Histories(self, source.id, feed, self._ingestion)
        self._catalog: Any = None
        self.lag_rows: int | None = None
        self._took: list[tuple[float, int]] = []
        self._ready = False
        """Whether the stream's tasks have been run, or tried"""
        self._reading = False
        """Whether there is somebody to read for"""
        self.rows_taken, self.seconds_taking = 0, 0.0
        """By the stream, since the start: events, and the time of its epochs"""
        self._cut_back = CutBack()
        self._asking = threading.Lock()
        """Around the feed, which one thread uses at a time"""
        self._turns = Turns(
            self._turn,
            thread="headrace-source",
            subject=lambda: f'source "{self.name}"',
            idle_seconds=lambda: POLL_SECONDS,
        )

    def start(self) -> None:
        self._turns.start()

    def stop(self) -> None:
        self._turns.stop()
        self._histories.stop()
        with self._asking:
            self.feed.close()

    def committed(self, state: Manifest) -> None:
        """Wakes up if views have come or gone, or are to be filled in another way."""
        if state.catalog is not self._catalog:
            self._catalog = state.catalog
            self._turns.news.set()

    def wake(self) -> None:
        self._turns.news.set()

    # --- for whoever looks -------------------------------------------------------------------------------------

    @property
    def error(self) -> HeadraceError | None:
        return self._turns.error or (self.feed.trouble if self._reading else None)

    def trouble(self, view_id: int | None = None) -> HeadraceError | None:
        """Why the stream, or the history of a view (any, if none is given), does not go on."""
        return self.error or (self._histories.any_error() if view_id is None else self._histories.error(view_id))

    def extents(self) -> dict[int, Extent]:
        """What there is now, for others than the reader itself."""
        return self.feed.extents_now(self._asking)

    @property
    def rows_per_second(self) -> float | None:
        """Of the stream, lately."""
        now = time.monotonic()
        recent = [(at, rows) for at, rows in self._took if now - at < 10]
        return sum(rows for _, rows in recent) / 10 if recent else 0.0

    def rate(self, view_id: int) -> float | None:
        return self._histories.rate(view_id)

    def in_flight(self, view_id: int) -> int:
        return self._histories.in_flight(view_id)

    # --- the thread --------------------------------------------------------------------------------------------

    def _turn(self) -> bool:
        """Whatever can be done now; whether there may be more."""
        state = self.engine.committed
        source, known = state.catalog.relations.get(self._id), stream_state(state, self._id)
        if source is None or known is None:
            raise EngineClosed("the source was dropped")
        self.name = source.name
        self._reading = known.stream is not None
        if known.stream is None:
            self._histories.clear()
            return False
        views = views_on(state, self._id)
        if not views:
            self.mutate(_nobody_reads(self._id))
            return False
        landed = self._histories.land()
        with self._asking:
            extents = self.feed.extents()
        known = self._meet(known, extents)
        took = self._take(state, source, known, views, extents)
        engine = self.engine
        interval = engine.parameter("barrier_interval") / 1000
        self._histories.launch(engine.committed, extents, paused=engine.parameter("paused"), interval=interval)
        if not self._ready:
            self._ready = True
            if not took:
                self._get_ready(state, source, known, views)
        return took or landed

    def confirm(self) -> None:
        with self._asking:
            self.feed.confirm()

    def mutate(self, apply: Callable[[Manifest, int], tuple[Manifest, Any]]) -> Any:
        return self.engine.coordinator.mutate(apply, f"reading {self.name}")

    # --- the stream --------------------------------------------------------------------------------------------

    def _meet(self, known: StreamState, extents: Mapping[int, Extent]) -> StreamState:
        """Splits that are new, and offsets that are gone, before anything is read."""
        assert known.stream is not None
        for text, first in self._cut_back.lasting(known.stream, extents, now=time.monotonic()):
            if known.definition.gaps_are_errors:
                raise RetentionGap(text, hint="drop the source and its views, and create them again")
            if first:
                log.warning('source "%s": %s', self.name, text)
        met = known.stream.meets({split: extent.begin for split, extent in extents.items()})
        moved, gaps = met.skip(extents)
        if moved == known.stream:
            return known
        self.tell(gaps, known)
        new = {split: met.next[split] for split in met.next if split not in known.starts}

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, StreamState]:
            now = _present(state, self._id, known.stream)
            lost = now.lost + sum(gap.size for gap in gaps)
            now = dataclasses.replace(now, stream=moved, starts={**now.starts, **new}, lost=lost)
            return with_stream(state, self._id, now), now

        return self.mutate(apply)

    def tell(self, gaps: Sequence[Gap], known: StreamState) -> None:
        for gap in gaps:
            if known.definition.gaps_are_errors:
                raise RetentionGap(
                    f"{gap} were removed before they were read",
                    hint="drop the source and its views, and create them again; or create it with"
                    " retention.gaps = 'warn', which goes on without them",
                )
            log.warning('source "%s": %s were removed before they were read', self.name, gap)

    def _get_ready(self, state: Manifest, source: Relation, known: StreamState, views: Sequence[Relation]) -> None:
        """Has tasks read nothing: the first event is not to wait for a job to be planned and for connections."""
        assert known.stream is not None
        if tasks := self.feed.idle_tasks(known.stream.next):
            use_pool(self.engine.spark, "epochs")
            fused, read = self._for_whom(state, source, views)
            _, folder = self._ingestion.read(
                self.feed, source, (), fused, stage=read.staged, whole=read.whole, late=read.late, patient=False,
                tasks=tasks,
            )  # fmt: skip
            self.engine.storage.delete([folder])

    def _for_whom(
        self, state: Manifest, source: Relation, views: Sequence[Relation]
    ) -> tuple[tuple[View, ...], TheRead]:
        fused = self._ingestion.fused(state.catalog, source, views)
        return fused, TheRead(
            views=frozenset(view.id for view in views),
            fused=frozenset(view.layout.relation_id for view in fused),
            whole=frozenset(stood_on(state.catalog, views)),
            late=_watermarks(state, views),
        )

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
        use_pool(self.engine.spark, "epochs")
        fused, read = self._for_whom(state, source, views)
        report, folder = self._ingestion.read(
            self.feed, source, ranges, fused, stage=read.staged, whole=read.whole, late=read.late, patient=False
        )
        if report.spark_must_judge is not None:
            self._ingestion.judged_by_spark(report.spark_must_judge)
            self.engine.storage.delete([folder])
            return True
        try:
            self.confirm()
            moved = self.mutate(self._taking(source, known.stream, ranges, report, read))
        except OutOfPlace:
            return True  # another view has come meanwhile: what was read is read again, for it, too
        except DataError as error:
            if not self._histories.give_up(getattr(error, "view_id", None), error):
                raise
            return True
        finally:
            self.engine.storage.delete([folder])
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
            if not set(_watermarks(state, here)) <= set(read.late):
                raise OutOfPlace("other events are late now")
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
            offsets = dict(state.offsets)
            for view in here:
                count_late(offsets, view, report.late.get(view.id, 0))
            state = dataclasses.replace(state, offsets=offsets)
            state = self.recorded(state, report, epoch)
            now = dataclasses.replace(_present(state, self._id, before), stream=after)
            failpoint("before_stream")
            return dataclasses.replace(with_stream(state, self._id, now), epoch=epoch), after

        return apply

    def _evaluated(self, state: Manifest, deltas: Sequence[TableDelta], fused: frozenset[int], epoch: int) -> Manifest:
        """What staged events, and rows of views that tasks have written, are to all relations above, by Spark."""
        evaluator = self.engine.evaluator
        use_pool(self.engine.spark, "epochs")
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
            dataclasses.replace(state, runs=runs), written, epoch, evaluator.deriver, missed={}, since={}
        )
        self.engine.backfills.record(state, written, epoch)
        return state

    def recorded(self, state: Manifest, report: Report, epoch: int) -> Manifest:
        """With what could not be read counted, and, if somebody wants to see it, kept."""
        now = stream_state(state, self._id)
        assert now is not None
        if not report.bad_count and not report.lost:
            return state
        if writes := dead_letters(state.catalog, now.dead_letters, report.bad):
            state, _ = self.engine.evaluator(state, writes, epoch)
        now = dataclasses.replace(now, skipped=now.skipped + report.bad_count, lost=now.lost + report.lost)
        return dataclasses.replace(with_stream(state, self._id, now), epoch=epoch)


def _watermarks(state: Manifest, views: Sequence[Relation]) -> tuple[tuple[int, str, int], ...]:
    """Of the views that leave late events out, and have all that came before: their time, and how far it is."""
    return tuple(
        (each.id, each.lateness.column, watermark(state.offsets, each.id))
        for each in views
        if each.lateness is not None and watermark(state.offsets, each.id) != NONE
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
