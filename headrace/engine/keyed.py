"""Relations that follow their inputs key by key: aggregates, joins and the like (docs/design/incremental.md).

After the tables of an epoch and all that is mapped from them are written, it is the turn of these, upstream before
downstream. What the epoch wrote to an input says which keys it touched. Of each touched key the relation's rows are
computed anew, from the rows that the inputs hold under it *now*, and compared with the rows that the relation holds;
the difference is its delta, which is mapped on like that of a table.

So nothing depends on how an input came by its changes, or on when: what has been touched since any earlier moment can
be caught up with at once. That is how a relation is built beside the epochs (:mod:`headrace.engine.builds`).

A few keys are looked up, and one small prepared job computes their rows. Many are a query of Spark's over the whole.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.catalog import Relation
from headrace.engine import moments
from headrace.engine.bulk import BulkWriter
from headrace.engine.changed import ChangedRows, Touched, are_few
from headrace.engine.changes import NEW_ROW, OLD_ROW, SMALL_ROWS
from headrace.engine.choice import Choices
from headrace.engine.deltas import TableDelta, Written
from headrace.engine.derive import Deriver
from headrace.engine.evaluate import ONE_TASK_ROWS, Pieces, at_its_time, quoted
from headrace.engine.filling import jobs_of, new_runs
from headrace.engine.firsts import ChangedFirstRows
from headrace.engine.groups import Averages, ChangedGroups, new_expressions, total_expressions
from headrace.engine.held import HeldClocks
from headrace.engine.moments import Moments, there_now, with_clock
from headrace.engine.plans import columns_read_by
from headrace.engine.relations import RelationFrames
from headrace.engine.spark import translate_error
from headrace.engine.touched import difference, each_once, of_keys, of_vnodes, runs_then, unfinished
from headrace.engine.watermarks import Watermarks
from headrace.errors import DataError, HeadraceError
from headrace.state.first_rows import first_rows
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache, starting_with
from headrace.state.manifest import Manifest
from headrace.state.runs import Run, RunFile
from headrace.state.storage import Storage
from headrace.state.vnode import VNODES
from headrace.types import quote_spark

FEW_KEYS = 100_000
"""Touched keys up to which their rows are looked up; beyond, relations are read whole. Of four times as many changes
the keys are counted."""

LOOKUP_ROWS = 1 << 22
"""Stored rows that may be read to find those of the touched keys in one relation: a thousand keys anywhere in a large
one are in about as many row groups."""


class KeyedRelations:
    def __init__(
        self,
        spark: SparkSession,
        storage: Storage,
        indexes: IndexCache,
        frames: RelationFrames,
        *,
        vectorized: Callable[[], bool],
    ):
        self._spark, self._storage, self._indexes, self._frames = spark, storage, indexes, frames
        self._bulk = BulkWriter(spark, storage, indexes)
        self._pieces = Pieces(spark, storage, frames, vectorized)
        self._moments = Moments(storage, indexes)
        self._watermarks = Watermarks(storage)
        self._held = HeldClocks()
        self._changed = ChangedRows(spark, storage, frames)
        self.computed_anew = 0
        """How often a relation was, because so much had changed"""

    def advance(
        self,
        state: Manifest,
        written: Written,
        epoch: int,
        deriver: Deriver,
        missed: Mapping[int, Touched],
        since: Mapping[int, Mapping[str, Any]],
    ) -> Manifest:
        """The state with all that follows from what the epoch wrote, which is added to ``written``.

        ``missed``: what was written to the inputs of relations that were built meanwhile; ``since``: the offsets of
        the state as of which they were, which has its time.
        """
        self._changed.forget()
        before = state.offsets
        state = self._watermarks.advanced(with_clock(state), written.files)
        state = self._held.tried_again(state, written.files)
        while True:
            more = written.copy()
            try:
                found = self._advanced(state, before, more, epoch, deriver, missed, since)
                break
            except HeadraceError as error:
                held = self._held.holding(state, before, error, since)
                if held is None or not (written.empty or self._clock_fails(state, before, epoch, deriver)):
                    raise
                state = held
        self._held.report(before, found)
        written.become(more)
        return found

    def _clock_fails(self, state: Manifest, before: Mapping[str, Any], epoch: int, deriver: Deriver) -> bool:
        """Whether the step of the clock would fail if the epoch wrote nothing: then no statement is to blame."""
        runs = {id: runs_then(state, id, epoch) for id in state.runs}
        state = dataclasses.replace(state, runs=runs)
        try:
            self._advanced(state, before, Written(), epoch, deriver, missed={}, since={})
        except HeadraceError as error:
            return self._held.holding(state, before, error, ()) is not None
        return False

    def _advanced(
        self,
        state: Manifest,
        before: Mapping[str, Any],
        written: Written,
        epoch: int,
        deriver: Deriver,
        missed: Mapping[int, Touched],
        since: Mapping[int, Mapping[str, Any]],
    ) -> Manifest:
        """``state`` has the time to go on to, ``before`` are the offsets with the time that it was."""
        jobs, choices = jobs_of(state), Choices(FEW_KEYS, missed)
        for relation in state.catalog.in_order():
            if relation.operator is None:
                continue
            built = jobs[relation.id].built if relation.creating and relation.id in jobs else VNODES
            if relation.creating and not built:
                continue
            # What only passes changes on has nothing to catch up with.
            files = {} if relation.operator.passing else missed.get(relation.id, {})
            followed = [id for id, _ in relation.operator.inputs if id not in relation.operator.as_of_now]
            touched = {id: [*files.get(id, ()), *written.files.get(id, ())] for id in followed}
            stood = since.get(relation.id, before)
            times = [moments.time_of(offsets, relation) for offsets in (stood, state.offsets)]
            moved = relation.operator.clock is not None and times[0] != times[1]
            if not moved and not any(touched.values()) and not choices.concerns(relation):
                continue
            behind = any(files.values())
            whole = built == VNODES and not behind
            if whole and choices.leaves_out(state, relation, touched):
                continue
            work = functools.partial(self._delta, state, relation, touched, epoch, stood, built, behind)
            if whole and choices.is_anew(state, relation, touched):
                work = functools.partial(self._recomputed, state, relation, None, epoch)
            elif whole and self._maps(relation, touched):
                work = functools.partial(self._mapped, state, relation, touched, epoch, work)
            delta = self._blaming(state, relation, work)
            if delta is None:
                continue
            more = deriver.write(state.catalog, [delta], epoch=epoch, jobs=jobs_of(state))
            written.add(more)
            runs = dict(state.runs)
            for id, files in more.files.items():
                if id != relation.id or not relation.operator.passing:
                    runs[id] = new_runs(runs.get(id, ()), files, epoch)
            state = dataclasses.replace(state, runs=runs)
        self._changed.forget()
        self.computed_anew += choices.anew
        return state

    def due_in(self, state: Manifest) -> float:
        """In how many seconds a row comes or goes by itself, or something is tried again."""
        moment = self._moments.next_moment(state)
        due = math.inf if moment is None else (moment - moments.read_clock()) / 1e6
        return min(due, self._held.due_in(state))

    def build(self, state: Manifest, relation: Relation, vnodes: range) -> list[RunFile]:
        """Its rows of some vnodes as of a state, written."""
        return self._pieces.build(state, relation, vnodes)

    def _blaming(self, state: Manifest, relation: Relation, work: Callable[[], TableDelta | None]) -> TableDelta | None:
        """What is wrong with a row is said with the name of the view that cannot have it."""
        try:
            return work()
        except Exception as error:
            found = translate_error(error, "writing an epoch")
            if not isinstance(found, DataError):
                raise
            owner = state.catalog.owner(relation)
            blamed = DataError(
                f'{found.message}, in {owner.kind} "{owner.name}"',
                hint="nothing of the statement was applied; change the row, or drop the view",
                sqlstate=found.sqlstate,
            )
            blamed.view_id = relation.id
            raise blamed from error

    # --- a delta ------------------------------------------------------------------------------------------------

    def _delta(
        self,
        state: Manifest,
        relation: Relation,
        touched: Touched,
        epoch: int,
        before: Mapping[str, Any],
        built: int,
        behind: bool,
    ) -> TableDelta | None:
        """``before``: the offsets of the state that the relation stands at, ``behind``: several epochs ago."""
        assert relation.operator is not None
        if relation.operator.adds:
            try:
                found = self._added(state, relation, touched, built)
                if found is None:
                    return self._many_added(state, relation, touched, epoch, built)
                return difference(relation, *found)
            except Exception as error:
                # What has failed may be a row that came and went meanwhile, which nobody has to have a value for.
                if not behind or not isinstance(translate_error(error, "writing an epoch"), DataError):
                    raise
                keys = None if built == VNODES else self._changed.all_keys(state, relation, touched, built)
                return self._recomputed(state, relation, keys, epoch)
        if relation.operator.recomputes:
            return self._recomputed(state, relation, None, epoch)
        if not relation.operator.key:
            found = self._from_first(state, relation, touched)
            return self._recomputed(state, relation, None, epoch) if found is None else difference(relation, *found)
        if any(touched.get(id) for id in relation.operator.whole):
            return self._recomputed(state, relation, None, epoch)
        keys, moved = self._changed.few_keys(state, relation, touched, FEW_KEYS), None
        if relation.operator.clock is not None:
            then, now = (moments.time_of(offsets, relation) for offsets in (before, state.offsets))
            moved = self._moments.crossing(state, relation, then, now, most=LOOKUP_ROWS)
            if moved is None:
                return self._recomputed(state, relation, None, epoch, only=unfinished(state, relation, before))
            if keys is None or moved.num_rows > FEW_KEYS:
                every = self._changed.all_keys(state, relation, touched, built, moved)
                return self._recomputed(state, relation, every, epoch)
            keys = each_once(relation, pa.concat_tables([keys, moved]))
            if keys.num_rows == 0:
                return None
        if keys is not None and built < VNODES:
            keys = of_vnodes(relation, keys, built)
        changes = {} if behind or built < VNODES else touched
        found = None if keys is None else self._looked_up(state, relation, keys, changes)
        if found is None:
            return self._recomputed(
                state, relation, self._changed.all_keys(state, relation, touched, built, moved), epoch
            )
        new, old = found
        return difference(relation, new, old)

    # --- what changes of linear inputs are mapped to ------------------------------------------------------------

    def _maps(self, relation: Relation, touched: Touched) -> bool:
        """Whether its delta follows from those of its inputs and what the others hold of their keys.

        What is stored could be compared just as well, but for more: of a touched key all rows are read then.
        """
        changed = {id for id, files in touched.items() if files}
        operator = relation.operator
        return operator.passing or (bool(changed) and changed.issubset(operator.linear))

    def _mapped(
        self,
        state: Manifest,
        relation: Relation,
        touched: Touched,
        epoch: int,
        by_key: Callable[[], TableDelta | None],
    ) -> TableDelta | None:
        """Δ(A ⋈ B) = ΔA ⋈ B + A ⋈ ΔB, with B as it is now and A as it was.

        ``by_key``: the same by the rule for touched keys, if it is stored.
        """
        several, passing = sum(map(bool, touched.values())) > 1, relation.operator.passing
        try:
            found = self._few_mapped(state, relation, touched, epoch)
            if found is None:
                return by_key() if several and not passing else self._many_mapped(state, relation, touched, epoch)
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
        return self._replaced(state, relation, new, old, epoch)

    def _few_mapped(
        self, state: Manifest, relation: Relation, touched: Touched, epoch: int
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows that come, and those that go; None if that is much to read."""
        found: dict[int, list[pa.Table]] = {1: [], -1: []}
        for at, (id, _) in enumerate(relation.operator.inputs):
            if not touched.get(id):
                continue
            if not are_few({id: touched[id]}, 2 * SMALL_ROWS):
                return None
            keys = self._changed.few_keys(state, relation, {id: touched[id]}, FEW_KEYS)
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
                if sum(run.rows for run in runs) > SMALL_ROWS:
                    return None
                rows[id] = self._changed.all_rows(source, runs).select(source.names)
                continue
            wanted = pa.schema([source.row_schema.field(name) for name in columns])
            theirs = keys.rename_columns(list(columns)).cast(wanted)
            needed = columns_read_by(relation, state.catalog.relations[id], state.catalog)
            found = self._starting_with(state, source, theirs, runs, needed)
            if found is None:
                return None
            rows[id] = found.select(source.names)
        return rows

    def _many_mapped(self, state: Manifest, relation: Relation, touched: Touched, epoch: int) -> TableDelta | None:
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
        return self._replaced(state, relation, new, old, epoch)

    # --- by key -------------------------------------------------------------------------------------------------

    def _looked_up(
        self, state: Manifest, relation: Relation, keys: pa.Table, changes: Touched
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows that these keys have now, and those that the relation holds; None if that is much to read.

        ``changes``: what the epoch wrote to the inputs, if that is all that the relation does not know of.
        """
        layout = Layout.of(relation)
        old = self._starting_with(state, layout, keys)
        if old is None:
            return None
        old = old.select(layout.names)
        rows: dict[int, pa.Table] = {}
        first = relation.operator.first or (0,) * len(relation.operator.inputs)
        for (id, columns), count in zip(relation.operator.inputs, first, strict=True):
            source = Layout.of(state.catalog.relations[id])
            if id in relation.operator.whole:
                if sum(run.rows for run in state.runs.get(id, ())) > SMALL_ROWS:
                    return None
                rows[id] = self._changed.all_rows(source, state.runs.get(id, ())).select(source.names)
                continue
            wanted = pa.schema([source.row_schema.field(name) for name in columns])
            theirs = keys
            if id in relation.operator.as_of_now:  # by the first columns, which several keys may share
                theirs = each_once(relation, keys.select(keys.column_names[: len(columns)]))
            theirs = theirs.rename_columns(list(columns)).cast(wanted)
            if count and relation.operator.kept and changes and are_few(changes, 4 * FEW_KEYS):
                found = self._first_of_known(state, relation, source, old, changes)
            elif count:
                found = self._first_rows(state, source, theirs, count)
            else:
                needed = columns_read_by(relation, state.catalog.relations[id], state.catalog)
                found = self._starting_with(state, source, theirs, columns=needed)
            if found is None:
                return None
            rows[id] = found.select(source.names)
        if relation.operator.clock is not None:  # of rows that are not there, nothing is computed
            time = moments.time_of(state.offsets, relation)
            rows = {id: there_now(each, relation.operator, time) for id, each in rows.items()}
        return self._pieces.computed(state, relation, rows), old

    def _first_of_known(
        self, state: Manifest, relation: Relation, source: Layout, old: pa.Table, changes: Touched
    ) -> pa.Table | None:
        """Rows of the input among which are the first ones of each touched key; None if that is much to read."""
        came, gone = (self._changed.few(state, relation, changes, weight)[source.relation_id] for weight in (1, -1))
        known = ChangedFirstRows(source, relation.operator, old, came, gone)
        doubted = known.in_doubt()
        if not doubted.num_rows:
            return known.rows()
        again = self._first_rows(state, source, doubted, relation.operator.first[0])
        return None if again is None else known.rows(again.select(source.names))

    def _from_first(self, state: Manifest, relation: Relation, touched: Touched) -> tuple[pa.Table, pa.Table] | None:
        """The same without a key, of the first rows of each input; None if that is much to read."""
        layout, rows, beyond = Layout.of(relation), {}, True
        for (id, _), count in zip(relation.operator.inputs, relation.operator.first, strict=True):
            source = Layout.of(state.catalog.relations[id])
            found = self._first_rows(state, source, None, count)
            if found is None:
                return None
            rows[id] = found.select(source.names)
            last = source.bound(found, found.num_rows - 1) if found.num_rows == count else None
            beyond = beyond and all(last is not None and file.low > last for file in touched.get(id, ()))
        old = self._changed.all_rows(layout, state.runs.get(relation.id, ())).select(layout.names)
        # What comes after the first rows does not change them.
        return (old, old) if beyond else (self._pieces.computed(state, relation, rows), old)

    def _first_rows(self, state: Manifest, layout: Layout, keys: pa.Table | None, count: int) -> pa.Table | None:
        runs = state.runs.get(layout.relation_id, ())
        return first_rows(self._storage.files, layout, runs, keys, count, self._indexes, most=LOOKUP_ROWS)

    # --- what adds up -------------------------------------------------------------------------------------------

    def _added(
        self, state: Manifest, relation: Relation, touched: Touched, built: int
    ) -> tuple[pa.Table, pa.Table] | None:
        """The new rows of the touched groups, and the old ones; None if those are many."""
        small = are_few(touched, 4 * FEW_KEYS)
        if not small and sum(run.rows for run in state.runs.get(relation.id, ())) > FEW_KEYS:
            return None  # it is not worth a query to see whether they are few after all
        changes = []
        for weight in (1, -1):
            rows = self._changed.few(state, relation, touched, weight) if small else None
            if rows is not None and not any(each.num_rows for each in rows.values()):
                changes.append(Layout.of(relation).row_schema.empty_table())
                continue
            if rows is not None:
                changes.append(self._pieces.computed(state, relation, rows))
                continue
            frame = self._pieces.evaluated(state, relation, self._changed.many(state, relation, touched, weight))
            changes.append(frame.limit(FEW_KEYS + 1).toArrow().cast(Layout.of(relation).row_schema))
        if max(each.num_rows for each in changes) > FEW_KEYS:
            return None
        if built < VNODES:
            changes = [of_vnodes(relation, each, built) for each in changes]
        layout = Layout.of(relation)
        keys = pa.concat_tables([each.select(list(relation.operator.key)) for each in changes])
        if relation.operator.key:
            old = self._starting_with(state, layout, keys)
        else:
            old = self._changed.all_rows(layout, state.runs.get(relation.id, ()))
        if old is None:
            return None
        old = old.select(layout.names)
        groups = ChangedGroups(layout, relation.operator, old, *changes)
        doubted = groups.in_doubt()
        if not doubted.num_rows:
            return groups.new_rows(), old
        again = self._all_of_groups(state, relation, doubted)
        return None if again is None else (groups.new_rows(again), old)

    def _all_of_groups(self, state: Manifest, relation: Relation, keys: pa.Table) -> pa.Table | None:
        """Groups computed from all rows that they have; None if those are many, or not stored by group."""
        ((id, columns),) = relation.operator.inputs
        if not columns:
            return None
        source = Layout.of(state.catalog.relations[id])
        wanted = pa.schema([source.row_schema.field(name) for name in columns])
        needed = columns_read_by(relation, state.catalog.relations[id], state.catalog)
        rows = self._starting_with(state, source, keys.rename_columns(list(columns)).cast(wanted), columns=needed)
        return None if rows is None else self._pieces.computed(state, relation, {id: rows.select(source.names)})

    def _many_added(
        self, state: Manifest, relation: Relation, touched: Touched, epoch: int, built: int
    ) -> TableDelta | None:
        """The same by a query: the old rows of the touched groups, and what came and went, grouped once more."""
        layout, operator = Layout.of(relation), relation.operator
        gone = any(file.retractions for files in touched.values() for file in files)
        if not operator.key or built < VNODES or (operator.extremes and gone):
            by_key = operator.key and not operator.follows_changes
            keys = self._changed.all_keys(state, relation, touched, built) if by_key else None
            return self._recomputed(state, relation, keys, epoch)
        came, gone = (
            self._pieces.evaluated(state, relation, self._changed.many(state, relation, touched, weight))
            for weight in (1, -1)
        )
        names = [f"{quote_spark(name)} AS _hr_k{number}" for number, name in enumerate(operator.key)]
        keys = came.selectExpr(*names).unionAll(gone.selectExpr(*names)).distinct()
        old = of_keys(self._frames.frame(relation, state.runs.get(relation.id, ())), operator.key, keys)
        signed = [
            rows.selectExpr(*quoted(layout), f"{sign} AS _hr_sign") for rows, sign in ((old, 1), (came, 1), (gone, -1))
        ]
        grouped = functools.reduce(DataFrame.unionAll, signed).groupBy(*map(quote_spark, operator.key))
        totals = grouped.agg(*(F.expr(each) for each in total_expressions(operator)))
        new = totals.selectExpr(
            *(
                f"CAST({each} AS {layout.types[name].spark}) AS {quote_spark(name)}"
                for name, each in new_expressions(layout, operator)
            )
        )
        alive = new.where(f"{quote_spark(operator.adds[0][0])} <> 0")
        if operator.averages:
            alive = alive.mapInArrow(Averages(layout=layout, averages=operator.averages), layout.row_ddl)
        return self._replaced(state, relation, alive, old, epoch)

    def _starting_with(
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

    # --- queries of Spark's -------------------------------------------------------------------------------------

    def _recomputed(
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
        return self._replaced(state, relation, new, old, epoch, whole=keys is None and only is None)

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

    def _replaced(
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
