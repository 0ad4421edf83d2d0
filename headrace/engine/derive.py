"""From a table's delta to those of all views above it, written in one Spark job for each table.

A view that is being filled takes part with what its positions cover: a filter in front of its plan drops the rest.
What it drops is not lost: it will be read with its chunk, or, if the chunk was read before, comes as a *late delta*
when the chunk lands (docs/design/backfill.md).
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession

from headrace.backfill.filters import PositionColumns
from headrace.backfill.job import Job
from headrace.backfill.positions import Chunk
from headrace.catalog import INDEX, MATERIALIZED_VIEW, Catalog, Relation
from headrace.engine.pieces import Piece, PieceRows, packed_pieces
from headrace.engine.plans import plan_of
from headrace.engine.spark import translate_error
from headrace.errors import DataError, HeadraceError
from headrace.operators.linear import WideQuery, branches
from headrace.plan.nodes import Node, Scan
from headrace.state.files import Files, LocalFiles
from headrace.state.layout import Layout
from headrace.state.prepared import INPUT_BYTES, PreparedJobs, RowsOfInput, in_one_process, packed_rows
from headrace.state.runs import EPOCH, VNODE, WEIGHT, RunFile
from headrace.state.scan import key_order, read_files
from headrace.state.vnode import VNODES
from headrace.state.writer import EPOCH_INPUT, REPORT_SCHEMA, Output, WriteDelta, written_files
from headrace.types import quote_spark


@dataclass(frozen=True, kw_only=True)
class TableDelta:
    """What one epoch did to a table: rows on the driver, or files that are already written."""

    relation: Relation
    rows: pa.Table | None = None
    """The table's columns, vnode and weight."""
    files: tuple[RunFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LateDelta:
    """What earlier epochs did to the rows of a chunk since it was read."""

    view: Relation
    upstream: Relation
    chunk: Chunk
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, kw_only=True)
class Written:
    files: dict[int, list[RunFile]] = field(default_factory=dict)
    """By relation."""
    late: dict[int, list[RunFile]] = field(default_factory=dict)
    """By view: what its chunks missed, as of the epoch before."""
    replicas: dict[int, list[RunFile]] = field(default_factory=dict)
    """By upstream: copies for arrangement backfills."""
    bulk: set[int] = field(default_factory=set)
    """The relations of which a part was too large to copy."""


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Rows with vnode and weight, and which relations to write from them."""

    relation: Relation
    views: tuple[Relation, ...]
    rows: pa.Table | None = None
    """Of a small one, which came through the driver."""
    late: LateDelta | None = None
    frame: DataFrame | None = None
    """Of a large one."""
    positions: Mapping[tuple[int, int], PositionColumns] = field(default_factory=dict)
    """By view and upstream: what the delta filter looks at."""

    @property
    def small(self) -> bool:
        return self.frame is None

    @cached_property
    def layout(self) -> Layout:
        return Layout.of(self.relation)

    @property
    def schema(self) -> str:
        if self.late is not None:
            return self.layout.spark_schema
        return ", ".join([self.layout.delta_schema, *(each.ddl for each in self.positions.values())])

    @property
    def position_names(self) -> list[str]:
        return [name for each in self.positions.values() for name in each.names]

    @cached_property
    def packed(self) -> bytes | None:
        """As the input of a prepared job."""
        if self.late is not None:
            return packed_pieces(self.late.pieces, self.late.chunk)
        return None if self.rows is None else packed_rows(self.with_positions)

    @property
    def repeatable(self) -> bool:
        """Whether a prepared job can take it."""
        return self.packed is not None and (self.late is not None or len(self.packed) <= INPUT_BYTES)

    @property
    def with_positions(self) -> pa.Table:
        rows = self.rows
        for each in self.positions.values():
            rows = each.added_to(rows)
        return rows


@dataclass(frozen=True, kw_only=True)
class _Report:
    """A query that writes files and says which: what it does, apart from what it reads."""

    source: _Source
    wide: WideQuery
    wanted: tuple[str, ...]
    body: WriteDelta
    order: tuple[Column, ...] = ()

    @property
    def key(self) -> tuple:
        levels = tuple(tuple(level) for level in self.wide.levels)
        return (self.source.schema, levels, self.wanted, pickle.dumps(self.body))

    @property
    def plain(self) -> bool:
        """Whether what is written is the table's own rows and nothing else."""
        return self.source.rows is not None and self.wanted == ("n0",) and len(self.body.outputs) == 1

    def over(self, rows: DataFrame) -> DataFrame:
        late = self.source.late is not None
        internal = (VNODE, WEIGHT, EPOCH) if late else (VNODE, WEIGHT)
        frame = self.wide.apply(rows, self.wanted, internal, carried=self.source.position_names)
        if self.order:
            frame = frame.sortWithinPartitions(*self.order)
        return frame.mapInArrow(self.body, REPORT_SCHEMA).selectExpr("*", f"{str(late).lower()} AS late")


class Deriver:
    def __init__(self, spark: SparkSession, files: Files, pool: Executor):
        self._spark, self._files, self._pool = spark, files, pool
        self._here = isinstance(files, LocalFiles) and in_one_process(spark.sparkContext.master)
        """Whether the driver may write what a task would."""

    def write(
        self,
        catalog: Catalog,
        deltas: Sequence[TableDelta],
        *,
        epoch: int,
        jobs: Mapping[int, Job] | None = None,
        late: Sequence[LateDelta] = (),
    ) -> Written:
        """Writes the deltas and those of every view above them. ``jobs``: the views that are being filled."""
        files = {delta.relation.id: list(delta.files) for delta in deltas if delta.rows is None}
        written = Written(files=files, bulk=set(files))
        work = _Work(catalog=catalog, epoch=epoch, jobs=jobs or {})
        sources = [source for delta in deltas if (source := self._source(work, delta)) is not None]
        sources += [_Source(relation=each.upstream, views=(each.view,), late=each) for each in late if each.pieces]
        written.bulk.update(view.id for source in sources if not source.small for view in source.views)
        self._run(work, sources, written)
        return written

    def _source(self, work: _Work, delta: TableDelta) -> _Source | None:
        views = work.views_above(delta.relation)
        positions = work.positions([delta.relation, *views])
        if delta.rows is not None:
            if delta.rows.num_rows == 0:
                return None
            return _Source(relation=delta.relation, views=views, rows=delta.rows, positions=positions)
        if not views or not delta.files:
            return None
        paths = [f"{self._files.root}/{file.path}" for file in delta.files]
        frame = read_files(self._spark, paths, Layout.of(delta.relation).spark_schema)
        for each in positions.values():
            by_vnode = each.by_vnode.append_column(VNODE, pa.array(range(VNODES), pa.int16()))
            table = self._spark.createDataFrame(by_vnode, schema=f"{each.ddl}, {VNODE} SMALLINT")
            frame = frame.join(table.hint("broadcast"), VNODE)
        return _Source(relation=delta.relation, views=views, frame=frame, positions=positions)

    def _run(self, work: _Work, sources: Sequence[_Source], written: Written) -> None:
        reports = [report for source in sources for report in self._reports(work, source)]
        if not reports:
            return
        try:
            lines = self._collected(work, reports)
        except Exception as error:
            raise self._blamed(work, sources, error) from error
        for of_late, into in ((True, written.late), (False, written.files)):
            for relation_id, files in written_files(line for line in lines if line["late"] == of_late).items():
                target, key = (into, relation_id) if relation_id > 0 else (written.replicas, -relation_id)
                target.setdefault(key, []).extend(files)

    def _collected(self, work: _Work, reports: Sequence[_Report]) -> list[Row]:
        """Runs all of them: each small one as a prepared job, side by side, and what is left as one more.

        One job for all would have to be planned again for every combination of tables that change together.
        """
        jobs, rest = [], []
        for report in reports:
            # Packing a few rows takes longer than writing them, so it is not asked how large they would be packed.
            if self._here and report.plain and report.source.rows.nbytes <= INPUT_BYTES:
                jobs.append(functools.partial(self._written_here, work, report))
            elif report.source.repeatable:
                jobs.append(functools.partial(self._prepared, work, report))
            else:
                rest.append(report)
        if rest:
            jobs.append(functools.partial(self._planned, work, rest))
        if len(jobs) == 1:
            return jobs[0]()
        return [line for lines in self._pool.map(lambda job: job(), jobs) for line in lines]

    def _prepared(self, work: _Work, report: _Report) -> list[Row] | list[dict]:
        if self._here and report.plain:
            return self._written_here(work, report)
        source = report.source
        prepared = PreparedJobs.of(self._spark)
        frame = prepared.frame(("epoch", report.key), lambda: report.over(self._leaf(source)))
        with prepared.given({EPOCH_INPUT: str(work.epoch).encode(), "0": source.packed}):
            return frame.collect()

    @staticmethod
    def _written_here(work: _Work, report: _Report) -> list[dict]:
        """Without Spark, for which there is nothing to compute: a job costs more than writing the rows."""
        rows = report.source.rows.combine_chunks()
        columns = [rows[name].chunk(0) for name in report.wide.columns]
        wide = pa.table(
            {
                VNODE: rows[VNODE],
                WEIGHT: rows[WEIGHT],
                report.wanted[0]: pa.StructArray.from_arrays(columns, names=report.wide.columns),
            }
        )
        body = dataclasses.replace(report.body, epoch=work.epoch)
        return [{**line, "late": False} for batch in body.write(iter(wide.to_batches())) for line in batch.to_pylist()]

    def _planned(self, work: _Work, reports: Sequence[_Report]) -> list[Row]:
        frames = [report.over(self._frame(report.source)) for report in reports]
        with PreparedJobs.of(self._spark).given({EPOCH_INPUT: str(work.epoch).encode()}):
            return functools.reduce(DataFrame.unionAll, frames).collect()

    def _leaf(self, source: _Source) -> DataFrame:
        body = RowsOfInput() if source.late is None else PieceRows(files=self._files, layout=source.layout)
        return PreparedJobs.of(self._spark).leaf(0, body, source.schema)

    def _frame(self, source: _Source) -> DataFrame:
        if source.frame is not None:
            return source.frame
        return self._spark.createDataFrame(source.with_positions, schema=source.schema).coalesce(1)

    def _reports(self, work: _Work, source: _Source) -> list[_Report]:
        wide, held = self._evaluated(work, source)
        relations = source.views if source.rows is None else [source.relation, *source.views]
        outputs = [
            Output(layout=Layout.of(relation), branches=tuple(held[relation.id]))
            for relation in relations
            if held[relation.id]
        ]
        if source.rows is not None:
            outputs += self._replicas(work, source, wide, held)
        # What has an order of its own cannot be streamed in the input's: Spark sorts it, a partition at a time.
        apart = [output for output in outputs if not source.small and output.layout.relation_id in work.rehashed]
        together = [output for output in outputs if output not in apart]
        reports = [self._report(source, wide, together)] if together else []
        for output in apart:
            for branch in output.branches:
                alone = Output(layout=output.layout, branches=(branch,))
                order = tuple(key_order(output.layout, branch))
                reports.append(self._report(source, wide, [alone], order))
        return reports

    def _report(
        self,
        source: _Source,
        wide: WideQuery,
        outputs: Sequence[Output],
        order: tuple[Column, ...] = (),
    ) -> _Report:
        body = WriteDelta(
            files=self._files,
            outputs=tuple(outputs),
            sort=source.small,
            net=source.late is not None,
        )
        wanted = dict.fromkeys(branch for output in outputs for branch in output.branches)
        return _Report(source=source, wide=wide, wanted=tuple(wanted), body=body, order=order)

    def _evaluated(self, work: _Work, source: _Source) -> tuple[WideQuery, dict[int, list[str]]]:
        """The wide query of all views over a source, and the struct columns of each relation in it."""
        wide = WideQuery(columns=Layout.of(source.relation).names)
        held: dict[int, list[str]] = {source.relation.id: ["n0"]}
        for view in source.views:
            inputs = held
            if (job := work.jobs.get(view.id)) is not None and source.late is None:
                inputs = {id: _covered(wide, source.positions.get((job.id, id)), held.get(id, [])) for id in job.inputs}
            held[view.id] = branches(plan_of(view, work.catalog), inputs, wide, Layout.of(view).types)
            if view.id in work.rehashed:
                held[view.id] = [wide.with_vnode(branch, Layout.of(view)) for branch in held[view.id]]
        return wide, held

    def _replicas(self, work: _Work, source: _Source, wide: WideQuery, held: dict[int, list[str]]) -> list[Output]:
        """Copies of the deltas that views being filled will still need: see :mod:`headrace.engine.replica`."""
        outputs = []
        for upstream_id in work.replicated:
            if not held.get(upstream_id):
                continue
            upstream = work.catalog.relations[upstream_id]
            layout = Layout.of(upstream)
            deciding = [source.positions[at] for at in work.replicating(upstream_id)]
            needed = work.columns_needed(upstream_id)
            fields = ", ".join(
                f"{{0}}.{quote_spark(name)} AS {quote_spark(name)}"
                if name in needed
                else f"CAST(NULL AS {kind.spark}) AS {quote_spark(name)}"
                for name, kind in layout.columns
            )
            copies = []
            for branch in held[upstream_id]:
                unread = " OR ".join(sorted(f"NOT {each.covered(branch)}" for each in deciding))
                copies.append(
                    wide.add(
                        branch,
                        f"CASE WHEN {branch} IS NOT NULL AND ({unread}) THEN struct({fields.format(branch)}) END",
                    )
                )
            outputs.append(Output(layout=layout.replica(), branches=tuple(copies)))
        return outputs

    def _blamed(self, work: _Work, sources: Sequence[_Source], error: Exception) -> HeadraceError:
        """The error with the name of the view whose expression failed: each is tried alone."""
        reason = translate_error(error, "writing an epoch")
        if not isinstance(reason, DataError):
            return reason
        for source in sources:
            wide, held = self._evaluated(work, source)
            for view in source.views:
                try:
                    self._evaluate(source, wide, held[view.id])
                except Exception as again:
                    found = translate_error(again, "writing an epoch")
                    if not isinstance(found, DataError):
                        return found  # something else went wrong this time; the view is not to blame
                    blamed = DataError(
                        f'{found.message}, in {view.kind} "{view.name}"',
                        hint="nothing of the statement was applied; change the row, or drop the view",
                        sqlstate=found.sqlstate,
                    )
                    blamed.view_id = view.id
                    return blamed
        return reason

    def _evaluate(self, source: _Source, wide: WideQuery, wanted: list[str]) -> None:
        """For nothing but its errors."""
        with PreparedJobs.of(self._spark).given({} if source.late is None else {"0": source.packed}):
            frame = self._frame(source) if source.late is None else self._leaf(source)
            rows = wide.apply(frame, wanted, carried=source.position_names)
            rows.write.format("noop").mode("overwrite").save()


@dataclass(frozen=True, kw_only=True)
class _Work:
    """What an epoch's writing has to know."""

    catalog: Catalog
    epoch: int
    jobs: Mapping[int, Job]

    def views_above(self, relation: Relation) -> tuple[Relation, ...]:
        dependents = self.catalog.in_order(each.id for each in self.catalog.dependents(relation.id))
        return tuple(
            each
            for each in dependents
            if each.kind in (MATERIALIZED_VIEW, INDEX) and not (each.id in self.jobs and self.jobs[each.id].error)
        )

    @property
    def rehashed(self) -> set[int]:
        """Relations whose rows have another vnode, and another order, than the rows they come from."""
        return {relation.id for relation in self.catalog.relations.values() if relation.kind == INDEX}

    @property
    def replicated(self) -> list[int]:
        """Upstreams of arrangement backfills that have something left to read."""
        found = dict.fromkeys(id for job in self._arrangements for id, each in job.inputs.items() if not each.done)
        return list(found)

    @property
    def _arrangements(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.strategy == "arrangement" and job.error is None]

    def columns_needed(self, upstream_id: int) -> set[str]:
        upstream = self.catalog.relations[upstream_id]
        needed = {key.name for key in upstream.pk} | set(upstream.distribution)
        for job in self._arrangements:
            if upstream_id in job.inputs:
                view = self.catalog.relations[job.id]
                needed |= columns_read(plan_of(view, self.catalog), upstream_id)
        return needed

    def replicating(self, upstream_id: int) -> list[tuple[int, int]]:
        """The arrangements that still read an upstream, each as view and upstream."""
        return [
            (job.id, upstream_id)
            for job in self._arrangements
            if upstream_id in job.inputs and not job.inputs[upstream_id].done
        ]

    def positions(self, relations: Sequence[Relation]) -> dict[tuple[int, int], PositionColumns]:
        """Of all inputs among these relations that are not done."""
        return {
            (job.id, relation.id): PositionColumns(
                name=f"_hr_at_{job.id}_{relation.id}",
                layout=Layout.of(relation),
                positions=job.inputs[relation.id].positions,
            )
            for job in self.jobs.values()
            if job.error is None
            for relation in relations
            if relation.id in job.inputs and not job.inputs[relation.id].done
        }


def _covered(wide: WideQuery, positions: PositionColumns | None, found: list[str]) -> list[str]:
    """What of an upstream's branches a view that is being filled has got as far as."""
    if positions is None:
        return found
    return [
        wide.add(branch, f"CASE WHEN {branch} IS NOT NULL AND {positions.covered(branch)} THEN {branch} END")
        for branch in found
    ]


def columns_read(plan: Node, upstream_id: int) -> set[str]:
    """What a plan reads of a relation."""
    return {
        name
        for node in plan.walk()
        if isinstance(node, Scan) and node.relation_id == upstream_id
        for name in node.columns
    }
