"""What the engine needs of a connector: whoever writes one implements these, and nothing else.

A connector cuts its world into splits with growing offsets. Which offset an event has must never change: a range that
is read twice, by two views or after a crash, has the same events both times, except for those that were removed. The
end of a range is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from headrace.errors import DataError, HeadraceError
from headrace.sources.definition import Definition
from headrace.sources.handover import Extent, Range, bounded, pieces
from headrace.state.storage import Storage

TASK_OFFSETS = 1 << 17
"""What a task reads, and holds, at most"""


@dataclass(frozen=True, kw_only=True)
class BadRecord:
    """An event that is not what the source's columns say."""

    split: int
    offset: int
    reason: str
    raw: bytes | None = None


@dataclass(frozen=True, kw_only=True)
class Decoded:
    """Some events as rows, with the hidden columns, and those that could not be."""

    rows: pa.Table
    bad: tuple[BadRecord, ...] = ()
    lost: int = 0
    """Rows, about, that were removed before they were read"""


class BadEvent(DataError):
    """An event of a source whose bad records are errors"""


class Reader(Protocol):
    """Reads ranges, by executors: it pickles."""

    def read(self, task: Any) -> Iterator[Decoded]:
        """The events of a task of :meth:`Feed.tasks`, in the order of their offsets, in pieces of bounded size."""


class Segment(NamedTuple):
    path: str
    entries: int
    weight: int
    """Of all its entries, whatever that is to who writes them"""


class Segments(Protocol):
    """A log that grows in the warehouse, for connectors that have to remember what they have seen."""

    def parts(self) -> list[Segment]:
        """All of it, in order, as of the last commit. Small ones become one now and then; entries keep their order."""

    def read(self, part: Segment) -> list[Any]:
        """FileNotFoundError if it is a part of a larger one by now."""

    def append(self, entries: Sequence[Any], *, weight: int) -> None:
        """Durable, and committed, when it returns. Entries are JSON."""


@dataclass(frozen=True, kw_only=True)
class Outside:
    """What a connector may use."""

    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Their values, by option"""
    segments: Segments
    storage_at: Callable[[str, Mapping[str, str]], Storage]
    """Files in a folder, wherever that is; with settings of Hadoop's for it"""


@dataclass(kw_only=True)
class Feed:
    """One source, as the driver sees it. Used by one thread at a time."""

    definition: Definition
    reader: Reader

    @property
    def trouble(self) -> HeadraceError | None:
        """Why it is not known what is new, if that is asked by somebody else than :meth:`extents`. What is known can be
        read meanwhile."""
        return None

    def extents(self, *, fresh: bool = False) -> dict[int, Extent]:
        """What there is, by split. It may take a moment, and fail. ``fresh``: nothing of now may be missing."""
        raise NotImplementedError

    def extents_now(self, using: AbstractContextManager[Any]) -> dict[int, Extent]:
        """What there is, with nothing of now missing, for another thread than the one that uses it, which is kept from
        it by ``using``: no longer than it has to be."""
        with using:
            return self.extents(fresh=True)

    def portion(self, ranges: Sequence[Range], budget: int) -> list[Range]:
        """As much of the ranges as an epoch, or a chunk, should have; ``budget`` is in rows."""
        return bounded(ranges, budget)

    def tasks(self, ranges: Sequence[Range], parallelism: int) -> list[Any]:
        """The ranges in pieces of bounded size, for executors; each is given to :meth:`Reader.read`."""
        size = -(-sum(each.size for each in ranges) // max(1, parallelism))
        return list(pieces(ranges, max(1, min(size, TASK_OFFSETS))))

    def idle_tasks(self, next: Mapping[int, int]) -> list[Any]:
        """Tasks that read nothing, but leave whoever runs them connected, where that takes long."""
        return []

    def since(self, moment: datetime) -> dict[int, int] | None:
        """By split, an offset before which all events are older; None if nobody can tell."""
        return None

    def confirm(self) -> None:
        """Called between reading a range and committing its rows: raises if what was read may be of something else
        than what there was before."""

    def committed(self, next: Mapping[int, int]) -> None:
        """The stream's position is durable."""

    def rows(self, ranges: Sequence[Range]) -> int:
        """How many that are, about."""
        return sum(each.size for each in ranges)

    def close(self) -> None:
        """Lets go of connections and threads."""


@dataclass(frozen=True, kw_only=True)
class Resolved:
    """What was found out once, when the source was created. Durable."""

    starts: Mapping[int, int] = field(default_factory=dict)
    """Where views begin, by split"""
    known: Mapping[str, Any] = field(default_factory=dict)
    """The connector's own; JSON"""


@dataclass(frozen=True, kw_only=True)
class Connector:
    secrets: tuple[str, ...] = ()
    """What the options begin with that may be secrets"""
    check: Callable[[Definition], None]
    """Refuses what is wrong with the options, without asking anybody."""
    resolve: Callable[[Definition, Outside], Resolved]
    """Asks where to begin."""
    feed: Callable[[Definition, Resolved, Outside], Feed]
