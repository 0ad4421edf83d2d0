"""Reading the log: one connection, in a thread of its own, that answers the server whatever else goes on.

Transactions wait here, up to a bound. Beyond it nothing more is read, and the server keeps the rest: it is told every
few seconds that we are alive, and what is durable with us. Only that it may forget.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from headrace.cdc.changelog import Piece
from headrace.cdc.postgres.pgoutput import Begin, Commit, Decoder, RowChange, Truncated
from headrace.cdc.postgres.server import Address, Control, SourceRefused, driver, format_lsn, parse_lsn
from headrace.errors import HeadraceError

log = logging.getLogger("headrace")

BUFFER_BYTES = 64 << 20
"""Of messages that wait; as Python objects they are a few times as large"""

PIECE_EVENTS = 50_000
"""A transaction with more changes is handed over in several pieces."""

FEEDBACK_SECONDS = 5.0
"""How often the server hears of us; or more often, if it has less patience (wal_sender_timeout)"""

RETRY_SECONDS = (0.2, 0.5, 1, 2, 5, 10, 30)


class LogStream:
    """From the server's log to pieces of transactions, from a position on. It reconnects by itself."""

    def __init__(
        self,
        address: Address,
        *,
        slot: str,
        publication: str,
        position: int,
        skip: int = 0,
        on_news: Callable[[], None],
    ):
        self._address, self._slot, self._publication = address, slot, publication
        self._on_news = on_news
        self._lock = threading.Condition()
        self._pieces: deque[tuple[Piece, int, int]] = deque()
        """With their size, and what had been reached before they arrived"""
        self._bytes = 0
        self._taken = (position, skip)
        """Where to go on after a lost connection: all before has been taken, and so many events of what follows."""
        self._part_of = 0
        """The commit of the transaction that those events are of; 0: it has not been seen on any connection yet"""
        self._reached = position
        """All that was committed before has been received"""
        self._durable = position
        self._stopping = False
        self._nudged = False
        self._feedback_seconds = FEEDBACK_SECONDS
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

    # --- for whoever applies the log ---------------------------------------------------------------------------

    def peek(self, events: int) -> list[Piece]:
        """What has arrived, from the first piece on, about so many events; it stays until it is taken."""
        with self._lock:
            found: list[Piece] = []
            for piece, _, _ in self._pieces:
                if found and events < len(piece.events):
                    break
                events -= len(piece.events)
                found.append(piece)
            return found

    def take(self, pieces: Sequence[Piece]) -> None:
        """They are applied. They may have gone from here, or have come again: the connection was lost meanwhile."""
        with self._lock:
            for piece in pieces:
                if piece.final:
                    self._taken, self._part_of = (piece.position, 0), 0
                else:
                    self._taken, self._part_of = (self._taken[0], piece.first + len(piece.events)), piece.commit
            while self._pieces and not self._wanted(self._pieces[0][0]):
                self._bytes -= self._pieces.popleft()[1]
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
            return taken if part else max(taken, self._pieces[0][2] if self._pieces else self._reached)

    def confirm(self, position: int) -> None:
        """All before is durable with us: the server may forget it."""
        with self._lock:
            self._durable = max(self._durable, position)
            if self._taken[1] == 0:
                # It may lie behind the last transaction; a server that has forgotten what was before starts there.
                self._taken = (max(self._taken[0], position), 0)

    def nudge(self) -> None:
        """Asks the server how far it is; somebody waits for a position."""
        with self._lock:
            self._nudged = True

    # --- the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        failures = 0
        while not self._stopping:
            began = time.monotonic()
            try:
                self._stream()
            except HeadraceError as error:
                self.error = error
            except Exception as error:  # a fault of ours: the source shows it, and tries again
                log.exception("unexpected error while reading a log")
                self.error = HeadraceError(f"unexpected error: {type(error).__name__}: {error}")
            if self._stopping:
                return
            failures = 0 if time.monotonic() - began > 60 else failures + 1
            patience = RETRY_SECONDS[min(failures, len(RETRY_SECONDS)) - 1]
            log.warning("the log of %s cannot be read, next attempt in %s s: %s", self._address, patience, self.error)
            self._on_news()
            with self._lock:
                self._lock.wait_for(lambda: self._stopping, timeout=patience)

    def _check_slot(self, start: int) -> None:
        """A server goes on from wherever its slot is, whatever it is asked for. What lies between would be lost."""
        control = Control(self._address)
        try:
            slot, patience = control.slot(self._slot), control.sender_timeout()
        finally:
            control.close()
        self._feedback_seconds = min(FEEDBACK_SECONDS, patience / 3) if patience else FEEDBACK_SECONDS
        again = "drop the source and its tables, and create them again"
        if slot is None:
            raise SourceRefused(f'the replication slot "{self._slot}" is gone', hint=again)
        if slot["wal_status"] == "lost":
            raise SourceRefused(
                f'the replication slot "{self._slot}" is lost: the server has removed the log that it needs',
                hint=f"{again}; see max_slot_wal_keep_size",
            )
        if parse_lsn(slot["confirmed"]) > start:
            raise SourceRefused(
                f'the replication slot "{self._slot}" is at {slot["confirmed"]}, but {format_lsn(start)} is needed:'
                " somebody else has read from it, or made it anew",
                hint=again,
            )

    def _stream(self) -> None:
        psycopg2 = driver()
        self._check_slot(self._taken[0])
        connection = self._address.connect(connection_factory=psycopg2.extras.LogicalReplicationConnection)
        try:
            with self._address.errors():
                cursor = connection.cursor()
                start, skip = self._begin_anew()
                cursor.start_replication(
                    slot_name=self._slot,
                    start_lsn=format_lsn(start),
                    options={"proto_version": "1", "publication_names": f'"{self._publication}"'},
                )
                self.error = None
                self._read(cursor, start, skip)
        finally:
            connection.close()

    def _begin_anew(self) -> tuple[int, int]:
        """What waits has not been taken; it comes again. Answers from where on."""
        with self._lock:
            self._pieces.clear()
            self._bytes = 0
            self._reached = self._taken[0]
            return self._taken

    def _read(self, cursor: Any, start: int, skip: int) -> None:
        decoder, told = Decoder(), time.monotonic()
        piece: Piece | None = None
        """Of the transaction that is arriving; None between two."""
        seen, size, stale = 0, 0, False
        while True:
            with self._lock:
                if self._stopping:
                    return
                durable, full = self._durable, self._bytes > BUFFER_BYTES
                nudged, self._nudged = self._nudged, False
            if nudged or time.monotonic() - told > self._feedback_seconds:
                cursor.send_feedback(write_lsn=durable, flush_lsn=durable, reply=True, force=True)
                told = time.monotonic()
            if full:
                with self._lock:
                    self._lock.wait_for(
                        lambda: self._bytes <= BUFFER_BYTES or self._stopping, timeout=min(1, self._feedback_seconds)
                    )
                continue
            message = cursor.read_message()
            if message is None:
                if piece is None:
                    self._advance(cursor.wal_end)
                select.select([cursor], [], [], 0.05)
                continue
            decoded = decoder.decode(message.payload)
            size += len(message.payload)
            if isinstance(decoded, Begin):
                # A server may send again what was confirmed a moment ago.
                stale = decoded.commit_lsn < start
                piece, seen = _begun(decoded.xid, decoded.committed_at, decoded.commit_lsn, skip), 0
            elif isinstance(decoded, Commit):
                assert piece is not None
                piece.position = decoded.end_lsn
                if not stale:
                    self._arrived(piece, size)
                    skip = 0
                piece, size = None, 0
            elif isinstance(decoded, RowChange | Truncated) and not stale:
                assert piece is not None
                seen += 1
                if seen <= skip:
                    continue  # a part of it was taken before the connection was lost
                if len(piece.events) >= PIECE_EVENTS:
                    piece.final = False
                    self._arrived(piece, size)
                    piece, size = _begun(piece.xid, piece.committed_at, piece.commit, seen - 1), 0
                piece.events.append(decoded)

    def _arrived(self, piece: Piece, size: int) -> None:
        with self._lock:
            if self._wanted(piece):
                self._pieces.append((piece, size, self._reached))
                self._bytes += size
            if piece.final:
                self._reached = max(self._reached, piece.position)
        self._on_news()

    def _advance(self, position: int) -> None:
        with self._lock:
            moved = position > self._reached
            self._reached = max(self._reached, position)
        if moved:
            self._on_news()


def _begun(xid: int, committed_at: int, commit: int, first: int) -> Piece:
    """A piece of which the rest is still to come."""
    return Piece(xid=xid, position=0, committed_at=committed_at, commit=commit, first=first)
