"""Writing runs inside Spark tasks: sorted rows in, Parquet files and their bounds out.

One task writes the files of *many* relations. A table's delta and those of all linear views on it travel as one wide
row — a struct column per relation branch, NULL where the branch's filter dropped the row — because a Python stage
costs about 50 ms in Spark however little it does, so five views must not cost five of them.

Row groups are small (see GROUP_ROWS) and end where a vnode ends once a vnode fills one: a lookup by key then reads
little, and keys beyond a vnode's last one touch no row group at all. A file with more than one row group has a
sidecar ``<file>.index`` with every group's bounds.
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.state.files import Files
from headrace.state.layout import INTERNAL, LEFT_OUT, Layout
from headrace.state.merge import MergeStream, consolidate, merge_versions
from headrace.state.prepared import job_input, spare_what_stays
from headrace.state.recent import RECENT
from headrace.state.runs import EPOCH, VNODE, WEIGHT, GroupIndex, RunFile
from headrace.state.sorting import in_order

GROUP_ROWS = 4096
"""Rows of a row group: bench/lookup_cost.py and bench/scan_cost.py hold the choice."""

FILE_ROWS = 2_000_000
"""A file is closed after this many rows, which bounds its index and what one compaction task rewrites."""

EPOCH_INPUT = "epoch"
KEY = "_hr_key"
"""The encoded key of the row that a wide row was made of, where somebody wants to know how far it went."""

NO_RELATION = 0

REPORT_SCHEMA = (
    "relation_id BIGINT, path STRING, rows BIGINT, bytes BIGINT, "
    "low BINARY, high BINARY, groups INT, retractions BIGINT"
)


@dataclass(frozen=True, kw_only=True)
class Output:
    """A relation to be written, and the struct columns of the wide row that carry its branches."""

    layout: Layout
    branches: tuple[str, ...]
    consolidate: bool = True
    """Whether a retraction and a put of the same row are no change. Not if retractions lack columns."""


Settling = Literal["none", "sort", "consolidate"]
"""What a delta still needs: nothing, to be put in order, or also that what was taken back is left out."""

_INTERNAL_NAMES = tuple(name for name, _, _ in INTERNAL)


def _compression(layout: Layout, schema: pa.Schema) -> dict[str, str]:
    """By leaf of the file. What lookups by key read is not compressed: a row group's numbers are unpacked in three
    times the time that it takes to read them. The internal columns repeat themselves, and are small as numbers of a
    dictionary."""
    plain = {name for name in layout.key_names if pa.types.is_primitive(schema.field(name).type)}
    plain.update(_INTERNAL_NAMES)
    return {
        leaf: "none" if field.name in plain else "lz4" for field in schema for leaf in _leaves(field.name, field.type)
    }


def _leaves(path: str, kind: pa.DataType) -> Iterator[str]:
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        yield from _leaves(f"{path}.list.element", kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            yield from _leaves(f"{path}.{field.name}", field.type)
    else:
        yield path


class RunFileWriter:
    """Writes one relation's rows, which come sorted, to one file after the other."""

    def __init__(self, layout: Layout, files: Files, *, leave_out: bool = False):
        """``leave_out``: the rows come without the columns that a file may leave out."""
        self._layout = layout
        self._storage = files
        schema = layout.stored_schema
        left = set(LEFT_OUT) if leave_out else set()
        self._schema = pa.schema([field for field in schema if field.name not in left])
        self._pending: list[pa.Table] = []
        self._pending_rows = 0
        self._last_key: bytes | None = None
        self._stack: ExitStack | None = None
        self._files: list[RunFile] = []

    def push(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        first = self._bound(rows, 0)
        if self._last_key is not None and first < self._last_key:
            self._close_file()  # the input went back to a smaller key: another file of the upstream begins
        self._last_key = self._bound(rows, rows.num_rows - 1)
        self._pending.append(rows)
        self._pending_rows += rows.num_rows
        if self._pending_rows >= 8 * GROUP_ROWS:
            self._write_pending(final=False)
            if self._file_rows >= FILE_ROWS:
                self._close_file()

    def finish(self, rows: pa.Table | None = None) -> list[RunFile]:
        """The files; ``rows`` are the last ones, or all there are."""
        if rows is not None and rows.num_rows:
            self._pending.append(rows)
            self._pending_rows += rows.num_rows
        self._close_file()
        return self._files

    def abort(self) -> None:
        if self._stack is not None:
            self._stack.close()

    def _bound(self, rows: pa.Table, index: int) -> bytes:
        return self._layout.bound(rows, index)

    def _bounds(self, rows: pa.Table, groups: list[tuple[int, int]]) -> list[tuple[bytes, bytes, int]]:
        """Every group's first and last key, encoded together: one at a time costs as much as writing the rows."""
        edges = pa.array([edge for start, stop in groups for edge in (start, stop - 1)], pa.int64())
        keys = self._layout.encode(rows.select([VNODE, *self._layout.key_names]).take(edges))
        return [
            (low, high, stop - start) for low, high, (start, stop) in zip(keys[::2], keys[1::2], groups, strict=True)
        ]

    def _write_pending(self, *, final: bool) -> None:
        if not self._pending:
            return
        rows = pa.concat_tables(self._pending)
        groups = row_groups(rows[VNODE].to_numpy())
        if not final:
            *groups, (held, _) = groups
            self._pending = [rows.slice(held)]
        else:
            held = rows.num_rows
            self._pending = []
        self._pending_rows = rows.num_rows - held
        if groups and self._stack is None:
            self._open_file()
        for start, stop in groups:
            self._parquet.write_table(rows.slice(start, stop - start), row_group_size=stop - start)
        self._index += self._bounds(rows, groups)
        self._file_rows += held
        if WEIGHT in self._schema.names:
            self._retractions += _count_retractions(rows.slice(0, held))

    def _open_file(self) -> None:
        self._path = f"{self._layout.folder}/{uuid.uuid4().hex}.parquet"
        self._stack = ExitStack()
        self._sink = self._stack.enter_context(self._storage.open_output(self._path))
        self._parquet = pq.ParquetWriter(
            self._sink,
            self._schema,
            compression=_compression(self._layout, self._schema),
            use_dictionary=[name for name in _INTERNAL_NAMES if name in self._schema.names],
            store_schema=False,
            store_decimal_as_integer=True,
            write_page_index=False,
            write_statistics=[name for name in counted_columns(self._layout) if name in self._schema.names],
        )
        self._index: list[tuple[bytes, bytes, int]] = []

    _file_rows = 0
    _retractions = 0

    def _close_file(self) -> None:
        self._write_pending(final=True)
        if self._stack is None:
            return
        self._parquet.close()
        size = self._sink.tell()
        self._stack.close()
        self._stack = None
        if len(self._index) > 1:
            with self._storage.open_output(f"{self._path}.index") as sidecar:
                sidecar.write(GroupIndex(tuple(self._index)).to_bytes())
        self._files.append(
            RunFile(
                path=self._path,
                rows=self._file_rows,
                bytes=size,
                low=self._index[0][0],
                high=self._index[-1][1],
                groups=len(self._index),
                retractions=self._retractions,
            )
        )
        self._file_rows = self._retractions = 0
        self._last_key = None


def counted_columns(layout: Layout) -> list[str]:
    """Where a minimum and maximum help a reader to skip: in the order of vnodes all other columns are mixed."""
    names = [VNODE, EPOCH, WEIGHT, *layout.key_names]
    if layout.time is not None and layout.time not in names:
        names.append(layout.time)
    return [name for name in names if _bounded(layout.stored_schema.field(name).type)]


def row_groups(vnodes: np.ndarray) -> list[tuple[int, int]]:
    """Where to cut sorted rows into row groups.

    >>> row_groups(np.array([0, 0, 1, 1, 1]))
    [(0, 5)]
    >>> [stop - start for start, stop in row_groups(np.repeat([0, 1, 2], [10, 5000, 10]))]
    [10, 2500, 2500, 10]
    """
    total = len(vnodes)
    edges = [0, *(np.flatnonzero(np.diff(vnodes)) + 1).tolist(), total]
    groups: list[tuple[int, int]] = []
    open_at: int | None = None
    for start, stop in zip(edges, edges[1:], strict=False):
        rows = stop - start
        if rows * 2 < GROUP_ROWS:
            open_at = start if open_at is None else open_at
            if stop - open_at >= GROUP_ROWS:
                groups.append((open_at, stop))
                open_at = None
            continue
        if open_at is not None:
            groups.append((open_at, start))
            open_at = None
        pieces = -(-rows // GROUP_ROWS)
        cuts = [start + rows * piece // pieces for piece in range(pieces + 1)]
        groups.extend(zip(cuts, cuts[1:], strict=False))
    if open_at is not None:
        groups.append((open_at, total))
    return groups


@dataclass(frozen=True, kw_only=True)
class WriteDelta:
    """A task body for ``mapInArrow``: wide rows in, one line per written file out.

    ``sort`` is for deltas small enough to be held whole; without it the input should come sorted file by file, because
    a new file begins wherever a batch starts below the end of the one before.

    ``net`` is for deltas of several epochs, which the wide rows then name: of each key only the change from before the
    first to after the last is written, as of ``epoch``.
    """

    files: Files
    outputs: tuple[Output, ...]
    sort: bool
    epoch: int | None = None
    """None: the epoch is an input of the job (see :mod:`headrace.state.prepared`), for ``net`` the one before it."""
    net: bool = False
    extent: bool = False
    """Also report how many wide rows came and the first and last KEY of them, as a file of no relation."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_what_stays()
        if self.epoch is None:
            epoch = int(job_input(EPOCH_INPUT)) - int(self.net)
            yield from dataclasses.replace(self, epoch=epoch).write(batches)
        else:
            yield from self.write(batches)

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same wherever it runs, once the epoch is known."""
        # A writer per branch: two branches of a union are each sorted, but not with each other.
        branches = [(output, (branch,)) for output in self.outputs for branch in output.branches]
        if self.sort:
            branches = [(output, output.branches) for output in self.outputs]
        net_epoch = self.epoch if self.net else None
        sinks = [
            _Sink(output.layout, self.files, net_epoch=net_epoch, consolidate=output.consolidate)
            for output, _ in branches
        ]
        try:
            for wide in self._tables(batches):
                if self.extent and wide.num_rows:
                    yield from report({NO_RELATION: [_extent(wide)]})
                for sink, (output, names) in zip(sinks, branches, strict=True):
                    sink.push(pa.concat_tables([self._branch(wide, output.layout, name) for name in names]))
            for sink in sinks:
                yield from report({sink.layout.relation_id: sink.finish()})
        except BaseException:
            for sink in sinks:
                sink.writer.abort()
            raise

    def _tables(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
        if not self.sort:
            yield from (pa.Table.from_batches([batch]) for batch in batches)
        elif held := list(batches):
            yield pa.Table.from_batches(held)

    def _branch(self, wide: pa.Table, layout: Layout, branch: str) -> pa.Table:
        struct = wide[branch].combine_chunks()
        if struct.null_count:
            present = struct.is_valid()
            struct, wide = struct.filter(present), wide.filter(present)
        rows = pa.Table.from_arrays(
            [struct.field(index) for index in range(struct.type.num_fields)],
            names=[struct.type.field(index).name for index in range(struct.type.num_fields)],
        )
        # A relation with a distribution of its own (an index) brings its vnode; others have that of their input.
        vnodes = rows[VNODE] if VNODE in rows.column_names else wide[VNODE]
        rows = rows.select(layout.names).cast(layout.row_schema)
        if not self.net:
            return with_internal(rows, vnodes, self.epoch, wide[WEIGHT])
        rows = with_internal(rows, vnodes, self.epoch, wide[WEIGHT])
        return rows.set_column(rows.schema.get_field_index(EPOCH), EPOCH, wide[EPOCH].cast(pa.int64()))


def _extent(wide: pa.Table) -> RunFile:
    first, last = (wide[KEY][at].as_py() for at in (0, wide.num_rows - 1))
    return RunFile(path="", rows=wide.num_rows, bytes=0, low=first, high=last, groups=0, retractions=0)


class _Sink:
    """Sorts and consolidates what comes, then writes it: a retraction may end one batch, its put begin the next."""

    def __init__(self, layout: Layout, files: Files, *, net_epoch: int | None = None, consolidate: bool = True):
        self.writer, self.layout = RunFileWriter(layout, files), layout
        self._net_epoch, self._consolidate = net_epoch, consolidate
        self._stream = MergeStream([VNODE, *layout.key_names], "consolidate" if net_epoch is None else "merge")
        self._last_key: bytes | None = None

    def push(self, rows: pa.Table) -> None:
        if rows.num_rows == 0:
            return
        # Sorted already, unless this is one of the batches where Spark goes from one file to the next.
        ordered = in_order(self.layout, rows, [WEIGHT] if self._net_epoch is None else [EPOCH, WEIGHT])
        if self._last_key is not None and self.layout.bound(ordered, 0) < self._last_key:
            self._flush()  # the key that the stream holds back belongs before, not with what comes now
        self._last_key = self.layout.bound(ordered, ordered.num_rows - 1)
        if not self._consolidate:
            self.writer.push(ordered)
            return
        for consolidated in self._stream.push(ordered):
            self._write(consolidated)

    def finish(self) -> list[RunFile]:
        self._flush()
        return self.writer.finish()

    def _flush(self) -> None:
        for consolidated in self._stream.finish():
            self._write(consolidated)

    def _write(self, rows: pa.Table) -> None:
        if self._net_epoch is not None:
            epochs = pa.repeat(pa.scalar(self._net_epoch, pa.int64()), rows.num_rows)
            rows = rows.set_column(rows.schema.get_field_index(EPOCH), EPOCH, epochs)
            rows = consolidate(rows, [VNODE, *self.layout.key_names])
        self.writer.push(rows)


def write_outputs(
    files: Files, outputs: Iterable[tuple[Layout, pa.Table, Settling]], net_epoch: int | None = None
) -> dict[int, list[RunFile]]:
    """Writes deltas, each in the stored schema and with what is to be done to it; answers the files by relation.

    ``net_epoch`` is for deltas of several epochs: of each key only the change from before the first to after the last
    is written, as of it.
    """
    found: dict[int, list[RunFile]] = {}
    for layout, delta, settling in outputs:
        rows = _settled(layout, delta, settling, net_epoch)
        if rows.num_rows == 0:
            continue
        writer = RunFileWriter(layout, files)
        try:
            found[layout.relation_id] = written = writer.finish(rows)
        except BaseException:
            writer.abort()
            raise
        if len(written) == 1:
            RECENT.put((files.root, written[0].path), rows)
    return found


def _settled(layout: Layout, rows: pa.Table, settling: Settling, net_epoch: int | None) -> pa.Table:
    if settling == "none":
        return rows
    rows, key = in_order(layout, rows, [WEIGHT] if net_epoch is None else [EPOCH, WEIGHT]), [VNODE, *layout.key_names]
    if settling == "sort":
        return rows
    if net_epoch is not None:
        rows = merge_versions(rows, key, bottom=False)
        epochs = pa.repeat(pa.scalar(net_epoch, pa.int64()), rows.num_rows)
        rows = rows.set_column(rows.schema.get_field_index(EPOCH), EPOCH, epochs)
    return consolidate(rows, key)


def with_internal(rows: pa.Table, vnodes: pa.ChunkedArray, epoch: int, weights: pa.ChunkedArray) -> pa.Table:
    rows = rows.append_column(VNODE, vnodes.cast(pa.int16()))
    rows = rows.append_column(EPOCH, pa.repeat(pa.scalar(epoch, pa.int64()), rows.num_rows))
    return rows.append_column(WEIGHT, weights.cast(pa.int8()))


def report(written: dict[int, list[RunFile]]) -> Iterable[pa.RecordBatch]:
    lines = [(relation_id, file) for relation_id, files in written.items() for file in files]
    if not lines:
        return
    yield pa.RecordBatch.from_arrays(
        [
            pa.array([relation_id for relation_id, _ in lines], pa.int64()),
            pa.array([file.path for _, file in lines], pa.string()),
            pa.array([file.rows for _, file in lines], pa.int64()),
            pa.array([file.bytes for _, file in lines], pa.int64()),
            pa.array([file.low for _, file in lines], pa.binary()),
            pa.array([file.high for _, file in lines], pa.binary()),
            pa.array([file.groups for _, file in lines], pa.int32()),
            pa.array([file.retractions for _, file in lines], pa.int64()),
        ],
        names=["relation_id", "path", "rows", "bytes", "low", "high", "groups", "retractions"],
    )


def written_files(report_rows: Iterable[Mapping[str, Any]]) -> dict[int, list[RunFile]]:
    """What the tasks reported, by relation, as the driver collected it."""
    files: dict[int, list[RunFile]] = {}
    for line in report_rows:
        files.setdefault(line["relation_id"], []).append(
            RunFile(
                path=line["path"],
                rows=line["rows"],
                bytes=line["bytes"],
                low=bytes(line["low"]),
                high=bytes(line["high"]),
                groups=line["groups"],
                retractions=line["retractions"],
            )
        )
    return files


def _bounded(kind: pa.DataType) -> bool:
    """Whether a minimum and maximum say what a column holds. They leave out NaN, which Spark then does not look for."""
    return not pa.types.is_floating(kind) and not pa.types.is_nested(kind)


def _count_retractions(rows: pa.Table) -> int:
    return pc.sum(pc.less(rows[WEIGHT], 0)).as_py() or 0
