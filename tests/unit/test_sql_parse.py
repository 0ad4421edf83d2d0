"""Statements: what is understood, what is refused, and where errors point."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from headrace.errors import (
    DuplicateColumn,
    HeadraceError,
    InvalidDefinition,
    InvalidParameterValue,
    SqlSyntaxError,
    UndefinedRelation,
    Unsupported,
)
from headrace.sql import statements as s
from headrace.sql.dialect import parse_expression, parse_query, print_sql
from headrace.sql.parse import is_complete, parse, split
from headrace.types import SqlType, array_of

INT, TEXT = SqlType("integer"), SqlType("varchar")


def one(text: str) -> s.Statement:
    (statement,) = parse(text)
    return statement


# --- splitting --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "statements"),
    [
        ("", []),
        (" ; ;; ", []),
        ("-- nothing\n/* here; */", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';' ; SELECT \"a;b\"", ["SELECT ';'", 'SELECT "a;b"']),
        ("SELECT $$a;b$$; SELECT $x$;$$;$x$", ["SELECT $$a;b$$", "SELECT $x$;$$;$x$"]),
        ("SELECT 'it''s;'; x", ["SELECT 'it''s;'", "x"]),
        (r"SELECT E'\';'; x", [r"SELECT E'\';'", "x"]),
        (r"SELECT '\'; x", [r"SELECT '\'", "x"]),
        ("a /* ; /* nested; */ ; */ b; c", ["a /* ; /* nested; */ ; */ b", "c"]),
        ("-- c;\nSELECT 1 -- d;\n + 2;", ["SELECT 1 -- d;\n + 2"]),
        ("SELECT a$b$; SELECT 1", ["SELECT a$b$", "SELECT 1"]),
    ],
)
def test_split(text, statements):
    assert split(text) == statements


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", False),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT 2", False),
        ("SELECT ';", False),
        ("SELECT ';';", True),
        ("SELECT $$;", False),
        ("SELECT 1 /* ;", False),
        ("SELECT 1; /* open", False),
        ('SELECT "a;', False),
        (";", True),
    ],
)
def test_is_complete(text, complete):
    assert is_complete(text) is complete


@given(st.text(alphabet="ab'\"$/*-;E\\ \n", max_size=30))
def test_splitting_never_fails_and_loses_no_code(text):
    is_complete(text)
    for statement in split(text):
        assert statement in text and statement.strip() == statement


@pytest.mark.parametrize("text", ["", " ", ";", "-- nothing", "/* nothing */ ;"])
def test_nothing_is_no_statement(text):
    assert parse(text) == []


def test_the_text_of_a_statement_is_as_written():
    first, second = parse("  SELECT  1 ;\n -- note\n FLUSH ; ")
    assert (first.sql, second.sql) == ("SELECT  1", "FLUSH")


# --- CREATE TABLE -----------------------------------------------------------------------------------------------


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
        ("uuid", Unsupported, "type uuid"),
        ("time", Unsupported, "type time"),
        ("timestamp(3)", Unsupported, r"timestamp\(3\)"),
        ("money", Unsupported, "type money"),
        ("mood", Unsupported, "mood"),
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
        ("(a INT, PRIMARY KEY (z))", InvalidDefinition, 'column "z" named in key does not exist'),
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
        ("(a INT, WATERMARK FOR a AS a)", Unsupported, "WATERMARK"),
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
        ("TRUNCATE t", "TRUNCATE is not supported"),
        ("COPY t FROM 'x'", "COPY of a file is not supported"),
        ("GRANT ALL ON t TO u", "GRANT is not supported"),
        ("SHOW DATABASES", "SHOW DATABASES is not supported yet"),
        ("SET LOCAL a = 1", "SET LOCAL"),
        ("SELECT $1", "a parameter is not supported"),
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


# --- expressions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\b'", "a\\b"),
        ("'it''s'", "it's"),
        (r"E'\n\t\\\''", "\n\t\\'"),
        (r"e'\x41\101\u0042''c'", "AAB'c"),
        ("$$a'b$$", "a'b"),
        ("$x$ $$ $x$", " $$ "),
        (r"U&'d\0061t\+000061\\'", "data\\"),
        ("'a'\n'b'", "ab"),
        ("''", ""),
    ],
)
def test_strings(text, value):
    literal = parse_expression(text)
    assert isinstance(literal, exp.Literal) and literal.is_string and literal.this == value
    assert parse_expression(print_sql(literal)) == literal


@given(st.text())
def test_any_string_survives_printing(value):
    if "\x00" not in value:
        assert parse_expression(print_sql(exp.Literal.string(value))).this == value


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("Foo", '"foo"'),
        ('"Foo"', '"Foo"'),
        ('T."A""b"', '"t"."A""b"'),
        ("LOWER(X)", 'lower("x")'),
        ("INTERVAL '1' DAY", "CAST('1 day' AS INTERVAL)"),
        ("timestamp '2020-01-01'::date", "CAST(CAST('2020-01-01' AS TIMESTAMP) AS DATE)"),
        ("position('a' IN b)", "position('a', \"b\")"),
        ("trim(LEADING 'x' FROM y)", "ltrim(\"y\", 'x')"),
        ("substring(a FROM 2 FOR 3)", 'substring("a", 2, 3)'),
        ("extract(EPOCH FROM a)", "extract('epoch', \"a\")"),
        ("current_date", "current_date()"),
        ("a IS NOT NULL", '"a" IS NOT NULL'),
        ("a[1]", '"a"[1]'),
        ("2 ^ 3", "2 ^ 3"),
        ("a -> 'b' ->> 0", "\"a\" -> 'b' ->> 0"),
    ],
)
def test_expressions_print_to_what_parses_the_same(text, printed):
    tree = parse_expression(text)
    assert print_sql(tree) == printed
    assert parse_expression(printed) == tree


WORDS = """name type date timestamp value key status index source sink comment format range level position state year
month day time text data count view schema start json uuid point map list struct first last next filter over partition
interval row rows replace cache sort qualify pivot xor glob rlike insert drop alter top div kill owner enum""".split()


@pytest.mark.parametrize("word", WORDS)
def test_names_that_are_no_keywords_in_postgresql(word):
    query = one(f"SELECT {word}, t.{word} + 1 AS {word} FROM t WHERE {word} = 1 ORDER BY {word} DESC").query
    assert {column.name for column in query.find_all(exp.Column)} == {word}
    assert one(f"CREATE TABLE t ({word} INT, b INT)").columns[0].name == word
    assert one(f"INSERT INTO t ({word}) VALUES (1)").columns == (word,)
    assert one(f"UPDATE t SET {word} = {word} + 1").assignments[0][0] == word


def test_functions_without_parentheses_are_no_names():
    with pytest.raises(SqlSyntaxError):
        parse("SELECT 1 FROM user")
    (statement,) = parse("SELECT user, current_role")
    assert [item.name for item in statement.query.selects] == ["current_user", "current_user"]


@pytest.mark.parametrize("word", ["order", "group", "end", "table", "all", "is", "left", "limit", "when"])
def test_reserved_words_need_quotes(word):
    for text in (f"SELECT 1 FROM {word}", f"CREATE TABLE t ({word} INT)", f"SELECT 1 FROM t WHERE {word} = 1"):
        with pytest.raises(SqlSyntaxError):
            parse(text)
    query = one(f'SELECT "{word}", t.{word}, 1 AS {word} FROM "{word}" AS t').query
    assert [each.alias_or_name for each in query.expressions] == [word] * 3


@pytest.mark.parametrize(
    "text",
    [
        "SELECT lower(a b)",
        "SELECT f(SELECT 1)",
        "SELECT 'a' 'b'",
        "SELECT [1, 2]",
        "SELECT a BETWEEN 1 1 AND 2",
        "SELECT CASE WHEN a 'x' END",
        "SELECT CASE a ELSE 1 END",
        "SELECT a > > 1",
        "SELECT a NOT NULL",
        "SELECT count(*) FILTER (a > 1)",
        "SELECT array_agg(DISTINCT)",
        "SELECT 1 AS",
        "SELECT 1 AS , 2",
        "SELECT * FROM t AS 4",
        "SELECT * FROM t AS (x)",
        "SELECT * FROM t AS v(x y)",
        "SELECT * FROM FROM t",
        "SELECT a FROM t GROUP BY ORDER BY 1",
        "SELECT DISTINCT ON () a FROM t",
        "VALUES (1, 2 x)",
        "VALUES ()",
        "VALUES 1",
        "UPDATE t SET = 1",
        "CREATE TABLE t (a INT DEFAULT NOT NULL)",
        "SELECT trim(both 'x' FROM )",
        "SELECT substring(a FROM )",
    ],
)
def test_sqlglot_would_take_it(text):
    with pytest.raises(SqlSyntaxError, match="syntax error"):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT DISTINCT ON (a) a, b FROM t ORDER BY a, b DESC NULLS LAST LIMIT 3 OFFSET 1",
        "SELECT count(*) FILTER (WHERE a > 1), string_agg(a, ',' ORDER BY b) FROM t GROUP BY ROLLUP (a) HAVING true",
        "SELECT sum(a) OVER (PARTITION BY b ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t",
        "WITH a(x) AS (SELECT 1), b AS (VALUES (1)) SELECT * FROM a LEFT JOIN b ON true",
        "SELECT * FROM a CROSS JOIN LATERAL (SELECT a.x) AS q, b",
        "(SELECT 1 UNION ALL SELECT 2) EXCEPT (SELECT 3 INTERSECT SELECT 4) ORDER BY 1 FETCH FIRST 2 ROWS ONLY",
        "SELECT * FROM generate_series(1, 3) AS g(x), unnest(ARRAY[1]) WITH ORDINALITY AS u(a, b)",
        "SELECT CASE a WHEN 1 THEN 2 ELSE 3 END, a BETWEEN SYMMETRIC 1 AND 2, a IN (1, 2), NOT a IN (SELECT 1)",
        "SELECT a LIKE 'x' ESCAPE '#', a !~* 'y', a SIMILAR TO 'z', a IS DISTINCT FROM b, (a).b, a AT TIME ZONE 'UTC'",
        "SELECT x::struct<a int, b varchar[]>, x::numeric(10,2), EXISTS (SELECT 1), x = ANY (ARRAY[1])",
        "SELECT * FROM t FOR SYSTEM_TIME AS OF 5",
    ],
)
def test_queries_print_to_what_parses_the_same(text):
    tree = parse_query(text)
    assert parse_query(print_sql(tree)) == tree
