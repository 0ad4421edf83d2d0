"""Rows of a result as DataRow messages, column by column: looking up how a value is written once per column and not
once per value is what makes a large result fast.

>>> data_rows([[1, None]], [SqlType("integer")], [0])
b'D\\x00\\x00\\x00\\x0b\\x00\\x01\\x00\\x00\\x00\\x011D\\x00\\x00\\x00\\n\\x00\\x01\\xff\\xff\\xff\\xff'
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

from headrace.errors import SqlSyntaxError
from headrace.serving.render import renderer
from headrace.serving.wire.binary import FIXED, encoder
from headrace.types import SqlType

_NULL = b"\xff\xff\xff\xff"
_LENGTH = struct.Struct("!i").pack
_SIZED = {name: (struct.calcsize(form), struct.Struct(f"!i{form[1]}").pack) for name, form in FIXED.items()}
"""Length and value at once, of types whose length is known."""


def data_rows(
    columns: Sequence[Sequence[Any]], types: Sequence[SqlType], formats: Sequence[int], zone: str = "UTC"
) -> bytes:
    """One message per row. ``zone``: that of the session, in which instants are printed."""
    cells = [_cells(values, kind, form, zone) for values, kind, form in zip(columns, types, formats, strict=True)]
    count = struct.pack("!h", len(types))
    out = []
    for row in zip(*cells, strict=True):
        body = b"".join(row)
        out.append(b"D" + _LENGTH(len(body) + 6) + count + body)
    return b"".join(out)


def _cells(values: Sequence[Any], kind: SqlType, form: int, zone: str) -> list[bytes]:
    if form == 1 and kind.name in _SIZED:
        size, pack = _SIZED[kind.name]
        return [_NULL if value is None else pack(size, value) for value in values]
    to_bytes = _to_bytes(kind, form, zone)
    cells = []
    for value in values:
        if value is None:
            cells.append(_NULL)
        else:
            data = to_bytes(value)
            cells.append(_LENGTH(len(data)) + data)
    return cells


def _to_bytes(kind: SqlType, form: int, zone: str) -> Callable[[Any], bytes]:
    if form == 1:
        return encoder(kind, zone)
    if kind.name == "varchar":
        return str.encode
    to_text = renderer(kind, zone)
    return lambda value: to_text(value).encode()


def spread(formats: Sequence[int], count: int) -> list[int]:
    """The format of each column or parameter: none given means text, one stands for all."""
    if any(form not in (0, 1) for form in formats):
        raise SqlSyntaxError("unsupported format code", hint="0 is text, 1 is binary")
    if not formats:
        return [0] * count
    if len(formats) == 1:
        return list(formats) * count
    if len(formats) != count:
        raise SqlSyntaxError(f"{len(formats)} format codes were given for {count} values")
    return list(formats)
