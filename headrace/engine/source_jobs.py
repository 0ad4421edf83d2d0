"""Jobs that read tables of a source: how far they are, and what can be asked of them while they run.

What is asked for is a part of the table's state in the manifest, so it holds after a restart; its follower looks there
before each chunk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from headrace.cdc.intake import Progress
from headrace.cdc.lag import Lag
from headrace.engine.follower import Follower
from headrace.engine.following import (
    TableState,
    copy_of,
    is_following,
    progress_of,
    table_state,
    tables_of,
    with_following,
    without_copy,
)
from headrace.engine.waiting import Outcome, Waiting
from headrace.errors import EngineClosed, JobCancelled, JobFailed, UndefinedJob
from headrace.state.manifest import Manifest
from headrace.types import quote_sql

if TYPE_CHECKING:
    from headrace.engine.engine import Engine


class SourceJobs:
    def __init__(self, engine: Engine):
        self._engine = engine
        self._waiting = Waiting(_outcome)

    # --- requests ----------------------------------------------------------------------------------------------

    def has(self, state: Manifest, id: int) -> bool:
        """Whether the table is being filled, or read anew, or has stopped."""
        if not is_following(state, id):
            return False
        progress = progress_of(state, id)
        return not progress.done or progress.error is not None or copy_of(state, id) is not None

    def pause(self, id: int, *, paused: bool) -> None:
        state = self._engine.committed
        if not paused and self.has(state, id) and _subject(state, id)[1].error is not None:
            self._engine.sources.resnapshot(state.catalog.relations[id].name)
            return
        self._change(id, lambda table: dataclasses.replace(table, paused=paused), "PAUSE" if paused else "RESUME")

    def set_rate_limit(self, id: int, limit: int | None) -> None:
        self._change(id, lambda table: dataclasses.replace(table, rate_limit=limit), "ALTER")

    def _change(self, id: int, change: Callable[[TableState], TableState], what: str) -> None:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, int]:
            self._refuse_if_none(state, id)
            source_id = table_state(state, id).source_id
            for each, table in tables_of(state, copies=True).items():
                if id in (each, table.copy_of):
                    state = with_following(state, each, change(table))
            return state, source_id

        self._wake(self._engine.coordinator.mutate(apply, what))

    def given_up(self, state: Manifest, id: int) -> Manifest | None:
        """Without what the table is read into anew; None: it is not, and has to be dropped itself."""
        return None if copy_of(state, id) is None else without_copy(state, id)

    def _refuse_if_none(self, state: Manifest, id: int) -> None:
        if not self.has(state, id):
            raise UndefinedJob(f"there is no job {id}", hint="SHOW JOBS lists them")

    def _wake(self, source_id: int) -> None:
        if (follower := self._engine.sources.follower(source_id)) is not None:
            follower.wake()

    # --- looking -----------------------------------------------------------------------------------------------

    def list(self) -> list[dict[str, Any]]:
        """The tables that are being filled, have stopped, or whose source has trouble."""
        state, found = self._engine.committed, []
        for id, table in tables_of(state).items():
            follower = self._engine.sources.follower(table.source_id)
            if self.has(state, id) or follower is None or follower.trouble(id) is not None:
                found.append(self._described(state, id, follower))
        return found

    def _described(self, state: Manifest, id: int, follower: Follower | None) -> dict[str, Any]:
        relation, (table, progress, subject) = state.catalog.relations[id], _subject(state, id)
        described = self._state(subject, table, progress, follower)
        rate = None if follower is None else follower.rate(subject)
        total = max(progress.total, progress.rows)
        left = total - progress.rows
        broken = self._engine.sources.broken.get(table.source_id)
        trouble = broken if follower is None else getattr(follower.trouble(subject), "message", None)
        lag = Lag() if follower is None else follower.lag()
        return {
            "id": id, "name": relation.name,
            "statement": relation.definition if subject == id else f"RESNAPSHOT TABLE {quote_sql(relation.name)}",
            "background": True,
            "state": described, "error": progress.error or trouble,
            "strategy": "cdc", "parallelism": table.parallelism, "rate_limit": table.rate_limit,
            "fraction": 1.0 if progress.done and subject == id else min(0.99, progress.rows / total if total else 0.0),
            "rows_read": progress.rows, "rows_total": total, "rows_in_flight": 0, "rows_per_second": rate,
            "seconds_left": left / rate if rate and described == "running" else None,
            "started_at": table.started_at, "inputs": {table.table.full_name: described},
            "splits_done": progress.splits, "splits_total": progress.splits_expected(table.split_rows),
            "lag_bytes": lag.bytes, "lag_seconds": lag.seconds,
        }  # fmt: skip

    def _state(self, id: int, table: TableState, progress: Progress, follower: Follower | None) -> str:
        if progress.error is not None or follower is None:
            return "failed"
        if follower.trouble(id) is not None:
            return "retrying"
        if table.on_hold or self._engine.parameter("paused"):
            return "paused"
        # A copy that is complete waits for its turn, or for views that are being filled from the table.
        return "waiting" if progress.done or follower.waits_for_others(id) else "running"

    def positions(self, id: int) -> list[tuple[str, int | None, str]]:
        state = self._engine.committed
        self._refuse_if_none(state, id)
        table, progress, _ = _subject(state, id)
        at = "not started" if progress.at is None else f"before ({', '.join(progress.at)})"
        return [(table.table.full_name, None, "done" if progress.done else at)]

    # --- waiting -----------------------------------------------------------------------------------------------

    def finished(self, id: int) -> Future:
        """Done when the table is filled; the reason, if it has stopped."""
        return self._waiting.add(id, lambda: self._engine.committed)

    def committed(self, state: Manifest) -> None:
        self._waiting.committed(state)

    def stop(self) -> None:
        self._waiting.give_up(lambda _: EngineClosed("the database is closed"))


def _subject(state: Manifest, id: int) -> tuple[TableState, Progress, int]:
    """What is being filled, and its id: the table itself, or what it is read into anew."""
    copy = copy_of(state, id)
    subject = id if copy is None else copy.id
    return table_state(state, subject), progress_of(state, subject), subject


def _outcome(state: Manifest, id: int) -> Outcome:
    """Why a table will not be filled, or that it is; None: neither is known yet."""
    if id not in state.catalog.relations:
        return JobCancelled("the table was dropped")
    _, progress, subject = _subject(state, id)
    if progress.error is not None:
        return JobFailed(f'table "{state.catalog.relations[id].name}" has stopped: {progress.error}')
    return (progress.done and subject == id) or None
