"""Positions and chunks in Spark SQL: what of a delta is let through, and what of history is read.

A row is let through if its (vnode, pk) is at or before its vnode's position. Like all comparisons of keys it is in
the pk's own order: ascending or descending, NULLs first or last, column by column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headrace.backfill.positions import DONE, Chunk, Positions
from headrace.state.layout import Layout
from headrace.state.predicates import Bounds, beyond_key
from headrace.state.runs import VNODE
from headrace.types import quote_spark


def covered(layout: Layout, positions: Positions, within: str = "") -> str:
    """Whether a row is at or before its position; ``within`` is the struct that holds the row, if one does."""
    if positions.done:
        return "TRUE"
    column = quote_spark(VNODE)
    parts = [
        f"{column} = {first}" if first == last else f"{column} BETWEEN {first} AND {last}"
        for first, last in _stretches(vnode for vnode, at in enumerate(positions.vnodes) if at is DONE)
    ]
    for number, key in sorted(positions.partial.items()):
        parts.append(f"({column} = {number} AND NOT {beyond_key(layout, layout.codec.decode(key), within)})")
    return f"({' OR '.join(parts)})" if parts else "FALSE"


def bounds_of(layout: Layout, chunk: Chunk) -> Bounds:
    codec = layout.codec
    return Bounds(
        after=(chunk.first_vnode, None if chunk.after is None else codec.decode(chunk.after)),
        upto=(chunk.last_vnode, None if chunk.upto is None else codec.decode(chunk.upto)),
    )


def _stretches(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Neighbours together.

    >>> list(_stretches([0, 1, 2, 5, 7, 8]))
    [(0, 2), (5, 5), (7, 8)]
    """
    first = last = None
    for number in numbers:
        if last is not None and number == last + 1:
            last = number
            continue
        if first is not None:
            yield first, last
        first = last = number
    if first is not None:
        yield first, last
