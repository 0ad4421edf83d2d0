"""From a table's delta to those of all views above it, written in one Spark job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog import MATERIALIZED_VIEW, Catalog, Relation
from headrace.engine.plans import plan_of
from headrace.engine.spark import translate_error
from headrace.errors import DataError, HeadraceError
from headrace.operators.linear import WideQuery, branches
from headrace.state.files import Files
from headrace.state.layout import Layout
from headrace.state.runs import RunFile
from headrace.state.scan import read_files
from headrace.state.writer import REPORT_SCHEMA, Output, WriteDelta, written_files


@dataclass(frozen=True, kw_only=True)
class TableDelta:
    """What one epoch did to a table: rows on the driver, or files that are already written."""

    relation: Relation
    rows: pa.Table | None = None
    """The table's columns, vnode and weight."""
    files: tuple[RunFile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Source:
    """Rows with vnode and weight, and which relations to write from them."""

    frame: DataFrame
    relation: Relation
    views: tuple[Relation, ...]
    write_relation: bool
    small: bool


class Deriver:
    def __init__(self, spark: SparkSession, files: Files):
        self._spark, self._files = spark, files

    def write(self, catalog: Catalog, deltas: Sequence[TableDelta], *, epoch: int) -> dict[int, list[RunFile]]:
        """Writes the deltas and those of every view above them; files by relation."""
        written = {delta.relation.id: list(delta.files) for delta in deltas if delta.rows is None}
        sources = [source for delta in deltas if (source := self._source(catalog, delta)) is not None]
        self._run(catalog, sources, epoch, written)
        return written

    def fill(
        self, catalog: Catalog, view: Relation, inputs: Sequence[tuple[Relation, DataFrame]], *, epoch: int
    ) -> list[RunFile]:
        """A new view's rows from the live rows (with vnode and weight) of the relations it stands on."""
        written: dict[int, list[RunFile]] = {}
        sources = [
            _Source(frame=frame, relation=relation, views=(view,), write_relation=False, small=False)
            for relation, frame in inputs
        ]
        self._run(catalog, sources, epoch, written)
        return written.get(view.id, [])

    def _source(self, catalog: Catalog, delta: TableDelta) -> _Source | None:
        views = tuple(
            each
            for each in catalog.in_order(d.id for d in catalog.dependents(delta.relation.id))
            if each.kind == MATERIALIZED_VIEW
        )
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

    def _run(self, catalog: Catalog, sources: Sequence[_Source], epoch: int, written: dict[int, list[RunFile]]) -> None:
        reports = [report for source in sources if (report := self._report(catalog, source, epoch)) is not None]
        if not reports:
            return
        combined = reports[0]
        for report in reports[1:]:
            combined = combined.unionAll(report)
        try:
            lines = combined.collect()
        except Exception as error:
            raise self._blamed(catalog, sources, error) from error
        for relation_id, files in written_files(lines).items():
            written.setdefault(relation_id, []).extend(files)

    def _report(self, catalog: Catalog, source: _Source, epoch: int) -> DataFrame | None:
        wide, held = self._evaluated(catalog, source)
        relations = [source.relation, *source.views] if source.write_relation else source.views
        outputs = tuple(
            Output(layout=Layout.of(relation), branches=tuple(held[relation.id]))
            for relation in relations
            if held[relation.id]
        )
        if not outputs:
            return None
        wanted = dict.fromkeys(branch for output in outputs for branch in output.branches)
        body = WriteDelta(files=self._files, epoch=epoch, outputs=outputs, sort=source.small)
        return wide.apply(source.frame, wanted).mapInArrow(body, REPORT_SCHEMA)

    def _evaluated(self, catalog: Catalog, source: _Source) -> tuple[WideQuery, dict[int, list[str]]]:
        """The wide query of all views over a source, and the struct columns of each relation in it."""
        wide = WideQuery(columns=Layout.of(source.relation).names)
        held: dict[int, list[str]] = {source.relation.id: ["n0"]}
        for view in source.views:
            held[view.id] = branches(plan_of(view, catalog), held, wide, Layout.of(view).types)
        return wide, held

    def _blamed(self, catalog: Catalog, sources: Sequence[_Source], error: Exception) -> HeadraceError:
        """The error with the name of the view whose expression failed: each is tried alone."""
        reason = translate_error(error, "writing an epoch")
        if not isinstance(reason, DataError):
            return reason
        for source in sources:
            wide, held = self._evaluated(catalog, source)
            for view in source.views:
                try:
                    wide.apply(source.frame, held[view.id]).write.format("noop").mode("overwrite").save()
                except Exception as again:
                    found = translate_error(again, "writing an epoch")
                    if not isinstance(found, DataError):
                        return found  # something else went wrong this time; the view is not to blame
                    return DataError(
                        f'{found.message}, in materialized view "{view.name}"',
                        hint="nothing of the statement was applied; change the row, or drop the view",
                        sqlstate=found.sqlstate,
                    )
        return reason
