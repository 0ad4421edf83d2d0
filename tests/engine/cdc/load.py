"""Random transactions on tables with keys that only their database can order."""

from __future__ import annotations

import itertools
import random
import threading
from abc import ABC, abstractmethod
from typing import Any, ClassVar

_numbers = itertools.count(1)

TEMPERS = ["zest", "Awe", "calm", "Bliss", "dread", "ardor", "Zeal", "envy"]
WORDS = """a|A|ä|b|B|B |z|Z|Zebra|éa|e|f-g|fg|f_g|10|9|| x|ß|ss|co-op|coop""".split("|")
COLUMNS = {"plain": "id, v", "words": "id, v", "pairs": "a, id, v", "moods": "id, v"}


class Load(ABC):
    """Tables of one kind of server, and what is done to them."""

    tables: ClassVar[dict[str, str]]
    """Their columns, by name: those of COLUMNS"""
    smallest: ClassVar[int] = 0
    """Of the numbers that are keys of "plain" """
    truncates_in_transactions: ClassVar[bool]

    def prepare(self, server: Any, chance: random.Random) -> None:
        for name, columns in self.tables.items():
            server.run(f"CREATE TABLE {name} ({columns})")
            for _ in range(40):
                server.run(self.insert(name, values(name, self.key(name, chance), chance)))

    @abstractmethod
    def insert(self, name: str, row: str) -> str:
        """Leaves a row that is there already alone."""

    @abstractmethod
    def replace(self, name: str, row: str) -> str:
        """Overwrites a row that is there already."""

    @abstractmethod
    def move(self, name: str, old: str, new: str) -> str:
        """Gives rows another key, unless there is one of that key."""

    def between(self, chance: random.Random) -> list[str]:
        """What is done between two transactions, now and then."""
        return []

    def key(self, name: str, chance: random.Random) -> str:
        if name == "plain":
            return str(self.smallest + chance.randrange(60))
        return f"'{chance.choice(TEMPERS if name == 'moods' else WORDS)}'"

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
            return f"UPDATE {name} SET v = 'u{next(_numbers)}' WHERE id <= {key}"
        if kind in (2, 3):  # also to a key that is the same to the database, and other letters
            return self.move(name, key, self.key(name, chance))
        row = values(name, key, chance)
        return self.replace(name, row) if kind == 4 else self.insert(name, row)


def values(name: str, key: str, chance: random.Random) -> str:
    first = f"{chance.randrange(3)}, " if name == "pairs" else ""
    return f"({first}{key}, 'v{next(_numbers)}')"


class Writer:
    """Random transactions, one after the other, until it is told to stop."""

    def __init__(self, load: Load, server: Any, seed: int, pause: float = 0.01):
        """With a pause it is a load, not a flood: others work on this machine, too."""
        self._load = load
        self._connection = server.connect()
        self._pause = pause
        self._between = threading.Lock()
        self._stop = threading.Event()
        self._chance = random.Random(seed)
        self.done = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        cursor = self._connection.cursor()
        while not self._stop.is_set():
            with self._between:
                for statement in self._load.transaction(self._chance):
                    cursor.execute(statement)
            self.done += 1
            self._stop.wait(self._pause)

    def held(self) -> threading.Lock:
        """``with`` it, nothing is written."""
        return self._between

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()


def create_tables(source: str, chance: random.Random) -> list[str]:
    return [
        f"CREATE TABLE IF NOT EXISTS {name} (*) FROM {source} TABLE '{name}'"
        f" WITH (backfill.num_rows_per_split = {chance.randrange(1, 4)},"
        f" backfill.parallelism = {chance.randrange(1, 4)})"
        for name in COLUMNS
    ]


def create_views() -> list[str]:
    return [
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS of_{name} AS"
        f" SELECT {columns.removesuffix(', v')} FROM {name} WHERE v IS NOT NULL"
        for name, columns in COLUMNS.items()
    ]


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
