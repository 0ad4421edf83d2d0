"""One table of a source, between its log and its snapshot."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from headrace.catalog import Relation
from headrace.cdc.changelog import Change, Key, Truncate
from headrace.cdc.chunks import pause_after
from headrace.cdc.database import Database, Hold
from headrace.cdc.intake import Intake
from headrace.engine.following import TableState
from headrace.errors import HeadraceError
from headrace.state.layout import Layout
from headrace.state.runs import RunFile

log = logging.getLogger("headrace")

CHUNKS_AT_ONCE = 3
"""Chunks of a table that are read, or wait to land"""


@dataclass(kw_only=True, eq=False)
class ChunkRead:
    """A chunk in flight: what its tasks will have written."""

    id: int
    """As its :class:`headrace.cdc.intake.Flight` has it"""
    files: Future[list[RunFile]]
    held: Hold | None
    """What it is read as of; None: it has been read, and its flight knows"""
    splits: int
    launched_at: float


@dataclass(frozen=True, kw_only=True)
class AskedBounds:
    """Where the splits of the next chunk end, as the database will say."""

    question: tuple
    """Another one makes the answer worthless."""
    start: Key | None
    bounds: Future[list[Key | None]]


@dataclass(kw_only=True, eq=False)
class Followed:
    """What a follower knows of a table; what is durable of it is in its state and its progress."""

    relation: Relation
    state: TableState
    intake: Intake
    database: Database
    reader: tuple[Any, Any] | None = None
    """For the table as the log has described it last"""
    grown: bool = False
    """Whether its source has columns that it should have, and has not"""
    grown_by: int | None = None
    """Where the log was when that was seen"""
    by_reading: bool = False
    """Whether it can get them only by being read anew"""
    began_at: Any = None
    """What ran when the table was published; None: it is ready to be read, or has not been published"""
    ready: bool = False
    chunks: list[ChunkRead] = field(default_factory=list)
    """Those in flight, as the intake has them"""
    asked: AskedBounds | None = None
    split_rows: int = 0
    next_at: float = 0.0
    """When a chunk may be read next, if there is a rate limit, or the server has refused the last"""
    trouble: HeadraceError | None = None
    """Why the server refused it; the others of the source are not concerned"""
    refusals: int = 0
    recent: list[tuple[float, int]] = field(default_factory=list)
    """When how many rows had been read, for rows/s"""

    @property
    def layout(self) -> Layout:
        return Layout.of(self.relation)

    def changes(self, event: Any, relation: Any) -> list[Change | Truncate]:
        if relation is None:
            return self.database.other_changes(event, self.state.table)
        if self.reader is None or self.reader[0] is not relation:
            self.reader = (relation, self.database.reader(self.state.table, relation))
            self.grown = bool(self.reader[1].adds)
        return self.reader[1].changes(event)

    @property
    def adds(self) -> bool:
        """Whether the log has described it with columns that it has not."""
        return self.reader is not None and bool(self.reader[1].adds)

    @property
    def rate(self) -> float | None:
        """Rows/s over the last chunks."""
        if len(self.recent) < 2:
            return None
        (first, before), (last, after) = self.recent[0], self.recent[-1]
        return (after - before) / (last - first) if last > first else None

    def put_off(self, error: HeadraceError) -> None:
        """The server refuses it: it is asked again later."""
        if self.trouble is None or self.trouble.message != error.message:
            log.warning('table "%s" cannot be read now: %s', self.relation.name, error.for_log)
        self.trouble, self.asked = error, None
        self.next_at = time.monotonic() + min(30.0, 0.1 * 2**self.refusals)
        self.refusals += 1

    @property
    def chunks_at_once(self) -> int:
        """While one lands, the next is read; unless somebody wants it slow, or to commit at least so often."""
        return 1 if self.state.rate_limit or self.state.batch_rows else CHUNKS_AT_ONCE

    @property
    def waits_to_land(self) -> bool:
        return bool(self.chunks) and self.chunks[0].files.done()

    def landed(self, chunk: ChunkRead) -> None:
        """It is in the table."""
        read = self.intake.progress.rows - (self.recent[-1][1] if self.recent else 0)
        self.recent = [*self.recent, (time.monotonic(), self.intake.progress.rows)][-10:]
        self.next_at = chunk.launched_at + pause_after(read, self.state.rate_limit)
        self.split_rows = min(self.state.split_rows, self.split_rows * 2)
        self.trouble, self.refusals = None, 0
