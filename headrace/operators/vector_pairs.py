"""Which rows of two tables belong together, in Arrow: their numbers on both sides."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.vectors import Datum, NotVectorized

MOST_PAIRS = 1_000_000
"""Pairs of rows that a join may give here, and rows that several queries may together."""


def all_pairs(left: int, right: int) -> tuple[pa.Array, pa.Array]:
    if left * right > MOST_PAIRS:
        raise NotVectorized("a join of many rows")
    return pa.array(np.repeat(np.arange(left), right)), pa.array(np.tile(np.arange(right), left))


def numbered(one: Datum, other: Datum) -> tuple[pa.Array, pa.Array]:
    """Numbers in place of values, the same for the same value on both sides; NULL has one, too."""
    if isinstance(one, pa.Scalar) or isinstance(other, pa.Scalar) or one.type != other.type:
        raise NotVectorized("a comparison with a constant")
    both = pa.chunked_array(
        [chunk for side in (one, other) for chunk in (side.chunks if isinstance(side, pa.ChunkedArray) else [side])],
        one.type,
    )
    numbers = pc.dictionary_encode(both.combine_chunks(), null_encoding="encode").indices
    return numbers[: len(one)], numbers[len(one) :]


def pairs(left: Sequence[Datum], right: Sequence[Datum]) -> tuple[pa.Array, pa.Array]:
    """Which rows are equal in all of some columns, none of them NULL: their numbers on both sides."""
    tables = []
    for side, number in ((left, "mine"), (right, "theirs")):
        if any(isinstance(each, pa.Scalar) for each in side):
            raise NotVectorized("a comparison with a constant")
        columns = {f"k{at}": each for at, each in enumerate(side)}
        tables.append(pa.table(columns | {number: pa.array(np.arange(len(side[0])))}).combine_chunks())
    if any(one.type != other.type or pa.types.is_floating(one.type) for one, other in zip(left, right, strict=True)):
        raise NotVectorized("a comparison of other types")
    names = [f"k{at}" for at, _ in enumerate(left)]
    if tables[0].num_rows * tables[1].num_rows > MOST_PAIRS:
        counts = [each.group_by(names, use_threads=False).aggregate([([], "count_all")]) for each in tables]
        both = counts[0].join(counts[1], names, join_type="inner", right_suffix="_there", use_threads=False)
        if (pc.sum(pc.multiply(both["count_all"], both["count_all_there"])).as_py() or 0) > MOST_PAIRS:
            raise NotVectorized("a join of many rows")
    joined = tables[0].join(tables[1], names, join_type="inner", use_threads=False).combine_chunks()
    return tuple(pc.fill_null(joined[name].combine_chunks(), 0) for name in ("mine", "theirs"))


def bytes_of(rows: pa.Table, taken: pa.Array) -> int:
    """About what rows take, each as often as it is asked for: of many pairs all may have the one row that is large."""
    size = 0
    for column in rows.columns:
        if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
            lengths = pc.fill_null(pc.binary_length(column), 0)
            size += 4 * len(taken) + (pc.sum(lengths.take(taken)).as_py() or 0)
        else:
            size += len(taken) * (column.nbytes // max(1, rows.num_rows))
    return size
