"""Merging a table's snapshot with its log: which change applies when. Decisions only; no database, no Spark.

A table is read in *chunks*, one range of keys after the other, in the order of its database, while changes arrive from
the log. A few neighbours may be in flight at once; they land in order. The database alone says where a key lies (it
orders text by collations that nobody else has), as its *place*:

    0        BELOW: in a chunk that has landed: the change applies now
    1 … n    in the first … last chunk in flight: it is kept, as *late*, until that chunk lands
    beyond   BEYOND: in a chunk that is still to come: it is dropped; the chunk will show it

That a later chunk shows it is not a matter of course: a log has commits that no SELECT sees yet. Two rules make it so.
A transaction is taken only once the database shows it to everybody (:meth:`Gate.open`), so a snapshot that is taken
afterwards shows all that was dropped. And when a chunk lands, at a position of the log that is not before its *high*
mark, each late change is applied if its snapshot did not see it, and is in the chunk already if it did.

So at every position the table holds exactly the source's rows below ``Progress.at``, as of that position.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.cdc.changelog import UNCHANGED, Change, Key, Truncate

BELOW, BEYOND = 0, 1 << 30


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a table is; durable."""

    at: Key | None = None
    """Rows with a smaller key are in the table; None: none is"""
    done: bool = False
    rows: int = 0
    """Read so far"""
    total: int = 0
    """As the database estimated when it began"""
    splits: int = 0
    """Read so far"""
    error: str | None = None
    """Why it is stopped: nothing of the log is applied to it any more"""
    changed: bool = False
    """Whether it is because its source has other columns now"""

    def splits_expected(self, rows: int) -> int:
        """Those that were read, and as many of so many rows as the estimate leaves.

        >>> Progress(rows=250, total=1000, splits=3).splits_expected(100), Progress(rows=9, splits=1).splits_expected(4)
        (11, 2)
        """
        return self.splits if self.done else self.splits + max(1, -(-(self.total - self.rows) // rows))

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @staticmethod
    def from_json(data: dict[str, Any]) -> Progress:
        at = data["at"]
        return Progress(**(data | {"at": None if at is None else tuple(at)}))


Numbered = tuple[Any, Change | Truncate]
"""With the transaction that did it"""


@dataclass(frozen=True, kw_only=True)
class Flight:
    """A chunk that is being read: the rows from the position, or the end of the one before it, up to ``end``."""

    end: Key | None
    """The first key behind it; None: it is the last"""
    sees: Callable[[Any], bool]
    """Whether what is read certainly shows a transaction. Whether it shows others does not matter if the log's rows are
    whole: they are applied in order, and the last of each key decides."""
    id: int = 0
    high: int | None = None
    """Whatever is read was committed before this position of the log; None: that is known once it has been read"""
    late: tuple[Numbered, ...] = ()
    late_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Intake:
    """One table between its log and its snapshot. What is in flight is lost with the process, and read again."""

    progress: Progress
    flights: tuple[Flight, ...] = ()
    """In the order of their keys, one behind the other"""

    @property
    def asks(self) -> bool:
        """Whether it matters where keys lie. Otherwise they are all BELOW, or all BEYOND."""
        return not self.progress.done and (self.progress.at is not None or bool(self.flights))

    @property
    def everywhere(self) -> int:
        """Where keys lie if it does not matter."""
        return BELOW if self.progress.done else BEYOND

    @property
    def bounds(self) -> list[Key]:
        """What the database has to compare keys with."""
        ends = [self.progress.at, *(flight.end for flight in self.flights)]
        return [end for end in ends if end is not None]

    def place(self, passed: int) -> int:
        """Where a key lies that is at or behind so many of the bounds."""
        return passed + (self.progress.at is None)

    def places(
        self, changes: Sequence[Numbered], ask: Callable[[Sequence[Key], Sequence[Key]], Sequence[int]]
    ) -> list[int]:
        """Where the changes lie. ``ask`` the database, of keys, how many of the bounds each is at or behind."""
        if not self.asks:
            return [self.everywhere] * len(changes)
        keys = list(dict.fromkeys(change.key for _, change in changes if isinstance(change, Change)))
        passed = ask(keys, self.bounds) if keys and self.bounds else [0] * len(keys)
        found = {key: self.place(each) for key, each in zip(keys, passed, strict=True)}
        return [found[change.key] if isinstance(change, Change) else BEYOND for _, change in changes]

    @property
    def next_start(self) -> Key | None:
        """Where the next chunk begins; None: at the first row."""
        return self.flights[-1].end if self.flights else self.progress.at

    @property
    def all_launched(self) -> bool:
        return self.progress.done or (bool(self.flights) and self.flights[-1].end is None)

    @property
    def late_bytes(self) -> int:
        return sum(flight.late_bytes for flight in self.flights)

    def launched(self, flight: Flight) -> Intake:
        return dataclasses.replace(self, flights=(*self.flights, flight))

    def without_flights(self) -> Intake:
        return dataclasses.replace(self, flights=())

    def without_flights_from(self, id: int) -> Intake:
        """Those behind it would land on a gap."""
        ids = [flight.id for flight in self.flights]
        return dataclasses.replace(self, flights=self.flights[: ids.index(id)] if id in ids else self.flights)

    def stopped(self, reason: str, *, changed: bool = False) -> Intake:
        return Intake(progress=dataclasses.replace(self.progress, error=reason, changed=changed))

    def will_see(self, transaction: Any) -> bool:
        """Whether all that a transaction did is of no interest, because the chunks show it."""
        unread = not self.progress.done and self.progress.at is None
        return unread and all(flight.sees(transaction) for flight in self.flights)

    def take(self, changes: Sequence[Numbered], places: Sequence[int]) -> tuple[list[Change | Truncate], Intake]:
        """What applies now, and what is known afterwards. ``places``: one for each change, of no use for a Truncate."""
        if self.progress.error is not None:
            return [], self
        spoiled = self._spoiled(changes, places)
        flights, late, applied = list(self.flights), [list(each.late) for each in self.flights], []
        sizes = [each.late_bytes for each in self.flights]
        for numbered, place in zip(changes, places, strict=True):
            transaction, change = numbered
            if isinstance(change, Truncate):
                applied.append(change)
                # What was read before it is of before. Reading it again is simpler than to know what of it is left.
                seen = itertools.takewhile(lambda flight: flight.sees(transaction), flights)  # noqa: B023 (used at once)
                flights = list(seen)
            elif place == BELOW:
                applied.append(change)
            elif id(change) in spoiled and place <= len(flights) and not flights[place - 1].sees(transaction):
                flights = flights[: place - 1]  # a later one shows it whole
            elif place <= len(flights):
                late[place - 1].append(numbered)
                sizes[place - 1] += change.size
        kept = tuple(
            dataclasses.replace(flight, late=tuple(each), late_bytes=size)
            for flight, each, size in zip(flights, late, sizes, strict=False)
        )
        return applied, dataclasses.replace(self, flights=kept)

    def _spoiled(self, changes: Sequence[Numbered], places: Sequence[int]) -> set[int]:
        """Changes that have left something out which lies elsewhere than they do: when their chunk lands, it may be
        gone from there, or another row may have come in its place."""
        if not self.flights:
            return set()
        at = {
            change.key: place for (_, change), place in zip(changes, places, strict=True) if isinstance(change, Change)
        }
        return {
            id(change)
            for _, change in changes
            if isinstance(change, Change)
            and change.origin is not None
            and UNCHANGED in (change.values or ())
            and at.get(change.origin) != at[change.key]
        }

    def was_read(self, id: int, high: int) -> Intake:
        return dataclasses.replace(
            self,
            flights=tuple(dataclasses.replace(each, high=high) if each.id == id else each for each in self.flights),
        )

    def may_land(self, position: int) -> bool:
        """The first of them."""
        return bool(self.flights) and self.flights[0].high is not None and position >= self.flights[0].high

    def landed(self, rows: int, splits: int = 1) -> tuple[list[Change], Intake]:
        """What to apply on top of the first chunk's rows, and what is known afterwards."""
        flight = self.flights[0]
        applied = [change for transaction, change in flight.late if not flight.sees(transaction)]
        progress = dataclasses.replace(
            self.progress, at=flight.end, done=flight.end is None, rows=self.progress.rows + rows,
            splits=self.progress.splits + splits,
        )  # fmt: skip
        return applied, Intake(progress=progress, flights=self.flights[1:])


@dataclass(frozen=True, kw_only=True)
class Gate:
    """Lets transactions through once the database shows them, in the order of the log."""

    sees: Callable[[Any], bool]
    """Of a snapshot that was taken after the transactions arrived"""

    def open(self, transactions: Sequence[Any]) -> int:
        """How many of them, from the first on."""
        for number, transaction in enumerate(transactions):
            if not self.sees(transaction):
                return number
        return len(transactions)
