"""Evaluating an epoch's writes: from what clients asked for to each table's delta, and on to the views."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from headrace.catalog import ROW_ID, Relation
from headrace.engine.backfill import Backfills, Landing
from headrace.engine.builds import builds_in
from headrace.engine.bulk import BulkWriter
from headrace.engine.changes import (
    NEW_ROW,
    OLD_ROW,
    SMALL_BYTES,
    SMALL_ROWS,
    ChangelogRows,
    InsertFrame,
    InsertRows,
    Outcome,
    ReplaceFrame,
    StagedChanges,
    StagedRows,
    UpdateFrame,
    WrittenRows,
)
from headrace.engine.coordinator import Write
from headrace.engine.deltas import TableDelta
from headrace.engine.derive import Deriver
from headrace.engine.filling import jobs_of, new_runs
from headrace.engine.flights import late_deltas
from headrace.engine.following import ROW_ID_KEY
from headrace.engine.keyed import KeyedRelations
from headrace.engine.plans import columns_derived_from
from headrace.engine.relations import RelationFrames
from headrace.engine.small import KeyedChanges, MissingRow, keys_of, with_vnode
from headrace.engine.spark import spark_errors, use_pool
from headrace.engine.streams import with_tag
from headrace.engine.watermarks import count_late, late_condition, late_rows
from headrace.errors import HeadraceError, UndefinedRelation, Unsupported
from headrace.failpoints import failpoint
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache, lookup
from headrace.state.manifest import Manifest
from headrace.state.resolve import CHANGES
from headrace.state.runs import VNODE, RunFile
from headrace.state.storage import Storage

SMALL_PLAN_BYTES = 64 << 20
"""INSERT … SELECT: what Spark expects to be larger goes to executors without trying the small way first."""

# monotonically_increasing_id() counts from partition << 33.
_PARTITION_IDS = 1 << 33


class WriteEvaluator:
    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        indexes: IndexCache,
        backfills: Backfills,
        frames: RelationFrames,
        *,
        vectorized: Callable[[], bool],
    ):
        self._spark = spark
        self._backfills = backfills
        self._files = storage.files
        self._indexes = indexes
        self._bulk = BulkWriter(spark, storage, indexes)
        self._pool = ThreadPoolExecutor(
            max_workers=4, thread_name_prefix="headrace-tables", initializer=use_pool, initargs=(spark, "epochs")
        )
        self.deriver = Deriver(spark, self._files, self._pool, vectorized=vectorized)
        self.keyed = KeyedRelations(spark, storage, indexes, frames, vectorized=vectorized)
        backfills.builds.compute = self.keyed.build

    def __call__(
        self, state: Manifest, writes: Sequence[Write], epoch: int, landings: Sequence[Landing] = ()
    ) -> tuple[Manifest, list[Outcome]]:
        use_pool(self._spark, "epochs")
        by_table: dict[int, list[int]] = {}
        for position, write in enumerate(writes):
            by_table.setdefault(write.table_id, []).append(position)
        offsets = dict(state.offsets)

        def evaluate(table_id: int) -> tuple[TableDelta, list[Outcome]]:
            relation = state.catalog.relations.get(table_id)
            if relation is None:
                raise UndefinedRelation("the table was dropped while the statement waited")
            table = _Table(self, state, relation, offsets, epoch)
            try:
                with spark_errors(f'writing to table "{relation.name}"'):
                    return self._evaluated(table, [writes[position] for position in by_table[table_id]])
            except HeadraceError as error:
                error.of_statement = True
                raise

        # Tables do not depend on each other before the views: their lookups and queries run side by side.
        if len(by_table) > 1:
            evaluated = list(self._pool.map(with_tag(self._spark, evaluate), by_table))
        else:
            evaluated = [*map(evaluate, by_table)]
        deltas = [delta for delta, _ in evaluated]
        outcomes: list[Outcome] = [Outcome() for _ in writes]
        for positions, (_, answers) in zip(by_table.values(), evaluated, strict=True):
            for position, answer in zip(positions, answers, strict=True):
                outcomes[position] = answer
        failpoint("before_write")
        late = late_deltas(state, landings)
        state = self._backfills.land(state, landings)
        with spark_errors("writing an epoch"):
            written = self.deriver.write(state.catalog, deltas, epoch=epoch, jobs=jobs_of(state), late=late)
        runs = dict(state.runs)
        # What a chunk missed comes before what this epoch does, and is of the epoch before.
        chunks = {delta.relation.id for delta in deltas if delta.base}
        for at, by_relation in ((epoch - 1, written.late), (epoch, written.files)):
            for relation_id, files in by_relation.items():
                runs[relation_id] = new_runs(runs.get(relation_id, ()), files, at, base=relation_id in chunks)
        state = dataclasses.replace(state, runs=runs, offsets=offsets)
        with spark_errors("writing an epoch"):
            builds = builds_in(landings)
            missed = self._backfills.builds.missed(builds)
            since = {each.job_id: each.state.offsets for each in builds}
            state = self.keyed.advance(state, written, epoch, self.deriver, missed, since)
        failpoint("after_write")
        self._backfills.record(state, written, epoch)
        return state, outcomes

    @staticmethod
    def _evaluated(table: _Table, asked: Sequence[Write]) -> tuple[TableDelta, list[Outcome]]:
        delta, answers = table.evaluate([write.change for write in asked])
        for write, answer in zip(asked, answers, strict=True):
            if write.returned is not None:
                answer.returned = write.returned(answer)
        return delta, answers


class _Table:
    """One table in one epoch."""

    def __init__(self, owner: WriteEvaluator, state: Manifest, relation: Relation, offsets: dict[str, Any], epoch: int):
        self._owner = owner
        self._state = state
        self._relation = relation
        self._layout = Layout.of(relation)
        self._offsets = offsets
        self._epoch = epoch
        self._runs = state.runs.get(relation.id, ())
        self._generated_key = relation.column(ROW_ID).hidden if self._layout.key_names == [ROW_ID] else False

    def evaluate(self, changes: Sequence) -> tuple[TableDelta, list[Outcome]]:
        first = changes[0]
        if isinstance(first, InsertRows):
            return self._insert_rows(changes)
        if isinstance(first, InsertFrame):
            return self._insert_frame(first)
        if isinstance(first, ChangelogRows):
            return self._changelog(first)
        if isinstance(first, WrittenRows):
            delta = TableDelta(relation=self._relation, files=first.files, base=True)
            return delta, [Outcome(count=sum(file.rows for file in first.files))]
        if isinstance(first, StagedRows):
            return self._staged_rows(first)
        if isinstance(first, StagedChanges):
            files = self._owner._bulk.merge(
                self._layout, first.files, epoch=self._epoch, policy=CHANGES, old_runs=self._runs
            )
            return self._written(files, sum(file.rows for file in first.files))
        if isinstance(first, ReplaceFrame):
            return self._replace(first)
        return self._update(first)

    # --- small -------------------------------------------------------------------------------------------------

    def _insert_rows(self, changes: Sequence[InsertRows]) -> tuple[TableDelta, list[Outcome]]:
        changes = [dataclasses.replace(change, rows=self._on_time(change.rows)) for change in changes]
        # Many small statements are one table: what is done to each table costs more than what is done to a row.
        counts = [change.rows.num_rows for change in changes]
        rows = changes[0].rows if len(changes) == 1 else pa.concat_tables(change.rows for change in changes)
        table = with_vnode(self._layout, self._with_row_id(rows.combine_chunks()))
        columns = None if self._relation.on_conflict == "update_if_not_null" else self._needed
        changed = self._keyed([table], fresh=self._generated_key, columns=columns)
        if self._relation.on_conflict == "overwrite":
            changed.insert(table)
            written = table.drop_columns([VNODE])
            ends = itertools.accumulate(counts)
            outcomes = [
                Outcome(count=count, rows=written.slice(end - count, count))
                for count, end in zip(counts, ends, strict=True)
            ]
        else:
            # Which rows of a statement are taken, and as what, depends on those before it.
            ends = itertools.accumulate(counts)
            taken = [changed.insert(table.slice(end - count, count)) for count, end in zip(counts, ends, strict=True)]
            outcomes = [Outcome(count=rows.num_rows, rows=rows.drop_columns([VNODE])) for rows in taken]
        return TableDelta(relation=self._relation, rows=changed.delta(), whole=columns is None), outcomes

    def _on_time(self, rows: pa.Table) -> pa.Table:
        """Without those that are late; how many these are is added up."""
        late = late_rows(rows, self._relation, self._state.offsets)
        if late is None:
            return rows
        count_late(self._offsets, self._relation, pc.sum(late).as_py() or 0)
        return rows.filter(pc.invert(late))

    @property
    def _needed(self) -> set[str] | None:
        """What nobody derives anything from need not be read: of rows that are replaced, most of what was in them.

        None: all of it is needed.
        """
        needed = columns_derived_from(self._relation, self._state.catalog)
        return None if needed.issuperset(set(self._layout.names) - set(self._layout.key_names)) else needed

    def _keyed(
        self, tables: Sequence[pa.Table], *, fresh: bool = False, columns: Iterable[str] | None = None
    ) -> KeyedChanges:
        """The changes collector, with the old rows of the tables' keys: all of them, or their key and some columns.

        ``fresh`` keys cannot exist.
        """
        old = self._layout.stored_schema.empty_table()
        if not fresh and self._runs:
            keys = keys_of(self._layout, tables)
            owner = self._owner
            old = lookup(owner._spark, owner._files, self._layout, self._runs, keys, owner._indexes, columns=columns)
        return KeyedChanges(self._layout, self._relation.on_conflict, old)

    def _with_row_id(self, rows: pa.Table) -> pa.Table:
        if not self._generated_key:
            return rows
        base = self._take_row_ids(rows.num_rows)
        ids = pa.array(range(base, base + rows.num_rows), pa.int64())
        return rows.append_column(ROW_ID, ids).select(self._layout.names)

    def _take_row_ids(self, count: int) -> int:
        name = f"{ROW_ID_KEY}{self._relation.id}"
        base = self._offsets.get(name, 0)
        self._offsets[name] = base + count
        return base

    # --- the log of another database ---------------------------------------------------------------------------

    def _changelog(self, change: ChangelogRows) -> tuple[TableDelta, list[Outcome]]:
        rows, deletes, origins = (
            with_vnode(self._layout, each) for each in (change.rows, change.deletes, change.origins)
        )
        columns = None if change.fills else self._needed
        changed = self._keyed([rows, deletes, origins], columns=columns)
        try:
            rows = changed.filled(rows, origins, change.fills)
        except MissingRow as error:
            error.table_id = self._relation.id
            raise
        # Keys that the other database tells apart may be one here (1.0 and 1.00): what stays must come last.
        changed.delete(deletes)
        changed.insert(rows)
        count = rows.num_rows + deletes.num_rows
        return TableDelta(relation=self._relation, rows=changed.delta(), whole=columns is None), [Outcome(count=count)]

    # --- INSERT … SELECT ---------------------------------------------------------------------------------------

    def _insert_frame(self, change: InsertFrame) -> tuple[TableDelta, list[Outcome]]:
        frame = change.build(self._state)
        if _expected_bytes(frame) <= SMALL_PLAN_BYTES:
            limit = self._small_limit()
            rows = frame.limit(limit + 1).toArrow()
            if rows.num_rows <= limit:
                schema = pa.schema([self._layout.row_schema.field(name) for name in rows.column_names])
                return self._insert_rows([InsertRows(rows=rows.cast(schema))])
        if self._generated_key:
            partitions = frame.rdd.getNumPartitions()
            base = self._take_row_ids(partitions * _PARTITION_IDS)
            frame = frame.selectExpr("*", f"{base} + monotonically_increasing_id() AS {ROW_ID}")
        old_runs = () if self._generated_key else self._runs
        late, observed = late_condition(self._relation, self._state.offsets), Observation()
        if late is not None:
            frame = frame.observe(observed, F.count_if(F.expr(late)).alias("late")).where(f"NOT ({late})")
        files, count = self._owner._bulk.insert(
            self._layout,
            frame,
            epoch=self._epoch,
            policy=self._relation.on_conflict,
            old_runs=old_runs,
            keep_unchanged=change.returning,
        )
        if late is not None:
            count_late(self._offsets, self._relation, observed.get["late"])
        return self._inserted(files, count)

    def _staged_rows(self, change: StagedRows) -> tuple[TableDelta, list[Outcome]]:
        policy = self._relation.on_conflict
        bulk = self._owner._bulk
        files = bulk.merge(self._layout, change.files, epoch=self._epoch, policy=policy, old_runs=self._runs)
        return self._inserted(files, sum(file.rows for file in change.files))

    def _inserted(self, files: list[RunFile], count: int) -> tuple[TableDelta, list[Outcome]]:
        if self._relation.on_conflict == "ignore":
            count = sum(file.rows for file in files)
        return self._written(files, count)

    def _written(self, files: list[RunFile], count: int) -> tuple[TableDelta, list[Outcome]]:
        return TableDelta(relation=self._relation, files=tuple(files)), [Outcome(count=count, files=files)]

    def _small_limit(self) -> int:
        """How many rows may come through the driver: fewer where the table's rows are large."""
        stored = sum(run.rows for run in self._runs)
        average = sum(run.bytes for run in self._runs) // stored if stored else 0
        return min(SMALL_ROWS, max(100, SMALL_BYTES // max(1, average)))

    # --- UPDATE and DELETE -------------------------------------------------------------------------------------

    def _update(self, change: UpdateFrame) -> tuple[TableDelta, list[Outcome]]:
        frame = change.build(self._state)
        limit = self._small_limit()
        rows = frame.limit(limit + 1).toArrow()
        if rows.num_rows > limit:
            if change.moves_key:
                raise Unsupported(
                    f'UPDATE of primary key columns of "{self._relation.name}" over more than {limit} rows',
                    hint="update fewer rows at a time",
                )
            files, count = self._owner._bulk.update(
                self._layout, frame, epoch=self._epoch, deletes=change.deletes, keep_unchanged=change.returning
            )
            return self._written(files, count)
        old = self._unpacked(rows, OLD_ROW)
        new = old if change.deletes else self._unpacked(rows, NEW_ROW)
        if change.moves_key:
            changed = self._keyed([old, new])
        else:
            changed = KeyedChanges(self._layout, "overwrite", with_stored(self._layout, old))
        if change.deletes:
            changed.delete(old)
        else:
            changed.replace(old, new)
        outcome = Outcome(count=rows.num_rows, rows=new.drop_columns([VNODE]))
        return TableDelta(relation=self._relation, rows=changed.delta()), [outcome]

    def _replace(self, change: ReplaceFrame) -> tuple[TableDelta, list[Outcome]]:
        frame = change.build(self._state)
        limit = self._small_limit()
        rows = frame.limit(limit + 1).toArrow()
        if rows.num_rows > limit:
            return self._written(*self._owner._bulk.update(self._layout, frame, epoch=self._epoch, deletes=False))
        old, new = (self._unpacked(rows.filter(pc.is_valid(rows[name])), name) for name in (OLD_ROW, NEW_ROW))
        changed = KeyedChanges(self._layout, "overwrite", with_stored(self._layout, old))
        changed.delete(old)
        changed.insert(new)
        return TableDelta(relation=self._relation, rows=changed.delta()), [Outcome(count=rows.num_rows)]

    def _unpacked(self, rows: pa.Table, name: str) -> pa.Table:
        struct = rows[name].combine_chunks()
        if isinstance(struct, pa.ChunkedArray):
            struct = pa.concat_arrays(struct.chunks) if struct.num_chunks else pa.array([], struct.type)
        columns = [struct.field(column) for column in self._layout.names]
        table = pa.Table.from_arrays(columns, names=self._layout.names).cast(self._layout.row_schema)
        return with_vnode(self._layout, table)


def with_stored(layout: Layout, rows: pa.Table) -> pa.Table:
    return rows.select([*layout.names, VNODE])


def _expected_bytes(frame: DataFrame) -> int:
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))
