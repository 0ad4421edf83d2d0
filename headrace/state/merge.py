"""Merging sorted change rows, a batch at a time.

Consolidation looks at one epoch: an update that changes nothing (``-1 x, +1 x``) is no change.

    k=1 epoch 5 -1 'x'   ┐ dropped: same key, same epoch, same values
    k=1 epoch 5 +1 'x'   ┘

Merging versions looks at all of a key's entries in the merged runs, oldest to newest, and keeps at most two:

    k=1 epoch 4 -1 'a'   kept, as epoch 6: the oldest entry retracts, so an older run holds an 'a' that must stay dead
    k=1 epoch 4 +1 'b'   dropped
    k=1 epoch 6 -1 'b'   dropped
    k=1 epoch 6 +1 'c'   kept: the newest entry puts

The kept -1 moves to the key's newest epoch. It must stay newer than all that lies below, and merged runs are placed by
their epochs; and it does not kill the kept +1, because a killer has a *strictly* larger epoch. Were the oldest entry a
plain +1, nothing of the key would lie below and no -1 would be needed; if nothing lies below the merged runs at all
(``bottom``), no -1 is.

Merging is associative over neighbouring entries, so a stream can carry the last key of a batch in merged form: its
memory is one batch and two rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.runs import EPOCH, VNODE, WEIGHT

Mode = Literal["consolidate", "merge", "bottom"]


def consolidate(table: pa.Table, key_columns: Sequence[str]) -> pa.Table:
    """Without the pairs that cancel. Sorted by key, epoch, weight.

    A key has one -1 and one +1 per epoch at most; but a join that is not stored says of a pair of rows of which both
    have changed that it had and lost the old one beside the new one, which never were there together.
    """
    if table.num_rows < 2:
        return table
    weights = _numbers(table, WEIGHT)
    epochs = _numbers(table, EPOCH)
    together = same_as_previous(table, _key(table, key_columns))
    together[1:] &= epochs[1:] == epochs[:-1]
    pairs = together.copy()
    pairs[1:] &= (weights[1:] > 0) & (weights[:-1] < 0)
    crowded = bool((together[1:] & together[:-1]).any())
    keep = np.ones(table.num_rows, dtype=bool)
    candidates = _candidates(together, weights) if crowded else [(np.flatnonzero(pairs) - 1, np.flatnonzero(pairs))]
    for firsts, seconds in candidates:
        free = keep[firsts] & keep[seconds]
        firsts, seconds = firsts[free], seconds[free]
        for name in table.column_names:
            if len(seconds) and name not in (VNODE, EPOCH, WEIGHT):
                column = table.column(name)
                same = identical(column.take(pa.array(firsts)), column.take(pa.array(seconds)))
                firsts, seconds = firsts[same], seconds[same]
        keep[seconds] = keep[firsts] = False
    return table if keep.all() else table.filter(pa.array(keep))


def _candidates(together: np.ndarray, weights: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Each -1 with each +1 of its key and epoch, of all keys at once: the first of both, the first and the second, …"""
    starts = np.flatnonzero(~together)
    sizes = np.diff(np.append(starts, len(together)))
    negative = np.add.reduceat((weights < 0).astype(np.int64), starts)
    for one in range(int(negative.max())):
        for other in range(int((sizes - negative).max())):
            have = (one < negative) & (other < sizes - negative)
            yield starts[have] + one, (starts + negative)[have] + other


def merge_versions(table: pa.Table, key_columns: Sequence[str], bottom: bool) -> pa.Table:
    """At most one -1 and one +1 per key. Sorted by vnode, key, epoch, weight."""
    if table.num_rows == 0:
        return table
    return _merge_groups(table, key_starts(table, key_columns), bottom)


class MergeStream:
    """:func:`consolidate` or :func:`merge_versions` over a sorted stream of batches, where a key may span batches.

    ``mode`` is "consolidate", "merge" (something may lie below) or "bottom" (nothing does).
    """

    def __init__(self, key_columns: Sequence[str], mode: Mode):
        if mode not in ("consolidate", "merge", "bottom"):
            raise ValueError(f"no such mode: {mode}")
        self._key_columns = list(key_columns)
        self._mode = mode
        self._carried: pa.Table | None = None

    def push(self, batch: pa.Table | pa.RecordBatch) -> list[pa.Table]:
        table = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        if self._carried is not None and self._carried.num_rows:
            table = pa.concat_tables([self._carried, table])
        if table.num_rows == 0:
            return []
        starts = key_starts(table, self._key_columns)
        cut = int(starts[-1])
        last = table.slice(cut)
        if self._mode == "consolidate":
            self._carried = last.take(pa.array(np.arange(last.num_rows)))  # a slice would keep the batch alive
        else:
            self._carried = _merge_groups(last, np.zeros(1, dtype=np.int64), False)
        return self._finished(table.slice(0, cut), starts[:-1])

    def finish(self) -> list[pa.Table]:
        table, self._carried = self._carried, None
        if table is None or table.num_rows == 0:
            return []
        return self._finished(table, np.zeros(1, dtype=np.int64))

    def _finished(self, table: pa.Table, starts: np.ndarray) -> list[pa.Table]:
        if table.num_rows == 0:
            return []
        if self._mode == "consolidate":
            result = consolidate(table, self._key_columns)
        else:
            result = _merge_groups(table, starts, self._mode == "bottom")
        return [result] if result.num_rows else []


def _merge_groups(table: pa.Table, starts: np.ndarray, bottom: bool) -> pa.Table:
    weights, epochs = _numbers(table, WEIGHT), _numbers(table, EPOCH)
    lasts = np.append(starts[1:], table.num_rows) - 1
    putting = weights[lasts] > 0
    if bottom:
        return table.take(pa.array(lasts[putting]))
    retracting = weights[starts] < 0
    rows = np.concatenate([starts[retracting], lasts[putting]])
    newest = np.concatenate([epochs[lasts[retracting]], epochs[lasts[putting]]])
    order = np.argsort(rows, kind="stable")
    kept = table.take(pa.array(rows[order]))
    position = kept.schema.get_field_index(EPOCH)
    return kept.set_column(position, kept.schema.field(position), pa.array(newest[order], type=pa.int64()))


# --- equality of neighbours -------------------------------------------------------------------------------------


def same_as_previous(table: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """For each row, whether the columns equal the row before's; NULLs and NaNs equal their like."""
    same = np.ones(table.num_rows, dtype=bool)
    same[:1] = False
    if table.num_rows < 2:
        return same
    for name in columns:
        column = _whole(table.column(name))
        same[1:] &= equal(column.slice(0, len(column) - 1), column.slice(1))
    return same


def equal(left: pa.Array, right: pa.Array, *, zeros_differ: bool = False) -> np.ndarray:
    """Row by row, for arrays of one type and length. NULL equals NULL and NaN NaN, at any depth."""
    left, right = _whole(left), _whole(right)
    kind = left.type
    if pa.types.is_null(kind):
        return np.ones(len(left), dtype=bool)
    if pa.types.is_dictionary(kind):
        return equal(left.dictionary_decode(), right.dictionary_decode(), zeros_differ=zeros_differ)
    both_null = None
    valid = np.ones(len(left), dtype=bool)
    if left.null_count or right.null_count:
        left_null, right_null = _bools(left.is_null()), _bools(right.is_null())
        both_null = left_null & right_null
        valid = ~(left_null | right_null)
    if pa.types.is_struct(kind):
        result = valid
        for field in range(kind.num_fields):
            result = result & equal(_field(left, field), _field(right, field), zeros_differ=zeros_differ)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        result = _equal_lists(left, right, valid, zeros_differ)
    else:
        result = _bools(pc.equal(left, right).fill_null(False)) & valid
        if pa.types.is_floating(kind):
            if zeros_differ:
                result &= np.signbit(_floats(left)) == np.signbit(_floats(right))
            result |= valid & np.isnan(_floats(left)) & np.isnan(_floats(right))
    return result if both_null is None else result | both_null


def identical(left: pa.Array, right: pa.Array) -> np.ndarray:
    """:func:`equal`, but 0.0 and -0.0 differ: replacing one by the other is a change that a user can see."""
    return equal(left, right, zeros_differ=True)


def _equal_lists(left: pa.Array, right: pa.Array, valid: np.ndarray, zeros_differ: bool) -> np.ndarray:
    left_sizes, right_sizes = _sizes(left), _sizes(right)
    same_size = valid & (left_sizes == right_sizes)
    chosen = pa.array(same_size)
    differs = ~equal(_elements(left.filter(chosen)), _elements(right.filter(chosen)), zeros_differ=zeros_differ)
    # How many elements differ up to each element tells how many differ within each list.
    upto = np.concatenate([[0], np.cumsum(differs)])
    ends = np.cumsum(left_sizes[same_size])
    result = same_size.copy()
    result[same_size] = upto[ends] == upto[ends - left_sizes[same_size]]
    return result


def _sizes(array: pa.Array) -> np.ndarray:
    offsets = array.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets[1:] - offsets[:-1]


def _elements(array: pa.Array) -> pa.Array:
    """All elements of lists that are not NULL."""
    if pa.types.is_map(array.type):
        offsets = array.offsets.to_numpy(zero_copy_only=False)
        entries = pa.StructArray.from_arrays([array.keys, array.items], ["key", "value"])
        return entries.slice(int(offsets[0]), int(offsets[-1] - offsets[0])) if len(array) else entries.slice(0, 0)
    return array.flatten()


def _field(array: pa.StructArray, number: int) -> pa.Array:
    return array.flatten()[number]


def key_starts(table: pa.Table, key_columns: Sequence[str]) -> np.ndarray:
    return np.flatnonzero(~same_as_previous(table, _key(table, key_columns)))


def _key(table: pa.Table, key_columns: Sequence[str]) -> list[str]:
    """The vnode is the first thing rows are sorted by, and cheap to compare."""
    return [*([VNODE] if VNODE in table.column_names else []), *(name for name in key_columns if name != VNODE)]


def _numbers(table: pa.Table, name: str) -> np.ndarray:
    return _whole(table.column(name)).to_numpy(zero_copy_only=False)


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _bools(array: pa.Array) -> np.ndarray:
    return _whole(array).to_numpy(zero_copy_only=False)


def _floats(array: pa.Array) -> np.ndarray:
    return (array.fill_null(0.0) if array.null_count else array).to_numpy(zero_copy_only=False)
