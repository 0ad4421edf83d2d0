"""Who waits until a relation is filled, and is told at the commit that decides it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future

from headrace.errors import HeadraceError
from headrace.state.manifest import Manifest

Outcome = HeadraceError | bool | None
"""Why it will not be filled, or that it is; None: neither is known yet"""


class Waiting:
    def __init__(self, outcome: Callable[[Manifest, int], Outcome]):
        self._outcome = outcome
        self._waiting: list[tuple[int, Future]] = []
        self._lock = threading.Lock()

    def add(self, id: int, now: Callable[[], Manifest]) -> Future:
        """``now`` is asked after it waits: a commit in between tells it, too."""
        future: Future = Future()
        with self._lock:
            self._waiting.append((id, future))
        self.committed(now())
        return future

    def committed(self, state: Manifest) -> None:
        if not self._waiting:
            return
        with self._lock:
            told = [(id, future, self._outcome(state, id)) for id, future in self._waiting]
            self._waiting = [(id, future) for id, future, outcome in told if outcome is None]
        for _, future, outcome in told:
            if isinstance(outcome, HeadraceError):
                future.set_exception(outcome)
            elif outcome:
                future.set_result(None)

    def give_up(self, reason: Callable[[int], HeadraceError]) -> None:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for id, future in waiting:
            future.set_exception(reason(id))
