"""Reading ranges of a PostgreSQL table by several connections, as of one snapshot.

The driver holds the snapshot open; a task joins it, copies its range of keys as CSV, and makes columns of the text:
block by block as it comes (:mod:`headrace.cdc.postgres.copying`), or by way of a file, if that cannot be. Tasks hold
AccessShare locks and nothing else, and end with their range.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from headrace.cdc.changelog import Key
from headrace.cdc.database import Hold, SplitReader
from headrace.cdc.postgres.copying import blocks, in_blocks
from headrace.cdc.postgres.server import Address, before_header, parse_lsn
from headrace.cdc.postgres.snapshots import Snapshot
from headrace.cdc.postgres.tables import SourceTable, literal
from headrace.cdc.problems import SourceRefused
from headrace.cdc.rereads import Reread
from headrace.cdc.values import column
from headrace.state.layout import Layout

BUFFERED = 1 << 20
"""Bytes of a split that a task holds before they go to its file. A row is a call of its own, which is in Python if the
file is a spooled one: receiving then took about twice as long."""

BLOCK = 16 << 20
"""Bytes of CSV in a file that become one piece of columns; more, if a row is larger"""

LARGEST_BLOCK = (1 << 31) - 1


@dataclass(frozen=True, kw_only=True)
class CopySplit:
    snapshot: str
    """By the name under which the driver has exported it"""
    copy: str
    rewritten: str
    """Asks whether the table was written anew meanwhile"""


@dataclass(frozen=True, kw_only=True)
class CopyRange(SplitReader):
    address: Address

    def tables(self, split: CopySplit, layout: Layout) -> Iterator[pa.Table]:
        with self.address.errors():
            connection = self.address.connect()
            try:
                connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
                with connection.cursor() as cursor:
                    cursor.execute(f"SET TRANSACTION SNAPSHOT {literal(split.snapshot)}")
                    if in_blocks(connection):
                        yield from (_block_columns(block, layout) for block in blocks(connection, split.copy))
                    else:
                        yield from self._from_file(cursor, split.copy, layout)
                    cursor.execute(split.rewritten)  # with the lock still held, so it stays as it is
                    if cursor.fetchone()[0]:
                        raise SourceRefused("a table was written anew while it was read; it is read again")
            finally:
                connection.close()

    def _from_file(self, cursor: Any, copy: str, layout: Layout) -> Iterator[pa.Table]:
        with tempfile.TemporaryFile(buffering=BUFFERED) as copied:
            cursor.copy_expert(copy, copied)
            if copied.tell():
                copied.seek(0)
                yield from _columns(copied, layout)


_BY_ARROW = ("smallint", "integer", "bigint", "numeric", "date", "real", "double precision")
"""Types of which Arrow reads exactly what PostgreSQL prints, without a column of texts between"""


def _read_by_arrow(layout: Layout) -> dict[str, pa.DataType]:
    return {name: kind.arrow for name, kind in layout.columns if kind.name in _BY_ARROW}


def _block_columns(block: memoryview, layout: Layout) -> pa.Table:
    """Of lines with a column more before them."""
    read = _read_by_arrow(layout)
    try:
        return _to_columns(_block_texts(block, layout.names, read), layout, read)
    except pa.ArrowInvalid:
        _name_what_does_not_fit(_block_texts(block, layout.names, {}), layout)
        raise


def _block_texts(block: memoryview, names: Sequence[str], types: Mapping[str, pa.DataType]) -> pa.Table:
    more = "".join(names) + "_"  # none of them
    return pc.read_csv(
        pa.BufferReader(pa.py_buffer(block)),
        read_options=pc.ReadOptions(column_names=[more, *names], block_size=len(block) + 1, use_threads=False),
        parse_options=_PARSED,
        convert_options=_converted(names, types),
    )


def _columns(copied: Any, layout: Layout) -> Iterator[pa.Table]:
    read = _read_by_arrow(layout)
    try:
        for batch in _read(copied, layout.names, read):
            yield _to_columns(batch, layout, read)
    except pa.ArrowInvalid:
        copied.seek(0)
        for batch in _texts(copied, layout.names):
            _name_what_does_not_fit(batch, layout)
        raise


def _to_columns(texts: pa.Table | pa.RecordBatch, layout: Layout, read: Mapping[str, pa.DataType]) -> pa.Table:
    columns = [texts[name] if name in read else column(texts[name], layout.types[name], name) for name in layout.names]
    return pa.table(columns, schema=layout.row_schema)


def _name_what_does_not_fit(texts: pa.Table | pa.RecordBatch, layout: Layout) -> None:
    """Arrow says neither the column nor the value."""
    for name in layout.names:
        column(texts[name], layout.types[name], name)


def _texts(copied: Any, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    yield from _read(copied, names, {})


def _read(copied: Any, names: Sequence[str], types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
    """In larger blocks from a row on that is longer than a block."""
    block, done = BLOCK, 0
    while True:
        passed = 0
        try:
            options = pc.ReadOptions(column_names=names, block_size=block)
            for batch in pc.open_csv(
                copied, read_options=options, parse_options=_PARSED, convert_options=_converted(names, types)
            ):
                fresh = batch.slice(min(batch.num_rows, done - passed))
                passed += batch.num_rows
                if fresh.num_rows:
                    done += fresh.num_rows
                    yield fresh
            return
        except pa.ArrowInvalid as problem:
            if "straddling" not in str(problem) or block == LARGEST_BLOCK:
                raise
        block = min(4 * block, LARGEST_BLOCK)
        copied.seek(0)


_PARSED = pc.ParseOptions(newlines_in_values=True)


def _converted(names: Sequence[str], types: Mapping[str, pa.DataType]) -> pc.ConvertOptions:
    return pc.ConvertOptions(
        include_columns=names,
        column_types={name: types.get(name, pa.string()) for name in names},
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,
    )


class SharedSnapshot(Hold):
    """A snapshot that the driver holds open, and what it shows. It has no lock on any table."""

    def __init__(self, address: Address):
        self.address = address
        self._connection = address.connect()
        try:
            with address.errors():
                self._connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
                # One statement: the snapshot is taken before anything in it is worked out, so what it shows was
                # committed before the position.
                name, snapshot, lsn, block = self._row(
                    "SELECT pg_export_snapshot(), pg_current_snapshot()::text, pg_current_wal_insert_lsn()::text,"
                    " current_setting('wal_block_size')::int"
                )
        except BaseException:
            self.close()
            raise
        self._name, self._snapshot = name, Snapshot.parse(snapshot)
        self.high = before_header(parse_lsn(lsn), block)

    def _row(self, sql: str) -> tuple:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()

    def sees(self, transaction: int) -> bool:
        return self._snapshot.sees(transaction)

    def copy(self, copy: str, into: Any) -> None:
        with self.address.errors(), self._connection.cursor() as cursor:
            cursor.copy_expert(copy, into)

    def reader(self) -> CopyRange:
        return CopyRange(address=self.address)

    def split(self, table: SourceTable, start: Key | None, end: Key | None) -> CopySplit:
        copy = table.copied(table.rows_between(start, end))
        return CopySplit(snapshot=self._name, copy=copy, rewritten=table.rewritten())

    def read(self) -> None:
        pass

    def close(self) -> None:
        self._connection.close()


def rows_now(address: Address, table: SourceTable, keys: Sequence[Key]) -> Reread:
    """Single rows, as text, and as of when they were read."""
    held, names = SharedSnapshot(address), [column.name for column in table.columns]
    found: dict[Key, tuple | None] = dict.fromkeys(keys)
    try:
        with tempfile.TemporaryFile(buffering=BUFFERED) as copied:
            held.copy(table.copied(table.rows_of(keys)), copied)
            if copied.tell():
                copied.seek(0)
                for batch in _texts(copied, names):
                    for row in zip(*(each.to_pylist() for each in batch.columns), strict=True):
                        found[tuple(row[names.index(name)] for name in table.key)] = row
    finally:
        held.close()
    return Reread(rows=found, sees=held.sees, high=held.high)
