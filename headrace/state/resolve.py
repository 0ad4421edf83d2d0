"""What a bulk write does to the rows it meets, key by key.

The input is sorted by (vnode, pk, tag): a key's old row (tag 0), if it has one, then the new ones (tag 1). Out comes
the delta: the old row retracted where it is replaced, and the row that stays.

    k=1 old 'a'   ┐ overwrite: -1 'a', +1 'c'     ignore: nothing
    k=1 new 'b'   │
    k=1 new 'c'   ┘
    k=2 old 'x'     nobody writes k=2: nothing

The tags of new rows may be larger, to say in which order they came. With the policy "changes" the new rows have a
weight: a key whose last one is a -1, which needs to have nothing but the key, is gone. With "whole" the new rows are
all that there are to be, each key once: old rows of keys that have none are gone.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from headrace.state.runs import WEIGHT

TAG = "_hr_tag"
OLD, NEW = 0, 1
CHANGES = "changes"
WHOLE = "whole"


def resolve(rows: pa.Table, starts: np.ndarray, policy: str) -> pa.Table:
    """The delta of whole keys; ``starts`` are the positions where each key begins."""
    if not len(starts):  # all that is stored is dead, and nothing is new
        return (
            rows.slice(0, 0)
            .select([name for name in rows.column_names if name not in (TAG, WEIGHT)])
            .append_column(WEIGHT, pa.array([], pa.int8()))
        )
    tags = rows[TAG].to_numpy()
    lasts = np.append(starts[1:], rows.num_rows) - 1
    replaced = tags[starts] == OLD
    if policy == "ignore":
        return _weighted(rows, retracted=np.zeros(0, dtype=np.int64), put=starts[~replaced])
    written = tags[lasts] != OLD
    if policy == WHOLE:
        return _weighted(rows, retracted=starts[replaced], put=lasts[written])
    retracted, put = starts[replaced & written], lasts[written]
    if policy == CHANGES:
        put = lasts[written & (rows[WEIGHT].to_numpy()[lasts] > 0)]
        rows = rows.drop_columns([WEIGHT])
    if policy == "update_if_not_null":
        rows = filled(rows, starts)
    return _weighted(rows, retracted=retracted, put=put)


def filled(rows: pa.Table, starts: np.ndarray) -> pa.Table:
    """Every NULL replaced by the nearest value before it within its key."""
    positions = np.arange(rows.num_rows)
    begins = np.zeros(rows.num_rows, dtype=np.int64)
    begins[starts] = starts
    begins = np.maximum.accumulate(begins)
    for index, name in enumerate(rows.column_names):
        column = rows[name]
        if name == TAG or column.null_count == 0:
            continue
        present = column.is_valid().to_numpy()
        source = np.maximum.accumulate(np.where(present, positions, -1))
        source = np.where(source >= begins, source, positions)
        rows = rows.set_column(index, rows.schema.field(index), column.take(pa.array(source)))
    return rows


def _weighted(rows: pa.Table, *, retracted: np.ndarray, put: np.ndarray) -> pa.Table:
    order = np.concatenate([retracted, put])
    weights = np.concatenate([np.full(len(retracted), -1, np.int8), np.full(len(put), 1, np.int8)])
    by_position = np.lexsort((weights, order))
    picked = rows.drop_columns([TAG]).take(pa.array(order[by_position]))
    return picked.append_column(WEIGHT, pa.array(weights[by_position], pa.int8()))
