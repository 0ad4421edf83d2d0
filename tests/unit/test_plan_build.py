"""Which queries a materialized view can have, and what becomes of them."""

from __future__ import annotations

import pytest

from headrace.catalog import TABLE, VIEW, Catalog, Column, KeyColumn, Relation
from headrace.errors import DuplicateColumn, InvalidDefinition, Unsupported
from headrace.plan.build import build, output_types
from headrace.plan.explain import explain
from headrace.plan.nodes import Filter, Node, Project, Scan, UnionAll, column
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.types import SqlType, array_of

INT, BIGINT, TEXT = SqlType("integer"), SqlType("bigint"), SqlType("varchar")


@pytest.fixture
def catalog() -> Catalog:
    t = Relation(
        id=1,
        name="t",
        kind=TABLE,
        columns=(
            Column(name="a", type=INT),
            Column(name="b", type=TEXT),
            Column(name="xs", type=array_of(INT)),
            Column(name="_row_id", type=BIGINT, hidden=True),
        ),
        pk=(KeyColumn(name="_row_id"),),
        distribution=("_row_id",),
    )
    u = Relation(
        id=2,
        name="u",
        kind=TABLE,
        columns=(Column(name="id", type=BIGINT), Column(name="c", type=SqlType("numeric", precision=5, scale=2))),
        pk=(KeyColumn(name="id"),),
        distribution=("id",),
    )
    v = Relation(
        id=3,
        name="v",
        kind=VIEW,
        columns=(Column(name="x", type=INT), Column(name="y", type=TEXT)),
        query='SELECT "t"."a" + 1 AS "a", "t"."b" AS "b" FROM "public"."t" AS "t" WHERE "t"."a" > 0',
        depends_on=(1,),
    )
    return Catalog().add(t).add(u).add(v)


def plan(text: str, catalog: Catalog, names=None) -> Node:
    return build(bind_query(parse_query(text), catalog), catalog, names)


def shape(text: str, catalog: Catalog) -> list[str]:
    """One line per operator, without what the plan's text says about tables."""
    lines = explain(plan(text, catalog), catalog).splitlines()
    return [line.split(", incremental")[0].split(", columns")[0].split(", stream_key")[0] for line in lines]


def test_projection_and_filter(catalog):
    node = plan("SELECT a, upper(b) AS u FROM t WHERE a > 1 AND b IS NOT NULL", catalog)
    assert isinstance(node, Project) and isinstance(node.input, Filter) and isinstance(node.input.input, Scan)
    assert node.output == ("a", "u")
    assert output_types(node, catalog) == {"a": INT, "u": TEXT}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM t", [
            "StreamProject { exprs: [a, b, xs]",
            "└─StreamTableScan { table: t"]),
        ("SELECT a FROM t ORDER BY a DESC", [
            "StreamProject { exprs: [a]",
            "└─StreamTableScan { table: t"]),
        ("SELECT z + 1 AS z FROM (SELECT a AS z, b FROM t) AS q WHERE b = 'x'", [
            "StreamProject { exprs: [a + 1 as z]",
            "└─StreamFilter { predicate: b = 'x'",
            "  └─StreamTableScan { table: t"]),
        ("WITH c(k, l) AS (SELECT a, b FROM t), d AS (SELECT k FROM c WHERE l = 'x') SELECT k FROM d WHERE k > 1", [
            "StreamProject { exprs: [a as k]",
            "└─StreamFilter { predicate: b = 'x' AND a > 1",
            "  └─StreamTableScan { table: t"]),
        ("SELECT x, y FROM v WHERE x < 5", [
            "StreamProject { exprs: [x, y]",
            "└─StreamFilter { predicate: x < 5",
            "  └─StreamProject { exprs: [a + 1 as x, b as y]",
            "    └─StreamFilter { predicate: a > 0",
            "      └─StreamTableScan { table: t"]),
        ("SELECT x * 2 AS p FROM v", [
            "StreamProject { exprs: [(a + 1) * 2 as p]",
            "└─StreamFilter { predicate: a > 0",
            "  └─StreamTableScan { table: t"]),
        ("SELECT x AS p, x AS q FROM v", [
            "StreamProject { exprs: [x as p, x as q]",
            "└─StreamProject { exprs: [a + 1 as x, b as y]",
            "  └─StreamFilter { predicate: a > 0",
            "    └─StreamTableScan { table: t"]),
        ("SELECT a FROM t WHERE a = 1 OR a = 2", [
            "StreamProject { exprs: [a]",
            "└─StreamFilter { predicate: a = 1 OR a = 2",
            "  └─StreamTableScan { table: t"]),
        ("SELECT a FROM (SELECT a FROM t WHERE a = 1 OR a = 2) q WHERE a > 0", [
            "StreamProject { exprs: [a]",
            "└─StreamFilter { predicate: (a = 1 OR a = 2) AND a > 0",
            "  └─StreamTableScan { table: t"]),
        ("SELECT a FROM t UNION ALL SELECT id FROM u UNION ALL SELECT a + 1 FROM t", [
            "StreamUnion { all: true",
            "├─StreamProject { exprs: [CAST(a AS BIGINT) as a]",
            "│ └─StreamTableScan { table: t",
            "├─StreamProject { exprs: [id as a]",
            "│ └─StreamTableScan { table: u",
            "└─StreamProject { exprs: [CAST(a + 1 AS BIGINT) as a]",
            "  └─StreamTableScan { table: t"]),
        ("SELECT -a AS n FROM (SELECT a FROM t UNION ALL SELECT a FROM t WHERE b = 'x') q WHERE a > 1", [
            "StreamUnion { all: true",
            "├─StreamProject { exprs: [-a as n]",
            "│ └─StreamFilter { predicate: a > 1",
            "│   └─StreamTableScan { table: t",
            "└─StreamProject { exprs: [-a as n]",
            "  └─StreamFilter { predicate: b = 'x' AND a > 1",
            "    └─StreamTableScan { table: t"]),
        ("SELECT a, NULL AS n, 'x' AS s FROM t", [
            "StreamProject { exprs: [a, CAST(NULL AS VARCHAR) as n, CAST('x' AS VARCHAR) as s]",
            "└─StreamTableScan { table: t"]),
    ],
)  # fmt: skip
def test_plans(catalog, text, expected):
    assert shape(text, catalog) == expected


@pytest.mark.parametrize(
    ("text", "construct"),
    [
        ("SELECT b FROM t GROUP BY b", "GROUP BY"),
        ("SELECT sum(a) FROM t", r"the aggregate function sum\(\)"),
        ("SELECT count(*) FILTER (WHERE true) FROM t", r"the aggregate function count\(\)"),
        ("SELECT 1 FROM t HAVING true", "HAVING"),
        ("SELECT row_number() OVER () FROM t", "a window function"),
        ("SELECT t.a FROM t JOIN u ON t.a = u.id", "JOIN"),
        ("SELECT t.a FROM t, u", "JOIN"),
        ("SELECT a FROM (t JOIN u ON true)", "JOIN"),
        ("SELECT DISTINCT a FROM t", "DISTINCT"),
        ("SELECT DISTINCT ON (a) a FROM t", "DISTINCT ON"),
        ("SELECT a FROM t LIMIT 1", "LIMIT"),
        ("SELECT a FROM t OFFSET 1", "OFFSET"),
        ("SELECT a FROM t UNION SELECT a FROM t", "UNION"),
        ("SELECT a FROM t EXCEPT SELECT a FROM t", "EXCEPT"),
        ("SELECT a FROM t INTERSECT SELECT a FROM t", "INTERSECT"),
        ("SELECT a FROM t WHERE a IN (SELECT 1)", "a subquery in an expression"),
        ("SELECT (SELECT 1) FROM t", "a subquery in an expression"),
        ("SELECT a FROM t WHERE EXISTS (SELECT 1)", "EXISTS"),
        ("SELECT * FROM generate_series(1, 2) AS g", r"the table function generate_series\(\)"),
        ("SELECT unnest(xs) FROM t", r"the set-returning function unnest\(\)"),
        ("SELECT * FROM (VALUES (1)) AS v(x)", "VALUES"),
        ("VALUES (1)", "VALUES"),
        ("SELECT 1", "a query without FROM"),
        ("SELECT now() FROM t", r"now\(\), whose result changes by itself,"),
        ("SELECT a FROM t WHERE random() < 0.5", r"random\(\), whose result changes by itself,"),
        ("SELECT current_date FROM t", r"current_date\(\), whose result changes by itself,"),
        ("SELECT a FROM t FOR SYSTEM_TIME AS OF 5", "FOR SYSTEM_TIME AS OF"),
        ("WITH c AS (SELECT DISTINCT a FROM t) SELECT a FROM c", "DISTINCT"),
        ("SELECT a FROM (SELECT a FROM t LIMIT 1) AS q", "LIMIT"),
    ],
)
def test_other_queries_are_refused_by_name(catalog, text, construct):
    with pytest.raises(Unsupported, match=f"^{construct} is not supported in a materialized view yet"):
        plan(text, catalog)


def test_union_hints_at_union_all(catalog):
    with pytest.raises(Unsupported) as caught:
        plan("SELECT a FROM t UNION SELECT a FROM t", catalog)
    assert caught.value.hint == "use UNION ALL"


def test_names(catalog):
    assert plan("SELECT a, a FROM t", catalog, ["x", "y"]).output == ("x", "y")
    assert plan("SELECT a FROM t UNION ALL SELECT 1 FROM t", catalog, ["z"]).output == ("z",)
    with pytest.raises(DuplicateColumn, match='column "a" specified more than once'):
        plan("SELECT a, a FROM t", catalog)
    with pytest.raises(InvalidDefinition, match='"_row_id" is reserved'):
        plan("SELECT _row_id FROM t", catalog)
    assert plan("SELECT _row_id AS rid FROM t", catalog).output == ("rid",)


def test_names_may_repeat_below_the_top(catalog):
    assert plan("SELECT q.b FROM (SELECT a, a, b FROM t) AS q", catalog).output == ("b",)


def test_numerics_have_exact_types(catalog):
    node = plan("SELECT c / 2 AS x, c + 1 AS y FROM u UNION ALL SELECT c, 1 FROM u", catalog)
    kinds = [output_types(branch, catalog) for branch in node.inputs]
    assert kinds[0] == kinds[1]
    assert {name: str(kind) for name, kind in kinds[0].items()} == {"x": "numeric(38,20)", "y": "numeric(13,2)"}


def test_nodes_check_themselves():
    scan = Scan(relation="t", relation_id=1, columns=("a", "b"))
    with pytest.raises(ValueError, match="uses z"):
        Filter(input=scan, condition=column("z", SqlType("boolean")))
    with pytest.raises(ValueError, match="uses z"):
        Project(input=scan, columns=(("x", column("z", INT)),))
    with pytest.raises(ValueError, match="twice"):
        Project(input=scan, columns=(("x", column("a", INT)), ("x", column("b", INT))))
    with pytest.raises(ValueError, match="twice"):
        Scan(relation="t", relation_id=1, columns=("a", "a"))
    with pytest.raises(ValueError, match="two inputs"):
        UnionAll(inputs=(scan,))
    with pytest.raises(ValueError, match="different columns"):
        UnionAll(inputs=(scan, Scan(relation="u", relation_id=2, columns=("a",))))
    with pytest.raises(ValueError, match="qualified"):
        qualified = column("a", INT)
        qualified.set("table", column("t", INT).this)
        Filter(input=scan, condition=qualified)
