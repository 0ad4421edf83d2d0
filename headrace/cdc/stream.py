"""Reading a log: one connection, in a thread of its own, that answers the server whatever else goes on.

Transactions wait here, up to a bound. Beyond it nothing more is read, and the server keeps the rest. What is the same
for all databases is here: what waits, what has been taken, and where to go on after a lost connection.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from headrace.cdc.changelog import Piece
from headrace.errors import HeadraceError

log = logging.getLogger("headrace")

BUFFER_BYTES = 64 << 20
"""Of messages that wait, and about what Python needs to hold them"""

PIECE_OVERHEAD, EVENT_OVERHEAD = 600, 150
"""Bytes of a transaction, and of a change in it, whatever they say"""

RETRY_SECONDS = (0.2, 0.5, 1, 2, 5, 10, 30)


def after_failure(failures: int, lasted: float, *, got_on: bool = False) -> tuple[int, float]:
    """How many in a row it is now, and how long to wait. One after a minute, or after some of the log, is the first.

    >>> after_failure(0, 1), after_failure(6, 2), after_failure(6, 61), after_failure(6, 2, got_on=True)
    ((1, 0.2), (7, 30), (1, 0.2), (1, 0.2))
    """
    failures = 1 if lasted > 60 or got_on else failures + 1
    return failures, RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1]


class LogFeed:
    """From a server's log to pieces of transactions, from a position on. It reconnects by itself."""

    def __init__(self, name: str, *, position: int, skip: int = 0, on_news: Callable[[], None]):
        self._name = name
        self._on_news = on_news
        self._lock = threading.Condition()
        self._pieces: deque[tuple[Piece, int, int, int]] = deque()
        """With the size of their messages, what they take here, and what had been reached before they arrived"""
        self._bytes = 0
        self._taken = (position, skip)
        """Where to go on after a lost connection: all before has been taken, and so many events of what follows."""
        self._part_of = 0
        """The commit of the transaction that those events are of; 0: it has not been seen on any connection yet"""
        self._reached = position
        """All that was committed before has been received"""
        self._durable = position
        self._stopping = False
        self._resting = False
        self._nudged = False
        self.error: HeadraceError | None = None
        """Why there is no connection now"""
        self._thread = threading.Thread(target=self._run, name="headrace-log", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
            self._lock.notify_all()
        if self._thread.is_alive():
            self._thread.join()

    def let_go(self) -> None:
        """Gives the connection up until somebody goes on: nothing else of the server can be reached. One that is being
        shut down waits for those who read its log to confirm all of it, and for nothing else."""
        with self._lock:
            self._resting = True
            self._lock.notify_all()

    def go_on(self) -> None:
        with self._lock:
            self._resting = False
            self._lock.notify_all()

    # --- for whoever applies the log ---------------------------------------------------------------------------

    def peek(self, events: int) -> list[Piece]:
        """What has arrived, from the first piece on, about so many events; it stays until it is taken."""
        with self._lock:
            found: list[Piece] = []
            for piece, size, *_ in self._pieces:
                if found and events < self._weight(piece, size):
                    break
                events -= self._weight(piece, size)
                found.append(piece)
            return found

    def _weight(self, piece: Piece, size: int) -> int:
        """About how many changes of rows it has."""
        return len(piece.events)

    def take(self, pieces: Sequence[Piece]) -> None:
        """They are applied. They may have gone from here, or have come again: the connection was lost meanwhile."""
        with self._lock:
            for piece in pieces:
                if piece.final:
                    self._taken, self._part_of = (piece.position, 0), 0
                else:
                    self._taken, self._part_of = (self._taken[0], piece.first + len(piece.events)), piece.commit
            while self._pieces and not self._wanted(self._pieces[0][0]):
                self._bytes -= self._pieces.popleft()[2]
            self._lock.notify_all()

    def _wanted(self, piece: Piece) -> bool:
        """Whether any of it is still to be taken; what is not is cut off."""
        position, skip = self._taken
        if piece.commit < position:
            return False
        if skip and piece.commit == self._part_of and piece.first < skip:
            piece.events, piece.first = piece.events[skip - piece.first :], skip
            return bool(piece.events) or piece.final
        return True

    @property
    def taken(self) -> int:
        """Where the last transaction that was taken whole ends."""
        with self._lock:
            return self._taken[0]

    @property
    def position(self) -> int:
        """All that was committed before has been taken."""
        with self._lock:
            taken, part = self._taken
            return taken if part else max(taken, self._pieces[0][3] if self._pieces else self._reached)

    @property
    def received(self) -> int:
        """All that was committed before has arrived."""
        with self._lock:
            return self._reached

    @property
    def full(self) -> bool:
        """Whether no more is read before some of it is taken."""
        with self._lock:
            return self._bytes > BUFFER_BYTES

    def confirm(self, position: int) -> None:
        """All before is durable with us: the server may forget it."""
        with self._lock:
            self._durable = max(self._durable, position)
            if self._taken[1] == 0:
                # It may lie behind the last transaction; a server that has forgotten what was before starts there.
                self._taken = (max(self._taken[0], position), 0)

    def known_at(self, position: int) -> dict[str, Any]:
        """What else has to be known of a position to go on from there: fields of the source's state."""
        return {}

    def nudge(self) -> None:
        """Asks the server how far it is; somebody waits for a position."""
        with self._lock:
            self._nudged = True

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._stopping:
            began, taken = time.monotonic(), self._taken
            try:
                self._stream()
            except HeadraceError as error:
                self.error = error
            except Exception as error:  # a fault of ours: the source shows it, and tries again
                log.exception("unexpected error while reading a log")
                self.error = HeadraceError(f"unexpected error: {type(error).__name__}: {error}")
            with self._lock:
                rested = self._resting
                self._lock.wait_for(lambda: self._stopping or not self._resting)
            if self._stopping:
                return
            if rested:
                failures = 0
                continue
            got_on = self._taken != taken  # who only connects, and is then refused, has not
            failures, patience = after_failure(failures, time.monotonic() - began, got_on=got_on)
            log.warning("the log of %s cannot be read, next attempt in %s s: %s", self._name, patience, self.error)
            self._on_news()
            with self._lock:
                self._lock.wait_for(lambda: self._stopping, timeout=patience)

    def _stream(self) -> None:
        """Connects and reads, until the connection is lost or it is told to stop."""
        raise NotImplementedError

    def _connected(self) -> None:
        if self.error is not None:
            log.info("the log of %s is read again", self._name)
        self.error = None

    def _begin_anew(self) -> tuple[int, int]:
        """What waits has not been taken; it comes again. Answers from where on."""
        with self._lock:
            self._pieces.clear()
            self._bytes = 0
            self._reached = self._taken[0]
            return self._taken

    def _arrived(self, piece: Piece, size: int) -> None:
        with self._lock:
            if self._wanted(piece):
                held = size + PIECE_OVERHEAD + EVENT_OVERHEAD * len(piece.events)
                self._pieces.append((piece, size, held, self._reached))
                self._bytes += held
            if piece.final:
                self._reached = max(self._reached, piece.position)
        self._on_news()

    def _advance(self, position: int) -> None:
        with self._lock:
            moved = position > self._reached
            self._reached = max(self._reached, position)
        if moved:
            self._on_news()
