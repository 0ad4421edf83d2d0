"""Snapshot and log of a real server, merged by the rules alone: no engine, and so many more chunks and losses.

What the engine adds (epochs, commits, tasks) is in test_load.py.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest

from headrace.cdc.changelog import Truncate, fold
from headrace.cdc.database import database
from headrace.cdc.intake import Flight, Gate, Intake, Progress
from headrace.cdc.mysql.server import Control
from headrace.cdc.mysql.session import Address
from headrace.cdc.mysql.types import printed
from headrace.cdc.source import MYSQL, SourceState
from tests.engine.cdc.load import Writer
from tests.engine.cdc_mariadb.conftest import BOTH, log_end
from tests.engine.cdc_mariadb.keys import changes, fill, keys
from tests.engine.cdc_mariadb.load import MariaDbLoad
from tests.engine.conftest import eventually
from tests.support.mariadb import PASSWORD, USER

SERVERS = BOTH


@dataclass
class Following:
    """One table, as texts by key; what is in flight, and what a crash would leave."""

    name: str
    address: Address
    chance: random.Random
    rows: dict = field(default_factory=dict)
    landed: int = 0
    largest_split: int = 4

    def __post_init__(self) -> None:
        self.server, self.control = database(MYSQL), Control(self.address)
        self.table = self.control.table("shop", self.name)
        self.state = self.server.set_up(
            self.control,
            SourceState(
                host="", port=1, user="", database="shop", secret=None, sslmode="", sslrootcert=None, connector=MYSQL,
                server_id=self.chance.randrange(1000, 1 << 30),
            ),
        )  # fmt: skip
        self.intake = Intake(progress=Progress())
        self.stream = self.server.feed(self.state, self.address, lambda: None)
        self.stream.start()
        self.held, self.chunk = None, {}

    def crash(self) -> None:
        """All that was not durable is gone."""
        self.stream.stop()
        self.intake = Intake(progress=Progress.from_json(self.intake.progress.to_json()))
        self.stream = self.server.feed(self.state, self.address, lambda: None)
        self.stream.start()

    def take(self) -> None:
        pieces = self.stream.peek(self.chance.randrange(1, 200))
        shown = self.control.snapshot()
        pieces = pieces[: Gate(sees=shown.sees).open([piece.xid for piece in pieces])]
        if not pieces:
            return
        numbered = []
        for piece in pieces:
            for event in piece.events:
                if event.relations is None:
                    found = event.changes(self.table)
                elif self.table.is_called(event.relation.schema, event.relation.name):
                    found = self.server.reader(self.table, event.relation).changes(event)
                else:
                    continue
                numbered += [(piece.xid, change) for change in found]
        places = self.intake.places(numbered, lambda keys, bounds: self.control.places(self.table, keys, bounds))
        applied, self.intake = self.intake.take(numbered, places)
        self.apply(applied)
        last = pieces[-1]
        assert last.final
        self.commit(last.position)
        self.stream.take(pieces)

    def commit(self, position: int) -> None:
        self.state = SourceState(**(self.state.__dict__ | {"lsn": position} | self.stream.known_at(position)))

    def apply(self, changes) -> None:
        segment: list = []
        for change in changes:
            if isinstance(change, Truncate):
                self.rows, segment = {}, []
            else:
                segment.append(change)
        folded, at = fold(segment), [column.name for column in self.table.columns]
        for key in folded.deletes:
            self.rows.pop(key, None)
        for values in folded.puts:
            self.rows[tuple(values[at.index(name)] for name in self.table.key)] = values

    def launch(self) -> None:
        progress = self.intake.progress
        if progress.done or self.intake.flights:
            return
        ends, start = [], progress.at
        for _ in range(self.chance.randrange(1, 4)):
            start = self.control.key_after(self.table, start, self.chance.randint(1, self.largest_split))
            ends.append(start)
            if start is None:
                break
        held = self.server.hold(self.address)
        self.intake = self.intake.launched(Flight(end=ends[-1], sees=held.sees))
        self.chunk = {}
        for begin, end in zip([progress.at, *ends], ends, strict=False):
            self.take()  # and what others do meanwhile
            if not self.intake.flights:
                return
            self.chunk |= self.read(begin, end)
        held.read()
        self.intake = self.intake.was_read(0, held.high)

    def read(self, begin, end) -> dict:
        session, found = self.address.session(), {}
        at = [column.name for column in self.table.columns]
        for row in session.rows(self.table.rows_between(begin, end)):
            values = tuple(
                None if value is None else printed(column.type)(value)
                for value, column in zip(row, self.table.columns, strict=True)
            )
            found[tuple(values[at.index(name)] for name in self.table.key)] = values
        session.close()
        return found

    def land(self) -> None:
        if self.intake.may_land(self.stream.position):
            applied, self.intake = self.intake.landed(len(self.chunk))
            assert not set(self.rows) & set(self.chunk)
            self.rows |= self.chunk
            self.apply(applied)
            self.landed += 1

    def turn(self) -> None:
        self.take()
        self.land()
        self.launch()


@pytest.mark.parametrize("name", MariaDbLoad.tables)
def test_a_table_is_its_source_whatever_happens(mariadb, name):
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    load = MariaDbLoad()
    load.prepare(mariadb, chance)
    address = Address(host="127.0.0.1", port=mariadb.port, user=USER, database="shop", password=PASSWORD)
    writer = Writer(load, mariadb, seed, pause=0.001)
    following = Following(name, address, chance)
    try:
        for _ in range(2):  # from the beginning, again and again, while the writer goes on
            following.rows, following.intake = {}, Intake(progress=Progress())
            while not following.intake.progress.done:
                following.turn()
                if chance.random() < 0.1:
                    following.crash()
            for _ in range(5):
                following.turn()
            checked(mariadb, writer, following, seed)
    finally:
        writer.stop()
        following.stream.stop()
        following.control.close()
    assert following.landed >= 2 and writer.done > 20


def test_keys_of_any_type(mariadb):
    """Where a key lies is asked of the database: on a wrong answer rows are lost, or are there twice."""
    address = Address(host="127.0.0.1", port=mariadb.port, user=USER, database="shop", password=PASSWORD)
    for number, kind in enumerate(keys(mariadb)):
        fill(mariadb, f"k{number}", kind)
        following = Following(f"k{number}", address, random.Random(7), largest_split=1)
        try:
            left = changes(f"k{number}", kind)
            while not following.intake.progress.done or left:
                following.turn()
                if left:
                    mariadb.run(left.pop(0))
            wanted = log_end(mariadb)
            eventually(lambda one=following, wanted=wanted: (one.turn(), one.stream.position >= wanted)[1])
            assert following.rows == following.read(None, None) and following.landed > 2, kind
        finally:
            following.stream.stop()
            following.control.close()


def checked(mariadb, writer: Writer, following: Following, seed: int) -> None:
    with writer.held():
        wanted = log_end(mariadb)

        def reached() -> bool:
            following.turn()
            return following.stream.position >= wanted

        eventually(reached)
        assert following.rows == following.read(None, None), f"seed {seed}: {following.name} differs"
