from __future__ import annotations

import pytest

from headrace.backfill.order import blocked, check_order, parse_order, waits_for
from headrace.errors import InvalidParameterValue, UndefinedRelation


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("AUTO", ()),
        (" none ", ()),
        ("FIXED(a -> b)", (("a", "b"),)),
        ("fixed ( a->b ,\n b -> c )", (("a", "b"), ("b", "c"))),
        ('FIXED(A -> "B c", "x""y" -> d)', (("a", "B c"), ('x"y', "d"))),
        ('FIXED("a -> b" -> c)', (("a -> b", "c"),)),
        ("FIXED(a -> b, a -> b)", (("a", "b"),)),
    ],
)
def test_orders(text, pairs):
    assert parse_order(text) == pairs


@pytest.mark.parametrize(
    "text", ["", "FIXED", "FIXED()", "FIXED(a)", "FIXED(a -> )", "FIXED(a -> b", "FIXED(a -> b,)", "FIXED(a -> b -> c)",
             "FIXED(a -> b; c)", "FIXED(1a -> b)", "a -> b", 'FIXED("" -> b)', "AUTO(a)"]
)  # fmt: skip
def test_what_is_no_order_is_refused(text):
    with pytest.raises(InvalidParameterValue, match=r"is not a backfill order\nHINT: use AUTO, NONE, or FIXED"):
        parse_order(text)


def test_only_relations_that_the_view_reads():
    with pytest.raises(UndefinedRelation, match='"x", which the view does not read\nHINT: the view reads: a, "B"'):
        check_order((("a", "B"), ("a", "x")), ["a", "B"])


@pytest.mark.parametrize(
    ("pairs", "cycle"),
    [
        ("a -> a", "a -> a"),
        ("a -> b, b -> a", "a -> b -> a"),
        ("a -> b, b -> c, c -> d, d -> b", "b -> c -> d -> b"),
        ('a -> "B", "B" -> c, c -> a', 'a -> "B" -> c -> a'),
    ],
)
def test_a_circle_is_named(pairs, cycle):
    with pytest.raises(InvalidParameterValue) as caught:
        check_order(parse_order(f"FIXED({pairs})"), ["a", "B", "b", "c", "d"])
    assert caught.value.message == f"backfill_order goes in a circle: {cycle}"


def test_many_ways_to_one_relation_are_no_circle():
    pairs = parse_order("FIXED(a -> b, a -> c, b -> d, c -> d)")
    check_order(pairs, list("abcd"))
    assert blocked(pairs, set()) == {"b", "c", "d"}
    assert blocked(pairs, {"a", "b"}) == {"d"}
    assert waits_for("d", pairs, {"a", "b"}) == ["c"]
    assert blocked(pairs, {"a", "b", "c"}) == set()


def test_a_long_order_is_checked_quickly():
    pairs = tuple((f"r{n}", f"r{m}") for n in range(60) for m in range(n + 1, 60))
    check_order(pairs, [f"r{n}" for n in range(60)])
