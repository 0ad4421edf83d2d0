"""Reading a server's binary log, as a replica does, to pieces of transactions.

A transaction is known by where it begins in the log: no snapshot lies between its begin and its end, so one that is
behind its begin shows it whole. The server keeps its log by its own rules (``binlog_expire_logs_seconds``), not by
ours; that what is read on is the log that was read before is checked on every connection, by the numbers (GTIDs) that
the server gives transactions.
"""

from __future__ import annotations

import itertools
import re
import struct
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headrace.cdc.changelog import Change, Piece, Truncate
from headrace.cdc.mysql import binlog
from headrace.cdc.mysql.binlog import Header, Tables
from headrace.cdc.mysql.ddl import TRUNCATED, effect
from headrace.cdc.mysql.gtids import Gtid, Gtids, MariaDbGtids, MysqlGtids
from headrace.cdc.mysql.positions import Begun, Place
from headrace.cdc.mysql.server import Control
from headrace.cdc.mysql.session import Address, Session
from headrace.cdc.mysql.tables import SourceTable
from headrace.cdc.problems import (
    AGAIN,
    ALL_AGAIN,
    MalformedLog,
    SchemaChanged,
    SourceRefused,
    SourceUnreachable,
    TableStopped,
)
from headrace.cdc.stream import BUFFER_BYTES, LogFeed

PIECE_BYTES = 8 << 20
"""A transaction that is larger in the log is handed over in several pieces."""

ROW_BYTES = 50
"""About what a change takes in the log: events have several"""

PREPARED = 1_000
"""Distributed transactions that are kept in mind; of one that is not, any table may be concerned"""

HEARTBEAT_SECONDS = 5
"""How often a server that has nothing to say says so"""

SILENCE_SECONDS = 30
"""A server that says nothing at all for so long is gone."""

_REGISTER, _DUMP = 0x15, 0x12
_WRAP = 1 << 32


class Statement(NamedTuple):
    """A statement that is logged as text. It may concern any table."""

    schema: str
    text: str
    doubtful: bool = False

    @property
    def relations(self) -> None:
        return None

    def changes(self, table: SourceTable) -> list[Change | Truncate]:
        found = effect(self.text, self.schema, table, doubtful=self.doubtful)
        if found is None:
            return []
        if found == TRUNCATED:
            return [Truncate()]
        raise SchemaChanged(f"{table.full_name}: {found}", hint=AGAIN)


class Halt(NamedTuple):
    """Something in the log that cannot be followed, of some tables."""

    tables: frozenset[tuple[str, str]] | None
    """None: of which ones is not known"""
    reason: str

    @property
    def relations(self) -> None:
        return None

    def changes(self, table: SourceTable) -> list[Change | Truncate]:
        if self.tables is None or any(table.is_called(*name) for name in self.tables):
            raise TableStopped(f"{table.full_name}: {self.reason}", hint=AGAIN)
        return []


XA = "a distributed transaction (XA) has written to it, of which the log does not say in time whether it is committed"
COMMITTED_XA = "a distributed transaction (XA) was committed whose changes were in the log before"
UNDONE = "a very large transaction has taken back a part of what it wrote"
PARTIAL = "the log has only what changed within a value (binlog_row_value_options)"


@dataclass(kw_only=True)
class Transaction:
    """One that is arriving."""

    piece: Piece
    gtid: Gtid
    skip: int
    """So many of its events were taken before the connection was lost"""
    seen: int = 0
    size: int = 0
    handed_over: bool = False
    """Whether some of it is not here any more"""
    without_end: bool = False
    """It was not committed: the log has only a part of it"""
    touched: set[tuple[str, str]] = field(default_factory=set)
    savepoints: dict[str, int] = field(default_factory=dict)
    standalone: bool | None = field(init=False)
    """Whether it is one statement, and ends with that; None: not known before there is one"""
    distributed: bool = False
    """Whether it may turn out at its end that it is only prepared"""
    prepared: bool = field(init=False)
    """Whether it is, and of what it does nothing is taken"""
    xa: str = ""
    """What it is called, if it is distributed"""

    def __post_init__(self) -> None:
        self.standalone, self.prepared = self.gtid.standalone, self.gtid.prepared

    def add(self, event: Any, size: int) -> None:
        self.seen += 1
        if self.seen > self.skip:
            self.piece.events.append(event)
            self.size += size

    def undo(self, name: str | None) -> None:
        """All of it, or what came after a savepoint."""
        if self.handed_over or self.skip or (name is not None and name not in self.savepoints):
            self.piece.events = [Halt(frozenset(self.touched), UNDONE)]
            return
        del self.piece.events[self.savepoints[name] if name is not None else 0 :]
        self.seen = len(self.piece.events)

    def halt(self) -> None:
        """It is not followed; nor are the tables that it touches."""
        self.piece.events = [Halt(frozenset(self.touched), XA)]

    def cut_off(self) -> None:
        self.piece.events.clear()
        self.size, self.without_end = 0, True

    def next_piece(self) -> Piece:
        """What has arrived so far, as a piece; the rest becomes another."""
        done, first = self.piece, self.piece.first + len(self.piece.events)
        done.final = False
        self.piece = _begun(done.commit, done.committed_at, first, self.gtid)
        self.size, self.handed_over = 0, True
        return done


class LogStream(LogFeed):
    def __init__(
        self,
        address: Address,
        *,
        base: str,
        server_id: int,
        gtids: str,
        position: int,
        skip: int = 0,
        server_uuid: str = "",
        on_news: Callable[[], None],
    ):
        super().__init__(str(address), position=position, skip=skip, on_news=on_news)
        self._address, self._base, self._server_id, self._server_uuid = address, base, server_id, server_uuid
        self._known_at_start = gtids
        """Which transactions the log has before what was taken"""
        self._marks: deque[tuple[int, Gtid | MysqlGtids]] = deque()
        """Transactions behind it, by where they end, that have been read on the connection that there is"""
        self._remembered: deque[tuple[int, Gtid | MysqlGtids]] = deque()
        """Those behind them, which were read on earlier ones"""
        self._prepared: dict[str, frozenset[tuple[str, str]]] = {}
        """Distributed transactions that are not committed yet, as far as they were seen: the tables that they touch"""
        self._session: Session | None = None

    def stop(self) -> None:
        self._stopping = True
        if (session := self._session) is not None:
            session.interrupt()
        super().stop()

    def _weight(self, piece: Piece, size: int) -> int:
        return max(len(piece.events), size // ROW_BYTES)

    def known_at(self, position: int) -> dict[str, Any]:
        return {"gtids": self.gtids_at(position)}

    def gtids_at(self, position: int) -> str:
        """What the log has before a position that has been reached, and that lies not before what was taken."""
        with self._lock:
            taken = []
            for marks in (self._marks, self._remembered):
                while marks and marks[0][0] <= self._taken[0]:
                    taken.append(marks.popleft())
            self._known_at_start = self._with(taken)
            behind = itertools.chain(self._marks, self._remembered)
            return self._with(itertools.takewhile(lambda each: each[0] <= position, behind))

    def _remember_marks(self) -> None:
        """What was known is not forgotten when a connection is lost, because it may be taken meanwhile."""
        with self._lock:
            self._remembered.extendleft(reversed(self._marks))
            self._marks.clear()

    def _with(self, marks: Iterable[tuple[int, Gtid | MysqlGtids]]) -> str:
        """What is known, and more."""
        found: Gtids | None = None
        for _, more in marks:
            if found is None:
                mariadb = isinstance(more, Gtid) and more.source.isdigit()
                found = (MariaDbGtids if mariadb else MysqlGtids).parse(self._known_at_start)
            if isinstance(more, Gtid):
                found.add(more)
            elif isinstance(found, MysqlGtids):
                found.update(more)
        return self._known_at_start if found is None else str(found)

    # --- the thread --------------------------------------------------------------------------------------------

    def _stream(self) -> None:
        start, skip = self._begin_anew()
        gtids = self.gtids_at(start)
        self._remember_marks()
        place = Place.of(self._base, start)
        self._check_log(place, gtids)
        self._session = session = self._address.session(read_timeout=SILENCE_SECONDS)
        try:
            with session.errors():
                begin_dump(session, place, self._server_id)
                self._connected()
                self._read(session, place, skip)
        finally:
            self._session = None
            session.close()

    def _check_log(self, place: Place, gtids: str) -> None:
        control = Control(self._address)
        try:
            control.check_log(place, gtids, self._server_uuid)
        finally:
            control.close()

    def _read(self, session: Session, place: Place, skip: int) -> None:
        tables, lists_before = Tables(), session.flavor.files_list_what_was_before
        begin, at = place.number, place if place.offset < _WRAP else Place(place.base, place.file, 4)
        open_one: Transaction | None = None
        checksum = 0
        while self._has_room():
            data = _event(session.packet())
            head = binlog.header(data)
            if head.kind == binlog.FORMAT:
                checksum = binlog.checksum_kind(data)
            body = binlog.checked_body(data, checksum) if head.next else binlog.made_up_body(data)
            if head.kind == binlog.ROTATE:
                name, offset = binlog.rotate(body)
                at = Place.parse(name, offset)
                # MySQL says only in the new file what was before it, and must be asked for that again.
                if open_one is None and at.number > begin and not lists_before:
                    self._advance(at.number)
                continue
            if head.next == 0 or head.kind in binlog.HEARTBEATS:
                continue  # not of the file
            if head.kind == binlog.FORMAT and open_one is not None:
                open_one = _given_up(open_one, at)
            before, at = at, Place(at.base, at.file, _widened(head.next, at.offset))
            if before.number < begin:
                continue
            if head.kind in binlog.GTIDS:
                tables.forget()
                open_one = Transaction(
                    piece=_begun(before.number, head.at * 1_000_000, skip, binlog.gtid(head, body)),
                    gtid=binlog.gtid(head, body),
                    skip=skip,
                )
                continue
            if open_one is None:
                if head.kind == binlog.INCIDENT:
                    raise _incident()
                if not binlog.ignorable(head) and head.kind not in (binlog.FORMAT, binlog.PREVIOUS_GTIDS):
                    raise MalformedLog(f"the log has an event of kind {head.kind} at {before}, in no transaction")
                if head.kind == binlog.PREVIOUS_GTIDS:
                    self._advance(at.number, binlog.previous_gtids(body))
                    continue
                if head.kind != binlog.FORMAT or not lists_before:
                    self._advance(at.number)
                continue
            if self._ends(open_one, tables, head, body):
                if open_one.without_end:
                    raise MalformedLog(f"a transaction that should have none has an end at {at}; it is read again")
                self._finish(open_one, at.number)
                open_one, skip = None, 0

    def _has_room(self) -> bool:
        """Waits until there is some, which ends the server's sending; then both go on where they were. False: to the
        end of reading."""
        with self._lock:
            self._lock.wait_for(lambda: self._bytes <= BUFFER_BYTES or self._stopping or self._resting)
            return not (self._stopping or self._resting)

    def _ends(self, transaction: Transaction, tables: Tables, head: Header, body: bytes) -> bool:
        """One event of a transaction, or many that were compressed together; whether the last of all is among them."""
        for each, data in binlog.unpacked(head, body):
            if self._takes(transaction, tables, each, data):
                return True
            if transaction.size > PIECE_BYTES:
                self._hand_over_a_piece(transaction)
                if not self._has_room():
                    return False
        return False

    def _hand_over_a_piece(self, transaction: Transaction) -> None:
        if transaction.distributed and not transaction.handed_over:
            # Whether it is committed is known at its end, and so much is not kept.
            transaction.cut_off()
            transaction.without_end, transaction.prepared = False, True
        elif transaction.handed_over or self._is_whole(transaction):
            size = transaction.size
            self._arrived(transaction.next_piece(), size)
        else:
            transaction.cut_off()

    def _advance(self, position: int, gtids: MysqlGtids | None = None) -> None:
        with self._lock:
            self._mark(position, gtids)
        super()._advance(position)

    def _mark(self, position: int, known: Gtid | MysqlGtids | None) -> None:
        """The log is read up to a position; what is before it, if something ends there.

        What was read on an earlier connection may not come again: a server that crashed can have lost what nobody has
        taken.
        """
        while self._remembered and self._remembered[0][0] <= position:
            self._remembered.popleft()
        if known is not None:
            self._marks.append((position, known))

    def _is_whole(self, transaction: Transaction) -> bool:
        """Whether the log has the end of a transaction, too. The last one of a file that a crash has ended may have
        none, and was not committed. The file that follows says which transactions there were before it."""
        control = Control(self._address)
        try:
            if control.flavor.writes_transactions_whole:
                return True
            begin, now = Place.of(self._base, transaction.piece.commit), control.visible()
            if now.file <= begin.file:
                return True  # nothing has ended the file yet, and it waits until it is visible
            next_one = Place(begin.base, begin.file + 1, 4)
            return transaction.gtid in control.flavor.parse(control.known(next_one))
        finally:
            control.close()

    def _takes(self, transaction: Transaction, tables: Tables, head: Header, body: bytes) -> bool:
        """One event of a transaction; whether it is the last."""
        if head.kind == binlog.TABLE_MAP:
            tables.describe(body)
        elif head.kind in binlog.ROWS:
            rows = tables.rows(head, body)
            if rows is not None:
                transaction.touched.add((rows.relation.schema, rows.relation.name))
                if not transaction.prepared:
                    transaction.add(rows, len(rows.data))
        elif head.kind == binlog.PARTIAL_ROWS:
            relation = tables.touched(body)
            transaction.add(Halt(frozenset({(relation.schema, relation.name)}), PARTIAL), 0)
        elif head.kind in (binlog.QUERY, binlog.QUERY_COMPRESSED):
            return self._query(transaction, binlog.query(head, body))
        elif head.kind == binlog.LOADED:  # rows that are in a file, and not in the log
            return self._query(transaction, binlog.Query("", "LOAD DATA", False))
        elif head.kind == binlog.XA_PREPARE:
            if transaction.prepared or (transaction.distributed and not binlog.in_one_phase(body)):
                transaction.halt()
                self._prepared[transaction.xa] = frozenset(transaction.touched)
                if len(self._prepared) > PREPARED:
                    self._prepared.pop(next(iter(self._prepared)))
            return True
        elif head.kind == binlog.INCIDENT:
            raise _incident()
        elif head.kind == binlog.XID:
            return True
        elif not binlog.ignorable(head):
            raise MalformedLog(f"the log has an event of kind {head.kind}, which is not known")
        return False

    def _query(self, transaction: Transaction, query: binlog.Query) -> bool:
        words = query.text.split(None, 2)
        first, second = words[0].upper() if words else "", words[1].upper() if len(words) > 1 else ""
        if transaction.standalone is None:
            transaction.distributed = (first, second) == ("XA", "START")
            transaction.standalone = first != "BEGIN" and not transaction.distributed
        if first in ("BEGIN", "START"):
            return transaction.standalone
        if first == "COMMIT":
            return True
        if first == "ROLLBACK":
            name = _savepoint(query.text) if second == "TO" else None
            transaction.undo(name)
            return name is None
        if first == "SAVEPOINT":
            transaction.savepoints[_savepoint(query.text)] = len(transaction.piece.events)
        elif first == "XA":
            self._distributed(transaction, second, words[2] if len(words) > 2 else "")
        elif first != "RELEASE":
            transaction.add(Statement(*query), len(query.text))
        return transaction.standalone

    def _distributed(self, transaction: Transaction, what: str, name: str) -> None:
        """XA. A table that was read since it was prepared has not its rows, and they do not come again."""
        if what in ("START", "END"):
            transaction.xa = name
        elif what == "COMMIT":
            transaction.add(Halt(self._prepared.pop(name, None), COMMITTED_XA), 0)
        elif what == "ROLLBACK":
            self._prepared.pop(name, None)

    def _finish(self, transaction: Transaction, position: int) -> None:
        transaction.piece.position = position
        with self._lock:
            self._mark(position, transaction.gtid)
        self._arrived(transaction.piece, transaction.size)


def _incident() -> SourceRefused:
    return SourceRefused("the server says that its log lacks something (an incident)", hint=ALL_AGAIN)


def _given_up(transaction: Transaction, at: Place) -> None:
    """A file begins within a transaction: a crash has ended the last one, and the transaction was not committed."""
    if transaction.handed_over or transaction.skip:
        raise MalformedLog(
            f"the log has no end of a transaction of which a part was applied, before {at}", hint=ALL_AGAIN
        )


def begin_dump(session: Session, place: Place, server_id: int) -> None:
    register(session, server_id)
    session.rows(
        f"SET @master_heartbeat_period = {HEARTBEAT_SECONDS * 10**9}, @master_binlog_checksum = 'NONE',"
        f" @source_heartbeat_period = {HEARTBEAT_SECONDS * 10**9}, @source_binlog_checksum = 'NONE',"
        " @mariadb_slave_capability = 4"
    )
    # Whoever applies the log may be slow, and then reads nothing for a while.
    session.rows("SET SESSION net_write_timeout = 31536000, wait_timeout = 31536000")
    offset = place.offset if place.offset < _WRAP else 4  # the protocol has no larger ones: read it again up to there
    session.command(_DUMP, struct.pack("<IHI", max(4, offset), 0, server_id) + place.name.encode())


def register(session: Session, server_id: int) -> None:
    """As a replica: what the server refuses if the user has not the right to it."""
    with session.errors():
        session.command(_REGISTER, struct.pack("<I", server_id) + bytes(3) + struct.pack("<HII", 0, 0, 0))
        session.packet()


def _event(packet: bytes) -> bytes:
    if packet[0] == 0:
        return packet[1:]
    raise SourceUnreachable("the server has ended the connection on which its log is read")


def _begun(begin: int, committed_at: int, first: int, gtid: Gtid) -> Piece:
    """A piece of which the rest is still to come."""
    return Piece(xid=Begun(begin, gtid), position=0, committed_at=committed_at, commit=begin, first=first)


def _widened(low: int, near: int) -> int:
    """An offset of which the log has 32 bits, at or behind another.

    >>> _widened(10, 5), _widened(10, (1 << 32) - 1) == (1 << 32) + 10
    (10, True)
    """
    found = near & ~(_WRAP - 1) | low
    return found if found >= near else found + _WRAP


def _savepoint(text: str) -> str:
    """
    >>> _savepoint("ROLLBACK TO `a``b`"), _savepoint("SAVEPOINT x")
    ('a``b', 'x')
    """
    quoted = re.search(r"`((?:[^`]|``)*)`\s*$", text)
    return quoted[1] if quoted else text.split()[-1]
