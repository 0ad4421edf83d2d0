"""Window functions over Arrow arrays give what Spark gives, or are left to Spark."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal

import pyarrow as pa
import pytest

from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Relation
from headrace.operators.vector_pieces import vectorized_piece
from headrace.operators.vectors import NotVectorized
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.sql.translate import to_spark
from headrace.types import SqlType, quote_spark

KINDS = {
    "id": SqlType("integer"), "k": SqlType("integer"), "g": SqlType("varchar"), "x": SqlType("integer"),
    "b": SqlType("bigint"), "n": SqlType("numeric", precision=10, scale=2), "at": SqlType("timestamp"),
    "d": SqlType("double precision"),
}  # fmt: skip

SAME = """
    row_number() OVER (PARTITION BY k ORDER BY x DESC, id); row_number() OVER (ORDER BY g, at, id)
    row_number() OVER (PARTITION BY k, g ORDER BY n NULLS FIRST, id DESC); row_number() OVER (PARTITION BY g || 'x' ORDER BY id)
    rank() OVER (PARTITION BY g ORDER BY x); dense_rank() OVER (PARTITION BY g ORDER BY x DESC NULLS LAST); rank() OVER (ORDER BY k, g)
    lag(x) OVER (PARTITION BY k ORDER BY id); lead(at) OVER (PARTITION BY g ORDER BY id DESC); lag(g, 3) OVER (ORDER BY id); lag(at) OVER (PARTITION BY k ORDER BY at, id) + INTERVAL '2 seconds'
    count(*) OVER (PARTITION BY k); count(x) OVER (PARTITION BY k, g); sum(x) OVER (PARTITION BY g); min(at) OVER (PARTITION BY k); max(g) OVER (PARTITION BY k); max(n) OVER (); sum(b) OVER (PARTITION BY k)
    sum(x) OVER (PARTITION BY g ORDER BY k); count(*) OVER (PARTITION BY g ORDER BY x); count(x) OVER (ORDER BY at); sum(x) OVER (ORDER BY id)
    CASE WHEN row_number() OVER (PARTITION BY k ORDER BY id) > 2 THEN 'more' ELSE g END
"""  # noqa: E501
SAME = [each.strip() for line in SAME.strip().splitlines() for each in line.split(";") if each.strip()]

SPARKS = """
    sum(x) OVER (PARTITION BY g ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW); min(x) OVER (ORDER BY id); sum(n) OVER (ORDER BY id)
    avg(x) OVER (PARTITION BY g); row_number() OVER (PARTITION BY d ORDER BY id); rank() OVER (ORDER BY d); ntile(3) OVER (ORDER BY id); lag(x, 1, 0) OVER (ORDER BY id)
    first_value(x) OVER (PARTITION BY g ORDER BY id)
"""  # noqa: E501
SPARKS = [each.strip() for line in SPARKS.strip().splitlines() for each in line.split(";") if each.strip()]

CATALOG = Catalog().add(
    Relation(
        id=1,
        name="r",
        kind=TABLE,
        columns=tuple(Column(name=name, type=kind) for name, kind in KINDS.items()),
        pk=(KeyColumn(name="id"),),
        distribution=("id",),
    )
)


def rows(count: int) -> pa.Table:
    chance = random.Random(count)
    values = {
        "k": lambda: chance.randint(0, 3),
        "g": lambda: chance.choice(["", "a", "b", "é"]),
        "x": lambda: chance.randint(-5, 5),
        "b": lambda: chance.randint(-(2**40), 2**40),
        "n": lambda: Decimal(chance.randint(-300, 300)).scaleb(-2),
        "at": lambda: datetime.datetime(2026, 1, 1) + datetime.timedelta(seconds=chance.randint(0, 9)),
        "d": lambda: chance.choice([0.0, 1.5]),
    }
    numbers = list(range(count))
    chance.shuffle(numbers)
    columns = {"id": numbers} | {
        name: [None if chance.random() < 0.2 else value() for _ in numbers] for name, value in values.items()
    }
    return pa.table([pa.array(columns[name], kind.arrow) for name, kind in KINDS.items()], names=list(KINDS))


def query(text: str):
    return bind_query(parse_query(f"SELECT id, {text} AS w FROM r"), CATALOG)


def by_arrow(text: str, table: pa.Table) -> dict:
    bound = query(text)
    types = dict(zip(bound.output, bound.types, strict=True))
    plan = vectorized_piece(bound.expression, {"r": 1}, types)
    assert plan is not None, f"{text} is left to Spark"
    found = plan.evaluate({1: table})
    return dict(zip(found["id"].to_pylist(), found["w"].to_pylist(), strict=True))


@pytest.fixture(scope="module", params=[0, 1, 60])
def sparks(request, session) -> tuple[pa.Table, dict[str, dict]]:
    """What Spark makes of all of them, in one query."""
    table = rows(request.param)
    schema = ", ".join(f"{quote_spark(name)} {kind.spark}" for name, kind in KINDS.items())
    session.createDataFrame(table, schema=schema).coalesce(1).createOrReplaceTempView("windows_r")
    items = ", ".join(f"{text} AS w{number}" for number, text in enumerate(SAME))
    bound = bind_query(parse_query(f"SELECT id, {items} FROM r"), CATALOG)
    answer = session.sql(to_spark(bound.expression, table_names={"r": "windows_r"})).toArrow()
    kinds = [kind.arrow for kind in bound.types]
    ids = answer[0].to_pylist()
    return table, {
        text: dict(zip(ids, answer[at].cast(kinds[at]).to_pylist(), strict=True)) for at, text in enumerate(SAME, 1)
    }


def test_arrow_gives_what_spark_gives(sparks):
    table, expected = sparks
    for text in SAME:
        assert by_arrow(text, table) == expected[text], text


@pytest.mark.parametrize("text", SPARKS)
def test_left_to_spark(text):
    bound = query(text)
    types = dict(zip(bound.output, bound.types, strict=True))
    plan = vectorized_piece(bound.expression, {"r": 1}, types)
    if plan is not None:
        with pytest.raises(NotVectorized):
            plan.evaluate({1: rows(9)})


def test_queries_that_are_put_together():
    text = "SELECT q.k, count(*) AS c FROM (SELECT k FROM r UNION ALL (SELECT x FROM r UNION ALL SELECT b FROM r)) AS q"
    bound = bind_query(parse_query(f"{text} GROUP BY q.k"), CATALOG)
    plan = vectorized_piece(bound.expression, {"r": 1}, dict(zip(bound.output, bound.types, strict=True)))
    table = rows(60)
    found = plan.evaluate({1: table})
    every = [value for name in ("k", "x", "b") for value in table[name].to_pylist()]
    expected = {value: every.count(value) for value in every}
    assert dict(zip(found["k"].to_pylist(), found["c"].to_pylist(), strict=True)) == expected
    distinct = bind_query(parse_query("SELECT k FROM r UNION SELECT x FROM r"), CATALOG)
    assert vectorized_piece(distinct.expression, {"r": 1}, {"k": KINDS["k"]}) is None


def test_joins_of_what_may_be_null():
    text = "SELECT a.id, b.id AS other FROM r AS a JOIN r AS b ON a.k IS NOT DISTINCT FROM b.k AND a.g = b.g"
    bound = bind_query(parse_query(text), CATALOG)
    plan = vectorized_piece(bound.expression, {"r": 1}, dict(zip(bound.output, bound.types, strict=True)))
    table = rows(60)
    found = plan.evaluate({1: table})
    every = table.to_pylist()
    expected = sorted((a["id"], b["id"]) for a in every for b in every if a["k"] == b["k"] and a["g"] == b["g"] != None)  # noqa: E711
    assert sorted(zip(found["id"].to_pylist(), found["other"].to_pylist(), strict=True)) == expected
