"""Jobs for Python: what SHOW JOBS, WAIT, CANCEL, PAUSE and RESUME do, as objects."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from headrace.catalog import INDEX, MATERIALIZED_VIEW
from headrace.engine.engine import Engine
from headrace.errors import UndefinedJob
from headrace.serving.progress import CANCELLED, DONE, Progress


class JobHandle:
    """What is being filled, or was: a view, an index, a table of a source. It is up to date whenever it is asked."""

    def __init__(self, engine: Engine, id: int, name: str, statement: str):
        self._engine = engine
        self.id = id
        self.name = name
        self.statement = statement
        self._last = Progress(state=DONE)
        self._future: Future | None = None
        self.progress()

    def progress(self) -> Progress:
        """One look. It reads the committed state in memory, so it may be asked many times a second.

        A job that is over keeps the row counts of the last look.
        """
        try:
            found = self._engine.jobs.progress(self.id)
        except UndefinedJob:
            done = self.id in self._engine.committed.catalog.relations
            self._last = Progress(
                state=DONE if done else CANCELLED,
                fraction=1.0 if done else self._last.fraction,
                rows_read=self._last.rows_total if done else self._last.rows_read,
                rows_total=self._last.rows_total,
            )
        else:
            self._last = Progress.of(found)
        return self._last

    @property
    def error(self) -> str | None:
        """Why it failed, if it did."""
        try:
            return self._engine.jobs.progress(self.id)["error"]
        except UndefinedJob:
            return None

    def wait(self, timeout: float | None = None) -> None:
        """Until it is done and committed; the job's error if it failed or was cancelled, TimeoutError after so many
        seconds. The job goes on after a timeout."""
        # One future however often somebody waits with a timeout; but one that is over says nothing about a second try.
        if self._future is None or self._future.done():
            self._future = self._engine.jobs.finished(self.id)
        try:
            self._future.result(timeout)
        except TimeoutError:
            raise TimeoutError(f'"{self.name}" is not filled after {timeout} s') from None

    def cancel(self) -> bool:
        """Gives the job up and drops what it was filling; False if it was over already."""
        return self.id in self._engine.jobs.cancel((self.id,))

    def pause(self) -> None:
        self._engine.jobs.pause(self.id, paused=True)

    def resume(self) -> None:
        """After a pause from where it was; after a failure from the beginning."""
        self._engine.jobs.pause(self.id, paused=False)

    def __repr__(self) -> str:
        return f"<job {self.id}: {self.name}, {self._last.state}, {self._last.fraction:.0%}>"


def running_jobs(engine: Engine) -> list[JobHandle]:
    return [_handle(engine, job) for job in engine.jobs.list()]


def find_job(engine: Engine, name_or_id: str | int) -> JobHandle:
    """Also of a relation that is complete: it may have been filled before anybody could ask."""
    if isinstance(name_or_id, str):
        relation = engine.committed.catalog.get(name_or_id)
        if not relation.follows:
            relation = engine.committed.catalog.get(name_or_id, MATERIALIZED_VIEW, INDEX)
        return JobHandle(engine, relation.id, relation.name, relation.definition or "")
    relation = engine.committed.catalog.relations.get(name_or_id)
    if relation is None or not (relation.follows or relation.kind in (MATERIALIZED_VIEW, INDEX)):
        raise UndefinedJob(f"there is no job {name_or_id}", hint="SHOW JOBS lists them")
    return JobHandle(engine, relation.id, relation.name, relation.definition or "")


def _handle(engine: Engine, job: dict[str, Any]) -> JobHandle:
    return JobHandle(engine, job["id"], job["name"], job["statement"])
