"""Reading PostgreSQL's log. The server is told every few seconds that we are alive, and what is durable with us: only
that it may forget.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable
from typing import Any

from headrace.cdc.changelog import Piece
from headrace.cdc.postgres.pgoutput import Begin, Commit, Decoder, RowChange, Truncated
from headrace.cdc.postgres.server import Address, Control, SourceRefused, driver, format_lsn, parse_lsn
from headrace.cdc.stream import BUFFER_BYTES, LogFeed

PIECE_EVENTS = 50_000
PIECE_BYTES = 8 << 20
"""A transaction with more changes, or larger ones, is handed over in several pieces."""

FEEDBACK_SECONDS = 5.0
"""How often the server hears of us; or more often, if it has less patience (wal_sender_timeout)"""

NEVER = 10**6
"""Seconds"""


class LogStream(LogFeed):
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
        super().__init__(str(address), position=position, skip=skip, on_news=on_news)
        self._address, self._slot, self._publication = address, slot, publication
        self._feedback_seconds = FEEDBACK_SECONDS

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
                    status_interval=NEVER,
                )
                self._connected()
                # A cursor that reads, and has confirmed all that came, goes on to confirm by itself what the server
                # says that it has sent since. That may be more than is durable here; so another one confirms.
                self._read(cursor, connection.cursor(), start, skip)
        finally:
            connection.close()

    def _read(self, cursor: Any, teller: Any, start: int, skip: int) -> None:
        decoder, told = Decoder(), time.monotonic()
        piece: Piece | None = None
        """Of the transaction that is arriving; None between two."""
        seen, size, stale = 0, 0, False
        while True:
            with self._lock:
                if self._stopping or self._resting:
                    return
                durable, full = self._durable, self._bytes > BUFFER_BYTES
                nudged, self._nudged = self._nudged, False
            if nudged or time.monotonic() - told > self._feedback_seconds:
                teller.send_feedback(write_lsn=durable, flush_lsn=durable, reply=True, force=True)
                told = time.monotonic()
            if full:
                with self._lock:
                    self._lock.wait_for(
                        lambda: self._bytes <= BUFFER_BYTES or self._stopping or self._resting,
                        timeout=min(1, self._feedback_seconds),
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
                if len(piece.events) >= PIECE_EVENTS or (piece.events and size > PIECE_BYTES):
                    piece.final = False
                    self._arrived(piece, size)
                    piece, size = _begun(piece.xid, piece.committed_at, piece.commit, seen - 1), 0
                piece.events.append(decoded)


def _begun(xid: int, committed_at: int, commit: int, first: int) -> Piece:
    """A piece of which the rest is still to come."""
    return Piece(xid=xid, position=0, committed_at=committed_at, commit=commit, first=first)
