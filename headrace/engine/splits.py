"""Reading a chunk of another database's table: its splits, by executors, side by side, as of one snapshot.

The driver holds the snapshot open; a task joins it, copies its range of keys as CSV, makes columns of the text, and
stages them as Parquet. Tasks hold AccessShare locks and nothing else, and end with their range.
"""

from __future__ import annotations

import pickle
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from headrace.cdc.changelog import Key
from headrace.cdc.postgres.server import Address, Control, SourceRefused, before_header, parse_lsn
from headrace.cdc.postgres.snapshots import Snapshot
from headrace.cdc.postgres.tables import SourceTable, literal
from headrace.cdc.values import column
from headrace.engine.spark import spark_errors, use_pool
from headrace.errors import HeadraceError
from headrace.failpoints import failpoint
from headrace.state.files import Files
from headrace.state.layout import Layout
from headrace.state.prepared import run_tasks
from headrace.state.ranges import Staged
from headrace.state.runs import VNODE
from headrace.state.storage import Storage
from headrace.state.vnode import vnodes_of

IN_MEMORY = 32 << 20
"""Bytes of a split that a task holds; what is more goes to a file on its disk"""

BLOCK = 16 << 20
"""Bytes of CSV that become one piece of columns; no row may be larger"""

_REPORT = "path STRING, rows BIGINT, bytes BIGINT, error BINARY"


@dataclass(frozen=True, kw_only=True)
class ReadSplit:
    """A task body: pickled (path, statements, query) in, what it staged out."""

    address: Address
    files: Files
    layout: Layout

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                path, snapshot, query, rewritten = pickle.loads(packed)
                rows, size, error = 0, 0, None
                try:
                    rows, size = self._read(path, snapshot, query, rewritten)
                except HeadraceError as problem:
                    # Handed over, not raised: Spark would try the task again, and bury the reason.
                    error = pickle.dumps(problem)
                yield pa.record_batch(
                    {"path": [path], "rows": [rows], "bytes": [size], "error": pa.array([error], pa.binary())}
                )

    def _read(self, path: str, snapshot: str, query: str, rewritten: str) -> tuple[int, int]:
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY) as copied:
            self._copy(snapshot, query, rewritten, copied)
            size = copied.tell()
            if size == 0:
                return 0, 0
            copied.seek(0)
            return self._stage(path, copied), size

    def _copy(self, snapshot: str, query: str, rewritten: str, into) -> None:
        with self.address.errors():
            connection = self.address.connect()
            try:
                connection.set_session(isolation_level="REPEATABLE READ", readonly=True)
                with connection.cursor() as cursor:
                    cursor.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}")
                    # Every value in quotes: so that NULL, which has none, is not an empty text.
                    cursor.copy_expert(f"COPY ({query}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)", into)
                    cursor.execute(rewritten)  # with the lock still held, so it stays as it is
                    if cursor.fetchone()[0]:
                        raise SourceRefused("a table was written anew while it was read; it is read again")
            finally:
                connection.close()

    def _stage(self, path: str, copied) -> int:
        names, rows = self.layout.names, 0
        reader = pc.open_csv(
            copied,
            read_options=pc.ReadOptions(column_names=names, block_size=BLOCK),
            parse_options=pc.ParseOptions(newlines_in_values=True),
            convert_options=pc.ConvertOptions(
                column_types={name: pa.string() for name in names},
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        kinds = [self.layout.types[name] for name in self.layout.distribution]
        schema = self.layout.row_schema.append(pa.field(VNODE, pa.int16()))
        with self.files.open_scratch(path) as sink, pq.ParquetWriter(sink, schema, compression="lz4") as writer:
            for batch in reader:
                columns = [column(batch[name], self.layout.types[name], name) for name in names]
                table = pa.table(columns, schema=self.layout.row_schema)
                vnodes = pa.array(vnodes_of(table, self.layout.distribution, kinds), pa.int16())
                writer.write_table(table.append_column(schema.field(VNODE), vnodes))
                rows += batch.num_rows
        return rows


def split_bounds(
    control: Control, table: SourceTable, start: Key | None, *, splits: int, rows: int
) -> list[Key | None]:
    """Where the next splits end; the last None, if there is nothing behind it.

    Asked for apart from the snapshot: who holds a lock on the table and waits for tasks that want one, waits for ever
    once somebody who wants all of it has come between them.
    """
    found: list[Key | None] = []
    for _ in range(splits):
        ends = control.rows(table.key_after(start, rows))
        start = ends[0] if ends else None
        found.append(start)
        if start is None:
            break
    return found


class ReadSnapshot:
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
        self.name, self.snapshot = name, Snapshot.parse(snapshot)
        self.high = before_header(parse_lsn(lsn), block)

    def _row(self, sql: str) -> tuple | None:
        with self._connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetchone()

    def close(self) -> None:
        self._connection.close()


def read_chunk(
    spark: SparkSession, storage: Storage, layout: Layout, table: SourceTable, held: ReadSnapshot, bounds: Sequence
) -> list[Staged]:
    """``bounds`` are the start of the first split and the ends of all of them. The snapshot is closed."""
    folder = f"staging/{uuid.uuid4().hex}"
    try:
        use_pool(spark, "backfill")
        storage.make_dirs(folder)
        tasks = [
            pickle.dumps((f"{folder}/{number}.parquet", held.name, table.rows_between(start, end), table.rewritten()))
            for number, (start, end) in enumerate(zip(bounds, bounds[1:], strict=False))
        ]
        body = ReadSplit(address=held.address, files=storage.files, layout=layout)
        with spark_errors(f"reading {table.full_name}"):
            lines = run_tasks(spark, body, tasks, _REPORT).to_pylist()
        failpoint("after_split")
        for line in lines:
            if line["error"] is not None:
                raise pickle.loads(line["error"])
        return [Staged(path=line["path"], rows=line["rows"], bytes=line["bytes"]) for line in lines if line["rows"]]
    except BaseException:
        storage.delete([folder])
        raise
    finally:
        held.close()
