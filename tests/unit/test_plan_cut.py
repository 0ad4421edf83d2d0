"""How queries are cut into pieces: the internal tables that are made, their keys, and what the view itself is."""

from __future__ import annotations

import copy
import dataclasses
import re

import pytest
from sqlglot import exp

from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Operator, Relation
from headrace.errors import Unsupported
from headrace.plan.build import build
from headrace.plan.cut import cut
from headrace.plan.explain import explain_pieces
from headrace.plan.keys import stream_key
from headrace.plan.nodes import Node
from headrace.plan.pieces import Keyed, rebound
from headrace.plan.rewrites import BLOCK_RULES
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query, print_sql
from headrace.types import SqlType

INT, BIG, TEXT = SqlType("integer"), SqlType("bigint"), SqlType("varchar")


def _table(id: int, name: str, columns: dict[str, SqlType], pk: str) -> Relation:
    return Relation(
        id=id,
        name=name,
        kind=TABLE,
        columns=tuple(Column(name=column, type=kind, nullable=column != pk) for column, kind in columns.items()),
        pk=(KeyColumn(name=pk),),
        distribution=(pk,),
    )


@pytest.fixture
def catalog() -> Catalog:
    return (
        Catalog()
        .add(_table(1, "t", {"id": INT, "k": INT, "x": BIG, "s": TEXT}, "id"))
        .add(_table(2, "u", {"id": INT, "y": INT, "n": BIG}, "id"))
    )


GROWING = _table(9, "log", {"id": INT, "a": INT, "x": BIG}, "id").replace(append_only=True)


def pieces(text: str, catalog: Catalog) -> list[str]:
    """Each internal table, then the view: what it is, by which key, of what."""
    bound = bind_query(parse_query(text), catalog)
    last, arrangements = cut(bound, catalog, "v", bound.output)
    root = [arrangements.keyed(last)] if isinstance(last, Keyed) else []
    found = []
    for each in (*arrangements.made, *root):
        names = {relation.id: relation.name for relation in arrangements.catalog}
        short = {id: name.removeprefix("__internal_v_") for id, name in names.items()}
        inputs = each.operator.inputs if each.operator else [(id, ()) for id in each.depends_on]
        what = each.operator.describe if each.operator else "arrangement"
        reads = " ".join(f"{short[id]}({', '.join(columns)})" if columns else short[id] for id, columns in inputs)
        found.append(f"{what} by {', '.join(key.name for key in each.pk) or 'nothing'} of {reads}")
    return found + ([] if root else ["linear"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT k, max(x) AS c FROM t GROUP BY k",
         ["arrangement by k, _hr_key_0 of t", "aggregate by k of 3_arrangement(k)"]),
        ("SELECT max(x) AS c FROM t GROUP BY k % 2",
         ["arrangement by key_0, _hr_key_0 of t", "aggregate by _hr_key_0 of 3_arrangement(key_0)"]),
        ("SELECT id, max(x) AS c FROM t GROUP BY id", ["aggregate by id of t(id)"]),
        ("SELECT max(x) AS x FROM t",
         ["arrangement by value, _hr_key_0 of t", "aggregate by nothing of 3_arrangement"]),
        ("SELECT string_agg(s, ',') AS s FROM t", ["recompute by nothing of t"]),
        ("SELECT max(x) AS x, min(x) AS y, count(*) AS c FROM t",
         ["aggregate by nothing of t", "arrangement by value, _hr_key_0 of t", "arrangement by value, _hr_key_0 of t",
          "aggregate by nothing of 3_aggregate 4_arrangement 5_arrangement"]),
        ("SELECT k, avg(x) AS x FROM t GROUP BY k", ["aggregate by k of t"]),
        ("SELECT avg(x) AS x FROM t GROUP BY k", ["aggregate by _hr_key_0 of t"]),
        ("SELECT k, count(*) AS c, max(x) AS x, min(s) AS s FROM t GROUP BY k",
         ["arrangement by k, _hr_key_0 of t", "aggregate by k of 3_arrangement(k)"]),
        ("SELECT k, max(x) + 1 AS x FROM t GROUP BY k HAVING min(x) > 1",
         ["arrangement by k, _hr_key_0 of t", "aggregate by group_0 of 3_arrangement(k)", "linear"]),
        ("SELECT k, max(x) AS x, count(DISTINCT s) AS s FROM t GROUP BY k",
         ["arrangement by k, _hr_key_0 of t", "aggregate by group_0 of 3_arrangement(k)",
          "aggregate by group_0, group_1 of t", "aggregate by group_0 of 5_aggregate",
          "aggregate by k of 4_aggregate(group_0) 6_aggregate(group_0)"]),
        ("SELECT k, max(x) AS x, string_agg(s, ',') AS s FROM t GROUP BY k",
         ["arrangement by k, _hr_key_0 of t", "aggregate by k of 3_arrangement(k)"]),
        ("SELECT a, max(x) AS x, count(*) AS c FROM log GROUP BY a", ["aggregate by a of log"]),
        ("SELECT max(x) AS x, min(a) AS a, count(*) AS c FROM log", ["aggregate by nothing of log"]),
        ("SELECT k, count(*) AS c, sum(x) + 1 AS x FROM t WHERE x > 1 GROUP BY k HAVING count(*) > 1",
         ["aggregate by group_0 of t", "linear"]),
        ("SELECT sum(x) AS x FROM t", ["aggregate by nothing of t"]),
        ("SELECT sum(x) AS x, sum(x) AS y FROM t", ["aggregate by nothing of t", "linear"]),
        ("SELECT count(DISTINCT x) AS x FROM t",
         ["aggregate by group_0 of t", "aggregate by nothing of 3_aggregate"]),
        ("SELECT k, count(DISTINCT x) AS x, count(DISTINCT x) FILTER (WHERE x > 1) AS y FROM t GROUP BY k",
         ["aggregate by group_0, group_1 of t", "aggregate by k of 3_aggregate"]),
        ("SELECT k, count(DISTINCT x) AS x, count(*) AS c FROM t GROUP BY k",
         ["aggregate by group_0 of t", "aggregate by group_0, group_1 of t", "aggregate by group_0 of 4_aggregate",
          "aggregate by k of 3_aggregate(group_0) 5_aggregate(group_0)"]),
        ("SELECT k, s, count(*) AS c, grouping(k, s) AS g FROM t GROUP BY ROLLUP (k, s)",
         ["aggregate by group_0, group_1 of t", "aggregate by group_0 of t", "aggregate by group_0 of t", "linear"]),
        ("SELECT id, x FROM t ORDER BY x DESC LIMIT 3 OFFSET 2",
         ["arrangement by x, id of t", "top n by x, id of 3_arrangement"]),
        ("SELECT k FROM t UNION ALL SELECT y FROM u ORDER BY k LIMIT 3",
         ["arrangement by k, _hr_branch, _hr_key_0 of t u", "top n by k, _hr_key_0, _hr_key_1 of 3_arrangement"]),
        ("SELECT k, c FROM (SELECT k, c, row_number() OVER (PARTITION BY k ORDER BY c DESC) AS n FROM"
         " (SELECT k, s, count(*) AS c FROM t GROUP BY k, s) AS g) AS q WHERE n <= 2",
         ["aggregate by group_0, group_1 of t", "arrangement by k, c, _hr_key_0 of 3_aggregate",
          "top n by k, c, _hr_key_0 of 4_arrangement(k)"]),
        ("SELECT id FROM (SELECT id, row_number() OVER (ORDER BY x) AS n FROM t) AS q WHERE n < 5",
         ["arrangement by x, id of t", "top n by _hr_key_0, id of 3_arrangement"]),
        ("SELECT DISTINCT s FROM t", ["arrangement by s, _hr_key_0 of t", "distinct by s of 3_arrangement(s)"]),
        ("SELECT t.id, u.n FROM t JOIN u ON t.k = u.id",
         ["arrangement by k, id of t", "inner join by _hr_key_0, id of 3_arrangement(k) u(id)"]),
        ("SELECT t.id, u.n FROM t JOIN u ON t.x = u.y",
         ["arrangement by x, id of t", "arrangement by key_0, _hr_key_0 of u",
          "inner join by _hr_key_0, id, _hr_key_1 of 3_arrangement(x) 4_arrangement(key_0)"]),
        ("SELECT t.id, u.id AS other FROM t FULL JOIN u ON t.id = u.id",
         ["full join by _hr_key_0, _hr_key_1 of t(id) u(id)"]),
        ("SELECT id FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.id = t.id AND u.n > t.x)",
         ["anti join by id of t(id) u(id)"]),
        ("SELECT id FROM t WHERE id IN (SELECT y FROM u)",
         ["arrangement by y, _hr_key_0 of u", "semi join by id of t(id) 3_arrangement(y)"]),
        ("SELECT id, rank() OVER (PARTITION BY k ORDER BY x) AS r FROM t",
         ["arrangement by k, id of t", "window by _hr_key_0, id of 3_arrangement(k)"]),
        ("SELECT DISTINCT ON (k) k, s FROM t ORDER BY k, x DESC, id",
         ["arrangement by k, x, id of t", "top n by k, _hr_key_0, _hr_key_1 of 3_arrangement(k)"]),
        ("SELECT k FROM t INTERSECT SELECT y FROM u",
         ["arrangement by k, _hr_key_0 of t", "arrangement by k, _hr_key_0 of u",
          "intersect by k of 3_arrangement(k) 4_arrangement(k)"]),
        ("SELECT k FROM t EXCEPT ALL SELECT y FROM u",
         ["arrangement by k, _hr_key_0 of t", "arrangement by k, _hr_key_0 of u",
          "except all by k, _hr_key_0 of 3_arrangement(k) 4_arrangement(k)"]),
        ("SELECT t.id FROM t, u WHERE t.x < u.n", ["inner join by id, _hr_key_0 of t(id) u"]),
        ("SELECT k FROM t WHERE x > (SELECT max(n) FROM u)",
         ["arrangement by value, _hr_key_0 of u", "aggregate by nothing of 3_arrangement",
          "inner join by _hr_key_0 of t(id) 4_aggregate"]),
        ("SELECT k, sum(x) AS s FROM t GROUP BY k HAVING sum(x) > 2 * (SELECT sum(n) FROM u) AND count(*) > 1",
         ["aggregate by group_0 of t", "aggregate by nothing of u", "arrangement by k of 3_aggregate",
          "arrangement by nothing of 4_aggregate", "inner join by k of 5_arrangement(k) 6_arrangement"]),
        ("SELECT id FROM t WHERE k NOT IN (SELECT y FROM u)",
         ["aggregate by nothing of u", "aggregate by nothing of u", "arrangement by nothing of 3_aggregate",
          "arrangement by nothing of 4_aggregate", "inner join by id of t(id) 5_arrangement 6_arrangement",
          "arrangement by k, id of 7_inner", "arrangement by y, _hr_key_0 of u",
          "anti join by _hr_key_0, id of 8_arrangement(k) 9_arrangement(y)"]),
        ("SELECT k FROM t WHERE id NOT IN (SELECT id FROM u WHERE n > 1)",
         ["anti join by _hr_key_0 of t(id) u(id)"]),
        ("SELECT k FROM (SELECT DISTINCT k, s FROM t) AS q WHERE s = 'a'",
         ["arrangement by k, s, _hr_key_0 of t", "distinct by k, _hr_key_0 of 3_arrangement(k, s)"]),
    ],
)  # fmt: skip
def test_pieces(catalog, text, expected):
    catalog = catalog.add(GROWING) if "log" in text else catalog
    assert pieces(text, catalog) == expected


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id, (SELECT count(*) FROM u WHERE u.y = t.k) AS c, (SELECT max(n) FROM u) AS m FROM t",
        "SELECT id, (SELECT n FROM u WHERE u.y = t.k ORDER BY n LIMIT 1) AS l FROM t",
        "SELECT id FROM t WHERE coalesce((SELECT sum(n) FROM u WHERE u.y = t.k), 0) < 3",
        "SELECT id FROM t WHERE (SELECT max(n) FROM u WHERE u.y = t.k) IS NULL",
        "SELECT k, count(*) AS c FROM t WHERE (SELECT count(*) FROM u WHERE u.y = t.k) = 0 GROUP BY k",
        "SELECT id FROM t WHERE x IN (SELECT n FROM u WHERE u.y = t.k)",
        "SELECT id FROM t WHERE (k, x) IN (SELECT y, n FROM u)",
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM u WHERE n > 3) AND NOT EXISTS (SELECT 1 FROM u WHERE n > 9)",
        "SELECT id FROM t WHERE x = 1 OR EXISTS (SELECT 1 FROM u WHERE u.y = t.k)",
        "SELECT k, sum(count(*)) OVER (PARTITION BY k ORDER BY max(x)) AS r FROM t GROUP BY k, s HAVING count(*) > 1",
        "SELECT id FROM t ORDER BY x FETCH FIRST 2 ROWS ONLY",
        "SELECT k, sum(x) AS s, (SELECT max(n) FROM u WHERE u.y = t.k) AS m FROM t GROUP BY k HAVING sum(x) > 1",
        "SELECT k, count(*) + (SELECT count(*) FROM u) AS c FROM t GROUP BY k",
        # Windows that share no column of their partitions.
        "SELECT rank() OVER (PARTITION BY k ORDER BY x) + x AS r, count(*) OVER (PARTITION BY s) AS c FROM t",
        "SELECT count(*) OVER (PARTITION BY k) AS a, count(*) OVER (PARTITION BY x) AS b,"
        " sum(x) OVER (PARTITION BY s, k) AS c FROM t",
        "SELECT id, EXISTS (SELECT 1 FROM u WHERE u.y = t.k) AS e FROM t",
        # A LIMIT of groups, or of the one row of an aggregate, which have no key of rows to tell those that tie apart.
        "SELECT id, (SELECT count(*) FROM u WHERE u.y = t.k LIMIT 1) AS c FROM t",
        "SELECT t.id, q.n FROM t CROSS JOIN LATERAL"
        " (SELECT n, count(*) AS c FROM u WHERE u.y = t.k GROUP BY n ORDER BY 2 DESC LIMIT 1) AS q",
        "SELECT t.id, q.m FROM t LEFT JOIN LATERAL (SELECT max(n) AS m FROM u WHERE u.y = t.k LIMIT 1) AS q ON true",
    ],
)
def test_what_is_written_otherwise(catalog, text):
    """Queries that have a rule once they are written in another way."""
    assert not any(each.startswith("recompute") for each in pieces(text, catalog))


@pytest.mark.parametrize(
    "text",
    [
        # Several rows would be an error, which a join would not see; what is not always evaluated must not fail.
        "SELECT id, (SELECT n FROM u WHERE u.y = t.k) AS n FROM t",
        "SELECT id, CASE WHEN k > 0 THEN (SELECT max(10 / n) FROM u WHERE u.y = t.k) END AS n FROM t",
        "SELECT id FROM t ORDER BY x FETCH FIRST 2 ROWS WITH TIES",
        # An aggregate has a row where there are none; a function that returns rows may have none where there is one.
        "SELECT id FROM t WHERE EXISTS (SELECT max(u.n) FROM u WHERE u.y = t.k)",
        "SELECT id FROM t WHERE NOT EXISTS (SELECT count(*) FROM u WHERE u.y = t.k)",
        "SELECT id FROM t WHERE EXISTS (SELECT generate_series(1, u.n) FROM u WHERE u.y = t.k)",
        "SELECT id FROM t WHERE x = 1 OR EXISTS (SELECT generate_series(1, u.n) FROM u WHERE u.y = t.k)",
        "SELECT id FROM t WHERE x IN (SELECT generate_series(1, u.n) FROM u WHERE u.y = t.k)",
        # Which row is the first is decided before it is compared.
        "SELECT id FROM t WHERE x IN (SELECT DISTINCT ON (y) n FROM u WHERE u.y = t.k ORDER BY y, n)",
        # There is no order of arrays to store rows in.
        "SELECT id FROM (SELECT id, row_number() OVER (ORDER BY ARRAY[x]) AS n FROM t) AS q WHERE n <= 2",
    ],
)
def test_what_is_not_written_otherwise(catalog, text):
    try:
        assert pieces(text, catalog)[-1].startswith("recompute")
    except Unsupported:
        assert "TIES" in text


def test_the_ends_of_a_range_by_the_clock_stay_where_they_are(catalog):
    catalog = catalog.add(_table(3, "e", {"id": INT, "at": SqlType("timestamptz")}, "id"))
    between = "SELECT id FROM e WHERE at BETWEEN {} now() - INTERVAL '1 hour' AND now() + INTERVAL '1 hour'"
    assert [each.split()[0] for each in pieces(between.format(""), catalog)].count("temporal") == 2
    with pytest.raises(Unsupported, match="changes by itself"):  # the lower end may be either of them
        pieces(between.format("SYMMETRIC"), catalog)


@pytest.mark.parametrize(
    ("call", "ties"),
    [
        ("first_value(s) OVER (PARTITION BY k ORDER BY x)", True),
        ("sum(x) OVER (PARTITION BY k ORDER BY x ROWS 2 PRECEDING)", True),
        ("nth_value(s, 2) OVER (PARTITION BY k ORDER BY x ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)", True),
        # Here all rows that are equal are in the frame, whichever comes first.
        ("sum(x) OVER (PARTITION BY k ORDER BY x)", False),
        ("rank() OVER (PARTITION BY k ORDER BY x)", False),
        ("sum(x) OVER (PARTITION BY k ORDER BY x RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)", False),
    ],
)
def test_what_counts_rows_takes_those_that_tie_by_their_key(catalog, call, ties):
    bound = bind_query(parse_query(f"SELECT {call} AS c FROM t"), catalog)
    piece, _ = cut(bound, catalog, "v", bound.output)
    (window,) = piece.query.find_all(exp.Window)
    assert len(window.args["order"].expressions) == 1 + ties


def test_what_is_computed_from_a_row_is_so_when_it_is_there(catalog):
    catalog = catalog.add(_table(3, "e", {"id": INT, "x": INT, "at": SqlType("timestamptz")}, "id"))
    query = "SELECT 100 / e.x AS s, e.id, e.x + e.id AS y FROM e WHERE at BETWEEN now() - INTERVAL '1 h' AND now()"
    bound = bind_query(parse_query(query), catalog)
    last, arrangements = cut(bound, catalog, "v", bound.output)
    assert [each.name for each in arrangements.keyed(last).visible_columns] == ["s", "id", "y"]
    assert "/" in print_sql(last.query) and not any("/" in each.query for each in arrangements.made)


def test_what_is_the_same_is_made_once(catalog):
    query = "SELECT a.k FROM (SELECT DISTINCT k FROM t) AS a JOIN (SELECT DISTINCT k FROM t) AS b ON a.k = b.k"
    assert pieces(query, catalog)[0] == "arrangement by k, _hr_key_0 of t"
    assert sum(each.startswith("arrangement") for each in pieces(query, catalog)) == 1


@pytest.mark.parametrize(
    ("text", "anew"),
    [
        ("SELECT id FROM t WHERE x > (SELECT max(n) FROM u WHERE u.y = t.k AND u.n IN (SELECT x FROM t))", True),
        ("SELECT id, (SELECT count(*) FROM u WHERE u.y = t.k AND u.n IN (SELECT x FROM t)) AS c FROM t", True),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.k = t.k AND o.x > (SELECT min(x) FROM t))", True),
        ("SELECT id FROM t WHERE k IN (SELECT y FROM u WHERE y = t.k AND n IN (SELECT x FROM t) GROUP BY y)", True),
        ("SELECT k, sum(x) AS s FROM t GROUP BY k HAVING sum(x) > (SELECT avg(n) FROM u WHERE u.y = t.k)", False),
        ("SELECT count(*) AS c FROM t UNION SELECT n FROM u", True),
        ("SELECT k, grouping(k) AS g, sum(count(*)) OVER (PARTITION BY k) AS w FROM t GROUP BY ROLLUP (k, s)", False),
        ("SELECT k, sum(x) AS s FROM t GROUP BY k HAVING sum(x) > (SELECT avg(x) FROM t WHERE t.k > 1)", False),
    ],
)
def test_queries_that_were_refused_once(catalog, text, anew):
    assert any(each.startswith("recompute") for each in pieces(text, catalog)) == anew


def test_a_cte_hides_those_of_its_name_outside(catalog):
    def reads(text: str) -> list[str]:
        bound = bind_query(parse_query(text), catalog)
        _, arrangements = cut(bound, catalog, "v", bound.output)
        return [re.search(r'"t"."(\w)" (\+ 1 )?AS', each.query or "")[1] for each in arrangements.made]

    inner = "WITH c AS (SELECT k AS a FROM t) SELECT a FROM c"
    assert reads(f"WITH c AS (SELECT x AS a FROM t) SELECT q.a FROM ({inner}) AS q JOIN c ON q.a = c.a") == ["k", "x"]
    inner = "WITH c AS (SELECT a + 1 AS a FROM c) SELECT a FROM c"
    assert reads(f"WITH c AS (SELECT x AS a FROM t) SELECT DISTINCT a FROM ({inner}) AS q") == ["x"]


def test_a_quotient_is_stored_without_its_failure(catalog):
    bound = bind_query(parse_query("SELECT id FROM t WHERE x >= (SELECT count(*) / count(y) FROM u) + 1"), catalog)
    last, arrangements = cut(bound, catalog, "v", bound.output)
    stored = arrangements.made[-1]
    assert [each.name for each in stored.columns] == ["value", "whole_0"] and "nullif" in stored.query
    assert 'CASE WHEN 1 / "_hr_r"."whole_0" = 1 THEN "_hr_r"."value" END + 1' in print_sql(last.query)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("SELECT t.id FROM t JOIN u ON (t.k, t.x) = (u.y, u.n)", "inner join by _hr_key_0, _hr_key_1, id, _hr_key_2"),
        ("SELECT t.id FROM t JOIN u ON ROW(t.k, t.x) = ROW(u.y, 1)", "inner join by _hr_key_0, id, _hr_key_1"),
        ("SELECT id FROM t WHERE x > (SELECT max(n) FROM u WHERE (u.y, u.id) = (t.k, t.id))", "inner join by"),
        # Each of the elements: it is no key, and holds for several groups at once.
        ("SELECT t.id FROM t JOIN u ON u.y = ANY (ARRAY[t.k, t.id])", "inner join by id, _hr_key_0 of t(id) u"),
        ("SELECT t.id FROM t LEFT JOIN u ON u.n = t.x AND u.y = ANY (ARRAY[t.k])", "left join by _hr_key_0, id"),
        ("SELECT id FROM t WHERE x > (SELECT max(n) FROM u WHERE u.y = ANY (ARRAY[t.k, t.id]))", "recompute by"),
    ],
)
def test_which_equalities_are_keys(catalog, text, last):
    assert pieces(text, catalog)[-1].startswith(last)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ("SELECT count(t) AS c, max((t).x) AS m FROM t", "aggregate"),
        ("SELECT t.id, count(u) AS c FROM t LEFT JOIN u ON u.y = t.k GROUP BY t.id", "aggregate"),
        ("SELECT k, jsonb_agg(t ORDER BY id) AS l FROM t GROUP BY k", "aggregate"),
        ("SELECT to_jsonb(t) AS j, u.n FROM t JOIN u ON u.y = t.k", "inner"),
        ("SELECT t.id FROM t LEFT JOIN u ON u.y = t.k WHERE u IS NULL", "left"),
        ("SELECT to_jsonb(q) AS j FROM (SELECT t.id, u.n FROM t JOIN u ON u.y = t.k) AS q", "inner"),
        ("WITH q AS (SELECT k, max(x) AS m FROM t GROUP BY k) SELECT q, u.n FROM q JOIN u ON u.y = q.k", "inner"),
        ("SELECT DISTINCT to_jsonb(t) AS j FROM t", "distinct"),
    ],
)
def test_rows_as_values(catalog, text, last):
    assert pieces(text, catalog)[-1].split()[0] == last


def test_a_row_as_a_value_has_the_columns_that_are_asked_for(catalog):
    """And not those of the key of the piece that it comes from."""
    bound = bind_query(parse_query("SELECT q FROM (SELECT t.id, u.n FROM t JOIN u ON u.y = t.k) AS q"), catalog)
    last, arrangements = cut(bound, catalog, "v", bound.output)
    assert [str(each.type) for each in arrangements.keyed(last).visible_columns] == ["struct<id integer, n bigint>"]


def test_lists_are_no_keys_of_what_is_computed_anew(catalog):
    lists = "SELECT k, ARRAY[x] AS l, rank() OVER (ORDER BY x) AS r FROM t"
    assert pieces(lists, catalog) == ["recompute by k, r, _hr_key_0 of t"]
    assert pieces("SELECT ARRAY[x] AS l FROM t ORDER BY x OFFSET 2", catalog) == ["recompute by _hr_key_0 of t"]


def test_types_are_not_copied():
    kind = SqlType("array", element=BIG)
    assert copy.deepcopy(kind) is kind and copy.deepcopy([kind]) == [kind]


def test_a_way_that_leads_nowhere_leaves_nothing(catalog):
    assert pieces("SELECT t.id FROM t JOIN u ON t.k = u.y RIGHT JOIN u AS o ON o.n < t.x", catalog) == [
        "recompute by id, _hr_key_0 of t u"
    ]


def test_the_order_of_inner_joins_follows_their_equalities(catalog):
    found = pieces("SELECT t.id FROM t, u AS a, u AS b WHERE t.k = b.y AND b.n = a.n", catalog)
    assert not any(each.startswith("recompute") for each in found)


@pytest.mark.parametrize(
    "text",
    [
        "VALUES (1)",
        "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT n FROM r",
        "SELECT k, max(now()) AS m FROM t GROUP BY k",
    ],
)
def test_what_stays_refused(catalog, text):
    with pytest.raises(Unsupported, match="not supported in a materialized view yet"):
        pieces(text, catalog)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"key": ("nowhere",)}, "nowhere.* are not among the columns"),
        ({"rest": ("k", "more")}, "more.* are not among the columns"),
        ({"kept": (("x", "lost"),)}, "lost.* are not among the columns"),
        ({"visible": 3}, "3 of the columns"),
        ({"linear": ("u",)}, "u.* are not among the inputs"),
        ({"whole": ("t", "u")}, "u.* are not among the inputs"),
        ({"first": (1, 1)}, "is not a number of rows for each of"),
        ({"clock": ("c", "<")}, "the clock is compared with c"),
    ],
)
def test_pieces_check_themselves(catalog, changed, complaint):
    bound = bind_query(parse_query("SELECT k, bit_or(x) AS c FROM t GROUP BY k"), catalog)
    piece, _ = cut(bound, catalog, "v", bound.output)
    piece = dataclasses.replace(piece, inputs=(("t", ("k",)),))
    with pytest.raises(ValueError, match=complaint):
        dataclasses.replace(piece, **changed)


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"linear": (1, 2)}, r"\[2\] are not among the inputs"),
        ({"as_of_now": (3,)}, r"\[3\] are not among the inputs"),
        ({"passing": True}, "does not follow from changes of all inputs"),
    ],
)
def test_operators_check_themselves(changed, complaint):
    with pytest.raises(ValueError, match=complaint):
        Operator(key=("k",), inputs=((1, ("k",)),), describe="inner join", **changed)


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        ("SELECT id FROM t WHERE x > 1", []),
        ("SELECT id FROM t WHERE k NOT IN (SELECT y FROM u)", ["without_not_in", "unnested"]),
        ("SELECT id FROM t WHERE (k, x) IN (SELECT y, n FROM u)", ["with_exists"]),
        ("SELECT id FROM t WHERE x > (SELECT max(n) FROM u WHERE u.y = t.k)", ["unnested"]),
        ("SELECT id, (SELECT max(n) FROM u) AS m FROM t", ["beside"]),
    ],
)
def test_which_rules_rewrite_a_block(catalog, text, rules):
    class Here:
        def rebound(self, query: exp.Expression) -> exp.Query:
            return rebound(query, catalog)

        def without_nulls(self, condition: exp.In, node: exp.Select) -> bool:
            return False

    node, used = bind_query(parse_query(text), catalog).expression, []
    for rule in BLOCK_RULES:
        before, node = node, rule(node, Here())
        if node is not before:
            used.append(rule.__name__)
    assert used == rules


def test_explain(catalog):
    bound = bind_query(parse_query("SELECT t.s, max(u.n) AS m FROM t JOIN u ON t.k = u.id GROUP BY t.s"), catalog)
    last, arrangements = cut(bound, catalog, "v", bound.output)
    found = arrangements.catalog

    def plan_of(relation: Relation) -> Node:
        return stream_key(build(bind_query(parse_query(relation.query), found), found), found).plan

    text = explain_pieces(arrangements.keyed(last).replace(name="v"), found, plan_of)
    told = [re.fullmatch(r"[ │├└─]*(\w+) \{ .*incremental: (.*) \}", line).groups() for line in text.splitlines()]
    assert told == [
        ("StreamMaterialize", "from its old rows, or by key if a minimum or maximum goes"),
        ("StreamAggregate", "from its old rows, or by key if a minimum or maximum goes"),
        ("StreamInternalTable", "linear"),
        ("StreamProject", "linear"),
        ("StreamTableScan", "linear"),
        ("StreamInternalTable", "by key [_hr_key_0]"),
        ("StreamInnerJoin", "by key [_hr_key_0]"),
        ("StreamInternalTable", "linear"),
        ("StreamProject", "linear"),
        ("StreamTableScan", "linear"),
        ("StreamLookup", "linear"),
    ]
    scanned = "pk: [id], dist: hash(id), stream_scan_type: Build"
    assert f"StreamLookup {{ table: u, by: [id], {scanned}, incremental: linear }}" in text
    arranged, joined, of_joined = (each.name for each in arrangements.made)
    stored = "stream_key: [k, _hr_key_0], dist: hash(k)"
    assert f"StreamInternalTable {{ table: {arranged}, {stored}, incremental: linear }}" in text
    assert f"StreamProject {{ exprs: [k, s, id as _hr_key_0], {stored}, state: none, incremental: linear }}" in text
    anew = "large changes: computed anew, incremental"
    assert f"StreamAggregate {{ key: [s], dist: hash(s), state: [v, {of_joined}], {anew}" in text
    state = f"state: [{joined}, {arranged}, u], {anew}"
    assert f"StreamInnerJoin {{ key: [_hr_key_0], dist: hash(_hr_key_0), {state}" in text


@pytest.mark.parametrize(
    ("text", "linear", "passing"),
    [
        ("SELECT t.s, sum(u.n) AS m FROM t JOIN u ON t.k = u.id GROUP BY t.s", 2, True),
        ("SELECT t.s, count(DISTINCT u.n) AS m, count(*) AS c FROM t JOIN u ON t.k = u.id GROUP BY t.s", 2, True),
        ("SELECT t.s, max(u.n) AS m FROM t JOIN u ON t.k = u.id GROUP BY t.s", 2, False),
        ("SELECT t.s, max(u.n) AS m, sum(u.n) AS c FROM t JOIN u ON t.k = u.id GROUP BY t.s", 2, False),
        ("SELECT t.s, count(u.n) AS m FROM t LEFT JOIN u ON t.k = u.id GROUP BY t.s", 1, False),
        ("SELECT t.s, count(u.n) AS m FROM t FULL JOIN u ON t.k = u.id GROUP BY t.s", 0, False),
        ("SELECT s, count(*) AS m FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.y = t.k) GROUP BY s", 1, False),
        ("SELECT p.s, count(q.s) AS m FROM t AS p JOIN t AS q ON p.k = q.k GROUP BY p.s", 0, False),
    ],
)
def test_which_inputs_are_linear_and_what_is_not_stored(catalog, text, linear, passing):
    bound = bind_query(parse_query(text), catalog)
    _, arrangements = cut(bound, catalog, "v", bound.output)
    (join,) = [each for each in arrangements.made if each.operator and "join" in each.operator.describe]
    assert len(join.operator.linear) == linear
    assert arrangements.catalog.relations[join.id].operator.passing == passing
    assert Relation.from_json(join.to_json()) == join


def test_what_is_not_stored_is_shared_with_those_who_need_no_more(catalog):
    def made(text: str, catalog: Catalog) -> tuple[list[Relation], Catalog]:
        bound = bind_query(parse_query(text), catalog)
        _, arrangements = cut(bound, catalog, "v", bound.output)
        return [each for each in arrangements.made if each.operator], arrangements.catalog

    joined = "FROM t JOIN u ON t.k = u.id GROUP BY t.s"
    first, catalog = made(f"SELECT t.s, sum(u.n) + 1 AS m {joined}", catalog)
    assert [each.operator.passing for each in first] == [True, False]
    assert made(f"SELECT t.s, sum(u.n) AS m {joined}", catalog)[0] == []
    (stored,), _ = made(f"SELECT t.s, max(u.n) AS m {joined}", catalog)
    assert (stored.operator.describe, stored.operator.passing) == ("inner join", False)
