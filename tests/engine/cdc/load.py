"""Random transactions on tables with keys that only their database can order."""

from __future__ import annotations

import itertools
import random
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar

from tests.support.waiting import eventually

_numbers = itertools.count(1)

TEMPERS = ["zest", "Awe", "calm", "Bliss", "dread", "ardor", "Zeal", "envy"]
WORDS = """a|A|ä|b|B|B |z|Z|Zebra|éa|e|f-g|fg|f_g|10|9|| x|ß|ss|co-op|coop""".split("|")
COLUMNS = {"plain": "id, v", "words": "id, v", "pairs": "a, id, v", "moods": "id, v"}
KEYS = {"plain": "id", "words": "id", "pairs": "id, a", "moods": "id"}

EVERY = 2
"""Of so many transactions, the tables' rows after one are written down."""

State = dict[str, list[tuple[str, ...]]]
"""The rows of the tables, as text, in the order of their keys"""

FIELD, ROW = "|", "~"
"""What separates values and rows where they are one text; no value has them"""


class Load(ABC):
    """Tables of one kind of server, and what is done to them."""

    tables: ClassVar[dict[str, str]]
    """Their columns, by name: those of COLUMNS"""
    smallest: ClassVar[int] = 0
    """Of the numbers that are keys of "plain" """
    truncates_in_transactions: ClassVar[bool]
    lost: ClassVar[tuple[type[Exception], ...]]
    """What a client sees of a server that goes away"""

    def prepare(self, server: Any, chance: random.Random) -> None:
        for name, columns in self.tables.items():
            server.run(f"CREATE TABLE {name} ({columns})")
        server.run("CREATE TABLE turns (id INT PRIMARY KEY, number BIGINT)")
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("INSERT INTO turns VALUES (1, 0)")
            for name, _ in itertools.product(self.tables, range(120)):
                cursor.execute(self.insert(name, values(name, self.key(name, chance), chance)))
            cursor.execute("COMMIT")
        connection.close()

    @abstractmethod
    def insert(self, name: str, row: str) -> str:
        """Leaves a row that is there already alone."""

    @abstractmethod
    def replace(self, name: str, row: str) -> str:
        """Overwrites a row that is there already."""

    @abstractmethod
    def move(self, name: str, old: str, new: str) -> str:
        """Gives rows another key, unless there is one of that key."""

    @abstractmethod
    def as_one_text(self, name: str) -> str:
        """A SELECT of all rows of a table as one text, in the order of their keys. That leaves the work to the server:
        the writer shares its process with what is tested."""

    def between(self, chance: random.Random) -> list[str]:
        """What is done between two transactions, now and then."""
        return []

    def key(self, name: str, chance: random.Random) -> str:
        if name == "plain":
            return str(self.smallest + chance.randrange(160))
        if name == "moods":
            return f"'{chance.choice(TEMPERS)}'"
        return f"'{chance.choice(WORDS)}{chance.choice(['', '1', '2'])}'"

    def transaction(self, chance: random.Random) -> list[str]:
        parts = ["BEGIN", *(self._change(chance) for _ in range(chance.randrange(1, 5)))]
        if chance.random() < 0.2:
            parts += ["SAVEPOINT s", f"DELETE FROM plain WHERE id = {self.key('plain', chance)}", "ROLLBACK TO s"]
        truncate = [f"TRUNCATE {chance.choice(list(self.tables))}"] if chance.random() < 0.003 else []
        if self.truncates_in_transactions:
            parts, truncate = parts + truncate, []
        return [*parts, "ROLLBACK" if chance.random() < 0.1 else "COMMIT", *truncate, *self.between(chance)]

    def _change(self, chance: random.Random) -> str:
        name = chance.choice(list(self.tables))
        kind = chance.randrange(7)
        key = self.key(name, chance)
        if kind == 0:
            return f"DELETE FROM {name} WHERE id = {key}"
        if kind == 1:
            some = "<=" if chance.random() < 0.1 else "="
            return f"UPDATE {name} SET v = 'u{next(_numbers)}' WHERE id {some} {key}"
        if kind in (2, 3):  # also to a key that is the same to the database, and other letters
            return self.move(name, key, self.key(name, chance))
        row = values(name, key, chance)
        return self.replace(name, row) if kind == 4 else self.insert(name, row)


def values(name: str, key: str, chance: random.Random) -> str:
    first = f"{chance.randrange(3)}, " if name == "pairs" else ""
    return f"({first}{key}, 'v{next(_numbers)}')"


class Writer:
    """Random transactions, one after the other, until it is told to stop; the server may go away and come back.

    Each has a number, which it leaves in the table "turns". What the tables were after some of them is written down: a
    copy of all tables says by the number in it which state it has to be equal to, while the writer goes on.
    """

    def __init__(self, load: Load, server: Any, seed: int, pause: float = 0.0005):
        """With a pause it is a load, not a flood: others work on this machine, too."""
        self._load, self._server = load, server
        self._connection = server.connect()
        self._pause = pause
        self._between = threading.Lock()
        self._stop = threading.Event()
        self._chance = random.Random(seed)
        self._number = 0
        self._states: dict[int, list[tuple[str | None, ...]]] = {}
        self.done = 0
        self._begun, self._away = time.monotonic(), 0.0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            with self._between:
                try:
                    self._transaction()
                except self._load.lost:
                    self._connect_again()
            self.done += 1
            self._stop.wait(self._pause)

    def _transaction(self) -> None:
        begun = False
        with self._connection.cursor() as cursor:
            for statement in self._load.transaction(self._chance):
                cursor.execute(statement)
                if statement == "BEGIN":
                    begun = True
                    cursor.execute(f"UPDATE turns SET number = {self._number + 1}")
                elif statement in ("COMMIT", "ROLLBACK"):
                    begun = False
                    self._number += statement == "COMMIT"
                if not begun:
                    self._write_down(cursor)

    def _connect_again(self) -> None:
        """Whether the transaction has been committed in which the server went away, the server knows."""

        def connected() -> Any:
            try:
                return self._server.connect()
            except self._load.lost:
                return None

        lost = time.monotonic()
        self._connection = eventually(connected)
        self._away += time.monotonic() - lost
        with self._connection.cursor() as cursor:
            cursor.execute("SELECT number FROM turns")
            self._number = cursor.fetchone()[0]
            self._write_down(cursor)

    def _write_down(self, cursor: Any) -> None:
        """There may be several of a number: some statements are no transactions."""
        if self._number % EVERY == 0:
            cursor.execute(f"SELECT {', '.join(f'({self._load.as_one_text(name)})' for name in COLUMNS)}")
            self._states.setdefault(self._number, []).append(cursor.fetchone())

    def states(self, number: int) -> list[State]:
        """What the tables may have been with this number, if that was written down."""
        with self._between:
            return [
                {name: _rows(text) for name, text in zip(COLUMNS, state, strict=True)}
                for state in self._states.get(number, [])
            ]

    def held(self) -> threading.Lock:
        """``with`` it, nothing is written."""
        return self._between

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()
        there = time.monotonic() - self._begun - self._away
        print(f"{self.done} transactions, {self.done / there:.0f} a second while the server was there")


def _rows(text: str | None) -> list[tuple[str, ...]]:
    return [] if text is None else [tuple(row.split(FIELD)) for row in text.split(ROW)]


def create_tables(source: str, chance: random.Random) -> list[str]:
    return [f"CREATE TABLE IF NOT EXISTS turns (*) FROM {source} TABLE 'turns'", "WAIT turns"] + [
        f"CREATE TABLE IF NOT EXISTS {name} (*) FROM {source} TABLE '{name}'"
        f" WITH (backfill.num_rows_per_split = {chance.choice([1, 3, 5, 8])},"
        f" backfill.parallelism = {chance.randrange(1, 4)})"
        for name in COLUMNS
    ]


def create_views() -> list[str]:
    return [
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS of_{name} AS"
        f" SELECT {columns.removesuffix(', v')} FROM {name} WHERE v IS NOT NULL"
        for name, columns in COLUMNS.items()
    ]


def _found(db, names: Iterable[str], *, views: bool) -> tuple[int | None, dict[str, list[tuple[str, ...]]]]:
    """The number of the last transaction, and the rows of tables and the views on them: of one moment."""

    def part(relation: str, columns: str) -> str:
        texts = ", ".join(
            f"CAST({name} AS VARCHAR) AS {name}" if name in columns.split(", ") else f"CAST(NULL AS VARCHAR) AS {name}"
            for name in ("a", "id", "v")
        )
        return f"SELECT '{relation}' AS relation, {texts} FROM {relation}"

    wanted = {name: COLUMNS[name] for name in names}
    if views:
        wanted |= {f"of_{name}": columns.removesuffix(", v") for name, columns in wanted.items()}
    turn = "SELECT 'turns' AS relation, NULL AS a, CAST(number AS VARCHAR) AS id, NULL AS v FROM turns"
    number, found = None, {relation: [] for relation in wanted}
    for relation, *values in db.sql(" UNION ALL ".join([turn, *(part(*each) for each in wanted.items())])).rows():
        if relation == "turns":
            number = int(values[1])
        else:
            found[relation].append(tuple(value for value in values if value is not None))
    return number, found


def _is_state(found: dict[str, list[tuple[str, ...]]], state: State, complete: bool) -> bool:
    for relation, rows in found.items():
        wanted = state[relation.removeprefix("of_")]
        shown = wanted if complete else wanted[: len(rows)]
        if sorted(rows) != sorted(row[:-1] if relation.startswith("of_") else row for row in shown):
            return False
    return True


def check_meanwhile(db, writer: Writer, chance: random.Random, seed: int, *, complete: bool) -> bool:
    """While the writer goes on: each of some tables has exactly the rows that it had after the transaction that "turns"
    tells. If it is being filled, it has the first of them, in the order of the keys; of views nothing is said then.
    Answers whether a state was seen that was written down."""
    for _ in range(8):
        number, found = _found(db, chance.sample(list(COLUMNS), 2), views=complete)
        states = [] if number is None else writer.states(number)
        if states:
            assert any(_is_state(found, state, complete) for state in states), (
                f"seed {seed}: after transaction {number}: {found} is none of {states}"
            )
            return True
    return False


def check_equal(db, server: Any, seed: int) -> None:
    """All tables and the views on them; no row that is written has a NULL."""

    def ours(query: str, name: str) -> list[tuple]:
        # Numbers of 64 bits without a sign are decimals here.
        found = (tuple(row) for row in db.sql(query).rows())
        return sorted(((int(row[0]), *row[1:]) if name == "plain" else row for row in found), key=repr)

    for name, columns in COLUMNS.items():
        query = f"SELECT {columns} FROM {name}"
        wanted = sorted(server.run(query), key=repr)
        assert ours(query, name) == wanted, f"seed {seed}: {name} differs"
        assert ours(f"TABLE of_{name}", name) == sorted((row[:-1] for row in wanted), key=repr), f"seed {seed}: {name}"
