"""PostgreSQL's logical replication messages (pgoutput, version 1, values as text), decoded.

Pure: bytes in, messages out. The layout of each message is in PostgreSQL's documentation, "Logical Replication Message
Formats". A tuple's values are text, None for NULL, or UNCHANGED for a large value that the update left alone.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from headrace.cdc.changelog import UNCHANGED, Value
from headrace.cdc.problems import MalformedLog

POSTGRES_EPOCH = 946_684_800_000_000
"""2000-01-01 in microseconds since 1970: what the log counts from"""

Row = tuple[Value, ...]


class Begin(NamedTuple):
    commit_lsn: int
    committed_at: int
    xid: int


class Commit(NamedTuple):
    commit_lsn: int
    end_lsn: int


class LogColumn(NamedTuple):
    name: str
    type_oid: int
    type_modifier: int
    key: bool
    """Whether it is part of the replica identity"""


@dataclass(frozen=True, kw_only=True)
class LogRelation:
    oid: int
    schema: str
    name: str
    identity: str
    """d: the primary key, f: all columns, i: an index, n: nothing"""
    columns: tuple[LogColumn, ...]


class RowChange(NamedTuple):
    relation: LogRelation
    kind: str
    """I, U or D"""
    old: Row | None
    """What the log says about the row before: its key columns (the others None), or all of it"""
    new: Row | None

    @property
    def relations(self) -> tuple[LogRelation, ...]:
        return (self.relation,)


class Truncated(NamedTuple):
    relations: tuple[LogRelation, ...]


Message = Begin | Commit | LogRelation | RowChange | Truncated

_BEGIN = struct.Struct(">QqI")
_COMMIT = struct.Struct(">BQQq")
_U16, _U32, _I32 = struct.Struct(">H"), struct.Struct(">I"), struct.Struct(">i")


class Decoder:
    """Remembers the relations that the server has described on this connection."""

    def __init__(self) -> None:
        self.relations: dict[int, LogRelation] = {}

    def decode(self, data: bytes) -> Message | None:
        """The message; None for those that say nothing about rows (types, origins, messages of applications)."""
        kind = data[:1]
        try:
            if kind == b"I":
                return self._row(data, "I")
            if kind == b"U":
                return self._row(data, "U")
            if kind == b"D":
                return self._row(data, "D")
            if kind == b"B":
                commit_lsn, at, xid = _BEGIN.unpack_from(data, 1)
                return Begin(commit_lsn, at + POSTGRES_EPOCH, xid)
            if kind == b"C":
                _, commit_lsn, end_lsn, _ = _COMMIT.unpack_from(data, 1)
                return Commit(commit_lsn, end_lsn)
            if kind == b"R":
                return self._relation(data)
            if kind == b"T":
                return self._truncated(data)
        except (struct.error, IndexError, KeyError, UnicodeDecodeError, ValueError) as problem:
            raise MalformedLog(f"a replication message {kind!r} cannot be read: {problem!r}") from problem
        if kind in (b"O", b"Y", b"M"):
            return None
        raise MalformedLog(f"the server sent a replication message {kind!r}, which is not known")

    def _row(self, data: bytes, kind: str) -> RowChange:
        (oid,) = _U32.unpack_from(data, 1)
        relation = self.relations[oid]
        at, old, new = 5, None, None
        marker = data[at : at + 1]
        if marker in (b"K", b"O"):
            old, at = _tuple(data, at + 1)
            marker = data[at : at + 1]
        if kind != "D":
            if marker != b"N":
                raise ValueError(f"expected a new row, not {marker!r}")
            new, at = _tuple(data, at + 1)
        elif old is None:
            raise ValueError("a deleted row without its key")
        if at != len(data):
            raise ValueError(f"{len(data) - at} bytes are left over")
        width = len(relation.columns)
        if any(row is not None and len(row) != width for row in (old, new)):
            raise ValueError(f"a row of {relation.name} does not have {width} columns")
        return RowChange(relation, kind, old, new)

    def _relation(self, data: bytes) -> LogRelation:
        (oid,) = _U32.unpack_from(data, 1)
        schema, at = _name(data, 5)
        name, at = _name(data, at)
        identity = chr(data[at])
        (count,) = _U16.unpack_from(data, at + 1)
        at += 3
        columns = []
        for _ in range(count):
            flags = data[at]
            column, at = _name(data, at + 1)
            (type_oid,), (modifier,) = _U32.unpack_from(data, at), _I32.unpack_from(data, at + 4)
            at += 8
            columns.append(LogColumn(column, type_oid, modifier, bool(flags & 1)))
        # An empty schema stands for pg_catalog.
        relation = LogRelation(
            oid=oid, schema=schema or "pg_catalog", name=name, identity=identity, columns=tuple(columns)
        )
        self.relations[oid] = relation
        return relation

    def _truncated(self, data: bytes) -> Truncated:
        (count,) = _U32.unpack_from(data, 1)
        oids = [_U32.unpack_from(data, 6 + 4 * number)[0] for number in range(count)]
        return Truncated(tuple(self.relations[oid] for oid in oids))


def _name(data: bytes, at: int) -> tuple[str, int]:
    end = data.index(b"\x00", at)
    return data[at:end].decode(), end + 1


def _tuple(data: bytes, at: int) -> tuple[Row, int]:
    (count,) = _U16.unpack_from(data, at)
    at += 2
    values: list[Value] = []
    for _ in range(count):
        kind = data[at]
        at += 1
        if kind == 0x74:  # t: text
            (size,) = _U32.unpack_from(data, at)
            at += 4 + size
            if at > len(data):
                raise ValueError("a value ends behind the message")
            values.append(data[at - size : at].decode())
        elif kind == 0x6E:  # n: NULL
            values.append(None)
        elif kind == 0x75:  # u: unchanged
            values.append(UNCHANGED)
        else:
            raise ValueError(f"a value of kind {chr(kind)!r}")
    return tuple(values), at
