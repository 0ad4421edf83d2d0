"""From history to the shared stream: which offsets a view reads itself, and which come to it.

A source consists of *splits* (the partitions of a topic, say), each of which is a sequence of offsets. One reader takes
all of them for all views, a bounded part in each epoch; how far it is, its :class:`Stream`, is committed with the rows.
A view is created at a barrier. From there on whatever the stream takes is the view's, too; what the stream had taken
before is the view's history, a fixed range of each split that the view reads for itself, beside the epochs:

    offset      0 1 2 3 4 5 6 7 8 9
    history     |-read-|-unread-|            at = 4, until = 7: fixed when the view was created
    stream                      |-taken-|    what the stream has taken since

No offset is on both sides, and none on neither: a range ends where the other begins, and ``until`` itself belongs to
the stream. Nobody has to catch up with anybody, so a view is complete however fast the source grows and however slowly
it is filled.

>>> stream = Stream(next={0: 7})
>>> view = Handover.begin({0: 0}, stream)
>>> view.open_ranges()
[Range(split=0, start=0, end=7)]
>>> view = view.landed(Range(split=0, start=0, end=4))
>>> view.done, view.read, view.total
(False, 4, 7)
>>> stream = stream.took(Range(split=0, start=7, end=9))
>>> view.landed(Range(split=0, start=4, end=7)).done
True

Offsets that nobody can read any more, because the source has removed them, are a :class:`Gap`; offsets that no event
has (a compacted topic, the marks of transactions) are nothing special: a range that has been read is read, whatever was
in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import HeadraceError


@dataclass(frozen=True, order=True)
class Range:
    """Offsets of a split, without the end."""

    split: int
    start: int
    end: int

    def __repr__(self) -> str:
        return f"Range(split={self.split}, start={self.start}, end={self.end})"

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Extent:
    """What a source has of a split now."""

    begin: int
    """What lies before was removed."""
    end: int
    """The offset that comes next."""


@dataclass(frozen=True)
class Gap:
    """Offsets that were removed before they were read."""

    split: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.size} offsets of partition {self.split} ({self.start} to {self.end - 1})"


class OutOfPlace(HeadraceError):
    """A range does not continue where its reader is: it was read for a state that is not the present one."""


@dataclass(frozen=True, kw_only=True)
class Stream:
    """How far the shared reader is: by split, the offset that it takes next."""

    next: Mapping[int, int] = field(default_factory=dict)

    def took(self, *ranges: Range) -> Stream:
        after = dict(self.next)
        for each in ranges:
            if after.get(each.split) != each.start or each.end < each.start:
                raise OutOfPlace(f"{each} does not continue the stream, which is at {after.get(each.split)}")
            after[each.split] = each.end
        return Stream(next=after)

    def meets(self, begins: Mapping[int, int]) -> Stream:
        """With splits that were not there before. All of what is in them comes to all views by the stream."""
        new = {split: begin for split, begin in begins.items() if split not in self.next}
        return Stream(next={**self.next, **new}) if new else self

    def ahead(self, extents: Mapping[int, Extent]) -> list[Range]:
        """What can be taken now."""
        return [
            Range(split, at, extents[split].end)
            for split, at in sorted(self.next.items())
            if split in extents and extents[split].end > at
        ]

    def skip(self, extents: Mapping[int, Extent]) -> tuple[Stream, list[Gap]]:
        """Past what was removed before it was taken."""
        gaps = gaps_before(self.next, extents)
        after = {**self.next, **{gap.split: gap.end for gap in gaps}}
        return (Stream(next=after), gaps) if gaps else (self, [])

    def behind(self, extents: Mapping[int, Extent]) -> int:
        """Offsets that are there and not taken."""
        return sum(each.size for each in self.ahead(extents))


CUT_BACK_SECONDS = 30
"""For so long a broker that was started just now may know of less than has been taken"""


@dataclass
class CutBack:
    """Notices splits that end before what was taken of them: other events get the offsets of those that were lost.

    >>> cut, stream, extents = CutBack(), Stream(next={0: 9}), {0: Extent(0, 7)}
    >>> [len(cut.lasting(stream, extents, now=now)) for now in (0, 29, 30, 31)]
    [0, 0, 1, 1]
    """

    _since: dict[int, float] = field(default_factory=dict)
    _told: set[int] = field(default_factory=set)

    def lasting(self, stream: Stream, extents: Mapping[int, Extent], *, now: float) -> list[tuple[str, bool]]:
        """What is to be said of them, and whether it is for the first time."""
        short = {split: at for split, at in stream.next.items() if split in extents and extents[split].end < at}
        self._since = {split: self._since.get(split, now) for split in short}
        self._told &= short.keys()
        found = []
        for split, at in sorted(short.items()):
            if now - self._since[split] >= CUT_BACK_SECONDS:
                text = (
                    f"partition {split} ends at offset {extents[split].end}, and was read up to {at}: it was cut back,"
                    " and what comes to it before it is as long again is not read"
                )
                found.append((text, split not in self._told))
                self._told.add(split)
        return found


@dataclass(frozen=True)
class Stage:
    """One split of a view's history: from ``at`` on it is unread; ``until`` is where the stream begins."""

    start: int
    at: int
    until: int
    lost: int = 0

    @property
    def done(self) -> bool:
        return self.at >= self.until


@dataclass(frozen=True, kw_only=True)
class Handover:
    """What a view still has to read for itself. Durable: it is committed with the rows that it speaks of."""

    stages: Mapping[int, Stage] = field(default_factory=dict)

    @staticmethod
    def begin(starts: Mapping[int, int], stream: Stream) -> Handover:
        """At the barrier where the view is created. ``starts``: where its history begins, by split."""
        stages = {}
        for split, until in stream.next.items():
            start = min(starts.get(split, until), until)
            stages[split] = Stage(start, start, until)
        return Handover(stages=stages)

    @property
    def done(self) -> bool:
        return all(stage.done for stage in self.stages.values())

    @property
    def read(self) -> int:
        return sum(stage.at - stage.start for stage in self.stages.values())

    @property
    def total(self) -> int:
        return sum(stage.until - stage.start for stage in self.stages.values())

    @property
    def lost(self) -> int:
        return sum(stage.lost for stage in self.stages.values())

    def open_ranges(self) -> list[Range]:
        return [Range(split, stage.at, stage.until) for split, stage in sorted(self.stages.items()) if not stage.done]

    def landed(self, *ranges: Range) -> Handover:
        """With ranges that have been read; each continues where its split is, in the order given."""
        stages = dict(self.stages)
        for each in ranges:
            stage = stages.get(each.split)
            if stage is None or stage.at != each.start or not each.start <= each.end <= stage.until:
                raise OutOfPlace(f"{each} does not continue the history, which is at {stage}")
            stages[each.split] = dataclasses.replace(stage, at=each.end)
        return Handover(stages=stages)

    def skip(self, extents: Mapping[int, Extent]) -> tuple[Handover, list[Gap]]:
        """Past what was removed before it was read; never past ``until``, which is the stream's to notice."""
        stages, gaps = dict(self.stages), []
        for split, stage in self.stages.items():
            begin = min(extents[split].begin, stage.until) if split in extents else stage.at
            if not stage.done and begin > stage.at:
                gaps.append(Gap(split, stage.at, begin))
                stages[split] = dataclasses.replace(stage, at=begin, lost=stage.lost + begin - stage.at)
        return (Handover(stages=stages), gaps) if gaps else (self, [])

    def to_json(self) -> dict[str, Any]:
        return {str(split): list(dataclasses.astuple(stage)) for split, stage in self.stages.items()}

    @staticmethod
    def from_json(data: Mapping[str, Sequence[int]]) -> Handover:
        return Handover(stages={int(split): Stage(*stage) for split, stage in data.items()})


def gaps_before(positions: Mapping[int, int], extents: Mapping[int, Extent]) -> list[Gap]:
    return [
        Gap(split, at, extents[split].begin)
        for split, at in sorted(positions.items())
        if split in extents and extents[split].begin > at
    ]


def bounded(ranges: Iterable[Range], budget: int) -> list[Range]:
    """The beginnings of ranges, together at most ``budget`` offsets, shared out evenly.

    What one does not need, the others get. There is always at least one offset, if there is one at all.

    >>> bounded([Range(0, 0, 100), Range(1, 5, 8), Range(2, 0, 100)], 43)
    [Range(split=0, start=0, end=20), Range(split=1, start=5, end=8), Range(split=2, start=0, end=20)]
    """
    wanted = sorted(ranges, key=lambda each: each.size)
    left, cut = max(1, budget), []
    for number, each in enumerate(wanted):
        share = -(-left // (len(wanted) - number)) if left else 0
        taken = min(each.size, share)
        left -= taken
        if taken:
            cut.append(Range(each.split, each.start, each.start + taken))
    return sorted(cut)


def pieces(ranges: Iterable[Range], size: int) -> list[Range]:
    """Ranges of at most that many offsets, for as many tasks.

    >>> pieces([Range(0, 0, 5), Range(1, 7, 8)], 3)
    [Range(split=0, start=0, end=3), Range(split=0, start=3, end=5), Range(split=1, start=7, end=8)]
    """
    return [
        Range(each.split, start, min(start + size, each.end))
        for each in ranges
        for start in range(each.start, each.end, max(1, size))
    ]
