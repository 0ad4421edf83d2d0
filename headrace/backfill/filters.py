"""Positions and chunks in Spark SQL: what of a delta is let through, and what of history is read.

A row is let through if its (vnode, pk) is at or before its vnode's position. Like all comparisons of keys it is in
the pk's own order: ascending or descending, NULLs first or last, column by column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa

from headrace.backfill.positions import DONE, Chunk, Positions
from headrace.state.layout import Layout
from headrace.state.predicates import Bounds, beyond_columns, beyond_key
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


@dataclass(frozen=True, kw_only=True)
class PositionColumns:
    """Positions as columns of the rows that they decide about: each row has that of its vnode.

    They move with every chunk. As a part of a query's text they would make it another query, to be planned and
    compiled again (see :mod:`headrace.state.prepared`).
    """

    name: str
    """What the columns begin with."""
    layout: Layout
    """Of the upstream."""
    positions: Positions

    @property
    def _keys(self) -> list[str]:
        return [f"{self.name}_k{index}" for index, _ in enumerate(self.layout.pk)]

    @property
    def names(self) -> list[str]:
        return [self.name, *self._keys]

    @property
    def ddl(self) -> str:
        kinds = [self.layout.types[key.name].spark for key in self.layout.pk]
        return ", ".join([f"{self.name} BOOLEAN", *(f"{k} {kind}" for k, kind in zip(self._keys, kinds, strict=True))])

    @cached_property
    def by_vnode(self) -> pa.Table:
        """A row for each vnode: true if it is done, false if it is not started, NULL and the pk if it is at one."""
        partial = {vnode: self.layout.codec.decode(key) for vnode, key in self.positions.partial.items()}
        ends = [None if vnode in partial else at is DONE for vnode, at in enumerate(self.positions.vnodes)]
        columns = [pa.array(ends, pa.bool_())]
        for index, key in enumerate(self.layout.pk):
            values = [partial[vnode][index] if vnode in partial else None for vnode in range(len(ends))]
            columns.append(pa.array(values, self.layout.types[key.name].arrow))
        return pa.Table.from_arrays(columns, names=self.names)

    def added_to(self, rows: pa.Table) -> pa.Table:
        found = self.by_vnode.take(rows[VNODE])
        for name in self.names:
            rows = rows.append_column(name, found[name])
        return rows

    def covered(self, within: str) -> str:
        """As :func:`covered`."""
        return f"coalesce({self.name}, NOT {beyond_columns(self.layout, self._keys, within)})"


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
