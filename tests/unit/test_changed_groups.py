"""Groups whose values follow from old ones: sums of any size, and minima and maxima of every type that has an order."""

from __future__ import annotations

import datetime
import decimal
import math

import pyarrow as pa
import pytest

from headrace.catalog import INTERNAL, Column, KeyColumn, Operator, Relation
from headrace.engine.groups import ChangedGroups
from headrace.errors import DataError
from headrace.state.layout import Layout
from headrace.types import SqlType

BIG = SqlType("bigint")


def _relation(kind: SqlType, **operator) -> Relation:
    columns = {"k": BIG, "rows": BIG, "value": kind}
    return Relation(
        id=2,
        name="g",
        kind=INTERNAL,
        columns=tuple(Column(name=name, type=each) for name, each in columns.items()),
        pk=(KeyColumn(name="k"),),
        distribution=("k",),
        operator=Operator(key=("k",), inputs=((1, ("k",)),), describe="aggregate", **operator),
    )


def _groups(relation: Relation, *tables: list[tuple]) -> ChangedGroups:
    layout = Layout.of(relation)
    arrow = [
        pa.table([pa.array([row[at] for row in rows], field.type) for at, field in enumerate(layout.row_schema)],
                 schema=layout.row_schema)
        for rows in tables
    ]  # fmt: skip
    return ChangedGroups(layout, relation.operator, *arrow)


def _rows(table: pa.Table) -> list[tuple]:
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


DAY = datetime.date(2026, 1, 1)
UTC = datetime.UTC

ORDERED = [
    (SqlType("integer"), [-3, 0, 7]),
    (SqlType("bigint"), [-(2**63), 0, 2**63 - 1]),
    (SqlType("numeric", 38, 4), [decimal.Decimal("-1.5000"), decimal.Decimal("1.2500"), decimal.Decimal("9" * 34)]),
    (SqlType("varchar"), ["", "Z", "a", "aé", "é", "\U0001f600"]),
    (SqlType("bytea"), [b"", b"\x00", b"\x00\x01", b"\xff"]),
    (SqlType("date"), [DAY, DAY.replace(year=9999)]),
    (SqlType("timestamp"), [datetime.datetime(1, 1, 1), datetime.datetime(2026, 1, 1, 0, 0, 0, 1)]),
    (SqlType("timestamptz"), [datetime.datetime(1969, 1, 1, tzinfo=UTC), datetime.datetime(2026, 1, 1, tzinfo=UTC)]),
    (SqlType("double precision"), [-math.inf, -1.5, 0.0, math.inf]),
]


@pytest.mark.parametrize(("kind", "values"), ORDERED, ids=lambda each: str(each)[:20])
@pytest.mark.parametrize("function", ["min", "max"])
def test_the_extreme_is_that_of_all_rows_or_in_doubt(kind, values, function):
    relation = _relation(kind, adds=(("rows", None),), extremes=(("value", function),))
    best = {"min": min, "max": max}[function]
    for old in [None, *values]:
        for came in [None, *values]:
            for gone in [None, *values]:
                groups = _groups(relation, [(1, 5, old)], [(1, 2, came)], [(1, 1, gone)])
                known = [each for each in (old, came) if each is not None]
                candidate = best(known) if known else None
                lost = gone is not None and (candidate is None or best([gone, candidate]) == gone)
                assert groups.in_doubt().to_pydict() == {"k": [1] if lost else []}, (old, came, gone)
                if not lost:
                    assert _rows(groups.new_rows()) == [(1, 6, candidate)], (old, came, gone)


def test_nan_is_the_greatest_and_zero_has_no_sign():
    relation = _relation(SqlType("double precision"), adds=(("rows", None),), extremes=(("value", "max"),))
    ((_, _, value),) = _rows(_groups(relation, [(1, 1, math.inf)], [(1, 1, math.nan)], []).new_rows())
    assert math.isnan(value)
    assert _groups(relation, [(1, 2, math.nan)], [], [(1, 1, math.nan)]).in_doubt().num_rows == 1
    assert _groups(relation, [(1, 2, 0.0)], [], [(1, 1, -0.0)]).in_doubt().num_rows == 1


def test_only_groups_that_are_left_are_looked_at():
    relation = _relation(BIG, adds=(("rows", None),), extremes=(("value", "max"),))
    old = [(1, 1, 10), (2, 2, 20), (3, 2, 30), (4, 2, None)]
    groups = _groups(relation, old, [(5, 1, 50)], [(1, 1, 10), (2, 1, 20), (3, 1, 5), (4, 1, None)])
    assert groups.in_doubt().to_pydict() == {"k": [2]}
    again = pa.table([[2], [1], [15]], schema=Layout.of(relation).row_schema)
    assert _rows(groups.new_rows(again)) == [(2, 1, 15), (3, 1, 30), (4, 1, None), (5, 1, 50)]


def test_a_sum_may_pass_through_more_digits_than_it_ends_with():
    kind = SqlType("numeric", 38, 0)
    relation = _relation(kind, adds=(("rows", None), ("value", "rows")))
    most = decimal.Decimal("9" * 38)
    groups = _groups(relation, [(1, 1, most)], [(1, 1, most), (2, 1, most)], [(1, 1, most)])
    assert _rows(groups.new_rows()) == [(1, 1, most), (2, 1, most)]
    with pytest.raises(DataError, match="a sum is out of range for type numeric"):
        _groups(relation, [(1, 1, most)], [(1, 1, most)], []).new_rows()


def test_a_sum_that_does_not_fit_its_type_is_an_error():
    relation = _relation(BIG, adds=(("rows", None), ("value", "rows")))
    with pytest.raises(DataError, match="a sum is out of range for type bigint"):
        _groups(relation, [(1, 1, 2**63 - 1)], [(1, 1, 1)], []).new_rows()
    assert _rows(_groups(relation, [(1, 1, 5)], [], [(1, 1, 5)]).new_rows()) == []
    assert _rows(_groups(relation, [(1, 2, 5)], [], [(1, 1, 5)]).new_rows()) == [(1, 1, 0)]
