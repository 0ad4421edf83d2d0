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
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.catalog import Relation
from headrace.engine import moments, stored_rows
from headrace.engine.changed import ChangedRows, Touched, are_few
from headrace.engine.choice import Choices
from headrace.engine.deltas import TableDelta, Written
from headrace.engine.derive import Deriver
from headrace.engine.evaluate import Pieces, quoted
from headrace.engine.filling import jobs_of, new_runs
from headrace.engine.firsts import ChangedFirstRows
from headrace.engine.groups import Averages, ChangedGroups, new_expressions, total_expressions
from headrace.engine.held import HeldClocks
from headrace.engine.mapped import MappedChanges
from headrace.engine.moments import Moments, there_now, with_clock
from headrace.engine.plans import columns_read_by
from headrace.engine.relations import RelationFrames
from headrace.engine.spark import translate_error
from headrace.engine.stored_rows import StoredRows
from headrace.engine.touched import difference, each_once, of_keys, of_vnodes, runs_then, unfinished
from headrace.engine.watermarks import Watermarks
from headrace.errors import DataError, HeadraceError
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.manifest import Manifest
from headrace.state.runs import RunFile
from headrace.state.storage import Storage
from headrace.state.vnode import VNODES
from headrace.types import quote_spark


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
        self._pieces = Pieces(spark, storage, frames, vectorized)
        self._moments = Moments(storage, indexes)
        self._watermarks = Watermarks(storage)
        self._held = HeldClocks()
        self._changed = ChangedRows(spark, storage, frames)
        self._stored = StoredRows(spark, storage, indexes, frames, self._pieces, self._changed)
        self._mapped = MappedChanges(frames, self._pieces, self._changed, self._stored)
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
        jobs, choices = jobs_of(state), Choices(stored_rows.FEW_KEYS, missed)
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
                work = functools.partial(self._stored.recomputed, state, relation, None, epoch)
            elif whole and self._mapped.maps(relation, touched):
                work = functools.partial(self._mapped.delta, state, relation, touched, epoch, work)
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
                return self._stored.recomputed(state, relation, keys, epoch)
        if relation.operator.recomputes:
            return self._stored.recomputed(state, relation, None, epoch)
        if not relation.operator.key:
            found = self._from_first(state, relation, touched)
            return (
                self._stored.recomputed(state, relation, None, epoch) if found is None else difference(relation, *found)
            )
        if any(touched.get(id) for id in relation.operator.whole):
            return self._stored.recomputed(state, relation, None, epoch)
        keys, moved = self._changed.few_keys(state, relation, touched, stored_rows.FEW_KEYS), None
        if relation.operator.clock is not None:
            then, now = (moments.time_of(offsets, relation) for offsets in (before, state.offsets))
            moved = self._moments.crossing(state, relation, then, now, most=stored_rows.LOOKUP_ROWS)
            if moved is None:
                return self._stored.recomputed(state, relation, None, epoch, only=unfinished(state, relation, before))
            if keys is None or moved.num_rows > stored_rows.FEW_KEYS:
                every = self._changed.all_keys(state, relation, touched, built, moved)
                return self._stored.recomputed(state, relation, every, epoch)
            keys = each_once(relation, pa.concat_tables([keys, moved]))
            if keys.num_rows == 0:
                return None
        if keys is not None and built < VNODES:
            keys = of_vnodes(relation, keys, built)
        changes = {} if behind or built < VNODES else touched
        found = None if keys is None else self._looked_up(state, relation, keys, changes)
        if found is None:
            return self._stored.recomputed(
                state, relation, self._changed.all_keys(state, relation, touched, built, moved), epoch
            )
        new, old = found
        return difference(relation, new, old)

    # --- by key -------------------------------------------------------------------------------------------------

    def _looked_up(
        self, state: Manifest, relation: Relation, keys: pa.Table, changes: Touched
    ) -> tuple[pa.Table, pa.Table] | None:
        """The rows that these keys have now, and those that the relation holds; None if that is much to read.

        ``changes``: what the epoch wrote to the inputs, if that is all that the relation does not know of.
        """
        layout = Layout.of(relation)
        old = self._stored.starting_with(state, layout, keys)
        if old is None:
            return None
        old = old.select(layout.names)
        rows: dict[int, pa.Table] = {}
        first = relation.operator.first or (0,) * len(relation.operator.inputs)
        for (id, columns), count in zip(relation.operator.inputs, first, strict=True):
            source = Layout.of(state.catalog.relations[id])
            if id in relation.operator.whole:
                if sum(run.rows for run in state.runs.get(id, ())) > stored_rows.SMALL_ROWS:
                    return None
                rows[id] = self._changed.all_rows(source, state.runs.get(id, ())).select(source.names)
                continue
            wanted = pa.schema([source.row_schema.field(name) for name in columns])
            theirs = keys
            if id in relation.operator.as_of_now:  # by the first columns, which several keys may share
                theirs = each_once(relation, keys.select(keys.column_names[: len(columns)]))
            theirs = theirs.rename_columns(list(columns)).cast(wanted)
            if count and relation.operator.kept and changes and are_few(changes, 4 * stored_rows.FEW_KEYS):
                found = self._first_of_known(state, relation, source, old, changes)
            elif count:
                found = self._stored.first_rows(state, source, theirs, count)
            else:
                needed = columns_read_by(relation, state.catalog.relations[id], state.catalog)
                found = self._stored.starting_with(state, source, theirs, columns=needed)
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
        again = self._stored.first_rows(state, source, doubted, relation.operator.first[0])
        return None if again is None else known.rows(again.select(source.names))

    def _from_first(self, state: Manifest, relation: Relation, touched: Touched) -> tuple[pa.Table, pa.Table] | None:
        """The same without a key, of the first rows of each input; None if that is much to read."""
        layout, rows, beyond = Layout.of(relation), {}, True
        for (id, _), count in zip(relation.operator.inputs, relation.operator.first, strict=True):
            source = Layout.of(state.catalog.relations[id])
            found = self._stored.first_rows(state, source, None, count)
            if found is None:
                return None
            rows[id] = found.select(source.names)
            last = source.bound(found, found.num_rows - 1) if found.num_rows == count else None
            beyond = beyond and all(last is not None and file.low > last for file in touched.get(id, ()))
        old = self._changed.all_rows(layout, state.runs.get(relation.id, ())).select(layout.names)
        # What comes after the first rows does not change them.
        return (old, old) if beyond else (self._pieces.computed(state, relation, rows), old)

    # --- what adds up -------------------------------------------------------------------------------------------

    def _added(
        self, state: Manifest, relation: Relation, touched: Touched, built: int
    ) -> tuple[pa.Table, pa.Table] | None:
        """The new rows of the touched groups, and the old ones; None if those are many."""
        small = are_few(touched, 4 * stored_rows.FEW_KEYS)
        if not small and sum(run.rows for run in state.runs.get(relation.id, ())) > stored_rows.FEW_KEYS:
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
            changes.append(frame.limit(stored_rows.FEW_KEYS + 1).toArrow().cast(Layout.of(relation).row_schema))
        if max(each.num_rows for each in changes) > stored_rows.FEW_KEYS:
            return None
        if built < VNODES:
            changes = [of_vnodes(relation, each, built) for each in changes]
        layout = Layout.of(relation)
        keys = pa.concat_tables([each.select(list(relation.operator.key)) for each in changes])
        if relation.operator.key:
            old = self._stored.starting_with(state, layout, keys)
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
        rows = self._stored.starting_with(
            state, source, keys.rename_columns(list(columns)).cast(wanted), columns=needed
        )
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
            return self._stored.recomputed(state, relation, keys, epoch)
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
        return self._stored.replaced(state, relation, alive, old, epoch)
