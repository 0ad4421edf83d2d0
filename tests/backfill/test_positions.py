from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.backfill.positions import DONE, Chunk, Positions, encoded, partitions, split
from headrace.catalog import KeyColumn
from headrace.errors import CorruptWarehouse, HeadraceError, InvalidParameterValue
from headrace.state.keys import KeyCodec
from headrace.state.vnode import VNODES
from headrace.types import SqlType


def chunk(first=0, after=None, last=0, upto=None, rows=1, limit=None) -> Chunk:
    return Chunk(first_vnode=first, after=after, last_vnode=last, upto=upto, rows=rows, limit=limit)


# --- positions --------------------------------------------------------------------------------------------------


def test_nothing_is_covered_at_the_start():
    start = Positions.start()
    assert len(start.vnodes) == VNODES
    assert not start.done and start.done_count == 0 and start.partial == {}
    assert not any(start.covers(vnode, b"") for vnode in range(VNODES))


def test_the_filter_has_three_answers():
    at = Positions((DONE, b"m", None))
    assert at.covers(0, b"") and at.covers(0, b"\xff")
    assert at.covers(1, b"") and at.covers(1, b"m") and not at.covers(1, b"m\0")
    assert not at.covers(2, b"")
    assert at.done_count == 1 and at.partial == {1: b"m"} and not at.done


def test_an_empty_key_is_a_position_and_not_a_start():
    """No pk, at most one row: read, the vnode is at b"" and covers its row."""
    at = Positions.start(1).advance(chunk(upto=b""))
    assert at.of(0) == b"" and at.covers(0, b"") and not at.covers(0, b"a")
    assert at.advance(chunk(after=b"")).done


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ([("integer", KeyColumn(name="a"))], [(-5,), (0,), (7,), (None,)]),
        ([("integer", KeyColumn(name="a", descending=True))], [(7,), (0,), (-5,), (None,)]),
        ([("integer", KeyColumn(name="a", nulls_first=True))], [(None,), (-5,), (7,)]),
        ([("integer", KeyColumn(name="a", descending=True, nulls_first=True))], [(None,), (7,), (-5,)]),
        ([("varchar", KeyColumn(name="a"))], [("",), ("\0",), ("a",), ("a\0",), ("ab",), ("é",), (None,)]),
        ([("varchar", KeyColumn(name="a", descending=True))], [("ab",), ("a\0",), ("a",), ("",)]),
        ([("bytea", KeyColumn(name="a"))], [(b"",), (b"\0",), (b"\0\xff",), (b"\xff",)]),
        ([("double precision", KeyColumn(name="a"))], [(float("-inf"),), (-1.5,), (0.0,), (2.5,), (float("nan"),)]),
        ([("numeric", KeyColumn(name="a", descending=True))], [(Decimal("1.5"),), (Decimal("0"),), (Decimal("-9"),)]),
        (
            [("timestamptz", KeyColumn(name="a"))],
            [(datetime(1969, 1, 1, tzinfo=UTC),), (datetime(2024, 1, 1, tzinfo=UTC),)],
        ),
        (
            [("varchar", KeyColumn(name="a", nulls_first=True)), ("integer", KeyColumn(name="b", descending=True))],
            [(None, 2), (None, 1), (None, None), ("x", 2), ("x", 1), ("x", None), ("xy", 9)],
        ),
    ],
)
def test_positions_follow_the_order_of_the_pk(columns, rows):
    """``rows`` are in the order that SQL says; at each, exactly it and those before it are covered."""
    codec = KeyCodec([(SqlType(kind), key) for kind, key in columns])
    keys = [codec.encode(row) for row in rows]
    for number, key in enumerate(keys):
        at = Positions.start(1).advance(chunk(upto=key))
        assert [at.covers(0, each) for each in keys] == [other <= number for other in range(len(keys))]


def test_landing_passes_over_whole_vnodes():
    at = Positions.start(5).advance(chunk(1, None, 3, b"k"))
    assert at.vnodes == (None, DONE, DONE, b"k", None)
    assert at.advance(chunk(3, b"k", 4, None)).vnodes == (None, DONE, DONE, DONE, DONE)


@pytest.mark.parametrize(
    "stale",
    [
        chunk(0, None, 0, b"z"),  # of a vnode that is done
        chunk(1, None, 1, None),  # from the start of one that is not there any more
        chunk(1, b"a", 1, None),  # from before where it is
        chunk(1, b"m", 1, b"m"),  # that goes nowhere
        chunk(1, b"m", 1, b"b"),  # backwards
        chunk(1, b"m", 3, None),  # over a vnode that was started
        chunk(2, None, 1, None),
        chunk(4, None, 5, None),
    ],
)
def test_a_chunk_that_does_not_continue_is_refused(stale):
    with pytest.raises(HeadraceError, match="does not continue"):
        Positions((DONE, b"m", None, b"c", None)).advance(stale)


positions = st.lists(st.one_of(st.none(), st.just(DONE), st.binary(max_size=3)), min_size=1, max_size=20).map(
    lambda vnodes: Positions(tuple(vnodes))
)


@given(positions)
def test_positions_survive_the_manifest_and_the_trip_to_an_executor(at):
    copy = Positions.from_json(json.loads(json.dumps(at.to_json())))
    assert copy == at and hash(copy) == hash(at)
    sent = pickle.loads(pickle.dumps(at))
    assert sent == at and sent.done == at.done
    assert [sent.covers(v, b"x") for v in range(len(at.vnodes))] == [at.covers(v, b"x") for v in range(len(at.vnodes))]


def test_the_json_is_small():
    at = Positions((DONE,) * 250 + (b"abc",) + (None,) * 5)
    assert len(json.dumps(at.to_json())) < 80


@pytest.mark.parametrize("broken", [{"done": "x"}, {"done": "9"}, {"done": "", "at": {"0": "zz"}}])
def test_broken_positions_are_noticed(broken):
    with pytest.raises(CorruptWarehouse):
        Positions.from_json({"vnodes": 4, **broken})


def test_positions_for_a_person():
    codec = KeyCodec([(SqlType("integer"), KeyColumn(name="a")), (SqlType("varchar"), KeyColumn(name="b"))])
    at = Positions((DONE, codec.encode([7, None]), None))
    assert at.describe(codec) == [(0, "done"), (1, "(7, NULL)"), (2, "not started")]
    assert Positions((b"",)).describe(KeyCodec([])) == [(0, "()")]


# --- chunks -----------------------------------------------------------------------------------------------------

keys = st.binary(max_size=2)


@st.composite
def some_chunk(draw) -> Chunk:
    first = draw(st.integers(0, 3))
    last = draw(st.integers(first, 3))
    after, upto = draw(st.none() | keys), draw(st.none() | keys)
    if first == last and None not in (after, upto):
        after, upto = sorted((after, upto))
    return chunk(first, after, last, upto)


@given(some_chunk(), st.integers(0, 4), keys)
def test_a_chunk_holds_what_landing_it_covers(some, vnode, key):
    """No row is between two chunks, and none in both."""
    if some.first_vnode == some.last_vnode and some.after is not None and some.after == some.upto:
        return
    before = Positions(tuple(some.after if vnode == some.first_vnode else None for vnode in range(5)))
    after = before.advance(some)
    assert some.holds(vnode, key) == (after.covers(vnode, key) and not before.covers(vnode, key))


@given(some_chunk(), st.integers(0, 4), keys)
def test_encoded_bounds_say_the_same(some, vnode, key):
    full = encoded(vnode, key)
    assert split(full) == (vnode, key)
    assert some.overlaps(full, full) == some.holds(vnode, key)


@given(some_chunk(), st.lists(st.tuples(st.integers(0, 4), keys), min_size=1, max_size=5))
def test_no_file_with_a_row_of_the_chunk_is_skipped(some, rows):
    ends = [encoded(*row) for row in rows]
    if any(some.holds(*row) for row in rows):
        assert some.overlaps(min(ends), max(ends))


def test_a_cut_chunk_ends_at_the_row_where_reading_stopped():
    whole = chunk(1, b"c", 4, None, rows=500, limit=20)
    part = whole.cut(2, b"k")
    assert part == chunk(1, b"c", 2, b"k", rows=20)
    assert part.holds(2, b"k") and not part.holds(2, b"l")
    for vnode, key in [(1, b"c"), (0, b"z"), (5, b"")]:
        with pytest.raises(HeadraceError, match="cannot be cut"):
            whole.cut(vnode, key)


# --- partitions -------------------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.data())
def test_partitions_are_fair_and_complete(count, data):
    shares = partitions(data.draw(st.integers(1, count)), count)
    assert [vnode for share in shares for vnode in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@pytest.mark.parametrize("parallelism", [0, -1, VNODES + 1])
def test_an_impossible_parallelism_is_refused(parallelism):
    with pytest.raises(
        InvalidParameterValue, match=f"parallelism of {parallelism} is not possible\nHINT: choose 1 to 256"
    ):
        partitions(parallelism)
