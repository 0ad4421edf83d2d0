"""Rows of PostgreSQL's log as changes of ours."""

from __future__ import annotations

import pytest

from headrace.cdc.changelog import UNCHANGED, Change, Truncate
from headrace.cdc.postgres.pgoutput import LogColumn, LogRelation, RowChange, Truncated
from headrace.cdc.postgres.tables import LogReader, SourceColumn, SourceTable, TableStopped
from headrace.cdc.postgres.types import SourceType

TEXT = SourceType(name="varchar", schema="pg_catalog", text="character varying(9)")
TABLE = SourceTable(
    schema="public", name="t", oid=7, key=("k",),
    columns=(
        SourceColumn(name="v", type=TEXT, type_oid=1043, type_modifier=13),
        SourceColumn(name="k", type=TEXT, type_oid=25),
    ),
)  # fmt: skip


def relation(identity: str = "d", **changed) -> LogRelation:
    columns = (LogColumn("k", 25, -1, True), LogColumn("more", 25, -1, False), LogColumn("v", 1043, 13, False))
    return LogRelation(
        **({"oid": 7, "schema": "public", "name": "t", "identity": identity, "columns": columns} | changed)
    )


def changes(kind: str, old, new, identity: str = "d"):
    found = relation(identity)
    return LogReader(TABLE, found).changes(RowChange(found, kind, old, new))


def test_columns_are_found_by_name():
    assert changes("I", None, ("1", "x", "a")) == [Change(key=("1",), values=("a", "1"))]
    assert changes("U", None, ("1", "x", UNCHANGED)) == [Change(key=("1",), values=(UNCHANGED, "1"))]
    assert changes("D", ("1", None, None), None) == [Change(key=("1",))]


def test_a_row_that_moves_is_two_changes_the_new_one_first():
    assert changes("U", ("1", None, None), ("2", "x", UNCHANGED)) == [
        Change(key=("2",), values=(UNCHANGED, "2"), origin=("1",)),
        Change(key=("1",)),
    ]


def test_a_full_identity_has_what_is_unchanged():
    assert changes("U", ("1", "x", "large"), ("1", "y", UNCHANGED), "f") == [Change(key=("1",), values=("large", "1"))]


def test_a_key_that_is_stored_out_of_line():
    assert changes("U", ("long", None, None), (UNCHANGED, "x", "a")) == [Change(key=("long",), values=("a", "long"))]


def test_truncate():
    found = relation()
    assert LogReader(TABLE, found).changes(Truncated((found,))) == [Truncate()]


def test_a_wider_column_is_no_other_column():
    wider = (LogColumn("k", 25, -1, True), LogColumn("v", 1043, 24, False))
    LogReader(TABLE, relation(columns=wider))


@pytest.mark.parametrize(
    "changed",
    [
        {"oid": 8},
        {"columns": (LogColumn("k", 25, -1, True),)},
        {"columns": (LogColumn("k", 25, -1, True), LogColumn("v", 25, -1, False))},
        {"columns": (LogColumn("k", 25, -1, True), LogColumn("v", 1043, 8, False))},
    ],
)
def test_a_table_that_has_become_another_stops(changed):
    with pytest.raises(TableStopped):
        LogReader(TABLE, relation(**changed))


def test_an_identity_without_the_key_stops_the_table():
    columns = (LogColumn("k", 25, -1, False), LogColumn("v", 1043, 13, True))
    found = relation("i", columns=columns)
    with pytest.raises(TableStopped, match="REPLICA IDENTITY|primary key"):
        LogReader(TABLE, found).changes(RowChange(found, "D", (None, "a"), None))
    with pytest.raises(TableStopped, match="REPLICA IDENTITY|primary key"):  # without a word of what the key was
        LogReader(TABLE, found).changes(RowChange(found, "U", None, ("2", "a")))
