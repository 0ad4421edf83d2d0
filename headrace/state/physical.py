"""SQL values as the plain numbers and bytes that keys and vnodes are made of.

Spark hashes, and we sort, not the value but what it is stored as: a date is a count of days, a timestamp a count of
microseconds, ``numeric(10,2)`` the number of hundredths. Single values come from Arrow's ``to_pylist``; whole columns
stay in numpy.

>>> to_int(SqlType("date"), datetime.date(1970, 1, 2))
1
>>> to_int(SqlType("numeric", precision=10, scale=2), Decimal("1.5"))
150
>>> from_int(SqlType("numeric", precision=10, scale=2), 150)
Decimal('1.50')
"""

from __future__ import annotations

import datetime
from decimal import Context, Decimal, Inexact
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.errors import DataError
from headrace.types import DEFAULT_PRECISION, DEFAULT_SCALE, SqlType

INTEGER_WIDTHS = {
    "boolean": 1,
    "smallint": 2,
    "integer": 4,
    "bigint": 8,
    "date": 4,
    "time": 8,
    "timestamp": 8,
    "timestamptz": 8,
}
"""Types that are stored as one integer, and its bytes. numeric is one too, but as wide as its precision needs."""

_DAY_ZERO = datetime.date(1970, 1, 1).toordinal()
_WALL_ZERO = datetime.datetime(1970, 1, 1)
_INSTANT_ZERO = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)

# The default context has 28 digits and would round a numeric(38) silently.
_EXACT = Context(prec=80, traps=[Inexact])


def precision_of(kind: SqlType) -> int:
    return kind.precision or DEFAULT_PRECISION


def scale_of(kind: SqlType) -> int:
    return DEFAULT_SCALE if kind.scale is None else kind.scale


def to_int(kind: SqlType, value: Any) -> int:
    """The stored integer. Integers pass through: a raw count of days or microseconds is one already."""
    name = kind.name
    if name == "numeric":
        scaled = _EXACT.scaleb(Decimal(value), scale_of(kind))
        try:
            return int(_EXACT.to_integral_exact(scaled))
        except Inexact:
            raise DataError(f"{value} has more digits after the point than {kind}", sqlstate="22003") from None
    if isinstance(value, int):
        return int(value)
    if name == "date":
        return value.toordinal() - _DAY_ZERO
    if name == "timestamp":
        return (value.replace(tzinfo=None) - _WALL_ZERO) // _MICROSECOND
    if name == "timestamptz":
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        return (aware - _INSTANT_ZERO) // _MICROSECOND
    return int(value)


def from_int(kind: SqlType, number: int) -> Any:
    """The value again. A day or instant outside Python's years 1 to 9999 stays an integer."""
    name = kind.name
    if name == "boolean":
        return bool(number)
    if name == "numeric":
        return _EXACT.scaleb(Decimal(number), -scale_of(kind))
    try:
        if name == "date":
            return datetime.date.fromordinal(number + _DAY_ZERO)
        if name == "timestamp":
            return _WALL_ZERO + datetime.timedelta(microseconds=number)
        if name == "timestamptz":
            return _INSTANT_ZERO + datetime.timedelta(microseconds=number)
    except (OverflowError, ValueError):
        pass
    return number


def plain(kind: SqlType, column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array of the type's own Arrow type, whatever the reader made of it."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if array.type == kind.arrow else array.cast(kind.arrow)


def int_array(array: pa.Array) -> np.ndarray:
    """The stored integers of an array as int64, NULLs as 0. Decimals only up to 18 digits."""
    kind = array.type
    if pa.types.is_decimal(kind):
        return decimal_words(array)[:, 0].copy()
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int32())
    elif not pa.types.is_integer(kind):
        array = array.view(pa.int32() if pa.types.is_date32(kind) else pa.int64())
    if array.null_count:
        array = array.fill_null(0)
    return array.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)


def array_of_ints(kind: pa.DataType, numbers: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """The values again, of int64; where it is not valid, it is NULL.

    >>> array_of_ints(pa.decimal128(5, 2), np.array([-150, 7]), np.array([True, False])).to_pylist()
    [Decimal('-1.50'), None]
    """
    if pa.types.is_decimal(kind):
        return array_of_words(kind, np.stack([numbers, numbers >> 63], axis=1), valid)
    array = pa.array(numbers, pa.int64(), mask=None if valid is None else ~valid)
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return array.cast(kind)
    return array.cast(pa.int32()).view(kind) if pa.types.is_date32(kind) else array.view(kind)


def array_of_words(kind: pa.DataType, words: np.ndarray, valid: np.ndarray | None = None) -> pa.Array:
    """What :func:`decimal_words` has taken apart."""
    mask = None if valid is None or valid.all() else pa.array(valid).buffers()[1]
    return pa.Array.from_buffers(kind, len(words), [mask, pa.py_buffer(np.ascontiguousarray(words, dtype="<i8"))])


def interval_arrays(array: pa.Array) -> list[np.ndarray]:
    """Length, months and days of a :func:`plain` array as int64, of NULLs 0."""
    fields = [array.field(number).fill_null(0) for number in range(array.type.num_fields)]
    return [field.to_numpy(zero_copy_only=False).astype(np.int64, copy=False) for field in fields]


def decimal_words(array: pa.Array) -> np.ndarray:
    """decimal128 as rows of (low, high) int64 words, NULLs as 0."""
    if array.null_count:
        array = array.fill_null(Decimal(0))
    data = array.buffers()[1]
    if data is None or len(array) == 0:
        return np.zeros((0, 2), dtype=np.int64)
    words = np.frombuffer(data, dtype="<i8", count=2 * (array.offset + len(array)))
    return words[2 * array.offset :].reshape(-1, 2)


def float_array(kind: SqlType, array: pa.Array) -> np.ndarray:
    """Floats with one zero and one NaN, NULLs as 0."""
    if array.null_count:
        array = array.fill_null(0.0)
    values = array.to_numpy(zero_copy_only=False) + kind.arrow.to_pandas_dtype()(0)  # -0.0 + 0.0 is 0.0
    values[np.isnan(values)] = np.nan
    return values
