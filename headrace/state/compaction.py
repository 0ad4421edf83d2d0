"""Which runs to merge next. Pure: it looks at sizes, epochs and bounds only.

A read looks into every run whose bounds hold the key, so runs must stay few; a merge rewrites its inputs, so rows must
not be merged often. Size tiers balance the two: with a fanout of 8, eight runs of about 1,000 rows become one of 8,000,
eight of those one of 64,000, and so on: at most 7 runs per tier are waiting, and a row is rewritten once per tier.

Rules beyond that:

* Merged runs are neighbours in epoch order, without a gap, because merging drops the versions between a key's oldest
  and newest; so the epochs of two runs never interleave.
* A small run older than a large one counts to the large one's tier (:func:`_tiers`), so that the runs of a tier are
  neighbours. If most of such a window is small, only the small neighbours in it are merged.
* The oldest run, often by far the largest, is rewritten only when the rest has grown to a quarter of it.
* When more than 30 % of all rows retract others, everything is merged: it is the retractions, and what they kill, that
  reads pay for.
* Where merging also leaves out rows that nobody needs any more (closed windows), everything is merged as soon as the
  rest has grown to the size of the oldest run: so what is stored is at most about twice what was needed then.
* A run whose own files overlap as much as a tier of runs would (an index that was filled in the order of its table) is
  merged with itself.
* The oldest runs are left alone while their files are large and no other run reaches into their key range: merging
  would gain nothing. So rows that only ever arrive with growing keys are not rewritten again and again.

>>> from headrace.state.runs import RunFile
>>> def run(n): return Run(id=f"r{n}", first_epoch=n, last_epoch=n,
...     files=(RunFile(path=f"r{n}", rows=1000, bytes=9000, low=b"a", high=b"z"),))
>>> choose([run(n) for n in range(7)]) is None
True
>>> len(choose([run(n) for n in range(8)]).inputs)
8
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.state.runs import Run

SMALL_ROWS = 8_000
"""Runs of fewer rows are of tier 0."""
SMALL_FILE = 16 << 20
"""Files below so many bytes are worth merging even if nothing overlaps them."""
BOTTOM_SHARE = 0.25
RETRACTED_SHARE = 0.30


@dataclass(frozen=True, kw_only=True)
class Choice:
    inputs: tuple[str, ...]
    """Ids of runs, oldest first."""
    level: int
    bottom: bool
    """Nothing older may hold a key of the inputs, so that the merge needs to keep no retraction."""


def choose(runs: Sequence[Run], *, fanout: int = 8, shrinks: bool = False) -> Choice | None:
    """What to merge now, or None if all is well. Ask again after each merge.

    ``shrinks``: merging all of them leaves rows out.
    """
    ordered = sorted(runs, key=lambda run: (run.first_epoch, run.last_epoch))
    for number, run in enumerate(ordered):
        if run.depth >= fanout:
            return Choice(inputs=(run.id,), level=max(1, tier(run.rows, fanout)), bottom=number == 0)
    active = ordered if shrinks else ordered[_settled(ordered) :]
    if len(active) < 2:
        return None
    rows = [run.rows for run in active]
    grown = shrinks and len(active) >= fanout and sum(rows[1:]) >= rows[0]
    window = (0, len(active)) if grown else _retracted(active, rows, fanout) or _tiered(rows, fanout)
    if window is None:
        return None
    start, stop = window
    inputs = active[start:stop]
    return Choice(
        inputs=tuple(run.id for run in inputs),
        level=max(1, tier(sum(rows[start:stop]), fanout)),
        bottom=start == 0,
    )


def whole(runs: Sequence[Run]) -> Choice | None:
    """Everything into one run: what COMPACT asks for."""
    if len(runs) < 2 and not any(run.retractions or run.depth > 1 for run in runs):
        return None
    ordered = sorted(runs, key=lambda run: (run.first_epoch, run.last_epoch))
    return Choice(
        inputs=tuple(run.id for run in ordered), level=max(1, tier(sum(run.rows for run in runs))), bottom=True
    )


def tier(rows: int, fanout: int = 8) -> int:
    """How often ``SMALL_ROWS`` must grow by the fanout to exceed the rows."""
    result, limit = 0, SMALL_ROWS
    while rows >= limit:
        result, limit = result + 1, limit * fanout
    return result


def _settled(ordered: list[Run]) -> int:
    """How many of the oldest runs need no merging: large files, no retractions, no other run in their key range."""
    lonely = _lonely(ordered)
    for number, run in enumerate(ordered):
        if run.id not in lonely or run.retractions or _has_small_files(run):
            return number
    return len(ordered)


def _lonely(runs: list[Run]) -> set[str]:
    """Runs whose bounds no other run's bounds touch: in order of the lower bound, neighbours tell."""
    by_low = sorted((run for run in runs if run.files), key=lambda run: run.low)
    lonely = set()
    reach: bytes | None = None
    for number, run in enumerate(by_low):
        low, high = run.low, run.high
        free_before = reach is None or reach < low
        free_after = number + 1 == len(by_low) or high < by_low[number + 1].low
        if free_before and free_after:
            lonely.add(run.id)
        reach = high if reach is None else max(reach, high)
    return lonely


def _has_small_files(run: Run) -> bool:
    return run.bytes < SMALL_FILE * max(1, len(run.files))


def _retracted(active: list[Run], rows: list[int], fanout: int) -> tuple[int, int] | None:
    if len(active) < max(2, fanout // 2):  # a merge per epoch would cost more jobs than it saves reads
        return None
    overlay = sum(rows[1:])
    retractions = sum(run.retractions for run in active)
    if retractions > RETRACTED_SHARE * sum(rows) and overlay >= BOTTOM_SHARE * rows[0]:
        return 0, len(active)
    return None


def _tiered(rows: list[int], fanout: int) -> tuple[int, int] | None:
    own = [tier(each, fanout) for each in rows]
    effective = _tiers(own)
    stop = len(rows)
    while stop > 0:  # newest, and so smallest, tier first
        level = effective[stop - 1]
        start = effective.index(level)
        if stop - start >= fanout:
            return _window(rows, own, start, stop, fanout)
        stop = start
    return None


def _tiers(own: list[int]) -> list[int]:
    """The largest tier of a run and all newer ones: it never grows from old to new."""
    effective = list(own)
    for number in range(len(own) - 2, -1, -1):
        effective[number] = max(own[number], effective[number + 1])
    return effective


def _window(rows: list[int], own: list[int], start: int, stop: int, fanout: int) -> tuple[int, int]:
    level = max(own[start:stop])
    large = sum(each == level for each in own[start:stop])
    if 2 * large < stop - start and (between := _longest_below(own, start, stop, level)) is not None:
        return between
    # The oldest of all may be at the very end of its tier; the others alone are enough of a merge then.
    if start == 0 and sum(rows[1:stop]) < BOTTOM_SHARE * rows[0] and stop > 2:
        return 1, stop
    return start, stop


def _longest_below(own: list[int], start: int, stop: int, level: int) -> tuple[int, int] | None:
    """The longest stretch of two or more neighbours below a tier."""
    best, begin = None, start
    for number in range(start, stop + 1):
        if number == stop or own[number] >= level:
            if number - begin >= 2 and (best is None or number - begin > best[1] - best[0]):
                best = (begin, number)
            begin = number + 1
    return best
