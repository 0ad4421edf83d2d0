"""connector = 'file': the files of a folder, or those whose paths match a pattern.

There is one split, and its offsets are the numbers of pieces of files (:mod:`headrace.sources.listing`). A row is known
by the number of its piece and its place in the file. Lists are made by a thread of their own, and appended to a log in
the warehouse before anybody reads what is in them.
"""

from __future__ import annotations

import fnmatch
import logging
import os
import queue
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from headrace.errors import HeadraceError, InvalidDefinition, InvalidParameterValue
from headrace.sources import decoding
from headrace.sources.connector import TASK_OFFSETS, Connector, Feed, Outside, Resolved
from headrace.sources.definition import Definition, whole_number
from headrace.sources.file_reader import (
    TAIL,
    FileReader,
    Task,
    has_marks,
    is_broken,
    marks_of_lines,
    marks_of_parquet,
)
from headrace.sources.handover import Extent, Range
from headrace.sources.listing import Found, Listing, Map, Measured, Piece, Seen
from headrace.sources.pieces import KnownFiles, PieceLog
from headrace.state.storage import Storage, is_local, storage_error

log = logging.getLogger("headrace")

PATH, REFRESH, SETTLE = "path", "refresh.interval.seconds", "settle.seconds"
HADOOP = "hadoop."
"""What the options begin with that are settings of Hadoop's file systems: keys, endpoints"""
BLOCK = 16_384
PORTION_FILES = 2_000
"""Pieces of one epoch, or chunk, at most: opening a file costs more than what is in a small one"""

LIST_AT_A_TIME = 1_000
"""New files that are looked into before the first of them are read"""

LOOKERS = 16
"""Files of another machine that are looked into at the same time"""

LISTED_AHEAD = 4
"""… and how often that is done before the first of them are in the log"""


TOLD = 10_000
"""Warnings that are remembered, so as not to say them again"""

SEARCHED = 10_000
"""Files of which it is remembered that their last line has no end yet; of others it is looked for from the beginning"""


def check(definition: Definition) -> None:
    options = definition.option
    definition.check_options({PATH, REFRESH, SETTLE}, (HADOOP,))
    definition.check_include(("partition", "offset", "file"))
    if definition.encode == "parquet":
        if definition.format != "plain" or definition.encode_options:
            raise InvalidDefinition("files of Parquet are FORMAT PLAIN ENCODE PARQUET, without options")
    else:
        decoding.check(definition, ("parquet", "csv", "json"))
    if not options.get(PATH):
        raise InvalidParameterValue(f'option "{PATH}" is missing')
    whole_number(options, REFRESH, 1, least=1)
    whole_number(options, SETTLE, 10)


def hadoop_settings(definition: Definition, secrets: Mapping[str, str]) -> dict[str, str]:
    """
    >>> hadoop_settings(Definition(connector="file", columns=(), options=(
    ...     ("path", "s3a://b/"), ("hadoop.fs.s3a.endpoint", "http://a"))), {"hadoop.fs.s3a.secret.key": "k"})
    {'fs.s3a.endpoint': 'http://a', 'fs.s3a.secret.key': 'k'}
    """
    given = {**definition.option, **secrets}
    return {key.removeprefix(HADOOP): value for key, value in given.items() if key.startswith(HADOOP)}


def root_and_pattern(path: str) -> tuple[str, str]:
    """The folder that has all of it, and a pattern for what is in there.

    >>> [root_and_pattern(path) for path in ("s3a://bucket/logs/2026-*/*.json", "/data/in/", "/data/a.csv")]
    [('s3a://bucket/logs', '2026-*/*.json'), ('/data/in', '*'), ('/data', 'a.csv')]
    """
    if path.endswith("/"):
        path += "*"
    parts = path.split("/")
    fixed = next((at for at, part in enumerate(parts) if re.search(r"[*?\[]", part)), len(parts) - 1)
    return "/".join(parts[:fixed]) or "/", "/".join(parts[fixed:])


def matches(path: str, pattern: str) -> bool:
    """Part by part: a star does not match a slash. What begins with a dot or an underscore is somebody's scratch.

    >>> matches("a/b.csv", "*/*.csv"), matches("a/b.csv", "*.csv"), matches("_a/b.csv", "*/*.csv")
    (True, False, False)
    """
    parts, wanted = path.split("/"), pattern.split("/")
    if len(parts) != len(wanted) or any(part.startswith((".", "_")) for part in parts):
        return False
    return all(fnmatch.fnmatchcase(part, each) for part, each in zip(parts, wanted, strict=True))


# --- listing, by the driver --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Folder:
    """Looks at what there is."""

    definition: Definition
    storage: Storage
    pattern: str
    searched: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By path, a range of bytes in which no line ends: who writes a long one would have it read again with each list"""

    @property
    def lines(self) -> bool:
        return self.definition.encode != "parquet"

    def list(self) -> list[Found]:
        return [
            Found(path=entry.name, size=entry.size, mtime=entry.mtime)
            for entry in (self.storage.walk("") if "/" in self.pattern else self.storage.list(""))
            if matches(entry.name, self.pattern)
        ]

    def measure(self, file: Found, before: Seen | None) -> Measured | None:
        settled = time.time() - file.mtime > whole_number(self.definition.option, SETTLE, 10)
        try:
            with self.storage.open_input(file.path) as opened:
                if (size := opened.seek(0, os.SEEK_END)) < file.size:
                    return None  # somebody writes it anew: the next list says more
                settled &= size == file.size  # it was listed a while ago
                return self._lines(file, opened, before, settled) if self.lines else self._parquet(opened, settled)
        except FileNotFoundError:
            return None
        except PermissionError as problem:
            return Measured(end=0, bad=str(problem)) if settled and before is None else None
        except OSError as problem:  # of the place, not of the file: the next list may know more
            raise storage_error(file.path, problem) from problem

    @staticmethod
    def _parquet(opened: Any, settled: bool) -> Measured | None:
        """Its footer comes last: without one, somebody is still writing it, or nobody will finish it."""
        try:
            opened.seek(0)
            metadata = pq.read_metadata(opened)
            return Measured(end=metadata.num_rows, begins_with=marks_of_parquet(metadata))
        except (pa.ArrowException, OSError) as problem:
            if not is_broken(problem):
                raise
            return Measured(end=0, bad=str(problem).splitlines()[0]) if settled else None

    def _lines(self, file: Found, opened: Any, before: Seen | None, settled: bool) -> Measured:
        """Up to the last line that is complete. What nobody has written to for a while is taken to be complete."""
        rewritten = before is not None and not has_marks(opened, before.begins_with)
        end = file.size if settled else self._last_end(file, opened, 0 if before is None else before.end)
        return Measured(end=end, begins_with=marks_of_lines(opened, end), rewritten=rewritten)

    def _last_end(self, file: Found, opened: Any, at: int) -> int:
        """Where the last line ends, if one does behind an offset; or else there."""
        since, until = self.searched.pop(file.path, (at, at))
        first, end = until if since == at and until <= file.size else at, file.size
        while end > first:
            start = max(first, end - TAIL)
            opened.seek(start)
            newline = opened.read(end - start).rfind(b"\n")
            if newline >= 0:
                return start + newline + 1
            end = start
        if len(self.searched) >= SEARCHED:
            self.searched.clear()
        self.searched[file.path] = (at, file.size)
        return at


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What a list has found out about some files."""

    pieces: tuple[Piece, ...] = ()
    notes: tuple[tuple[Found, str], ...] = ()
    """Of those that are left alone, and why"""
    before: Mapping[str, int]
    """The last piece that was known of them then"""


@dataclass(kw_only=True)
class FileFeed(Feed):
    reader: FileReader
    folder: Folder
    outside: Outside
    refresh: float
    pieces: PieceLog = field(init=False)
    _known: KnownFiles = field(default_factory=KnownFiles)
    _listing: threading.Thread | None = None
    _looked: queue.Queue[Looked] = field(default_factory=lambda: queue.Queue(maxsize=LISTED_AHEAD))
    _closed: bool = False
    _listed_at: float = 0.0
    _took: float = 0.0
    _told: set[str] = field(default_factory=set)
    _unlisted: HeadraceError | None = None
    """Why the last list could not be made"""

    def __post_init__(self) -> None:
        self.pieces = PieceLog(self.outside.segments)
        self._adopt(self.pieces, 0)

    @property
    def trouble(self) -> HeadraceError | None:
        return self._unlisted

    def extents(self, *, fresh: bool = False) -> dict[int, Extent]:
        if fresh:
            for looked in self._look(self.folder.list()):
                self._take(looked)
        else:
            self._take_what_was_listed()
        return {0: Extent(0, len(self.pieces))}

    def extents_now(self, using: AbstractContextManager[Any]) -> dict[int, Extent]:
        # Looking into many files takes long, and may be done by several at the same time.
        for looked in self._look(self.folder.list()):
            with using:
                self._take(looked)
        with using:
            return {0: Extent(0, len(self.pieces))}

    def close(self) -> None:
        self._closed = True
        self.folder.storage.close()

    def _take_what_was_listed(self) -> None:
        """At most as much as is looked into at a time: what is known already can be read meanwhile."""
        try:
            self._take(self._looked.get_nowait())
        except queue.Empty:
            # Whoever lists for long is not to do it all the time.
            due = self._listed_at + max(self.refresh, 5 * self._took)
            if self._listing is None and time.monotonic() >= due:
                self._listing = threading.Thread(target=self._list, name="headrace-listing", daemon=True)
                self._listing.start()

    def _list(self) -> None:
        began = time.monotonic()
        try:
            found = self.folder.list()
            self._took = time.monotonic() - began
            for looked in self._look(found):
                self._hand_over(looked)
            self._unlisted = None
        except HeadraceError as error:
            self._not_listed(error)
        except Exception as problem:  # whatever it was: it is said, and the next list is made
            self._not_listed(HeadraceError(f"unexpected error: {type(problem).__name__}: {problem}"), problem)
        finally:
            self._listed_at = time.monotonic()
            self._listing = None

    def _not_listed(self, error: HeadraceError, fault: Exception | None = None) -> None:
        if self._unlisted is None or self._unlisted.message != error.message:
            log.warning("%s cannot be listed now: %s", self.definition.option[PATH], error.message, exc_info=fault)
        self._unlisted = error

    def _hand_over(self, looked: Looked) -> None:
        while not self._closed:
            try:
                return self._looked.put(looked, timeout=0.1)
            except queue.Full:
                continue

    def _look(self, found: Sequence[Found]) -> Iterator[Looked]:
        """Into the files that are new, or not as they were, some at a time."""
        listing = Listing(lines=self.folder.lines)
        changed: list[Found] = []
        for at in range(0, len(found), BLOCK):
            block = found[at : at + BLOCK]
            _, marks = self._known.find([each.path for each in block])
            changed += [each for each, mark in zip(block, marks.tolist(), strict=True) if mark != each.mark]
        changed.sort(key=lambda each: (each.mtime, each.path))
        with self._lookers() as all_of:
            for at in range(0, len(changed), LIST_AT_A_TIME):
                part = changed[at : at + LIST_AT_A_TIME]
                numbers, _ = self._known.find([each.path for each in part])
                before = dict(zip((each.path for each in part), numbers.tolist(), strict=True))
                known = {path: self.pieces[number].seen for path, number in before.items() if number >= 0}
                pieces, notes = listing.compare(part, known, self.folder.measure, all_of=all_of)
                yield Looked(pieces=tuple(pieces), notes=tuple(notes), before=before)

    @contextmanager
    def _lookers(self) -> Iterator[Map]:
        """Who looks into files. Those of another machine have to be waited for: many are asked at the same time."""
        if is_local(self.folder.storage.root):
            yield map
        else:
            with ThreadPoolExecutor(LOOKERS, "headrace-looking") as pool:
                yield pool.map

    def _take(self, looked: Looked) -> None:
        # Two may have listed at the same time: what the other one has found is not new any more.
        numbers, _ = self._known.find(list(looked.before))
        same = {path for path, number in zip(looked.before, numbers, strict=True) if number == looked.before[path]}
        for file, note in looked.notes:
            if file.path in same:
                self._tell(note)
                # As it is now it is known, and need not be looked into until it changes again.
                self._known.put([file.path], numbers=[looked.before[file.path]], marks=[file.mark])
        pieces = [each for each in looked.pieces if each.path in same]
        if pieces:
            first = len(self.pieces)
            self.pieces.append(pieces)
            self._adopt(pieces, first)

    def _tell(self, note: str) -> None:
        if note not in self._told:
            if len(self._told) >= TOLD:
                self._told.clear()
            self._told.add(note)
            log.warning("%s", note)

    def _adopt(self, pieces: Iterable[Piece], first: int) -> None:
        """Pieces are in the log, from a number on: their files are known."""
        for number, piece in enumerate(pieces, first):
            # What is not complete is looked into again with each list.
            complete = not self.folder.lines or piece.end >= piece.size
            mark = Found(path=piece.path, size=piece.size, mtime=piece.mtime).mark if complete else 0
            self._known.put([piece.path], numbers=[number], marks=[mark])

    def portion(self, ranges: Sequence[Range], budget: int) -> list[Range]:
        if not ranges:
            return []
        (whole,) = ranges
        end = self.pieces.last_within(budget, whole.start, whole.end)
        return [Range(0, whole.start, min(max(end, whole.start + 1), whole.start + PORTION_FILES, whole.end))]

    def tasks(self, ranges: Sequence[Range], parallelism: int) -> list[Task]:
        numbers = [number for each in ranges for number in range(each.start, each.end)]
        share = min(TASK_OFFSETS, max(1, -(-self.rows(ranges) // max(1, parallelism))))
        files = max(1, -(-len(numbers) // max(1, parallelism)))
        tasks: list[list[tuple[int, Piece]]] = []
        held = 0
        for number in numbers:
            piece = self.pieces[number]
            if not tasks or (held and held + piece.rows > share) or len(tasks[-1]) >= files:
                tasks.append([])
                held = 0
            tasks[-1].append((number, piece))
            held += piece.rows
        return [tuple(task) for task in tasks]

    def rows(self, ranges: Sequence[Range]) -> int:
        return sum(self.pieces.rows_before(each.end) - self.pieces.rows_before(each.start) for each in ranges)


def resolve(definition: Definition, outside: Outside) -> Resolved:
    root, _ = root_and_pattern(definition.option[PATH])
    settings = hadoop_settings(definition, outside.secrets)
    if settings and is_local(root):
        raise InvalidParameterValue(
            f'options that begin with "{HADOOP}" are not for local files', hint=f"leave them out, or see {PATH}"
        )
    storage = outside.storage_at(root, settings)
    try:
        storage.probe()  # that it is not there yet is fine; that it cannot be asked is said now
    finally:
        storage.close()
    return Resolved(starts={0: 0})


def feed(definition: Definition, resolved: Resolved, outside: Outside) -> Feed:
    root, pattern = root_and_pattern(definition.option[PATH])
    storage = outside.storage_at(root, hadoop_settings(definition, outside.secrets))
    return FileFeed(
        definition=definition,
        reader=FileReader(definition=definition, files=storage.files),
        folder=Folder(definition=definition, storage=storage, pattern=pattern),
        outside=outside,
        refresh=float(whole_number(definition.option, REFRESH, 1, least=1)),
    )


CONNECTOR = Connector(secrets=(HADOOP,), check=check, resolve=resolve, feed=feed)
