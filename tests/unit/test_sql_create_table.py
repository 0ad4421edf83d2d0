"""CREATE TABLE: what is understood, and what is refused."""

from __future__ import annotations

import pytest

from headrace.errors import (
    DuplicateColumn,
    InvalidDefinition,
    InvalidParameterValue,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedType,
    Unsupported,
)
from headrace.sql import statements as s
from headrace.sql.dialect import print_sql
from headrace.sql.parse import parse
from headrace.types import SqlType, array_of
from tests.support.statements import one

INT, TEXT = SqlType("integer"), SqlType("varchar")


def test_create_table():
    statement = one(
        "CREATE TABLE IF NOT EXISTS public.T (id INT PRIMARY KEY, \"Name\" VARCHAR(10) DEFAULT 'x' || 'y' NOT NULL, "
        "b INT AS (id + 1), c INT GENERATED ALWAYS AS (id * 2) STORED, d NUMERIC(10, 2) NULL) "
        "APPEND ONLY ON CONFLICT DO NOTHING WITH (a = 'x', b.c = 5, \"D\" = true)"
    )
    assert statement == s.CreateTable(
        sql=statement.sql,
        name="t",
        columns=(
            s.ColumnSpec(name="id", type=INT, nullable=False),
            s.ColumnSpec(name="Name", type=TEXT, nullable=False, default="'x' || 'y'"),
            s.ColumnSpec(name="b", type=INT, generated='"id" + 1'),
            s.ColumnSpec(name="c", type=INT, generated='"id" * 2'),
            s.ColumnSpec(name="d", type=SqlType("numeric", precision=10, scale=2)),
        ),
        pk=("id",),
        if_not_exists=True,
        append_only=True,
        on_conflict="ignore",
        options=(("a", "x"), ("b.c", "5"), ("D", "true")),
    )


@pytest.mark.parametrize(
    ("text", "pk", "nullable"),
    [
        ("CREATE TABLE t (a INT, b INT)", (), (True, True)),
        ("CREATE TABLE t (a INT PRIMARY KEY, b INT)", ("a",), (False, True)),
        ("CREATE TABLE t (a INT, b INT, PRIMARY KEY (b, a))", ("b", "a"), (False, False)),
        ("CREATE TABLE t (a INT, b INT, CONSTRAINT k PRIMARY KEY (b))", ("b",), (True, False)),
        ("CREATE TABLE t (a INT NOT NULL DEFAULT 1 PRIMARY KEY, b INT)", ("a",), (False, True)),
    ],
)
def test_primary_keys(text, pk, nullable):
    statement = one(text)
    assert statement.pk == pk
    assert tuple(column.nullable for column in statement.columns) == nullable


@pytest.mark.parametrize(
    ("clause", "action"),
    [
        ("", "overwrite"),
        ("ON CONFLICT OVERWRITE", "overwrite"),
        ("ON CONFLICT IGNORE", "ignore"),
        ("ON CONFLICT DO NOTHING", "ignore"),
        ("ON CONFLICT DO UPDATE FULL", "overwrite"),
        ("on conflict do update if not null", "update_if_not_null"),
    ],
)
def test_on_conflict(clause, action):
    assert one(f"CREATE TABLE t (a INT PRIMARY KEY) {clause}").on_conflict == action


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("boolean", "boolean"), ("bool", "boolean"), ("smallint", "smallint"), ("int2", "smallint"), ("int", "integer"),
        ("integer", "integer"), ("int4", "integer"), ("bigint", "bigint"), ("int8", "bigint"), ("real", "real"),
        ("float4", "real"), ("float(24)", "real"), ("double precision", "double precision"), ("numeric", "numeric"),
        ("float8", "double precision"), ("float", "double precision"), ("decimal", "numeric"), ("varchar", "varchar"),
        ("numeric(10,2)", "numeric(10,2)"), ("decimal(5)", "numeric(5,0)"), ("varchar(20)", "varchar"),
        ("text", "varchar"), ("string", "varchar"), ("character varying", "varchar"), ("bytea", "bytea"),
        ("date", "date"), ("timestamp", "timestamp"), ("timestamp without time zone", "timestamp"),
        ("timestamptz", "timestamptz"), ("timestamp with time zone", "timestamptz"), ("interval", "interval"),
        ("jsonb", "jsonb"), ("json", "jsonb"), ("int[]", "integer[]"), ("varchar[][]", "varchar[][]"),
        ("struct<a int, B varchar>", "struct<a integer, b varchar>"),
        ("struct<a struct<b int[]>, c date>[]", "struct<a struct<b integer[]>, c date>[]"),
    ],
)  # fmt: skip
def test_types(text, kind):
    (column,) = one(f"CREATE TABLE t (c {text})").columns
    assert str(column.type) == kind


def test_array_type():
    assert one("CREATE TABLE t (c INT[])").columns[0].type == array_of(INT)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("numeric(40, 2)", Unsupported, r"numeric\(40,2\)"),
        ("numeric(5, 6)", InvalidParameterValue, r"numeric\(5,6\)"),
        ("char(3)", Unsupported, r"type char\(3\)"),
        ("serial", Unsupported, "type serial"),
        ("timetz", Unsupported, "type timetz"),
        ("timestamp(3)", Unsupported, r"timestamp\(3\)"),
        ("money", Unsupported, "type money"),
        ("mood", UndefinedType, "mood"),
        ("tinyint", Unsupported, "tinyint"),
    ],
)
def test_types_that_are_refused(text, error, message):
    with pytest.raises(error, match=message):
        parse(f"CREATE TABLE t (c {text})")


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("(a INT, a INT)", DuplicateColumn, 'column "a" specified more than once'),
        ("(a INT, PRIMARY KEY (z))", UndefinedColumn, 'column "z" named in key does not exist'),
        ("(a INT, PRIMARY KEY (a, a))", DuplicateColumn, '"a" appears twice in primary key'),
        ("(a INT PRIMARY KEY, PRIMARY KEY (a))", InvalidDefinition, "multiple primary keys"),
        ("(a INT PRIMARY KEY, b INT PRIMARY KEY)", InvalidDefinition, "multiple primary keys"),
        ("(_hr_x INT)", InvalidDefinition, '"_hr_x" is reserved'),
        ("(_row_id INT)", InvalidDefinition, '"_row_id" is reserved'),
        ("(a INT, b INT AS (a), c INT AS (b))", InvalidDefinition, 'cannot use generated column "b"'),
        ("(a INT DEFAULT 1 AS (2))", InvalidDefinition, "both default and generation"),
        ("()", Unsupported, "without columns"),
        ("(a INT) ON CONFLICT IGNORE", InvalidDefinition, "ON CONFLICT needs a primary key"),
        ("(a INT UNIQUE)", Unsupported, "UNIQUE"),
        ("(a INT CHECK (a > 1))", Unsupported, "CHECK"),
        ("(a INT REFERENCES u)", Unsupported, "REFERENCES"),
        ("(a INT, FOREIGN KEY (a) REFERENCES u)", Unsupported, "FOREIGN KEY"),
        ("(a INT, WATERMARK FOR a AS a)", Unsupported, "WATERMARK is not supported in a table that is not append-only"),
        ("(a INT, WATERMARK FOR b AS b) APPEND ONLY", InvalidDefinition, '"b" named in WATERMARK does not exist'),
        ("(a INT, WATERMARK FOR a AS a, WATERMARK FOR a AS a) APPEND ONLY", InvalidDefinition, "one watermark at most"),
        ("(a, WATERMARK FOR a AS a) APPEND ONLY AS SELECT 1", Unsupported, "CREATE TABLE AS with WATERMARK"),
        ("(a INT) WITH (a = 1, a = 2)", SqlSyntaxError, "more than once"),
        ("(a INT) FORMAT PLAIN ENCODE JSON", Unsupported, "FORMAT"),
        ("(a)", SqlSyntaxError, "end of input"),
        ("(a INT) whatever", SqlSyntaxError, '"whatever"'),
    ],
)
def test_tables_that_are_refused(text, error, message):
    with pytest.raises(error, match=message):
        parse(f"CREATE TABLE t {text}")


def test_create_table_as():
    statement = one("CREATE TABLE t (x, y) WITH (k = v) AS SELECT 1, 2")
    assert isinstance(statement, s.CreateTableAs)
    assert (statement.column_names, statement.options) == (("x", "y"), (("k", "v"),))
    assert print_sql(statement.query) == "SELECT 1, 2"
    assert one("CREATE TABLE t AS TABLE u").column_names == ()
    with pytest.raises(Unsupported, match="column types and AS"):
        parse("CREATE TABLE t (x INT) AS SELECT 1")
