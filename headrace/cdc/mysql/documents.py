"""JSON of MySQL: the log has it in a form of its own, a SELECT as text. Both become the same text.

A document is a byte for its type and a value. Objects and arrays are a number of elements, a size, for objects where
the names are, for each element its type and its value or where that is, and then names and values. All places count
from the first byte behind the type; "large" ones have four bytes for each number, "small" ones two.

>>> document_text(bytes([2, 2, 0, 10, 0, 5, 1, 0, 4, 0, 0]))
'[1, null]'
>>> with_plain_numbers('{"1e2": [1e2, 1.50, "1.50", -2.5e-7]}')
'{"1e2": [100, 1.5, "1.50", -0.00000025]}'
"""

from __future__ import annotations

import base64
import json
import re
import struct
from decimal import Decimal

from headrace.cdc.mysql.decimals import decimal_text
from headrace.cdc.problems import MalformedLog

_NUMBERS = {5: "<h", 6: "<H", 7: "<i", 8: "<I", 9: "<q", 10: "<Q"}
_LITERALS = {0: "null", 1: "true", 2: "false"}
_DATE, _TIME, _DATETIMES, _DECIMAL = 10, 11, (7, 12), 246
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?')


def document_text(data: bytes) -> str:
    """As a SELECT prints it, with plain numbers."""
    if not data:
        return "null"  # what a column without a default has in old rows
    try:
        return _value(data[0], memoryview(data)[1:])
    except (struct.error, IndexError, KeyError, UnicodeDecodeError):
        raise MalformedLog("the log has JSON that cannot be read") from None


def with_plain_numbers(text: str) -> str:
    """The text of a document, each number without exponent and without zeros at the end of its fraction: of those the
    log has no trace."""
    return _TOKEN.sub(lambda found: found[0] if found[0][0] == '"' else _plain(found[0]), text)


def _plain(number: str) -> str:
    if "." not in number and "e" not in number and "E" not in number:
        return number
    shown = f"{Decimal(number):f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown


def _value(kind: int, data: memoryview) -> str:
    if kind <= 3:
        return _container(data, is_object=kind < 2, width=4 if kind % 2 else 2)
    if kind == 4:
        return _LITERALS[data[0]]
    if kind in _NUMBERS:
        return str(struct.unpack_from(_NUMBERS[kind], data)[0])
    if kind == 11:
        return _plain(repr(struct.unpack_from("<d", data)[0]))
    if kind == 12:
        size, at = _length(data, 0)
        return _quoted(bytes(data[at : at + size]).decode())
    if kind == 15:
        size, at = _length(data, 1)
        return _opaque(data[0], bytes(data[at : at + size]))
    raise MalformedLog(f"the log has JSON of kind {kind}, which is not known")


def _container(data: memoryview, *, is_object: bool, width: int) -> str:
    count = _number(data, 0, width)
    names = 2 * width
    values = names + (count * (width + 2) if is_object else 0)
    shown = []
    for each in range(count):
        at = values + each * (width + 1)
        kind = data[at]
        # Small values stand in the place of where they are.
        inline = kind in (4, 5, 6) or (width == 4 and kind in (7, 8))
        value = _value(kind, data[at + 1 :] if inline else data[_number(data, at + 1, width) :])
        if is_object:
            entry = names + each * (width + 2)
            begin, size = _number(data, entry, width), _number(data, entry + width, 2)
            value = f"{_quoted(bytes(data[begin : begin + size]).decode())}: {value}"
        shown.append(value)
    inner = ", ".join(shown)
    return f"{{{inner}}}" if is_object else f"[{inner}]"


def _number(data: memoryview, at: int, width: int) -> int:
    return int.from_bytes(data[at : at + width], "little")


def _length(data: memoryview, at: int) -> tuple[int, int]:
    """Seven bits of each byte, the lowest first; the eighth says that there are more."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _opaque(kind: int, data: bytes) -> str:
    """A value of SQL that JSON has no type for."""
    if kind == _DECIMAL:
        return _plain(decimal_text(data[0], data[1], data[2:]))
    if kind in (_DATE, _TIME, *_DATETIMES):
        return f'"{_moment(kind, int.from_bytes(data[:8], "little", signed=True))}"'
    return f'"base64:type{kind}:{base64.b64encode(data).decode()}"'


def _moment(kind: int, packed: int) -> str:
    sign, packed = ("-", -packed) if packed < 0 else ("", packed)
    micros, clock = packed & 0xFFFFFF, packed >> 24
    if kind == _TIME:
        return f"{sign}{clock >> 12 & 1023:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}.{micros:06d}"
    days, clock = clock >> 17, clock & (1 << 17) - 1
    date = f"{(days >> 5) // 13:04d}-{(days >> 5) % 13:02d}-{days & 31:02d}"
    if kind == _DATE:
        return date
    return f"{date} {clock >> 12:02d}:{clock >> 6 & 63:02d}:{clock & 63:02d}.{micros:06d}"
