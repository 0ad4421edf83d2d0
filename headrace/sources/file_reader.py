"""What tasks do with pieces of files (:mod:`headrace.sources.listing`): lines, or rows of Parquet, to rows.

A file may have changed since its piece was seen. What is read is never what came later: a file that is not the same any
more counts as one that vanished, and what has been added to it is a piece of its own.
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.arrow_values import as_stored
from headrace.errors import DataError
from headrace.sources import decoding
from headrace.sources.connector import BadRecord, Decoded
from headrace.sources.definition import OFFSET, PARTITION, Definition
from headrace.sources.listing import Piece
from headrace.state.files import Files
from headrace.types import SqlType

BLOCK = 16_384
TAIL = 1 << 16
HEAD = 256

BATCH_BYTES = 16 << 20
"""Of rows of Parquet that are decoded together, as their footer has it; one row may be larger"""

LONGEST_LINE = 16 << 20
"""Bytes behind its piece that the last line of one may have: a file without any would be held as a whole"""


class FileGone(DataError):
    """A file vanished before it was read, and the source says that this is an error."""


class NotTheSame(Exception):
    """A file is not the one of which a piece was seen."""


# --- what is the same -------------------------------------------------------------------------------------------


def marks_of_lines(opened: Any, end: int) -> str:
    """How a file of lines begins, and what lies before an offset: that stays when it grows.

    >>> from io import BytesIO
    >>> marks_of_lines(BytesIO(b"id\\n1\\n"), 5) == marks_of_lines(BytesIO(b"id\\n1\\n2\\n"), 5)
    True
    """
    first = max(HEAD, end - HEAD)
    return f"{end}:{_digest(_part(opened, 0, min(HEAD, end)) + _part(opened, first, max(first, end)))}"


def has_marks(opened: Any, marks: str) -> bool:
    end, apart, _ = marks.partition(":")
    return not apart or marks_of_lines(opened, int(end)) == marks


def marks_of_parquet(metadata: pq.FileMetaData) -> str:
    """Where all of its columns are, how long, and what values they have."""
    footer = pa.BufferOutputStream()
    metadata.write_metadata_file(footer)
    return _digest(footer.getvalue())


def _part(opened: Any, first: int, end: int) -> bytes:
    if end <= first:
        return b""
    opened.seek(first)
    return opened.read(end - first)


def _digest(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def is_broken(problem: Exception) -> bool:
    """Whether Arrow says that a file is not Parquet, or damaged. What the disk, or the network, says has a number."""
    if isinstance(problem, pa.ArrowException):
        return not isinstance(problem, MemoryError)
    return type(problem) is OSError and problem.errno is None


# --- reading ----------------------------------------------------------------------------------------------------

Task = tuple[tuple[int, Piece], ...]
"""Pieces with their numbers"""


@dataclass(frozen=True, kw_only=True)
class FileReader:
    definition: Definition
    files: Files

    def read(self, task: Task) -> Iterator[Decoded]:
        for number, piece in task:
            try:
                if piece.bad is not None:
                    yield self._bad(number, piece, piece.bad)
                elif piece.end > piece.start and self.definition.encode == "parquet":
                    yield from self._parquet(number, piece)
                elif piece.end > piece.start:
                    yield from self._lines(number, piece)
            except (FileNotFoundError, NotTheSame) as problem:
                if self.definition.gaps_are_errors:
                    became = "was written anew" if isinstance(problem, NotTheSame) else "vanished"
                    raise FileGone(
                        f"{piece.path} {became} before it was read",
                        hint="retention.gaps = 'warn', when the source is created, goes on without such files",
                    ) from None
                yield Decoded(rows=self.definition.schema.empty_table(), lost=piece.rows)

    def _bad(self, number: int, piece: Piece, reason: str) -> Decoded:
        bad = BadRecord(split=number, offset=piece.start, reason=f"{piece.path}: {reason}")
        return Decoded(rows=self.definition.schema.empty_table(), bad=(bad,))

    def _finished(self, number: int, piece: Piece, columns: dict[str, Any], offsets: pa.Array) -> pa.Table:
        count, schema = len(offsets), self.definition.schema
        known = {
            "partition": pa.repeat(pa.scalar(number, pa.int64()), count),
            "offset": offsets,
            "file": pa.repeat(pa.scalar(piece.path, pa.string()), count),
        }
        for each in self.definition.include:
            columns[each.name] = known[each.what]
        columns[PARTITION], columns[OFFSET] = known["partition"], offsets
        return pa.table({name: columns[name] for name in schema.names}, schema=schema)

    # --- Parquet -----------------------------------------------------------------------------------------------

    def _parquet(self, number: int, piece: Piece) -> Iterator[Decoded]:
        try:
            with self.files.open_input(piece.path) as opened, pq.ParquetFile(opened) as parquet:
                if piece.begins_with and marks_of_parquet(parquet.metadata) != piece.begins_with:
                    raise NotTheSame
                names = set(parquet.schema_arrow.names)
                wanted = [name for name, _ in self.definition.columns if name in names]
                at = 0
                for group in range(parquet.metadata.num_row_groups):
                    rows = parquet.metadata.row_group(group).num_rows
                    if at + rows > piece.start and at < piece.end:
                        yield from self._row_group(number, piece, parquet, group, at, wanted)
                    at += rows
        except (pa.ArrowException, OSError) as problem:
            if not is_broken(problem):
                raise
            yield self._bad(number, piece, str(problem).splitlines()[0])

    def _row_group(
        self, number: int, piece: Piece, parquet: pq.ParquetFile, group: int, at: int, wanted: list[str]
    ) -> Iterator[Decoded]:
        of_group = parquet.metadata.row_group(group)
        fit = BATCH_BYTES * of_group.num_rows // max(1, of_group.total_byte_size)
        size = max(1, min(BLOCK * 4, fit))
        for batch in parquet.iter_batches(size, row_groups=[group], columns=wanted, use_threads=False):
            first, last = max(piece.start - at, 0), min(piece.end - at, batch.num_rows)
            if first < last:
                part = batch.slice(first, last - first)
                offsets = np.arange(at + first, at + last, dtype=np.int64)
                bad: list[BadRecord] = []
                try:
                    columns = self._cast(part, wanted)
                except (pa.ArrowInvalid, pa.ArrowTypeError):
                    wrong = self._unfit(part, wanted)
                    bad = [
                        BadRecord(split=number, offset=int(offsets[row]), reason=f"{piece.path}: {wrong[row]}")
                        for row in sorted(wrong)
                    ]
                    kept = np.setdiff1d(np.arange(part.num_rows), list(wrong))
                    columns, offsets = self._cast(part.take(pa.array(kept)), wanted), offsets[kept]
                yield Decoded(rows=self._finished(number, piece, columns, pa.array(offsets)), bad=tuple(bad))
            at += batch.num_rows

    def _cast(self, part: pa.RecordBatch, wanted: list[str]) -> dict[str, pa.Array]:
        """ArrowNotImplementedError, if a column has a type of which nothing can ever fit."""
        return {
            name: _fitted(part.column(name), kind) if name in wanted else pa.nulls(part.num_rows, kind.arrow)
            for name, kind in self.definition.columns
        }

    def _unfit(self, part: pa.RecordBatch, wanted: list[str]) -> dict[int, str]:
        """Rows with a value that its column cannot hold, and why."""
        found: dict[int, str] = {}
        for name, kind in self.definition.columns:
            for row in range(part.num_rows) if name in wanted else ():
                try:
                    _fitted(part.column(name).slice(row, 1), kind)
                except (pa.ArrowInvalid, pa.ArrowTypeError) as problem:
                    found.setdefault(row, f'column "{name}": {str(problem).splitlines()[0]}')
        return found

    # --- lines -------------------------------------------------------------------------------------------------

    def _lines(self, number: int, piece: Piece) -> Iterator[Decoded]:
        """Lines that begin within the piece."""
        at = max(piece.start - 1, 0)
        with self.files.open_input(piece.path) as opened:
            if not has_marks(opened, piece.begins_with):
                raise NotTheSame
            definition, skipped = self._header(opened)
            data = _part(opened, at, piece.end)
            if len(data) < piece.end - at:
                raise NotTheSame  # it was cut off meanwhile
            if piece.start > 0:
                cut = data.find(b"\n") + 1
                at, data = (at + cut, data[cut:]) if cut else (piece.end, b"")
            if at < piece.end and not data.endswith(b"\n"):  # the last line ends behind the piece
                data += _rest_of_line(opened, piece)
        lines = data.split(b"\n")
        if len(lines[-1]) > LONGEST_LINE:
            reason = f"{piece.path}: a line has more than {LONGEST_LINE} bytes"
            bad = BadRecord(split=number, offset=at + len(data) - len(lines[-1]), reason=reason)
            yield Decoded(rows=self.definition.schema.empty_table(), bad=(bad,))
            lines.pop()
        offsets, values = [], []
        for line in lines:
            if at >= skipped and line.strip():
                offsets.append(at)
                values.append(line.removesuffix(b"\r"))
            at += len(line) + 1
        for first in range(0, len(values), BLOCK):
            yield self._decoded(
                number, piece, definition, offsets[first : first + BLOCK], values[first : first + BLOCK]
            )

    def _header(self, opened: Any) -> tuple[Definition, int]:
        """The columns in the file's own order, and where its first line ends, if that names them."""
        definition = self.definition
        if definition.encode != "csv" or not decoding.has_header(definition):
            return definition, 0
        opened.seek(0)
        line = opened.read(TAIL).split(b"\n", 1)[0]
        text = line.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").rstrip("\r")
        fields = csv.reader([text], delimiter=decoding.delimiter_of(definition), skipinitialspace=True)
        try:
            names = [each.strip() for each in next(fields, [])]
        except csv.Error:  # it names nothing: then each line says what is wrong with it
            names = []
        return decoding.in_order_of(definition, names), len(line) + 1

    def _decoded(
        self, number: int, piece: Piece, definition: Definition, offsets: list[int], values: list[bytes]
    ) -> Decoded:
        columns, faults = decoding.decode(definition, values)
        bad = tuple(
            BadRecord(split=number, offset=offsets[each.at], reason=f"{piece.path}: {each.reason}", raw=values[each.at])
            for each in faults
        )
        wrong = {each.at for each in faults}
        good = pa.array([offset for at, offset in enumerate(offsets) if at not in wrong], pa.int64())
        for name, kind in self.definition.columns:
            if name not in columns:
                columns[name] = pa.nulls(len(good), kind.arrow)
        return Decoded(rows=self._finished(number, piece, columns, good), bad=bad)


def _fitted(values: pa.Array, kind: SqlType) -> pa.Array:
    found = as_stored(values, kind)
    if kind.name == "real" and pa.types.is_floating(values.type):
        if pc.any(pc.and_(pc.is_inf(found), pc.is_finite(values))).as_py():
            raise pa.ArrowInvalid("a number is too large for type real")
    return found


def _rest_of_line(opened: Any, piece: Piece) -> bytes:
    """What lies behind the piece of its last line. What was not there when the file was seen is never a part of it."""
    parts: list[bytes] = []
    at = piece.end
    while at < piece.size and at <= piece.end + LONGEST_LINE:
        more = _part(opened, at, min(at + TAIL, piece.size))
        end = more.find(b"\n") + 1
        parts.append(more[:end] if end else more)
        at += len(more)
        if end or not more:
            break
    return b"".join(parts)
