"""From a table's delta to those of all views above it, written in one Spark job.

A view that is being filled takes part with what its positions cover: a filter in front of its plan drops the rest.
What it drops is not lost: it will be read with its chunk, or, if the chunk was read before, comes as a *late delta*
when the chunk lands (docs/design/backfill.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from headrace.backfill.filters import covered
from headrace.backfill.job import Job
from headrace.catalog import INDEX, MATERIALIZED_VIEW, Catalog, Relation
from headrace.engine.plans import plan_of
from headrace.engine.spark import translate_error
from headrace.errors import DataError, HeadraceError
from headrace.operators.linear import WideQuery, branches
from headrace.plan.nodes import Node, Scan
from headrace.state.files import Files
from headrace.state.layout import Layout
from headrace.state.predicates import Bounds, range_predicate
from headrace.state.runs import EPOCH, VNODE, WEIGHT, RunFile
from headrace.state.scan import key_order, read_files
from headrace.state.writer import REPORT_SCHEMA, Output, WriteDelta, written_files
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
    bounds: tuple[Bounds, ...]
    files: tuple[RunFile, ...]


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

    frame: DataFrame
    relation: Relation
    views: tuple[Relation, ...]
    write_relation: bool
    small: bool
    late: bool = False


class Deriver:
    def __init__(self, spark: SparkSession, files: Files):
        self._spark, self._files = spark, files

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
        sources += [self._late_source(each) for each in late if each.files]
        written.bulk.update(view.id for source in sources if not source.small for view in source.views)
        self._run(work, sources, written)
        return written

    def _source(self, work: _Work, delta: TableDelta) -> _Source | None:
        views = work.views_above(delta.relation)
        layout = Layout.of(delta.relation)
        if delta.rows is not None:
            if delta.rows.num_rows == 0:
                return None
            frame = self._spark.createDataFrame(delta.rows, schema=layout.delta_schema).coalesce(1)
            return _Source(frame=frame, relation=delta.relation, views=views, write_relation=True, small=True)
        if not views or not delta.files:
            return None
        paths = [f"{self._files.root}/{file.path}" for file in delta.files]
        frame = read_files(self._spark, paths, layout.spark_schema)
        return _Source(frame=frame, relation=delta.relation, views=views, write_relation=False, small=False)

    def _late_source(self, late: LateDelta) -> _Source:
        layout = Layout.of(late.upstream)
        paths = [f"{self._files.root}/{file.path}" for file in late.files]
        within = " OR ".join(f"({range_predicate(layout, each)})" for each in late.bounds)
        frame = read_files(self._spark, paths, layout.spark_schema).where(within)
        return _Source(
            frame=frame.coalesce(1),
            relation=late.upstream,
            views=(late.view,),
            write_relation=False,
            small=True,
            late=True,
        )

    def _run(self, work: _Work, sources: Sequence[_Source], written: Written) -> None:
        reports = [
            (source, report) for source in sources for report in self._reports(work, source) if report is not None
        ]
        if not reports:
            return
        combined = None
        for source, report in reports:
            report = report.selectExpr("*", f"{str(source.late).lower()} AS late")
            combined = report if combined is None else combined.unionAll(report)
        try:
            lines = combined.collect()
        except Exception as error:
            raise self._blamed(work, sources, error) from error
        for of_late, into in ((True, written.late), (False, written.files)):
            for relation_id, files in written_files(line for line in lines if line.late == of_late).items():
                target, key = (into, relation_id) if relation_id > 0 else (written.replicas, -relation_id)
                target.setdefault(key, []).extend(files)

    def _reports(self, work: _Work, source: _Source) -> list[DataFrame]:
        wide, held = self._evaluated(work, source)
        relations = [source.relation, *source.views] if source.write_relation else source.views
        outputs = [
            Output(layout=Layout.of(relation), branches=tuple(held[relation.id]))
            for relation in relations
            if held[relation.id]
        ]
        if source.small and not source.late:
            outputs += self._replicas(work, source, wide, held)
        if not outputs:
            return []
        # What has an order of its own cannot be streamed in the input's: Spark sorts it, a partition at a time.
        apart = [output for output in outputs if not source.small and output.layout.relation_id in work.rehashed]
        together = [output for output in outputs if output not in apart]
        reports = [self._report(work, source, wide, together)] if together else []
        for output in apart:
            for branch in output.branches:
                alone = Output(layout=output.layout, branches=(branch,))
                reports.append(self._report(work, source, wide, [alone], key_order(output.layout, branch)))
        return reports

    def _report(
        self, work: _Work, source: _Source, wide: WideQuery, outputs: Sequence[Output], order: Sequence[Column] = ()
    ) -> DataFrame:
        wanted = dict.fromkeys(branch for output in outputs for branch in output.branches)
        body = WriteDelta(
            files=self._files,
            epoch=work.epoch - 1 if source.late else work.epoch,
            outputs=tuple(outputs),
            sort=source.small,
            net=source.late,
        )
        frame = wide.apply(source.frame, wanted, (VNODE, WEIGHT, EPOCH) if source.late else (VNODE, WEIGHT))
        if order:
            frame = frame.sortWithinPartitions(*order)
        return frame.mapInArrow(body, REPORT_SCHEMA)

    def _evaluated(self, work: _Work, source: _Source) -> tuple[WideQuery, dict[int, list[str]]]:
        """The wide query of all views over a source, and the struct columns of each relation in it."""
        wide = WideQuery(columns=Layout.of(source.relation).names)
        held: dict[int, list[str]] = {source.relation.id: ["n0"]}
        for view in source.views:
            inputs = held
            if (job := work.jobs.get(view.id)) is not None and not source.late:
                inputs = {id: self._covered(work, wide, job, id, held.get(id, [])) for id in job.inputs}
            held[view.id] = branches(plan_of(view, work.catalog), inputs, wide, Layout.of(view).types)
            if view.id in work.rehashed:
                held[view.id] = [wide.with_vnode(branch, Layout.of(view)) for branch in held[view.id]]
        return wide, held

    def _covered(self, work: _Work, wide: WideQuery, job: Job, upstream_id: int, found: list[str]) -> list[str]:
        positions = job.inputs[upstream_id].positions
        if positions.done:
            return found
        layout = Layout.of(work.catalog.relations[upstream_id])
        return [
            wide.add(
                branch,
                f"CASE WHEN {branch} IS NOT NULL AND {covered(layout, positions, branch)} THEN {branch} END",
            )
            for branch in found
        ]

    def _replicas(self, work: _Work, source: _Source, wide: WideQuery, held: dict[int, list[str]]) -> list[Output]:
        """Copies of the deltas that views being filled will still need: see :mod:`headrace.engine.replica`."""
        outputs = []
        for upstream_id in work.replicated:
            if not held.get(upstream_id):
                continue
            upstream = work.catalog.relations[upstream_id]
            layout = Layout.of(upstream)
            needed = work.columns_needed(upstream_id)
            fields = ", ".join(
                f"{{0}}.{quote_spark(name)} AS {quote_spark(name)}"
                if name in needed
                else f"CAST(NULL AS {kind.spark}) AS {quote_spark(name)}"
                for name, kind in layout.columns
            )
            copies = []
            for branch in held[upstream_id]:
                unread = work.unread(layout, upstream_id, branch)
                copies.append(
                    wide.add(
                        branch,
                        f"CASE WHEN {branch} IS NOT NULL AND {unread} THEN struct({fields.format(branch)}) END",
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
                    wide.apply(source.frame, held[view.id]).write.format("noop").mode("overwrite").save()
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

    def unread(self, layout: Layout, upstream_id: int, branch: str) -> str:
        """Whether a row lies beyond the position of some arrangement."""
        tests = {
            f"NOT {covered(layout, job.inputs[upstream_id].positions, branch)}"
            for job in self._arrangements
            if upstream_id in job.inputs
        }
        return f"({' OR '.join(sorted(tests))})"


def columns_read(plan: Node, upstream_id: int) -> set[str]:
    """What a plan reads of a relation."""
    return {
        name
        for node in plan.walk()
        if isinstance(node, Scan) and node.relation_id == upstream_id
        for name in node.columns
    }
