"""Rows of a chunk, read by a task with Arrow: row groups that may hold them, chosen on the driver by their bounds.

For small reads: the few rows of a small chunk, and what a chunk of any size has missed while it was read.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.backfill.positions import Chunk, split
from headrace.state.files import Files, open_parquet
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.prepared import job_inputs, spare_what_stays
from headrace.state.runs import VNODE, RunFile
from headrace.state.sorting import sort_stored
from headrace.state.vnode import vnodes_of
from headrace.state.whole import newest_live
from headrace.state.writer import KEY


@dataclass(frozen=True, kw_only=True)
class Piece:
    """The row groups of a file that may hold rows of a chunk."""

    path: str
    groups: tuple[int, ...]
    rows: int
    bytes: int
    """About, as stored."""


def pieces_of(files: Iterable[RunFile], chunk: Chunk, indexes: IndexCache) -> tuple[Piece, ...]:
    found = []
    for file in files:
        if not chunk.overlaps(file.low, file.high):
            continue
        groups = indexes.get(file).groups
        numbers = tuple(number for number, (low, high, _) in enumerate(groups) if chunk.overlaps(low, high))
        rows = sum(groups[number][2] for number in numbers)
        if rows:
            size = file.bytes * rows // file.rows
            found.append(Piece(path=file.path, groups=numbers, rows=rows, bytes=size))
    return tuple(found)


def packed_pieces(pieces: Sequence[Piece], chunk: Chunk) -> bytes:
    """What the task bodies below take."""
    return pickle.dumps(([(piece.path, piece.groups) for piece in pieces], chunk))


@dataclass(frozen=True, kw_only=True)
class PieceRows:
    """A task body for ``mapInArrow``: the number of an input in, all stored rows of a chunk's keys out."""

    files: Files
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_what_stays()
        for data in job_inputs(batches):
            pieces, chunk = pickle.loads(data)
            for rows in self.read(pieces, chunk):
                yield from rows.to_batches()

    def read(self, pieces: Sequence[tuple[str, Sequence[int]]], chunk: Chunk) -> Iterator[pa.Table]:
        for path, groups in pieces:
            with open_parquet(self.files, path) as parquet:
                rows = parquet.read_row_groups(list(groups), use_threads=False)
            yield rows_of_chunk(self.layout, self.layout.stored(rows), chunk)


@dataclass(frozen=True, kw_only=True)
class LiveChunkRows:
    """A task body for ``mapInArrow``: the number of an input in, the live rows of a chunk out, each with its key.

    They come in order, and no more than the chunk's limit.
    """

    files: Files
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_what_stays()
        for data in job_inputs(batches):
            live = self.read(*pickle.loads(data))
            yield from live.append_column(KEY, pa.array(self.layout.encode(live), pa.binary())).to_batches()

    def read(self, pieces: Sequence[tuple[str, Sequence[int]]], chunk: Chunk) -> pa.Table:
        reader = PieceRows(files=self.files, layout=self.layout)
        stored = [self.layout.stored_schema.empty_table(), *reader.read(pieces, chunk)]
        live = sort_stored(self.layout, newest_live(self.layout, pa.concat_tables(stored)))
        return live if chunk.limit is None else live.slice(0, chunk.limit)

    @property
    def schema(self) -> str:
        return f"{self.layout.spark_schema}, {KEY} BINARY"


def rows_of_chunk(layout: Layout, rows: pa.Table, chunk: Chunk) -> pa.Table:
    vnodes = rows[VNODE].to_numpy()
    inside = (vnodes >= chunk.first_vnode) & (vnodes <= chunk.last_vnode)
    # Keys decide only where the chunk begins or ends within a vnode.
    edges = [vnode for vnode, key in ((chunk.first_vnode, chunk.after), (chunk.last_vnode, chunk.upto)) if key]
    at_edge = np.flatnonzero(inside & np.isin(vnodes, edges))
    keys = layout.encode(rows.take(pa.array(at_edge)))
    inside[at_edge] = [chunk.holds(*split(key)) for key in keys]
    return rows.filter(pa.array(inside))


def rehashed(layout: Layout, rows: pa.Table) -> pa.Table:
    """With a vnode of their own, for a relation that is not distributed like its input."""
    kinds = [layout.types[name] for name in layout.distribution]
    vnodes = pa.array(vnodes_of(rows, layout.distribution, kinds), pa.int16())
    return rows.set_column(rows.schema.get_field_index(VNODE), VNODE, vnodes)
