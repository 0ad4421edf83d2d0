"""From a table's delta to those of all views above it, written in one Spark job for each table.

A view that is being filled takes part with what its positions cover: a filter in front of its plan drops the rest.
What it drops is not lost: it will be read with its chunk, or, if the chunk was read before, comes as a *late delta*
when the chunk lands (docs/design/backfill.md).
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Row, SparkSession

from headrace.backfill.filters import PositionColumns
from headrace.backfill.job import Job
from headrace.catalog import Catalog
from headrace.engine.deltas import LateDelta, Source, TableDelta, Work, Written
from headrace.engine.direct import DirectDeriver
from headrace.engine.pieces import PieceRows
from headrace.engine.plans import plan_of
from headrace.engine.spark import translate_error
from headrace.engine.streams import with_tag
from headrace.errors import DataError, HeadraceError
from headrace.operators.linear import WideQuery, branches
from headrace.state.files import Files
from headrace.state.layout import Layout
from headrace.state.prepared import PreparedJobs, RowsOfInput
from headrace.state.runs import EPOCH, VNODE, WEIGHT
from headrace.state.scan import key_order, read_files
from headrace.state.vnode import VNODES
from headrace.state.writer import EPOCH_INPUT, REPORT_SCHEMA, Output, WriteDelta, written_files
from headrace.types import quote_spark


@dataclass(frozen=True, kw_only=True)
class _Report:
    """A query that writes files and says which: what it does, apart from what it reads."""

    source: Source
    wide: WideQuery
    wanted: tuple[str, ...]
    body: WriteDelta
    order: tuple[Column, ...] = ()

    @property
    def key(self) -> tuple:
        levels = tuple(tuple(level) for level in self.wide.levels)
        return (self.source.schema, levels, self.wanted, pickle.dumps(self.body))

    def over(self, rows: DataFrame) -> DataFrame:
        late = self.source.late is not None
        internal = (VNODE, WEIGHT, EPOCH) if late else (VNODE, WEIGHT)
        frame = self.wide.apply(rows, self.wanted, internal, carried=self.source.position_names)
        if self.order:
            frame = frame.sortWithinPartitions(*self.order)
        return frame.mapInArrow(self.body, REPORT_SCHEMA).selectExpr("*", f"{str(late).lower()} AS late")


class Deriver:
    def __init__(self, spark: SparkSession, files: Files, pool: Executor, *, vectorized: Callable[[], bool]):
        self._spark, self._files, self._pool = spark, files, pool
        self._direct = DirectDeriver(spark, files, vectorized)

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
        work = Work(catalog=catalog, epoch=epoch, jobs=jobs or {})
        sources = [source for delta in deltas if (source := self._source(work, delta)) is not None]
        sources += [Source(relation=each.upstream, views=(each.view,), late=each) for each in late if each.pieces]
        written.bulk.update(view.id for source in sources if not source.small for view in source.views)
        self._run(work, sources, written)
        return written

    def _source(self, work: Work, delta: TableDelta) -> Source | None:
        views = work.views_above(delta.relation)
        positions = work.positions([delta.relation, *views])
        if delta.rows is not None:
            if delta.rows.num_rows == 0:
                return None
            return Source(
                relation=delta.relation,
                views=views,
                rows=delta.rows,
                whole=delta.whole,
                settled=delta.settled,
                positions=positions,
            )
        if not views or not delta.files:
            return None
        frame = read_files(self._spark, self._files.root, delta.files, Layout.of(delta.relation).spark_schema)
        for each in positions.values():
            by_vnode = each.by_vnode.append_column(VNODE, pa.array(range(VNODES), pa.int16()))
            table = self._spark.createDataFrame(by_vnode, schema=f"{each.ddl}, {VNODE} SMALLINT")
            frame = frame.join(table.hint("broadcast"), VNODE)
        return Source(relation=delta.relation, views=views, frame=frame, positions=positions)

    def _run(self, work: Work, sources: Sequence[Source], written: Written) -> None:
        left = [source for source in sources if not self._direct.write(work, source, written)]
        reports = [report for source in left for report in self._reports(work, source)]
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

    def _collected(self, work: Work, reports: Sequence[_Report]) -> list[Row]:
        """Runs all of them: each small one as a prepared job, side by side, and what is left as one more.

        One job for all would have to be planned again for every combination of tables that change together.
        """
        jobs = [functools.partial(self._prepared, work, report) for report in reports if report.source.repeatable]
        if rest := [report for report in reports if not report.source.repeatable]:
            jobs.append(functools.partial(self._planned, work, rest))
        if len(jobs) == 1:
            return jobs[0]()
        return [line for lines in self._pool.map(with_tag(self._spark, lambda job: job()), jobs) for line in lines]

    def _prepared(self, work: Work, report: _Report) -> list[Row]:
        source = report.source
        prepared = PreparedJobs.of(self._spark)
        frame = prepared.frame(("epoch", report.key), lambda: report.over(self._leaf(source)))
        with prepared.given({EPOCH_INPUT: str(work.epoch).encode(), "0": source.packed}):
            return frame.collect()

    def _planned(self, work: Work, reports: Sequence[_Report]) -> list[Row]:
        frames = [report.over(self._frame(report.source)) for report in reports]
        with PreparedJobs.of(self._spark).given({EPOCH_INPUT: str(work.epoch).encode()}):
            return functools.reduce(DataFrame.unionAll, frames).collect()

    def _leaf(self, source: Source) -> DataFrame:
        body = RowsOfInput() if source.late is None else PieceRows(files=self._files, layout=source.layout)
        return PreparedJobs.of(self._spark).leaf(0, body, source.schema)

    def _frame(self, source: Source) -> DataFrame:
        if source.frame is not None:
            return source.frame
        return self._spark.createDataFrame(source.with_positions, schema=source.schema).coalesce(1)

    def _reports(self, work: Work, source: Source) -> list[_Report]:
        wide, held = self._evaluated(work, source)
        relations = source.views if source.rows is None else [source.relation, *source.views]
        outputs = [
            Output(
                layout=Layout.of(relation),
                branches=tuple(held[relation.id]),
                consolidate=source.whole or relation is not source.relation,
            )
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
        source: Source,
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

    def _evaluated(self, work: Work, source: Source) -> tuple[WideQuery, dict[int, list[str]]]:
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

    def _replicas(self, work: Work, source: Source, wide: WideQuery, held: dict[int, list[str]]) -> list[Output]:
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

    def _blamed(self, work: Work, sources: Sequence[Source], error: Exception) -> HeadraceError:
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
                    owner = work.catalog.owner(view)
                    blamed = DataError(
                        f'{found.message}, in {owner.kind} "{owner.name}"',
                        hint="nothing of the statement was applied; change the row, or drop the view",
                        sqlstate=found.sqlstate,
                    )
                    blamed.view_id = view.id
                    return blamed
        return reason

    def _evaluate(self, source: Source, wide: WideQuery, wanted: list[str]) -> None:
        """For nothing but its errors."""
        with PreparedJobs.of(self._spark).given({} if source.late is None else {"0": source.packed}):
            frame = self._frame(source) if source.late is None else self._leaf(source)
            rows = wide.apply(frame, wanted, carried=source.position_names)
            rows.write.format("noop").mode("overwrite").save()


def _covered(wide: WideQuery, positions: PositionColumns | None, found: list[str]) -> list[str]:
    """What of an upstream's branches a view that is being filled has got as far as."""
    if positions is None:
        return found
    return [
        wide.add(branch, f"CASE WHEN {branch} IS NOT NULL AND {positions.covered(branch)} THEN {branch} END")
        for branch in found
    ]
