"""Text of a database as columns. The one way from text to value, of a snapshot's rows and of the log's.

>>> column(pa.array(["1.50", None]), SqlType("numeric", precision=10, scale=2), "price").to_pylist()
[Decimal('1.50'), None]
>>> try: column(pa.array(["infinity"]), SqlType("date"), "day")
... except DataError as error: print(error.message)
column "day": "infinity" is not a value of type date
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError, HeadraceError
from headrace.sql.composites import array_items
from headrace.sql.literals import from_text
from headrace.types import SqlType

_TRUE, _FALSE = ("t", "true", "1"), ("f", "false", "0")


def column(texts: pa.Array | pa.ChunkedArray, kind: SqlType, name: str) -> pa.Array | pa.ChunkedArray:
    """Whatever the type cannot hold exactly is an error that names the column: nothing is rounded or left out."""
    try:
        return _read(texts, kind)
    except (pa.ArrowInvalid, ValueError, HeadraceError) as problem:
        raise DataError(_message(texts, kind, name, problem), hint=HINT, sqlstate="22P02") from None


def _read(texts: pa.Array | pa.ChunkedArray, kind: SqlType) -> pa.Array | pa.ChunkedArray:
    if kind.name == "boolean":
        return _booleans(texts)
    if kind.name == "bytea":
        return pa.array([None if text is None else _bytes(text) for text in texts.to_pylist()], pa.binary())
    if kind.name in ("interval", "time"):
        return pa.array([None if text is None else from_text(text, kind) for text in texts.to_pylist()], kind.arrow)
    if kind.name == "array":
        return _arrays(texts, kind)
    return texts.cast(kind.arrow)


HINT = "create the table with its columns named, and this one as VARCHAR: it then holds the database's text"


def _booleans(texts: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    true = pc.is_in(texts, value_set=pa.array(_TRUE))
    known = pc.or_(true, pc.is_in(texts, value_set=pa.array(_FALSE)))
    if not pc.all(pc.or_(known, pc.is_null(texts))).as_py():
        raise ValueError("neither true nor false")
    return pc.if_else(pc.is_null(texts), pa.scalar(None, pa.bool_()), true)


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("not in hexadecimal form")
    return bytes.fromhex(text[2:])


def _arrays(texts: pa.Array | pa.ChunkedArray, kind: SqlType) -> pa.Array:
    """The elements of all of them as one column, and that cut into arrays again."""
    split = [None if text is None else _items(text) for text in texts.to_pylist()]
    elements = iter(
        _read(pa.array([item for items in split for item in items or ()], pa.string()), kind.element).to_pylist()
    )
    return pa.array([None if items is None else [next(elements) for _ in items] for items in split], kind.arrow)


def _items(text: str) -> list[str | None]:
    if text.startswith("{{"):
        raise ValueError("an array of more than one dimension")
    return array_items(text)


def _message(texts: pa.Array | pa.ChunkedArray, kind: SqlType, name: str, problem: Exception) -> str:
    """Names the first value that does not fit, cut short."""
    for text in texts.to_pylist():
        try:
            if text is not None:
                _read(pa.array([text], pa.string()), kind)
        except (pa.ArrowInvalid, ValueError, HeadraceError):
            shown = text if len(text) <= 40 else text[:40] + "…"
            return f'column "{name}": "{shown}" is not a value of type {kind}'
    return f'column "{name}": {problem}'
