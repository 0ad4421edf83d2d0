"""Window functions over a few rows in Arrow: numbers of rows, neighbours, and aggregates of exact numbers, where they
say what Spark would. Frames, floats and the rest are Spark's.

Rows that the order leaves equal are numbered as they come. Views order by the stream key in the end, so there are none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.operators.vectors import Datum, NotVectorized, Vector
from headrace.state.runs import WEIGHT

NUMBERS = ("row_number", "rank", "dense_rank")
NEIGHBOURS = {"lag": -1, "lead": 1}
TOTALS = ("count", "sum", "min", "max")

_LARGEST = 1 << 62


@dataclass(frozen=True)
class Window:
    function: str
    argument: Vector | None
    """None: nothing, or all rows are counted."""
    partition: tuple[Vector, ...]
    order: tuple[tuple[Vector, bool, bool], ...]
    """Each with whether it descends, and has its NULLs first."""
    type: pa.DataType
    distance: int = 1
    """Of a neighbour."""

    def evaluate(self, rows: pa.Table) -> pa.Array:
        if WEIGHT in rows.column_names:
            raise NotVectorized("windows over changes")
        count = rows.num_rows
        parts = [_codes(_column(each.evaluate(rows), count)) for each in self.partition]
        places = [_places(_column(each.evaluate(rows), count), *how) for each, *how in self.order]
        # The last key of lexsort is the first to sort by; without any, rows stay as they are.
        sorted_rows = np.lexsort([np.zeros(count, dtype=np.int8), *reversed(places), *reversed(parts)])
        begins = _changes([each[sorted_rows] for each in parts], count)
        peers = begins | _changes([each[sorted_rows] for each in places], count) if places else begins
        found = self._found(rows, sorted_rows, begins, peers)
        back = np.empty(count, dtype=np.int64)
        back[sorted_rows] = np.arange(count)
        return found.take(pa.array(back)).cast(self.type)

    def _found(self, rows: pa.Table, sorted_rows: np.ndarray, begins: np.ndarray, peers: np.ndarray) -> pa.Array:
        """In the order of the window."""
        count, at = len(sorted_rows), np.arange(len(sorted_rows))
        first = np.maximum.accumulate(np.where(begins, at, 0)) if count else at
        if self.function == "row_number":
            return pa.array(at - first + 1)
        if self.function == "rank":
            return pa.array(np.maximum.accumulate(np.where(peers, at, 0)) - first + 1 if count else at)
        groups = np.cumsum(peers)
        if self.function == "dense_rank":
            return pa.array(groups - groups[first] + 1 if count else at)
        if self.argument is None:
            values: pa.Array = pa.repeat(pa.scalar(1, pa.int64()), count)
        else:
            values = _column(self.argument.evaluate(rows), count).take(pa.array(sorted_rows))
        partitions = np.cumsum(begins)
        if self.function in NEIGHBOURS:
            there = at + NEIGHBOURS[self.function] * self.distance
            inside = (there >= 0) & (there < count)
            there = np.where(inside, there, 0)
            inside &= partitions[there] == partitions if count else inside
            return values.take(pa.array(there, mask=~inside))
        if not self.order:
            return _of_partitions(values, partitions, self.function)
        return _so_far(values, first, groups, self.function)


def _column(values: Datum, count: int) -> pa.Array:
    if isinstance(values, pa.Scalar):
        return pa.repeat(values, count)
    values = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_floating(values.type):
        raise NotVectorized("windows of floats")
    return values


def _codes(values: pa.Array) -> np.ndarray:
    """A number for each value; NULL is one, too."""
    return pc.dictionary_encode(values, null_encoding="encode").indices.to_numpy()


def _places(values: pa.Array, descending: bool, nulls_first: bool) -> np.ndarray:
    found = pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    found = -found if descending else found
    if values.null_count:
        found[values.is_null().to_numpy(zero_copy_only=False)] = -_LARGEST if nulls_first else _LARGEST
    return found


def _changes(columns: Sequence[np.ndarray], count: int) -> np.ndarray:
    """Where one of them has another value than in the row before; at the first one."""
    found = np.zeros(count, dtype=bool)
    found[:1] = True
    for each in columns:
        found[1:] |= each[1:] != each[:-1]
    return found


def _of_partitions(values: pa.Array, partitions: np.ndarray, function: str) -> pa.Array:
    if function == "sum":
        _check_numbers(values)
    rows = pa.table({"part": partitions, "value": values})
    found = rows.group_by("part", use_threads=False).aggregate([("value", function)]).sort_by("part")
    # Partitions are numbered from 1 on.
    return found[f"value_{function}"].combine_chunks().take(pa.array(partitions - 1))


def _so_far(values: pa.Array, first: np.ndarray, groups: np.ndarray, function: str) -> pa.Array:
    """Up to a row and its peers."""
    if function not in ("sum", "count"):
        raise NotVectorized(f"{function} so far")
    known = values.is_valid().to_numpy(zero_copy_only=False)
    count = len(values)
    if not count:
        return pa.array([], pa.int64())
    last = np.searchsorted(groups, groups, side="right") - 1
    counts = _totals(known.astype(np.int64), first, last)
    if function == "count":
        return pa.array(counts)
    _check_numbers(values)
    numbers = pc.fill_null(values, 0).cast(pa.int64()).to_numpy()
    return pa.array(_totals(numbers, first, last), mask=counts == 0)


def _totals(numbers: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    sums = np.cumsum(numbers)
    return sums[last] - sums[first] + numbers[first]


def _check_numbers(values: pa.Array) -> None:
    """No sum of some of them may be beyond what Arrow's and numpy's have room for."""
    if not pa.types.is_integer(values.type):
        raise NotVectorized("a sum of other numbers than integers")
    ends = pc.min_max(values)
    largest = max((abs(ends[end].as_py()) for end in ("min", "max") if ends[end].is_valid), default=0)
    if largest * len(values) >= _LARGEST:
        raise NotVectorized("a sum of large numbers")
