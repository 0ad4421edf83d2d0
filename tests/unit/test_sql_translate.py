"""The text that Spark gets. What it means is tests/spark_sql's business; here it is that it is there at all."""

from __future__ import annotations

import pytest

from headrace.catalog import Catalog, Column, KeyColumn, Relation
from headrace.errors import TypeMismatch, UndefinedFunction, Unsupported
from headrace.sql.bind import bind_expression, bind_query
from headrace.sql.dialect import parse_expression, parse_query
from headrace.sql.functions import VOLATILE, call_function
from headrace.sql.intervals import spark_interval
from headrace.sql.regex import groups, java_regex, like_pattern, similar_regex
from headrace.sql.translate import assign, to_spark, type_of, types_of
from headrace.types import SqlType, array_of

INT, BIGINT, TEXT, NUMERIC = SqlType("integer"), SqlType("bigint"), SqlType("varchar"), SqlType("numeric")
DOUBLE, DATE, TIMESTAMP, TZ = (SqlType(name) for name in ("double precision", "date", "timestamp", "timestamptz"))

COLUMNS = tuple(
    Column(name=name, type=kind)
    for name, kind in {
        "i": INT, "l": BIGINT, "n": NUMERIC, "m": SqlType("numeric", precision=10, scale=2), "f": DOUBLE, "s": TEXT,
        "b": SqlType("boolean"), "d": DATE, "t": TIMESTAMP, "z": TZ, "j": SqlType("jsonb"), "xs": array_of(INT),
        "v": SqlType("interval"), "y": SqlType("bytea"), "r": SqlType("struct", fields=(("p", INT), ("q", TEXT))),
    }.items()
)  # fmt: skip


def spark(text: str) -> str:
    return to_spark(bind_expression(parse_expression(text), COLUMNS, "t"))


def kind(text: str) -> str:
    return str(type_of(bind_expression(parse_expression(text), COLUMNS, "t")))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i / 2", "CAST((`i` DIV 2) AS INT)"),
        ("i + l", "(CAST(`i` AS BIGINT) + `l`)"),
        ("i * 1.5", "(CAST(`i` AS DECIMAL(10,0)) * 1.5BD)"),
        ("f::int", "CAST(rint(`f`) AS INT)"),
        ("n::int", "CAST(round(`n`, 0) AS INT)"),
        ("s = 'x'", "(`s` = 'x')"),
        ("i = '5'", "(`i` = CAST('5' AS INT))"),
        ("d > '2020-01-31'", "(`d` > DATE '2020-01-31')"),
        ("z > '2020-01-01 02:00+02'", "(`z` > TIMESTAMP_LTZ '2020-01-01 00:00:00+00:00')"),
        (r"s = 'it''s a \ '", r"(`s` = 'it\'s a \\ ')"),
        ("s || i", "concat(`s`, CAST(`i` AS STRING))"),
        ("string_agg(s, ',' ORDER BY i DESC)",
         "listagg(`s`, ',') WITHIN GROUP (ORDER BY `i` DESC NULLS FIRST, `s` ASC NULLS LAST)"),
        ("d + 1", "date_add(`d`, 1)"),
        ("d - d", "datediff(`d`, `d`)"),
        ("t + interval '1 month'", "(`t` + INTERVAL '1' MONTH)"),
        ("t + i * interval '1 hour'", "(`t` + ((3600000000L * `i`) * INTERVAL '0.000001' SECOND))"),
        ("t - t > interval '1 day'",
            "((unix_micros(CAST(`t` AS TIMESTAMP)) - unix_micros(CAST(`t` AS TIMESTAMP))) > 86400000000L)"),
        ("v = '1 mon'", "(`v`.length = 2592000000000L)"),
        ("interval '1 mon' * 2 + interval '1 day'",
            "named_struct('length', 5270400000000L, 'months', 2, 'days', 1)"),
        ("t - v", "(`t` - make_ym_interval(0, CAST(`v`.months AS INT))"
            " - ((`v`.length - (`v`.months * 2592000000000L)) * INTERVAL '0.000001' SECOND))"),
        ("xs[i]", "get(`xs`, `i` - 1)"),
        ("(r).q", "`r`.`q`"),
        ("i = ANY (xs)", "array_contains(`xs`, `i`)"),
        ("i < ALL (xs)", "forall(`xs`, _e -> `i` < _e)"),
        ("j -> 'a'", "to_json(variant_get(parse_json(`j`), '$[\"a\"]'))"),
        ("j ->> 'a'", "variant_get(parse_json(`j`), '$[\"a\"]', 'string')"),
        ("'{\"b\": 1, \"a\": 2}'::jsonb", "'{\"a\":2,\"b\":1}'"),
        (r"'\xDEad'::bytea", "X'DEAD'"),
        ("s LIKE 'a\\%b'", r"(`s` LIKE 'a\\%b')"),
        ("s ~* '^a$'", r"(`s` RLIKE '(?si)^a\\z')"),
        ("NULL::int", "CAST(NULL AS INT)"),
        ("s::varchar(3)", "left(`s`, 3)"),
        ("1e3", "1000BD"),
        ("ARRAY[]::int[]", "CAST(array() AS ARRAY<INT>)"),
        ("b IS NOT TRUE", "(NOT (`b` IS TRUE))"),
        ("i IS DISTINCT FROM 1", "(NOT (`i` <=> 1))"),
        ("greatest(i, l)", "greatest(CAST(`i` AS BIGINT), `l`)"),
        ("z AT TIME ZONE 'europe/berlin'", "CAST(from_utc_timestamp(`z`, 'Europe/Berlin') AS TIMESTAMP_NTZ)"),
        ("date_trunc('month', t)", "CAST(date_trunc('MONTH', CAST(`t` AS TIMESTAMP)) AS TIMESTAMP_NTZ)"),
    ],
)  # fmt: skip
def test_expressions(text, expected):
    assert spark(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("i + i", "integer"), ("i + l", "bigint"), ("i / i", "integer"), ("i + f", "double precision"),
        ("m + m", "numeric(11,2)"), ("m * m", "numeric(21,4)"), ("m / m", "numeric(38,20)"), ("m % i", "numeric(10,2)"),
        ("n + n", "numeric(38,10)"), ("n * n", "numeric(38,20)"), ("n + f", "double precision"),
        ("1.50", "numeric(3,2)"),
        ("2147483647", "integer"), ("2147483648", "bigint"), ("9223372036854775808", "numeric(19,0)"),
        ("sum(i)", "bigint"), ("sum(l)", "numeric(29,0)"), ("sum(m)", "numeric(20,2)"), ("sum(f)", "double precision"),
        ("avg(i)", "numeric(38,20)"), ("avg(f)", "double precision"), ("count(*)", "bigint"), ("min(d)", "date"),
        ("array_agg(s)", "varchar[]"), ("string_agg(s, ',')", "varchar"), ("bool_and(b)", "boolean"),
        ("d + 1", "date"), ("d - d", "integer"), ("d + v", "timestamp"), ("t - t", "interval"), ("z - t", "interval"),
        ("d + interval '1 month'", "timestamp"), ("v * 2", "interval"), ("extract(year FROM d)", "numeric(10,0)"),
        ("date_part('year', d)", "double precision"), ("date_trunc('day', d)", "timestamptz"), ("now()", "timestamptz"),
        ("t AT TIME ZONE 'UTC'", "timestamptz"), ("z AT TIME ZONE 'UTC'", "timestamp"), ("xs[1]", "integer"),
        ("xs || 1", "integer[]"), ("xs[1:2]", "integer[]"), ("s || 1", "varchar"), ("j -> 'a'", "jsonb"),
        ("j ->> 'a'", "varchar"), ("CASE WHEN b THEN i ELSE m END", "numeric(12,2)"), ("coalesce(NULL, i)", "integer"),
        ("coalesce(NULL, 'x')", "varchar"), ("NULL", "None"), ("'x'", "None"), ("i = 1", "boolean"),
        ("(r).p", "integer"),
        ("row(1, 'x')", "struct<f1 integer, f2 varchar>"), ("length(s)", "integer"), ("round(m, 1)", "numeric(10,1)"),
        ("round(m)", "numeric(9,0)"), ("ceil(f)", "double precision"), ("abs(i)", "integer"),
        ("sqrt(i)", "double precision"),
        ("i::numeric", "numeric(10,0)"), ("m::numeric", "numeric(10,2)"), ("s::numeric", "numeric"),
        ("'1.50'::numeric", "numeric(3,2)"),
        ("first_value(d ORDER BY i)", "date"), ("last_value(s ORDER BY i)", "varchar"),
        ("last_value(i) OVER ()", "integer"),
        ("row_number() OVER ()", "bigint"), ("lag(i) OVER ()", "integer"), ("ntile(2) OVER ()", "integer"),
    ],
)  # fmt: skip
def test_types(text, expected):
    assert kind(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nope(i)", r"function nope\(\) is not supported"),
        ("s ~ '[[=a=]]'", r"\[\[?=a=\] in a regular expression"),
        ("regexp_match(s, s)", r"regexp_match\(\) with a regular expression that is not a string constant"),
        ("jsonb_path_exists(j, 'strict $.a')", "the mode strict"),
        ("jsonb_path_exists(j, '$.**')", r"\.\*\* in a jsonpath"),
        ("jsonb_path_exists(j, '$.a.datetime()')", r"\.datetime\(\) in a jsonpath"),
        ("jsonb_path_exists(j, '$.a ? (@ + 1 > 2)')", "arithmetic in a jsonpath"),
        ("jsonb_path_exists(j, '$ ? (@ like_regex \"a\" flag \"x\")')", 'the flag "x" of like_regex'),
        ("jsonb_path_exists(j, s)", "path that is not a string constant"),
        ("jsonb_path_exists(j, '$', j)", "variables that are not a constant"),
        ("jsonb_path_exists(j, '$', '{}', true)", "the argument silent"),
        ("jsonb_path_exists(j, '$x')", 'jsonpath variable "x"'),
        ("to_number(s, 'RN')", "the template 'RN' of to_number"),
        ("to_number(s, s)", "not a string constant"),
        ("encode(y, 'rot13')", "'hex', 'base64' and 'escape'"),
        ("format_type(1, 2)", r"function format_type\(\)"),
        ("TRY_CAST(s AS int)", "TRY_CAST"),
        ("s::char(3)", r"type char\(3\) is not supported\nHINT:  ?use varchar"),
        ("s::timetz", "type timetz is not supported\nHINT:  ?use time, or timestamptz"),
        ("s::money", "type money is not supported"),
        ("jsonb_set(j, xs::text[], j)", r"jsonb_set\(\) with a path that is not a constant"),
        ("lower(s => s)", r"a named argument of lower\(\)"),
        ("regexp_replace(s, 'a', s)", "replacement that is not a string constant"),
        ("to_char(i, 'RN')", "the template 'RN'"),
        ("to_char(i, '9,99')", "the template '9,99'"),
        ("to_char(d, 'RM')", 'the pattern "RM"'),
        ("to_char(v, 'Q')", 'the pattern "Q" of to_char\\(\\) of an interval'),
        ("date_trunc(s, t)", "not a string constant"),
        ("z AT TIME ZONE s", "zone that is not a string constant"),
        ("round(m, i)", "number of digits that is not a constant"),
        ("s::int[]", "only supported for constants"),
        ("j < j", "< on jsonb"),
        ("format(s, 1)", r"format\(\) with a format that is not a string constant"),
        ("ARRAY(SELECT 1)", "a subquery here|ARRAY"),
        ("first_value(i)", r"first_value\(\) without OVER or ORDER BY"),
        ("first_value(i) IGNORE NULLS OVER (ORDER BY i)", "IGNORE NULLS"),
        ("sum(i) OVER (ORDER BY i GROUPS 1 PRECEDING)", "GROUPS"),
        ("1" * 40, "at most 38 digits"),
    ],
)  # fmt: skip
def test_what_would_run_wrongly_is_refused(text, message):
    with pytest.raises(Unsupported, match=message):
        spark(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("s = i", "operator does not exist: varchar = integer"),
        ("i || i", r"operator does not exist: integer \|\| integer"),
        ("f % 2", "operator does not exist: double precision % integer"),
        ("l::boolean", "cannot cast type bigint to boolean"),
        ("d::int", "cannot cast type date to integer"),
        ("round(f, 1)", r"function round\(double precision, integer\) does not exist"),
        ("sum(s)", r"function sum\(varchar\) does not exist"),
        ("CASE WHEN b THEN i ELSE s END", "CASE types integer and varchar cannot be matched"),
        ("ARRAY[i, s]", "ARRAY types integer and varchar cannot be matched"),
        ("b AND i", "argument of AND must be type boolean, not type integer"),
        ("i[1]", "cannot subscript type integer"),
        ("ARRAY[]", "cannot determine type of empty array"),
    ],
)
def test_type_errors(text, message):
    with pytest.raises(TypeMismatch, match=message):
        spark(text)


# --- queries ----------------------------------------------------------------------------------------------------


@pytest.fixture
def catalog() -> Catalog:
    table = Relation(id=1, name="t", kind="table", columns=COLUMNS, pk=(KeyColumn(name="i"),))
    odd = Relation(id=2, name="O`d", kind="table", columns=(Column(name="A`b", type=INT),))
    return Catalog().add(table).add(odd)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT i FROM t", "SELECT `t`.`i` AS `i` FROM `T1` AS `t`"),
        ('SELECT "A`b" FROM "O`d" AS x', "SELECT `x`.`A``b` AS `A``b` FROM `O``d` AS `x`"),
        ("SELECT i FROM t ORDER BY i", "SELECT `t`.`i` AS `i` FROM `T1` AS `t` ORDER BY 1 ASC NULLS LAST"),
        ("SELECT i FROM t ORDER BY s DESC", "SELECT `t`.`i` AS `i` FROM `T1` AS `t` ORDER BY `t`.`s` DESC NULLS FIRST"),
        ("SELECT i FROM t LIMIT ALL OFFSET 2", "SELECT `t`.`i` AS `i` FROM `T1` AS `t` OFFSET 2"),
        ("SELECT i FROM t LIMIT 9999999999", "SELECT `t`.`i` AS `i` FROM `T1` AS `t`"),
        ("SELECT i FROM t FETCH FIRST ROW ONLY", "SELECT `t`.`i` AS `i` FROM `T1` AS `t` LIMIT 1"),
        ("SELECT NULL, 'x'", "SELECT CAST(NULL AS STRING) AS `?column?`, 'x' AS `?column?`"),
        ("SELECT 1 UNION ALL SELECT NULL",
         "(SELECT 1 AS `?column?`) UNION ALL (SELECT CAST(NULL AS INT) AS `?column?`)"),
        ("SELECT DISTINCT i FROM t", "SELECT DISTINCT `t`.`i` AS `i` FROM `T1` AS `t`"),
        ("WITH c(x) AS (SELECT i FROM t) SELECT x FROM c",
         "WITH `c`(`x`) AS (SELECT `t`.`i` AS `i` FROM `T1` AS `t`) SELECT `c`.`x` AS `x` FROM `c` AS `c`"),
        ("SELECT a.i FROM t a, t b", "SELECT `a`.`i` AS `i` FROM `T1` AS `a` CROSS JOIN `T1` AS `b`"),
        ("SELECT e FROM t, unnest(xs) AS e",
         "SELECT `e`.`e` AS `e` FROM `T1` AS `t` CROSS JOIN LATERAL (SELECT explode(`t`.`xs`)) AS `e`(`e`)"),
        ("SELECT count(*) FILTER (WHERE b) FROM t",
         "SELECT count(*) FILTER (WHERE `t`.`b`) AS `count` FROM `T1` AS `t`"),
        ("SELECT i FROM t WHERE i IN (SELECT l FROM t AS u)",
         "SELECT `t`.`i` AS `i` FROM `T1` AS `t` "
         "WHERE (CAST(`t`.`i` AS BIGINT) IN (SELECT `u`.`l` AS `l` FROM `T1` AS `u`))"),
    ],
)  # fmt: skip
def test_queries(catalog, text, expected):
    bound = bind_query(parse_query(text), catalog)
    assert to_spark(bound.expression, table_names={"t": "T1"}) == expected


def test_types_of_a_query(catalog):
    bound = bind_query(parse_query("SELECT i, NULL FROM t UNION ALL SELECT m, s FROM t"), catalog)
    assert [str(each) for each in types_of(bound.expression)] == ["numeric(12,2)", "varchar"]


def test_volatile_functions_are_known_or_refused():
    for name in VOLATILE:
        try:
            call_function(name, [])
        except (Unsupported, UndefinedFunction):  # the latter wants an argument
            pass


# --- assignment -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (INT, INT, "x"),
        (INT, BIGINT, "CAST(x AS BIGINT)"),
        (DOUBLE, INT, "CAST(rint(x) AS INT)"),
        (INT, TEXT, "CAST(x AS STRING)"),
        (None, BIGINT, "CAST(x AS BIGINT)"),
        (None, TEXT, "x"),
        (SqlType("numeric", precision=38, scale=18), NUMERIC, "CAST(x AS DECIMAL(38,10))"),
        (DATE, TIMESTAMP, "CAST(x AS TIMESTAMP_NTZ)"),
    ],
)
def test_assign(source, target, expected):
    assert assign("x", source, target, "c") == expected


@pytest.mark.parametrize(("source", "target"), [(TEXT, INT), (TEXT, DATE), (INT, DATE), (SqlType("boolean"), INT)])
def test_assign_refuses_what_postgresql_does(source, target):
    with pytest.raises(TypeMismatch, match='column "c" is of type .* but expression is of type'):
        assign("x", source, target, "c")


# --- intervals and patterns -------------------------------------------------------------------------------------

DAY = 86_400_000_000


def test_spark_interval():
    assert spark_interval(DAY + 1) == "INTERVAL '1 00:00:00.000001' DAY TO SECOND"
    assert spark_interval(-3_600_000_000) == "INTERVAL '-0 01:00:00.000000' DAY TO SECOND"


@pytest.mark.parametrize(
    ("pattern", "java"),
    [
        ("a.b", "(?s)a.b"),
        ("^a$", r"(?s)^a\z"),
        (r"a\$", r"(?s)a\$"),
        ("[$]", "(?s)[$]"),
        ("[[:alpha:]_]", r"(?s)[\p{L}_]"),
        ("[^]a]", r"(?s)[^\]a]"),
        (r"\mx\M\y", r"(?s)\b(?=\w)x\b(?<=\w)\b"),
        ("(?i)A", "(?si)A"),
    ],
)
def test_regular_expressions(pattern, java):
    assert java_regex(pattern) == java


def test_groups():
    assert [groups(p) for p in ("a", "(a)", "(?:a)", r"\(a", "[(]", "((a)b)")] == [0, 1, 0, 0, 0, 2]


def test_like_patterns():
    assert like_pattern(r"a\bc") == "abc"
    assert like_pattern(r"a\%c") == r"a\%c"
    assert like_pattern(r"a\c", "") == r"a\\c"
    assert like_pattern("a#_#b%", "#") == r"a\_b%"
    assert similar_regex("a.%_") == r"(?s)^(?:a\..*.)\z"
