"""Columns that a program or a file brings, as they are stored: Arrow may have a type of its own where we have none.

>>> from headrace.types import array_of
>>> given = pa.array([["A0EEBC999C0B4EF8BB6D6BB9BD380A11", None]])
>>> as_stored(given, array_of(SqlType("uuid"))).to_pylist()
[['a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', None]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from headrace import intervals, times, uuids
from headrace.types import SqlType

_Arrays = pa.Array | pa.ChunkedArray

_COLUMNS: dict[str, Callable[[pa.Array, SqlType], pa.Array]] = {
    "interval": lambda values, kind: intervals.from_arrow(values),
    "uuid": lambda values, kind: uuids.from_arrow(values),
    "time": lambda values, kind: times.from_arrow(values, kind.precision),
}
_VALUES: dict[str, Callable[[Any, SqlType], Any]] = {
    "uuid": lambda value, kind: uuids.from_python(value),
    "time": lambda value, kind: times.from_python(value, kind.precision),
}
"""Of those that are inside of arrays and structs"""


def as_stored(values: _Arrays, kind: SqlType) -> _Arrays:
    """Raises what Arrow does if it cannot be converted, and a DataError for a value that does not fit."""
    if isinstance(values, pa.ChunkedArray):
        return pa.chunked_array([as_stored(chunk, kind) for chunk in values.chunks], kind.arrow)
    if kind.name in _COLUMNS:
        values = _COLUMNS[kind.name](values, kind)
    elif (convert := _inside(kind)) is not None and pa.types.is_nested(values.type):
        return pa.array([None if each is None else convert(each) for each in values.to_pylist()], kind.arrow)
    return values.cast(kind.arrow)


def _inside(kind: SqlType) -> Callable[[Any], Any] | None:
    """What makes a stored value of one that is not NULL; None if it is stored as it comes."""
    if kind.name == "array":
        inner = _inside(kind.element)
        return inner and (lambda values: [None if each is None else inner(each) for each in values])
    if kind.name == "struct":
        found = {name: inner for name, each in kind.fields if (inner := _inside(each)) is not None}
        return _fields(found) if found else None
    read = _VALUES.get(kind.name)
    return read and (lambda value: read(value, kind))


def _fields(converters: Mapping[str, Callable[[Any], Any]]) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    return lambda value: {
        name: converters[name](each) if each is not None and name in converters else each
        for name, each in value.items()
    }
