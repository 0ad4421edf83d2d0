"""How a session waits: whoever waits may be told to give up, or not be there any more."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from headrace.engine.coordinator import Coordinator, Request
from headrace.errors import QueryCancelled

LONG = 2.0
"""Seconds after which whoever waits is told for what."""
LOOKS_EVERY = 0.1
"""Seconds"""


class Waiting:
    def __init__(self, coordinator: Coordinator, notify: Callable[[str], None], while_waiting: Callable[[], None]):
        """``while_waiting``: called again and again; raises if nobody is there."""
        self._coordinator = coordinator
        self._notify, self._while_waiting = notify, while_waiting
        self.cancelled = threading.Event()

    def refuse_if_cancelled(self) -> None:
        if self.cancelled.is_set():
            raise QueryCancelled("canceling statement due to user request")

    def refuse_if_unwanted(self) -> None:
        self._while_waiting()
        self.refuse_if_cancelled()

    def patiently(self, future: Future, notice: str | None = None) -> Any:
        """The future's result; an error if the session is cancelled first."""
        started = time.monotonic()
        while not _done(future):
            self.refuse_if_unwanted()
            notice = self._told(notice, started)
        return future.result()

    def answer(
        self, request: Request, *, notice: str | None = None, too_late: Callable[[Any], None] = lambda answer: None
    ) -> Any:
        """What the epoch loop answers. Whoever cancels waits for that, too, and so knows what became of it: as a rule
        it fails and nothing stays, but it may just have been done.

        ``too_late``: takes back what was done although somebody pressed Ctrl-C, where that raises KeyboardInterrupt.
        """
        future = self._coordinator.submit(request, while_waiting=self.refuse_if_unwanted)
        started, interrupt = time.monotonic(), None
        while True:
            try:
                if _done(future):
                    break
                self._while_waiting()
                notice = self._told(notice, started)
            except KeyboardInterrupt as error:
                if interrupt is not None:
                    raise  # pressed twice: whoever does that does not want to know
                interrupt = error
            if interrupt is not None or self.cancelled.is_set():
                self._coordinator.cancel(request)
        if interrupt is not None:
            if future.exception() is None:
                too_late(future.result())
            raise interrupt
        return future.result()

    def _told(self, notice: str | None, started: float) -> str | None:
        """What is still to be told."""
        if notice is None or time.monotonic() - started <= LONG:
            return notice
        self._notify(notice)
        return None


def _done(future: Future) -> bool:
    """Waits a moment for it."""
    try:
        future.exception(timeout=LOOKS_EVERY)
    except TimeoutError:
        return future.done()
    return True
