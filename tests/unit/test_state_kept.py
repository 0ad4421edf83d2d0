"""Columns of the block cache: what is taken out is what was put in, whatever form it is kept in."""

from __future__ import annotations

import random
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from headrace.state.kept import MOST_TEXTS, PARTS, KeptColumn, stretches_of

NUMBERS = [0, 1, -1, 127, -128, 200, -40_000, 1 << 30, -(1 << 31), 1 << 40, (1 << 63) - 1, -(1 << 63)]


def _values(kind: pa.DataType, count: int, chance: random.Random) -> pa.Array:
    """Such as need more and more bytes, or are all the same, or texts that repeat themselves or do not."""
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        texts = [str(number) for number in range(chance.choice([1, 3, 1_000_000]))]
        found = [chance.choice([None, *texts[:3]]) if len(texts) < 9 else chance.choice(texts) for _ in range(count)]
        return pa.array([each.encode() if each and pa.types.is_binary(kind) else each for each in found], kind)
    if pa.types.is_floating(kind):
        return pa.array([chance.choice([None, -0.0, 0.5, 7.0]) for _ in range(count)], kind)
    if pa.types.is_boolean(kind):
        return pa.array([chance.choice([None, True, False]) for _ in range(count)], kind)
    width = 64 if pa.types.is_decimal(kind) else kind.bit_width
    most = 10 ** min(18, kind.precision) if pa.types.is_decimal(kind) else 1 << (width - 1)
    fitting = [number for number in NUMBERS if -most <= number < most]
    some = chance.sample(fitting, chance.randrange(1, 4)) + [None] * chance.randrange(2)
    found = [chance.choice(some) for _ in range(count)]
    if pa.types.is_decimal(kind):
        return pa.array([None if each is None else Decimal(each).scaleb(-kind.scale) for each in found], kind)
    plain = pa.array(found, pa.int32() if width == 32 else pa.int64())
    return plain.cast(kind) if pa.types.is_integer(kind) else plain.view(kind)


@pytest.mark.parametrize(
    "kind",
    [
        pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", tz="UTC"),
        pa.duration("us"), pa.decimal128(10, 2), pa.decimal128(18, 0), pa.decimal128(38, 6), pa.string(), pa.binary(),
        pa.float64(), pa.bool_(),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("seed", range(4))
def test_what_is_taken_out_is_what_was_put_in(kind, seed):
    chance = random.Random(seed)
    sizes = [chance.randrange(1, 40) for _ in range(60)]
    starts = np.concatenate([[0], np.cumsum(sizes)])
    column, stored = KeptColumn(starts), {}
    left = chance.sample(range(60), 60)
    while left:
        groups = np.array(sorted(left[: chance.randrange(1, 9)]))
        left = [each for each in left if each not in groups]
        values = _values(kind, int(sum(sizes[each] for each in groups)), chance)
        column.put(groups, stretches_of(groups, starts), values)
        at = 0
        for group in groups:
            stored |= {int(starts[group]) + row: values[at + row] for row in range(sizes[group])}
            at += sizes[group]
        rows = np.array([chance.choice(list(stored)) for _ in range(20)])
        found = column.take(np.searchsorted(starts, rows, "right") - 1, rows)
        assert found.type == kind
        expected = pa.array([stored[row] for row in rows.tolist()], kind)
        assert found.equals(expected)
        assert str(found) == str(expected)  # which tells -0.0 from 0.0
    assert column.there.all()


def _bytes_of(*parts: pa.Array) -> int:
    starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    column = KeptColumn(starts)
    for at, part in enumerate(parts):
        column.put(np.array([at]), [(int(starts[at]), int(starts[at + 1]))], part)
    return column.bytes


def test_numbers_take_the_bytes_of_the_largest():
    small = pa.array(range(1000), pa.int64())
    assert _bytes_of(small) == 2 * 1000
    assert _bytes_of(small, pa.array([1 << 20], pa.int64())) == 4 * 1001
    assert _bytes_of(pa.array([None, 5] * 500, pa.int64())) == 2 * 1000
    assert _bytes_of(pa.array([7] * 1000, pa.int64())) < 100
    assert _bytes_of(small.cast(pa.decimal128(21, 2)).cast(pa.decimal128(10, 2))) == 4 * 1000


def test_texts_that_repeat_themselves_are_kept_once():
    names = pa.array([f"the product number {number % 50}" for number in range(10_000)])
    assert _bytes_of(names) < 3 * len(names)
    each = pa.array([f"{number}" for number in range(10_000)])
    assert _bytes_of(each) == each.nbytes
    many = [pa.array([str(number // 8) for number in range(at, at + 400_000)]) for at in (0, 400_000)]
    assert len(many[0].unique()) < MOST_TEXTS < len(pa.concat_arrays(many).unique())
    assert _bytes_of(*many) == 2 * 400_000 + many[0].unique().nbytes + many[1].nbytes


def test_many_arrays_become_one():
    parts = [pa.array([float(at)] * 3) for at in range(3 * PARTS)]
    starts = np.arange(0, 3 * len(parts) + 1, 3)
    column = KeptColumn(starts)
    for at, part in enumerate(parts):
        column.put(np.array([at]), [(3 * at, 3 * at + 3)], part)
    rows = np.arange(3 * len(parts))
    assert column.take(rows // 3, rows).to_pylist() == [float(row // 3) for row in rows]
