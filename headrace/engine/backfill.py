"""Filling views: which chunks are read, and how they land.

Chunks are read by threads of their own while epochs go on. A chunk that is ready *lands* in the next epoch: the view
gets the chunk's rows, what happened to them since (the late delta), and from then on the live delta up to the new
position. So a barrier never waits for a read, and a read may take as long as several barriers. What decides is pure
(:mod:`headrace.backfill`); positions are in the manifest, and what is in flight is in memory only.

All methods but :meth:`Backfills.wait` and those of the reading threads are called by the epoch thread.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from pyspark.sql import SparkSession

from headrace.backfill.chunks import EXACT, next_chunk, remaining
from headrace.backfill.job import Job, replica_needed_after
from headrace.backfill.pacing import UNLIMITED, Fixed, RateLimit, parse_policy
from headrace.backfill.positions import DONE, Chunk, Positions, partitions
from headrace.backfill.sharing import companions, follows, shares
from headrace.engine import chunks
from headrace.engine.builds import Build, Builds, builds_in, landed
from headrace.engine.chunks import ChunkReader
from headrace.engine.deltas import Written
from headrace.engine.filling import finished, jobs_of, with_job
from headrace.engine.flights import Flight, Landing, Pace, Turn
from headrace.engine.pieces import Piece, pieces_of
from headrace.engine.replica import DeltaLog
from headrace.engine.spark import java_has_ended, spark_gone, use_pool
from headrace.errors import DataError, DiskFull, HeadraceError, JobCancelled, JobFailed, SparkJobCancelled
from headrace.state.lookup import IndexCache
from headrace.state.manifest import Manifest
from headrace.state.native import SPLIT_BYTES
from headrace.state.runs import Run
from headrace.state.storage import Storage

log = logging.getLogger("headrace")

READERS = 16
"""Chunks that are read at the same time, of all jobs together."""

LATE_ROWS = 500_000
LATE_BYTES = 64 << 20
"""A chunk that has missed more changes than this is read again: one task holds all that it takes along."""

ATTEMPTS = 3
RETRY_SECONDS = 0.2
"""After the first failed attempt to start a chunk; each further one waits twice as long."""

AT_ONCE = 2
"""Chunks of a job in flight: while one is being planned, indexed or landed, the executors work on the other."""


class Backfills:
    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        indexes: IndexCache,
        *,
        barrier_interval: Callable[[], float],
        paused: Callable[[], bool],
        vectorized: Callable[[], bool],
    ):
        self._spark, self._indexes = spark, indexes
        self._reader = ChunkReader(spark, storage, indexes, vectorized=vectorized)
        self._barrier_interval, self._paused = barrier_interval, paused
        self._pool = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="headrace-chunks")
        self._group = f"headrace-backfill-{uuid.uuid4().hex}"
        self._flights: list[Flight] = []
        self._paces: dict[int, Pace] = {}
        self._log = DeltaLog()
        self.builds = Builds(self._pool, self._log, lambda: self.on_ready())
        self._waiting: dict[int, list[Future]] = {}
        self._reasons: dict[int, HeadraceError] = {}
        """Why jobs failed, for those who wait; the manifest has the text."""
        self._unlaunched: dict[int, HeadraceError] = {}
        """Jobs of which no chunk could be started, which the next epoch gives up."""
        self._lock = threading.Lock()
        self._stopping = False
        self._fault: HeadraceError | None = None
        self.on_ready: Callable[[], None] = lambda: None
        self.on_full: Callable[[], None] = lambda: None
        self.next_launch = math.inf
        """When a rate limit lets a job go on, in seconds of time.monotonic()."""

    # --- launching ---------------------------------------------------------------------------------------------

    def launch(self, working: Manifest, committed: Manifest) -> None:
        """Starts to read what may be read now."""
        self.next_launch = math.inf
        if self._stopping or self._fault is not None or not working.positions:
            return
        jobs = jobs_of(working)
        self._drop_stale(jobs)
        if self._paused():
            self._forget_speeds(jobs)
            return
        self._forget_speeds(job.id for job in jobs.values() if job.paused)
        able = []
        for job in jobs.values():
            if (
                job.error is not None
                or job.paused
                or job.id in self._unlaunched
                or (job.builds and job.rate_limit == 0)
                or any(id in jobs for id in job.after)
            ):
                continue
            if (retry_at := max(self._pace(job).retry_at, self.builds.may_launch(job))) > time.monotonic():
                self.next_launch = min(self.next_launch, retry_at)
                continue
            able.append(job)
        for job in able:
            try:
                if job.builds:
                    self.builds.launch(job, working, self._prepare)
                else:
                    self._launch_job(job, able, working, committed)
            except Exception as error:  # an index that cannot be read, say; or a fault of ours, which kills no loop
                self._not_launched(job, error)

    def _not_launched(self, job: Job, error: Exception) -> None:
        if (reason := self._failure(job, error)) is not None:
            self._unlaunched[job.id] = reason
            return
        pace = self._pace(job)
        pace.retry_at = time.monotonic() + RETRY_SECONDS * 2 ** (pace.failures - 1)
        self.next_launch = min(self.next_launch, pace.retry_at)

    def _launch_job(self, job: Job, jobs: Sequence[Job], working: Manifest, committed: Manifest) -> None:
        snapshot = job.snapshot(committed_epoch=committed.epoch, last_epoch=working.epoch)
        if snapshot is None:
            return
        state = committed if job.strategy == "arrangement" else working
        if any(id not in state.catalog.relations or state.catalog.relations[id].creating for id in job.inputs):
            return  # an internal table that is still being made, or whose completion is not committed
        pace = self._pace(job)
        at_once = AT_ONCE if job.rate_limit is None else 1
        for upstream_id in job.open_inputs:
            planned = functools.partial(self._planned, upstream_id=upstream_id)
            sharing = self._sharing(job, jobs, upstream_id, working, committed)
            if follows(job, sharing, upstream_id, planned):
                continue
            sources: list | None = None
            while self._in_flight(job.id) < at_once:
                now = time.monotonic()
                runs = state.runs.get(upstream_id, ())
                budget = min(self._budget(pace, runs), pace.limit.allowance(now), pace.cap)
                if budget <= 0:
                    self.next_launch = min(self.next_launch, pace.limit.ready_at(now))
                    return
                if sources is None:
                    sources = self._groups(state, upstream_id)
                chunk = self._next(job, upstream_id, sources, budget)
                if chunk is None:
                    break
                pace.limit.take(min(chunk.rows, chunk.limit or chunk.rows), now)
                together = [job]
                if chunk.limit is None:
                    free = [each for each in sharing if self._free(each, upstream_id)]
                    together += companions(job, free, upstream_id, chunk, planned)
                self._start(together, upstream_id, chunk, snapshot, working, state)

    def _sharing(
        self, job: Job, jobs: Sequence[Job], upstream_id: int, working: Manifest, committed: Manifest
    ) -> list[Job]:
        """The other jobs that could read large chunks of this upstream together with this one."""
        relations = working.catalog.relations
        epochs = {"committed_epoch": committed.epoch, "last_epoch": working.epoch}
        runs = committed.runs.get(upstream_id, ())
        if not self._reads_large(job, runs):
            return []
        found = [
            each
            for each in jobs
            if each.id != job.id
            and shares(job, each, upstream_id)
            and each.snapshot(**epochs) == job.snapshot(**epochs)
            and self._reads_large(each, runs)
            and self._reader.shares(working.catalog, relations[each.id])
        ]
        return found if found and self._reader.shares(working.catalog, relations[job.id]) else []

    def _free(self, job: Job, upstream_id: int) -> bool:
        """Whether it may take part in another chunk; not if it is open where its last one will end."""
        mine = [each for each in self._flights if each.job_id == job.id]
        return len(mine) < AT_ONCE and not any(each.open_ended for each in mine if each.upstream_id == upstream_id)

    def _reads_large(self, job: Job, runs: Sequence[Run]) -> bool:
        """Whether others can take part in its chunks: small ones end where the reader stops, or are not worth it."""
        rows = min(sum(run.rows for run in runs), self._budget(self._pace(job), runs))
        return rows > EXACT and not chunks.is_small(rows, runs)

    def _budget(self, pace: Pace, runs: Sequence[Run]) -> int:
        """Stored rows that the next chunk should have, as far as its pacing is concerned."""
        rows = pace.policy.budget()
        return rows if isinstance(pace.policy, Fixed) else min(rows, self._rows_at_a_time(runs))

    def _rows_at_a_time(self, runs: Sequence[Run]) -> int:
        """What one task for each processor reads: more tasks would only take the slots that epochs need."""
        rows = sum(run.rows for run in runs)
        average = sum(run.bytes for run in runs) / rows if rows else 1
        return max(1, int(self._spark.sparkContext.defaultParallelism * SPLIT_BYTES / max(average, 1)))

    def _next(self, job: Job, upstream_id: int, sources: list, budget: int) -> Chunk | None:
        """The next chunk: one key range, so that the view's files have ranges of their own, too.

        Partitions take turns. Within a chunk executors share the work by pieces of files.
        """
        mine = [each for each in self._flights if (each.job_id, each.upstream_id) == (job.id, upstream_id)]
        if any(each.open_ended for each in mine):
            return None
        planned = self._planned(job, upstream_id)
        shares = []
        for number, vnodes in enumerate(partitions(job.parallelism)):
            in_flight = sum(each.chunk.first_vnode in vnodes for each in mine)
            done = sum(planned.of(vnode) is DONE for vnode in vnodes)
            if done < len(vnodes):
                shares.append((in_flight, done / len(vnodes), number, vnodes))
        if not shares:
            return None
        vnodes = min(shares, key=lambda share: share[:3])[3]
        reach = self._pace(job).reach.rows if budget <= EXACT else 0
        chunk = next_chunk(planned, vnodes, sources, budget, reach=reach)
        if chunk is not None and budget > EXACT:
            # A limit is then a wish to be kept small, not a need: the end is fixed, and reading up to it is right.
            chunk = dataclasses.replace(chunk, limit=None).to_vnode_end()
        return chunk

    def _planned(self, job: Job, upstream_id: int) -> Positions:
        """The positions when all that is in flight has landed."""
        positions = job.inputs[upstream_id].positions
        for flight in self._flights:
            if (flight.job_id, flight.upstream_id) == (job.id, upstream_id) and not flight.open_ended:
                positions = positions.advance(flight.chunk)
        return positions

    def _start(
        self, jobs: Sequence[Job], upstream_id: int, chunk: Chunk, snapshot: int, working: Manifest, state: Manifest
    ) -> None:
        """Begins to read a chunk for these jobs."""
        catalog = working.catalog
        views, upstream = [catalog.relations[job.id] for job in jobs], catalog.relations[upstream_id]
        runs = state.runs.get(upstream_id, ())
        turn = Turn([self._pace(job).last_turn for job in jobs])
        flights = []
        for job in jobs:
            self._pace(job).last_turn = turn
            flight = Flight(
                job_id=job.id,
                upstream_id=upstream_id,
                strategy=job.strategy,
                chunk=chunk,
                snapshot=snapshot,
                runs=runs,
                future=Future(),
            )
            flights.append(flight)
            flight.future.add_done_callback(lambda _: self.on_ready())

        def read() -> None:
            try:
                self._prepare(", ".join(view.name for view in views))
                found = self._reader.read_together(catalog, views, upstream, runs, chunk, turn=turn)
            except Exception as error:
                found = [error] * len(views)
            finally:
                turn.end()  # also if it did not come to writing
            for flight, each in zip(flights, found, strict=True):
                if isinstance(each, Exception):
                    flight.future.set_exception(each)
                else:
                    flight.future.set_result(dataclasses.replace(each, seconds=each.seconds - turn.waited))

        self._pool.submit(read)
        self._flights += flights

    def _prepare(self, names: str) -> None:
        """What a thread that fills something says to Spark before it does."""
        self._spark.sparkContext.setJobGroup(self._group, f"filling {names}", interruptOnCancel=False)
        use_pool(self._spark, "backfill")

    def _groups(self, state: Manifest, upstream_id: int) -> list:
        return [self._indexes.get(file).groups for run in state.runs.get(upstream_id, ()) for file in run.files]

    def _in_flight(self, job_id: int) -> int:
        return sum(flight.job_id == job_id for flight in self._flights)

    def _pace(self, job: Job) -> Pace:
        text = f"{job.pacing} {job.rate_limit}"
        pace = self._paces.get(job.id)
        if pace is None or pace.text != text:
            interval = self._barrier_interval()
            limit = RateLimit(job.rate_limit, now=time.monotonic(), portion=interval)
            pace = Pace(text=text, policy=parse_policy(job.pacing, barrier_interval=interval), limit=limit)
            self._paces[job.id] = pace
        return pace

    def _forget_speeds(self, ids: Iterable[int]) -> None:
        """Of jobs that stand still: how long they do says nothing about how fast they are when they go on."""
        for id in ids:
            if id in self._paces:
                self._paces[id].recent = []

    def _drop_stale(self, jobs: dict[int, Job]) -> None:
        """What no longer continues from where its job is: it was dropped, failed, or begun anew."""
        self.builds.drop_stale(jobs)
        kept: list[Flight] = []
        planned: dict[tuple[int, int], Positions] = {}
        for flight in self._flights:
            job = jobs.get(flight.job_id)
            if job is None or job.error is not None or flight.upstream_id not in job.inputs:
                continue
            if flight.snapshot < job.created_epoch:
                continue  # of a life before: what happened since was not kept for it
            key = (flight.job_id, flight.upstream_id)
            positions = planned.get(key, job.inputs[flight.upstream_id].positions)
            try:
                after = positions.advance(flight.chunk)
            except HeadraceError:
                continue
            planned[key] = positions if flight.open_ended else after
            kept.append(flight)
        self._flights = kept
        for id in [id for id in self._paces if id not in jobs]:
            del self._paces[id]

    # --- landing -----------------------------------------------------------------------------------------------

    @property
    def any_ready(self) -> bool:
        ready = bool(self._unlaunched) or self.builds.any_ready
        return ready or any(flight.future.done() for flight in self._first_flights())

    def _first_flights(self) -> list[Flight]:
        """Of each input the chunk that lands next: they land in the order they were started in."""
        first: dict[tuple[int, int], Flight] = {}
        for flight in self._flights:
            first.setdefault((flight.job_id, flight.upstream_id), flight)
        return list(first.values())

    def ready(self, working: Manifest) -> tuple[list[Landing | Build], dict[int, HeadraceError]]:
        """What can land now, and the jobs that cannot go on, with the reason."""
        jobs = jobs_of(working)
        self._drop_stale(jobs)
        landings: list[Landing | Build] = []
        failed, self._unlaunched = self._unlaunched, {}
        built, unbuilt = self.builds.ready(jobs, self._failure)
        failed |= unbuilt
        unready: set[tuple[int, int]] = set()
        for flight in list(self._flights):
            key = (flight.job_id, flight.upstream_id)
            if key in unready or not flight.future.done():
                unready.add(key)
                continue
            job = jobs[flight.job_id]
            try:
                read = flight.future.result()
                late = self._late_pieces(flight, read.chunk)
            except Exception as error:
                self._flights.remove(flight)
                unready.add(key)
                if (reason := self._failure(job, error)) is not None:
                    failed[job.id] = reason
                continue
            if sum(piece.rows for piece in late) > LATE_ROWS or sum(piece.bytes for piece in late) > LATE_BYTES:
                self._flights.remove(flight)
                unready.add(key)
                self._pace(job).cap = max(1, read.chunk.rows // 2)  # a smaller one misses less
                continue
            try:
                jobs[job.id] = jobs[job.id].land(flight.upstream_id, read.chunk, read.rows)
            except HeadraceError:  # what landed before it went another way; it is read again
                self._flights.remove(flight)
                unready.add(key)
                continue
            landings.append(Landing(flight=flight, read=read, late=late))
        return landings + built, failed

    def _late_pieces(self, flight: Flight, chunk: Chunk) -> tuple[Piece, ...]:
        files = self._log.since(flight.strategy, flight.upstream_id, flight.snapshot)
        return pieces_of(files, chunk, self._indexes)

    def _failure(self, job: Job, error: BaseException) -> HeadraceError | None:
        """The reason to give the job up, if there is one."""
        if self._stopping:
            return None  # what was being read was cut off
        if java_has_ended():
            self.engine_stopped(spark_gone())  # it goes on when the warehouse is opened again
            return None
        if isinstance(error, SparkJobCancelled):
            log.warning('reading a chunk for "%s" was cancelled and is tried again: %s', job.name, error.message)
            return None
        pace = self._pace(job)
        pace.failures += 1
        if isinstance(error, DiskFull):
            self.on_full()
        if not isinstance(error, HeadraceError):
            log.error('an unexpected error in the job of "%s"', job.name, exc_info=error)
        reason = error if isinstance(error, HeadraceError) else HeadraceError(f"{type(error).__name__}: {error}")
        if isinstance(error, DataError) or pace.failures >= ATTEMPTS:
            self._reasons[job.id] = reason
            return reason
        log.warning('reading a chunk for "%s" failed and is tried again: %s', job.name, reason.for_log)
        return None

    def land(self, state: Manifest, landings: Sequence[Landing | Build]) -> Manifest:
        """The state with the chunks in it: positions moved on, and views that are complete made so."""
        runs = dict(state.runs)
        jobs = jobs_of(state)
        chunks_read = [each for each in landings if isinstance(each, Landing)]
        for landing in chunks_read:
            flight, read = landing.flight, landing.read
            job = jobs[flight.job_id].land(flight.upstream_id, read.chunk, read.rows)
            groups = self._groups(state, flight.upstream_id)
            jobs[job.id] = job.estimate(flight.upstream_id, remaining(job.inputs[flight.upstream_id].positions, groups))
            if read.files:
                run = Run(
                    id=uuid.uuid4().hex,
                    first_epoch=flight.snapshot,
                    last_epoch=flight.snapshot,
                    files=read.files,
                    base=True,
                )
                runs[job.id] = (*runs.get(job.id, ()), run)
        state = dataclasses.replace(state, runs=runs)
        for job in {landing.job_id: jobs[landing.job_id] for landing in chunks_read}.values():
            state = finished(state, job) if job.done else with_job(state, job)
        for build in builds_in(landings):
            state = landed(state, build, jobs[build.job_id])
        return state

    def landed(self, landings: Sequence[Landing | Build], *, epoch_seconds: float) -> None:
        """Their epoch is done."""
        now = time.monotonic()
        self.builds.have_landed(builds_in(landings))
        for landing in landings:
            if isinstance(landing, Build):
                continue
            self._flights.remove(landing.flight)
            pace = self._paces.get(landing.job_id)
            if pace is not None:
                rows = landing.read.chunk.rows
                pace.failures = 0
                pace.cap = min(2 * pace.cap, UNLIMITED)
                pace.policy.landed(rows, landing.read.seconds, epoch_seconds)
                if landing.read.live is not None:
                    pace.reach.landed(live=landing.read.live, stored=rows)
                pace.recent = [*pace.recent[-49:], (now, landing.read.rows)]

    def not_landed(
        self, landings: Sequence[Landing | Build], error: HeadraceError, state: Manifest
    ) -> dict[int, HeadraceError]:
        """Their epoch failed; answers the jobs to give up."""
        if error.of_statement:
            return {}  # they land with the next epoch
        failed = {}
        jobs = jobs_of(state)
        for landing in landings:
            blamed = getattr(error, "view_id", None)
            if blamed not in (None, landing.job_id):
                continue
            if (reason := self._failure(jobs[landing.job_id], error)) is not None:
                failed[landing.job_id] = reason
        return failed

    # --- epochs ------------------------------------------------------------------------------------------------

    def record(self, state: Manifest, written: Written, epoch: int) -> None:
        """Keeps the deltas of an epoch for the chunks that were read before it."""
        self.builds.record(written.files, epoch)
        jobs = [job for job in jobs_of(state).values() if job.error is None] if state.positions else []
        for strategy in ("arrangement", "no_shuffle"):
            for upstream_id in {id for job in jobs if job.strategy == strategy for id in job.inputs}:
                copied = strategy == "arrangement" and upstream_id not in written.bulk
                files = (written.replicas if copied else written.files).get(upstream_id, ())
                self._log.record(strategy, upstream_id, epoch, files)

    def committed(self, manifest: Manifest) -> None:
        """A checkpoint can be read: what it contains may leave the replica, and those who wait are told."""
        snapshots = [flight.snapshot for flight in (*self._flights, *self.builds.running)]
        self._log.forget_upto(replica_needed_after(manifest.epoch, snapshots))
        with self._lock:
            waiting = list(self._waiting)
        for id in waiting:
            self._tell(id, manifest)

    def given_up(self, committed: Manifest) -> None:
        """The epochs since the last checkpoint could not be committed."""
        self._flights, self.builds.running = [], []
        self._log.clear()

    # --- for clients -------------------------------------------------------------------------------------------

    def wait(self, id: int, manifest: Callable[[], Manifest]) -> Future:
        """Done when the job is done and committed; an error if it failed, or was cancelled."""
        future: Future = Future()
        with self._lock:
            if self._stopping or self._fault is not None:
                future.set_exception(self._fault or self._closed(id))
                return future
            self._waiting.setdefault(id, []).append(future)
        self._tell(id, manifest())
        self.on_ready()
        return future

    def reason(self, id: int) -> HeadraceError | None:
        """Why a job failed, if that was in this process."""
        return self._reasons.get(id)

    @property
    def waited_for(self) -> bool:
        """Whether somebody waits for a job: then a checkpoint that it needs is not to be late."""
        return bool(self._waiting)

    @staticmethod
    def _closed(id: int) -> JobCancelled:
        return JobCancelled(f"the database was closed; job {id} goes on when it is opened again")

    def _tell(self, id: int, manifest: Manifest) -> None:
        data, relation = manifest.positions.get(str(id)), manifest.catalog.relations.get(id)
        error: HeadraceError | None = None
        if data is not None:
            if data["error"] is None:
                return
            error = JobFailed(data["error"], hint=f"RESUME JOB {id} starts it again, CANCEL JOB {id} removes it")
        elif relation is None:
            error = JobCancelled(f"job {id} was cancelled")
        with self._lock:
            futures = self._waiting.pop(id, [])
        for future in futures:
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)

    def rate(self, id: int) -> float | None:
        """Rows per second over the last chunks."""
        pace = self._paces.get(id)
        if pace is None or len(pace.recent) < 2:
            return None
        span = pace.recent[-1][0] - pace.recent[0][0]
        return sum(rows for _, rows in pace.recent[1:]) / span if span > 0 else None

    def rows_in_flight(self, id: int) -> int:
        """Rows of chunks that are being read or wait for their epoch: what a crash now would have to read again."""
        return sum(flight.chunk.rows for flight in list(self._flights) if flight.job_id == id)

    def being_written(self) -> set[int]:
        """The views of which a chunk is being written."""
        return {flight.job_id for flight in (*self._flights, *self.builds.running) if not flight.future.done()}

    def paths_needed(self) -> Iterator[str]:
        """Files that no manifest names and that must stay."""
        yield from self._log.paths()
        yield from self.builds.paths()
        for flight in list(self._flights):
            yield from (file.path for run in flight.runs for file in run.files)
            if flight.future.done() and flight.future.exception() is None:
                yield from (file.path for file in flight.future.result().files)

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
        with contextlib.suppress(Exception):  # if Spark is gone, so are they
            self._spark.sparkContext.cancelJobGroup(self._group)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._tell_all(self._closed)

    def engine_stopped(self, error: HeadraceError) -> None:
        """No epoch will come, or none with a chunk: those who wait hear why."""
        with self._lock:
            self._fault = error
        self._tell_all(lambda _: error)

    def _tell_all(self, error: Callable[[int], HeadraceError]) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, {}
        for id, futures in waiting.items():
            for future in futures:
                future.set_exception(error(id))
