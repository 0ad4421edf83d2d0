"""Lambdas, maps, whole rows, ROWS FROM, COLLATE: what they bind to, and that their text binds to itself."""

from __future__ import annotations

import pytest

from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Relation
from headrace.errors import HeadraceError, TypeMismatch, UndefinedCollation, UndefinedColumn, Unsupported
from headrace.plan.build import build
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.sql.oracle import SCALAR, Found
from headrace.sql.translate import to_spark
from headrace.types import SqlType, array_of, map_of

INT, TEXT, JSONB = SqlType("integer"), SqlType("varchar"), SqlType("jsonb")
KEY = (KeyColumn(name="id"),)
CATALOG = (
    Catalog()
    .add(
        Relation(
            id=1,
            name="t",
            kind=TABLE,
            columns=(
                Column(name="id", type=INT),
                Column(name="x", type=TEXT),
                Column(name="xs", type=array_of(INT)),
                Column(name="j", type=JSONB),
            ),
            pk=KEY,
        )
    )
    .add(
        Relation(id=2, name="u", kind=TABLE, columns=(Column(name="id", type=INT), Column(name="v", type=INT)), pk=KEY)
    )
)


class Maps:
    """An oracle that knows one function, which gives a map."""

    def find(self, name, arguments):
        return Found(kind=SCALAR, type=map_of(TEXT, INT)) if name == "map" else None


def bound(text: str):
    query = bind_query(parse_query(text), CATALOG, functions=Maps())
    again = bind_query(parse_query(query.text()), CATALOG, functions=Maps())
    assert again.text() == query.text()
    assert to_spark(again.expression) == to_spark(query.expression)
    return query


def spark(text: str) -> str:
    return to_spark(bound(text).expression)


def item(text: str) -> str:
    return spark(f"SELECT {text} AS c FROM t").removeprefix("SELECT ").removesuffix(" AS `c` FROM `t` AS `t`")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("transform(xs, x -> x + 1)", "transform(`t`.`xs`, `_l_x` -> (`_l_x` + 1))"),
        ("transform(xs, (x, i) -> x * i)", "transform(`t`.`xs`, (`_l_x`, `_l_i`) -> (`_l_x` * `_l_i`))"),
        ("filter(xs, e -> e > id)", "filter(`t`.`xs`, `_l_e` -> (`_l_e` > `t`.`id`))"),
        ("exists(xs, e -> e = 1)", "exists(`t`.`xs`, `_l_e` -> (`_l_e` = 1))"),
        (
            "transform(xs, a -> transform(xs, b -> a + b))",
            "transform(`t`.`xs`, `_l_a` -> transform(`t`.`xs`, `_l_b` -> (`_l_a` + `_l_b`)))",
        ),
        (
            "aggregate(xs, 0, (s, e) -> s + e)",
            "aggregate(`t`.`xs`, CAST(0 AS INT), (`_l_s`, `_l_e`) -> CAST((`_l_s` + `_l_e`) AS INT))",
        ),
        # the arrow still looks into jsonb where no lambda can stand
        ("lower(j ->> 'x')", "lower(variant_get(parse_json(`t`.`j`), '$[\"x\"]', 'string'))"),
    ],
)
def test_lambdas(text, expected):
    assert item(text) == expected


def test_the_variables_of_a_lambda_have_types_of_their_own():
    """x is a text column, and a number inside of the lambda."""
    assert bound("SELECT transform(xs, x -> x + 1), x FROM t").types == (array_of(INT), TEXT)


def test_the_state_of_an_aggregate_is_as_wide_as_what_its_lambda_gives():
    query = bound("SELECT aggregate(xs, 0, (s, e) -> s + e::bigint), reduce(xs, '', (s, e) -> s || e) FROM t")
    assert [str(kind) for kind in query.types] == ["bigint", "varchar"]


def test_maps_are_results_and_operands():
    query = bound("SELECT map('a', 1) AS m, map('a', 1)['a'], transform_values(map('a', 1), (k, v) -> k) FROM t")
    assert [str(kind) for kind in query.types] == ["map<varchar, integer>", "integer", "map<varchar, varchar>"]
    assert SqlType.from_json(map_of(TEXT, INT).to_json()) == map_of(TEXT, INT)


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("transform(xs, e -> nope)", UndefinedColumn, 'column "nope" does not exist'),
        ("transform(xs, e -> (SELECT 1))", Unsupported, "a subquery inside a lambda"),
        ("transform(xs, e -> e + count(*))", Unsupported, r"count\(\), an aggregate, inside a lambda"),
        ("transform(xs, e -> rank() OVER ())", Unsupported, "a window function inside a lambda"),
        ("transform(xs, e -> unnest(xs))", Unsupported, r"unnest\(\), which returns rows, inside a lambda"),
        ("transform(xs, (a, b, c) -> a)", TypeMismatch, r"a lambda of transform\(\) takes 2 variables"),
        ("transform(xs, (a, a) -> a)", TypeMismatch, r"a lambda of transform\(\) takes 2 variables"),
        ("filter(xs, e -> e)", TypeMismatch, r"argument of filter\(\) must be type boolean"),
        ("transform(x, e -> e)", TypeMismatch, r"function transform\(varchar, lambda\) does not exist"),
        ("zip_with(xs, e -> e)", TypeMismatch, r"function zip_with\(integer\[\], lambda\) does not exist"),
        ("aggregate(xs, 0, (s, e) -> true)", TypeMismatch, "starts with integer but its lambda gives boolean"),
        ('x COLLATE "nowhere"', UndefinedCollation, 'collation "nowhere" does not exist'),
        ('id COLLATE "C"', TypeMismatch, "collations are not supported by type integer"),
        ("(id).*", Unsupported, r"\(…\)\.\* of something else than a row"),
    ],
)
def test_refusals(text, error, message):
    with pytest.raises(error, match=message):
        bound(f"SELECT {text} FROM t")


def test_lambdas_may_be_kept_in_a_materialized_view_but_collations_of_spark_may_not():
    build(bound("SELECT id, transform(xs, e -> e + 1) AS ys FROM t"), CATALOG)
    build(bound('SELECT id, x COLLATE "C" AS c FROM t'), CATALOG)
    with pytest.raises(Unsupported, match='COLLATE "UNICODE" is not supported in a materialized view'):
        build(bound('SELECT id, x COLLATE "UNICODE" AS c FROM t'), CATALOG)


def test_a_relation_s_name_is_its_row():
    assert spark("SELECT u FROM u") == "SELECT named_struct('id', `u`.`id`, 'v', `u`.`v`) AS `u` FROM `u` AS `u`"
    assert spark("SELECT (u).* FROM u") == "SELECT `u`.`id` AS `id`, `u`.`v` AS `v` FROM `u` AS `u`"
    assert "named_struct('f1', `u`.`id`, 'f2', `u`.`v`, 'f3', 1)" in spark("SELECT ROW(u.*, 1) FROM u")
    assert "(`u`.`id` IS NULL) AND (`u`.`v` IS NULL)" in spark("SELECT u IS NULL FROM u")


def test_a_row_that_an_outer_join_did_not_find_is_null():
    assert "CASE WHEN `u`.`id` IS NOT NULL" in spark("SELECT count(u) FROM t LEFT JOIN u ON u.id = t.id")
    assert "CASE WHEN `u`.`id`" not in spark("SELECT count(u) FROM t RIGHT JOIN u ON u.id = t.id")


def test_a_column_comes_before_a_row_even_from_further_out():
    sql = spark("SELECT (SELECT max(x) FROM (SELECT 1 AS n) AS x) FROM t")
    assert "max(`t`.`x`)" in sql


def test_rows_from():
    query = bound("SELECT * FROM ROWS FROM (generate_series(1, 3), jsonb_each('{}')) WITH ORDINALITY AS r (a, k, v)")
    assert query.output == ("a", "k", "v", "ordinality")


def test_an_alias_of_a_join_hides_what_it_joins():
    query = bound("SELECT j.* FROM (t JOIN u USING (id)) AS j (a)")
    assert query.output == ("a", "x", "xs", "j", "v")
    with pytest.raises(HeadraceError, match='missing FROM-clause entry for table "u"'):
        bound("SELECT u.v FROM (t JOIN u USING (id)) AS j")
    with pytest.raises(Unsupported, match='an alias for a join that has two columns named "id"'):
        bound("SELECT 1 FROM (t JOIN u ON true) AS j")


def test_a_join_in_parentheses_may_start_with_a_query():
    sql = spark("SELECT * FROM ((SELECT 1 AS n) AS a JOIN u ON u.id = a.n) CROSS JOIN t")
    assert "FROM ((SELECT 1 AS `n`) AS `a` JOIN `u` AS `u` ON (`u`.`id` = `a`.`n`)) CROSS JOIN `t` AS `t`" in sql
    assert bound("SELECT k.* FROM ((VALUES (1)) AS a (n) CROSS JOIN u) AS k").output == ("n", "id", "v")


def test_collations():
    assert item('x COLLATE "C"') == "`t`.`x`"
    assert item('x COLLATE "UNICODE_CI"') == "(`t`.`x` COLLATE UNICODE_CI)"


def test_rows_are_looked_for_with_every_column_null_or_equal():
    sql = spark("SELECT (id, id) IN (SELECT id, v FROM u) FROM t")
    assert sql.count("collect_set(") > 0 and "IN (" not in sql
    with pytest.raises(Unsupported, match="of more than 4 columns"):
        bound("SELECT (1, 2, 3, 4, 5) IN (SELECT 1, 2, 3, 4, 5) FROM t")
