"""The driver's vnodes are Spark's, for every type that can be hashed."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.intervals import Interval
from headrace.state.vnode import spark_expression, vnode_of, vnodes_of
from headrace.types import SqlType
from tests.support.values import KEY_TYPES, NUMERIC_18, NUMERIC_19, NUMERIC_DEFAULT, NUMERIC_SMALL, maybe

EDGES = {
    SqlType("boolean"): [True, False],
    SqlType("smallint"): [0, 1, -1, 32767, -32768],
    SqlType("integer"): [0, 1, -1, 2**31 - 1, -(2**31)],
    SqlType("bigint"): [0, 1, -1, 2**63 - 1, -(2**63), 2**32],
    SqlType("real"): [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e-45],
    SqlType("double precision"): [0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 5e-324],
    SqlType("varchar"): ["", "a", "abc", "abcd", "abcdefgh", "é" * 16, "😀" * 10, "a\0b", "x" * 31, "x" * 32],
    SqlType("jsonb"): ["{}", '{"a":1}', "null"],
    SqlType("bytea"): [b"", b"\0", b"\xff" * 33, bytes(range(256))],
    SqlType("date"): [datetime.date(1, 1, 1), datetime.date(1970, 1, 1), datetime.date(9999, 12, 31)],
    SqlType("timestamp"): [datetime.datetime(1, 1, 2), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)],
    SqlType("timestamptz"): [datetime.datetime(year, 2, 28, tzinfo=datetime.UTC) for year in (2, 1582, 1970, 2024)],
    SqlType("interval"): [Interval(n, -n, 7 * n).stored for n in (0, 1, -1, 10**6, -(10**6))],
    NUMERIC_SMALL: [Decimal("0.000"), Decimal("-0.001"), Decimal("999999999.999")],
    NUMERIC_18: [Decimal(10**18 - 1), Decimal(-(10**18) + 1), Decimal(0)],
    NUMERIC_19: [Decimal("0.0000"), Decimal("0.0127"), Decimal("0.0128"), Decimal("-0.0128"), Decimal("-0.0129")],
    NUMERIC_DEFAULT: [Decimal(text) for text in ("0", "1e27", "-1e27", "1844674407.3709551616", "-1e-10")],
}  # fmt: skip


def spark_vnodes(spark, table: pa.Table, expressions: list[str]) -> list[list[int]]:
    rows = spark.createDataFrame(table).selectExpr(*expressions).collect()
    return [list(column) for column in zip(*rows, strict=True)] if rows else [[] for _ in expressions]


def test_every_type_has_its_edges():
    assert set(EDGES) == set(KEY_TYPES)


@pytest.mark.parametrize("kind", EDGES, ids=str)
def test_edges(spark, kind):
    values = [*EDGES[kind], None]
    table = pa.table({"k": pa.array(values, kind.arrow), "n": pa.array(range(len(values)), pa.int64())})
    columns = [["k"], ["k", "n"], ["n", "k"]]
    types = {"k": kind, "n": SqlType("bigint")}
    answers = spark_vnodes(spark, table, [spark_expression(each) for each in columns])
    for names, expected in zip(columns, answers, strict=True):
        kinds = [types[name] for name in names]
        assert vnodes_of(table, names, kinds).tolist() == expected
        rows = zip(*(table[name].to_pylist() for name in names), strict=True)
        assert [vnode_of(row, kinds) for row in rows] == expected


@st.composite
def tables(draw) -> tuple[list[SqlType], pa.Table]:
    kinds = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=4))
    rows = draw(st.lists(st.tuples(*map(maybe, kinds)), min_size=1, max_size=10))
    schema = pa.schema([(f"c{number}", kind.arrow) for number, kind in enumerate(kinds)])
    return kinds, pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


# A Spark query per example: few examples, with several rows each.
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(case=tables())
def test_any_values(spark, case):
    kinds, table = case
    names = table.column_names
    (expected,) = spark_vnodes(spark, table, [spark_expression(names)])
    assert vnodes_of(table, names, kinds).tolist() == expected


def test_no_columns_are_one_slice(spark):
    table = pa.table({"k": [1, 2]})
    assert spark_vnodes(spark, table, [spark_expression([])]) == [[0, 0]]
