"""The log of a source of files, of which little is in memory, and what is known of each file, in a few bytes.

A folder can get files for years. Their pieces are in the warehouse, in segments; those that are being read are kept
here, and the others are read again when somebody wants them: a view that begins with the first. To tell which files of
a list are new, all that have ever been seen must be at hand: 32 bytes of each.

>>> known = KnownFiles()
>>> known.put(["a.csv", "b.csv"], numbers=[0, 1], marks=[7, 8])
>>> [found.tolist() for found in known.find(["b.csv", "c.csv"])]
[[1, -1], [8, 0]]
"""

from __future__ import annotations

import bisect
import hashlib
import itertools
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence

import numpy as np

from headrace.sources.connector import Segment, Segments
from headrace.sources.listing import Piece

KEPT_PIECES = 1 << 16
"""Of the log, in memory; those of the segment that is being read are there in any case"""

RECENT = 1 << 16
"""Files that were seen since the others were put in order"""


class PieceLog:
    """All pieces, by their numbers. Several threads may read it, while one appends."""

    def __init__(self, segments: Segments):
        self._segments = segments
        self._lock = threading.RLock()
        self._kept: OrderedDict[str, tuple[list[Piece], list[int]]] = OrderedDict()
        """By the path of a segment: its pieces, and how many rows they have up to and with each"""
        self._refresh()

    def _refresh(self) -> None:
        parts: Sequence[Segment] = self._segments.parts()
        with self._lock:
            self._parts = parts
            self._starts = [0, *itertools.accumulate(part.entries for part in parts)]
            self._rows = [0, *itertools.accumulate(part.weight for part in parts)]

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, number: int) -> Piece:
        with self._lock:
            at, (pieces, _) = self._segment_of(number)
            return pieces[number - self._starts[at]]

    def __iter__(self) -> Iterator[Piece]:
        for number in range(len(self)):
            yield self[number]

    def append(self, pieces: Sequence[Piece]) -> None:
        """Durable when it returns. Not under the lock: it waits for a commit."""
        self._segments.append([piece.packed for piece in pieces], weight=sum(piece.rows for piece in pieces))
        self._refresh()

    def rows_before(self, number: int) -> int:
        """Of all pieces before this one."""
        with self._lock:
            if number == len(self):
                return self._rows[-1]
            at, (_, sums) = self._segment_of(number)
            inside = number - self._starts[at]
            return self._rows[at] + (sums[inside - 1] if inside else 0)

    def last_within(self, rows: int, start: int, end: int) -> int:
        """The end of the longest range from ``start`` on, to ``end`` at most, that has no more than so many rows."""
        with self._lock:
            most = self.rows_before(start) + rows
            at = max(bisect.bisect_right(self._rows, most) - 1, 0)  # segments up to this one fit
            if at >= len(self._parts) or self._starts[at] >= end:
                return end
            first, (_, sums) = self._segment_of(max(self._starts[at], start))
            inside = bisect.bisect_right(sums, most - self._rows[first])
            return min(max(self._starts[first] + inside, start), end)

    def _segment_of(self, number: int) -> tuple[int, tuple[list[Piece], list[int]]]:
        at = bisect.bisect_right(self._starts, number) - 1
        path = self._parts[at].path
        if path not in self._kept:
            try:
                entries = self._segments.read(self._parts[at])
            except FileNotFoundError:  # it has become a part of a larger one meanwhile
                self._refresh()
                at = bisect.bisect_right(self._starts, number) - 1
                path = self._parts[at].path
                entries = self._segments.read(self._parts[at])
            pieces = [Piece.unpacked(entry) for entry in entries]
            self._kept[path] = (pieces, list(itertools.accumulate(piece.rows for piece in pieces)))
        self._kept.move_to_end(path)
        while len(self._kept) > 1 and sum(len(pieces) for pieces, _ in self._kept.values()) > KEPT_PIECES:
            self._kept.popitem(last=False)
        return at, self._kept[path]


class KnownFiles:
    """Of each file, by its path: the number of its last piece, and a mark of how it was then.

    Paths are digests of 128 bits: that two files have the same is less likely than that the machine errs.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._paths = np.empty(0, "S16")
        self._numbers, self._marks = np.empty(0, np.int64), np.empty(0, np.int64)
        self._recent: dict[bytes, tuple[int, int]] = {}

    def find(self, paths: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Numbers and marks; -1 and 0 if a file is not known."""
        digests = [_digest(path) for path in paths]
        with self._lock:
            wanted = np.array(digests, "S16")
            numbers, marks = np.full(len(paths), -1, np.int64), np.zeros(len(paths), np.int64)
            if len(self._paths) and len(paths):
                at = np.minimum(np.searchsorted(self._paths, wanted), len(self._paths) - 1)
                there = self._paths[at] == wanted
                numbers[there], marks[there] = self._numbers[at[there]], self._marks[at[there]]
            if self._recent:
                for place, digest in enumerate(digests):
                    if (found := self._recent.get(digest)) is not None:
                        numbers[place], marks[place] = found
        return numbers, marks

    def put(self, paths: Sequence[str], *, numbers: Sequence[int], marks: Sequence[int]) -> None:
        with self._lock:
            for path, number, mark in zip(paths, numbers, marks, strict=True):
                self._recent[_digest(path)] = (number, mark)
            if len(self._recent) >= RECENT:
                self._put_in_order()

    def _put_in_order(self) -> None:
        recent = sorted(self._recent.items())
        paths = np.array([path for path, _ in recent], "S16")
        numbers, marks = np.array([found for _, found in recent], np.int64).T
        at = np.searchsorted(self._paths, paths)
        there = np.zeros(len(paths), bool)
        inside = at < len(self._paths)
        there[inside] = self._paths[at[inside]] == paths[inside]
        self._numbers[at[there]], self._marks[at[there]] = numbers[there], marks[there]
        new, before = ~there, at[~there]
        self._paths = np.insert(self._paths, before, paths[new])
        self._numbers = np.insert(self._numbers, before, numbers[new])
        self._marks = np.insert(self._marks, before, marks[new])
        self._recent.clear()


def _digest(path: str) -> bytes:
    return hashlib.blake2b(path.encode(errors="surrogateescape"), digest_size=16).digest()
