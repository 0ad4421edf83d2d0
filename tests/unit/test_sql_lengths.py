"""Where intervals are looked at by their lengths: what queries become when their names are bound."""

from __future__ import annotations

import pytest

from headrace.catalog import Catalog, Column, Relation
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.types import SqlType

COLUMNS = tuple(Column(name=name, type=SqlType(kind)) for name, kind in (("n", "integer"), ("i", "interval")))
CATALOG = Catalog().add(Relation(id=1, name="t", kind="table", columns=COLUMNS))
FROM = 'FROM "public"."t" AS "t"'
ONCE = f'FROM (SELECT "t"."i" AS "i" {FROM}'


@pytest.mark.parametrize(
    ("query", "bound"),
    [
        ("SELECT i, count(i) FROM t GROUP BY i",
         f'SELECT min("t"."i") AS "i", count("t"."i") AS "count" {FROM} GROUP BY _hr_length("t"."i")'),
        ("SELECT i * 2 AS d FROM t GROUP BY i, n HAVING i > '1 day'",
         f'SELECT min("t"."i") * 2 AS "d" {FROM} GROUP BY _hr_length("t"."i"), "t"."n"'
         """ HAVING min("t"."i") > '1 day'"""),
        ("SELECT i, grouping(i) AS g FROM t GROUP BY ROLLUP (i, n)",
         'SELECT CASE WHEN grouping(_hr_length("t"."i")) = 0 THEN min("t"."i") END AS "i",'
         f' grouping(_hr_length("t"."i")) AS "g" {FROM} GROUP BY ROLLUP (_hr_length("t"."i"), "t"."n")'),
        ("SELECT n FROM t GROUP BY n ORDER BY max(i)",
         f'SELECT "t"."n" AS "n" {FROM} GROUP BY "t"."n" ORDER BY _hr_length(max("t"."i"))'),
        ("SELECT i FROM t ORDER BY 1 DESC, n",
         f'SELECT "t"."i" AS "i" {FROM} ORDER BY _hr_length("t"."i") DESC, "t"."n"'),
        ("SELECT DISTINCT ON (i) i FROM t ORDER BY i",
         f'SELECT DISTINCT ON (_hr_length("t"."i")) "t"."i" AS "i" {FROM} ORDER BY _hr_length("t"."i")'),
        ("SELECT count(DISTINCT i), count(i) FROM t",
         f'SELECT count(DISTINCT _hr_length("t"."i")) AS "count", count("t"."i") AS "count" {FROM}'),
        ("SELECT rank() OVER (PARTITION BY i ORDER BY i) FROM t",
         f'SELECT rank() OVER (PARTITION BY _hr_length("t"."i") ORDER BY _hr_length("t"."i")) AS "rank" {FROM}'),
        ("SELECT DISTINCT i FROM t ORDER BY i LIMIT 1",
         f'SELECT min("_hr_equal"."c0") AS "i" {ONCE}) AS "_hr_equal"("c0") GROUP BY _hr_length("_hr_equal"."c0")'
         ' ORDER BY _hr_length(min("_hr_equal"."c0")) LIMIT 1'),
        ("SELECT i FROM t UNION SELECT i FROM t",
         f'SELECT min("_hr_equal"."c0") AS "i" {ONCE} UNION ALL SELECT "t"."i" AS "i" {FROM}) AS "_hr_equal"("c0")'
         ' GROUP BY _hr_length("_hr_equal"."c0")'),
        ("SELECT DISTINCT n FROM t", f'SELECT DISTINCT "t"."n" AS "n" {FROM}'),
        ("SELECT i FROM t UNION ALL SELECT i FROM t",
         f'SELECT "t"."i" AS "i" {FROM} UNION ALL SELECT "t"."i" AS "i" {FROM}'),
    ],
)  # fmt: skip
def test_bound(query, bound):
    assert bind_query(parse_query(query), CATALOG).text() == bound
    assert bind_query(parse_query(bound), CATALOG).text() == bound


@pytest.mark.parametrize("operator", ["EXCEPT", "INTERSECT"])
def test_both_sides_are_told_apart(operator):
    bound = bind_query(parse_query(f"SELECT i, n FROM t {operator} SELECT '1 day', 2 ORDER BY n, i"), CATALOG)
    text = bound.text()
    assert "UNION ALL" in text and operator not in text
    assert [str(kind) for kind in bound.types] == ["interval", "integer"]
    assert bind_query(parse_query(text), CATALOG).text() == text
