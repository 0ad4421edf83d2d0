"""Small writes: the delta of rows that came through the driver, given the old rows of their keys.

Several statements of one epoch are applied in order, so what the second does to a key sees what the first did.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from headrace.engine.changes import Fill
from headrace.errors import DataError, UniqueViolation
from headrace.state.layout import Layout
from headrace.state.resolve import filled
from headrace.state.runs import VNODE, WEIGHT
from headrace.state.vnode import vnodes_of

_ABSENT = -1


def with_vnode(layout: Layout, rows: pa.Table) -> pa.Table:
    kinds = [layout.types[name] for name in layout.distribution]
    return rows.append_column(VNODE, pa.array(vnodes_of(rows, layout.distribution, kinds), pa.int16()))


class MissingRow(DataError):
    """Rows that must be there are not."""

    table_id = 0
    keys: tuple[tuple[str, ...], ...] = ()
    """Of the rows that cannot be completed without them"""


class KeyedChanges:
    """Collects what an epoch does to the keys of one table.

    ``old`` holds the live rows of every key that will be touched, in the stored schema.
    """

    def __init__(self, layout: Layout, policy: str, old: pa.Table):
        self._layout = layout
        self._policy = policy
        self._old = old.select([*layout.names, VNODE])
        self._tables = [self._old]
        self._total = self._old.num_rows
        self._before = {key: index for index, key in enumerate(layout.encode(self._old))}
        self._now: dict[bytes, int] = dict(self._before)
        """key → position of its row in the concatenation of all tables, or absent"""

    def insert(self, rows: pa.Table) -> pa.Table:
        """Rows with their vnode; answers those that were taken, as they were taken."""
        keys = self._layout.encode(rows)
        base = self._append(rows)
        if self._policy == "update_if_not_null":
            return self._insert_filled(keys, base)
        taken = []
        for index, key in enumerate(keys):
            if self._policy == "ignore" and self._now.get(key, _ABSENT) != _ABSENT:
                continue
            self._now[key] = base + index
            taken.append(index)
        return rows if len(taken) == len(keys) else rows.take(pa.array(taken, pa.int64()))

    def _insert_filled(self, keys: Sequence[bytes], base: int) -> pa.Table:
        """A NULL takes the value of the row before it with the same key, be that an old row or one of the new."""
        versions: dict[bytes, list[int]] = {}
        for index, key in enumerate(keys):
            held = self._now.get(key, _ABSENT)
            versions.setdefault(key, [] if held == _ABSENT else [held]).append(base + index)
        order = np.array([position for positions in versions.values() for position in positions], dtype=np.int64)
        lengths = np.array([len(positions) for positions in versions.values()], dtype=np.int64)
        ends = np.cumsum(lengths)
        rows = filled(pa.concat_tables(self._tables).take(pa.array(order)), ends - lengths)
        at = self._append(rows)
        self._now.update(zip(versions, (at + ends - 1).tolist(), strict=True))
        in_order = np.argsort(order, kind="stable")
        return rows.take(pa.array(in_order[order[in_order] >= base]))

    def delete(self, rows: pa.Table) -> None:
        for key in self._layout.encode(rows):
            self._now[key] = _ABSENT

    def replace(self, old: pa.Table, new: pa.Table) -> None:
        """UPDATE: every old row goes before any new row comes, so keys may be swapped among the rows."""
        self.delete(old)
        base = self._append(new)
        for index, key in enumerate(self._layout.encode(new)):
            if self._now.get(key, _ABSENT) != _ABSENT:
                values = ", ".join(str(new[name][index].as_py()) for name in self._layout.key_names)
                raise UniqueViolation(
                    "duplicate key value violates the primary key: "
                    f"({', '.join(self._layout.key_names)})=({values}) already exists"
                )
            self._now[key] = base + index

    def filled(self, rows: pa.Table, origins: pa.Table, fills: Sequence[Fill]) -> pa.Table:
        """The rows with what they leave out, from the old rows."""
        if not fills:
            return rows
        places = [self._before.get(key) for key in self._layout.encode(origins)]
        missing = tuple(fill.key for fill in fills if places[fill.origin] is None)
        if missing:
            error = MissingRow("the log changes a row that is not there, and leaves out what is unchanged in it")
            error.keys = missing
            raise error
        for name in {name for fill in fills for name in fill.columns}:
            values = rows[name].to_pylist()
            for fill in fills:
                if name in fill.columns:
                    values[fill.row] = self._old[name][places[fill.origin]].as_py()
            at = rows.schema.get_field_index(name)
            rows = rows.set_column(at, rows.schema.field(at), pa.array(values, rows.schema.field(at).type))
        return rows

    def delta(self) -> pa.Table:
        """Retractions and puts: the table's columns, vnode and weight. Unsorted; unchanged rows are left out."""
        everything = pa.concat_tables(self._tables)
        retracted, put = [], []
        for key, now in self._now.items():
            before = self._before.get(key, _ABSENT)
            if before != now:
                if before != _ABSENT:
                    retracted.append(before)
                if now != _ABSENT:
                    put.append(now)
        positions = pa.array(retracted + put, pa.int64())
        weights = pa.array([-1] * len(retracted) + [1] * len(put), pa.int8())
        return everything.take(positions).append_column(WEIGHT, weights)

    def _append(self, rows: pa.Table) -> int:
        base = self._total
        self._tables.append(rows.select(self._old.column_names).cast(self._old.schema))
        self._total += rows.num_rows
        return base


def keys_of(layout: Layout, tables: Sequence[pa.Table]) -> pa.Table:
    """The distinct keys of some rows, with their vnodes: what to look up."""
    keys = pa.concat_tables([table.select([*layout.key_names, VNODE]) for table in tables])
    seen: dict[bytes, int] = {}
    for index, key in enumerate(layout.encode(keys)):
        seen.setdefault(key, index)
    return keys.take(pa.array(list(seen.values()), pa.int64()))
