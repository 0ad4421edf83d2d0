"""Rows of PostgreSQL's log as changes of ours."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.cdc.changelog import UNCHANGED, Change, Truncate
from headrace.cdc.postgres.database import Postgres
from headrace.cdc.postgres.pgoutput import LogColumn, LogRelation, RowChange, Truncated
from headrace.cdc.postgres.tables import LogReader, Partition, SourceColumn, SourceTable, TableStopped, check_partitions
from headrace.cdc.postgres.types import SourceType
from headrace.cdc.problems import SchemaChanged

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


# --- partitions --------------------------------------------------------------------------------------------------

PARTED = SourceTable(schema="public", name="p", columns=(), key=(), oid=7, files=(1, 2))
LOOKED_AT = {"10": 1, "11": 2}


def parts(**attached: bool):
    return lambda files: {oid: Partition(file, attached.get(f"p{oid}", False)) for oid, file in files.items()}


@pytest.mark.parametrize("before", [None, LOOKED_AT])
def test_partitions_that_change_by_themselves_are_noticed(before):
    plain, attached = parts(), parts(p10=True, p12=True)
    assert not check_partitions(PARTED, before, plain({10: 1, 11: 2, 12: 3}))  # one has come
    assert check_partitions(PARTED, before, plain({10: 8, 11: 9}))  # all of them: that may be in the log
    for now in ({10: 1}, {10: 1, 11: 9}, {12: 1}):
        with pytest.raises(SchemaChanged, match="partition"):
            check_partitions(PARTED, before, plain(now))
    with pytest.raises(SchemaChanged, match="attached with its rows"):
        check_partitions(PARTED, before, attached({10: 1, 11: 2, 12: 3}))
    assert not check_partitions(PARTED, before, attached({10: 1, 11: 2}))  # it was one when the table was created
    assert not check_partitions(PARTED, {}, attached({10: 8}))
    assert not check_partitions(PARTED, {"10": 0, "11": 0}, plain({10: 8, 11: 2}))


def test_partitions_that_were_all_written_anew_are_explained_by_the_log_or_by_nothing():
    """Whether there is a TRUNCATE in the log is known once it has been taken up to where it ended then."""
    now = {7: {10: 1, 11: 2}}
    asked = {"shapes": {}, "names": {}, "keys": {}, "labels": {}, "rewritten_columns": {}}
    answers: dict[str, Any] = {name: (lambda oids, found=found: found) for name, found in asked.items()}
    partitions = lambda oids: {oid: parts()(files) for oid, files in now.items()}  # noqa: E731
    control = cast(Any, SimpleNamespace(**answers, partitions=partitions, log_end=lambda: 100))
    server = Postgres()
    assert server.changed(control, [PARTED], 50) == {PARTED: False}
    assert server.looked_at() == {"partitions": {"7": LOOKED_AT}}
    now = {7: {10: 3, 11: 4}}
    for position in (50, 99):
        assert server.changed(control, [PARTED], position) == {PARTED: False}
        assert server.looked_at() == {"partitions": {"7": LOOKED_AT}}
    server.reader(PARTED, relation(name="p", columns=())).changes(Truncated((relation(),)))
    assert server.looked_at() == {"partitions": {"7": {"10": 0, "11": 0}}}
    assert server.changed(control, [PARTED], 150) == {PARTED: False}
    assert server.looked_at() == {"partitions": {"7": {"10": 3, "11": 4}}}
    now = {7: {10: 5, 11: 6}}
    assert server.changed(control, [PARTED], 99) == {PARTED: False}
    (found,) = server.changed(control, [PARTED], 100).values()
    assert isinstance(found, SchemaChanged) and "by themselves" in found.message
