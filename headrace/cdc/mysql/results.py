"""Rows of a result as the server sends them, to columns of bytes.

A row is a packet: its length, then its values one behind the other, each with its own length before it. Python needs
more than a microsecond to take a row of six values apart. Arrow's CSV reader needs a tenth of that, and a packet is not
far from a line of it: where lengths were, delimiters are put, in the bytes as they came. That is for rows whose values
are short (LONGEST) and have no delimiter in them; the others are taken apart one by one.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc

HEADER = 4
"""Bytes before a packet: its length, and its number"""

LARGEST_PACKET = 0xFFFFFF
"""What is longer comes in several"""

READ_BYTES = 1 << 18
BATCH_BYTES = 4 << 20
"""Of rows that are taken apart together; one row may be larger"""

BATCH_ROWS = 65_536
"""And so many; what has arrived together stays together"""

LONGEST = 250
"""Lengths beyond that take more than a byte"""

_NULL = 251
_END, _PROBLEM = 0xFE, 0xFF
_FIELD, _LINE, _RETURN = 0x1F, 0x0A, 0x0D

_begin = struct.Struct("<IB").unpack_from
"""A packet's length and number, and its first byte"""


class Packets:
    """Whole rows in the bytes that they came in."""

    def __init__(self, data: bytearray, starts: list[int], end: int):
        self.data, self.starts, self.end = data, starts, end

    def columns(self, count: int, types: Mapping[int, pa.DataType] = MappingProxyType({})) -> list[pa.Array]:
        """As bytes. ``types``: of columns that Arrow may read as what they are, by their place; it need not."""
        return self._by_arrow(count, types) or [pa.array(values, pa.binary()) for values in self.values(count)]

    def values(self, count: int) -> list[list[bytes | None]]:
        """By column, one by one."""
        columns: list[list[bytes | None]] = [[] for _ in range(count)]
        appends = [column.append for column in columns]
        data = bytes(self.data)
        for at in self.starts:
            for append in appends:
                length = data[at]
                at += 1
                if length == _NULL:
                    append(None)
                    continue
                if length > _NULL:
                    width = 2 if length == 252 else 3 if length == 253 else 8
                    length = int.from_bytes(data[at : at + width], "little")
                    at += width
                append(data[at : at + length])
                at += length
        return columns

    def _by_arrow(self, count: int, types: Mapping[int, pa.DataType]) -> list[pa.Array] | None:
        """None: there is a value that cannot be read so."""
        data = np.frombuffer(self.data, np.uint8)
        starts = np.array(self.starts, np.int64)
        places, lengths, empties, nulls = [], [], [], []
        at = starts
        for _ in range(count):
            length = data[at]
            if length.max() > _NULL:
                return None
            null = length == _NULL
            nulls.append(bool(null.any()))
            empties.append(bool((length == 0).any()))
            if nulls[-1] and empties[-1]:
                return None  # which is which would be lost
            places.append(at)
            lengths.append(length)
            at = at + 1 + (np.where(null, 0, length) if nulls[-1] else length)
        if not (np.array_equal(at[:-1], starts[1:] - HEADER) and at[-1] == self.end):
            raise OSError("the server sent a row that is none")
        for place in places:
            data[place] = _FIELD
        heads = [(starts - HEADER + number, data[starts - HEADER + number]) for number in range(HEADER)]
        data[heads[0][0]] = _LINE
        for place, _ in heads[1:]:
            data[place] = ord("-")
        # A return before the end of a line goes with it, and so does a line's end at the end of all.
        swallowed = self.data.count(_RETURN, self.starts[0], self.end) or data[self.end - 1] == _LINE
        types = {at: kind for at, kind in types.items() if not empties[at]}  # it would be read as NULL
        found = None if swallowed else self._read(count, empties, types)
        if found is None and types and not swallowed:  # a number may not fit; as bytes it can be named
            found = self._read(count, empties, {})
        if found is None:
            for place, before in [*zip(places, lengths, strict=True), *heads]:
                data[place] = before
        return found

    def _read(self, count: int, empties: list[bool], types: Mapping[int, pa.DataType]) -> list[pa.Array] | None:
        """None: there are delimiters in the values. Each is a column or a line too many: Arrow notices, or the number
        of rows tells."""
        names = [str(number) for number in range(count)]
        first = self.starts[0] - HEADER + 1
        size = self.end - first
        try:
            table = pc.read_csv(
                pa.BufferReader(pa.py_buffer(self.data).slice(first, size)),
                read_options=pc.ReadOptions(column_names=["head", *names], block_size=size + 1, use_threads=False),
                parse_options=pc.ParseOptions(
                    delimiter=chr(_FIELD), quote_char=False, double_quote=False, escape_char=False,
                    ignore_empty_lines=False,
                ),
                convert_options=pc.ConvertOptions(
                    column_types={name: types.get(at, pa.binary()) for at, name in enumerate(names)},
                    include_columns=names, null_values=[""], strings_can_be_null=True,
                ),
            )  # fmt: skip
        except pa.ArrowInvalid:
            return None
        if table.num_rows != len(self.starts):
            return None
        columns = [table[name].combine_chunks() for name in names]
        return [each.fill_null(b"") if empty else each for each, empty in zip(columns, empties, strict=True)]


def read_packets(
    some_bytes: Callable[[int], bytes], problem: Callable[[bytes], Any], batch_rows: int = BATCH_ROWS
) -> Iterator[Packets]:
    """A result, to its end. ``some_bytes`` answers what is there of it, at most so much, and nothing if the connection
    was closed; ``problem`` raises what the server complains about."""
    data, starts, at = bytearray(), [], 0
    while True:
        more = some_bytes(READ_BYTES)
        if not more:
            raise OSError("the connection was closed")
        data += more
        while (have := len(data) - HEADER) > at:
            append = starts.append
            while at < have:  # for each row
                size, kind = _begin(data, at)
                size &= LARGEST_PACKET
                if kind >= _END or size == LARGEST_PACKET or at + size > have:
                    break
                at += HEADER
                append(at)
                at += size
            else:
                break
            if at + size > have and size < LARGEST_PACKET:
                break
            if size == LARGEST_PACKET:
                if starts:
                    yield Packets(data, starts, at)
                row, data = _large_row(bytearray(memoryview(data)[at:]), some_bytes)
                yield row
                starts, at = [], 0
                continue
            if kind == _PROBLEM:
                problem(bytes(data[at + HEADER : at + HEADER + size]))
            if size < 9:
                if starts:
                    yield Packets(data, starts, at)
                return
            starts.append(at + HEADER)  # its first value is a very long one
            at += HEADER + size
        if at > BATCH_BYTES or len(starts) >= batch_rows:
            batch = Packets(data, starts, at)
            data = bytearray(memoryview(data)[at:])
            starts, at = [], 0
            yield batch


def _large_row(data: bytearray, some_bytes: Callable[[int], bytes]) -> tuple[Packets, bytearray]:
    """One that is longer than a packet can be, and what comes behind it."""
    row, at = bytearray(HEADER), 0
    while True:
        while len(data) - at < HEADER or len(data) - at - HEADER < int.from_bytes(data[at : at + 3], "little"):
            more = some_bytes(READ_BYTES)
            if not more:
                raise OSError("the connection was closed")
            data += more
        size = int.from_bytes(data[at : at + 3], "little")
        row += memoryview(data)[at + HEADER : at + HEADER + size]
        at += HEADER + size
        if size < LARGEST_PACKET:
            return Packets(row, [HEADER], len(row)), bytearray(memoryview(data)[at:])
