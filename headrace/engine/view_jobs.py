"""Jobs that read the history of sources into views: how far they are, and what can be asked of them while they run.

What is asked for is a part of the view's state in the manifest, so it holds after a restart; the source's reader looks
there before each chunk.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from headrace.engine.feeds import ViewState, restarted_view, view_state, views_being_filled, with_view
from headrace.engine.waiting import Outcome, Waiting
from headrace.errors import EngineClosed, JobCancelled, JobFailed, UndefinedJob
from headrace.state.manifest import Manifest

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

ALMOST = 0.99
"""As much as progress says before the end"""


class ViewJobs:
    def __init__(self, engine: Engine):
        self._engine = engine
        self._waiting = Waiting(_outcome)

    def has(self, state: Manifest, id: int) -> bool:
        return view_state(state, id) is not None

    # --- requests ----------------------------------------------------------------------------------------------

    def pause(self, id: int, *, paused: bool) -> None:
        def change(state: Manifest, view: ViewState, epoch: int) -> Manifest:
            if paused or view.error is None:
                return with_view(state, id, dataclasses.replace(view, paused=paused))
            return restarted_view(state, id, view, epoch)

        self._change(id, change, "PAUSE" if paused else "RESUME")

    def set_rate_limit(self, id: int, limit: int | None) -> None:
        self._change(
            id, lambda state, view, _: with_view(state, id, dataclasses.replace(view, rate_limit=limit)), "ALTER"
        )

    def _change(self, id: int, change: Callable[[Manifest, ViewState, int], Manifest], what: str) -> None:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, ViewState]:
            view = view_state(state, id)
            if view is None:
                raise UndefinedJob(f"there is no job {id}", hint="SHOW JOBS lists them")
            return change(state, view, epoch), view

        self._engine.event_sources.wake(self._engine.coordinator.mutate(apply, what))

    # --- looking -----------------------------------------------------------------------------------------------

    def list(self) -> list[dict[str, Any]]:
        state = self._engine.committed
        return [self._described(state, id, view) for id, view in views_being_filled(state).items()]

    def _described(self, state: Manifest, id: int, view: ViewState) -> dict[str, Any]:
        relation = state.catalog.relations[id]
        readers = [(each, self._engine.event_sources.reader(each)) for each in view.inputs]
        troubles = [reader.trouble(id) for _, reader in readers if reader is not None]
        errors = [each.message for each in troubles if each is not None]
        described = "running"
        if view.error is not None:
            described = "failed"
        elif errors:
            described = "retrying"
        elif view.on_hold or self._engine.parameter("paused"):
            described = "paused"
        rates = [rate for _, reader in readers if reader is not None and (rate := reader.rate(id)) is not None]
        rate = sum(rates) if rates else None
        names = {each: state.catalog.relations[each].name for each in view.inputs}
        return {
            "id": id, "name": relation.name, "statement": relation.definition, "background": view.background,
            "state": described,
            "error": view.error or (errors[0] if errors else None), "strategy": "source",
            "parallelism": view.parallelism, "rate_limit": view.rate_limit,
            "fraction": min(ALMOST, view.read / view.total if view.total else 0.0),
            "rows_read": view.read, "rows_total": view.total,
            "rows_in_flight": sum(reader.in_flight(id) for _, reader in readers if reader is not None),
            "rows_per_second": rate,
            "seconds_left": (view.total - view.read) / rate if rate and described == "running" else None,
            "started_at": view.started_at,
            "inputs": {names[each]: "done" if view.inputs[each].done else described for each in view.inputs},
            "splits_done": sum(stage.done for each in view.inputs.values() for stage in each.stages.values()),
            "splits_total": sum(len(each.stages) for each in view.inputs.values()),
            "lag_bytes": None, "lag_seconds": None,
        }  # fmt: skip

    def positions(self, id: int) -> list[tuple[str, int | None, str]]:
        """Of each split: the next offset, and where the stream begins."""
        state = self._engine.committed
        view = view_state(state, id)
        if view is None:
            raise UndefinedJob(f"there is no job {id}", hint="SHOW JOBS lists them")
        return [
            (
                f"{state.catalog.relations[source].name} partition {split}",
                None,
                "done" if stage.done else f"at offset {stage.at} of {stage.until}",
            )
            for source, handover in view.inputs.items()
            for split, stage in sorted(handover.stages.items())
        ]

    # --- waiting -----------------------------------------------------------------------------------------------

    def finished(self, id: int) -> Future:
        """Done when the view is complete; the reason, if it will not be."""
        return self._waiting.add(id, lambda: self._engine.committed)

    def committed(self, state: Manifest) -> None:
        self._waiting.committed(state)

    def stop(self) -> None:
        self._waiting.give_up(
            lambda id: EngineClosed(f"the database was closed; job {id} goes on when it is opened again")
        )


def _outcome(state: Manifest, id: int) -> Outcome:
    if id not in state.catalog.relations:
        return JobCancelled(f"job {id} was cancelled")
    view = view_state(state, id)
    if view is not None and view.error is not None:
        return JobFailed(view.error, hint=f"RESUME JOB {id} starts it again, CANCEL JOB {id} removes it")
    return True if view is None else None
