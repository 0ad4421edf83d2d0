"""Background work on a warehouse: merging runs, forgetting old epochs, removing files that nothing names.

A merge reads runs that never change, writes new files, and takes effect at a barrier like any mutation; epochs go on
meanwhile. If the runs that it merges go before it is done (their relation was dropped, say), it is ended, and its
files are orphans and are removed with the others.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
import time
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from headrace.catalog import INTERNAL, Catalog, Relation
from headrace.engine.following import with_copies_shown
from headrace.engine.spark import spark_errors, use_pool
from headrace.engine.streams import cancel_tagged, tagged
from headrace.engine.watermarks import watermark
from headrace.errors import DiskFull, EngineClosed, HeadraceError, SparkJobCancelled
from headrace.failpoints import failpoint
from headrace.plan.finished import Finished, finished, is_complete
from headrace.state.compaction import Choice, choose, whole
from headrace.state.cuts import RESULTS
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.ranges import MergeRange, merge_ranges
from headrace.state.runs import SIDECAR, Run
from headrace.state.storage import TEMPORARY
from headrace.state.store import DIRECTORY
from headrace.state.vacuum import unreferenced

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

log = logging.getLogger("headrace")

VACUUM_SECONDS = 60
FILLING_RUNS = 64
"""Runs beside its chunks that a view being filled may have."""
MERGE_TAG = "headrace-merge"
"""Of a merge's Spark jobs; there is one at a time"""
CANCEL_AGAIN = 0.2
"""Seconds; what is cancelled may have been about to start a job"""
GRACE_SECONDS = 600
"""A file younger than this may belong to an epoch that is being written right now."""


class Maintenance:
    def __init__(self, engine: Engine):
        self._engine = engine
        self._wake = threading.Event()
        self._stopping = False
        self._merging = threading.Lock()
        self._vacuumed_at = time.monotonic()
        self.being_merged: frozenset[int] = frozenset()
        """The relation that a merge is writing files of."""
        self.compactions, self.compaction_seconds, self.compaction_bytes = 0, 0.0, 0
        """Merges since the start, how long they took, and what they read"""
        self._finished_in: tuple[Catalog | None, dict[int, Finished]] = (None, {})
        self._thread = threading.Thread(target=self._loop, name="headrace-maintenance", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def committed(self, manifest: Manifest) -> None:
        """Wakes up; a merge of what is there no more is ended: it would only hold up others."""
        self._wake.set()
        if self.being_merged.difference(manifest.runs):
            threading.Thread(target=self._end_merge, args=(self.being_merged,), daemon=True).start()

    def _end_merge(self, merge: frozenset[int]) -> None:
        while self.being_merged is merge:
            cancel_tagged(self._engine.spark, MERGE_TAG)
            time.sleep(CANCEL_AGAIN)

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join()

    def _loop(self) -> None:
        use_pool(self._engine.spark, "maintenance")
        while True:
            self._wake.wait(VACUUM_SECONDS)
            self._wake.clear()
            if self._stopping:
                return
            try:
                if self._engine.parameter("compaction"):
                    self._compact_where_due()
                if time.monotonic() - self._vacuumed_at > VACUUM_SECONDS:
                    self.vacuum()
            except EngineClosed:
                return
            except HeadraceError as error:
                # Merging only makes reading cheaper: it can wait, and will be tried again after the next commit.
                log.warning("background work failed and is put off: %s", error.message)
            except Exception:
                log.exception("background work failed and is put off")

    # --- merging -----------------------------------------------------------------------------------------------

    def _compact_where_due(self) -> None:
        for relation_id, runs in self._engine.committed.runs.items():
            if self._stopping:
                return
            if (choice := self._choose(relation_id, runs)) is not None:
                self._merge(relation_id, choice)

    def _choose(self, relation_id: int, runs: Sequence[Run]) -> Choice | None:
        committed = self._engine.committed
        if str(relation_id) not in committed.positions and not any(run.base for run in runs):
            return choose(runs, shrinks=relation_id in self._finished(committed.catalog))
        # It is being filled: its chunks share no key, and become one run when it is complete. What live writes leave is
        # merged only to keep the manifest small. For each of its keys a chunk may lie below, whatever the epochs say.
        rest = [run for run in runs if not run.base]
        if len(rest) < FILLING_RUNS:
            return None
        return Choice(inputs=tuple(run.id for run in rest), level=1, bottom=False)

    def compact(self, relation_id: int) -> bool:
        """Merges all runs of a relation now."""
        choice = whole(self._engine.committed.runs.get(relation_id, ()))
        if choice is not None:
            self._merge(relation_id, choice)
        return choice is not None

    def _merge(self, relation_id: int, choice: Choice) -> None:
        engine = self._engine
        with self._merging:
            manifest = engine.committed
            relation = with_copies_shown(manifest).catalog.relations.get(relation_id)
            by_id = {run.id: run for run in manifest.runs.get(relation_id, ())}
            if relation is None or any(id not in by_id for id in choice.inputs):
                return
            self.being_merged = frozenset((relation_id,))
            try:
                finished = self._finished_by(manifest, relation_id) if choice.bottom else None
                self._merge_runs(relation, [by_id[id] for id in choice.inputs], choice, finished)
                self.compactions += 1
            except SparkJobCancelled:
                if relation_id in engine.committed.runs:
                    raise
            except DiskFull:
                self.being_merged = frozenset()
                engine.coordinator.disk_was_full()
                raise
            finally:
                self.being_merged = frozenset()

    def _finished(self, catalog: Catalog) -> dict[int, Finished]:
        """Of internal tables whose rows may go when windows have closed: which; worked out once for a catalog."""
        if self._finished_in[0] is not catalog:
            closes = any(each.lateness is not None for each in catalog)
            tables = (each for each in catalog.of_kind(INTERNAL) if is_complete(each, catalog)) if closes else ()
            found = ((each.id, finished(each, catalog)) for each in tables)
            self._finished_in = (catalog, {id: each for id, each in found if each is not None})
        return self._finished_in[1]

    def _finished_by(self, manifest: Manifest, relation_id: int) -> tuple[str, int] | None:
        """The column and the time of rows that nobody needs any more."""
        if (found := self._finished(manifest.catalog).get(relation_id)) is None:
            return None
        column, (after, ids) = found
        return column, min(watermark(manifest.offsets, id) for id in ids) - after

    def _merge_runs(
        self, relation: Relation, inputs: Sequence[Run], choice: Choice, finished: tuple[str, int] | None
    ) -> None:
        engine = self._engine
        body = MergeRange(
            files=engine.storage.files,
            layout=Layout.of(relation),
            policy=None,
            bottom=choice.bottom,
            finished=finished,
        )
        began = time.monotonic()
        with spark_errors(f'merging runs of "{relation.label}"'), tagged(engine.spark, MERGE_TAG):
            files = merge_ranges(engine.spark, body, runs=inputs, staged=(), indexes=engine.indexes)
        seconds = time.monotonic() - began
        read, written = sum(run.bytes for run in inputs), sum(each.bytes for each in files)
        self.compaction_seconds += seconds
        self.compaction_bytes += read
        told = (len(inputs), relation.label, read, written, seconds)
        log.debug('%d runs of "%s", %d bytes, are merged into %d bytes in %.1f s', *told)
        merged = Run(
            id=uuid.uuid4().hex,
            first_epoch=inputs[0].first_epoch,
            last_epoch=inputs[-1].last_epoch,
            level=choice.level,
            files=tuple(files),
        )
        failpoint("after_merge")
        engine.coordinator.mutate(_replacing(relation.id, choice.inputs, merged), f"merging runs of {relation.label}")

    # --- forgetting --------------------------------------------------------------------------------------------

    def vacuum(self) -> int:
        """Forgets epochs beyond the retention and removes files that no kept epoch names; answers how many."""
        with self._merging:  # a merge's files are named by nobody until it is done
            return self._vacuum()

    def _vacuum(self) -> int:
        engine = self._engine
        self._vacuumed_at = time.monotonic()
        horizon = time.time_ns() // 1000 - engine.parameter("retention") * 1000
        try:
            engine.coordinator.mutate(_forgetting(horizon), "VACUUM")
        except DiskFull:
            # What nothing names can go all the same, and may be what fills the disk.
            self._remove_unnamed()
            raise
        return self._remove_unnamed()

    def _remove_unnamed(self) -> int:
        engine = self._engine
        oldest = engine.committed.history[0][0]
        engine.store.prune(oldest)
        failpoint("after_prune")
        kept = [*engine.store.replay(oldest), engine.coordinator.working]
        now = time.time()
        found = (
            (entry.name, entry.mtime)
            for folder in ("data", "staging", "replica", RESULTS)
            for entry in engine.storage.walk(folder)
        )
        in_flight = set(engine.paths_needed())
        doomed = [
            path
            for path in unreferenced(found, kept, grace_seconds=GRACE_SECONDS, now=now)
            if path.removesuffix(SIDECAR) not in in_flight
            and not (path.startswith(f"{RESULTS}/") and engine.streams.waits(path))
        ]
        doomed += [
            f"{DIRECTORY}/{entry.name}"
            for entry in engine.storage.list(DIRECTORY)
            if entry.name.endswith(TEMPORARY) and now - entry.mtime >= GRACE_SECONDS
        ]
        # What a bulk write stages is a folder of its own, and goes as a whole.
        failpoint("before_delete")
        engine.storage.delete({_staged_folder(path) or path for path in doomed})
        return len(doomed)


def _staged_folder(path: str) -> str | None:
    return "/".join(path.split("/")[:2]) if path.startswith("staging/") else None


def _replacing(relation_id: int, inputs: tuple[str, ...], merged: Run) -> Any:
    def apply(state: Manifest, epoch: int) -> tuple[Manifest, bool]:
        runs = state.runs.get(relation_id, ())
        ids = [run.id for run in runs]
        if any(id not in ids for id in inputs):
            return state, False
        at = ids.index(inputs[0])
        after = [run for run in runs if run.id not in inputs]
        if merged.files:
            after.insert(at, merged)
        return dataclasses.replace(state, runs=state.runs | {relation_id: tuple(after)}), True

    return apply


def _forgetting(horizon: int) -> Any:
    def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
        # A version counts as old from the moment that the next one took its place.
        oldest = state.history[-1][0]
        for (version, _, _), (_, _, replaced_at) in zip(state.history, state.history[1:], strict=False):
            if replaced_at >= horizon:
                oldest = version
                break
        return state.forget_before(oldest), None

    return apply
