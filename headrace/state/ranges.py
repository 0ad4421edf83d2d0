"""Sorting and merging by vnode range, inside Spark tasks, in Arrow.

Bulk writes and compaction are the same work: a task owns a range of vnodes, reads what belongs to it — row groups of
sorted runs, found by their bounds, and rows that Spark staged unsorted — sorts, merges by key, and writes the new
run. Nothing is shuffled through Spark: its row-by-row conversions cost more than all of this (docs/design/state.md).

Memory: a task holds its range, and ranges are cut so that one has about RANGE_ROWS rows or
RANGE_BYTES bytes, whichever is less. Where one vnode has more, as it has all rows of a relation of one slice, runs are
merged in ranges of its keys: from the bound of one row group to that of another.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from headrace.state.files import Files, open_parquet
from headrace.state.layout import Layout
from headrace.state.merge import consolidate, key_starts, merge_versions
from headrace.state.prepared import giving_way, run_tasks
from headrace.state.resolve import CHANGES, NEW, OLD, TAG, resolve
from headrace.state.runs import EPOCH, VNODE, WEIGHT, Run, RunFile
from headrace.state.sorting import sort_order, sort_stored
from headrace.state.vnode import VNODES
from headrace.state.writer import REPORT_SCHEMA, RunFileWriter, report, with_internal, written_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.state.lookup import IndexCache

RANGE_ROWS = 3_000_000
PIECE_ROWS = 1 << 16
RANGE_BYTES = 128 << 20
"""As stored, that is compressed; in memory it may be a few times as much."""

ENOUGH = 2
"""How often that may be in a range before it is cut by keys, which costs: hashes do not make all vnodes equal."""


@dataclass(frozen=True, kw_only=True)
class Staged:
    """A file that Spark wrote, or a task: the relation's columns and the vnode, with or without a weight, in any order,
    or with a tag that says in which."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, kw_only=True)
class MergeRange:
    """A task body for ``mapInArrow``: pickled ranges in, one line per written file out.

    ``policy`` says what staged rows do to the old rows of their keys (see :mod:`headrace.state.resolve`); "weighted"
    means that staged rows carry their weights; None means that there are only runs, and they are merged.
    """

    files: Files
    layout: Layout
    policy: str | None
    epoch: int = 0
    bottom: bool = False
    keep_unchanged: bool = False
    """Also write the rows that replace their like, because somebody wants to see what was written."""
    finished: tuple[str, int] | None = None
    """A column with a time, and one in microseconds since 1970: nobody needs rows of that time or earlier any more.
    Only for a merge at the bottom: elsewhere a retraction that is left out would leave its row."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                write = functools.partial(self._write, *pickle.loads(packed))
                # A merge of runs can wait; a bulk write is an epoch's.
                yield from report({self.layout.relation_id: giving_way(write) if self.policy is None else write()})

    def _write(
        self,
        first: int,
        last: int,
        run_groups: list[tuple[str, list[int]]],
        staged: list[str],
        keys: tuple[bytes, bytes] | None = None,
    ) -> list[RunFile]:
        writer = RunFileWriter(self.layout, self.files)
        try:
            for rows in self._merged(first, last, run_groups, staged, keys):
                writer.push(rows)
            return writer.finish()
        except BaseException:
            writer.abort()
            raise

    def _merged(
        self,
        first: int,
        last: int,
        run_groups: list[tuple[str, list[int]]],
        staged: list[str],
        keys: tuple[bytes, bytes] | None = None,
    ) -> Iterator[pa.Table]:
        """The rows to write, in order, in pieces; of runs alone, those from one key to another, which is left out."""
        layout = self.layout
        key = [VNODE, *layout.key_names]
        stored = self._read_runs(first, last, run_groups, keys)
        if self.policy is None:
            yield from _pieces(self._still_needed(merge_versions(sort_stored(layout, stored), key, self.bottom)))
            return
        fresh = self._read_staged(first, last, staged)
        if self.policy == "weighted":
            plain = fresh.select(layout.names).cast(layout.row_schema)
            weighted = with_internal(plain, fresh[VNODE], self.epoch, fresh[WEIGHT])
            yield from _pieces(self._consolidated(sort_stored(layout, weighted)))
            return
        changes = self.policy == CHANGES
        rows = self._changes(fresh) if changes else self._tagged(fresh, NEW)
        if stored.num_rows:
            old = merge_versions(sort_stored(layout, stored), key, True)
            rows = pa.concat_tables([rows, self._changes(old, OLD) if changes else self._tagged(old, OLD)])
        rows = rows.combine_chunks()
        order = sort_order(layout, rows, [TAG])
        starts = key_starts(rows.select(key).take(order), key)
        if stored.num_rows == 0 and len(starts) == rows.num_rows and not changes:
            # Only new keys, each once: every row is put, and no sorted copy of the whole is needed.
            for at in range(0, rows.num_rows, PIECE_ROWS):
                piece = rows.take(order.slice(at, PIECE_ROWS))
                ones = pa.chunked_array([pa.repeat(pa.scalar(1, pa.int8()), piece.num_rows)])
                yield with_internal(piece.select(layout.names), piece[VNODE], self.epoch, ones)
            return
        delta = resolve(rows.take(order), starts, self.policy)
        delta = with_internal(delta.select(layout.names), delta[VNODE], self.epoch, delta[WEIGHT])
        yield from _pieces(self._consolidated(delta))

    def _still_needed(self, rows: pa.Table) -> pa.Table:
        if self.finished is None:
            return rows
        column, time = self.finished
        last = pa.scalar(time, pa.int64()).cast(rows.schema.field(column).type)
        return rows.filter(pc.fill_null(pc.greater(rows[column], last), True))

    def _consolidated(self, delta: pa.Table) -> pa.Table:
        return delta if self.keep_unchanged else consolidate(delta, [VNODE, *self.layout.key_names])

    def _tagged(self, rows: pa.Table, tag: int) -> pa.Table:
        plain = rows.select(self.layout.names).cast(self.layout.row_schema)
        plain = plain.append_column(VNODE, rows[VNODE].cast(pa.int16()))
        return plain.append_column(TAG, pa.repeat(pa.scalar(tag, pa.int8()), plain.num_rows))

    def _changes(self, rows: pa.Table, tag: int | None = None) -> pa.Table:
        """With a weight, and the tags that they have, or one for all."""
        plain = rows.select(self.layout.names).cast(self.layout.row_schema)
        plain = plain.append_column(VNODE, rows[VNODE].cast(pa.int16()))
        plain = plain.append_column(WEIGHT, rows[WEIGHT].cast(pa.int8()))
        tags = rows[TAG] if tag is None else pa.repeat(pa.scalar(tag, pa.int64()), rows.num_rows)
        return plain.append_column(TAG, tags)

    def _read_runs(
        self, first: int, last: int, run_groups: list[tuple[str, list[int]]], keys: tuple[bytes, bytes] | None
    ) -> pa.Table:
        tables = [self.layout.stored_schema.empty_table()]
        for path, groups in run_groups:
            with open_parquet(self.files, path) as parquet:
                table = parquet.read_row_groups(groups, use_threads=False)
            tables.append(self.layout.stored(within(table, first, last)))
            if keys is not None:
                low, high = keys
                inside = [low <= key < high for key in self.layout.encode(tables[-1])]
                tables[-1] = tables[-1].filter(pa.array(inside, pa.bool_()))
        return pa.concat_tables(tables)

    def _read_staged(self, first: int, last: int, paths: list[str]) -> pa.Table:
        tables = []
        for path in paths:
            with open_parquet(self.files, path) as parquet:
                at = parquet.schema_arrow.names.index(VNODE)
                for group in range(parquet.metadata.num_row_groups):
                    bounds = parquet.metadata.row_group(group).column(at).statistics
                    if bounds is not None and bounds.has_min_max and (bounds.min >= last or bounds.max < first):
                        continue
                    tables.append(within(parquet.read_row_group(group, use_threads=False), first, last))
        return pa.concat_tables(tables) if tables else self._nothing_staged()

    def _nothing_staged(self) -> pa.Table:
        schema = self.layout.stored_schema.remove(self.layout.stored_schema.get_field_index(EPOCH))
        return schema.append(pa.field(TAG, pa.int64())).empty_table()


def _pieces(rows: pa.Table) -> Iterator[pa.Table]:
    for at in range(0, rows.num_rows, PIECE_ROWS):
        yield rows.slice(at, PIECE_ROWS)


def within(table: pa.Table, first: int, last: int) -> pa.Table:
    """Rows of the vnodes ``first <= vnode < last``."""
    vnodes = table[VNODE].to_numpy()
    keep = (vnodes >= first) & (vnodes < last)
    return table if keep.all() else table.filter(pa.array(keep))


def merge_ranges(
    spark: SparkSession,
    body: MergeRange,
    *,
    runs: Sequence[Run],
    staged: Sequence[Staged],
    indexes: IndexCache,
) -> list[RunFile]:
    """Runs the body over as many ranges as memory and parallelism ask for."""
    total = sum(run.rows for run in runs) + sum(file.rows for file in staged)
    if total == 0:
        return []
    parallelism = spark.sparkContext.defaultParallelism
    size = sum(run.bytes for run in runs) + sum(file.bytes for file in staged)
    wanted = max(-(-total // RANGE_ROWS), -(-size // RANGE_BYTES))
    if total > 20_000:
        wanted = max(wanted, parallelism)
    count = min(VNODES, wanted)
    edges = [VNODES * number // count for number in range(count + 1)]
    packed = []
    for first, last in zip(edges, edges[1:], strict=False):
        groups = [
            (file.path, numbers)
            for run in runs
            for file in run.files
            if (numbers := groups_of_vnodes(file, first, last, indexes))
        ]
        split = key_ranges(runs, first, last, indexes) if not staged else []
        for keys, of_keys in split or [(None, groups)]:
            packed.append(pickle.dumps((first, last, of_keys, [file.path for file in staged], keys)))
    lines = run_tasks(spark, body, packed, REPORT_SCHEMA).to_pylist()
    return sorted(written_files(lines).get(body.layout.relation_id, []), key=lambda file: file.low)


def groups_of_vnodes(file: RunFile, first: int, last: int, indexes: IndexCache) -> list[int]:
    """The row groups that may hold vnodes of a range: the first two bytes of a bound are its vnode."""
    if int.from_bytes(file.high[:2], "big") < first or int.from_bytes(file.low[:2], "big") >= last:
        return []
    return [
        number
        for number, (low, high, _) in enumerate(indexes.get(file).groups)
        if int.from_bytes(high[:2], "big") >= first and int.from_bytes(low[:2], "big") < last
    ]


def key_ranges(
    runs: Sequence[Run], first: int, last: int, indexes: IndexCache
) -> list[tuple[tuple[bytes, bytes], list[tuple[str, list[int]]]]]:
    """The row groups of vnodes ``first <= vnode < last`` by ranges of keys, if they are too many to be merged at once.

    A range holds what RANGE_ROWS and RANGE_BYTES allow, and one row group of each file at its ends.
    """
    files = [file for run in runs for file in run.files]
    chosen = {file.path: groups_of_vnodes(file, first, last, indexes) for file in files}
    bounds = {file.path: indexes.get(file).groups for file in files if chosen[file.path]}
    sized = sorted(
        (bounds[file.path][group][0], max(rows / RANGE_ROWS, rows * file.bytes / max(1, file.rows) / RANGE_BYTES))
        for file in files
        for group in chosen[file.path]
        for rows in (bounds[file.path][group][2],)
    )
    if sum(size for _, size in sized) <= ENOUGH:
        return []
    cuts, held = [first.to_bytes(2, "big")], 0.0
    for low, size in sized:
        if held and held + size > 1 and low > cuts[-1]:
            cuts.append(low)
            held = 0.0
        held += size
    found = []
    for low, high in zip(cuts, [*cuts[1:], last.to_bytes(2, "big")], strict=True):
        groups = [
            (path, numbers)
            for path, of_file in bounds.items()
            if (numbers := [each for each in chosen[path] if of_file[each][1] >= low and of_file[each][0] < high])
        ]
        found.append(((low, high), groups))
    return found
