"""Which parts of which files there are to be read: what a listing shows, compared with what has been seen before.

A source of files is a log of *pieces*: so many bytes of whole lines, or so many rows, of one file. Who lists a folder
appends the pieces that are new. The number of a piece never changes, so all that is to be known about a reader, however
many files there are, is how many pieces it has read: the log is the list of (file, offset) that a view has to read.

>>> found = Found(path="a.csv", size=9, mtime=1.0)
>>> new, notes = Listing(lines=True).compare([found], {}, lambda found, before: Measured(end=found.size))
>>> new
[Piece(path='a.csv', start=0, end=9, size=9, mtime=1.0, rows=1)]
>>> Listing(lines=True).compare([found], {"a.csv": new[-1].seen}, lambda found, before: Measured(end=found.size))
([], [])

What has been read of a file that is then replaced stays, and the file is left alone from then on: what is in it may be
the same again. Only files of lines can grow.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

PIECE_BYTES = 8 << 20
PIECE_ROWS = 1 << 17
BYTES_PER_LINE = 100
"""A guess, to share out work by"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Found:
    path: str
    size: int
    mtime: float
    """Seconds since 1970"""

    @property
    def mark(self) -> int:
        """Another one, if it has been written to; never 0."""
        return hash((self.size, self.mtime)) or 1


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How far a file can be read now."""

    end: int
    """In bytes or rows; what lies behind it is not complete yet"""
    begins_with: str = ""
    """A digest, of files of lines, of what stays when they grow (its first bytes, and the last ones before the end); of
    Parquet, of the footer"""
    rewritten: bool = False
    """Whether it does not begin as it did"""
    bad: str | None = None
    """Why it cannot be read at all"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    path: str
    start: int
    end: int
    size: int
    """Of the file, when it was seen"""
    mtime: float
    rows: int
    """About"""
    begins_with: str = ""
    bad: str | None = None

    @property
    def packed(self) -> list[Any]:
        return [getattr(self, each.name) for each in dataclasses.fields(self)]

    @staticmethod
    def unpacked(entry: list[Any]) -> Piece:
        return Piece(**dict(zip(_FIELDS, entry, strict=True)))

    @property
    def seen(self) -> Seen:
        """What is known of a file of which this is the last piece."""
        return Seen(end=self.end, size=self.size, mtime=self.mtime, begins_with=self.begins_with)

    def __repr__(self) -> str:
        return (
            f"Piece(path={self.path!r}, start={self.start}, end={self.end}, size={self.size}, mtime={self.mtime},"
            f" rows={self.rows})"
        )


_FIELDS = tuple(each.name for each in dataclasses.fields(Piece))


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """What is known of a file."""

    end: int
    size: int
    mtime: float
    begins_with: str = ""


Measure = Callable[[Found, Seen | None], Measured | None]
"""Looks into a file, of which something may have been read: how far it goes; None if it is not complete yet."""


Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, kw_only=True)
class Listing:
    lines: bool
    """Files of lines can grow."""

    def compare(
        self, found: Sequence[Found], known: Mapping[str, Seen], measure: Measure, *, all_of: Map = map
    ) -> tuple[list[Piece], list[tuple[Found, str]]]:
        """The pieces that are new, oldest file first, and what somebody should hear about files that are left alone.

        ``all_of`` may have several files measured at the same time.
        """
        pieces: list[Piece] = []
        notes: list[tuple[Found, str]] = []
        wanted: list[tuple[Found, Seen | None]] = []
        for each in sorted(found, key=lambda file: (file.mtime, file.path)):
            before = known.get(each.path)
            if before is None or (self.lines and each.size > before.end):
                wanted.append((each, before))
            elif self.lines and each.size == before.end and each.mtime != before.mtime:
                wanted.append((each, before))  # written to, and as long as before
            elif self.lines and each.size < before.end:
                notes.append((each, f"{each.path} has become shorter than what was read of it: it is left alone"))
            elif not self.lines and (each.size, each.mtime) != (before.size, before.mtime):
                notes.append((each, _written_anew(each)))
        measured_all = all_of(lambda asked: measure(*asked), wanted)
        for (each, before), measured in zip(wanted, measured_all, strict=True):
            if measured is None:
                continue
            if before is not None and measured.rewritten:
                notes.append((each, _written_anew(each)))
            elif before is None or measured.end > before.end:
                pieces += self._cut(each, 0 if before is None else before.end, measured)
            elif each.size == before.end:
                # Its beginning and its end are the same. What lies between would have to be read, all of it, to tell.
                notes.append((each, f"{each.path} was written to after it was read: what was read of it stays"))
        return pieces, notes

    def _cut(self, file: Found, start: int, measured: Measured) -> list[Piece]:
        def piece(first: int, last: int) -> Piece:
            rows = -(-(last - first) // BYTES_PER_LINE) if self.lines else last - first
            return Piece(
                path=file.path, start=first, end=last, size=file.size, mtime=file.mtime, rows=rows,
                begins_with=measured.begins_with, bad=measured.bad,
            )  # fmt: skip

        if measured.end == start:
            # It is known, and nothing is in it: of one that is not for lines nothing will ever be.
            return [] if self.lines and measured.bad is None else [piece(start, start)]
        size = PIECE_BYTES if self.lines else PIECE_ROWS
        return [piece(at, min(at + size, measured.end)) for at in range(start, measured.end, size)]


def _written_anew(file: Found) -> str:
    return f"{file.path} was written anew after it was read: it is left alone"
