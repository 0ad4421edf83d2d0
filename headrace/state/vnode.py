"""Vnodes: which of 256 slices a row belongs to, the same on the driver as in Spark.

Rows are hashed with Spark's own ``xxhash64`` so that executors compute vnodes in generated code, and the driver can
find a single row's slice without a job. Columns chain: the hash of one is the seed of the next, NULL leaves it alone.

>>> spark_expression(["a"])
'CAST(pmod(xxhash64(`a`), 256) AS SMALLINT)'
>>> 0 <= vnode_of([42], [SqlType("bigint")]) < VNODES
True
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import xxhash

from headrace.errors import Unsupported
from headrace.intervals import FIELDS
from headrace.state.physical import (
    INTEGER_WIDTHS,
    decimal_words,
    float_array,
    int_array,
    interval_arrays,
    plain,
    precision_of,
    to_int,
)
from headrace.types import STORED_AS_TEXT, SqlType, quote_spark

VNODES = 256

_SEED = 42
_INT, _LONG = struct.Struct("<i"), struct.Struct("<q")
_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")


def spark_expression(columns: Sequence[str], within: str = "") -> str:
    """A relation without distribution columns is a single slice. ``within``: the struct that holds the columns."""
    if not columns:
        return "CAST(0 AS SMALLINT)"
    prefix = f"{within}." if within else ""
    hashed = ", ".join(prefix + quote_spark(column) for column in columns)
    return f"CAST(pmod(xxhash64({hashed}), {VNODES}) AS SMALLINT)"


def vnode_of(values: Sequence[Any], types: Sequence[SqlType]) -> int:
    if not types:
        return 0
    hashed = _SEED
    for value, kind in zip(values, types, strict=True):
        if kind.name == "interval" and value is not None:
            for field, layout in zip(FIELDS, (_LONG, _INT, _INT), strict=True):
                hashed = xxhash.xxh64_intdigest(layout.pack(value[field]), hashed)
        elif value is not None:
            hashed = xxhash.xxh64_intdigest(_hashed_bytes(kind)(value), hashed)
    return hashed % VNODES


def vnodes_of(table: pa.Table | pa.RecordBatch, columns: Sequence[str], types: Sequence[SqlType]) -> np.ndarray:
    """The vnode of each row, as int16."""
    if not columns:
        return np.zeros(table.num_rows, dtype=np.int16)
    hashed = np.full(table.num_rows, _SEED, dtype=np.uint64)
    for name, kind in zip(columns, types, strict=True):
        array = plain(kind, table.column(name))
        after = _hash_column(kind, array, hashed)
        if array.null_count:
            after = np.where(array.is_null().to_numpy(zero_copy_only=False), hashed, after)
        hashed = after
    return (hashed % np.uint64(VNODES)).astype(np.int16)


def _hashed_bytes(kind: SqlType) -> Callable[[Any], bytes]:
    """What Spark feeds to the hash for a value of the type."""
    name = kind.name
    if name in INTEGER_WIDTHS:
        layout = _LONG if INTEGER_WIDTHS[name] == 8 else _INT
        return lambda value: layout.pack(to_int(kind, value))
    if name == "numeric":
        if precision_of(kind) <= 18:
            return lambda value: _LONG.pack(to_int(kind, value))
        return lambda value: _big_integer(to_int(kind, value))
    if name in ("real", "double precision"):
        layout = _FLOAT if name == "real" else _DOUBLE
        return lambda value: layout.pack(float("nan") if value != value else value + 0.0)
    if name in STORED_AS_TEXT or name == "bytea":
        return lambda value: value.encode() if isinstance(value, str) else bytes(value)
    raise _unhashable(kind)


def _big_integer(number: int) -> bytes:
    """java.math.BigInteger.toByteArray: the shortest two's complement, big endian, with room for the sign."""
    return number.to_bytes((number if number >= 0 else ~number).bit_length() // 8 + 1, "big", signed=True)


def _hash_column(kind: SqlType, array: pa.Array, seeds: np.ndarray) -> np.ndarray:
    name = kind.name
    if name == "interval":
        length, *others = (numbers.view(np.uint64) for numbers in interval_arrays(array))
        hashed = _hash_longs(length, seeds)
        for numbers in others:
            hashed = _hash_ints(numbers, hashed)
        return hashed
    if name in INTEGER_WIDTHS:
        numbers = int_array(array).view(np.uint64)
        return _hash_longs(numbers, seeds) if INTEGER_WIDTHS[name] == 8 else _hash_ints(numbers, seeds)
    if name == "numeric" and precision_of(kind) <= 18:
        return _hash_longs(int_array(array).view(np.uint64), seeds)
    if name == "real":
        return _hash_ints(float_array(kind, array).view(np.uint32).astype(np.uint64), seeds)
    if name == "double precision":
        return _hash_longs(float_array(kind, array).view(np.uint64), seeds)
    if name == "numeric":
        lows, highs = np.ascontiguousarray(decimal_words(array).T)
        texts = [
            _big_integer((high << 64) + low)
            for low, high in zip(lows.view(np.uint64).tolist(), highs.tolist(), strict=True)
        ]
    elif name in STORED_AS_TEXT or name == "bytea":
        texts = array.cast(pa.binary()).fill_null(b"").to_pylist()
    else:
        raise _unhashable(kind)
    return np.fromiter(map(xxhash.xxh64_intdigest, texts, seeds.tolist()), dtype=np.uint64, count=len(texts))


# --- XXH64 of one 4-byte or 8-byte word, for whole columns ------------------------------------------------------

_P1, _P2, _P3, _P4, _P5 = map(
    np.uint64,
    (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)


def _rotate(words: np.ndarray, bits: int) -> np.ndarray:
    return (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))


def _avalanche(words: np.ndarray) -> np.ndarray:
    words = (words ^ (words >> np.uint64(33))) * _P2
    words = (words ^ (words >> np.uint64(29))) * _P3
    return words ^ (words >> np.uint64(32))


def _hash_ints(numbers: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    words = (seeds + _P5 + np.uint64(4)) ^ ((numbers & np.uint64(0xFFFFFFFF)) * _P1)
    return _avalanche(_rotate(words, 23) * _P2 + _P3)


def _hash_longs(numbers: np.ndarray, seeds: np.ndarray) -> np.ndarray:
    words = (seeds + _P5 + np.uint64(8)) ^ (_rotate(numbers * _P2, 31) * _P1)
    return _avalanche(_rotate(words, 27) * _P1 + _P4)


def _unhashable(kind: SqlType) -> Unsupported:
    return Unsupported(
        f"rows cannot be distributed by a column of type {kind}",
        hint="distribute by, group by or join on a type that is not an array or struct",
    )
