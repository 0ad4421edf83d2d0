"""Whole queries in Arrow: which are taken, and what comes of them."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from headrace.catalog import Catalog, Column, KeyColumn, Relation
from headrace.operators.vector_queries import vectorized_query
from headrace.operators.vectors import NotVectorized
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.types import SqlType

T = Relation(
    id=1,
    name="t",
    kind="table",
    columns=(
        Column(name="id", type=SqlType("integer")),
        Column(name="k", type=SqlType("integer")),
        Column(name="s", type=SqlType("varchar")),
        Column(name="f", type=SqlType("double precision")),
    ),
    pk=(KeyColumn(name="id"),),
    distribution=("id",),
)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int32()),
        "k": pa.array([2, None, 1, 2], pa.int32()),
        "s": pa.array(["b", "a", None, "a"]),
        "f": pa.array([0.5, None, -0.0, float("nan")]),
    }
)


def query(text: str):
    bound = bind_query(parse_query(text), Catalog({1: T}))
    types = [kind or SqlType("varchar") for kind in bound.types]
    return vectorized_query(bound.expression, {"t": 1}, types)


def answer(text: str) -> list[tuple]:
    plan = query(text)
    assert plan is not None, f"{text} is left to Spark"
    found = plan.evaluate({1: ROWS})
    return list(zip(*(column.to_pylist() for column in found.columns), strict=True))


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("SELECT id FROM t ORDER BY k, id", [(3,), (1,), (4,), (2,)]),
        ("SELECT id FROM t ORDER BY k DESC, id", [(2,), (1,), (4,), (3,)]),
        ("SELECT id FROM t ORDER BY k NULLS FIRST, 1 DESC", [(2,), (3,), (4,), (1,)]),
        ("SELECT id, k FROM t ORDER BY s NULLS FIRST, id DESC LIMIT 2 OFFSET 1", [(4, 2), (2, None)]),
        ("SELECT k + 1 AS x, id FROM t WHERE k = 2 ORDER BY x, id", [(3, 1), (3, 4)]),
        ("SELECT DISTINCT k FROM t ORDER BY k", [(1,), (2,), (None,)]),
        ("SELECT DISTINCT k, s FROM t WHERE s = 'a' ORDER BY 1", [(2, "a"), (None, "a")]),
        ("SELECT k, count(*) FROM t GROUP BY k ORDER BY 2 DESC, 1 LIMIT 2", [(2, 2), (1, 1)]),
        ("SELECT k, count(*) AS c FROM t GROUP BY k ORDER BY count(*) DESC, k LIMIT 1", [(2, 2)]),
        ("SELECT count(*), max(s), sum(k) FROM t", [(4, "b", 5)]),
        ("SELECT id FROM t LIMIT 0", []),
        ("SELECT id FROM t LIMIT 2 OFFSET 3", [(4,)]),
        ("SELECT t.id, u.id FROM t JOIN t AS u ON t.k = u.id ORDER BY t.id", [(1, 2), (3, 1), (4, 2)]),
        ("SELECT 1, 'x', NULL, 2 AS \"?column?\"", [(1, "x", None, 2)]),
        ("SELECT id FROM t UNION ALL SELECT k FROM t ORDER BY 1 DESC LIMIT 3", [(None,), (4,), (3,)]),
        ("SELECT id, row_number() OVER (ORDER BY id DESC) FROM t ORDER BY 2 LIMIT 1", [(4, 1)]),
        ("SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t AS u WHERE u.k = t.id) ORDER BY id", [(1,), (2,)]),
        (
            "SELECT k, k AS again, s, count(*) FROM t WHERE id > 2 GROUP BY k, s ORDER BY 1",
            [(1, 1, None, 1), (2, 2, "a", 1)],
        ),
        ("(SELECT id, 1 FROM t ORDER BY 1 DESC LIMIT 1) UNION ALL SELECT id, 1 FROM t WHERE k = 1", [(4, 1), (3, 1)]),
        ("SELECT count(*) FROM t, t AS u", [(16,)]),
        ("SELECT date_trunc('day', TIMESTAMP '2026-01-31 10:00:00' + INTERVAL '2 days')", [(dt.datetime(2026, 2, 2),)]),
    ],
)
def test_answers(text, rows):
    assert answer(text) == rows


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM t ORDER BY f",
        "SELECT DISTINCT f FROM t",
        "SELECT DISTINCT ON (k) k, s FROM t ORDER BY k, id",
        "SELECT k FROM t GROUP BY k ORDER BY max(id)",
        "SELECT avg(k) FROM t",
        "SELECT id / 3.0 FROM t",
        "SELECT 1 / 3.0",
        "SELECT k FROM t UNION SELECT id FROM t",
        "SELECT id FROM t LIMIT 1 + 1",
        "SELECT k FROM t GROUP BY k HAVING count(*) > 1",
        "SELECT generate_series(1, 3)",
        "SELECT random()",
        "WITH q AS (SELECT id FROM t) SELECT id FROM q",
        "SELECT k, k AS again, count(*) FROM t GROUP BY k, s",
        "SELECT count(*) FROM (SELECT k, k FROM t GROUP BY k) AS q",
        "SELECT count(*) FROM (SELECT k, s AS k, count(*) FROM t GROUP BY k, s) AS q",
        'SELECT "a.b".c FROM (SELECT id AS c FROM t) AS "a.b"',  # it would be called like b.c of a
        "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM t WHERE t.id = t.k)",  # both are called t
        "SELECT id FROM t WHERE EXISTS (SELECT count(*) FROM t AS u WHERE u.id = 77)",  # one row, whatever there is
        "SELECT id FROM t WHERE EXISTS (SELECT unnest(ARRAY[u.id]) FROM t AS u)",
        "SELECT id FROM t WHERE EXISTS (SELECT 1)",
        "(SELECT id FROM t ORDER BY id LIMIT 1.5) UNION ALL SELECT k FROM t",
        "SELECT id FROM t WHERE " + " OR ".join(f"id = {number} + k" for number in range(800)),  # too deep for Python
    ],
)
def test_what_is_left_to_spark(text):
    assert query(text) is None


def test_a_long_condition_is_planned_once():
    text = "SELECT id FROM t WHERE " + " OR ".join(f"id = {number}" for number in range(2, 150))
    assert answer(text) == [(2,), (3,), (4,)]


def test_only_the_columns_that_are_named_are_joined():
    wide = ROWS.set_column(2, "s", pa.array(["x" * 4_000_000, None, "y", "z"]))
    for text, fits in (
        ("SELECT count(*) FROM t, t AS u WHERE t.id < u.id", True),
        ("SELECT count(*) FROM t, t AS u WHERE t.id < u.id AND t.s <> u.s", False),
    ):
        plan = query(text)
        if fits:
            assert plan.evaluate({1: wide}).to_pylist() == [{"c0": 6}]
        else:
            with pytest.raises(NotVectorized, match="large rows"):
                plan.evaluate({1: wide})


def test_a_large_row_that_most_pairs_have():
    """However small the others are."""
    large = pa.table(
        {
            "id": pa.array(range(100), pa.int32()),
            "k": pa.array([0] * 100, pa.int32()),
            "s": pa.array(["x" * 400_000, *(["y"] * 99)]),
            "f": pa.nulls(100, pa.float64()),
        }
    )
    with pytest.raises(NotVectorized, match="large rows"):
        query("SELECT u.s FROM t JOIN t AS u ON t.k = u.id").evaluate({1: large})
    assert query("SELECT t.s FROM t JOIN t AS u ON t.k = u.id").evaluate({1: large}).num_rows == 100


def test_quotients_of_views_are_printed_by_their_value():
    """A column is shown as it is stored; one that is computed may need its operands."""
    ratio = Column(name="r", type=SqlType("numeric", precision=38, scale=20, quotient=(0, 0)))
    view = Relation(id=2, name="v", kind="materialized view", columns=(ratio,), pk=(), distribution=())
    for text, taken in (("SELECT r FROM v", True), ("SELECT r + 1 FROM v", False)):
        bound = bind_query(parse_query(text), Catalog({2: view}))
        assert (vectorized_query(bound.expression, {"v": 2}, bound.types) is not None) is taken
