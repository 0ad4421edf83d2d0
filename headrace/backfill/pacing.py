"""How large the next chunk should be, and how fast chunks may follow each other.

A chunk is read beside the epochs and holds none of them up, so it may take longer than one. Three policies: a
:class:`Fixed` number of rows; as many as fit into a barrier interval (:class:`UntilBarrier`); or :class:`Adaptive`,
which measures the epochs that its chunks cause and grows or shrinks them.

>>> policy = Adaptive(barrier_interval=1.0)
>>> policy.budget()
2000000
>>> policy.landed(2_000_000, seconds=0.9, epoch_seconds=0.3)
>>> policy.budget()
4000000
>>> policy.landed(4_000_000, seconds=1.9, epoch_seconds=1.4)  # that was too much for the epochs beside it
>>> policy.budget()
2000000

A :class:`RateLimit` caps all of them. It has no clock: the caller says what time it is. A :class:`Reach` keeps small
chunks from starving where everything is deleted.
"""

from __future__ import annotations

import math
import re
import sys
from collections import deque
from typing import Protocol

from headrace.errors import InvalidParameterValue

START, LARGEST = 2_000_000, 4_000_000
"""Rows of the first chunk of a policy that measures, and of any."""

LONGEST = 5.0
"""Seconds that an adaptive chunk takes at most, or twice a job's fixed cost where that is more."""

FLOOR = START // 2
"""Below this an adaptive chunk does not shrink for the sake of epochs: it costs them as much and lasts longer."""

UNLIMITED = sys.maxsize

_TICK = 0.001
"""No chunk is taken to be faster than this."""


class Policy(Protocol):
    def budget(self) -> int:
        """How many stored rows the next chunk should have."""

    def landed(self, rows: int, seconds: float, epoch_seconds: float) -> None:
        """A chunk has landed: the stored rows it read, the time that took, and the time of the epoch it landed in."""


class Fixed:
    def __init__(self, rows: int):
        self._rows = max(1, rows)

    def budget(self) -> int:
        return self._rows

    def landed(self, rows: int, seconds: float, epoch_seconds: float) -> None:
        """Nothing to learn."""


class _Cost:
    """seconds = overhead + rows / rate, drawn through the last two chunks of different sizes.

    Without it, a barrier interval shorter than the fixed cost of a Spark job would shrink chunks to nothing: each
    smaller one takes as long as the one before. So a chunk may always take twice the overhead, and at least half of
    the time goes into rows.
    """

    def __init__(self):
        self.overhead, self.rate = 0.0, None
        self._last: tuple[int, float] | None = None
        self._recent: deque[float] = deque(maxlen=8)

    def measured(self, rows: int, seconds: float) -> None:
        if rows < 1:
            return
        seconds = max(seconds, _TICK)
        self._recent.append(seconds)
        before, took = self._last or (0, 0.0)
        if abs(rows - before) * 5 >= max(rows, before):  # closer sizes say more about noise than about rows
            if self._last is not None:
                slope = max((seconds - took) / (rows - before), 0.0)
                # The fastest recent chunk had the overhead too, so a single slow one does not raise it.
                self.overhead = min(max(seconds - slope * rows, 0.0), *self._recent)
            self._last = (rows, seconds)
        self.rate = rows / max(seconds - self.overhead, seconds / 100)

    def target(self, barrier_interval: float) -> float:
        return max(barrier_interval, 2 * self.overhead)


def _too_small(rows: int, budget: int) -> bool:
    """A chunk far below the budget (the end of a partition, a rate limit) proves nothing about larger ones."""
    return rows * 2 < budget


class _Measured:
    """What a policy that measures keeps."""

    def __init__(self, *, barrier_interval: float, start: int = START):
        self._interval, self._budget, self._cost = barrier_interval, start, _Cost()

    def budget(self) -> int:
        return self._budget


class UntilBarrier(_Measured):
    """As much as the measured speed reads in one barrier interval."""

    def landed(self, rows: int, seconds: float, epoch_seconds: float) -> None:
        self._cost.measured(rows, seconds)
        target = self._cost.target(self._interval)
        if self._cost.rate is not None and not (_too_small(rows, self._budget) and seconds <= target):
            self._budget = min(max(1, int(self._cost.rate * (target - self._cost.overhead))), LARGEST)


class Adaptive(_Measured):
    """Grows, at most twofold, while epochs are shorter than the barrier interval, and halves when they are longer.

    Epochs do not wait for a chunk, so what it costs them is what both share: processors, disks and the landing. A chunk
    itself may take longer than an epoch, up to LONGEST seconds: that is about what a restart repeats.
    """

    def landed(self, rows: int, seconds: float, epoch_seconds: float) -> None:
        self._cost.measured(rows, seconds)
        longest = self._cost.target(LONGEST)
        if seconds > longest:
            self._budget = max(1, self._budget // 2)
        elif epoch_seconds > self._interval:
            self._budget = min(self._budget, max(FLOOR, self._budget // 2))
        elif seconds < 0.9 * longest and not _too_small(rows, self._budget):
            factor = min(2.0, longest / seconds) if seconds > 0 else 2.0
            self._budget = min(max(self._budget + 1, int(self._budget * factor)), LARGEST)


def parse_policy(text: str, *, barrier_interval: float = 1.0) -> Policy:
    """``adaptive``, ``until_barrier`` or a number of rows; the interval in seconds."""
    folded = text.strip().lower()
    if folded == "adaptive":
        return Adaptive(barrier_interval=barrier_interval)
    if folded == "until_barrier":
        return UntilBarrier(barrier_interval=barrier_interval)
    if re.fullmatch(r"[0-9]+", folded) and int(folded) >= 1:
        return Fixed(int(folded))
    raise InvalidParameterValue(
        f'"{text}" is not a way to pace a backfill',
        hint="use adaptive, until_barrier, or a whole number of rows of at least 1",
    )


class RateLimit:
    """A token bucket of rows. None is unlimited and 0 paused.

    Whoever is not in debt may read at least one row; whoever reads more than allowed (bounds of row groups are rough)
    pays for it by waiting. So the rate holds in the long run and no rate is too small to make progress.

    >>> limit = RateLimit(10, now=0.0)
    >>> limit.allowance(0.0)
    10
    >>> limit.take(15, 0.0)
    >>> limit.allowance(0.4), limit.ready_at(0.4)
    (0, 0.5)
    >>> limit.allowance(60.0)
    10

    A chunk costs an epoch, however small it is. With ``portion``, in seconds, nothing is read before so much of the
    rate has come together, a second's worth at most.

    >>> limit = RateLimit(10, now=0.0, portion=0.5)
    >>> limit.take(10, 0.0)
    >>> limit.allowance(0.4), limit.ready_at(0.4), limit.allowance(0.5)
    (0, 0.5, 5)
    """

    def __init__(self, rows_per_second: int | None, *, now: float, portion: float = 0.0):
        if rows_per_second is not None and rows_per_second < 0:
            raise InvalidParameterValue(
                f"a rate limit of {rows_per_second} rows per second is not possible",
                hint="0 pauses; a negative rate means nothing",
            )
        self.rows_per_second = rows_per_second
        self._rows = float(rows_per_second or 0)
        self._at = now
        rows = self._rows * min(portion, 1.0)
        self._portion = rows if rows >= 1 else 0.0

    def allowance(self, now: float) -> int:
        """How many rows may be read now."""
        if self.rows_per_second is None:
            return UNLIMITED
        rows = self._refilled(now)
        if self.rows_per_second == 0 or rows < self._portion * (1 - 1e-9) - 1e-9:
            return 0
        return max(1, math.floor(rows + 1e-9))

    def take(self, rows: int, now: float) -> None:
        if self.rows_per_second:
            self._rows, self._at = self._refilled(now) - rows, max(now, self._at)

    def ready_at(self, now: float) -> float:
        """The earliest time at which something may be read."""
        if self.allowance(now):
            return now
        if self.rows_per_second == 0:
            return math.inf
        return now + (self._portion - self._refilled(now)) / self.rows_per_second

    def _refilled(self, now: float) -> float:
        """A bucket holds at most one second's worth, and a clock that goes back takes nothing away."""
        return min(self._rows + max(0.0, now - self._at) * self.rows_per_second, float(self.rows_per_second))


class Reach:
    """How many stored rows to look through for the few live ones that a small budget asks for.

    A budget of ten rows is less than a row group, so a gap of a million deleted rows would take hundreds of chunks, and
    as many barriers, without a single row. Each chunk that comes back empty doubles the reach; the first row ends it.

    >>> reach = Reach()
    >>> for live in (0, 0, 0, 7):
    ...     reach.landed(live=live, stored=4096)
    ...     print(reach.rows)
    8192
    16384
    32768
    0
    """

    def __init__(self):
        self.rows = 0

    def landed(self, *, live: int, stored: int) -> None:
        self.rows = 0 if live else min(2 * max(self.rows, stored, 1), LARGEST)
