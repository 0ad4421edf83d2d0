"""What relations hold: rows of some keys, the first of them, or all, and others in place of them.

Few rows are looked up and compared by the driver. Many are a query of Spark's, whose result is staged and merged
like any bulk write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog import Relation
from headrace.engine.bulk import BulkWriter
from headrace.engine.changed import ChangedRows
from headrace.engine.changes import NEW_ROW, OLD_ROW, SMALL_ROWS
from headrace.engine.deltas import TableDelta
from headrace.engine.evaluate import ONE_TASK_ROWS, Pieces, at_its_time, quoted
from headrace.engine.relations import RelationFrames
from headrace.engine.touched import difference, of_keys
from headrace.state.first_rows import first_rows
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache, starting_with
from headrace.state.manifest import Manifest
from headrace.state.runs import Run
from headrace.state.storage import Storage
from headrace.types import quote_spark

FEW_KEYS = 100_000
"""Touched keys up to which their rows are looked up; beyond, relations are read whole. Of four times as many changes
the keys are counted."""

LOOKUP_ROWS = 1 << 22
"""Stored rows that may be read to find those of the touched keys in one relation: a thousand keys anywhere in a large
one are in about as many row groups."""

READ_WHOLE = f"more than {FEW_KEYS} touched keys, or {LOOKUP_ROWS} stored rows of them: the inputs are read whole"
"""For EXPLAIN"""


class StoredRows:
    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        indexes: IndexCache,
        frames: RelationFrames,
        pieces: Pieces,
        changed: ChangedRows,
    ):
        self._spark, self._storage, self._indexes, self._frames = spark, storage, indexes, frames
        self._bulk = BulkWriter(spark, storage, indexes)
        self._pieces, self._changed = pieces, changed

    def starting_with(
        self,
        state: Manifest,
        layout: Layout,
        keys: pa.Table,
        runs: Sequence[Run] | None = None,
        columns: Iterable[str] | None = None,
    ) -> pa.Table | None:
        runs = state.runs.get(layout.relation_id, ()) if runs is None else runs
        keys = keys.select(layout.key_names[: keys.num_columns])
        files, indexes = self._storage.files, self._indexes
        return starting_with(self._spark, files, layout, runs, keys, indexes, most=LOOKUP_ROWS, columns=columns)

    def first_rows(self, state: Manifest, layout: Layout, keys: pa.Table | None, count: int) -> pa.Table | None:
        runs = state.runs.get(layout.relation_id, ())
        return first_rows(self._storage.files, layout, runs, keys, count, self._indexes, most=LOOKUP_ROWS)

    def recomputed(
        self, state: Manifest, relation: Relation, keys: DataFrame | None, epoch: int, only: str | None = None
    ) -> TableDelta | None:
        """By a query over the inputs, of some keys or all, compared with what the relation holds of them.

        ``only``: a condition on the relation's rows, beyond which all stay as they are.
        """
        if keys is None and only is None and (found := self._all_by_driver(state, relation)) is not None:
            return difference(relation, *found)
        frames = self._pieces.inputs(state, relation)
        old = self._frames.frame(relation, state.runs.get(relation.id, ()))
        if keys is not None:
            for id, columns in relation.operator.inputs:
                if id not in relation.operator.whole:
                    frames[id] = of_keys(frames[id], columns, keys)
            old = of_keys(old, relation.operator.key, keys)
        new = self._pieces.evaluated(state, relation, at_its_time(state, relation, frames))
        if only is not None:
            new, old = new.where(only), old.where(only)
        return self.replaced(state, relation, new, old, epoch, whole=keys is None and only is None)

    def _all_by_driver(self, state: Manifest, relation: Relation) -> tuple[pa.Table, pa.Table] | None:
        """All rows that there are to be, and all that there are; None if that is much to read, or work for Spark."""
        ids = state.catalog.stored_inputs(relation.reads)
        stored = sum(run.rows for id in (relation.id, *ids) for run in state.runs.get(id, ()))
        # Arrow leaves averages to those who divide sums by counts, and has no clock.
        special = relation.operator.clock is not None or relation.operator.averages or set(ids) != set(relation.reads)
        if stored > ONE_TASK_ROWS or special or not self._pieces.is_plain(state, relation):
            return None
        rows = {}
        for id in (relation.id, *ids):
            layout = Layout.of(state.catalog.relations[id])
            rows[id] = self._changed.all_rows(layout, state.runs.get(id, ())).select(layout.names)
        old = rows.pop(relation.id)
        return self._pieces.computed(state, relation, rows), old

    def replaced(
        self, state: Manifest, relation: Relation, new: DataFrame, old: DataFrame, epoch: int, *, whole: bool = False
    ) -> TableDelta | None:
        """Some rows in place of others that the relation holds; ``whole``: in place of all."""
        layout, runs = Layout.of(relation), state.runs.get(relation.id, ())
        if sum(run.rows for run in runs) <= SMALL_ROWS and not relation.operator.passing:
            few = new.limit(SMALL_ROWS + 1).toArrow()
            if few.num_rows <= SMALL_ROWS:
                held = old.toArrow().select(layout.names).cast(layout.row_schema)
                return difference(relation, few.cast(layout.row_schema), held)
        if whole:  # tasks that write read what is there themselves
            files = self._bulk.replace(layout, new, epoch=epoch, old_runs=runs)
            return TableDelta(relation=relation, files=tuple(files)) if files else None
        struct = f"struct({', '.join(quoted(layout))})"
        kind = f"STRUCT<{', '.join(f'{quote_spark(name)}: {each.spark}' for name, each in layout.columns)}>"
        changes = new.selectExpr(f"CAST(NULL AS {kind}) AS {OLD_ROW}", f"{struct} AS {NEW_ROW}").unionAll(
            old.selectExpr(f"{struct} AS {OLD_ROW}", f"CAST(NULL AS {kind}) AS {NEW_ROW}")
        )
        files, _ = self._bulk.update(layout, changes, epoch=epoch, deletes=False)
        return TableDelta(relation=relation, files=tuple(files)) if files else None
