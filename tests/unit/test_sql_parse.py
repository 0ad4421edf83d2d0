"""Statements: what is understood, what is refused, and where errors point."""

from __future__ import annotations

import pytest
from sqlglot import exp

from headrace.errors import (
    DataError,
    DuplicateColumn,
    HeadraceError,
    SqlSyntaxError,
    UndefinedColumn,
    UndefinedParameterNumber,
    UndefinedRelation,
    Unsupported,
)
from headrace.sql import statements as s
from headrace.sql.dialect import print_sql
from headrace.sql.parse import parse, point_at
from headrace.types import SqlType
from tests.support.statements import one

INT, TEXT = SqlType("integer"), SqlType("varchar")


# --- INSERT, UPDATE, DELETE -------------------------------------------------------------------------------------


def test_insert_values():
    statement = one("INSERT INTO t (a, B) VALUES (1, DEFAULT), (-2, 'x') RETURNING *, a + 1 AS c")
    assert (statement.table, statement.columns, statement.query) == ("t", ("a", "b"), None)
    (one_, default), (minus, text) = statement.rows
    assert (one_, default.name, print_sql(minus), text.name) == (exp.Literal.number(1), "DEFAULT", "-2", "x")
    star, alias = statement.returning
    assert isinstance(star, exp.Star) and alias.alias == "c"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("INSERT INTO t SELECT a FROM u", 'SELECT "a" FROM "u"'),
        ("INSERT INTO t (a) (SELECT 1)", "(SELECT 1)"),
        ("INSERT INTO t (SELECT 1)", "(SELECT 1)"),
        ("INSERT INTO t WITH c AS (SELECT 1) SELECT * FROM c", 'WITH "c" AS (SELECT 1) SELECT * FROM "c"'),
        ("INSERT INTO t SELECT a FROM u RETURNING a", 'SELECT "a" FROM "u"'),
    ],
)
def test_insert_select(text, query):
    statement = one(text)
    assert statement.rows is None and print_sql(statement.query) == query


def test_insert_default_values():
    assert one("INSERT INTO t DEFAULT VALUES").rows == ((),)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("INSERT INTO t VALUES (1) ON CONFLICT DO NOTHING", Unsupported, "declare it on the table"),
        ("INSERT INTO t VALUES (1), (1, 2)", SqlSyntaxError, "same length"),
        ("INSERT INTO t (a) VALUES (1, 2)", SqlSyntaxError, "more expressions than target columns"),
        ("INSERT INTO t (a, b) VALUES (1)", SqlSyntaxError, "more target columns than expressions"),
        ("INSERT INTO t (a, a) VALUES (1, 2)", DuplicateColumn, '"a" specified more than once'),
        ("INSERT t VALUES (1)", SqlSyntaxError, '"t"'),
        ("UPDATE t SET a = 1 FROM u", Unsupported, "UPDATE … FROM"),
        ("UPDATE t SET a = 1, a = 2", SqlSyntaxError, "multiple assignments"),
        ("UPDATE t SET (a, b) = (SELECT 1, 2)", Unsupported, "subquery"),
        ("UPDATE t SET", SqlSyntaxError, "end of input"),
        ("UPDATE t SET a[1] = 2", Unsupported, "whole column"),
        ("DELETE FROM t USING u WHERE true", Unsupported, "DELETE … USING"),
        ("DELETE t", SqlSyntaxError, '"t"'),
    ],
)
def test_dml_that_is_refused(text, error, message):
    with pytest.raises(error, match=message):
        try:
            parse(text)
        except HeadraceError as caught:
            raise type(caught)(str(caught)) from None  # so that match sees the hint, too


def test_update():
    statement = one("UPDATE t AS x SET a = x.a + 1, b = DEFAULT, (c, d) = (1, 2) WHERE a > 1 RETURNING a")
    assert (statement.table, statement.alias) == ("t", "x")
    assert [name for name, _ in statement.assignments] == ["a", "b", "c", "d"]
    assert isinstance(statement.assignments[1][1], exp.Var)
    assert print_sql(statement.where) == '"a" > 1'
    assert len(statement.returning) == 1


def test_delete():
    assert one("DELETE FROM t").where is None
    statement = one("DELETE FROM public.t x WHERE x.a = 1 RETURNING *")
    assert (statement.table, statement.alias) == ("t", "x")


# --- everything else --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FLUSH", s.Flush),
        ("VACUUM", s.Vacuum),
        ("COMPACT", {"name": None}),
        ("COMPACT dev.public.T", {"name": "t"}),
        ("DROP TABLE a", {"kind": "table", "names": ("a",), "if_exists": False, "cascade": False}),
        ("DROP TABLE IF EXISTS a, public.b CASCADE", {"names": ("a", "b"), "if_exists": True, "cascade": True}),
        ("DROP MATERIALIZED VIEW v RESTRICT", {"kind": "materialized view", "cascade": False}),
        ("DROP VIEW v", {"kind": "view"}),
        ("DROP INDEX v", {"kind": "index"}),
        ("DROP SOURCE v", {"kind": "source"}),
        ("SHOW TABLES", {"what": "tables", "like": None}),
        ("SHOW TABLES LIKE 'a%'", {"what": "tables", "like": "a%"}),
        ("SHOW MATERIALIZED VIEWS FROM public", {"what": "materialized views"}),
        ("SHOW VIEWS", {"what": "views"}),
        ("SHOW SOURCES", {"what": "sources"}),
        ("SHOW INDEXES", {"what": "indexes"}),
        ("SHOW PARAMETERS", {"what": "parameters"}),
        ("SHOW ALL", {"what": "parameters"}),
        ("SHOW CREATE TABLE t", {"kind": "table", "name": "t"}),
        ("SHOW CREATE MATERIALIZED VIEW t", {"kind": "materialized view", "name": "t"}),
        ("SHOW CREATE VIEW t", {"kind": "view", "name": "t"}),
        ("SHOW barrier_interval", {"name": "barrier_interval"}),
        ("SHOW TIME ZONE", {"name": "timezone"}),
        ("SHOW COLUMNS FROM t", {"name": "t"}),
        ("DESCRIBE t", {"name": "t"}),
        ("DESC \"T\"", {"name": "T"}),
        ("SET a = 5", {"name": "a", "value": "5", "system": False}),
        ("SET SESSION a.b TO 'x y'", {"name": "a.b", "value": "x y"}),
        ("SET a = -1", {"value": "-1"}),
        ("SET a = ON", {"value": "on"}),
        ("SET search_path TO a, b", {"value": "a, b"}),
        ("SET a = DEFAULT", {"value": None}),
        ("RESET a", {"name": "a", "value": None}),
        ("SET TIME ZONE 'UTC'", {"name": "timezone", "value": "UTC"}),
        ("ALTER SYSTEM SET a = 1", {"name": "a", "value": "1", "system": True}),
        ("ALTER SYSTEM SET a TO DEFAULT", {"value": None, "system": True}),
        ("ALTER TABLE a RENAME TO b", {"kind": "table", "name": "a", "new_name": "b"}),
        ("ALTER MATERIALIZED VIEW a RENAME TO \"B\"", {"kind": "materialized view", "new_name": "B"}),
        ("ALTER VIEW a RENAME TO b", {"kind": "view"}),
        ("COMMENT ON TABLE t IS 'it''s'", {"kind": "table", "name": "t", "column": None, "text": "it's"}),
        ("COMMENT ON MATERIALIZED VIEW t IS NULL", {"kind": "materialized view", "text": None}),
        ("COMMENT ON COLUMN public.t.a IS 'x'", {"kind": "column", "name": "t", "column": "a", "text": "x"}),
        ("EXPLAIN ANALYZE SELECT 1", {"analyze": True}),
        ("CREATE VIEW v AS SELECT 1", {"or_replace": False, "if_not_exists": False}),
        ("CREATE OR REPLACE VIEW v (a) AS VALUES (1)", {"or_replace": True, "column_names": ("a",)}),
        ("CREATE MATERIALIZED VIEW IF NOT EXISTS v (a, b) WITH (x = 1) AS SELECT 1, 2",
         {"if_not_exists": True, "column_names": ("a", "b"), "options": (("x", "1"),)}),
    ],
)  # fmt: skip
def test_statements(text, expected):
    statement = one(text)
    assert statement.sql == text
    if isinstance(expected, type):
        assert type(statement) is expected
    else:
        assert {key: getattr(statement, key) for key in expected} == expected


def test_explain_holds_the_statement():
    inner = one("EXPLAIN CREATE MATERIALIZED VIEW v AS SELECT a FROM t;").statement
    assert isinstance(inner, s.CreateMaterializedView)
    assert inner.sql == "CREATE MATERIALIZED VIEW v AS SELECT a FROM t"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("COMMIT PREPARED 'a'", "there are no transactions"),
        ("CREATE SOURCE s (a INT) WITH (connector = 'pulsar')", "connector = 'pulsar' is not supported yet"),
        ("CREATE SINK s FROM t", "CREATE SINK is not supported yet"),
        ("CREATE SCHEMA s", "CREATE SCHEMA is not supported yet"),
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", "CREATE OR REPLACE MATERIALIZED VIEW"),
        ("ALTER TABLE t ADD COLUMN a INT", "ALTER TABLE ADD COLUMN is not supported yet"),
        ("ALTER TABLE t DROP COLUMN a", "ALTER TABLE DROP COLUMN is not supported yet"),
        ("ALTER TABLE t SET SCHEMA s", "ALTER TABLE SET SCHEMA is not supported yet"),
        ("ALTER TABLE t SET (a = 1)", "ALTER TABLE SET is not supported yet"),
        ("TRUNCATE t, u", "TRUNCATE of several tables is not supported"),
        ("COPY t FROM 'x'", "COPY of a file is not supported"),
        ("GRANT ALL ON t TO u", "GRANT is not supported"),
        ("SHOW DATABASES", "SHOW DATABASES is not supported yet"),
        ("SELECT B'101'", "a bit string is not supported"),
        ("WITH a AS (DELETE FROM t) SELECT 1", "DELETE with WITH"),
        ("EXPLAIN (ANALYZE) SELECT 1", "EXPLAIN with options"),
    ],
)
def test_unsupported_statements_are_named(text, message):
    with pytest.raises(Unsupported, match=message):
        parse(text)


# --- errors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message", "position"),
    [
        ("SELECT * FORM t", 'syntax error at or near "FORM"', 10),
        ("SELECT a FORM t", 'syntax error at or near "t"', 15),
        ("SELECT 1,, 2", 'syntax error at or near ","', 10),
        ("SELECT a, FROM t", 'syntax error at or near "FROM"', 11),
        ("SELECT 1 +", "syntax error at end of input", 11),
        ("SELECT 1 + ;", "syntax error at end of input", 11),
        ("SELECT (1))", 'syntax error at or near ")"', 11),
        ("SELECT * FROM", "syntax error at end of input", 14),
        ("SELECT * FROM t WHERE", "syntax error at end of input", 22),
        ("SELECT * FROM a JOIN b", "syntax error at end of input", 23),
        ("SELECT * FROM a,", "syntax error at end of input", 17),
        ("SELECT CASE a", "syntax error at end of input", 14),
        ("SELECT a AS select", 'syntax error at or near "select"', 13),
        ("SELECT cast(1 int)", 'syntax error at or near "int"', 15),
        ("SELECT trim(a FROM b FROM c)", 'syntax error at or near "FROM"', 22),
        ("SELEC 1", 'syntax error at or near "SELEC"', 1),
        ("1 + 1", 'syntax error at or near "1"', 1),
        ("FLUSH now", 'syntax error at or near "now"', 7),
        ("CREATE TABEL t (a INT)", 'syntax error at or near "TABEL"', 8),
        ("CREATE TABLE t (a INT", "syntax error at end of input", 22),
        ("DROP TABLE", "syntax error at end of input", 11),
        ("SELECT 1; SELECT * FORM t", 'syntax error at or near "FORM"', 20),
        ("SELECT 'open", 'unterminated quoted string at or near "\'open"', 8),
        ('SELECT "open', 'unterminated quoted identifier at or near ""open"', 8),
        ("SELECT $$open", 'unterminated dollar-quoted string at or near "$$open"', 8),
        ("SELECT 1 /* open", 'unterminated /* comment at or near "/* open"', 10),
    ],
)
def test_syntax_errors_point_at_the_token(text, message, position):
    with pytest.raises(SqlSyntaxError) as caught:
        parse(text)
    assert (caught.value.message, caught.value.position) == (message, position)


def test_nothing_is_logged(caplog):
    for text in ("CREATE SEQUENCE s", "FOO BAR", "ALTER TABLE t ADD COLUMN a INT", "SELECT 1"):
        try:
            parse(text)
        except HeadraceError:
            pass
    assert caplog.records == []


def test_other_schemas_do_not_exist():
    for text in ("CREATE TABLE other.t (a INT)", "DROP TABLE other.t", "INSERT INTO other.t VALUES (1)"):
        with pytest.raises(UndefinedRelation, match='schema "other" does not exist'):
            parse(text)
    with pytest.raises(UndefinedRelation, match='database "prod" does not exist'):
        parse("DROP TABLE prod.public.t")


def test_a_parameter_that_nobody_gives():
    with pytest.raises(UndefinedParameterNumber, match=r"there is no parameter \$2") as caught:
        parse("SELECT 1; SELECT a + $2")
    assert (caught.value.sqlstate, caught.value.position) == ("42P02", 22)


@pytest.mark.parametrize(
    ("text", "error", "position"),
    [
        ("FLUSH; INSERT INTO nope VALUES (1)", UndefinedRelation('relation "nope" does not exist'), 20),
        ("UPDATE t SET Nope = nope", UndefinedColumn('column "nope" does not exist'), None),
        (
            "INSERT INTO t VALUES (1, 'x')",
            DataError('invalid input syntax for type integer: "x"', sqlstate="22P02"),
            26,
        ),
        (
            "INSERT INTO t VALUES ('x', 'x')",
            DataError('invalid input syntax for type integer: "x"', sqlstate="22P02"),
            None,
        ),
        ("SELECT 'x' FROM t", DataError('invalid input syntax for type integer: "x"', sqlstate="22P02"), None),
    ],
)
def test_errors_point_at_what_they_name(text, error, position):
    """Unless that could be in several places, or be the fault of a row."""
    point_at(error, parse(text)[-1])
    assert error.position == position
