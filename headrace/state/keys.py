"""Keys as bytes that sort the way the pk does ("memcomparable").

Bounds of files, binary searches and range scans then need nothing but ``bytes`` comparison, whatever the key's types,
directions and NULL placement. Each column is a tag byte (NULL or not, which alone decides where NULLs go) and a body:

* integers, dates, times: big endian with the sign bit flipped, so that negatives come first;
* intervals: their length, months and days as such integers, so that two of one length are neighbours, not one key;
* numeric(p,s): its unscaled integer, 8 bytes up to 18 digits, else 16;
* floats: the IEEE bits, flipped so that they sort; one NaN, above all; -0.0 is 0.0;
* text and bytea: the bytes with 00 written as 00 FF, then 00 00, so that a prefix sorts first and the next column
  starts unambiguously.

A descending column has its body inverted. A fixed-width body is there (as zeros) even for NULL, so that a key of such
columns has one width and a whole column is encoded at once.

>>> codec = KeyCodec([(SqlType("integer"), KeyColumn(name="a")), (SqlType("varchar"), KeyColumn(name="b"))])
>>> codec.encode([-1, "x"]) < codec.encode([1, "a"]) < codec.encode([1, "b"]) < codec.encode([None, "a"])
True
>>> codec.decode(codec.encode([7, "x"]))
(7, 'x')
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog import KeyColumn, Relation
from headrace.errors import CorruptWarehouse, DataError, Unsupported
from headrace.intervals import FIELDS
from headrace.state.physical import (
    INTEGER_WIDTHS,
    array_of_ints,
    array_of_words,
    decimal_words,
    float_array,
    from_int,
    int_array,
    interval_arrays,
    plain,
    precision_of,
    to_int,
)
from headrace.types import STORED_AS_TEXT, SqlType

_INVERTED = bytes(255 - byte for byte in range(256))
_VNODE = struct.Struct(">H")


class KeyCodec:
    def __init__(self, columns: Sequence[tuple[SqlType, KeyColumn]]):
        self._shape = tuple(columns)
        self.names = [key.name for _, key in columns]
        self._columns = [_column_codec(kind, key) for kind, key in columns]

    def __reduce__(self):
        return KeyCodec, (self._shape,)

    @staticmethod
    def of(relation: Relation) -> KeyCodec:
        return KeyCodec([(relation.column(key.name).type, key) for key in relation.pk])

    def encode(self, values: Sequence[Any]) -> bytes:
        """One key; a shorter sequence encodes a prefix of the key's columns, which is a prefix of the bytes."""
        return b"".join([codec.write(value) for codec, value in zip(self._columns, values, strict=False)])

    def encode_with_vnode(self, vnode: int, values: Sequence[Any]) -> bytes:
        return _VNODE.pack(vnode) + self.encode(values)

    def encode_table(
        self,
        table: pa.Table | pa.RecordBatch,
        columns: Sequence[str] | None = None,
        *,
        vnodes: np.ndarray | Sequence[int] | None = None,
    ) -> list[bytes]:
        """The key of each row; with ``vnodes`` (one per row) each is prefixed as by :meth:`encode_with_vnode`."""
        parts: list[np.ndarray | list[bytes]] = []
        if vnodes is not None:
            parts.append(_vnode_bytes(vnodes))
        for codec, name in zip(self._columns, columns or self.names, strict=True):
            array = plain(codec.kind, table.column(name))
            parts.append(codec.pieces(array) if isinstance(codec, _Variable) else codec.matrix(array))
        return _rows(parts, table.num_rows)

    @property
    def width(self) -> int | None:
        """Of all keys with their vnode; None if not all have the same."""
        if any(isinstance(codec, _Variable) for codec in self._columns):
            return None
        return _VNODE.size + sum(1 + codec.width for codec in self._columns)

    def matrix(self, table: pa.Table | pa.RecordBatch, *, vnodes: np.ndarray | Sequence[int]) -> np.ndarray:
        """The keys with their vnodes as rows of bytes, where all have the same width."""
        # As fields of a record: numpy copies a column of numbers many times as fast as rows of a few bytes.
        bodies = [codec.numbers(plain(codec.kind, table.column(codec.name))) for codec in self._columns]
        fields = [("vnode", ">u2")]
        for at, (codec, body) in enumerate(zip(self._columns, bodies, strict=True)):
            fields += [(f"tag{at}", "u1"), (f"body{at}", f">u{codec.width}" if body.ndim == 1 else ("u1", codec.width))]
        rows = np.empty(table.num_rows, dtype=fields)
        rows["vnode"] = vnodes
        for at, (codec, body) in enumerate(zip(self._columns, bodies, strict=True)):
            rows[f"tag{at}"], rows[f"body{at}"] = codec.present[0], ~body if codec.descending else body
            array = table.column(codec.name)
            if array.null_count:
                nulls = array.is_null().to_numpy(zero_copy_only=False)
                rows[f"tag{at}"][nulls], rows[f"body{at}"][nulls] = codec.null[0], 0
        return rows.view(np.uint8).reshape(table.num_rows, rows.itemsize)

    def columns(self, matrix: np.ndarray) -> dict[str, pa.Array]:
        """The values of such rows of bytes; but of floats, because a key has one zero and one NaN."""
        found, at = {}, _VNODE.size
        for codec in self._columns:
            if isinstance(codec, _Integer):
                found[codec.name] = codec.array(matrix[:, at : at + 1 + codec.width])
            at += 1 + codec.width
        return found

    @property
    def lossy(self) -> list[str]:
        """The columns of a key of one width that :meth:`columns` does not say."""
        return [codec.name for codec in self._columns if not isinstance(codec, _Integer)]

    def decode(self, data: bytes) -> tuple:
        return self._decode(data, 0)

    def decode_with_vnode(self, data: bytes) -> tuple[int, tuple]:
        return _VNODE.unpack_from(data)[0], self._decode(data, 2)

    def _decode(self, data: bytes, at: int) -> tuple:
        values = []
        for codec in self._columns:
            if at == len(data):  # an encoded prefix
                break
            value, at = codec.read(data, at)
            values.append(value)
        if at != len(data):
            raise CorruptWarehouse(f"the stored key {data.hex()} does not have the shape ({', '.join(self.names)})")
        return tuple(values)


def _vnode_bytes(vnodes: np.ndarray | Sequence[int]) -> np.ndarray:
    return np.asarray(vnodes).astype(">u2").view(np.uint8).reshape(-1, 2)


def _rows(parts: list[np.ndarray | list[bytes]], count: int) -> list[bytes]:
    """Fixed-width neighbours are glued as matrices first: slicing one buffer is the cheapest way to many bytes."""
    glued: list[list[bytes]] = []
    pending: list[np.ndarray] = []
    for part in [*parts, None]:
        if isinstance(part, np.ndarray):
            pending.append(part)
            continue
        if pending:
            matrix = pending[0] if len(pending) == 1 else np.concatenate(pending, axis=1)
            width, data = matrix.shape[1], matrix.tobytes()
            glued.append([data[start : start + width] for start in range(0, len(data), width)])
            pending = []
        if part is not None:
            glued.append(part)
    if not glued:
        return [b""] * count
    return glued[0] if len(glued) == 1 else list(map(b"".join, zip(*glued, strict=True)))


class _Column:
    def __init__(self, kind: SqlType, key: KeyColumn):
        self.kind, self.name = kind, key.name
        self.descending = key.descending
        self.null, self.present = (b"\x00", b"\x01") if key.nulls_first else (b"\x01", b"\x00")

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        raise NotImplementedError

    def write(self, value: Any) -> bytes:
        raise NotImplementedError


class _Fixed(_Column):
    """A column whose body always has ``width`` bytes."""

    width: int

    def body(self, value: Any) -> bytes:
        raise NotImplementedError

    def value(self, body: bytes) -> Any:
        raise NotImplementedError

    def numbers(self, array: pa.Array) -> np.ndarray:
        """Ascending bodies as unsigned numbers, or as rows of bytes; what it says for NULLs does not matter."""
        raise NotImplementedError

    def bodies(self, array: pa.Array) -> np.ndarray:
        """The same as a (rows, width) matrix of bytes."""
        numbers = self.numbers(array)
        return (
            numbers if numbers.ndim == 2 else numbers.astype(f">u{self.width}").view(np.uint8).reshape(-1, self.width)
        )

    def write(self, value: Any) -> bytes:
        if value is None:
            return self.null + bytes(self.width)
        body = self.body(value)
        return self.present + (body.translate(_INVERTED) if self.descending else body)

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        end = at + 1 + self.width
        if data[at : at + 1] == self.null:
            return None, end
        body = data[at + 1 : end]
        return self.value(body.translate(_INVERTED) if self.descending else body), end

    def matrix(self, array: pa.Array) -> np.ndarray:
        result = np.empty((len(array), 1 + self.width), dtype=np.uint8)
        bodies = self.bodies(array)
        result[:, 0] = self.present[0]
        result[:, 1:] = ~bodies if self.descending else bodies
        if array.null_count:
            nulls = array.is_null().to_numpy(zero_copy_only=False)
            result[nulls, 0] = self.null[0]
            result[nulls, 1:] = 0
        return result


class _Integer(_Fixed):
    def __init__(self, kind: SqlType, key: KeyColumn, width: int):
        super().__init__(kind, key)
        self.width = width
        self.offset = 1 << (8 * width - 1)

    def body(self, value: Any) -> bytes:
        try:
            return (to_int(self.kind, value) + self.offset).to_bytes(self.width, "big")
        except OverflowError:
            raise DataError(f"{value} is out of range for type {self.kind}", sqlstate="22003") from None

    def value(self, body: bytes) -> Any:
        return from_int(self.kind, int.from_bytes(body, "big") - self.offset)

    def numbers(self, array: pa.Array) -> np.ndarray:
        if self.width == 16:
            little = np.ascontiguousarray(decimal_words(array)).view(np.uint8).reshape(-1, 16)
            big = little[:, ::-1].copy()
            big[:, 0] ^= 0x80
            return big
        numbers = int_array(array)
        if self.width == 8:
            return numbers.view(np.uint64) ^ np.uint64(self.offset)
        return (numbers + self.offset).astype(f"u{self.width}")

    def array(self, matrix: np.ndarray) -> pa.Array:
        """The values of tags and bodies."""
        valid, bodies = matrix[:, 0] == self.present[0], matrix[:, 1:].copy()
        if self.descending:
            bodies = ~bodies
        bodies[:, 0] ^= 0x80
        if self.width == 16:
            words = np.ascontiguousarray(bodies[:, ::-1]).view("<i8").reshape(-1, 2)
            return array_of_words(self.kind.arrow, words, valid)
        numbers = np.ascontiguousarray(bodies).view(f">i{self.width}").ravel().astype(np.int64)
        return array_of_ints(self.kind.arrow, numbers, None if valid.all() else valid)


class _Interval(_Fixed):
    width = 16
    fields = ((8, 1 << 63), (4, 1 << 31), (4, 1 << 31))

    def body(self, value: Any) -> bytes:
        numbers = zip((value[name] for name in FIELDS), self.fields, strict=True)
        return b"".join((number + offset).to_bytes(width, "big") for number, (width, offset) in numbers)

    def value(self, body: bytes) -> dict[str, int]:
        parts = body[:8], body[8:12], body[12:]
        numbers = [int.from_bytes(part, "big") - offset for part, (_, offset) in zip(parts, self.fields, strict=True)]
        return dict(zip(FIELDS, numbers, strict=True))

    def numbers(self, array: pa.Array) -> np.ndarray:
        columns = []
        for numbers, (width, _) in zip(interval_arrays(array), self.fields, strict=True):
            big = numbers.astype(f">i{width}").view(np.uint8).reshape(-1, width)
            big[:, 0] ^= 0x80
            columns.append(big)
        return np.concatenate(columns, axis=1)


class _Float(_Fixed):
    def __init__(self, kind: SqlType, key: KeyColumn):
        super().__init__(kind, key)
        self.width = 4 if kind.name == "real" else 8
        self.layout = struct.Struct(">f" if kind.name == "real" else ">d")
        self.sign = 1 << (8 * self.width - 1)
        self.mask = (1 << (8 * self.width)) - 1

    def body(self, value: Any) -> bytes:
        canonical = float("nan") if value != value else value + 0.0
        bits = int.from_bytes(self.layout.pack(canonical), "big")
        return (bits ^ (self.mask if bits & self.sign else self.sign)).to_bytes(self.width, "big")

    def value(self, body: bytes) -> float:
        bits = int.from_bytes(body, "big")
        bits ^= self.sign if bits & self.sign else self.mask
        return self.layout.unpack(bits.to_bytes(self.width, "big"))[0]

    def numbers(self, array: pa.Array) -> np.ndarray:
        bits = float_array(self.kind, array).view(f"u{self.width}")
        one = bits.dtype.type
        return bits ^ np.where(bits & one(self.sign), one(self.mask), one(self.sign))


class _Variable(_Column):
    def write(self, value: Any) -> bytes:
        if value is None:
            return self.null
        raw = value.encode() if isinstance(value, str) else bytes(value)
        body = raw.replace(b"\x00", b"\x00\xff") + b"\x00\x00"
        return self.present + (body.translate(_INVERTED) if self.descending else body)

    def read(self, data: bytes, at: int) -> tuple[Any, int]:
        if data[at : at + 1] == self.null:
            return None, at + 1
        zero, escaped = (b"\xff", b"\xff\x00") if self.descending else (b"\x00", b"\x00\xff")
        end = at + 1
        while True:
            end = data.find(zero, end)
            if end < 0:
                raise CorruptWarehouse(f"the stored key {data.hex()} ends in the middle of a column")
            if data[end : end + 2] != escaped:
                break
            end += 2
        raw = data[at + 1 : end]
        raw = (raw.translate(_INVERTED) if self.descending else raw).replace(b"\x00\xff", b"\x00")
        return (raw if self.kind.name == "bytea" else raw.decode()), end + 2

    def pieces(self, array: pa.Array) -> list[bytes]:
        raw = array.cast(pa.binary())
        if array.null_count or self.descending or pc.any(pc.match_substring(raw, "\x00")).as_py():
            return list(map(self.write, raw.to_pylist()))
        # Nothing to escape: Arrow glues tag, text and terminator without making a Python object in between.
        joined = pc.binary_join_element_wise(pa.scalar(self.present), raw, pa.scalar(b"\x00\x00"), pa.scalar(b""))
        return joined.to_pylist()


def _column_codec(kind: SqlType, key: KeyColumn) -> _Column:
    if kind.name in INTEGER_WIDTHS:
        return _Integer(kind, key, INTEGER_WIDTHS[kind.name])
    if kind.name == "interval":
        return _Interval(kind, key)
    if kind.name == "numeric":
        return _Integer(kind, key, 8 if precision_of(kind) <= 18 else 16)
    if kind.name in ("real", "double precision"):
        return _Float(kind, key)
    if kind.name in STORED_AS_TEXT or kind.name == "bytea":
        return _Variable(kind, key)
    raise Unsupported(
        f'column "{key.name}" of type {kind} cannot be part of a key',
        hint="leave it out of the key, or cast it to a type that is not an array or struct",
    )
