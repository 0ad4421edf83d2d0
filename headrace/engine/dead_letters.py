"""Events that could not be read, kept: the table that bad.records = 'dead_letter' makes, and its rows."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

import pyarrow as pa

from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Relation
from headrace.engine.changes import InsertRows
from headrace.engine.coordinator import Write
from headrace.sources.connector import BadRecord
from headrace.sources.definition import DEAD_LETTER, Definition
from headrace.types import SqlType, quote_sql


def with_dead_letters(
    catalog: Catalog, source: Relation, definition: Definition, epoch: int
) -> tuple[Catalog, int | None]:
    """With a table for the bad events of a source, or of a table that events change, if they are to be kept; its id."""
    if definition.on_bad != DEAD_LETTER:
        return catalog, None
    table = dead_letter_table(catalog.next_id, source, epoch)
    return catalog.add(table), table.id


def dead_letter_table(id: int, source: Relation, epoch: int) -> Relation:
    """A table like any other: who has looked at a row may delete it. An event that several views miss is in it once.

    One that is read again when too many are bad at once comes without its content, and keeps what is there of it.
    """
    name = f"{source.name}_dead_letters"
    kinds = {"partition": "bigint", "offset": "bigint", "at": "timestamptz", "reason": "varchar", "raw": "bytea"}
    key = ("partition", "offset")
    columns = tuple(
        Column(name=column, type=SqlType(kind), nullable=column not in key) for column, kind in kinds.items()
    )
    definition = (
        f'CREATE TABLE {quote_sql(name)} (partition BIGINT, "offset" BIGINT, at TIMESTAMPTZ, reason VARCHAR, raw BYTEA,'
        ' PRIMARY KEY (partition, "offset")) ON CONFLICT DO UPDATE IF NOT NULL'
    )
    return Relation(
        id=id, name=name, kind=TABLE, columns=columns, pk=tuple(KeyColumn(name=each) for each in key),
        distribution=key, on_conflict="update_if_not_null", definition=definition, created_epoch=epoch,
    )  # fmt: skip


def dead_letters(catalog: Catalog, table_id: int | None, bad: Sequence[BadRecord]) -> list[Write]:
    """What keeps bad events, unless nobody wants them, or their table is gone."""
    if not bad or table_id not in catalog.relations:
        return []
    now = datetime.datetime.now(datetime.UTC)
    rows = pa.table(
        {
            "partition": pa.array([each.split for each in bad], pa.int64()),
            "offset": pa.array([each.offset for each in bad], pa.int64()),
            "at": pa.array([now] * len(bad), pa.timestamp("us", tz="UTC")),
            "reason": pa.array([each.reason for each in bad], pa.string()),
            "raw": pa.array([each.raw for each in bad], pa.binary()),
        }
    )
    return [Write(table_id=table_id, change=InsertRows(rows=rows))]
