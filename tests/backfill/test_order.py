from __future__ import annotations

import pytest

from headrace.backfill.order import blocked, check_order, waits_for
from headrace.errors import InvalidParameterValue, UndefinedRelation


def test_only_relations_that_the_view_reads():
    with pytest.raises(UndefinedRelation, match='"x", which the view does not read\nHINT: the view reads: a, "B"'):
        check_order((("a", "B"), ("a", "x")), ["a", "B"])


@pytest.mark.parametrize(
    ("pairs", "cycle"),
    [
        ((("a", "a"),), "a -> a"),
        ((("a", "b"), ("b", "a")), "a -> b -> a"),
        ((("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")), "b -> c -> d -> b"),
        ((("a", "B"), ("B", "c"), ("c", "a")), 'a -> "B" -> c -> a'),
    ],
)
def test_a_circle_is_named(pairs, cycle):
    with pytest.raises(InvalidParameterValue) as caught:
        check_order(pairs, ["a", "B", "b", "c", "d"])
    assert caught.value.message == f"backfill_order goes in a circle: {cycle}"


def test_many_ways_to_one_relation_are_no_circle():
    pairs = (("a", "b"), ("a", "c"), ("b", "d"), ("c", "d"))
    check_order(pairs, list("abcd"))
    assert blocked(pairs, set()) == {"b", "c", "d"}
    assert blocked(pairs, {"a", "b"}) == {"d"}
    assert waits_for("d", pairs, {"a", "b"}) == ["c"]
    assert blocked(pairs, {"a", "b", "c"}) == set()


def test_a_long_order_is_checked_quickly():
    pairs = tuple((f"r{n}", f"r{m}") for n in range(60) for m in range(n + 1, 60))
    check_order(pairs, [f"r{n}" for n in range(60)])
