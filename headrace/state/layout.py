"""How a relation's rows lie in a run: its columns, then the three that Headrace adds.

A layout is all that an executor needs to write, read or merge a relation's runs: it is pure, small and pickles.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog import KeyColumn, Relation
from headrace.state.keys import KeyCodec
from headrace.state.runs import EPOCH, VNODE, WEIGHT
from headrace.types import SqlType, quote_spark

INTERNAL = (
    (VNODE, pa.int16(), "SMALLINT"),
    (EPOCH, pa.int64(), "BIGINT"),
    (WEIGHT, pa.int8(), "TINYINT"),
)

LEFT_OUT = {EPOCH: 0, WEIGHT: 1}
"""Columns that a file may leave out, and what they then are for all of its rows.

A large chunk of a backfill puts rows that are older than whatever happens to them later. Two columns that say so in
every row would cost a sixth of writing them.
"""


_LAYOUT = "_layout"
"""Under which a relation, which never changes, holds its layout; no field of it, so nothing compares or stores it."""

_ARROW_ORDERS = (
    "smallint", "integer", "bigint", "numeric", "varchar", "uuid", "date", "time", "timestamp", "timestamptz",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Layout:
    relation_id: int
    columns: tuple[tuple[str, SqlType], ...]
    pk: tuple[KeyColumn, ...]
    distribution: tuple[str, ...]
    time: str | None = None
    """The column that its watermark follows, of which files say the latest."""

    @staticmethod
    def of(relation: Relation) -> Layout:
        """Worked out once: an epoch asks for it dozens of times, and schemas and codecs follow from it."""
        held = vars(relation)
        if _LAYOUT not in held:
            held[_LAYOUT] = Layout(
                relation_id=relation.id,
                columns=tuple((column.name, column.type) for column in relation.columns),
                pk=relation.pk,
                distribution=relation.distribution,
                time=None if relation.lateness is None else relation.lateness.column,
            )
        return held[_LAYOUT]

    def __getstate__(self) -> dict[str, Any]:
        """The fields alone: what follows from them is worked out again where needed, and not all of it pickles."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @cached_property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @cached_property
    def key_names(self) -> list[str]:
        return [key.name for key in self.pk]

    @cached_property
    def types(self) -> dict[str, SqlType]:
        return dict(self.columns)

    @cached_property
    def codec(self) -> KeyCodec:
        return KeyCodec([(self.types[key.name], key) for key in self.pk])

    @cached_property
    def row_schema(self) -> pa.Schema:
        return pa.schema([pa.field(name, kind.arrow) for name, kind in self.columns])

    @cached_property
    def stored_schema(self) -> pa.Schema:
        schema = self.row_schema
        for name, kind, _ in INTERNAL:
            schema = schema.append(pa.field(name, kind))
        return schema

    @cached_property
    def spark_schema(self) -> str:
        """The stored row in Spark's DDL."""
        return ", ".join([self.row_ddl, *(f"{quote_spark(name)} {ddl}" for name, _, ddl in INTERNAL)])

    @cached_property
    def row_ddl(self) -> str:
        return ", ".join(f"{quote_spark(name)} {kind.spark}" for name, kind in self.columns)

    @cached_property
    def delta_schema(self) -> str:
        """A delta's row in Spark's DDL: it belongs to one epoch, so it names none."""
        return ", ".join([self.row_ddl, *(f"{quote_spark(name)} {ddl}" for name, _, ddl in INTERNAL if name != EPOCH)])

    def stored(self, rows: pa.Table) -> pa.Table:
        """What was read from a file, in the stored schema."""
        return self.completed(rows, self.stored_schema.names)

    def completed(self, rows: pa.Table, names: Sequence[str]) -> pa.Table:
        """Some stored columns of what was read from a file."""
        for name, value in LEFT_OUT.items():
            if name not in rows.column_names:
                kind = self.stored_schema.field(name).type
                rows = rows.append_column(name, pa.repeat(pa.scalar(value, kind), rows.num_rows))
        for name in names:
            if name not in rows.column_names:  # a column that came after the file was written; Spark reads it so, too
                rows = rows.append_column(name, pa.nulls(rows.num_rows, self.stored_schema.field(name).type))
        if rows.column_names != list(names):
            rows = rows.select(names)
        schema = self.stored_schema
        if len(names) != len(schema):
            schema = pa.schema([schema.field(name) for name in names])
        return rows if rows.schema.equals(schema) else rows.cast(schema)

    def replica(self) -> Layout:
        """For copies of the relation's deltas, which lie in a folder of their own."""
        return dataclasses.replace(self, relation_id=-self.relation_id)

    def encode(self, rows: pa.Table) -> list[bytes]:
        """The (vnode, pk) of each row as bytes in the order of the state table."""
        return self.codec.encode_table(rows, self.key_names, vnodes=rows[VNODE].to_numpy())

    def first_key(self, rows: pa.Table) -> tuple[bytes, bytes] | None:
        """For :attr:`headrace.state.runs.RunFile.first_key`, where Arrow orders the type as keys are ordered."""
        name = self.key_names[0]
        if rows.num_rows == 0 or self.types[name].name not in _ARROW_ORDERS or rows[name].null_count:
            return None
        ends = pc.min_max(rows[name])
        low, high = sorted(self.codec.encode([ends[end].as_py()]) for end in ("min", "max"))
        return low, high

    def bound(self, rows: pa.Table, index: int) -> bytes:
        return self.encode(rows.slice(index, 1))[0]

    @property
    def folder(self) -> str:
        # A replica of a relation's deltas (headrace/engine/replica.py) goes by the negative of its id.
        return f"data/{self.relation_id}" if self.relation_id > 0 else f"replica/{-self.relation_id}"
