from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.backfill.chunks import EXACT, next_chunk, remaining
from headrace.backfill.pacing import Reach
from headrace.backfill.positions import DONE, Chunk, Positions, encoded, partitions
from headrace.errors import HeadraceError

Ident = tuple[int, bytes]


def group(first: Ident, last: Ident, rows: int) -> tuple[bytes, bytes, int]:
    return encoded(*first), encoded(*last), rows


def file(keys: Sequence[Ident], size: int) -> list[tuple[bytes, bytes, int]]:
    """A file that holds these keys in groups of ``size``."""
    ordered = sorted(keys)
    pieces = [ordered[at : at + size] for at in range(0, len(ordered), size)]
    return [group(piece[0], piece[-1], len(piece)) for piece in pieces]


def test_an_empty_table_is_one_chunk_of_nothing():
    for sources in ([], [[]]):
        chunk = next_chunk(Positions.start(), range(256), sources, 10)
        assert chunk == Chunk(first_vnode=0, after=None, last_vnode=255, upto=None, rows=0)
        assert Positions.start().advance(chunk).done


def test_done_vnodes_need_nothing():
    at = Positions((DONE, DONE, None))
    assert next_chunk(at, range(0, 2), [file([(2, b"a")], 1)], 1) is None
    assert next_chunk(at, range(0, 0), [], 1) is None


def test_one_row():
    sources = [file([(3, b"k")], 1)]
    chunk = next_chunk(Positions.start(8), range(8), sources, 1)
    assert (chunk.first_vnode, chunk.last_vnode, chunk.upto, chunk.rows, chunk.limit) == (0, 7, None, 1, None)


def test_one_row_without_a_key():
    """`SELECT count(*)`: the encoded key is the vnode alone."""
    sources = [[group((0, b""), (0, b""), 1)]]
    chunk = next_chunk(Positions.start(2), range(2), sources, 1)
    assert chunk.holds(0, b"") and Positions.start(2).advance(chunk).done
    behind = next_chunk(Positions((b"", None)), range(2), sources, 1)
    assert behind.rows == 0 and not behind.holds(0, b"")


def test_a_chunk_takes_whole_groups_up_to_the_budget():
    sources = [file([(0, bytes([n])) for n in range(40)], 10)]
    chunk = next_chunk(Positions.start(1), range(1), sources, 25)
    assert (chunk.upto, chunk.rows, chunk.limit) == (bytes([19]), 20, None)


def test_a_group_larger_than_the_budget_is_counted_by_the_reader():
    sources = [file([(0, bytes([n])) for n in range(40)], 10)]
    chunk = next_chunk(Positions.start(1), range(1), sources, 3)
    assert (chunk.upto, chunk.limit) == (bytes([9]), 3)
    large = [[group((0, b"a"), (0, b"m"), 3 * EXACT), group((0, b"n"), (0, b"z"), 3 * EXACT)]]
    assert next_chunk(Positions.start(1), range(1), large, 3 * EXACT - 1).limit == 3 * EXACT - 1


def test_a_key_in_two_groups_does_not_count_the_second():
    """An update's retraction may end one row group and its put start the next: that is one row, not a group."""
    sources = [[group((0, b"a"), (0, b"d"), 4), group((0, b"d"), (0, b"h"), 4)]]
    chunk = next_chunk(Positions.start(1), range(1), sources, 4)
    assert (chunk.upto, chunk.rows, chunk.limit) == (b"d", 4, None)


def test_files_that_overlap_a_small_chunk_make_the_reader_count():
    """Ten files of a hundred rows over all keys: the first bound alone stands for up to a thousand rows."""
    sources = [[group((0, bytes([n])), (0, bytes([200 + n])), 100)] for n in range(10)]
    assert next_chunk(Positions.start(1), range(1), sources, 100).limit == 100


def test_a_large_chunk_is_not_counted_because_of_a_few_changes_above_it():
    base = [group((0, bytes([n])), (0, bytes([n, 255])), 10_000) for n in range(100)]
    changes = [[group((0, b"\0"), (0, b"\xff"), 2_000)] for _ in range(8)]
    chunk = next_chunk(Positions.start(1), range(1), [base, *changes], 200_000)
    assert (chunk.rows, chunk.limit, chunk.upto) == (200_000, None, bytes([19, 255]))


def test_empty_vnodes_behind_the_last_row_are_covered():
    sources = [file([(1, b"a"), (1, b"b"), (6, b"c")], 1)]
    first = next_chunk(Positions.start(9), range(9), sources, 2)
    assert (first.first_vnode, first.last_vnode, first.upto) == (0, 5, None)
    second = next_chunk(Positions.start(9).advance(first), range(9), sources, 2)
    assert (second.first_vnode, second.last_vnode, second.upto) == (6, 8, None)


def test_a_group_that_reaches_over_the_end_keeps_the_vnode_open():
    """Its rows may all lie in the next vnode, or not; the bounds do not tell."""
    sources = [file([(0, b"a")], 1), [group((0, b"a"), (2, b"z"), 9)]]
    chunk = next_chunk(Positions.start(3), range(3), sources, 1)
    assert (chunk.last_vnode, chunk.upto) == (0, b"a")


def test_groups_that_end_together_end_the_vnode_together():
    """An update of the last row: the base and the change end at the same key, and nothing lies beyond."""
    sources = [file([(0, b"a"), (0, b"b")], 2), file([(0, b"b")], 1), file([(0, b"b")], 1)]
    chunk = next_chunk(Positions.start(3), range(3), sources, 2)
    assert (chunk.last_vnode, chunk.upto, chunk.rows, chunk.limit) == (2, None, 4, 2)


def test_a_chunk_stays_in_its_partition():
    sources = [[group((0, b"a"), (7, b"z"), 100)]]
    for share in partitions(4, 8):
        chunk = next_chunk(Positions.start(8), share, sources, 1000)
        assert (chunk.first_vnode, chunk.last_vnode, chunk.upto) == (share[0], share[-1], None)


def test_a_chunk_stops_before_a_vnode_that_was_started():
    """After a rescale a partition may hold vnodes that were filled by several others."""
    sources = [file([(v, bytes([n])) for v in range(6) for n in range(5)], 5)]
    at = Positions((DONE, b"\x02", None, b"\x01", DONE, None))
    seen = []
    while (chunk := next_chunk(at, range(6), sources, 100)) is not None:
        seen.append((chunk.first_vnode, chunk.after, chunk.last_vnode, chunk.upto))
        at = at.advance(chunk)
    assert seen == [(1, b"\x02", 2, None), (3, b"\x01", 3, None), (5, None, 5, None)]


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(HeadraceError, match="no progress"):
        next_chunk(Positions.start(1), range(1), [], 0)


class Counting(list):
    """Groups that count how often one is looked at."""

    looked = 0

    def __getitem__(self, index):
        Counting.looked += 1
        return super().__getitem__(index)


def test_only_the_groups_that_are_needed_are_looked_at():
    """A hundred thousand groups in the middle of which a chunk of fifty starts."""
    groups = Counting(group((0, n.to_bytes(4, "big")), (0, n.to_bytes(4, "big") + b"z"), 4096) for n in range(100_000))
    at = Positions(((50_000).to_bytes(4, "big") + b"z",))
    Counting.looked = 0
    chunk = next_chunk(at, range(1), [groups], 50 * 4096)
    assert chunk.rows == 50 * 4096 and Counting.looked < 400
    Counting.looked = 0
    assert remaining(at, [groups]) == 49_999 * 4096
    assert Counting.looked < 300


idents = st.tuples(st.integers(0, 5), st.binary(max_size=1).map(lambda key: key[:1]))
files = st.lists(st.lists(idents, max_size=12, unique=True), max_size=4)


@given(files, st.integers(1, 5), st.integers(1, 20), st.integers(1, 6), st.data())
def test_chunks_cover_everything_once(contents, size, budget, parallelism, data):
    """Whatever the files look like: each row is in exactly one chunk, in key order, and it ends."""
    sources = [file(keys, size) for keys in contents]
    live = sorted({ident for keys in contents for ident in keys if data.draw(st.booleans())})
    at, read = Positions.start(6), []
    shares = partitions(parallelism, 6)
    while shares:
        share = data.draw(st.sampled_from(shares))
        chunk = next_chunk(at, share, sources, budget)
        if chunk is None:
            shares.remove(share)
            continue
        assert chunk.first_vnode in share and chunk.last_vnode in share
        rows = [ident for ident in live if chunk.holds(*ident)]
        if chunk.limit is not None and len(rows) > chunk.limit:
            rows = rows[: chunk.limit]
            chunk = chunk.cut(*rows[-1])
        assert len(rows) <= budget  # so small a budget is kept exactly
        read += rows
        left = remaining(at, sources)
        at = at.advance(chunk)
        unread = sum(not at.covers(*ident) for ident in live)
        assert unread <= remaining(at, sources) <= left
    assert at.done and sorted(read) == live and remaining(at, sources) == 0


@given(files, st.integers(1, 5))
def test_remaining_counts_each_row_once(contents, size):
    sources = [file(keys, size) for keys in contents]
    total = sum(map(len, contents))
    assert remaining(Positions.start(6), sources) == total
    half = Positions((None, b"\x40", DONE, b"\x80", None, b""))
    assert remaining(half, sources) <= total
    every_second = Positions((DONE, None) * 3)
    expected = sum(
        rows for groups in sources for low, high, rows in groups if any(v % 2 for v in range(low[1], high[1] + 1))
    )
    assert remaining(every_second, sources) == expected


def test_remaining_of_many_groups_is_sampled():
    groups = [group((0, n.to_bytes(2, "big")), (0, n.to_bytes(2, "big") + b"z"), 100) for n in range(1000)]
    groups[-1] = (*groups[-1][:2], 3)
    assert abs(remaining(Positions.start(1), [groups]) - 99_903) <= 100


def test_a_long_gap_of_deletions_is_crossed():
    """The reader finds nothing in a group of retractions; the position moves all the same, and faster and faster."""
    gap = file([(0, n.to_bytes(2, "big")) for n in range(1000)], 10)
    for patient, chunks in ((True, 100), (False, 7)):
        at, landed, reach = Positions.start(1), 0, Reach()
        while not at.done:
            chunk = next_chunk(at, range(1), [gap], 1, reach=0 if patient else reach.rows)
            at = at.advance(chunk)
            reach.landed(live=0, stored=chunk.rows)
            landed += 1
        assert landed == chunks


def test_reach_does_not_read_more_rows_than_the_budget():
    """Far behind the gap there are live rows again: the reader stops at the budget."""
    sources = [file([(0, n.to_bytes(2, "big")) for n in range(1000)], 10)]
    chunk = next_chunk(Positions.start(1), range(1), sources, 3, reach=500)
    assert (chunk.upto, chunk.rows, chunk.limit) == ((499).to_bytes(2, "big"), 500, 3)
