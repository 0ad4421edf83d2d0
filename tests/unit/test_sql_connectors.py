"""Secrets, sources, and tables that follow one of theirs: what the statements say."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError, InvalidDefinition, SqlSyntaxError, Unsupported
from headrace.sql import statements as s
from headrace.sql.parse import parse
from tests.support.statements import one


def test_a_secret_is_not_in_its_statement():
    secret = one("CREATE SECRET IF NOT EXISTS Pw WITH (backend = 'meta') AS 'hun''ter2'")
    assert (secret.name, secret.value, secret.if_not_exists) == ("pw", "hun'ter2", True)
    assert "ter2" not in repr(secret) and "ter2" not in secret.sql
    assert one("DROP SECRET IF EXISTS a, b") == s.DropSecret(
        sql="DROP SECRET IF EXISTS a, b", names=("a", "b"), if_exists=True
    )


def test_a_source():
    source = one(
        "CREATE SOURCE pg WITH (connector = 'postgres-cdc', database.name = 'x', password = SECRET pw, port = 5432)"
    )
    assert source.options == (("connector", "postgres-cdc"), ("database.name", "x"), ("port", "5432"))
    assert source.secrets == (("password", "pw"),)
    assert one("CREATE SOURCE s WITH (connector = 'postgres-cdc', username = 'SECRET')").secrets == ()


def test_a_table_from_a_source():
    table = one("CREATE TABLE t (*) WITH (a.b = 1) FROM pg TABLE 'public.t' WITH (c = 2)")
    assert (table.source, table.table, table.columns) == ("pg", "public.t", None)
    assert table.options == (("a.b", "1"), ("c", "2"))
    table = one("CREATE TABLE IF NOT EXISTS t (id INT, v TEXT, PRIMARY KEY (id)) FROM pg TABLE 'x'")
    assert [(column.name, str(column.type)) for column in table.columns] == [("id", "integer"), ("v", "varchar")]
    assert table.pk == ("id",) and table.if_not_exists


def test_a_source_of_events():
    source = one(
        "CREATE SOURCE IF NOT EXISTS s (a INT, at TIMESTAMPTZ, WATERMARK FOR at AS at - INTERVAL '5 seconds')"
        " INCLUDE partition, offset AS o, header 'h' AS h, headers INCLUDE key"
        " WITH (connector = 'kafka', topic = 't', properties.sasl.password = SECRET pw)"
        " FORMAT PLAIN ENCODE CSV (delimiter = ';')"
    )
    assert [column.name for column in source.columns] == ["a", "at"]
    assert [(each.what, each.name, each.header) for each in source.include] == [
        ("partition", "partition", None), ("offset", "o", None), ("header", "h", "h"), ("headers", "headers", None),
        ("key", "key", None),
    ]  # fmt: skip
    assert source.watermark.column == "at" and "5 seconds" in source.watermark.expression
    assert (source.format, source.encode, source.encode_options) == ("plain", "csv", (("delimiter", ";"),))
    assert source.secrets == (("properties.sasl.password", "pw"),) and source.if_not_exists


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("CREATE TABLE t (*)", Unsupported),
        ("CREATE TABLE t (*, a INT) FROM pg TABLE 'x'", Unsupported),
        ("CREATE TABLE t FROM pg TABLE 'x'", HeadraceError),
        ("CREATE TABLE t (a INT DEFAULT 1) FROM pg TABLE 'x'", Unsupported),
        ("CREATE TABLE t (*) APPEND ONLY FROM pg TABLE 'x'", Unsupported),
        ("CREATE TABLE t (*) FROM pg", SqlSyntaxError),
        ("CREATE TABLE t (*) WITH (a = 1) FROM pg TABLE 'x' WITH (a = 1)", SqlSyntaxError),
        ("CREATE TABLE t (a) FROM pg TABLE 'x'", SqlSyntaxError),
        ("CREATE SOURCE s WITH (connector = 'pulsar')", Unsupported),
        ("CREATE SOURCE s WITH (hostname = 'x')", Unsupported),
        ("CREATE SOURCE s (a INT) WITH (connector = 'postgres-cdc')", Unsupported),
        ("CREATE SOURCE s INCLUDE key WITH (connector = 'postgres-cdc')", Unsupported),
        ("CREATE SOURCE s WITH (connector = 'kafka') FORMAT PLAIN ENCODE JSON", InvalidDefinition),
        ("CREATE SOURCE s (a INT, *) WITH (connector = 'kafka')", Unsupported),
        ("CREATE SOURCE s (a) WITH (connector = 'kafka')", SqlSyntaxError),
        ("CREATE SOURCE s (a INT DEFAULT 1) WITH (connector = 'kafka')", Unsupported),
        ("CREATE SOURCE s (a INT, PRIMARY KEY (a)) WITH (connector = 'kafka')", Unsupported),
        ("CREATE SOURCE s (a INT, WATERMARK FOR b AS b) WITH (connector = 'kafka')", InvalidDefinition),
        ("CREATE SOURCE s (a INT) INCLUDE weight WITH (connector = 'kafka')", SqlSyntaxError),
        ("CREATE SOURCE s (a INT) WITH (connector = 'kafka') FORMAT PLAIN ENCODE PROTOBUF", Unsupported),
        ("CREATE SOURCE s (a INT) WITH (connector = 'kafka') FORMAT MAXWELL ENCODE JSON", Unsupported),
        ("CREATE SOURCE s", SqlSyntaxError),
        ("CREATE OR REPLACE SOURCE s WITH (connector = 'postgres-cdc')", Unsupported),
        ("CREATE SECRET s WITH (backend = 'vault') AS 'x'", Unsupported),
        ("CREATE SECRET s", SqlSyntaxError),
        ("CREATE TABLE t (a INT) WITH (p = SECRET x)", SqlSyntaxError),
    ],
)
def test_what_is_refused(text, error):
    with pytest.raises(error):
        parse(text)
