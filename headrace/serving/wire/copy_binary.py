"""The binary format of COPY, between bytes and columns.

>>> from headrace.types import SqlType
>>> rows = tuples_of([[7, None]], [SqlType("integer")])
>>> list(pieces_of(HEADER + b"".join(rows) + END, [SqlType("integer")]))
[[['7', None]]]
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from typing import Any

from headrace.errors import DataError
from headrace.serving.wire.binary import decode, encoder
from headrace.serving.wire.copy_format import PIECE_BYTES
from headrace.types import SqlType

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEADER = _SIGNATURE + struct.pack("!ii", 0, 0)
END = struct.pack("!h", -1)
PIECE_ROWS = 50_000
_NULL = struct.pack("!i", -1)


def tuples_of(columns: Sequence[Sequence[Any]], types: Sequence[SqlType]) -> list[bytes]:
    """Values in columns to tuples, each by itself."""
    encoders, head = [encoder(kind) for kind in types], struct.pack("!h", len(types))
    tuples = []
    for row in zip(*columns, strict=True):
        parts = [head]
        for value, encode in zip(row, encoders, strict=True):
            if value is None:
                parts.append(_NULL)
            else:
                data = encode(value)
                parts += (struct.pack("!i", len(data)), data)
        tuples.append(b"".join(parts))
    return tuples


def pieces_of(data: bytes | mmap.mmap, types: Sequence[SqlType]) -> Iterator[list[list[str | None]]]:
    """Tuples to columns of texts, what the text format would have brought; so many rows or bytes at a time."""
    if data[: len(_SIGNATURE)] != _SIGNATURE:
        raise _wrong("COPY file signature not recognized")
    columns: list[list[str | None]] = [[] for _ in types]
    try:
        flags, extension = struct.unpack_from("!Ii", data, len(_SIGNATURE))
        if flags >> 16:
            raise _wrong("unrecognized critical flags in COPY file header")
        at = begun = len(HEADER) + extension
        # As in PostgreSQL the mark at the end may be missing: the protocol has one of its own. pgx sends none.
        while at < len(data) and (count := struct.unpack_from("!h", data, at)[0]) != -1:
            at += 2
            if len(columns[0]) == PIECE_ROWS or at - begun > PIECE_BYTES:
                yield columns
                columns, begun = [[] for _ in types], at
            if count != len(types):
                raise _wrong(f"row field count is {count}, expected {len(types)}")
            for column, kind in zip(columns, types, strict=True):
                (size,) = struct.unpack_from("!i", data, at)
                at += 4
                if size > len(data) - at:
                    raise _wrong("unexpected EOF in COPY data")
                column.append(None if size < 0 else decode(data[at : at + size], kind))
                at += max(size, 0)
    except struct.error:
        raise _wrong("unexpected EOF in COPY data") from None
    if columns[0]:
        yield columns


def _wrong(message: str) -> DataError:
    return DataError(message, sqlstate="22P04")
