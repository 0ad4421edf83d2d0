"""The deltas that views being filled may still need: those since the oldest chunk in flight was read.

A chunk is read as of one epoch and lands in a later one. What happened to its rows in between was dropped by the
filter, so it is kept here until the chunk lands and can take it along as its *late delta*. Kept are names of files,
never rows: the log is as long as a chunk takes.

The files of an arrangement backfill are copies of its own, with only the columns that it needs (the rest NULL), of rows
beyond its position; only a delta of many rows, which would be written twice, is kept by reference. So it needs nothing
of the upstream but what is committed. Without shuffle the upstream's own files are used, committed or not.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from headrace.backfill.chunks import Group
from headrace.backfill.job import Strategy
from headrace.backfill.positions import Chunk, split
from headrace.state.files import Files, open_parquet
from headrace.state.layout import Layout
from headrace.state.prepared import job_inputs, spare_what_stays
from headrace.state.runs import VNODE, RunFile


class DeltaLog:
    def __init__(self):
        self._held: dict[tuple[Strategy, int], list[tuple[int, tuple[RunFile, ...]]]] = {}

    def record(self, strategy: Strategy, upstream_id: int, epoch: int, files: Iterable[RunFile]) -> None:
        if files := tuple(files):
            self._held.setdefault((strategy, upstream_id), []).append((epoch, files))

    def since(self, strategy: Strategy, upstream_id: int, epoch: int, chunk: Chunk) -> tuple[RunFile, ...]:
        """The files of later epochs that may hold rows of a chunk."""
        entries = self._held.get((strategy, upstream_id), [])
        return tuple(
            file for at, files in entries if at > epoch for file in files if chunk.overlaps(file.low, file.high)
        )

    def forget_upto(self, epoch: int) -> None:
        self._keep(lambda at: at > epoch)

    def forget_after(self, epoch: int) -> None:
        """Epochs that were given up."""
        self._keep(lambda at: at <= epoch)

    def clear(self) -> None:
        self._held = {}

    def paths(self) -> Iterator[str]:
        for entries in list(self._held.values()):
            for _, files in list(entries):
                yield from (file.path for file in files)

    def _keep(self, wanted: Callable[[int], bool]) -> None:
        kept = {key: [entry for entry in entries if wanted(entry[0])] for key, entries in self._held.items()}
        self._held = {key: entries for key, entries in kept.items() if entries}


@dataclass(frozen=True, kw_only=True)
class LatePiece:
    """The row groups of a file that may hold rows of a chunk."""

    path: str
    groups: tuple[int, ...]
    rows: int
    bytes: int
    """About, as stored."""


def late_piece(file: RunFile, groups: Sequence[Group], chunk: Chunk) -> LatePiece:
    numbers = tuple(number for number, (low, high, _) in enumerate(groups) if chunk.overlaps(low, high))
    rows = sum(groups[number][2] for number in numbers)
    return LatePiece(path=file.path, groups=numbers, rows=rows, bytes=file.bytes * rows // max(1, file.rows))


def packed_late(pieces: Sequence[LatePiece], chunk: Chunk) -> bytes:
    """What :class:`LateRows` reads."""
    return pickle.dumps(([(piece.path, piece.groups) for piece in pieces], chunk))


@dataclass(frozen=True, kw_only=True)
class LateRows:
    """A task body for ``mapInArrow``: the number of an input in, what files hold of a chunk's keys out."""

    files: Files
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_what_stays()
        for data in job_inputs(batches):
            pieces, chunk = pickle.loads(data)
            for path, groups in pieces:
                with open_parquet(self.files, path) as parquet:
                    rows = parquet.read_row_groups(list(groups), use_threads=False)
                rows = rows.select(self.layout.stored_schema.names).cast(self.layout.stored_schema)
                yield from rows_of_chunk(self.layout, rows, chunk).to_batches()


def rows_of_chunk(layout: Layout, rows: pa.Table, chunk: Chunk) -> pa.Table:
    vnodes = rows[VNODE].to_numpy()
    inside = (vnodes >= chunk.first_vnode) & (vnodes <= chunk.last_vnode)
    # Keys decide only where the chunk begins or ends within a vnode.
    edges = [vnode for vnode, key in ((chunk.first_vnode, chunk.after), (chunk.last_vnode, chunk.upto)) if key]
    at_edge = np.flatnonzero(inside & np.isin(vnodes, edges))
    keys = layout.encode(rows.take(pa.array(at_edge)))
    inside[at_edge] = [chunk.holds(*split(key)) for key in keys]
    return rows.filter(pa.array(inside))
