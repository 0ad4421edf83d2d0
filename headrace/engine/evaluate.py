"""Evaluating the piece of a query that a relation follows (:mod:`headrace.engine.keyed`): over a few rows, over all
that its inputs hold, or over a range of vnodes to build it.

Few rows are one task's, in a job that is planned once; or Arrow's, in the driver, where tasks run on its machine and
the piece is plain (:mod:`headrace.operators.vector_pieces`). To build a relation whose inputs are stored by its key, a
task for each range of vnodes reads the same range of all of them, so that nothing is shuffled.
"""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.catalog import Relation
from headrace.engine import moments
from headrace.engine.builds import in_parts
from headrace.engine.direct import is_here
from headrace.engine.filling import jobs_of
from headrace.engine.moments import spark_condition
from headrace.engine.plans import piece_of, vector_piece_of
from headrace.engine.relations import RelationFrames, with_logical_types
from headrace.engine.spark import key_session, sorted_session, spark_errors
from headrace.operators.vectors import FAULTS
from headrace.sql.translate import to_spark
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.native import write_sorted
from headrace.state.prepared import INPUT_BYTES, PreparedJobs, RowsOfInput, packed_rows
from headrace.state.runs import VNODE, RunFile
from headrace.state.scan import scan_vnodes, sorted_by_key
from headrace.state.storage import Storage
from headrace.state.vnode import spark_expression
from headrace.types import quote_spark

ONE_TASK_ROWS = 50_000
"""Stored rows of all inputs up to which a query over the whole of them is one task's."""

ARROW_ROWS = 1 << 20
"""Rows up to which Arrow computes a piece in the driver: they are there, and Spark would have to be sent them."""

KEPT = 128
"""Planned pieces."""


class Pieces:
    def __init__(self, spark: SparkSession, storage: Storage, frames: RelationFrames, vectorized: Callable[[], bool]):
        self._spark, self._storage, self._frames = spark, storage, frames
        self._here, self._vectorized = is_here(spark, storage.files), vectorized
        self._session, self._sorted = key_session(spark), sorted_session(spark)
        self._planned: OrderedDict[tuple, DataFrame | None] = OrderedDict()
        self._numbers = itertools.count()

    def build(self, state: Manifest, relation: Relation, vnodes: range) -> list[RunFile]:
        """Its rows of some vnodes as of a state, written."""
        if relation.operator.passing or (relation.operator.key and not _stored_rows(state, relation)):
            return []  # of no rows nothing comes, but of an aggregate without groups
        layout = Layout.of(relation)
        job = jobs_of(state).get(relation.id)
        count = min(len(vnodes), self._spark.sparkContext.defaultParallelism if job is None else job.parallelism)
        if not layout.distribution or _stored_rows(state, relation) <= ONE_TASK_ROWS:
            count = 1
        if in_parts(relation, state.catalog):
            # A task for each range of vnodes reads the same range of the inputs: nothing is shuffled.
            parts = [self._rows_of_vnodes(state, relation, layout, each) for each in _cut(vnodes, count)]
            rows = functools.reduce(DataFrame.unionAll, parts)
        else:
            found = self.evaluated(state, relation, at_its_time(state, relation, self.inputs(state, relation)))
            rows = _stored(layout, found)
            # Sorted by vnode ranges, so that no two files share a key.
            rows = rows.coalesce(1) if count == 1 else rows.repartitionById(count, _range_of(vnodes, count))
            rows = sorted_by_key(rows, layout)
        with spark_errors(f'building {state.catalog.owner(relation).kind} "{state.catalog.owner(relation).name}"'):
            return write_sorted(rows, self._storage, layout)

    def _rows_of_vnodes(self, state: Manifest, relation: Relation, layout: Layout, vnodes: range) -> DataFrame:
        """Its rows of some vnodes, in order, as one partition."""
        frames = {}
        for id, _ in relation.operator.inputs:
            source, runs = state.catalog.relations[id], state.runs.get(id, ())
            rows = scan_vnodes(self._sorted, self._storage.uri(""), Layout.of(source), runs, vnodes)
            frames[id] = with_logical_types(source, rows)
        found = self.evaluated(state, relation, at_its_time(state, relation, frames), self._sorted)
        return sorted_by_key(_stored(layout, found), layout)

    def computed(self, state: Manifest, relation: Relation, rows: Mapping[int, pa.Table]) -> pa.Table:
        """The piece over a few rows, by one task. Of no rows nothing comes, but of an aggregate without groups."""
        layout, operator = Layout.of(relation), relation.operator
        if not any(table.num_rows for table in rows.values()) and operator.key:
            return layout.row_schema.empty_table()
        if (found := self._by_arrow(state, relation, rows)) is not None:
            return found
        filled = [id for id, _ in relation.operator.inputs if rows[id].num_rows]
        packed = {str(number): packed_rows(rows[id]) for number, id in enumerate(filled)}
        if sum(map(len, packed.values())) <= INPUT_BYTES:
            if (frame := self._prepared(state, relation, filled)) is not None:
                with PreparedJobs.of(self._session).given(packed):
                    return frame.toArrow().cast(layout.row_schema)
        frames = {
            id: self._session.createDataFrame(table, schema=Layout.of(state.catalog.relations[id]).row_ddl)
            for id, table in rows.items()
        }
        return self.evaluated(state, relation, frames, self._session).toArrow().cast(layout.row_schema)

    def is_plain(self, state: Manifest, relation: Relation) -> bool:
        """Whether the driver computes the piece itself, if rows are not too many."""
        return self._here and self._vectorized() and vector_piece_of(relation, state.catalog) is not None

    def _by_arrow(self, state: Manifest, relation: Relation, rows: Mapping[int, pa.Table]) -> pa.Table | None:
        """By the driver itself, where a task would run on its machine as well, and Arrow knows the answer."""
        if not self.is_plain(state, relation) or sum(each.num_rows for each in rows.values()) > ARROW_ROWS:
            return None
        plan = vector_piece_of(relation, state.catalog)
        layout = Layout.of(relation)
        try:
            return plan.evaluate(rows).select(layout.names).cast(layout.row_schema)
        except FAULTS:
            return None

    def _prepared(self, state: Manifest, relation: Relation, filled: Sequence[int]) -> DataFrame | None:
        """The piece over rows that come with the job, planned once; None if its plan holds results of a run.

        An input that is not ``filled`` is known to have no rows: a join that finds one side empty would not read the
        other to its end, and Spark ends a Python worker whose rows nobody reads.
        """
        inputs = [state.catalog.relations[id] for id, _ in relation.operator.inputs]
        key = (relation.maintained, relation.columns, tuple((each.name, each.columns) for each in inputs), *filled)
        if key not in self._planned:
            prepared = PreparedJobs.of(self._session)
            frames = {}
            for each in inputs:
                if each.id in filled:
                    frames[each.id] = prepared.leaf(filled.index(each.id), RowsOfInput(), Layout.of(each).row_ddl)
                else:
                    nothing = [
                        f"CAST(NULL AS {kind.spark}) AS {quote_spark(name)}" for name, kind in Layout.of(each).columns
                    ]
                    frames[each.id] = self._session.range(1).selectExpr(*nothing).where("false")
            frame = self.evaluated(state, relation, frames, self._session)
            plan = frame._jdf.queryExecution().executedPlan().toString()
            # An exchange keeps what it has shuffled, a subquery its result: the next run would find them there.
            self._planned[key] = None if "Exchange" in plan or "Subquery" in plan else frame
            while len(self._planned) > KEPT:
                self._planned.popitem(last=False)
        self._planned.move_to_end(key)
        return self._planned[key]

    # --- queries over the whole ----------------------------------------------------------------------------------

    def inputs(self, state: Manifest, relation: Relation) -> dict[int, DataFrame]:
        """All rows of each; few of them as one partition, because then nothing is shuffled."""
        frames = {id: self._frame(state, state.catalog.relations[id]) for id, _ in relation.operator.inputs}
        few = _stored_rows(state, relation) <= ONE_TASK_ROWS
        return {id: frame.coalesce(1) for id, frame in frames.items()} if few else frames

    def _frame(self, state: Manifest, relation: Relation) -> DataFrame:
        """All rows of a relation, which it may not store."""
        if relation.operator is None or not relation.operator.passing:
            return self._frames.frame(relation, state.runs.get(relation.id, ()))
        return self.evaluated(state, relation, self.inputs(state, relation))

    def evaluated(
        self,
        state: Manifest,
        relation: Relation,
        frames: Mapping[int, DataFrame],
        session: SparkSession | None = None,
    ) -> DataFrame:
        """The relation's columns, computed from its inputs."""
        session = session or self._spark
        names = {state.catalog.relations[id].name: f"_hr_piece_{next(self._numbers)}" for id in frames}
        try:
            for id, frame in frames.items():
                input = state.catalog.relations[id]
                with_logical_types(input, frame).createOrReplaceTempView(names[input.name])
            bound = piece_of(relation, state.catalog)
            found = session.sql(to_spark(bound.expression, table_names=names))
        finally:
            for name in names.values():
                session.catalog.dropTempView(name)
        columns = relation.columns
        return found.toDF(*(f"c{number}" for number, _ in enumerate(columns))).selectExpr(
            *(
                f"CAST(c{number} AS {column.type.spark}) AS {quote_spark(column.name)}"
                for number, column in enumerate(columns)
            )
        )


def at_its_time(state: Manifest, relation: Relation, frames: Mapping[int, DataFrame]) -> Mapping[int, DataFrame]:
    """Those of the inputs' rows that are there at the state's time: of others nothing is computed."""
    operator = relation.operator
    if operator is None or operator.clock is None:
        return frames
    condition = spark_condition(operator, moments.time_of(state.offsets, relation))
    return {id: frame.where(condition) for id, frame in frames.items()}


def _stored_rows(state: Manifest, relation: Relation) -> int:
    """Of the inputs."""
    return sum(run.rows for id in state.catalog.stored_inputs(relation.reads) for run in state.runs.get(id, ()))


def _stored(layout: Layout, rows: DataFrame) -> DataFrame:
    return rows.selectExpr(*quoted(layout), f"{spark_expression(layout.distribution)} AS {VNODE}")


def _cut(vnodes: range, count: int) -> list[range]:
    edges = [vnodes.start + len(vnodes) * number // count for number in range(count + 1)]
    return [range(first, last) for first, last in itertools.pairwise(edges)]


def _range_of(vnodes: range, count: int) -> Column:
    return F.expr(f"CAST(({VNODE} - {vnodes.start}) * {count} DIV {len(vnodes)} AS INT)")


def quoted(layout: Layout) -> list[str]:
    return [quote_spark(name) for name in layout.names]
