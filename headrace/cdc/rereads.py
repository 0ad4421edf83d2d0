"""Rows that the log changes, of which it leaves values out that nobody has here: they are read once more.

A log may leave out what an update does not touch (UNCHANGED). Usually the row is stored, and has it. It is not if the
row was moved by the update to a key that has been read from one that has not, or if the table began without a snapshot.
What a SELECT shows now may be newer than the change. So the log is first taken up to where the SELECT was, all in one
commit; then, for these keys, what the SELECT shows stands for all changes that it has seen, and the others follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.cdc.changelog import Change, Key, Truncate, Value
from headrace.cdc.intake import BELOW, Numbered


@dataclass(frozen=True, kw_only=True)
class Reread:
    rows: Mapping[Key, tuple[Value, ...] | None]
    """What was asked for: the row, or that there is none"""
    sees: Callable[[Any], bool]
    """Whether it shows a transaction"""
    high: int
    """Whatever it shows was committed before this position of the log"""


def moved_from(changes: Iterable[Numbered], keys: Iterable[Key]) -> set[Key]:
    """The keys, and those that their rows were moved to: who takes changes of one away takes them from all."""
    found = set(keys)
    for _, change in changes:
        if isinstance(change, Change) and change.origin in found:
            found.add(change.key)
    return found


def substituted(changes: Sequence[Numbered], places: Sequence[int], reread: Reread) -> tuple[list[Numbered], list[int]]:
    """The changes with what was read in place of those that it shows, and where all of them lie.

    Of one key, all that is seen comes before all that is not, because the database lets nobody change a row before who
    changed it last can be seen. So the rows come first; but behind a TRUNCATE, if they are of after it.
    """
    below = {
        change.key
        for (_, change), place in zip(changes, places, strict=True)
        if place == BELOW and isinstance(change, Change) and change.key in reread.rows
    }
    kept: list[tuple[Numbered, int]] = []
    at, label = 0, changes[0][0] if changes else None
    for numbered, place in zip(changes, places, strict=True):
        transaction, change = numbered
        seen = reread.sees(transaction)
        if isinstance(change, Change) and change.key in below and seen:
            continue
        kept.append((numbered, place))
        if isinstance(change, Truncate) and seen:
            at = len(kept)
    rows = [((label, Change(key=key, values=reread.rows[key])), BELOW) for key in sorted(below)]
    kept[at:at] = rows
    return [numbered for numbered, _ in kept], [place for _, place in kept]
