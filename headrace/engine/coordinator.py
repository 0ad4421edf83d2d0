"""The epoch loop: what clients ask for becomes epochs, and epochs become commits.

One thread runs all epochs, one after the other. It takes what waits in the queue (bounded), works out the deltas,
writes them, applies the mutations that take effect at the barrier, and commits at a checkpoint; only then are clients
told. A waiting client brings the barrier forward: while anybody waits, epochs follow each other without a pause, and
all who wait share a commit.

If an epoch fails nothing of it is visible. What is worth retrying is retried; then the epoch's statements are run one
by one, so that the one at fault fails alone and is told why. The engine goes on from the state before.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.config import PARAMETERS
from headrace.engine.attempts import Attempts, not_wanted
from headrace.engine.backfill import Backfills, Landing
from headrace.engine.changes import Change, InsertRows, Outcome
from headrace.engine.filling import failed
from headrace.engine.news import asking, news
from headrace.engine.spark import java_has_ended, spark_gone
from headrace.engine.streams import KeptRows
from headrace.errors import DiskFull, EngineClosed, EpochFailed, Fenced, HeadraceError, SparkGone, StorageError
from headrace.failpoints import failpoint
from headrace.state.files import Unsynced
from headrace.state.manifest import Manifest
from headrace.state.precedence import precedence
from headrace.state.store import ManifestStore

log = logging.getLogger("headrace")

RETRIES = 2
QUEUE_ROWS = 500_000
"""Rows of small writes that may wait; a client that brings more waits itself."""
LOOKS_EVERY = 0.1
"""Seconds, whether it still wants to"""

SYNCED_AT_ONCE = 8
"""Files of an epoch that are made durable side by side."""

FATAL = (Fenced, SparkGone)
"""After these no epoch can succeed: the engine stops."""


@dataclass(kw_only=True, eq=False)
class Write:
    table_id: int
    change: Change
    returned: Callable[[Outcome], pa.Table | KeptRows] | None = None
    """RETURNING: what it makes of the rows. It may fail, so it is worked out before anything is committed."""
    cancellable: bool = False
    """Whether it may take long, and be stopped in the middle of it"""
    unwanted: bool = False
    future: Future = field(default_factory=Future)

    @property
    def rows(self) -> int:
        return self.change.rows.num_rows if isinstance(self.change, InsertRows) else 1


Mutate = Callable[[Manifest, int], tuple[Manifest, Any]]
"""Takes the state and the epoch; answers the new state and what to tell the client.

One that writes in several steps takes an epoch for each, from the given one on, and the last is that of its state.
"""


@dataclass(kw_only=True, eq=False)
class Mutation:
    apply: Mutate
    describe: str
    asked_by: str | None = field(default_factory=asking.get)
    cancellable: bool = False
    unwanted: bool = False
    future: Future = field(default_factory=Future)


Request = Write | Mutation
Evaluate = Callable[[Manifest, Sequence[Write], int, Sequence[Landing]], tuple[Manifest, list[Outcome]]]


@dataclass
class EpochStats:
    """What the last epochs cost; bounded."""

    epochs: int = 0
    seconds: float = 0.0
    """All of them together"""
    failed: int = 0
    commits: int = 0
    rows: int = 0
    """That statements wrote, and were committed"""
    recent_ms: deque = field(default_factory=lambda: deque(maxlen=600))


class Coordinator:
    def __init__(
        self,
        store: ManifestStore,
        manifest: Manifest,
        evaluate: Evaluate,
        on_commit: Callable[[Manifest], None],
        backfills: Backfills,
        make_room: Callable[[], None],
        *,
        due_in: Callable[[Manifest], float],
        attempts: Attempts,
    ):
        self._store = store
        self._backfills = backfills
        backfills.on_ready = self._wake
        backfills.on_full = self.disk_was_full
        self._make_room = make_room
        self._full = False
        """Whether a write found the disk full since room was made."""
        self._evaluate = evaluate
        self._attempts = attempts
        self._due_in = due_in
        """In how many seconds there is something to do, though nobody asks for it."""
        self._tick_after = 0.0
        """… and when that may be at the earliest, in seconds of time.monotonic()."""
        self._ticking = False
        self._on_commit = on_commit
        self.committed = manifest
        """What readers see."""
        self._working = manifest
        """The committed state and, between checkpoints, the epochs in the shared buffer."""
        self._queue: deque[Request] = deque()
        self._queued_rows = 0
        self._asked: dict[Future, float] = {}
        """When those that are not answered asked, the first of them first."""
        self._waiting: list[tuple[Future, Any]] = []
        """Clients whose epoch is in the shared buffer but not committed."""
        self._news: list[str] = []
        """What the log says of these epochs, once they are."""
        self._changed = threading.Condition()
        self._closing = False
        self._fault: HeadraceError | None = None
        self._unsynced = Unsynced()
        self._syncing = ThreadPoolExecutor(SYNCED_AT_ONCE, thread_name_prefix="headrace-sync")
        self.stats = EpochStats()
        self._thread = threading.Thread(target=self._loop, name="headrace-epochs", daemon=True)

    # --- for clients -------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._thread.start()

    def submit(self, request: Request, *, while_waiting: Callable[[], None] = lambda: None) -> Future:
        """``while_waiting``: called again and again if there is no room for it yet; raises if nobody wants it."""
        with self._changed:
            self.refuse_if_stopped()
            asked = time.monotonic()
            if isinstance(request, Write):
                while self._queued_rows and self._queued_rows + request.rows > QUEUE_ROWS:
                    self._changed.wait(LOOKS_EVERY)
                    self.refuse_if_stopped()
                    while_waiting()
                self._queued_rows += request.rows
            self._queue.append(request)
            self._asked[request.future] = asked
            self._changed.notify_all()
        request.future.add_done_callback(self._answered)
        return request.future

    def cancel(self, request: Request) -> None:
        """It fails with QueryCancelled, and nothing of it stays, unless it is done, or as good as done. Called again
        until it is answered: what is computed for it may be between two of Spark's jobs."""
        with self._changed:
            request.unwanted = True
            if request in self._queue:
                self._queue.remove(request)
                if isinstance(request, Write):
                    self._queued_rows -= request.rows
                self._tell(request.future, not_wanted())
                self._changed.notify_all()
                return
        self._attempts.stop(request)

    def _answered(self, future: Future) -> None:
        with self._changed:
            self._asked.pop(future, None)

    @property
    def lag(self) -> float:
        """Seconds for which the first of those that are not answered has waited: how far views are behind."""
        with self._changed:
            return time.monotonic() - next(iter(self._asked.values())) if self._asked else 0.0

    @property
    def queued_rows(self) -> int:
        return self._queued_rows

    def mutate(self, apply: Mutate, describe: str) -> Any:
        return self.submit(Mutation(apply=apply, describe=describe)).result()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def disk_was_full(self) -> None:
        """Before the next epoch, what the write left behind is removed."""
        with self._changed:
            self._full = True
            self._changed.notify_all()

    def flush(self) -> int:
        """Waits until everything asked for so far is committed; answers the epoch."""
        return self.mutate(lambda state, epoch: (state, epoch), "FLUSH")

    @property
    def working(self) -> Manifest:
        return self._working

    def close(self) -> None:
        """Finishes what is queued, commits, and stops."""
        with self._changed:
            if self._closing:
                return
            self._closing = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def abandon(self) -> None:
        """Stops without committing, as a crash would."""
        with self._changed:
            self._closing = True
            self._fault = EngineClosed("the engine was abandoned")
            self._fail_queue(self._fault)
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        for future, _ in self._waiting:  # what was in the buffer is gone, as after a crash
            self._tell(future, self._fault)

    def refuse_if_closed(self) -> None:
        """Reading goes on after a fault, but not after :meth:`close`."""
        if self._closing:
            self.refuse_if_stopped()

    def refuse_if_stopped(self) -> None:
        """Nothing can be written after a fault or after :meth:`close`."""
        if self._fault is not None:
            raise type(self._fault)(self._fault.message, hint=self._fault.hint)
        if self._closing:
            raise EngineClosed("the database is closed", hint="open it again with headrace.connect()")

    # --- the loop ----------------------------------------------------------------------------------------------

    def _loop(self) -> None:
        try:
            self._run_epochs()
        except Exception as error:  # a fault of ours: those who wait must hear of it, not wait for ever
            log.exception("unexpected error in the epoch loop")
            said = f"the engine stopped: unexpected error: {type(error).__name__}: {error}"
            self._stop_on_fault(EngineClosed(said, hint="open the warehouse again: what was acknowledged is there"))
        finally:
            self._syncing.shutdown()

    def _run_epochs(self) -> None:
        while True:
            if self._full:
                self._full = False
                self._make_room()
            self._backfills.launch(self._working, self.committed)
            until_tick = self._until_tick()
            with self._changed:
                if not self._has_work and until_tick > 0:
                    self._changed.wait(self._patience(until_tick))
                if self._fault is not None:
                    return
                if self._closing and not self._queue and not self._buffered:
                    return
                writes, mutations = self._take()
            self._ticking = until_tick <= 0
            if not writes and not mutations and not self._buffered and not self._waiting:
                if not self._backfills.any_ready and not self._ticking:
                    continue  # an idle barrier costs nothing
            started = time.perf_counter()
            try:
                with precedence() if writes else nullcontext():
                    self._epoch(writes, mutations)
            except HeadraceError as error:
                self._stop_on_fault(error)
                return
            self.stats.epochs += 1
            took = time.perf_counter() - started
            self.stats.seconds += took
            self.stats.recent_ms.append(took * 1000)
            del writes, mutations  # and the rows in them, which an idle engine need not hold

    @property
    def _has_work(self) -> bool:
        asked = self._queue or self._waiting or self._closing or self._full
        return bool(asked) or self._backfills.any_ready

    def _until_tick(self) -> float:
        """Seconds until a row comes or goes with the clock."""
        if self._closing:
            return math.inf
        try:
            due = self._due_in(self._working)
        except HeadraceError as error:  # a file that cannot be read now
            log.warning("it is not known when a row is due: %s", error.message)
            due = self._parameter("barrier_interval") / 1000
        return max(due, self._tick_after - time.monotonic())

    def _patience(self, until_tick: float) -> float | None:
        """How long the loop may sleep if nobody wakes it."""
        if self._buffered and self._backfills.waited_for:
            return 0.0
        until_barrier = self._parameter("barrier_interval") / 1000 if self._buffered else math.inf
        until_launch = max(0.0, self._backfills.next_launch - time.monotonic())
        soonest = min(until_barrier, until_launch, until_tick)
        return None if soonest == math.inf else soonest

    @property
    def _buffered(self) -> bool:
        return self._working.epoch != self.committed.epoch

    def _take(self) -> tuple[list[Write], list[Mutation]]:
        """The next epoch's work: writes up to the bound, then the mutations of its barrier.

        Only a run of inserts may share an epoch with others on the same table: an UPDATE reads the table as of the
        epoch before, so what was asked for earlier must be in it.
        """
        writes: list[Write] = []
        mutations: list[Mutation] = []
        inserting: dict[int, bool] = {}
        budget = self._parameter("max_rows_per_epoch")
        while self._queue:
            request = self._queue[0]
            if isinstance(request, Mutation):
                mutations.append(request)
            elif mutations:
                break
            else:
                plain = isinstance(request.change, InsertRows)
                together = inserting.get(request.table_id)
                if together is not None and not (together and plain):
                    break
                if writes and request.rows > budget:
                    break
                budget -= request.rows
                inserting[request.table_id] = plain
                writes.append(request)
                self._queued_rows -= request.rows
            self._queue.popleft()
        self._changed.notify_all()
        return writes, mutations

    def _epoch(self, writes: list[Write], mutations: list[Mutation]) -> None:
        before, told = self._working, len(self._waiting)
        epoch = before.epoch + 1
        with self._unsynced.collecting():
            state = self._land(writes, epoch)
        self._news += news(before, state, None)
        for mutation in mutations:
            state = self._apply(mutation, state, max(epoch, state.epoch))
        asked = writes or mutations or self._ticking
        if asked and state is self._working is before and len(self._waiting) == told:
            return  # all of it failed, so there was no epoch
        self._working = dataclasses.replace(state, epoch=max(epoch, state.epoch))
        if self._fault is not None:
            return  # abandoned meanwhile
        frequency = self._parameter("checkpoint_frequency")
        if self._closing or self._working.epoch // frequency != self.committed.epoch // frequency:
            self._commit()

    def _land(self, writes: list[Write], epoch: int) -> Manifest:
        """The writes, together with the chunks that are ready. If that fails the writes are tried alone."""
        if not self._backfills.any_ready or self._closing:
            return self._write(writes, epoch)
        landings, failures = self._backfills.ready(self._working)
        for id, error in failures.items():
            self._working = failed(self._working, id, error)
        landings = [landing for landing in landings if landing.job_id not in failures]
        if not landings:
            return self._write(writes, epoch)
        started = time.perf_counter()
        state = self._working
        try:
            state, outcomes = self._retried(lambda: self._evaluated(state, writes, epoch, landings))
        except HeadraceError as error:
            if isinstance(error, FATAL):
                raise
            for id, reason in self._backfills.not_landed(landings, error, self._working).items():
                self._working = failed(self._working, id, reason)
            return self._write(writes, epoch)
        self._backfills.landed(landings, epoch_seconds=time.perf_counter() - started)
        self._waiting += [(write.future, outcome) for write, outcome in zip(writes, outcomes, strict=True)]
        return state

    def _write(self, writes: list[Write], epoch: int) -> Manifest:
        state = self._working
        if self._ticking:
            self._tick_after = time.monotonic() + self._parameter("barrier_interval") / 1000
        elif not writes:
            return state
        try:
            state, outcomes = self._retried(lambda: self._evaluated(state, writes, epoch, ()))
        except HeadraceError as error:
            if (blamed := getattr(error, "view_id", None)) is not None and str(blamed) in state.positions:
                # A view that is only being made must not stand in the way of those who write.
                self._working = failed(self._working, blamed, error)
                return self._write(writes, epoch)
            if isinstance(error, FATAL):
                raise
            if not writes:
                log.error("a view could not follow the clock, and is tried again: %s", error.for_log)
                self.stats.failed += 1
                return self._working
            if len(writes) == 1:
                self.stats.failed += 1
                self._tell(writes[0].future, error)
                return self._working
            log.info("an epoch of %d statements failed, running them one by one: %s", len(writes), error.for_log)
            return self._one_by_one(writes, epoch)
        self._waiting += [(write.future, outcome) for write, outcome in zip(writes, outcomes, strict=True)]
        return state

    def _evaluated(
        self, state: Manifest, writes: Sequence[Write], epoch: int, landings: Sequence[Landing]
    ) -> tuple[Manifest, list[Outcome]]:
        with self._attempts.of(*writes):
            return self._evaluate(state, writes, epoch, landings)

    def _one_by_one(self, writes: list[Write], epoch: int) -> Manifest:
        """Each statement in an epoch of its own: the one at fault fails alone."""
        for write in writes:
            state = self._write([write], self._working.epoch + 1)
            self._working = dataclasses.replace(state, epoch=self._working.epoch + 1)
        return self._working

    def _apply(self, mutation: Mutation, state: Manifest, epoch: int) -> Manifest:
        try:
            changed, answer = self._retried(lambda: self._applied(mutation, state, epoch))
        except HeadraceError as error:
            if isinstance(error, FATAL):
                raise
            self._tell(mutation.future, error)
            return state
        self._waiting.append((mutation.future, answer))
        self._news += news(state, changed, mutation.asked_by)
        return changed

    def _applied(self, mutation: Mutation, state: Manifest, epoch: int) -> tuple[Manifest, Any]:
        with self._attempts.of(mutation):
            return mutation.apply(state, epoch)

    def _retried(self, attempt: Callable[[], Any]) -> Any:
        for number in range(RETRIES + 1):
            try:
                return attempt()
            except HeadraceError as error:
                self._full = self._full or isinstance(error, DiskFull)
                if not error.retryable or number == RETRIES:
                    raise
                log.warning("an epoch failed and is tried again: %s", error.message)
                time.sleep(0.1 * 2**number)
            except Exception as error:
                if java_has_ended():
                    raise spark_gone() from error
                # A fault of ours must not kill the loop: report it, keep serving.
                log.exception("unexpected error in an epoch")
                raise EpochFailed(f"unexpected error: {type(error).__name__}: {error}") from error
        raise AssertionError("unreachable")

    def _commit(self) -> None:
        if not self._waiting and self._working.epoch == self.committed.epoch:
            return
        new = dataclasses.replace(self._working, version=self.committed.version).next(
            writer=self._working.writer, committed_at=max(time.time_ns() // 1000, self.committed.committed_at + 1)
        )
        try:
            self._make_durable()
            self._retried(lambda: self._commit_once(new))
        except (StorageError, EpochFailed) as error:
            # What is in the buffer cannot be made durable: it is given up, and those who wait hear why.
            log.error("a commit failed: %s", error.message)
            self._working = self.committed
            self._backfills.given_up(self.committed)
            self._news.clear()
            waiting, self._waiting = self._waiting, []
            for future, _ in waiting:
                self._tell(future, error)
            return
        self.committed = self._working = new
        told, self._news = self._news, []
        for line in told:
            log.info("%s", line)
        waiting, self._waiting = self._waiting, []
        self.stats.commits += 1
        failpoint("after_commit")
        for future, answer in waiting:
            if isinstance(answer, Outcome):
                answer.epoch = new.epoch
                self.stats.rows += answer.count
            if not future.cancelled():
                future.set_result(answer)
        self._backfills.committed(new)
        self._on_commit(new)

    def _make_durable(self) -> None:
        """What the epochs since the last commit have written. It is not tried twice (:class:`Unsynced`)."""
        try:
            self._unsynced.make_durable(self._syncing)
        except OSError as error:
            self._full = self._full or error.errno == errno.ENOSPC
            kind = DiskFull if error.errno == errno.ENOSPC else StorageError
            raise kind(f"an epoch could not be made durable: {error}") from error

    def _commit_once(self, new: Manifest) -> None:
        failpoint("before_commit")
        self._store.commit(self.committed, new)

    def _stop_on_fault(self, error: HeadraceError) -> None:
        log.error("the engine stops: %s", error.message)
        with self._changed:
            self._fault = error
            self._queue.clear()
            self._waiting = []
            for future in list(self._asked):
                self._tell(future, error)
            self._changed.notify_all()
        self._backfills.engine_stopped(error)

    def _fail_queue(self, error: HeadraceError) -> None:
        while self._queue:
            self._tell(self._queue.popleft().future, error)

    @staticmethod
    def _tell(future: Future, error: Exception) -> None:
        if not future.done():
            future.set_exception(error)

    def _parameter(self, name: str) -> Any:
        parameter = PARAMETERS[name]
        text = self._working.parameters.get(name)
        return parameter.default if text is None else parameter.parse(text)
