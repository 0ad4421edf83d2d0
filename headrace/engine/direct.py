"""Small deltas derived by the driver itself: where executors are threads of its own machine, and Arrow can evaluate
every view above the table (:mod:`headrace.operators.vectors`), a Spark job would cost more than all of the work.

The same steps as in a Spark job (:mod:`headrace.engine.derive`), with the same code to write the files: the delta of
each view from that of what it stands on, filtered by positions where it is being filled, and copies for arrangements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from headrace.backfill.filters import PositionColumns
from headrace.backfill.positions import DONE, split
from headrace.catalog import Catalog, Relation
from headrace.engine.changes import SMALL_ROWS
from headrace.engine.deltas import Source, Work, Written
from headrace.engine.pieces import PieceRows, rehashed
from headrace.engine.plans import vectors_of
from headrace.operators.vectors import FAULTS, NotVectorized, VectorBranch
from headrace.state.files import Files, LocalFiles
from headrace.state.layout import Layout
from headrace.state.prepared import in_one_process
from headrace.state.runs import EPOCH, VNODE, WEIGHT
from headrace.state.writer import Settling, with_internal, write_outputs

DELTA_ROWS = 2 * SMALL_ROWS
"""Of a row that is changed the old one goes and the new one comes."""

Tables = list[pa.Table]
"""Rows of a relation with their vnode and weight, and of late deltas with their epoch; one for each branch."""


def is_here(spark: SparkSession, files: Files) -> bool:
    """Whether what a small task would do the driver may do as well: on its own machine, with files on its own disk."""
    return isinstance(files, LocalFiles) and in_one_process(spark.sparkContext.master)


class DirectDeriver:
    def __init__(self, spark: SparkSession, files: Files, vectorized: Callable[[], bool]):
        self._files, self._vectorized = files, vectorized
        self._here = is_here(spark, files)

    def write(self, work: Work, source: Source, written: Written) -> bool:
        """Writes all that follows from a source, and says so in ``written``; False, and nothing done, if Spark must."""
        if not self._here or not source.small or not self._vectorized():
            return False
        try:
            rows = self._rows(source)
            outputs = self._outputs(work, source, rows)
        except FAULTS:
            return False
        late = source.late is not None
        epoch = work.epoch - 1 if late else work.epoch
        stored = [
            (layout, in_stored_schema(layout, tables, epoch, late=late), _settling(layout, source))
            for layout, tables in outputs
        ]
        found = write_outputs(self._files, stored, net_epoch=epoch if late else None)
        for relation_id, files in found.items():
            into = written.replicas if relation_id < 0 else written.late if late else written.files
            into.setdefault(abs(relation_id), []).extend(files)
        return True

    def _rows(self, source: Source) -> pa.Table:
        if source.late is None:
            rows = source.rows
        else:
            if sum(piece.rows for piece in source.late.pieces) > DELTA_ROWS:
                raise NotVectorized("a late delta for executors")
            reader = PieceRows(files=self._files, layout=source.layout)
            pieces = [(piece.path, piece.groups) for piece in source.late.pieces]
            rows = pa.concat_tables(reader.read(pieces, source.late.chunk))
        if rows.num_rows > DELTA_ROWS:
            raise NotVectorized("a delta for executors")
        return rows.combine_chunks()

    def _outputs(self, work: Work, source: Source, rows: pa.Table) -> list[tuple[Layout, Tables]]:
        held: dict[int, Tables] = {source.relation.id: [rows]}
        for view in source.views:
            inputs: Mapping[int, Tables] = held
            if (job := work.jobs.get(view.id)) is not None and source.late is None:
                inputs = {
                    id: [_within(source.positions.get((job.id, id)), each) for each in held.get(id, [])]
                    for id in job.inputs
                }
            held[view.id] = [
                branch.apply(each)
                for branch in _branches(view, work.catalog)
                for each in inputs.get(branch.relation_id, [])
            ]
            if view.id in work.rehashed:
                held[view.id] = [rehashed(Layout.of(view), each) for each in held[view.id]]
        relations = source.views if source.rows is None else [source.relation, *source.views]
        outputs = [(Layout.of(relation), held[relation.id]) for relation in relations if held[relation.id]]
        return outputs if source.rows is None else [*outputs, *self._replicas(work, source, held)]

    def _replicas(self, work: Work, source: Source, held: Mapping[int, Tables]) -> list[tuple[Layout, Tables]]:
        """Copies of the deltas that views being filled will still need: see :mod:`headrace.engine.replica`."""
        outputs = []
        for upstream_id in work.replicated:
            if not held.get(upstream_id):
                continue
            layout = Layout.of(work.catalog.relations[upstream_id])
            deciding = [source.positions[at] for at in work.replicating(upstream_id)]
            needed = work.columns_needed(upstream_id)
            copies = []
            for rows in held[upstream_id]:
                unread = np.zeros(rows.num_rows, dtype=bool)
                for each in deciding:
                    unread |= ~_covered(each, rows)
                copies.append(_with_nulls(layout, rows.filter(pa.array(unread)), needed))
            outputs.append((layout.replica(), copies))
        return outputs


def _settling(layout: Layout, source: Source) -> Settling:
    if layout.relation_id != source.relation.id:
        return "consolidate"
    return "none" if source.settled else "consolidate" if source.whole else "sort"


def _branches(view: Relation, catalog: Catalog) -> Sequence[VectorBranch]:
    found = vectors_of(view, catalog, few=True)
    if found is None:
        raise NotVectorized(view.name)
    return found


def _within(positions: PositionColumns | None, rows: pa.Table) -> pa.Table:
    """What of an upstream's rows a view that is being filled has got as far as."""
    return rows if positions is None else rows.filter(pa.array(_covered(positions, rows)))


def _covered(positions: PositionColumns, rows: pa.Table) -> np.ndarray:
    vnodes = rows[VNODE].to_numpy()
    done = np.array([at is DONE for at in positions.positions.vnodes])
    covered = done[vnodes]
    if partial := positions.positions.partial:
        # Keys decide only where a vnode is half read.
        at = np.flatnonzero(np.isin(vnodes, list(partial)))
        keys = positions.layout.encode(rows.take(pa.array(at)))
        covered[at] = [positions.positions.covers(*split(key)) for key in keys]
    return covered


def _with_nulls(layout: Layout, rows: pa.Table, needed: set[str]) -> pa.Table:
    for name, kind in layout.columns:
        if name not in needed:
            rows = rows.set_column(rows.schema.get_field_index(name), name, pa.nulls(rows.num_rows, kind.arrow))
    return rows


def in_stored_schema(layout: Layout, tables: Tables, epoch: int, *, late: bool = False) -> pa.Table:
    stored = []
    for rows in tables:
        plain = rows.select(layout.names).cast(layout.row_schema)
        internal = with_internal(plain, rows[VNODE], epoch, rows[WEIGHT])
        if late:
            at = internal.schema.get_field_index(EPOCH)
            internal = internal.set_column(at, EPOCH, rows[EPOCH].cast(pa.int64()))
        stored.append(internal)
    return pa.concat_tables(stored)
