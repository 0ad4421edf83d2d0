"""Rows in the order of a state table: (vnode, pk), in the pk's own order, whatever its types and directions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.layout import Layout
from headrace.state.runs import EPOCH, VNODE, WEIGHT

_FAST_KEYS = ("smallint", "integer", "bigint")


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
    if len(keys) == 1 and kinds[0] in _FAST_KEYS and not keys[0].descending and not has_null:
        # Four stable passes, least significant first; numpy sorts 16-bit numbers by counting.
        order = np.arange(rows.num_rows)
        for name in (*reversed(then), keys[0].name):
            column = rows[name].to_numpy()
            if name in then and (len(column) == 0 or column.min() == column.max()):
                continue
            order = order[np.argsort(column[order], kind="stable")]
        return pa.array(order[np.argsort(rows[VNODE].to_numpy()[order], kind="stable")])
    floats = any(kind in ("real", "double precision") for kind in kinds)
    if has_null or floats:
        # Arrow places NULLs and NaNs by its own rules; the key's bytes know ours.
        encoded = layout.encode(rows)
        extra = [rows[name].to_pylist() for name in then]
        ranks = list(zip(encoded, *extra, strict=True))
        return pa.array(sorted(range(rows.num_rows), key=ranks.__getitem__), pa.int64())
    sort_keys = [(VNODE, "ascending")]
    sort_keys += [(key.name, "descending" if key.descending else "ascending") for key in keys]
    sort_keys += [(name, "ascending") for name in then]
    return pc.sort_indices(rows, sort_keys=sort_keys)
