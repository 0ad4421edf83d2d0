"""The merge of snapshot and log, over random histories of a database that is as unhelpful as it may be.

It orders keys as nobody else would, keeps commits in its log that no snapshot sees yet, and is read by somebody who
loses what is in flight now and then. After every step the table must be exactly the source's rows below the position,
as of the position of the log that has been taken. Canaries break one rule each, and must be caught.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from headrace.cdc.changelog import UNCHANGED, Change, Truncate, fold
from headrace.cdc.intake import BELOW, BEYOND, Flight, Gate, Intake, Progress

KEYS = [(str(number),) for number in range(8)]


@dataclass
class Source:
    """A database: transactions are logged, and become visible some time later."""

    random: random.Random
    whole: bool = False
    """As MariaDB: its log has whole rows, and transactions become visible in the order of the log"""
    order: dict = field(init=False)
    log: list = field(default_factory=list)
    invisible: set = field(default_factory=set)

    def __post_init__(self):
        shuffled = self.random.sample(range(len(KEYS)), len(KEYS))
        self.order = dict(zip(KEYS, shuffled, strict=True))

    def rows(self, transactions) -> dict:
        now = {}
        for _, changes in transactions:
            for change in changes:
                if isinstance(change, Truncate):
                    now = {}
                elif change.values is None:
                    now.pop(change.key, None)
                else:
                    before = now.get(change.origin or change.key)
                    now[change.key] = tuple(
                        before[at] if value is UNCHANGED else value for at, value in enumerate(change.values)
                    )
        return now

    def visible(self) -> list:
        return [entry for entry in self.log if entry[0] not in self.invisible]

    def commit(self) -> None:
        """Rows that an invisible transaction has written are locked; TRUNCATE locks all."""
        locked = {c.key for xid, changes in self.log if xid in self.invisible for c in changes if isinstance(c, Change)}
        all_locked = any(isinstance(c, Truncate) for xid, changes in self.log if xid in self.invisible for c in changes)
        free = [key for key in KEYS if key not in locked and not all_locked]
        now, changes, xid = self.rows(self.log), [], len(self.log) + 1
        if self.random.random() < 0.03 and not self.invisible:
            changes.append(Truncate())
            now = {}
        for _ in range(self.random.randrange(1, 4)):
            if not free:
                break
            key, number = self.random.choice(free), self.random.randrange(1000)
            others = [other for other in free if other not in now and other != key]
            if key not in now:
                changes.append(Change(key=key, values=(*key, f"v{xid}.{number}", f"large{xid}.{number}")))
            elif self.random.random() < 0.3:
                changes.append(Change(key=key))
            elif others and self.random.random() < 0.3:
                new = self.random.choice(others)
                changes += [Change(key=new, values=(*new, f"v{xid}", now[key][2]), origin=key), Change(key=key)]
            else:
                large = now[key][2] if self.whole else UNCHANGED
                changes.append(Change(key=key, values=(*key, f"v{xid}.{number}", large)))
            now = self.rows([*self.log, (xid, changes)])
        self.log.append((xid, changes))
        self.invisible.add(xid)

    def show(self) -> None:
        if self.invisible:
            waiting = sorted(self.invisible)
            self.invisible.discard(waiting[0] if self.whole else self.random.choice(waiting))

    def snapshot(self):
        """Which transactions it sees, and what it shows."""
        seen = {xid for xid, _ in self.visible()}
        return (lambda xid: xid in seen), self.rows(self.visible()), len(self.log)


@dataclass
class Reader:
    source: Source
    intake: Intake = field(default_factory=lambda: Intake(progress=Progress()))
    position: int = 0
    table: dict = field(default_factory=dict)
    chunks: dict = field(default_factory=dict)
    """By flight"""
    flights: int = 0

    def place(self, key) -> int:
        if self.intake.progress.done:
            return BELOW
        return self.intake.place(sum(not self.before(key, bound) for bound in self.intake.bounds))

    def before(self, key, bound) -> bool:
        return self.source.order[key] < self.source.order[bound]

    def open(self, transactions) -> int:
        sees, _, _ = self.source.snapshot()
        return Gate(sees=sees).open([xid for xid, _ in transactions])

    def take(self) -> None:
        arrived = self.source.log[self.position : self.position + self.source.random.randrange(1, 4)]
        arrived = arrived[: self.open(arrived)]
        numbered = [(xid, change) for xid, changes in arrived for change in changes]
        places = [
            BEYOND
            if isinstance(change, Truncate)
            else self.place(change.key)
            if self.intake.asks
            else self.intake.everywhere
            for _, change in numbered
        ]
        applied, self.intake = self.intake.take(numbered, places)
        self.apply(applied)
        self.position += len(arrived)

    def apply(self, changes) -> None:
        segment: list = []
        for change in changes:
            if isinstance(change, Truncate):
                self.table, segment = {}, []
            else:
                segment.append(change)
        folded = fold(segment)
        puts = [
            tuple(self.table[folded.fills[n]][at] if value is UNCHANGED else value for at, value in enumerate(values))
            for n, values in enumerate(folded.puts)
        ]
        for key in folded.deletes:
            self.table.pop(key, None)
        self.table |= {values[:1]: values for values in puts}

    def launch(self) -> None:
        if not self.intake.all_launched and len(self.intake.flights) < 3:
            sees, rows, high = self.source.snapshot()
            keys, end = self.next_chunk(rows)
            self.fly({key: rows[key] for key in keys if key in rows}, Flight(end=end, sees=sees, high=high))

    def fly(self, chunk, flight) -> None:
        self.flights += 1
        self.chunks[self.flights] = chunk
        self.intake = self.intake.launched(replace(flight, id=self.flights))

    def next_chunk(self, rows):
        """The keys that there may be in it, and where it ends."""
        order, at = self.source.order, self.intake.next_start
        start = -1 if at is None else order[at]
        ahead = sorted((key for key in rows if order[key] > start or key == at), key=order.get)
        size = self.source.random.randrange(1, 4)
        end = ahead[size] if len(ahead) > size else None
        return [key for key in KEYS if order[key] >= start and (end is None or order[key] < order[end])], end

    def read(self) -> None:
        """All of it was read at once."""

    def may_land(self) -> bool:
        return self.intake.may_land(self.position)

    def land(self) -> None:
        if self.intake.flights and self.may_land():
            chunk = self.chunks[self.intake.flights[0].id]
            applied, self.intake = self.intake.landed(len(chunk))
            assert not set(self.table) & set(chunk)
            self.table |= chunk
            self.apply(applied)

    def restart(self) -> None:
        self.intake = Intake(progress=Progress.from_json(self.intake.progress.to_json()))

    def check(self) -> None:
        rows = self.source.rows(self.source.log[: self.position])
        assert self.table == {key: row for key, row in rows.items() if self.below(key)}

    def below(self, key) -> bool:
        progress = self.intake.progress
        return progress.done or (progress.at is not None and self.source.order[key] < self.source.order[progress.at])


@dataclass
class WindowReader(Reader):
    """Of a database where no two readers share a snapshot: each key of a chunk is read as of another moment."""

    unread: dict = field(default_factory=dict)
    begins: dict = field(default_factory=dict)
    """Both by flight"""

    def launch(self) -> None:
        if self.intake.all_launched or len(self.intake.flights) >= 3:
            return
        begin, (keys, end) = len(self.source.visible()), self.next_chunk(self.source.rows(self.source.visible()))
        self.fly({}, Flight(end=end, sees=lambda xid: self.sees(begin, xid)))
        self.unread[self.flights], self.begins[self.flights] = keys, begin

    def sees(self, begin, xid) -> bool:
        return xid <= begin

    def read(self) -> None:
        for flight in self.intake.flights:
            if flight.high is not None:
                continue
            unread = self.unread[flight.id]
            for _ in range(self.source.random.randrange(1, 3)):
                if unread:
                    key = unread.pop(self.source.random.randrange(len(unread)))
                    row = self.source.rows(self.source.visible()).get(key)
                    self.chunks[flight.id] |= {} if row is None else {key: row}
            if not unread:
                self.intake = self.intake.was_read(flight.id, self.high(flight.id))

    def high(self, id) -> int:
        return len(self.source.visible())


def simulate(seed: int, reader_class=Reader) -> Reader:
    chance = random.Random(seed)
    source = Source(chance, whole=issubclass(reader_class, WindowReader))
    for _ in range(3):
        source.commit()
        source.show()
    reader = reader_class(source)
    steps = [source.commit, source.show, source.show, reader.take, reader.take, reader.launch, reader.land]
    steps += [reader.read] * 3
    for _ in range(120):
        chance.choice(steps)()
        if chance.random() < 0.03:
            reader.restart()
        reader.check()
    while not (reader.intake.progress.done and reader.position == len(source.log)):
        source.show()
        reader.take()
        reader.launch()
        reader.read()
        reader.land()
        reader.check()
    return reader


@pytest.mark.parametrize("reader_class", [Reader, WindowReader])
@pytest.mark.parametrize("seed", range(400))
def test_the_table_is_the_source_at_every_step(seed, reader_class):
    reader = simulate(seed, reader_class)
    assert reader.table == reader.source.rows(reader.source.log)


class TakesWhatNobodySees(Reader):
    def open(self, transactions) -> int:
        return len(transactions)


class LandsTooEarly(Reader):
    def may_land(self) -> bool:
        return True


class ForgetsWhatIsLate(Reader):
    def land(self) -> None:
        flights = tuple(replace(flight, late=()) for flight in self.intake.flights)
        self.intake = replace(self.intake, flights=flights)
        super().land()


class OrdersKeysItself(Reader):
    def before(self, key, bound) -> bool:
        return key < bound


class DropsWhatIsWithin(Reader):
    def place(self, key) -> int:
        place = super().place(key)
        return BELOW if place == BELOW else BEYOND


class TakesTheNextChunkForTheFirst(Reader):
    def place(self, key) -> int:
        place = super().place(key)
        return 1 if place in range(1, 1 + len(self.intake.flights)) else place


class LandsOutOfOrder(Reader):
    def land(self) -> None:
        if len(self.intake.flights) > 1 and self.source.random.random() < 0.5:
            self.intake = replace(self.intake, flights=self.intake.flights[1:])
        super().land()


class BelievesThatAllIsSeen(WindowReader):
    def sees(self, begin, xid) -> bool:
        return xid <= len(self.source.visible())


class LandsAtTheBegin(WindowReader):
    def high(self, id) -> int:
        return self.begins[id]


class TakesTheLogsEnd(WindowReader):
    """For what is visible: the mark that others take."""

    def open(self, transactions) -> int:
        return len(transactions)


@pytest.mark.parametrize(
    "broken",
    [
        TakesWhatNobodySees, LandsTooEarly, ForgetsWhatIsLate, OrdersKeysItself, DropsWhatIsWithin,
        TakesTheNextChunkForTheFirst, LandsOutOfOrder, BelievesThatAllIsSeen, LandsAtTheBegin, TakesTheLogsEnd,
    ],
)  # fmt: skip
def test_a_broken_rule_is_caught(broken):
    for seed in range(400):
        try:
            simulate(seed, broken)
        except (AssertionError, KeyError):
            return
    pytest.fail(f"{broken.__name__} was not caught")


def test_a_stopped_table_takes_nothing():
    stopped = Intake(progress=Progress(done=True)).stopped("why")
    assert stopped.take([(1, Change(key=("1",)))], [BELOW]) == ([], stopped)
    assert Progress.from_json(stopped.progress.to_json()) == stopped.progress


def test_what_is_left_out_of_a_row_that_moved_into_a_chunk_in_flight_is_not_taken_from_another():
    """The row has gone from where it was, and another may come there before the chunk lands: that is read again."""
    moved = [Change(key=("7",), values=("7", UNCHANGED), origin=("1",)), Change(key=("1",))]

    def taken(places: list[int], *, seen: bool = False) -> tuple[list, tuple]:
        flights = tuple(Flight(id=number, end=end, sees=lambda _: seen) for number, end in enumerate([("5",), None]))
        intake = Intake(progress=Progress(at=("3",)), flights=flights)
        applied, after = intake.take([(9, change) for change in moved], places)
        return applied, tuple(flight.id for flight in after.flights)

    assert taken([2, BELOW]) == ([moved[1]], (0,))  # from a chunk that has landed
    assert taken([2, 1]) == ([], (0,))  # from another in flight
    assert taken([2, BELOW], seen=True) == ([moved[1]], (0, 1))
    assert taken([2, 2]) == ([], (0, 1))  # both are in the same
