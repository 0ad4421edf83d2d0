"""Columns of a table that has changed: what becomes of ours."""

from __future__ import annotations

import pytest

from headrace.catalog import Column
from headrace.cdc.postgres.database import Postgres
from headrace.cdc.postgres.tables import SourceColumn, SourceTable
from headrace.cdc.postgres.types import SourceType
from headrace.cdc.schema import evolved, same_columns
from headrace.errors import HeadraceError
from headrace.types import SqlType

OURS = (
    Column(name="id", type=SqlType("integer"), nullable=False),
    Column(name="n", type=SqlType("integer")),
    Column(name="v", type=SqlType("varchar")),
)


def table(key: str = "id", generated: tuple[str, ...] = (), **columns: str) -> SourceTable:
    found = tuple(
        SourceColumn(name=name, type=SourceType(name=kind, schema="pg_catalog", text=kind), generated=name in generated)
        for name, kind in columns.items()
    )
    return SourceTable(schema="public", name="t", columns=found, key=(key,))


def described(columns: tuple[Column, ...]) -> dict[str, str]:
    return {column.name: str(column.type) for column in columns}


def test_columns_keep_their_order_and_new_ones_come_last():
    now = table(new="uuid", v="varchar", id="int4", n="int8", made="int4", generated=("made",))
    columns, reduced = evolved(Postgres(), now, OURS, ["id"], {})
    assert described(columns) == {"id": "integer", "n": "bigint", "v": "varchar", "new": "varchar"}
    assert [column.name for column in reduced.columns] == ["id", "n", "v", "new"] and not columns[0].nullable
    columns, _ = evolved(Postgres(), table(id="int4"), OURS, ["id"], {"id": ["m"]})
    assert described(columns) == {"id": "integer"}


@pytest.mark.parametrize(
    ("now", "needs", "said"),
    [
        (
            table(id="int4", n="int4"),
            {"v": ['view "m"']},
            'column "v" is gone from "public"."t", and is needed by view "m"',
        ),
        (table(id="int4", n="int8", v="text"), {"n": ['view "m"']}, 'needed by view "m"'),
        (table(id="int8", n="int4", v="text"), {}, "which integer cannot become"),
        (table(id="int4", n="int2", v="text"), {}, "which integer cannot become"),
        (table(id="int4", n="date", v="text"), {}, "is of type date now"),
        (table(id="int4", n="int4", v="text", key="n"), {}, "the primary key"),
        (table(id="int4", n="int4", v="text", generated=("n",)), {}, '"n" is generated now'),
        (table(id="int4", n="int4", v="text", odd="regclass"), {}, 'column "odd" is of type regclass'),
    ],
)
def test_what_cannot_be_is_said(now, needs, said):
    with pytest.raises(HeadraceError) as caught:
        evolved(Postgres(), now, OURS, ["id"], needs)
    assert said in caught.value.message


def test_named_columns_stay_as_they_are():
    now = table(more="int4", v="text", n="int4", id="int4")
    assert [column.name for column in same_columns(Postgres(), now, OURS, ["id"]).columns] == ["id", "n", "v"]
    for wrong, said in (
        (table(id="int4", n="int4"), '"v" any more'),
        (table(id="int4", n="int8", v="text"), "cannot be had"),
    ):
        with pytest.raises(HeadraceError) as caught:
            same_columns(Postgres(), wrong, OURS, ["id"])
        assert said in caught.value.message
