"""Which part of which relation a query reads: the decisions."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal

import pytest

from headrace.catalog import INDEX, MATERIALIZED_VIEW, TABLE, Catalog, Column, KeyColumn, Relation
from headrace.engine.access import FEW, Path, choose, conditions, narrow, usable_indexes
from headrace.sql.bind import bind_expression, bind_query
from headrace.sql.dialect import parse_expression, parse_query
from headrace.state.vnode import vnode_of
from headrace.types import SqlType

TYPES = {
    "id": SqlType("integer"),
    "a": SqlType("integer"),
    "b": SqlType("varchar"),
    "c": SqlType("numeric", precision=8, scale=2),
    "d": SqlType("date"),
    "f": SqlType("double precision"),
    "j": SqlType("jsonb"),
}


def relation(
    id: int, name: str, columns: str, pk: str, *, kind: str = TABLE, dist: str | None = None, **more
) -> Relation:
    return Relation(
        id=id,
        name=name,
        kind=kind,
        columns=tuple(Column(name=each, type=TYPES[each]) for each in columns.split()),
        pk=tuple(KeyColumn(name=each) for each in pk.split()),
        distribution=tuple((pk if dist is None else dist).split()),
        **more,
    )


T = relation(1, "t", "id a b c d f j", "id")


def index(id: int, key: str, *, holds: str = "id a b c d f j", dist: str | None = None, **more) -> Relation:
    columns = dict.fromkeys([*key.split(), *holds.split(), "id"])
    pk = dict.fromkeys([*key.split(), "id"])
    return relation(
        id, f"i{id}", " ".join(columns), " ".join(pk), kind=INDEX, dist=dist or key.split()[0], depends_on=(1,), **more
    )


def path(of: Relation) -> Path:
    return Path(relation=of, columns={column.name: column.name for column in of.columns})


def chosen(where: str, *indexes: Relation, table: Relation = T, needed: str = "id a b c d f j") -> str | None:
    bound = bind_expression(parse_expression(where), table.columns, table.name)
    access = choose(table, conditions(bound, table, ""), needed=needed.split(), indexes=map(path, indexes))
    return None if access is None else access.describe()


def test_a_whole_primary_key_is_looked_up():
    assert chosen("id = 1") == "uses primary key (id = 1)"
    assert chosen("1 = id AND a > 2") == "uses primary key (1 = id)"
    assert chosen("(id IN (1, 2)) AND b = 'x'") == "uses primary key (id IN (1, 2))"
    pair = relation(1, "t", "id a b", "id a")
    assert chosen("id = 1 AND a IN (2, 3)", table=pair, needed="b") == "uses primary key (id = 1 AND a IN (2, 3))"
    assert chosen("id = 1", table=pair, needed="b") is None, "the vnode is not known"
    assert chosen("id > 1", needed="id") is None


def test_a_key_that_does_not_hold_the_distribution_is_not_enough():
    view = relation(1, "v", "id a b", "id", kind=MATERIALIZED_VIEW, dist="a")
    assert chosen("id = 1", table=view, needed="b") is None
    assert chosen("id = 1 AND a = 2", table=view, needed="b") is None, "the key itself ends at id"
    view = relation(1, "v", "id a b", "a id", kind=MATERIALIZED_VIEW, dist="a")
    assert chosen("a = 2 AND id > 3", table=view, needed="b") == "uses primary key (a = 2 AND id > 3)"


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("a = 5", "a = 5"),
        ("5 = a", "5 = a"),
        ("a IN (1, 2)", "a IN (1, 2)"),
        ("a IN (1, NULL)", "a IN (1, NULL)"),
        ("a = 5 AND b = 'x'", "a = 5 AND b = 'x'"),
        ("b = 'x' AND a = 5", "a = 5 AND b = 'x'"),
        ("a = 5 AND b > 'x' AND b <= 'z'", "a = 5 AND b > 'x' AND b <= 'z'"),
        ("a = 5 AND b BETWEEN 'x' AND 'z'", "a = 5 AND b BETWEEN 'x' AND 'z'"),
        ("a = 5 AND 'x' < b", "a = 5 AND 'x' < b"),
        ("a = 5 AND a = 6", "a = 5"),
        ("a > 3 AND a = 6", "a = 6"),
        ("a = 5 AND c = 1", "a = 5"),
        ("a = 5 AND (b = 'x' OR b = 'y')", "a = 5"),
        ("a = -5", "a = -5"),
        ("a = '5'", "a = '5'"),
    ],
)
def test_an_index_is_used_by_the_first_columns_of_its_key(where, expected):
    assert chosen(where, index(2, "a b")) == f"uses index i2 ({expected})"


@pytest.mark.parametrize(
    "where",
    [
        "b = 'x'",
        "a > 5",
        "a = 5 OR b = 'x'",
        "NOT a = 5",
        "a <> 5",
        "a NOT IN (1, 2)",
        "a = NULL",
        "a IN (NULL)",
        "a = c",
        "a = a",
        "a + 1 = 5",
        "a = 1 + 1",
        "a = 5.5",
        "a = 5.0",
        "a = 3000000000",
        "a IS NULL",
        "a BETWEEN 1 AND 1",
        f"a IN ({', '.join(map(str, range(FEW + 1)))})",
    ],
)
def test_whatever_else_is_scanned(where):
    assert chosen(where, index(2, "a b")) is None


def test_floats_and_jsonb_are_scanned_for():
    assert chosen("f = 1.5", index(2, "f")) is None
    assert chosen("j = '1'", index(2, "j")) is None


def test_the_vnode_must_be_known():
    assert chosen("a = 5", index(2, "a b", dist="a b")) is None
    assert chosen("a = 5 AND b = 'x'", index(2, "a b", dist="a b")) == "uses index i2 (a = 5 AND b = 'x')"


def test_the_choice_among_several():
    short, long, ranged = index(2, "a"), index(3, "a b"), index(4, "a c")
    assert chosen("a = 5 AND b = 'x' AND id = 1", short, long) == "uses primary key (id = 1)"
    assert chosen("a = 5 AND b = 'x'", short, long) == "uses index i3 (a = 5 AND b = 'x')"
    assert chosen("a = 5", long, short) == "uses index i2 (a = 5)", "the older one"
    assert chosen("a = 5 AND c > 1", short, ranged) == "uses index i4 (a = 5 AND c > 1)"
    assert chosen("a = 5 AND id > 3", long, short) == "uses index i2 (a = 5 AND id > 3)", "the pk follows the key"
    narrow = index(2, "a", holds="b")
    assert chosen("a = 5", narrow, long) == "uses index i3 (a = 5)", "it holds all columns"
    assert chosen("a = 5", narrow, long, needed="a b") == "uses index i2 (a = 5)"
    assert chosen("a = 5", narrow, needed="a c") == "uses index i2 (a = 5), then the primary key"


def test_only_complete_indexes_of_the_table_are_usable():
    catalog = Catalog()
    other = relation(5, "u", "id a", "id")
    for each in (T, index(2, "a"), index(3, "b", creating=True), other):
        catalog = catalog.add(each)
    assert [each.name for each in usable_indexes(T, catalog)] == ["i2"]
    assert usable_indexes(other, catalog) == []


def test_what_is_read_of_an_index():
    i = index(2, "c d", dist="c d")
    bound = bind_expression(parse_expression("c IN (1, 2.5) AND d = DATE '2024-02-29' AND id >= 7"), T.columns, "t")
    access = choose(T, conditions(bound, T, ""), needed=["a"], indexes=[path(i)])
    assert access.predicate() == (
        "`c` IN (CAST('1.00' AS DECIMAL(8,2)), CAST('2.50' AS DECIMAL(8,2))) AND `d` = CAST('2024-02-29' AS DATE)"
        " AND `id` >= CAST('7' AS INT)"
    )
    day = datetime.date(2024, 2, 29)
    vnodes = {vnode_of([Decimal(value), day], [TYPES["c"], TYPES["d"]]) for value in ("1.00", "2.50")}
    assert access.vnodes() == sorted(vnodes)
    assert [(each.after, each.upto) for each in access.bounds()] == [((v, None), (v, None)) for v in sorted(vnodes)]


# --- the tables of a query --------------------------------------------------------------------------------------

CATALOG = Catalog().add(T).add(relation(2, "u", "id a b", "id")).add(index(3, "a b"))


def narrowed(query: str) -> tuple[list[str], list[str]]:
    """What is used, by which table; and what is read in full."""
    bound = bind_query(parse_query(query), CATALOG)
    before = bound.text()
    found = narrow(bound.expression, CATALOG, lambda t: map(path, usable_indexes(t, CATALOG)))
    assert bound.text() == before, "the query itself is left alone"
    used = [f"{re.sub(chr(0) + '.*', '', name)}: {access.describe()}" for name, access in found.parts.items()]
    return sorted(used), sorted(found.whole)


PK_1, A_5 = "t: uses primary key (id = 1)", "t: uses index i3 (a = 5)"


@pytest.mark.parametrize(
    ("query", "used", "whole"),
    [
        ("SELECT * FROM t WHERE id = 1", [PK_1], []),
        ("SELECT * FROM t AS x WHERE x.id = 1", [PK_1], []),
        ("SELECT count(*) FROM t WHERE a = 5 GROUP BY b HAVING b = 'x' ORDER BY 1 LIMIT 1", [A_5], []),
        ("SELECT b FROM t GROUP BY b HAVING b = 'x'", [], ["t"]),
        ("SELECT * FROM t, u WHERE t.id = 1", [PK_1], ["u"]),
        ("SELECT * FROM t JOIN u ON t.id = u.id WHERE t.id = 1", [PK_1], ["u"]),
        ("SELECT * FROM t JOIN u USING (id) WHERE id = 1", [PK_1], ["u"]),
        ("SELECT * FROM u JOIN t ON t.id = u.id WHERE t.id = 1", [PK_1], ["u"]),
        ("SELECT * FROM t JOIN u ON t.id = 1", [], ["t", "u"]),
        ("SELECT * FROM t LEFT JOIN u ON t.id = u.id WHERE t.id = 1", [PK_1], ["u"]),
        ("SELECT * FROM u LEFT JOIN t ON t.id = u.id WHERE t.id = 1", [], ["t", "u"]),
        ("SELECT * FROM t RIGHT JOIN u ON t.id = u.id WHERE t.id = 1", [], ["t", "u"]),
        ("SELECT * FROM u RIGHT JOIN t ON t.id = u.id WHERE t.id = 1", [PK_1], ["u"]),
        ("SELECT * FROM t FULL JOIN u ON t.id = u.id WHERE t.id = 1", [], ["t", "u"]),
        ("SELECT * FROM t CROSS JOIN u RIGHT JOIN u AS w ON true WHERE t.id = 1", [], ["t", "u"]),
        # each mention is a table of its own
        ("SELECT * FROM t AS x, t AS y WHERE x.id = 1", [PK_1], ["t"]),
        ("SELECT * FROM t AS x, t AS y WHERE x.id = 1 AND y.a = 5", [A_5, PK_1], []),
        ("SELECT id FROM t WHERE id = 1 UNION ALL SELECT id FROM t", [PK_1], ["t"]),
        ("SELECT * FROM (SELECT * FROM t WHERE a = 5) AS q, u", [A_5], ["u"]),
        ("WITH q AS (SELECT * FROM t WHERE a = 5) SELECT * FROM q", [A_5], []),
        ("WITH t AS (SELECT * FROM u) SELECT * FROM t WHERE id = 1", [], ["u"]),
        ("SELECT * FROM u WHERE a IN (SELECT a FROM t WHERE id = 1)", [PK_1], ["u"]),
        ("SELECT * FROM u WHERE EXISTS (SELECT 1 FROM t WHERE t.a = u.a AND t.id = 1)", [PK_1], ["u"]),
        # a condition of another scope, or on other names, is not looked at
        ("SELECT * FROM (SELECT * FROM t) AS q WHERE q.id = 1", [], ["t"]),
        ("SELECT * FROM t AS t(a, id, b, c, d, f, j) WHERE id = 1", [], ["t"]),
        ("SELECT * FROM t TABLESAMPLE BERNOULLI (50) REPEATABLE (1) WHERE id = 1", [], ["t"]),
        ("SELECT * FROM (t JOIN u ON true) WHERE t.id = 1", [], ["t", "u"]),
        ("SELECT (SELECT count(*) FROM u WHERE t.id = 1) FROM t", [], ["t", "u"]),
    ],
)  # fmt: skip
def test_the_tables_of_a_query(query, used, whole):
    assert narrowed(query) == (used, whole)
