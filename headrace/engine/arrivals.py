"""Rows that a client brings piece by piece, to be written together or not at all.

Few of them are kept, and become a small change of their epoch. Many wait in scratch files of the warehouse; then only
executors touch them, and the driver holds one file's worth at a time, however many there are.
"""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from headrace.catalog import ROW_ID, Relation
from headrace.engine.changes import SMALL_BYTES, SMALL_ROWS, InsertFrame, InsertRows, StagedRows
from headrace.engine.inserts import insert_arrow
from headrace.engine.small import with_vnode
from headrace.state.layout import Layout
from headrace.state.ranges import Staged
from headrace.state.runs import VNODE
from headrace.types import quote_spark

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

GROUPS = 16
"""Row groups of a file: it is sorted by vnode, so that a task, which owns a range of them, reads a few."""


class Arrivals:
    """A context: the files go with it. ``add`` pieces, then write the :attr:`change` before it ends."""

    def __init__(self, engine: Engine, relation: Relation):
        self._engine, self._relation = engine, relation
        self._layout = Layout.of(relation)
        self._kept: list[pa.Table] = []
        self._folder = f"staging/{uuid.uuid4().hex}"
        self._staged: list[Staged] = []

    def __enter__(self) -> Arrivals:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._staged:
            self._engine.storage.delete([self._folder])
            self._engine.arriving.difference_update(file.path for file in self._staged)

    def add(self, rows: pa.Table) -> None:
        """Some of the table's columns, by name; what is wrong with them is said now."""
        self._kept.append(insert_arrow(self._engine, self._relation, rows).rows)
        rows_kept, bytes_kept = (sum(getattr(each, of) for each in self._kept) for of in ("num_rows", "nbytes"))
        if rows_kept > SMALL_ROWS or bytes_kept > SMALL_BYTES:
            self._stage()

    @property
    def change(self) -> InsertRows | InsertFrame | StagedRows:
        if not self._staged:
            return InsertRows(rows=pa.concat_tables(self._kept) if self._kept else self._nothing)
        self._stage()
        if self._is_keyed:
            return StagedRows(files=tuple(self._staged))
        return InsertFrame(build=lambda _: self._frame())

    @property
    def _is_keyed(self) -> bool:
        """Whether rows know where they belong: they have a key, and none can come too late."""
        return self._layout.key_names != [ROW_ID] and self._relation.lateness is None

    @property
    def _nothing(self) -> pa.Table:
        return pa.schema([self._layout.row_schema.field(name) for name in self._names]).empty_table()

    @property
    def _names(self) -> list[str]:
        return [name for name in self._layout.names if name != ROW_ID]

    def _stage(self) -> None:
        if not self._kept:
            return
        rows = pa.concat_tables(self._kept).combine_chunks()
        self._kept = []
        if self._is_keyed:
            # The sort is stable: of two rows with one key the one that came last stays the last.
            rows = with_vnode(self._layout, rows)
            rows = rows.sort_by(VNODE)
        storage, path = self._engine.storage, f"{self._folder}/{len(self._staged):06}.parquet"
        if not self._staged:
            storage.make_dirs(self._folder)
        self._engine.arriving.add(path)
        # Named before it is there, so that it goes whatever happens.
        self._staged.append(Staged(path=path, rows=rows.num_rows, bytes=rows.nbytes))
        with storage.files.open_scratch(path) as sink:
            pq.write_table(rows, sink, compression="lz4", row_group_size=-(-rows.num_rows // GROUPS))

    def _frame(self) -> DataFrame:
        columns = ((name, self._layout.types[name].spark) for name in self._names)
        schema = ", ".join(f"{quote_spark(name)} {kind}" for name, kind in columns)
        reader = self._engine.spark.read.schema(schema).option("__globPaths__", "false")
        return reader.parquet(*(self._engine.storage.uri(file.path) for file in self._staged))
