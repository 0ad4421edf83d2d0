"""Chunks on their way: what is being read, what lands, and what is measured of a job meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from headrace.backfill.job import Strategy
from headrace.backfill.pacing import UNLIMITED, Policy, RateLimit, Reach
from headrace.backfill.positions import Chunk
from headrace.engine.chunks import ReadChunk
from headrace.engine.deltas import LateDelta
from headrace.engine.pieces import Piece
from headrace.state.manifest import Manifest
from headrace.state.runs import Run


class Turn:
    """Chunks of a job write one after the other, in the order in which they were started and will land."""

    def __init__(self, before: Iterable[Turn | None]):
        self._before = [each for each in before if each is not None]
        self.over = threading.Event()
        self.waited = 0.0
        """Seconds; they are not part of what a chunk costs."""

    def __enter__(self) -> None:
        if self._before:
            began = time.perf_counter()
            for each in self._before:
                each.over.wait()
            self._before = []
            self.waited = time.perf_counter() - began

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._before = []  # or each would keep all before it alive
        self.over.set()


@dataclass(kw_only=True, eq=False)
class Flight:
    """A chunk that is being read, or waits for its epoch."""

    job_id: int
    upstream_id: int
    strategy: Strategy
    chunk: Chunk
    snapshot: int
    """The epoch that it is read as of."""
    runs: tuple[Run, ...]
    """What it is read from: these files must stay until it is read."""
    future: Future[ReadChunk]

    @property
    def open_ended(self) -> bool:
        """Where it will end is known only when it is read."""
        return self.chunk.limit is not None


@dataclass(frozen=True, kw_only=True)
class Landing:
    flight: Flight
    read: ReadChunk
    late: tuple[Piece, ...]

    @property
    def job_id(self) -> int:
        return self.flight.job_id


@dataclass(kw_only=True)
class Pace:
    """What is measured of a job; lost with the process, and measured again."""

    text: str
    policy: Policy
    limit: RateLimit
    last_turn: Turn | None = None
    reach: Reach = field(default_factory=Reach)
    failures: int = 0
    retry_at: float = 0.0
    """In seconds of time.monotonic()."""
    cap: int = UNLIMITED
    """Rows of a chunk: halved when one has missed too much, doubled when one has landed."""
    recent: list[tuple[float, int]] = field(default_factory=list)
    """When how many rows landed, for rows/s."""


def late_deltas(state: Manifest, landings: Sequence[object]) -> list[LateDelta]:
    """What chunks that land have missed."""
    return [
        LateDelta(
            view=state.catalog.relations[landing.job_id],
            upstream=state.catalog.relations[landing.flight.upstream_id],
            chunk=landing.read.chunk,
            pieces=landing.late,
        )
        for landing in landings
        if isinstance(landing, Landing)
    ]
