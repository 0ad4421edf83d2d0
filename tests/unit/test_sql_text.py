"""Strings, names, expressions and queries: what is read is printed as what reads the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp

from headrace.errors import (
    HeadraceError,
    SqlSyntaxError,
)
from headrace.sql.dialect import parse_expression, parse_query, print_sql
from headrace.sql.parse import parse
from tests.support.statements import one


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\b'", "a\\b"),
        ("'it''s'", "it's"),
        (r"E'\n\t\\\''", "\n\t\\'"),
        (r"e'\x41\101\u0042''c'", "AAB'c"),
        ("$$a'b$$", "a'b"),
        ("$x$ $$ $x$", " $$ "),
        (r"E'\xc3\xa4\303\244ä\401'", "äää\1"),
        (r"E'\ud83d\ude00\U0000d83d\U0000de00\\ud83d'", "😀😀\\ud83d"),
        (r"U&'d\0061t\+000061\\'", "data\\"),
        (r"U&'\d83d\de00\+00d83d\+00de00'", "😀😀"),
        ("'a'\n'b'", "ab"),
        ("''", ""),
    ],
)
def test_strings(text, value):
    literal = parse_expression(text)
    assert isinstance(literal, exp.Literal) and literal.is_string and literal.this == value
    assert parse_expression(print_sql(literal)) == literal


@pytest.mark.parametrize(
    ("text", "sqlstate"),
    [
        (r"E'\xc3'", "22021"),
        (r"E'\400'", "22021"),
        (r"E'\ud83d'", "42601"),
        (r"E'\ude00\ud83d'", "42601"),
        (r"E'\U00110000'", "42601"),
        (r"E'\u12'", "22025"),
        (r"U&'\d83d'", "42601"),
        (r"U&'\+110000'", "42601"),
        (r"U&'\zz'", "42601"),
    ],
)
def test_strings_that_are_none(text, sqlstate):
    with pytest.raises(HeadraceError) as caught:
        parse_expression(text)
    assert caught.value.sqlstate == sqlstate


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
