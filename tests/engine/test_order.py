"""What Spark sorts by first, so that it need not look at rows, orders them as their key does."""

from __future__ import annotations

import datetime
import decimal
import random

import pyarrow as pa
import pytest

from headrace.catalog import KeyColumn
from headrace.state.layout import Layout
from headrace.state.predicates import order_start
from headrace.state.runs import VNODE
from headrace.state.scan import key_order, sorted_by_key
from headrace.types import SqlType

RNG = random.Random(3)
DAY = datetime.date(1970, 1, 1)
MOMENT = datetime.datetime(1970, 1, 1)
MOST = (1 << 63) - 1
VALUES = {
    SqlType("smallint"): [-32768, 32767, *range(-3, 4)],
    SqlType("integer"): [-(1 << 31), (1 << 31) - 1, *range(-3, 4)],
    SqlType("bigint"): [-MOST - 1, MOST, *range(-300, 600, 100), *(RNG.randint(-MOST, MOST) for _ in range(20))],
    SqlType("date"): [DAY + datetime.timedelta(days=days) for days in (-700_000, -1, 0, 1, 2_000_000)],
    SqlType("timestamp"): [MOMENT + datetime.timedelta(microseconds=each) for each in (-(10**16), -1, 0, 255, 10**15)],
    SqlType("numeric", precision=18, scale=2): [
        decimal.Decimal(each) for each in ("-9.99", "-0.01", "0", "0.5", "1e15")
    ],
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_the_start_of_an_order_agrees_with_it(spark, kind):
    values = [None, *VALUES[kind]]
    rows = [(vnode, value, number) for number in range(2) for vnode in (0, 1, 127, 128, 255) for value in values]
    RNG.shuffle(rows)
    vnodes, keys, numbers = zip(*rows, strict=True)
    table = pa.table(
        {"k": pa.array(keys, kind.arrow), "n": pa.array(numbers, pa.int32()), VNODE: pa.array(vnodes, pa.int16())}
    )
    frame = spark.createDataFrame(table, schema=f"k {kind.spark}, n INT, {VNODE} SMALLINT").coalesce(1).cache()
    for descending, nulls_first in ((False, False), (False, True), (True, False), (True, True)):
        key = KeyColumn(name="k", descending=descending, nulls_first=nulls_first)
        layout = Layout(
            relation_id=1,
            columns=(("k", kind), ("n", SqlType("integer"))),
            pk=(key, KeyColumn(name="n")),
            distribution=("k",),
        )
        assert order_start(layout) is not None
        plain = frame.sortWithinPartitions(*key_order(layout)).collect()
        assert sorted_by_key(frame, layout).collect() == plain
    frame.unpersist()


def test_a_key_of_text_has_no_such_number():
    layout = Layout(relation_id=1, columns=(("k", SqlType("varchar")),), pk=(KeyColumn(name="k"),), distribution=("k",))
    assert order_start(layout) is None
