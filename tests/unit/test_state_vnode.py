from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import Unsupported
from headrace.state.vnode import VNODES, spark_expression, vnode_of, vnodes_of
from headrace.types import SqlType, array_of
from tests.support.values import KEY_TYPES, maybe


@st.composite
def tables(draw):
    kinds = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
    rows = draw(st.lists(st.tuples(*map(maybe, kinds)), max_size=8))
    return kinds, rows


@given(tables())
def test_a_column_at_once_is_as_one_by_one(case):
    kinds, rows = case
    names = [f"c{number}" for number in range(len(kinds))]
    schema = pa.schema([(name, kind.arrow) for name, kind in zip(names, kinds, strict=True)])
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema)
    found = vnodes_of(table, names, kinds)
    assert found.dtype == "int16"
    assert found.tolist() == [vnode_of(row, kinds) for row in rows]
    assert all(0 <= vnode < VNODES for vnode in found)


def test_known_hashes():
    """What Spark 4 answers to pmod(xxhash64(…), 256); tests/spark_sql asks it for many more."""
    assert vnode_of([None], [SqlType("bigint")]) == 42
    assert vnode_of([], []) == 0


def test_growing_numbers_spread_evenly():
    table = pa.table({"k": pa.array(range(VNODES * 100), pa.int64())})
    counts = pa.array(vnodes_of(table, ["k"], [SqlType("bigint")])).value_counts().field("counts").to_pylist()
    assert len(counts) == VNODES
    assert min(counts) > 60 and max(counts) < 150


def test_the_expression_quotes_names():
    assert spark_expression(["a", "b`c"]) == "CAST(pmod(xxhash64(`a`, `b``c`), 256) AS SMALLINT)"
    assert spark_expression([]) == "CAST(0 AS SMALLINT)"
    assert vnodes_of(pa.table({"a": [1, 2]}), [], []).tolist() == [0, 0]


def test_nested_types_cannot_be_hashed():
    kind = array_of(SqlType("integer"))
    with pytest.raises(Unsupported, match=r"integer\[\]"):
        vnode_of([[1]], [kind])
    with pytest.raises(Unsupported, match=r"integer\[\]"):
        vnodes_of(pa.table({"a": pa.array([[1]], kind.arrow)}), ["a"], [kind])
