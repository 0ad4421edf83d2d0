"""Types of PostgreSQL as ours, and text as values."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.cdc.postgres.snapshots import Snapshot, widened
from headrace.cdc.postgres.tables import SourceColumn, SourceTable
from headrace.cdc.postgres.types import SourceType, checked, natural
from headrace.cdc.values import column
from headrace.errors import DataError, InvalidDefinition, Unsupported
from headrace.types import SqlType, array_of


def source_type(name, modifier=-1, schema="pg_catalog", enum=False):
    return SourceType(name=name, schema=schema, modifier=modifier, enum=enum, text=name)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (source_type("int4"), "integer"),
        (source_type("bpchar", 7), "varchar"),
        (source_type("numeric"), "numeric"),
        (source_type("numeric", (10 << 16 | 2) + 4), "numeric(10,2)"),
        (source_type("mood", schema="public", enum=True), "varchar"),
        (source_type("interval"), "interval"),
        (source_type("time"), "varchar"),
        (source_type("money"), "varchar"),
        (source_type("int8range"), "varchar"),
        (source_type("_int4"), "integer[]"),
        (source_type("_numeric", (10 << 16 | 2) + 4), "numeric(10,2)[]"),
    ],
)
def test_natural_types(kind, expected):
    assert str(natural(kind, "c")) == expected


@pytest.mark.parametrize(
    "kind",
    [
        source_type("numeric", (50 << 16 | 2) + 4),
        source_type("numeric", (5 << 16 | (-2 & 0x7FF)) + 4),
        source_type("_box"),
        source_type("_mood", schema="public"),
        source_type("oidvector"),
        source_type("text", schema="mine"),
    ],
)
def test_types_without_a_counterpart_are_refused_by_name_and_can_be_had_as_text(kind):
    with pytest.raises(Unsupported, match='column "odd" is of type') as caught:
        natural(kind, "odd")
    assert "VARCHAR" in caught.value.hint
    assert checked(kind, SqlType("varchar"), "odd") == SqlType("varchar")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1 fortnight", SqlType("interval")),
        ("{{1,2},{3,4}}", array_of(SqlType("integer"))),
        ("[0:1]={1,2}", array_of(SqlType("integer"))),
        ("{1,x}", array_of(SqlType("integer"))),
        ("{infinity}", array_of(SqlType("date"))),
    ],
)
def test_values_beyond_a_type_are_named(text, kind):
    with pytest.raises(DataError) as caught:
        column(pa.array([None, text]), kind, "odd")
    assert caught.value.message == f'column "odd": "{text}" is not a value of type {kind}'


def test_explicit_types():
    assert checked(source_type("int2"), SqlType("bigint"), "c") == SqlType("bigint")
    for wanted in ("integer", "double precision", "boolean"):
        with pytest.raises(InvalidDefinition, match="cannot be had as"):
            checked(source_type("int8"), SqlType(wanted), "c")


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("-9223372036854775808", "bigint", -(2**63)),
        ("t", "boolean", True),
        ("f", "boolean", False),
        ("\\x00ff", "bytea", b"\x00\xff"),
        ("\\x", "bytea", b""),
        ("-Infinity", "double precision", float("-inf")),
        ("0001-01-01", "date", datetime.date(1, 1, 1)),
        ("2024-02-29 23:59:59.5", "timestamp", datetime.datetime(2024, 2, 29, 23, 59, 59, 500000)),
        ("2024-02-29 23:59:59+00", "timestamptz", datetime.datetime(2024, 2, 29, 23, 59, 59, tzinfo=datetime.UTC)),
        (" x ", "varchar", " x "),
        ("", "varchar", ""),
        ("0.0000000001", "numeric", Decimal("1E-10")),
    ],
)
def test_values(text, kind, value):
    for array in (pa.array([text, None]), pa.chunked_array([[text], [None]])):
        assert column(array, SqlType(kind), "c").to_pylist() == [value, None]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("NaN", "numeric"), ("Infinity", "numeric"), ("0.00000000001", "numeric"), ("1e30", "integer"),
        ("infinity", "timestamp"), ("infinity", "date"), ("0044-03-15 BC", "date"), ("10000-01-01", "date"),
        ("maybe", "boolean"), ("abc", "bytea"), ("-infinity", "timestamptz"),
    ],
)  # fmt: skip
def test_values_that_a_type_cannot_hold_are_errors_that_name_the_column(text, kind):
    with pytest.raises(DataError, match='column "price"'):
        column(pa.array([text]), SqlType(kind), "price")


def test_numbers_of_transactions_wrap():
    assert [widened(x, (1 << 32) + 5) for x in (3, 0xFFFFFFFF)] == [(1 << 32) + 3, 0xFFFFFFFF]
    assert widened(3, 0xFFFFFFFE) == (1 << 32) + 3
    young = Snapshot.parse(f"{(1 << 32) - 2}:{(1 << 32) + 4}:{(1 << 32) - 1},{(1 << 32) + 1}")
    assert [young.sees(x) for x in (0xFFFFFFFD, 0xFFFFFFFF, 0, 1, 3, 4)] == [True, False, True, False, True, False]
    assert Snapshot.parse("5:9:5").all_ended_by(Snapshot.parse("9:12:")) is True
    assert Snapshot.parse("5:9:5").all_ended_by(Snapshot.parse("8:12:8")) is False


def test_sql_is_quoted():
    kind = SourceType(name="text", schema="pg_catalog", text="text")
    table = SourceTable(
        schema='a"b', name="c.d", key=("K", "l"),
        columns=(SourceColumn(name="K", type=kind, collation='public."x"'), SourceColumn(name="l", type=kind)),
    )  # fmt: skip
    assert table.rows_between(("it's", "\\"), None) == (
        'SELECT "K", "l" FROM "a""b"."c.d" WHERE ("K", "l") >= (CAST(\'it\'\'s\' AS text), CAST(\'\\\' AS text))'
    )
    assert 'CAST(k0 AS text) COLLATE public."x" AS k0' in table.places([("a", "b")], [("a", "a")])
