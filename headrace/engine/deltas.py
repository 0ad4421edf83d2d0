"""What an epoch changes, and which relations follow from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.backfill.filters import PositionColumns
from headrace.backfill.job import Job
from headrace.backfill.positions import Chunk
from headrace.catalog import INDEX, INTERNAL, MATERIALIZED_VIEW, Catalog, Relation
from headrace.engine.pieces import Piece, packed_pieces
from headrace.engine.plans import plan_of
from headrace.plan.nodes import columns_read
from headrace.state.layout import Layout
from headrace.state.prepared import INPUT_BYTES, packed_rows
from headrace.state.runs import RunFile


@dataclass(frozen=True, kw_only=True)
class TableDelta:
    """What one epoch did to a table: rows on the driver, or files that are already written."""

    relation: Relation
    rows: pa.Table | None = None
    """The table's columns, vnode and weight."""
    whole: bool = True
    """Whether retractions have all columns, or only those that views and indexes need: the others are then NULL, and a
    retraction says nothing about whether the row that replaces it is another one."""
    settled: bool = False
    """Whether the rows are in order, and none of them takes back another one."""
    files: tuple[RunFile, ...] = ()
    base: bool = False
    """Whether the files are a chunk: no key of theirs was in the table before."""


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

    @property
    def empty(self) -> bool:
        return not any((self.files, self.late, self.replicas))

    def copy(self) -> Written:
        found = Written()
        found.add(self)
        return found

    def become(self, other: Written) -> None:
        for mine, more in ((self.files, other.files), (self.late, other.late), (self.replicas, other.replicas)):
            mine.update(more)
        self.bulk.update(other.bulk)

    def add(self, other: Written) -> None:
        """What was written next in the same epoch."""
        for mine, more in ((self.files, other.files), (self.late, other.late), (self.replicas, other.replicas)):
            for id, files in more.items():
                mine.setdefault(id, []).extend(files)
        self.bulk.update(other.bulk)


@dataclass(frozen=True, kw_only=True)
class Source:
    """Rows with vnode and weight, and which relations to write from them."""

    relation: Relation
    views: tuple[Relation, ...]
    rows: pa.Table | None = None
    """Of a small one, which came through the driver."""
    whole: bool = True
    settled: bool = False
    """Both as in :class:`TableDelta`."""
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
class Work:
    """What an epoch's writing has to know."""

    catalog: Catalog
    epoch: int
    jobs: Mapping[int, Job]

    def views_above(self, relation: Relation) -> tuple[Relation, ...]:
        """What the changes of a relation are mapped to, row by row; nothing that stands on an operator."""
        mapped, found = {relation.id}, []
        for each in self.catalog.in_order(each.id for each in self.catalog.dependents(relation.id)):
            # Not only what is stored: a source is not, and its views take what it brings.
            if each.operator is None and mapped.intersection(each.reads or each.depends_on):
                mapped.add(each.id)
                found.append(each)
        return tuple(
            each
            for each in found
            if each.kind in (MATERIALIZED_VIEW, INDEX, INTERNAL)
            and not (each.id in self.jobs and self.jobs[each.id].error)
        )

    @property
    def rehashed(self) -> set[int]:
        """Relations whose rows have another vnode, and another order, than the rows they come from."""
        return {relation.id for relation in self.catalog.relations.values() if relation.rehashed}

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
