"""The binary log of MariaDB and of MySQL, decoded. Pure: bytes in, events out.

An event is a header of 19 bytes (time, kind, server, length, where the next one begins) and a body. A transaction is a
GTID event (each server has kinds of its own), for each statement the tables that it touches and then their rows, and an
end. Rows are kept as they are until somebody wants them (:mod:`headrace.cdc.mysql.rows`): most tables of a server are
nobody's.

The layouts are in MariaDB's documentation, "Replication Protocol", and in that of MySQL's source, "Binlog Event".
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

import pyarrow as pa

from headrace.cdc.mysql.gtids import Gtid, MysqlGtids
from headrace.cdc.problems import ALL_AGAIN, MalformedLog, SourceRefused

HEADER = struct.Struct("<IBIIIH")
ROTATE, FORMAT, QUERY, XID, TABLE_MAP, XA_PREPARE = 4, 15, 2, 16, 19, 38
GTID, QUERY_COMPRESSED = 162, 165  # of MariaDB
GTID_OF_MYSQL, ANONYMOUS, PREVIOUS_GTIDS, PARTIAL_ROWS, PACKED, TAGGED_GTID = 33, 34, 35, 39, 40, 42  # of MySQL
GTIDS = (GTID, GTID_OF_MYSQL, ANONYMOUS, TAGGED_GTID)
LOADED, INCIDENT = 18, 26
HEARTBEATS = (27, 41)

# kind: (what happens to the rows, whether the event has extra data, whether the rows are compressed)
ROWS = {
    23: ("I", False, False), 24: ("U", False, False), 25: ("D", False, False),
    30: ("I", True, False), 31: ("U", True, False), 32: ("D", True, False),
    166: ("I", False, True), 167: ("U", False, True), 168: ("D", False, True),
    169: ("I", True, True), 170: ("U", True, True), 171: ("D", True, True),
}  # fmt: skip

# Say nothing about rows: stop, variables of statements, statements beside their rows, lists of GTIDs, checkpoints,
# that the file is encrypted (what is sent is not), the blocks of a file that a statement loads, members of a group.
SILENT = {3, 5, 9, 11, 13, 14, 17, 29, 36, 37, 160, 161, 163, 164}

STANDALONE, PREPARED_XA = 1, 64
_IGNORABLE = 0x80
"""A flag of an event's header: who does not know the kind may go on without it"""

NUMERIC = {1, 2, 3, 4, 5, 8, 9, 13, 246}
CHARACTER = {15, 252, 253, 254}
ENUM, SET, STRING = 247, 248, 254
_METADATA_BYTES = {
    4: 1, 5: 1, 15: 2, 16: 2, 17: 1, 18: 1, 19: 1, 140: 1, 141: 2, 242: 1, 245: 1, 246: 2, 247: 2, 248: 2, 252: 1,
    253: 2, 254: 2, 255: 1,
}  # fmt: skip


class Header(NamedTuple):
    at: int
    """Seconds since 1970"""
    kind: int
    server: int
    length: int
    next: int
    """Where the next event begins, in 32 bits; 0: the event is not in the file"""
    flags: int


class LogColumn(NamedTuple):
    name: str
    kind: int
    """The number of its type; of ENUM and SET, their own"""
    length: int
    """Of texts: bytes; of decimals, precision << 8 | scale; of times, digits of a second; else what its type has"""
    unsigned: bool
    collation: int
    """By number; 0: it has none"""
    values: tuple[bytes, ...]
    """Of ENUM and SET"""


@dataclass(frozen=True, kw_only=True)
class LogRelation:
    schema: str
    name: str
    columns: tuple[LogColumn, ...]
    named: bool
    """Whether the log has the columns' names: it has, if binlog_row_metadata is FULL"""
    key: tuple[str, ...]
    """The primary key; empty if there is none, or the log does not say"""


class RowChanges(NamedTuple):
    """Rows of one table that were inserted, updated or deleted."""

    relation: LogRelation
    kind: str
    """I, U or D"""
    data: bytes
    """Which columns are there, and the rows"""

    @property
    def relations(self) -> tuple[LogRelation, ...]:
        return (self.relation,)


class Query(NamedTuple):
    schema: str
    text: str
    doubtful: bool
    """Whether names in it may be others than they seem: its character set is not known here"""


def header(data: bytes) -> Header:
    return Header(*HEADER.unpack_from(data))


CRC32 = 1
_CHECKSUM_BYTES = 4


def checksum_kind(data: bytes) -> int:
    """How the events of a file are checked, from the one that describes its format."""
    return data[-_CHECKSUM_BYTES - 1]


def checked_body(data: bytes, checksum: int) -> bytes:
    """What follows an event's header, without the checksum, which must be right."""
    if checksum == 0:
        return data[HEADER.size :]
    if checksum != CRC32:
        raise MalformedLog(f"the log has checksums of kind {checksum}, which is not known")
    if not _has_checksum(data):
        raise MalformedLog("an event of the log has another checksum than it says")
    return data[HEADER.size : -_CHECKSUM_BYTES]


def made_up_body(data: bytes) -> bytes:
    """The same of an event that is in no file: between two files the server adds a checksum, before the first none."""
    return data[HEADER.size : -_CHECKSUM_BYTES if _has_checksum(data) else None]


def _has_checksum(data: bytes) -> bool:
    return zlib.crc32(memoryview(data)[:-_CHECKSUM_BYTES]) == int.from_bytes(data[-_CHECKSUM_BYTES:], "little")


def gtid(head: Header, body: bytes) -> Gtid:
    if head.kind == GTID_OF_MYSQL:
        return Gtid(str(UUID(bytes=body[1:17])), head.server, int.from_bytes(body[17:25], "little"), None)
    if head.kind == TAGGED_GTID:
        return _tagged(head, body)
    if head.kind == ANONYMOUS:
        raise SourceRefused(
            "the log has transactions without numbers",
            hint=f"gtid_mode must be ON, and was not when they were written; {ALL_AGAIN}",
        )
    sequence, domain, flags = struct.unpack_from("<QIB", body)
    return Gtid(str(domain), head.server, sequence, bool(flags & STANDALONE), bool(flags & PREPARED_XA))


def previous_gtids(body: bytes) -> MysqlGtids:
    """Those before a file: by server (and tag), ranges of numbers, of which the end is not one of them."""
    first = int.from_bytes(body[:8], "little")
    tagged = first >> 56 == 1
    count, at = (first >> 8) & (1 << 48) - 1 if tagged else first, 8
    found = []
    for _ in range(count):
        source, at = str(UUID(bytes=body[at : at + 16])), at + 16
        if tagged:
            size, at = _varying(body, at)
            if size:
                source, at = f"{source}:{body[at : at + size].decode()}", at + size
        ranges, at = int.from_bytes(body[at : at + 8], "little"), at + 8
        for _ in range(ranges):
            begin, end = struct.unpack_from("<QQ", body, at)
            found.append(f"{source}:{begin}-{end - 1}")
            at += 16
    return MysqlGtids.parse(",".join(found))


def _tagged(head: Header, body: bytes) -> Gtid:
    """A message of fields with numbers: flags, the server's UUID, the transaction's number, its tag, and more."""
    _, at = _varying(body, 0)  # the version
    _, at = _varying(body, at)  # the size
    _, at = _varying(body, at)  # the last field that must be known
    uuid, number, tag = b"", 0, ""
    for _ in range(4):
        field, at = _varying(body, at)
        if field == 0:
            at += 1
        elif field == 1:
            parts = []
            for _ in range(16):
                part, at = _varying(body, at)
                parts.append(part)
            uuid = bytes(parts)
        elif field == 2:
            value, at = _varying(body, at)
            number = value >> 1  # the lowest bit is the sign
        elif field == 3:
            size, at = _varying(body, at)
            tag, at = body[at : at + size].decode(), at + size
    return Gtid(f"{UUID(bytes=uuid)}:{tag}" if tag else str(UUID(bytes=uuid)), head.server, number, None)


def _varying(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes: so many bits of the first are set, below one that is not, as bytes follow.

    >>> _varying(bytes([6]), 0), _varying(bytes([0b101, 0b10]), 0)
    ((3, 1), (129, 2))
    """
    first = data[at]
    more = (~first & first + 1).bit_length() - 1  # the ones at the end
    if more >= 8:
        return int.from_bytes(data[at + 1 : at + 9], "little"), at + 9
    return int.from_bytes(data[at : at + 1 + more], "little") >> more + 1, at + 1 + more


def in_one_phase(body: bytes) -> bool:
    """Whether a distributed transaction is committed by the event that prepares others."""
    return body[0] == 1


def unpacked(head: Header, body: bytes) -> Iterator[tuple[Header, bytes]]:
    """The event itself; or those of a whole transaction, that MySQL has compressed together (with Zstandard)."""
    if head.kind != PACKED:
        yield head, body
        return
    at, compressed = 0, True
    while True:
        field, at = length(body, at)
        if field == 0:
            break
        size, at = length(body, at)
        if field == 2:
            compressed = length(body, at)[0] != 255
            if compressed and length(body, at)[0] != 0:
                raise MalformedLog("the log is compressed in a way that is not known")
        at += size
    packed = pa.BufferReader(memoryview(body)[at:])
    with pa.CompressedInputStream(packed, "zstd") if compressed else packed as events:
        while begin := events.read(HEADER.size):
            inner = header(begin)
            data = events.read(inner.length - HEADER.size)
            if len(data) != inner.length - HEADER.size:
                raise MalformedLog("a compressed transaction ends too early")
            yield inner, data


def rotate(body: bytes) -> tuple[str, int]:
    """The file that comes next, and where to begin there."""
    return body[8:].decode(), struct.unpack_from("<Q", body)[0]


def query(head: Header, body: bytes) -> Query:
    _, _, schema_length, _, status_length = struct.unpack_from("<IIBHH", body)
    at = 13 + status_length
    mode, charset = _status(body[13:at])
    text = body[at + schema_length + 1 :]
    if head.kind == QUERY_COMPRESSED:
        text = uncompressed(text)
    schema = body[at : at + schema_length].decode()
    if text.isascii() and not (b"\\" in text and mode & _NO_BACKSLASH_ESCAPES):
        return Query(schema, text.decode(), False)
    if charset in _UTF8:
        return Query(schema, text.decode("utf-8", "replace"), bool(mode & _NO_BACKSLASH_ESCAPES))
    return Query(schema, text.decode("latin-1"), True)


_NO_BACKSLASH_ESCAPES = 1 << 20
_UTF8 = {
    33, 45, 46, 76, 83, *range(192, 248), *range(255, 324), *range(576, 640), 1057, 1069, 1070, 1107,
    *range(1216, 1272), *range(2048, 2560),
}  # fmt: skip
"""Collations of UTF-8, by number"""
_STATUS_BYTES = {0: 4, 1: 8, 3: 4, 4: 6, 7: 2, 8: 2, 9: 8}


def _status(data: bytes) -> tuple[int, int]:
    """Of a statement's session: its SQL mode and the collation of its text."""
    at, mode, charset = 0, 0, 0
    while at < len(data):
        kind = data[at]
        at += 1
        if kind == 1:
            mode = int.from_bytes(data[at : at + 8], "little")
        elif kind == 4:
            charset = int.from_bytes(data[at : at + 2], "little")
        if kind in _STATUS_BYTES:
            at += _STATUS_BYTES[kind]
        elif kind in (2, 5, 6):
            at += 1 + data[at] + (kind == 2)
        else:
            break  # what comes later is of no interest
    return mode, charset


def ignorable(head: Header) -> bool:
    return bool(head.flags & _IGNORABLE) or head.kind in SILENT


class Tables:
    """The tables that the log has described, by the numbers that it gives them for a while."""

    def __init__(self) -> None:
        self._by_number: dict[int, LogRelation] = {}
        self._known: dict[bytes, LogRelation] = {}
        """The same description is the same object: what is made of it is made once."""

    def describe(self, body: bytes) -> None:
        number, described = int.from_bytes(body[:6], "little"), body[8:]
        if described not in self._known:
            if len(self._known) > 1000:
                self._known.clear()
            self._known[described] = relation(described)
        self._by_number[number] = self._known[described]

    def forget(self) -> None:
        self._by_number.clear()

    def touched(self, body: bytes) -> LogRelation:
        """The table of an event of rows."""
        number = int.from_bytes(body[:6], "little")
        found = self._by_number.get(number)
        if found is None:
            raise MalformedLog(f"the log has rows of table number {number}, which it has not described")
        return found

    def rows(self, head: Header, body: bytes) -> RowChanges | None:
        kind, extra, compressed = ROWS[head.kind]
        number, at = int.from_bytes(body[:6], "little"), 8
        if number == 0xFFFFFF:
            return None  # marks the end of a statement
        if extra:
            at += int.from_bytes(body[8:10], "little")
        data = body[at:]
        if compressed:
            columns, end = length(data, 0)
            end += (columns + 7) // 8 * (2 if kind == "U" else 1)
            data = data[:end] + uncompressed(data[end:])
        return RowChanges(self.touched(body), kind, data)


def uncompressed(data: bytes) -> bytes:
    """A byte with the number of bytes of a length, that length, and what zlib made of the rest."""
    if not data[0] & 0x80 or (data[0] & 0x70) >> 4:
        raise MalformedLog("the log is compressed in a way that is not known")
    width = data[0] & 0x07
    found = zlib.decompress(data[1 + width :])
    if len(found) != int.from_bytes(data[1 : 1 + width], "big"):
        raise MalformedLog("a compressed event has another length than it says")
    return found


def length(data: bytes, at: int) -> tuple[int, int]:
    """A number of one to nine bytes, and where it ends.

    >>> length(bytes([250]), 0), length(bytes([252, 1, 1]), 0)
    ((250, 1), (257, 3))
    """
    first = data[at]
    if first < 251:
        return first, at + 1
    width = {252: 2, 253: 3, 254: 8}.get(first)
    if width is None:
        raise MalformedLog("the log has a length that is none")
    return int.from_bytes(data[at + 1 : at + 1 + width], "little"), at + 1 + width


def relation(data: bytes) -> LogRelation:
    """A table map, from the name of the schema on."""
    schema_end = 1 + data[0]
    name_at = schema_end + 2
    name_end = name_at + data[schema_end + 1]
    count, at = length(data, name_end + 1)
    kinds = list(data[at : at + count])
    size, at = length(data, at + count)
    lengths = _lengths(kinds, data[at : at + size])
    fields = _fields(data, at + size + (count + 7) // 8)
    names = [part.decode() for part in _texts(fields.get(4, b""))]
    unsigned = _unsigned(kinds, fields.get(1, b""))
    collations = _collations(kinds, fields, 2, 3, CHARACTER) | _collations(kinds, fields, 10, 11, {ENUM, SET})
    listed = {SET: iter(_lists(fields.get(5, b""))), ENUM: iter(_lists(fields.get(6, b"")))}
    columns = tuple(
        LogColumn(
            name=names[number] if number < len(names) else "",
            kind=kind,
            length=lengths[number],
            unsigned=number in unsigned,
            collation=collations.get(number, 0),
            values=next(listed[kind], ()) if kind in listed else (),
        )
        for number, kind in enumerate(kinds)
    )
    return LogRelation(
        schema=data[1:schema_end].decode(),
        name=data[name_at:name_end].decode(),
        columns=columns,
        named=bool(names) and len(names) == count,
        key=tuple(columns[number].name for number in _numbers(fields.get(8, b""))),
    )


def _lengths(kinds: list[int], metadata: bytes) -> list[int]:
    """Of each column, from its metadata. Kinds that hide behind STRING are put in place."""
    found, at = [], 0
    for number, kind in enumerate(kinds):
        width = _METADATA_BYTES.get(kind, 0)
        part, at = metadata[at : at + width], at + width
        if kind == STRING:
            first, second = part
            if first & 0x30 != 0x30:
                second |= ((first & 0x30) ^ 0x30) << 4
                first |= 0x30
            kinds[number] = first
            found.append(second)
        elif kind == 246:
            found.append(part[0] << 8 | part[1])
        elif kind == 16:  # bits of the last byte, whole bytes
            found.append(part[0] + 8 * part[1])
        else:
            found.append(int.from_bytes(part, "little"))
    return found


def _fields(data: bytes, at: int) -> dict[int, bytes]:
    found = {}
    while at < len(data):
        kind = data[at]
        size, at = length(data, at + 1)
        found[kind] = data[at : at + size]
        at += size
    return found


def _numbers(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, at = length(data, at)
        found.append(number)
    return found


def _texts(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size, at = length(data, at)
        found.append(data[at : at + size])
        at += size
    return found


def _lists(data: bytes) -> list[tuple[bytes, ...]]:
    found, at = [], 0
    while at < len(data):
        count, at = length(data, at)
        values = []
        for _ in range(count):
            size, at = length(data, at)
            values.append(data[at : at + size])
            at += size
        found.append(tuple(values))
    return found


def _unsigned(kinds: list[int], bits: bytes) -> set[int]:
    numeric = [number for number, kind in enumerate(kinds) if kind in NUMERIC]
    return {number for place, number in enumerate(numeric) if bits and bits[place // 8] & 0x80 >> place % 8}


def _collations(kinds: list[int], fields: dict[int, bytes], default: int, each: int, of: set[int]) -> dict[int, int]:
    """By column: one for all with exceptions, or one for each."""
    columns = [number for number, kind in enumerate(kinds) if kind in of]
    if default in fields:
        first, *rest = _numbers(fields[default])
        found = dict.fromkeys(columns, first)
        return found | {columns[place]: collation for place, collation in zip(rest[::2], rest[1::2], strict=True)}
    return dict(zip(columns, _numbers(fields.get(each, b"")), strict=False))
