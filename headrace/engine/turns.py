"""A thread that does whatever can be done, turn after turn, and has patience with what fails.

There is one for each source that is followed or read. A turn that fails is tried again, less often each time; what went
wrong is kept for whoever asks, and logged once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.errors import EngineClosed, Fenced, HeadraceError, SparkJobCancelled

log = logging.getLogger("headrace")

SHORTEST, LONGEST = 0.1, 30.0
"""Seconds between two attempts; each failure doubles them"""

AFTER_A_FAULT = 5.0

STOPPING = 5.0
"""Seconds that a turn has to come to its end when it is to be the last"""


class Turns:
    def __init__(
        self, turn: Callable[[], bool], *, thread: str, subject: Callable[[], str], idle_seconds: Callable[[], float]
    ):
        """``turn`` answers whether there may be more to do at once; ``subject`` is what log lines begin with."""
        self._turn, self._subject, self._idle_seconds = turn, subject, idle_seconds
        self.news = threading.Event()
        """Set by whoever knows that there is something to do"""
        self.stopping = False
        self.error: HeadraceError | None = None
        """Of the last turn"""
        self._thread = threading.Thread(target=self._run, name=thread, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, interrupt: Callable[[], None] = lambda: None) -> None:
        """No turn is running when it returns, and none begins. ``interrupt`` is for one that takes long."""
        self.stopping = True
        self.news.set()
        if self._thread.is_alive():
            self._thread.join(STOPPING)
            interrupt()
            self._thread.join()

    def _run(self) -> None:
        patience = SHORTEST
        while not self.stopping:
            self.news.clear()
            try:
                busy = self._turn()
            except (EngineClosed, Fenced):
                return
            except SparkJobCancelled:
                continue
            except HeadraceError as error:
                if not self.stopping:
                    self._failed(error)
                    self._rest(patience)
                    patience = min(LONGEST, patience * 2)
            except Exception as error:  # a fault of ours: it is shown, and tried again
                if not self.stopping:
                    log.exception("%s: unexpected error", self._subject())
                    self.error = HeadraceError(f"unexpected error: {type(error).__name__}: {error}")
                    self._rest(AFTER_A_FAULT)
            else:
                if self.error is not None:
                    log.info("%s: goes on", self._subject())
                self.error, patience = None, SHORTEST
                if not busy:
                    self.news.wait(self._idle_seconds())

    def _failed(self, error: HeadraceError) -> None:
        if self.error is None or self.error.message != error.message:
            log.warning("%s: %s", self._subject(), error.for_log)
        self.error = error

    def _rest(self, seconds: float) -> None:
        """News of before the failure are none: only what comes from now on is a reason to try sooner."""
        self.news.clear()
        if not self.stopping:
            self.news.wait(seconds)
