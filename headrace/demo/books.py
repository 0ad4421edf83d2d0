"""What the story writes down of two engines' reports: statements, rows that were filled, and how long things took."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from headrace.demo.ledger import Ledger
from headrace.demo.shop import CREATE, Change
from headrace.serving.progress import DONE, Progress


@dataclass
class Filling:
    """One view or index."""

    look: Progress = Progress(state="waiting")
    started: float | None = None
    """Since when it is being filled in this life; None while it is not."""
    seconds: float = 0.0
    """While it was being filled, in earlier lives."""
    reached: int = 0
    """Rows that were read or being read when last heard of."""
    saved: int = 0
    """Rows whose position the second engine found."""
    again: int = 0
    """Rows that the first engine was heard to be reading, and the second has to read again."""
    waits: list[float] = field(default_factory=list)
    """Seconds that the INSERTs took that were acknowledged meanwhile."""

    @property
    def rows_per_second(self) -> float:
        """Over both lives, with all that was read in vain."""
        return self.look.rows_total / self.seconds if self.seconds else 0.0


class Books:
    def __init__(self, ledger: Ledger, *, clock: Callable[[], float] = time.monotonic):
        self.ledger = ledger
        self.fillings = {name: Filling() for name in CREATE}
        self.before: list[float] = []
        """Seconds of INSERTs before anything was created."""
        self._clock = clock

    @property
    def looks(self) -> dict[str, Progress]:
        return {name: each.look for name, each in self.fillings.items() if each.started is not None or each.seconds}

    @property
    def fraction(self) -> float:
        """Of all that is to be filled."""
        return sum(each.look.fraction for each in self.fillings.values()) / len(self.fillings)

    def record(self, message: dict[str, Any]) -> Change | None:
        """Takes note of a report; answers the change that it acknowledges, if it does."""
        kind = message["is"]
        if kind == "sent":
            self.ledger.sent(message["writer"], Change.from_json(message["change"]))
        elif kind == "acknowledged":
            return self._acknowledge(message["writer"], message["ms"] / 1000)
        elif kind == "created":
            self.fillings[message["name"]].started = self._clock()
        elif kind == "status":
            self._status(message["jobs"])
        elif kind == "resumed":
            for each in self.fillings.values():
                if each.look.state != DONE:
                    each.started = self._clock()
        return None

    def _acknowledge(self, writer: int, seconds: float) -> Change:
        change = self.ledger.acknowledge(writer)
        if change.kind == "INSERT":
            for each in self.fillings.values():
                if each.started is not None:
                    each.waits.append(seconds)
            if not self.looks:
                self.before.append(seconds)
        return change

    def _status(self, jobs: list[dict[str, Any]]) -> None:
        found = {job["name"]: job for job in jobs}
        for name, each in self.fillings.items():
            if (job := found.get(name)) is not None:
                each.look = Progress.of(job)
                each.reached = job["rows_read"] + job["rows_in_flight"]
            elif each.started is not None and each.look.rows_total:
                self._done(each)

    def _done(self, each: Filling) -> None:
        total = each.look.rows_total
        self._stop(each)
        each.look = Progress(
            state=DONE, fraction=1.0, rows_read=total, rows_total=total, rows_per_second=each.rows_per_second
        )

    def _stop(self, each: Filling) -> None:
        if each.started is not None:
            each.seconds += self._clock() - each.started
            each.started = None

    def filled(self) -> None:
        """The second engine says that nothing is left to fill, which no status may have said yet."""
        for each in self.fillings.values():
            if each.started is not None:
                self._done(each)

    def killed(self) -> None:
        for each in self.fillings.values():
            self._stop(each)

    def reopened(self, rows_read: dict[str, int]) -> None:
        """With what the second engine found in the manifest. A job that it does not find is done."""
        for name, each in self.fillings.items():
            each.saved = rows_read.get(name, each.look.rows_total)
            each.again = max(0, each.reached - each.saved)


def percentile(values: list[float], share: float) -> float:
    """
    >>> percentile([3, 1, 2], 0.5), percentile([3, 1, 2], 0.95), percentile([], 0.5)
    (2, 3, 0.0)
    """
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0
