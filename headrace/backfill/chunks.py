"""Which chunk to read next, from nothing but the bounds of row groups.

A row group's bounds say where some thousand rows end, so a chunk of about ``budget`` rows can be fixed on the driver
before anything is read. Files overlap (a base run and the changes above it), so the groups of all files are merged by
their high bounds: a chunk that ends at one of them holds every group taken so far whole.

>>> from headrace.backfill.positions import encoded
>>> base = [(encoded(0, b"a"), encoded(0, b"f"), 10), (encoded(0, b"g"), encoded(2, b"c"), 10)]
>>> changes = [(encoded(0, b"b"), encoded(0, b"c"), 3)]
>>> chunk = next_chunk(Positions.start(4), range(4), [base, changes], budget=15)
>>> str(chunk), chunk.rows
('chunk (0 … 0:66]', 13)

Where the bounds show that a vnode holds nothing more, it ends, and empty vnodes behind it go with it:

>>> str(next_chunk(Positions.start(4).advance(chunk), range(4), [base, changes], budget=15))
'chunk (0:66 … 3]'

Row counts are of stored rows. A chunk of rows that are all deleted is read and lands as an empty one: the position
moves in a gap of deletions too.
"""

from __future__ import annotations

import dataclasses
import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter

from headrace.backfill.positions import DONE, Chunk, Positions, split
from headrace.errors import HeadraceError

Group = tuple[bytes, bytes, int]
"""(low, high, rows) of a row group; the bounds are encoded with the vnode and inclusive."""

EXACT = 4096
"""Groups that reach beyond a chunk's end hold an unknown part of their rows before it. A large chunk may get twice too
large before the reader has to count its rows, which costs a sort; up to this budget, about a row group, it is meant as
it was said."""

_SAMPLE = 64
_high = itemgetter(1)
_low = itemgetter(0)


def next_chunk(
    positions: Positions, vnodes: range, sources: Sequence[Sequence[Group]], budget: int, *, reach: int = 0
) -> Chunk | None:
    """The next chunk of these vnodes, or None if all are done. ``sources``: each file's groups, sorted.

    One contiguous range: it goes on into the following vnodes only while they are not started (after a rescale they
    may be anywhere). Only as many groups are looked at as the budget needs. ``reach``: so many stored rows may be
    looked through for ``budget`` live ones, see :class:`headrace.backfill.pacing.Reach`.
    """
    if budget < 1:
        raise HeadraceError(f"a chunk of {budget} rows would make no progress")
    first = next((vnode for vnode in vnodes if positions.of(vnode) is not DONE), None)
    if first is None:
        return None
    last = first
    while last + 1 in vnodes and positions.of(last + 1) is None:
        last += 1
    rest = Chunk(first_vnode=first, after=positions.of(first), last_vnode=last, upto=None, rows=0)
    heads = _heads(rest, sources)

    rows, end = 0, None
    oversized = bool(heads) and heads[0][3] > budget
    # A group that ends where the last one did is in the chunk anyway.
    while heads and (end is None or heads[0][0] == end or rows + heads[0][3] <= max(budget, reach)):
        end, source, at, count = heads[0]
        rows += count
        groups = sources[source]
        if at + 1 < len(groups) and groups[at + 1][0] < rest.high:
            heapq.heapreplace(heads, _head(rest, groups, source, at + 1))
        else:
            heapq.heappop(heads)

    upto, possible = None, rows
    if heads:
        # What the files hold behind the end decides whether its vnode ends there too, and empty ones with it.
        lows = [sources[source][at][0] for _, source, at, _ in heads]
        possible += sum(head[3] for head, low in zip(heads, lows, strict=True) if low < end)
        last, upto = split(end)
        beyond, _ = split(min(lows))
        if beyond > last:
            last, upto = beyond - 1, None
    limit = budget if oversized or possible > budget * (1 if budget <= EXACT else 2) else None
    return dataclasses.replace(rest, last_vnode=last, upto=upto, rows=rows, limit=limit)


_Head = tuple[bytes, int, int, int]
"""(high, source, number of the group, rows)"""


def _heads(rest: Chunk, sources: Sequence[Sequence[Group]]) -> list[_Head]:
    """The first group of each file that may hold a row of the range."""
    heads = []
    for number, groups in enumerate(sources):
        if not groups or not rest.overlaps(groups[0][0], groups[-1][1]):
            continue
        at = _first_beyond(rest, groups)
        if groups[at][0] < rest.high:
            heads.append(_head(rest, groups, number, at))
    heapq.heapify(heads)
    return heads


def _first_beyond(rest: Chunk, groups: Sequence[Group], start: int = 0) -> int:
    bisect = bisect_left if rest.after is None else bisect_right
    return bisect(groups, rest.low, start, key=_high)


def _head(rest: Chunk, groups: Sequence[Group], source: int, at: int) -> _Head:
    """What reaches into the next partition ends, for this one, where the range does."""
    _, high, rows = groups[at]
    return min(high, rest.high), source, at, rows


# --- progress ---------------------------------------------------------------------------------------------------


def remaining(positions: Positions, sources: Iterable[Sequence[Group]]) -> int:
    """About how many stored rows lie beyond the positions: rather too many, by the groups that are partly read.

    >>> from headrace.backfill.positions import encoded
    >>> base = [(encoded(0, b"a"), encoded(0, b"f"), 10), (encoded(0, b"g"), encoded(2, b"c"), 10)]
    >>> remaining(Positions.start(4), [base]), remaining(Positions((b"f", None, None, None)), [base])
    (20, 10)
    """
    stretches = list(_open(positions))
    ends = [stretch.high for stretch in stretches]
    rows = 0
    for groups in sources:
        if not groups:
            continue
        counted = 0
        for number in range(bisect_right(ends, groups[0][0]), len(stretches)):
            stretch = stretches[number]
            if counted == len(groups) or stretch.low > groups[-1][1]:
                break
            start = _first_beyond(stretch, groups, counted)
            stop = bisect_left(groups, stretch.high, start, key=_low)
            rows += _rows(groups, start, stop)
            counted = stop  # a group that reaches into the next stretch counts once
    return rows


def _open(positions: Positions) -> Iterable[Chunk]:
    """What has not been read, as contiguous ranges."""
    first = None
    for vnode, position in enumerate(positions.vnodes):
        if first is not None and position is not None:
            yield Chunk(first_vnode=first, after=positions.of(first), last_vnode=vnode - 1, upto=None, rows=0)
            first = None
        if first is None and position is not DONE:
            first = vnode
    if first is not None:
        last = len(positions.vnodes) - 1
        yield Chunk(first_vnode=first, after=positions.of(first), last_vnode=last, upto=None, rows=0)


def _rows(groups: Sequence[Group], start: int, stop: int) -> int:
    """The groups of a file are about equal, so a sample of them stands for many."""
    count = stop - start
    if count <= _SAMPLE:
        return sum(groups[number][2] for number in range(start, stop))
    sampled = sum(groups[start + number * count // _SAMPLE][2] for number in range(_SAMPLE))
    return sampled * count // _SAMPLE
