"""Rows of the binary log as text: the same text that :mod:`headrace.cdc.mysql.types` makes of what a SELECT prints.

For each column there is a function of (bytes, place) that answers the value and where it ends.

>>> read = value_reader(LogColumn("n", 2, 0, False, 0, ()), SourceType(name="smallint", text="smallint(6)"))
>>> read(b"\\xff\\xff", 0)
('-1', 2)
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.cdc.mysql.binlog import ENUM, SET, STRING, LogColumn, length
from headrace.cdc.mysql.decimals import decimal_reader, decimal_width
from headrace.cdc.mysql.documents import document_text
from headrace.cdc.mysql.types import BYTES, CHOICES, TEXTS, SourceType, decoder
from headrace.cdc.problems import MalformedLog

Read = Callable[[bytes, int], tuple[Any, int]]

_INTEGER_BYTES = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8}
_FIXED = {1: 1, 2: 2, 9: 3, 3: 4, 8: 8, 4: 4, 5: 8, 7: 4, 10: 3, 11: 3, 12: 8, 13: 1, 14: 3}
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")

KINDS = {
    "tinyint": (1,), "smallint": (2,), "mediumint": (9,), "int": (3,), "bigint": (8,), "float": (4,), "double": (5,),
    "decimal": (246,), "bit": (16,), "year": (13,), "date": (10, 14), "time": (19,), "datetime": (18,),
    "timestamp": (17,), "enum": (ENUM,), "set": (SET,), "char": (STRING,), "binary": (STRING,), "varchar": (15, 253),
    "varbinary": (15, 253), "uuid": (STRING,), "inet6": (STRING,), "inet4": (STRING,),
    "json": (245,),
    **{name: (252,) for name in (*TEXTS[2:], *BYTES[2:])},
}  # fmt: skip
"""By the name of a type: its numbers in the log"""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Rows:
    """The rows of a table as the log describes it, reduced to some columns."""

    def __init__(self, columns: Sequence[LogColumn], wanted: dict[int, SourceType]):
        self._readers = [
            value_reader(column, wanted[number]) if number in wanted else skipper(column)
            for number, column in enumerate(columns)
        ]

    def read(self, data: bytes, *, pairs: bool) -> list[tuple[Any, ...]] | None:
        """All of them, one after the other; of updates, the row before and the row after. None: columns are missing."""
        count, at = length(data, 0)
        if count != len(self._readers):
            raise MalformedLog(f"the log has rows of {count} columns of a table of {len(self._readers)}")
        width, readers = (count + 7) // 8, self._readers
        full = (1 << count) - 1
        for _ in range(2 if pairs else 1):
            if int.from_bytes(data[at : at + width], "little") & full != full:
                return None
            at += width
        rows, end = [], len(data)
        try:
            while at < end:
                nulls = int.from_bytes(data[at : at + width], "little")
                at += width
                row: list[Any] = []
                for reader in readers:
                    if nulls & 1:
                        row.append(None)
                    else:
                        value, at = reader(data, at)
                        row.append(value)
                    nulls >>= 1
                rows.append(tuple(row))
        except (struct.error, IndexError):
            raise MalformedLog("the log has a row that ends too early") from None
        if at != end:
            raise MalformedLog("the log has a row that is longer than its event")
        return rows


def skipper(column: LogColumn) -> Read:
    """Passes over a value that nobody wants."""
    kind = column.kind
    if kind in _FIXED:
        width = _FIXED[kind]
    elif kind == 16:
        width = (column.length + 7) // 8
    elif kind == 246:
        width = decimal_width(column.length >> 8, column.length & 0xFF)
    elif kind in (17, 18, 19):
        width = {17: 4, 18: 5, 19: 3}[kind] + (column.length + 1) // 2
    elif kind in (ENUM, SET):
        width = column.length
    else:
        return _bytes(column)
    return lambda data, at: (None, at + width)


def value_reader(column: LogColumn, kind: SourceType) -> Read:
    if kind.name in ("tinyint", "smallint", "mediumint", "int", "bigint"):
        return _integer(_INTEGER_BYTES[column.kind], not kind.unsigned)
    if kind.name == "float":
        return lambda data, at: (repr(_FLOAT.unpack_from(data, at)[0]), at + 4)
    if kind.name == "double":
        return lambda data, at: (repr(_DOUBLE.unpack_from(data, at)[0]), at + 8)
    if kind.name == "decimal":
        return decimal_reader(column.length >> 8, column.length & 0xFF)
    if kind.name == "bit":
        width = (column.length + 7) // 8
        return lambda data, at: (str(int.from_bytes(data[at : at + width], "big")), at + width)
    if kind.name == "year":
        return lambda data, at: (f"{1900 + data[at]}" if data[at] else "0000", at + 1)
    if kind.name == "date":
        return _date
    if kind.name in ("time", "datetime", "timestamp"):
        return {"time": _time, "datetime": _datetime, "timestamp": _timestamp}[kind.name](column.length)
    if kind.name in CHOICES:
        return _choice(column, kind)
    inner = _bytes(column)
    convert = _from_bytes(kind)

    def text(data: bytes, at: int) -> tuple[str, int]:
        value, end = inner(data, at)
        return convert(value), end

    return text


def _from_bytes(kind: SourceType) -> Callable[[bytes], str]:
    if kind.name == "json":
        return document_text
    if kind.name in TEXTS:
        return decoder(kind.charset)
    if kind.name == "uuid":
        return lambda value: _uuid(value.ljust(16, b"\0"))
    if kind.name == "inet6":
        return lambda value: _inet6(value.ljust(16, b"\0"))
    if kind.name == "inet4":
        return lambda value: ".".join(map(str, value.ljust(4, b"\0")))
    if kind.name == "binary":
        return lambda value: "\\x" + value.ljust(kind.length, b"\0").hex()  # the log leaves zeros at the end out
    return lambda value: "\\x" + value.hex()


def _bytes(column: LogColumn) -> Read:
    if column.kind in (252, 255, 245, 242, 140):
        width = column.length
    elif column.kind in (15, 253, STRING, 141):
        width = 1 if column.length < 256 else 2
    else:
        raise MalformedLog(f'column "{column.name}" is of type number {column.kind}, which is not known')

    def read(data: bytes, at: int) -> tuple[bytes, int]:
        begin = at + width
        end = begin + int.from_bytes(data[at:begin], "little")
        if end > len(data):
            raise IndexError
        return data[begin:end], end

    return read


def _integer(width: int, signed: bool) -> Read:
    return lambda data, at: (str(int.from_bytes(data[at : at + width], "little", signed=signed)), at + width)


# --- dates and times --------------------------------------------------------------------------------------------


def _date(data: bytes, at: int) -> tuple[str, int]:
    value = data[at] | data[at + 1] << 8 | data[at + 2] << 16
    return f"{value >> 9:04d}-{value >> 5 & 15:02d}-{value & 31:02d}", at + 3


def _fraction(value: int, digits: int) -> str:
    """Of two, four or six stored digits, as many as the column has."""
    if not digits:
        return ""
    return f".{value:0{(digits + 1) // 2 * 2}d}"[: digits + 1]


def _datetime(digits: int) -> Read:
    more = (digits + 1) // 2

    def read(data: bytes, at: int) -> tuple[str, int]:
        value = int.from_bytes(data[at : at + 5], "big") - 0x8000000000
        months, day = value >> 22, value >> 17 & 31
        fraction = _fraction(int.from_bytes(data[at + 5 : at + 5 + more], "big"), digits)
        return (
            f"{months // 13:04d}-{months % 13:02d}-{day:02d} {value >> 12 & 31:02d}:{value >> 6 & 63:02d}:"
            f"{value & 63:02d}{fraction}"
        ), at + 5 + more

    return read


def _timestamp(digits: int) -> Read:
    more = (digits + 1) // 2

    def read(data: bytes, at: int) -> tuple[str, int]:
        seconds = int.from_bytes(data[at : at + 4], "big")
        part = int.from_bytes(data[at + 4 : at + 4 + more], "big")
        if seconds == 0 and part == 0:
            shown = "0000-00-00 00:00:00"
        else:
            shown = f"{_EPOCH + timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"
        return shown + _fraction(part, digits) + "+00", at + 4 + more

    return read


def _time(digits: int) -> Read:
    more = (digits + 1) // 2
    zero = 0x800000 << 8 * more

    def read(data: bytes, at: int) -> tuple[str, int]:
        value = int.from_bytes(data[at : at + 3 + more], "big") - zero
        sign, value = "-" if value < 0 else "", abs(value)
        clock, part = value >> 8 * more, value & (1 << 8 * more) - 1
        return (
            f"{sign}{clock >> 12 & 1023:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}{_fraction(part, digits)}"
        ), at + 3 + more

    return read


# --- others -----------------------------------------------------------------------------------------------------


def _choice(column: LogColumn, kind: SourceType) -> Read:
    width, decode = column.length, decoder(kind.charset)
    values = [decode(value) for value in column.values]

    def one(data: bytes, at: int) -> tuple[str, int]:
        number = int.from_bytes(data[at : at + width], "little")
        return (values[number - 1] if number else ""), at + width

    def several(data: bytes, at: int) -> tuple[str, int]:
        bits = int.from_bytes(data[at : at + width], "little")
        return ",".join(value for place, value in enumerate(values) if bits >> place & 1), at + width

    return one if kind.name == "enum" else several


def _uuid(value: bytes) -> str:
    """Of versions 1 to 5 the server stores the parts from the last to the first, so that they are ordered by machine
    and time; it knows them by the bits of the variant, which then stand where the version would."""
    swapped = value[6] & 0x80 and 0 < value[8] < 0x60
    if swapped:
        value = value[12:16] + value[10:12] + value[8:10] + value[6:8] + value[0:6]
    shown = value.hex()
    return f"{shown[:8]}-{shown[8:12]}-{shown[12:16]}-{shown[16:20]}-{shown[20:]}"


def _inet6(value: bytes) -> str:
    """As the server writes it: the longest run of zeros as ::, an address of version 4 with dots."""
    parts = [value[place] << 8 | value[place + 1] for place in range(0, 16, 2)]
    best, begin = (0, 0), None
    for place in range(9):
        if place < 8 and parts[place] == 0:
            begin = place if begin is None else begin
        elif begin is not None:
            best = max(best, (place - begin, -begin))
            begin = None
    run, start = (best[0], -best[1]) if best[0] else (0, 9)
    dotted = start == 0 and run in (5, 6) and (run == 6 or parts[5] == 0xFFFF)
    words = [f"{part:x}" for part in parts]
    if dotted:
        words[6:] = [".".join(map(str, value[12:16]))]
    if not run:
        return ":".join(words)
    return ":".join(words[:start]) + "::" + ":".join(words[start + run :])
