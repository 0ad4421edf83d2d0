"""Building relations that follow their inputs key by key (:mod:`headrace.engine.keyed`), beside the epochs.

Such a relation waits until its inputs are complete. Then a query of Spark's computes a part of it as of one epoch and
writes it, while epochs go on: a range of vnodes, or all of it where its inputs are not stored by its key. When it is
ready it lands in the next epoch, together with what its inputs have gone through meanwhile: the keys that were touched
since are computed once more. From then on that part is kept up to date, while the next one is built.

The job in the manifest says which parts have landed. So after a crash at most one part is computed again.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

from headrace.backfill.job import Job
from headrace.catalog import Catalog, Relation
from headrace.engine.filling import finished, with_job
from headrace.engine.replica import DeltaLog
from headrace.errors import HeadraceError
from headrace.failpoints import failpoint
from headrace.state.manifest import Manifest
from headrace.state.runs import Run, RunFile
from headrace.state.vnode import VNODES

PART_ROWS = 4_000_000
"""Stored rows of the inputs that a part is computed from, about: what one query of Spark's holds, and what a crash may
cost."""

MOST_PARTS = 64

BUILD = "build"
"""Under which the log keeps what was written to inputs meanwhile."""


@dataclass(kw_only=True, eq=False)
class Build:
    """A relation that is being computed, or waits for its epoch."""

    relation: Relation
    state: Manifest
    """As of which it is computed: its files must stay until then."""
    vnodes: range
    future: Future[list[RunFile]]

    @property
    def job_id(self) -> int:
        return self.relation.id

    @property
    def snapshot(self) -> int:
        return self.state.epoch

    @property
    def inputs(self) -> tuple[int, ...]:
        return self.relation.reads


class Builds:
    def __init__(self, pool: ThreadPoolExecutor, log: DeltaLog, on_ready: Callable[[], None]):
        self._pool, self._log, self._on_ready = pool, log, on_ready
        self.compute: Callable[[Manifest, Relation, range], list[RunFile]] | None = None
        self.running: list[Build] = []
        self._begun: dict[int, tuple[float, float]] = {}
        """When the last part of a job was begun, by time.monotonic(), and from how many rows it is computed."""

    def may_launch(self, job: Job) -> float:
        """When the next part may be begun, by time.monotonic(): a rate limit makes it wait."""
        begun, rows = self._begun.get(job.id, (0.0, 0.0))
        return begun + rows / job.rate_limit if job.rate_limit else 0.0

    def launch(self, job: Job, working: Manifest, prepare: Callable[[str], None]) -> None:
        relation = working.catalog.relations[job.id]
        inputs = [working.catalog.relations[id] for id in relation.reads]
        if any(each.creating for each in inputs) or any(each.job_id == job.id for each in self.running):
            return
        vnodes = next_part(relation, working, job.built, job.rate_limit)
        self._begun[job.id] = (time.monotonic(), _rows(relation, working) * len(vnodes) / VNODES)
        build = Build(relation=relation, state=working, vnodes=vnodes, future=Future())
        build.future.add_done_callback(lambda _: self._on_ready())

        def work() -> None:
            try:
                prepare(relation.name)
                assert self.compute is not None
                files = self.compute(working, relation, vnodes)
                failpoint("after_build")
                build.future.set_result(files)
            except BaseException as error:
                build.future.set_exception(error)

        self.running.append(build)
        self._pool.submit(work)

    def drop_stale(self, jobs: dict[int, Job]) -> None:
        """What was dropped, has failed, or is begun anew."""
        self._begun = {id: each for id, each in self._begun.items() if id in jobs}
        self.running = [
            each
            for each in self.running
            if each.job_id in jobs
            and jobs[each.job_id].error is None
            and each.snapshot >= jobs[each.job_id].created_epoch
            and each.vnodes.start == jobs[each.job_id].built
        ]

    @property
    def any_ready(self) -> bool:
        return any(each.future.done() for each in self.running)

    def ready(self, jobs: dict[int, Job], failure: Callable[[Job, BaseException], HeadraceError | None]):
        """What can land now, and the jobs that cannot go on, with the reason."""
        done, failed = [each for each in self.running if each.future.done()], {}
        for each in done:
            if (error := each.future.exception()) is not None:
                self.running.remove(each)
                if (reason := failure(jobs[each.job_id], error)) is not None:
                    failed[each.job_id] = reason
        return [each for each in done if each in self.running], failed

    def have_landed(self, builds: Sequence[Build]) -> None:
        self.running = [each for each in self.running if each not in builds]

    def record(self, written: dict[int, list[RunFile]], epoch: int) -> None:
        """Keeps what an epoch wrote to inputs of what is being built."""
        for id in {id for each in self.running for id in each.inputs}:
            self._log.record(BUILD, id, epoch, written.get(id, ()))

    def missed(self, builds: Sequence[Build]) -> dict[int, dict[int, list[RunFile]]]:
        """What was written to the inputs of each since it was begun."""
        return {
            each.job_id: {id: list(self._log.since(BUILD, id, each.snapshot)) for id in each.inputs} for each in builds
        }

    def paths(self) -> Iterator[str]:
        """Files that must stay."""
        for each in list(self.running):
            for id in each.state.catalog.stored_inputs(each.inputs):
                yield from (file.path for run in each.state.runs.get(id, ()) for file in run.files)
            if each.future.done() and each.future.exception() is None:
                yield from (file.path for file in each.future.result())


def builds_in(landings: Sequence[Build | object]) -> list[Build]:
    return [each for each in landings if isinstance(each, Build)]


def next_part(relation: Relation, state: Manifest, built: int, rate_limit: int | None = None) -> range:
    """The vnodes to compute after those that are there already; with a rate limit, a second's worth of rows."""
    # What is added to old values must be added once, and parts that come later would see again what others followed.
    if relation.operator.passing or relation.operator.adds or not in_parts(relation, state.catalog):
        return range(VNODES)
    size, most = (PART_ROWS, MOST_PARTS) if not rate_limit else (min(PART_ROWS, rate_limit), VNODES)
    parts = max(1, min(most, -(-_rows(relation, state) // size)))
    return range(built, min(VNODES, built - (-VNODES // parts)))


def _rows(relation: Relation, state: Manifest) -> int:
    """Of the inputs."""
    return sum(run.rows for id in relation.reads for run in state.runs.get(id, ()))


def in_parts(relation: Relation, catalog: Catalog) -> bool:
    """Whether the rows of its vnodes follow from its inputs' rows of the same vnodes."""
    operator = relation.operator
    assert operator is not None
    if not operator.key or operator.follows_changes or relation.distribution != operator.key:
        return False
    own = [relation.column(name).type for name in operator.key]
    for id, columns in operator.inputs:
        source = catalog.relations[id]
        if source.distribution != columns or [source.column(name).type for name in columns] != own:
            return False
    return True


def landed(state: Manifest, build: Build, job: Job) -> Manifest:
    """The relation with what was computed, and complete if that is all."""
    files = build.future.result()
    if files:
        run = Run(
            id=uuid.uuid4().hex,
            first_epoch=build.snapshot,
            last_epoch=build.snapshot,
            files=tuple(files),
            base=True,
        )
        state = dataclasses.replace(state, runs=state.runs | {job.id: (*state.runs.get(job.id, ()), run)})
    job = job.replace(built=build.vnodes.stop)
    return finished(state, job) if job.built == VNODES else with_job(state, job)
