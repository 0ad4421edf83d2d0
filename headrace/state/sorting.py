"""Rows in the order of a state table: (vnode, pk), in the pk's own order, whatever its types and directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.layout import Layout
from headrace.state.runs import EPOCH, VNODE, WEIGHT

_FAST_KEYS = ("smallint", "integer", "bigint", "time")
_NULLS_BY_KEY = int(pa.__version__.split(".")[0]) >= 25
"""Whether this Arrow wants to be told of each key where its NULLs go, not of all at once."""


def in_order(layout: Layout, rows: pa.Table, then: Sequence[str]) -> pa.Table:
    """The rows by (vnode, pk, then …)."""
    if rows.num_rows < 2:
        return rows
    # Taking from one chunk is several times as fast as from many.
    rows = rows.combine_chunks()
    return rows.take(sort_order(layout, rows, then))


def sort_stored(layout: Layout, rows: pa.Table) -> pa.Table:
    """By (vnode, pk, epoch, weight)."""
    return in_order(layout, rows, [EPOCH, WEIGHT])


def sort_order(layout: Layout, rows: pa.Table, then: Sequence[str]) -> pa.Array:
    """The order by (vnode, pk, then …), in the pk's own order."""
    keys = layout.pk
    kinds = [layout.types[key.name].name for key in keys]
    has_null = any(rows[key.name].null_count for key in keys)
    if all(kind in _FAST_KEYS for kind in kinds) and not has_null and not any(key.descending for key in keys):
        # Stable passes, least significant first; numpy sorts 16-bit numbers by counting.
        order = np.arange(rows.num_rows)
        for name in (*reversed(then), *(key.name for key in reversed(keys))):
            column = rows[name].to_numpy()
            if name in then and (len(column) == 0 or column.min() == column.max()):
                continue
            order = order[np.argsort(column[order], kind="stable")]
        return pa.array(order[np.argsort(rows[VNODE].to_numpy()[order], kind="stable")])
    by_bytes = any(kind in ("real", "double precision", "interval") for kind in kinds)
    places = {"at_start" if key.nulls_first else "at_end" for key in keys if rows[key.name].null_count}
    if by_bytes or len(places) > 1:
        # Arrow places NaNs by its own rules, all NULLs at one end, and structs nowhere; the key's bytes know ours.
        encoded = layout.encode(rows)
        extra = [rows[name].to_pylist() for name in then]
        ranks = list(zip(encoded, *extra, strict=True))
        return pa.array(sorted(range(rows.num_rows), key=ranks.__getitem__), pa.int64())
    names = [(VNODE, False), *((key.name, key.descending) for key in keys), *((name, False) for name in then)]
    nulls = (*places, "at_end")[0]
    sort_keys = [(name, "descending" if descending else "ascending") for name, descending in names]
    if _NULLS_BY_KEY:
        return pc.sort_indices(rows, sort_keys=[(*each, nulls) for each in sort_keys])
    return pc.sort_indices(rows, sort_keys=sort_keys, null_placement=nulls)
