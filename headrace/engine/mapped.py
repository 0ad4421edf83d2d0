"""Relations whose delta follows from those of their inputs (:mod:`headrace.engine.keyed`): joins.

Δ(A ⋈ B) = ΔA ⋈ B + A ⋈ ΔB, with B as it is now and A as it was. What is stored could be compared just as well, but for
more: of a touched key all rows are read then.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.catalog import Relation
from headrace.engine import stored_rows
from headrace.engine.changed import ChangedRows, Touched, are_few
from headrace.engine.deltas import TableDelta
from headrace.engine.evaluate import Pieces
from headrace.engine.plans import columns_read_by
from headrace.engine.relations import RelationFrames
from headrace.engine.spark import translate_error
from headrace.engine.stored_rows import StoredRows
from headrace.engine.touched import difference, of_keys, runs_then
from headrace.errors import DataError
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.vnode import VNODES


class MappedChanges:
    def __init__(self, frames: RelationFrames, pieces: Pieces, changed: ChangedRows, relations: StoredRows):
        self._frames, self._pieces, self._changed, self._stored = frames, pieces, changed, relations

    def maps(self, relation: Relation, touched: Touched) -> bool:
        """Whether its delta follows from those of its inputs and what the others hold of their keys."""
        changed = {id for id, files in touched.items() if files}
        operator = relation.operator
        return operator.passing or (bool(changed) and changed.issubset(operator.linear))

    def delta(
        self,
        state: Manifest,
        relation: Relation,
        touched: Touched,
        epoch: int,
        by_key: Callable[[], TableDelta | None],
    ) -> TableDelta | None:
        """``by_key``: the same by the rule for touched keys, if it is stored."""
        several, passing = sum(map(bool, touched.values())) > 1, relation.operator.passing
        try:
            found = self._few(state, relation, touched, epoch)
            if found is None:
                return by_key() if several and not passing else self._many(state, relation, touched, epoch)
        except Exception as error:
            # If both have changed, what has failed may be a pair that never was: A as it was beside B as it is now.
            if not several or not isinstance(translate_error(error, "writing an epoch"), DataError):
                raise
            return self._compared(state, relation, touched, epoch) if passing else by_key()
        new, old = found
        return difference(relation, new, old, summed=True)

    def _compared(self, state: Manifest, relation: Relation, touched: Touched, epoch: int) -> TableDelta | None:
        """What is not stored, of the touched keys: as it is now, and as it was."""
        keys, sides = self._changed.all_keys(state, relation, touched, VNODES), []
        for runs in (state.runs.get, functools.partial(runs_then, state, epoch=epoch)):
            frames = {
                id: of_keys(self._frames.frame(state.catalog.relations[id], runs(id) or ()), columns, keys)
                for id, columns in relation.operator.inputs
            }
            sides.append(self._pieces.evaluated(state, relation, frames))
        new, old = sides
        return self._stored.replaced(state, relation, new, old, epoch)

    def _few(
        self, state: Manifest, relation: Relation, touched: Touched, epoch: int
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows that come, and those that go; None if that is much to read."""
        found: dict[int, list[pa.Table]] = {1: [], -1: []}
        for at, (id, _) in enumerate(relation.operator.inputs):
            if not touched.get(id):
                continue
            if not are_few({id: touched[id]}, 2 * stored_rows.SMALL_ROWS):
                return None
            keys = self._changed.few_keys(state, relation, {id: touched[id]}, stored_rows.FEW_KEYS)
            rows = self._others(state, relation, at, keys, epoch)
            if rows is None:
                return None
            for weight, tables in found.items():
                changes = self._changed.few(state, relation, {id: touched[id]}, weight)[id]
                if changes.num_rows:
                    tables.append(self._pieces.computed(state, relation, rows | {id: changes}))
        nothing = Layout.of(relation).row_schema.empty_table()
        new, old = (pa.concat_tables([nothing, *tables]) for tables in found.values())
        return new, old

    def _others(
        self, state: Manifest, relation: Relation, at: int, keys: pa.Table | None, epoch: int
    ) -> dict[int, pa.Table] | None:
        """What the other inputs hold of some keys, or of many, for which they are read whole; None if that is much to
        read."""
        rows = {}
        for number, (id, columns) in enumerate(relation.operator.inputs):
            if number == at:
                continue
            source = Layout.of(state.catalog.relations[id])
            runs = runs_then(state, id, epoch) if number < at else state.runs.get(id, ())
            if keys is None:
                if sum(run.rows for run in runs) > stored_rows.SMALL_ROWS:
                    return None
                rows[id] = self._changed.all_rows(source, runs).select(source.names)
                continue
            wanted = pa.schema([source.row_schema.field(name) for name in columns])
            theirs = keys.rename_columns(list(columns)).cast(wanted)
            needed = columns_read_by(relation, state.catalog.relations[id], state.catalog)
            found = self._stored.starting_with(state, source, theirs, runs, needed)
            if found is None:
                return None
            rows[id] = found.select(source.names)
        return rows

    def _many(self, state: Manifest, relation: Relation, touched: Touched, epoch: int) -> TableDelta | None:
        """The same by a query."""
        found: dict[int, list[DataFrame]] = {1: [], -1: []}
        catalog = state.catalog
        for at, (id, _) in enumerate(relation.operator.inputs):
            if not touched.get(id):
                continue
            others = {
                other: self._frames.frame(
                    catalog.relations[other],
                    runs_then(state, other, epoch) if number < at else state.runs.get(other, ()),
                )
                for number, (other, _) in enumerate(relation.operator.inputs)
                if number != at
            }
            for weight, frames in found.items():
                changes = self._changed.many(state, relation, {id: touched[id]}, weight)[id]
                frames.append(self._pieces.evaluated(state, relation, others | {id: changes}))
        new, old = (functools.reduce(DataFrame.unionAll, frames) for frames in found.values())
        return self._stored.replaced(state, relation, new, old, epoch)
