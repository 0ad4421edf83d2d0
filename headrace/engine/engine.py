"""An open warehouse: storage, the epoch loop, and the background work, put together."""

from __future__ import annotations

import atexit
import contextlib
import datetime
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog import Relation
from headrace.config import PARAMETERS, find_parameter
from headrace.engine.attempts import Attempts
from headrace.engine.backfill import Backfills
from headrace.engine.changes import Outcome
from headrace.engine.coordinator import Coordinator, Write
from headrace.engine.event_sources import EventSources
from headrace.engine.feeds import is_event_source
from headrace.engine.functions import SparkFunctions
from headrace.engine.jobs import Jobs
from headrace.engine.lock import WarehouseLock
from headrace.engine.maintenance import Maintenance
from headrace.engine.relations import RelationFrames
from headrace.engine.secrets import Secrets
from headrace.engine.source_jobs import SourceJobs
from headrace.engine.sources import Sources
from headrace.engine.space import remove_leftovers
from headrace.engine.spark import own_session
from headrace.engine.streams import KeptRows, Streams, queries_at_once
from headrace.engine.temporary import without_temporary
from headrace.engine.view_jobs import ViewJobs
from headrace.engine.writes import WriteEvaluator
from headrace.errors import DiskFull, HeadraceError, InvalidParameterValue, StorageError
from headrace.state.cuts import RESULTS
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.manifest import Manifest, Writer
from headrace.state.runs import WEIGHT, live_rows
from headrace.state.scan import read_files
from headrace.state.storage import Storage
from headrace.state.store import ManifestStore
from headrace.zones import instant

log = logging.getLogger("headrace")

_open_engines: set[Engine] = set()
"""Those that nobody has closed."""


def _end_background_work() -> None:
    """The program's main thread is over and has not closed its warehouses. Python takes no more work for thread pools
    then: a job that went on would take that for a fault of what it was filling, and give it up. Other threads of the
    program may go on to write and to read."""
    for engine in list(_open_engines):
        with contextlib.suppress(Exception):
            engine.end_background_work()


# Functions of atexit are called when thread pools are closed already. Those of threading are called before, the last
# one first; the one that closes thread pools is there since they were imported.
getattr(threading, "_register_atexit", atexit.register)(_end_background_work)


class Engine:
    def __init__(
        self, spark: SparkSession, storage: Storage, *, lock: WarehouseLock, parameters: dict[str, str] | None = None
    ):
        self.spark = own_session(spark)
        self.functions = SparkFunctions(self.spark)
        self.storage = storage
        self._lock = lock
        try:
            self.store = ManifestStore(storage)
            manifest = self._open(parameters or {})
            self._lock.secure()
            self.indexes = IndexCache(storage)
            self.streams = Streams(storage, at_once=queries_at_once(self.spark))
            self.answered_without_spark = 0
            """Queries that read little (:mod:`headrace.engine.small_queries`)"""
            self.arriving: set[str] = set()
            """Files of rows that clients are bringing: see :class:`headrace.engine.arrivals.Arrivals`"""
            self.frames = RelationFrames(self.spark, storage.uri(""))
            self.backfills = Backfills(
                self.spark,
                storage,
                self.indexes,
                barrier_interval=lambda: self.parameter("barrier_interval") / 1000,
                paused=lambda: self.parameter("paused"),
                vectorized=lambda: self.parameter("vectorized"),
            )
            self.evaluator = WriteEvaluator(
                self.spark,
                storage,
                self.indexes,
                self.backfills,
                self.frames,
                vectorized=lambda: self.parameter("vectorized"),
            )
            self.coordinator = Coordinator(
                self.store,
                manifest,
                self.evaluator,
                self._committed,
                self.backfills,
                self._make_room,
                due_in=self.evaluator.keyed.due_in,
                attempts=Attempts(self.spark),
            )
            self.maintenance = Maintenance(self)
            self.jobs = Jobs(self)
            self.secrets = Secrets(storage)
            self.sources = Sources(self)
            self.event_sources = EventSources(self)
            self.view_jobs = ViewJobs(self)
            self.source_jobs = SourceJobs(self)
        except BaseException:
            self._lock.release()
            raise
        self._process = os.getpid()
        _open_engines.add(self)
        self.coordinator.start()
        self.maintenance.start()
        self.sources.start()
        self.event_sources.start()

    def _open(self, parameters: dict[str, str]) -> Manifest:
        """The newest manifest, taken over: the commit that says so fences whoever wrote before."""
        found = self.store.load()
        writer = Writer(id=uuid.uuid4().hex, host=socket.gethostname(), pid=os.getpid())
        base = found or Manifest()
        merged = dict(base.parameters)
        for name, text in parameters.items():
            parameter = find_parameter(name)
            if not parameter.system:
                raise InvalidParameterValue(
                    f'"{parameter.name}" belongs to a session', hint=f"use SET {parameter.name} = …"
                )
            parameter.parse(text)
            merged[parameter.name] = text
        opened = without_temporary(base).next(
            writer=writer, committed_at=max(time.time_ns() // 1000, base.committed_at + 1), parameters=merged
        )
        try:
            self.store.commit(base, opened)
        except DiskFull:
            if not self._lock.held:
                raise  # whoever has the warehouse open needs some of what no version names
            self._remove_scratch()
            remove_leftovers(self.storage, self.store, base, working=base)
            self.store.commit(base, opened)
        self._remove_scratch()
        return opened

    def _remove_scratch(self) -> None:
        # What bulk writes and results of a dead engine left; nothing names it. Its executors may still write there:
        # VACUUM will come again.
        for folder in ("staging", "replica", RESULTS):
            with contextlib.suppress(StorageError, FileNotFoundError):
                self.storage.delete([folder])

    # --- for sessions ------------------------------------------------------------------------------------------

    @property
    def committed(self) -> Manifest:
        return self.coordinator.committed

    def snapshot(self, epoch: int = 0) -> Manifest:
        """The newest committed state, or a retained older one."""
        committed = self.committed
        return committed if epoch == 0 else as_of(self.store, committed, epoch)

    def frame(self, state: Manifest, relation_id: int) -> DataFrame:
        relation = state.catalog.relations[relation_id]
        if is_event_source(state, relation_id):
            return self.event_sources.frame(relation)
        return self.frames.frame(relation, state.runs.get(relation_id, ()))

    @property
    def default_parallelism(self) -> int:
        return self.spark.sparkContext.defaultParallelism

    def write(
        self, table_id: int, change: Any, *, returned: Callable[[Outcome], pa.Table | KeptRows] | None = None
    ) -> Outcome:
        return self.coordinator.submit(Write(table_id=table_id, change=change, returned=returned)).result()

    def parameter(self, name: str) -> Any:
        parameter = PARAMETERS[name]
        text = self.committed.parameters.get(name)
        return parameter.default if text is None else parameter.parse(text)

    def epoch_of(self, moment: str, zone: str = "UTC") -> int:
        """The epoch that was newest at a moment: an epoch number, or a timestamp."""
        if moment.isdigit():
            return int(moment)
        micros = parse_moment(moment, zone)
        manifest = self.committed
        before = [epoch for _, epoch, at in manifest.history if at <= micros]
        if not before:
            raise InvalidParameterValue(f"nothing as old as {moment} is kept", hint="see the parameter retention")
        return before[-1]

    def written_rows(self, relation: Relation, outcome: Outcome) -> DataFrame:
        """The rows that a statement wrote, for RETURNING."""
        layout = Layout.of(relation)
        if outcome.rows is not None:
            return self.spark.createDataFrame(outcome.rows.select(layout.names), schema=layout.row_ddl)
        frame = read_files(self.spark, self.storage.uri(""), outcome.files, layout.spark_schema)
        deleted = not any(file.rows > file.retractions for file in outcome.files)
        return frame.where(f"{WEIGHT} = {-1 if deleted else 1}")

    def status(self) -> dict[str, Any]:
        manifest = self.committed
        recent = list(self.coordinator.stats.recent_ms)
        return {
            "epoch": manifest.epoch,
            "version": manifest.version,
            "committed_at": manifest.committed_at,
            "epochs": self.coordinator.stats.epochs,
            "failed_epochs": self.coordinator.stats.failed,
            "last_epoch_ms": recent[-1] if recent else None,
            "recent_epoch_ms": recent,
            "epoch_seconds": self.coordinator.stats.seconds,
            "commits": self.coordinator.stats.commits,
            "rows_written": self.coordinator.stats.rows,
            "lag": self.coordinator.lag,
            "queued_rows": self.coordinator.queued_rows,
            "relations": [
                {
                    "name": relation.name,
                    "kind": relation.kind,
                    "rows": live_rows(runs := manifest.runs.get(relation.id, ())),
                    "runs": len(runs),
                    "bytes": sum(run.bytes for run in runs),
                    "delta_rows": runs[-1].rows if runs and runs[-1].last_epoch == manifest.epoch else 0,
                }
                for relation in manifest.catalog
                if relation.stored and not relation.temporary
            ],
            "answered_without_spark": self.answered_without_spark,
            "computed_anew": self.evaluator.keyed.computed_anew,
            "compactions": self.maintenance.compactions,
            "compaction_seconds": self.maintenance.compaction_seconds,
            "compaction_bytes": self.maintenance.compaction_bytes,
            "compacting": len(self.maintenance.being_merged),
        }

    def close(self) -> None:
        _open_engines.discard(self)
        try:
            self._stop_background_work()
            self.coordinator.close()
        finally:
            self._lock.release()

    def abandon(self) -> None:
        """Lets go of the warehouse as a crash would: nothing is committed, nothing cleaned up."""
        _open_engines.discard(self)
        self._stop_background_work()
        self.coordinator.abandon()
        self._lock.release()

    def end_background_work(self) -> None:
        """Nothing is filled, followed or merged any more; what is asked for still is done."""
        if self._process == os.getpid():  # a process that was forked off has none of its threads
            self._stop_background_work()

    def _stop_background_work(self) -> None:
        self.event_sources.stop()
        self.sources.stop()
        self.source_jobs.stop()
        self.view_jobs.stop()
        self.maintenance.stop()
        self.backfills.stop()

    def paths_needed(self) -> Iterator[str]:
        """Files that no manifest names and that must stay."""
        yield from self.backfills.paths_needed()
        yield from self.sources.paths_needed()
        yield from tuple(self.arriving)

    def _make_room(self) -> None:
        """The disk was full. Called by the epoch thread, between two epochs."""
        busy = self.backfills.being_written() | self.sources.being_written() | self.maintenance.being_merged
        busy |= self.event_sources.being_written()
        try:
            removed = remove_leftovers(
                self.storage,
                self.store,
                self.committed,
                working=self.coordinator.working,
                busy=busy,
                needed=self.paths_needed(),
            )
            log.warning("the disk is full: %d files that failed writes had left are removed", removed)
        except (HeadraceError, OSError) as error:
            log.warning("the disk is full, and what failed writes left could not be removed: %s", error)

    def _committed(self, manifest: Manifest) -> None:
        self.maintenance.committed(manifest)
        self.source_jobs.committed(manifest)
        self.view_jobs.committed(manifest)
        self.event_sources.committed(manifest)


def as_of(store: ManifestStore, newest: Manifest, epoch: int) -> Manifest:
    """The state of an epoch that is kept."""
    if epoch == newest.epoch:
        return newest
    found = None if epoch > newest.epoch else store.load(epoch=epoch)
    if found is None:
        raise InvalidParameterValue(
            f"epoch {epoch} cannot be read",
            hint=f"epochs {newest.history[0][1]} to {newest.epoch} are kept; see the parameter retention",
        )
    return found


def parse_moment(text: str, zone: str = "UTC") -> int:
    """Microseconds since 1970; a timestamp without an offset is one of the zone."""
    try:
        moment = datetime.datetime.fromisoformat(text.strip().replace("Z", "+00:00"))
    except ValueError:
        raise InvalidParameterValue(f"{text!r} is neither an epoch nor a timestamp") from None
    moment = moment if moment.tzinfo is not None else instant(moment, zone)
    return (moment - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)) // datetime.timedelta(microseconds=1)
