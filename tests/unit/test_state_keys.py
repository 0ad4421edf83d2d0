from __future__ import annotations

import datetime
import functools
import math
import pickle
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog import KeyColumn
from headrace.errors import CorruptWarehouse, DataError, Unsupported
from headrace.intervals import FIELDS
from headrace.state.keys import KeyCodec
from headrace.types import SqlType, array_of
from tests.support.values import KEY_TYPES, maybe, values

INT = SqlType("integer")


def compare_values(left: Any, right: Any) -> int:
    """PostgreSQL's order of two values that are not NULL."""
    if isinstance(left, float):
        if math.isnan(left) or math.isnan(right):
            return int(math.isnan(left)) - int(math.isnan(right))
    if isinstance(left, str):
        left, right = left.encode(), right.encode()
    if isinstance(left, dict):  # intervals; those of one length have an order, too
        left, right = ([each[name] for name in FIELDS] for each in (left, right))
    return int(left > right) - int(left < right)


def compare(left: Any, right: Any, key: KeyColumn) -> int:
    if left is None or right is None:
        order = int(left is None) - int(right is None)
        return -order if key.nulls_first else order
    order = compare_values(left, right)
    return -order if key.descending else order


def same(left: Any, right: Any) -> bool:
    return left == right or (isinstance(left, float) and math.isnan(left) and math.isnan(right))


@st.composite
def shapes(draw) -> list[tuple[SqlType, KeyColumn]]:
    kinds = draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
    return [
        (kind, KeyColumn(name=f"c{number}", descending=draw(st.booleans()), nulls_first=draw(st.booleans())))
        for number, kind in enumerate(kinds)
    ]


@st.composite
def shapes_with_rows(draw, count: int) -> tuple[list[tuple[SqlType, KeyColumn]], list[tuple]]:
    shape = draw(shapes())
    row = st.tuples(*(maybe(kind) for kind, _ in shape))
    rows = draw(st.lists(row, min_size=count, max_size=count))
    # Equal leading columns are where the later ones matter.
    if count > 1 and draw(st.booleans()):
        keep = draw(st.integers(0, len(shape)))
        rows[1] = rows[0][:keep] + rows[1][keep:]
    return shape, rows


@given(shapes_with_rows(2))
def test_bytes_sort_as_the_key_does(case):
    shape, (left, right) = case
    codec = KeyCodec(shape)
    expected = 0
    for a, b, (_, key) in zip(left, right, shape, strict=True):
        expected = expected or compare(a, b, key)
    first, second = codec.encode(left), codec.encode(right)
    assert int(first > second) - int(first < second) == expected


@given(shapes_with_rows(1))
def test_a_key_can_be_read_back(case):
    shape, (row,) = case
    codec = KeyCodec(shape)
    back = codec.decode(codec.encode(row))
    assert len(back) == len(row)
    assert all(same(a, b) for a, b in zip(back, row, strict=True))
    assert codec.decode_with_vnode(codec.encode_with_vnode(200, row))[0] == 200


@given(shapes_with_rows(6), st.integers(0, 6), st.booleans())
def test_a_table_is_encoded_like_its_rows(case, cut, with_vnodes):
    shape, rows = case
    codec = KeyCodec(shape)
    schema = pa.schema([(key.name, kind.arrow) for kind, key in shape])
    whole = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    chunked = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])
    vnodes = np.arange(250, 256, dtype=np.int16) if with_vnodes else None
    expected = [
        codec.encode(row) if vnodes is None else codec.encode_with_vnode(int(vnodes[number]), row)
        for number, row in enumerate(rows)
    ]
    assert codec.encode_table(chunked, vnodes=vnodes) == expected
    sliced = None if vnodes is None else vnodes[2:]
    assert codec.encode_table(whole.slice(2), schema.names, vnodes=sliced) == expected[2:]


@given(st.sampled_from(KEY_TYPES).flatmap(lambda kind: st.tuples(st.just(kind), st.lists(values(kind), max_size=20))))
def test_sorting_bytes_sorts_values(case):
    kind, items = case
    codec = KeyCodec([(kind, KeyColumn(name="k"))])
    ordered = sorted(items, key=functools.cmp_to_key(compare_values))
    assert sorted(codec.encode([item]) for item in items) == [codec.encode([item]) for item in ordered]


@given(shapes_with_rows(5))
def test_columns_are_read_back_from_rows_of_bytes(case):
    shape, rows = case
    codec = KeyCodec(shape)
    if codec.width is None:
        return
    columns = zip(*rows, strict=True)
    table = pa.table({key.name: pa.array(each, kind.arrow) for (kind, key), each in zip(shape, columns, strict=True)})
    found = codec.columns(codec.matrix(table, vnodes=range(5)))
    assert {*found, *codec.lossy} == {*codec.names}
    for name, array in found.items():
        assert array.equals(table[name].combine_chunks())
        assert name not in codec.lossy


def test_a_key_prefix_is_a_prefix_of_the_bytes():
    codec = KeyCodec([(SqlType("varchar"), KeyColumn(name="a")), (INT, KeyColumn(name="b"))])
    assert codec.encode(["x", 1]).startswith(codec.encode(["x"]))
    assert not codec.encode(["xy", 1]).startswith(codec.encode(["x"]))
    assert codec.decode(codec.encode(["x"])) == ("x",)


def test_other_arrow_types_of_the_same_values():
    codec = KeyCodec([(SqlType("varchar"), KeyColumn(name="a")), (SqlType("bigint"), KeyColumn(name="b"))])
    plain = pa.table({"a": ["x", "y"], "b": pa.array([1, 2], pa.int64())})
    for kind in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        other = pa.table({"a": plain["a"].cast(kind), "b": plain["b"].cast(pa.int32())})
        assert codec.encode_table(other) == codec.encode_table(plain)


def test_raw_counts_of_days_and_microseconds_are_values_too():
    day, moment = SqlType("date"), SqlType("timestamptz")
    codec = KeyCodec([(day, KeyColumn(name="d")), (moment, KeyColumn(name="t"))])
    value = (datetime.date(1970, 1, 11), datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.UTC))
    assert codec.encode([10, 1_000_000]) == codec.encode(value)


def test_an_instant_is_the_same_in_every_zone():
    codec = KeyCodec([(SqlType("timestamptz"), KeyColumn(name="t"))])
    utc = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.UTC)
    assert codec.encode([utc]) == codec.encode([utc.astimezone(datetime.timezone(datetime.timedelta(hours=-7)))])


def test_years_that_python_does_not_know_stay_counts():
    codec = KeyCodec([(SqlType("timestamp"), KeyColumn(name="t")), (SqlType("date"), KeyColumn(name="d"))])
    assert codec.decode(codec.encode([1 << 62, 5_000_000])) == (1 << 62, 5_000_000)


def test_numeric_takes_any_way_of_writing_the_value():
    codec = KeyCodec([(SqlType("numeric", precision=10, scale=2), KeyColumn(name="n"))])
    assert codec.encode([Decimal("1.5")]) == codec.encode([Decimal("1.500")]) == codec.encode([Decimal("15E-1")])
    assert codec.encode([2]) == codec.encode([Decimal(2)])
    with pytest.raises(DataError, match="digits"):
        codec.encode([Decimal("0.001")])


def test_a_value_beyond_the_type_is_refused():
    with pytest.raises(DataError, match="out of range for type integer"):
        KeyCodec([(INT, KeyColumn(name="k"))]).encode([1 << 31])


@pytest.mark.parametrize("kind", [array_of(INT), SqlType("struct", fields=(("a", INT),))])
def test_nested_types_are_no_keys(kind):
    with pytest.raises(Unsupported, match='column "k" of type .* cannot be part of a key'):
        KeyCodec([(kind, KeyColumn(name="k"))])


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data + b"x"])
def test_bytes_that_are_no_key_are_noticed(damage):
    codec = KeyCodec([(SqlType("varchar"), KeyColumn(name="a")), (SqlType("varchar"), KeyColumn(name="b"))])
    with pytest.raises(CorruptWarehouse):
        codec.decode(damage(codec.encode(["x", "y"])))


def test_a_codec_travels_to_executors():
    codec = KeyCodec([(kind, KeyColumn(name=f"c{number}")) for number, kind in enumerate(KEY_TYPES)])
    row = [None] * len(KEY_TYPES)
    assert pickle.loads(pickle.dumps(codec)).encode(row) == codec.encode(row)


def test_no_key_columns_and_no_rows():
    assert KeyCodec([]).encode([]) == b""
    assert KeyCodec([]).encode_table(pa.table({"a": [1, 2]})) == [b"", b""]
    for kind in KEY_TYPES:
        empty = pa.table({"k": pa.array([], kind.arrow)})
        assert KeyCodec([(kind, KeyColumn(name="k"))]).encode_table(empty, vnodes=[]) == []
