"""Generated rows: the same whoever reads them, in whatever parts, and as many as there should be by now."""

from __future__ import annotations

from datetime import datetime

import pytest

from headrace.errors import InvalidDefinition, InvalidParameterValue
from headrace.sources import datagen, nexmark
from headrace.sources.connector import Resolved
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


NEXMARK = {
    "Person": {"id": BIGINT, "name": TEXT, "city": TEXT, "state": TEXT, "date_time": TIME, "extra": TEXT},
    "Auction": {
        "id": BIGINT, "item_name": TEXT, "initial_bid": BIGINT, "reserve": BIGINT, "date_time": TIME, "expires": TIME,
        "seller": BIGINT, "category": BIGINT,
    },
    "Bid": {"auction": BIGINT, "bidder": BIGINT, "price": BIGINT, "channel": TEXT, "url": TEXT, "date_time": TIME},
}  # fmt: skip


def of_nexmark(table: str, *, skewed: bool = True, **options: str) -> Nexmark:
    found = definition("nexmark", NEXMARK[table], nexmark__table__type=table, **options)
    nexmark.check(found)
    return Nexmark.of(found, 0.0, skewed)


def bids(**options: str) -> Nexmark:
    return of_nexmark("Bid", **options)


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
    people, auctions = (of_nexmark(table, nexmark__event__num="5000") for table in ("Person", "Auction"))
    assert people.extent(0, 0.0).end == 100 and auctions.extent(0, 0.0).end == 300
    bid, auction = rows(reader, 0, 0, 4600), rows(auctions, 0, 0, 300)
    people_ids = {row["id"] for row in rows(people, 0, 0, 100)}
    assert {row["auction"] for row in bid} <= {row["id"] for row in auction}
    assert {row["bidder"] for row in bid} | {row["seller"] for row in auction} <= people_ids
    assert all(one["date_time"] <= other["date_time"] for one, other in zip(bid, bid[1:], strict=False))


@pytest.mark.parametrize("table", NEXMARK)
def test_a_seed_of_nexmark_says_what_its_rows_are(table):
    found = {}
    for seed in ("0", "1", "7", "123456789"):
        one, again = (of_nexmark(table, nexmark__seed=seed, nexmark__split__num="3") for _ in range(2))
        found[seed] = rows(one, 2, 0, 400)
        parts = [row for start, end in ((0, 1), (1, 150), (150, 400)) for row in rows(again, 2, start, end)]
        assert parts == found[seed]
    assert rows(of_nexmark(table, nexmark__split__num="3"), 2, 0, 400) == found["0"]
    drawn = [name for name in NEXMARK[table] if name not in ("id", "date_time")]
    for name in drawn:
        assert len({tuple(row[name] for row in each) for each in found.values()}) == len(found), name


def test_every_seed_that_can_be_asked_for_has_rows():
    assert len(rows(bids(nexmark__seed=str(1 << 62)), 0, 0, 10)) == 10


def share(values: list, expected: object) -> float:
    return values.count(expected) / len(values)


def test_most_of_nexmark_is_about_what_is_hot():
    found = rows(bids(nexmark__seed="5"), 0, 46_000, 50_000)
    people, auctions = 46_000 // 46, 46_000 // 46 * 3
    assert 0.7 < share([row["bidder"] - 1000 for row in found[:2000]], people) < 0.8
    assert 0.45 < share([row["auction"] - 1000 for row in found[:1500]], auctions) < 0.55
    known = [row for row in found if row["channel"] in ("Google", "Facebook", "Baidu", "Apple")]
    others = [row for row in found if row not in known]
    assert 0.45 < len(known) / len(found) < 0.55
    assert not any("channel_id=" in row["url"] for row in known)
    assert 0.87 < sum("&channel_id=" in row["url"] for row in others) / len(others) < 0.93
    assert len({row["channel"] for row in others}) > 1500 and len({row["auction"] for row in found}) > 300
    sellers = [row["seller"] - 1000 for row in rows(of_nexmark("Auction"), 0, 3000, 3300)]
    assert 0.68 < share(sellers, 1000) < 0.82
    cold = rows(bids(nexmark__hot__bidder__ratio="1", nexmark__hot__channel__ratio="1"), 0, 46_000, 48_000)
    assert share([row["bidder"] - 1000 for row in cold], people) < 0.01
    assert not [row for row in cold if row["channel"] in ("Google", "Facebook", "Baidu", "Apple")]


def test_auctions_of_nexmark_end_while_there_are_bids_on_them():
    for gap in (100_000, 20_000_000):
        options = {"nexmark__min__event__gap__in__ns": str(gap)}
        auction = {row["id"]: row for row in rows(of_nexmark("Auction", **options), 0, 0, 900)}
        found = rows(bids(**options), 0, 0, 13_800)
        late = sum(row["date_time"] > auction[row["auction"]]["expires"] for row in found) / len(found)
        assert 0.1 < late < 0.6
        assert (found[1]["date_time"] - found[0]["date_time"]).total_seconds() * 1e9 == gap


def test_a_source_keeps_the_rows_that_it_was_created_with():
    """Those of a source that was created before anything was hot, of which the warehouse knows nothing but when."""
    resolved = nexmark.CONNECTOR.resolve(bids().definition, None)
    assert resolved.known["skewed"]
    before = Resolved(starts=resolved.starts, known={"created_at": 0.0})
    options = {"nexmark__seed": "3"}
    found = nexmark.CONNECTOR.feed(bids(**options).definition, before, None).reader
    assert rows(found, 0, 5000, 5001) == [
        {
            "auction": 1293, "bidder": 1059, "price": 3453, "channel": "Google",
            "url": "https://www.nexmark.com/1740dfc69d2d45e9/item.htm",
            "date_time": datetime(2015, 7, 15, 0, 0, 0, 543600), "_hr_partition": 0, "_hr_offset": 5000,
        }
    ]  # fmt: skip
    (auction,) = rows(of_nexmark("Auction", skewed=False, **options), 0, 5000, 5001)
    assert (auction["seller"], auction["expires"]) == (2574, datetime(2015, 7, 15, 0, 0, 16, 252224))


@pytest.mark.parametrize(
    ("columns", "options", "error"),
    [
        ({"auction": BIGINT}, {}, InvalidParameterValue),
        ({"auction": BIGINT}, {"nexmark__table__type": "Sale"}, InvalidParameterValue),
        ({"weight": BIGINT}, {"nexmark__table__type": "Bid"}, InvalidDefinition),
        ({"url": BIGINT}, {"nexmark__table__type": "Bid"}, InvalidDefinition),
        (
            {"auction": BIGINT},
            {"nexmark__table__type": "Bid", "nexmark__hot__auction__ratio": "0"},
            InvalidParameterValue,
        ),
        ({"auction": BIGINT}, {"nexmark__table__type": "Bid", "nexmark__unknown": "1"}, InvalidParameterValue),
    ],
)
def test_what_is_refused(columns, options, error):
    with pytest.raises(error):
        nexmark.check(definition("nexmark", columns, **options))
