"""Generated rows: the same whoever reads them, in whatever parts, and as many as there should be by now."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidDefinition, InvalidParameterValue
from headrace.sources import datagen, nexmark
from headrace.sources.datagen import Datagen
from headrace.sources.definition import Definition
from headrace.sources.generated import GeneratedFeed
from headrace.sources.handover import Extent, Range
from headrace.sources.nexmark import Nexmark
from headrace.types import SqlType

BIGINT, TEXT, TIME = SqlType("bigint"), SqlType("varchar"), SqlType("timestamp")


def definition(connector: str, columns: dict[str, SqlType], **options: str) -> Definition:
    given = {"connector": connector} | {key.replace("__", "."): value for key, value in options.items()}
    return Definition(connector=connector, columns=tuple(columns.items()), options=tuple(given.items()))


def bids(**options: str) -> Nexmark:
    columns = {"auction": BIGINT, "bidder": BIGINT, "price": BIGINT, "channel": TEXT, "url": TEXT, "date_time": TIME}
    found = definition("nexmark", columns, nexmark__table__type="Bid", **options)
    nexmark.check(found)
    return Nexmark.of(found, 0.0)


def rows(reader, split: int, start: int, end: int) -> list[dict]:
    return [row for each in reader.read(Range(split, start, end)) for row in each.rows.to_pylist()]


def test_ranges_are_parts_of_a_whole():
    made = definition("datagen", {"a": BIGINT, "w": TEXT, "t": TIME}, datagen__split__num="2", datagen__seed="7")
    for reader in (Datagen.of(made, 1000.0), bids(nexmark__split__num="2")):
        whole = rows(reader, 1, 0, 300)
        assert rows(reader, 1, 0, 100) + rows(reader, 1, 100, 300) == whole
        assert rows(reader, 0, 0, 300) != whole


def test_how_many_there_are():
    made = definition(
        "datagen", {"a": BIGINT}, datagen__rows__per__second="10", datagen__split__num="3", datagen__rows="8"
    )
    reader = Datagen.of(made, 100.0)
    now = [100.0]
    feed = GeneratedFeed(definition=made, reader=reader, clock=lambda: now[0])
    assert feed.extents() == {split: Extent(0, 0) for split in range(3)}
    now[0] = 100.5
    assert [feed.extents()[split].end for split in range(3)] == [2, 2, 1]
    now[0] = 200.0
    assert sum(each.end for each in feed.extents().values()) == 8
    now[0] = 50.0  # a clock that goes back
    assert sum(each.end for each in feed.extents().values()) == 0


def test_a_sequence_has_an_end_and_values_lie_within_bounds():
    made = definition(
        "datagen", {"a": BIGINT, "b": SqlType("integer"), "c": SqlType("double precision")}, fields__a__kind="sequence",
        fields__a__start="5", fields__a__end="9", fields__b__min="-3", fields__b__max="3", fields__c__max="0.5",
    )  # fmt: skip
    datagen.check(made)
    reader = Datagen.of(made, 0.0)
    assert reader.extent(0, 1e6) == Extent(0, 5)
    found = rows(reader, 0, 0, 5)
    assert [row["a"] for row in found] == [5, 6, 7, 8, 9]
    many = rows(Datagen.of(definition("datagen", dict(made.columns), **{
        "fields__b__min": "-3", "fields__b__max": "3", "fields__c__max": "0.5"}), 0.0), 0, 0, 2000)  # fmt: skip
    assert {row["b"] for row in many} == set(range(-3, 4)) and all(0 <= row["c"] <= 0.5 for row in many)


def test_nexmark_fits_together():
    reader = bids(nexmark__event__num="5000")
    assert reader.extent(0, 0.0) == Extent(0, 4600)
    people = Nexmark.of(
        definition("nexmark", {"id": BIGINT}, nexmark__table__type="Person", nexmark__event__num="5000"), 0
    )
    auctions = Nexmark.of(
        definition(
            "nexmark", {"id": BIGINT, "seller": BIGINT}, nexmark__table__type="Auction", nexmark__event__num="5000"
        ),
        0,
    )
    assert people.extent(0, 0.0).end == 100 and auctions.extent(0, 0.0).end == 300
    bid, auction = rows(reader, 0, 0, 4600), rows(auctions, 0, 0, 300)
    people_ids = {row["id"] for row in rows(people, 0, 0, 100)}
    assert {row["auction"] for row in bid} <= {row["id"] for row in auction}
    assert {row["bidder"] for row in bid} | {row["seller"] for row in auction} <= people_ids
    assert all(one["date_time"] <= other["date_time"] for one, other in zip(bid, bid[1:], strict=False))


@pytest.mark.parametrize(
    ("columns", "options", "error"),
    [
        ({"auction": BIGINT}, {}, InvalidParameterValue),
        ({"auction": BIGINT}, {"nexmark__table__type": "Sale"}, InvalidParameterValue),
        ({"weight": BIGINT}, {"nexmark__table__type": "Bid"}, InvalidDefinition),
        ({"url": BIGINT}, {"nexmark__table__type": "Bid"}, InvalidDefinition),
        ({"auction": BIGINT}, {"nexmark__table__type": "Bid", "nexmark__unknown": "1"}, InvalidParameterValue),
    ],
)
def test_what_is_refused(columns, options, error):
    with pytest.raises(error):
        nexmark.check(definition("nexmark", columns, **options))
