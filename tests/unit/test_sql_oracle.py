"""Functions that Headrace does not define: asked for where somebody can answer, refused elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Relation
from headrace.errors import GroupingError, TypeMismatch, UndefinedFunction, Unsupported
from headrace.plan.build import build
from headrace.sql.bind import bind_expression, bind_query
from headrace.sql.dialect import parse_expression, parse_query
from headrace.sql.oracle import AGGREGATE, GENERATOR, SCALAR, Argument, Found
from headrace.sql.translate import to_spark
from headrace.types import SqlType

INT, TEXT, SMALLINT = SqlType("integer"), SqlType("varchar"), SqlType("smallint")
PAIR = SqlType("struct", fields=(("k", TEXT), ("v", INT)))
COLUMNS = (Column(name="a", type=INT), Column(name="b", type=TEXT))
CATALOG = Catalog().add(Relation(id=1, name="t", kind=TABLE, columns=COLUMNS, pk=(KeyColumn(name="a"),)))


class Fake:
    """Knows some functions, and remembers what it was asked."""

    known = {
        "soundex": Found(kind=SCALAR, type=TEXT),
        "getbit": Found(kind=SCALAR, type=SMALLINT, exact=False),
        "max_by": Found(kind=AGGREGATE, type=TEXT),
        "stack": Found(kind=GENERATOR, type=INT),
        "pairs": Found(kind=GENERATOR, type=PAIR, columns=PAIR.fields),
    }

    def __init__(self):
        self.asked: list[tuple[str, tuple[Argument, ...]]] = []

    def find(self, name: str, arguments: Sequence[Argument]) -> Found | None:
        self.asked.append((name, tuple(arguments)))
        if name == "picky":
            raise TypeMismatch("function picky(integer) does not exist")
        return self.known.get(name)


def spark(text: str, functions: Fake | None = None) -> str:
    bound = bind_query(parse_query(text), CATALOG, functions=functions or Fake())
    again = bind_query(parse_query(bound.text()), CATALOG, functions=Fake())
    assert again.text() == bound.text()
    return to_spark(bound.expression)


def test_a_plain_function_is_called_by_its_name():
    assert spark("SELECT soundex(b) AS s FROM t") == "SELECT soundex(`t`.`b`) AS `s` FROM `t` AS `t`"


def test_a_result_of_another_type_is_cast():
    assert "CAST(getbit(`t`.`a`, 1) AS SMALLINT)" in spark("SELECT getbit(a, 1) FROM t")


def test_the_oracle_sees_types_and_constants():
    fake = Fake()
    spark("SELECT soundex(b, 'x', 5) FROM t", fake)
    assert fake.asked[0] == (
        "soundex",
        (Argument(type=TEXT, sql=None), Argument(type=None, sql="'x'"), Argument(type=INT, sql="5")),
    )


def test_what_headrace_defines_is_never_asked_for():
    fake = Fake()
    spark("SELECT lower(b), sum(a), percentile_disc(0.5) WITHIN GROUP (ORDER BY a) FROM t GROUP BY b", fake)
    spark("SELECT rank() OVER (ORDER BY a) FROM t", fake)
    spark("SELECT unnest(ARRAY[1]) FROM t", fake)
    assert fake.asked == []


def test_aggregates_group():
    sql = spark("SELECT max_by(b, a) FILTER (WHERE a > 1), max_by(b, a) OVER (PARTITION BY a) FROM t GROUP BY a, b")
    assert "max_by(`t`.`b`, `t`.`a`) FILTER (WHERE (`t`.`a` > 1))" in sql
    assert "max_by(`t`.`b`, `t`.`a`) OVER (PARTITION BY `t`.`a`)" in sql
    with pytest.raises(GroupingError, match='column "t.a" must appear in the GROUP BY clause'):
        spark("SELECT a, max_by(b, a) FROM t")
    with pytest.raises(GroupingError, match="not allowed in WHERE"):
        spark("SELECT a FROM t WHERE max_by(b, a) = 'x'")


def test_generators_of_one_column_stand_in_the_select_list_or_in_from():
    assert "SELECT stack(2, 1, 2) AS `stack`" in spark("SELECT stack(2, 1, 2)")
    assert spark("SELECT * FROM stack(2, 1, 2)").endswith("FROM (SELECT stack(2, 1, 2)) AS `stack`(`stack`)")
    assert "CROSS JOIN LATERAL (SELECT stack(2, `t`.`a`, 2)) AS `s`(`n`)" in spark(
        "SELECT n FROM t, stack(2, a, 2) AS s (n)"
    )


def test_generators_of_several_columns_are_one_more_source():
    sql = spark("SELECT a, pairs(a) FROM t")
    assert sql == (
        "SELECT `t`.`a` AS `a`, `_g1`.`k` AS `k`, `_g1`.`v` AS `v` "
        "FROM `t` AS `t` CROSS JOIN LATERAL (SELECT pairs(`t`.`a`)) AS `_g1`(`k`, `v`)"
    )
    assert "`_g1`" not in spark("SELECT *, pairs(a) FROM t").partition(", `_g1`.`k`")[0]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("SELECT nope(a) FROM t", UndefinedFunction, r"function nope\(integer\) does not exist"),
        ("SELECT picky(a) FROM t", TypeMismatch, r"function picky\(integer\) does not exist"),
        ("SELECT * FROM pairs(1) WITH ORDINALITY", Unsupported, r"pairs\(\) WITH ORDINALITY"),
        ("SELECT * FROM ROWS FROM (pairs(1)) AS r", Unsupported, r"pairs\(\) in ROWS FROM"),
        ("SELECT pairs(a), count(*) FROM t", Unsupported, r"pairs\(\) beside aggregates"),
        ("SELECT max_by(DISTINCT b, a) OVER () FROM t", Unsupported, "DISTINCT in a window function"),
        ("SELECT max_by(b, a ORDER BY a) FROM t", Unsupported, r"max_by\(\) as an aggregate"),
    ],
)
def test_errors_name_the_function_and_where_it_stood(text, error, message):
    with pytest.raises(error, match=message) as caught:
        spark(text)
    assert caught.value.position is not None


def test_without_an_oracle_they_are_refused():
    with pytest.raises(Unsupported, match=r"function soundex\(\) is not supported"):
        bind_query(parse_query("SELECT soundex(b) FROM t"), CATALOG)
    with pytest.raises(Unsupported, match=r"function soundex\(\) is not supported"):
        bind_expression(parse_expression("soundex(b)"), COLUMNS, "t")


def test_a_materialized_view_refuses_them_by_name():
    bound = bind_query(parse_query("SELECT soundex(b) AS s FROM t"), CATALOG, functions=Fake())
    with pytest.raises(Unsupported, match=r"Spark's function soundex\(\) is not supported in a materialized view"):
        build(bound, CATALOG)
