"""Random transactions on tables whose keys are hard to order."""

from __future__ import annotations

import itertools
import random
import threading

from tests.engine.cdc_postgres.conftest import rows, theirs
from tests.support.postgres import Postgres

_numbers = itertools.count(1)


LOAD = {
    "plain": "id bigint PRIMARY KEY, v text",
    "words": 'id text COLLATE "en-x-icu" PRIMARY KEY, v text',
    "pairs": 'a int, id text COLLATE "de-x-icu", v text, PRIMARY KEY (id, a)',
    "moods": "id tempers PRIMARY KEY, v text",
}
COLUMNS = {name: "a, id, v" if name == "pairs" else "id, v" for name in LOAD}
TEMPERS = ["zest", "Awe", "calm", "Bliss", "dread", "ardor", "Zeal", "envy"]
WORDS = [
    "a",
    "A",
    "ä",
    "b",
    "B",
    "z",
    "Z",
    "Zebra",
    "éa",
    "e",
    "f-g",
    "fg",
    "f_g",
    "10",
    "9",
    "",
    " x",
    "ß",
    "ss",
    "co-op",
    "coop",
]


def prepare(postgres: Postgres, chance: random.Random) -> None:
    postgres.run(f"CREATE TYPE tempers AS ENUM ({', '.join(map(repr, TEMPERS))})")
    for name, columns in LOAD.items():
        postgres.run(f"CREATE TABLE {name} ({columns})")
        for _ in range(40):
            postgres.run(f"INSERT INTO {name} ({COLUMNS[name]}) VALUES {values(name, chance)} ON CONFLICT DO NOTHING")


def key(name: str, chance: random.Random) -> str:
    if name == "plain":
        return str(chance.randrange(60))
    word = chance.choice(TEMPERS if name == "moods" else WORDS)
    return f"'{word}'"


def values(name: str, chance: random.Random) -> str:
    first = f"{chance.randrange(3)}, " if name == "pairs" else ""
    return f"({first}{key(name, chance)}, 'v{next(_numbers)}')"


def transaction(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.randrange(1, 5)):
        name = chance.choice(list(LOAD))
        kind = chance.randrange(5)
        if kind == 0:
            parts.append(f"DELETE FROM {name} WHERE id = {key(name, chance)}")
        elif kind == 1:
            parts.append(f"UPDATE {name} SET v = 'u{next(_numbers)}' WHERE id <= {key(name, chance)}")
        elif kind == 2 and name != "pairs":
            new = key(name, chance)
            parts.append(
                f"UPDATE {name} SET id = {new} WHERE id = {key(name, chance)}"
                f" AND NOT EXISTS (SELECT 1 FROM {name} WHERE id = {new})"
            )
        else:
            parts.append(f"INSERT INTO {name} ({COLUMNS[name]}) VALUES {values(name, chance)} ON CONFLICT DO NOTHING")
    if chance.random() < 0.003:
        parts.append(f"TRUNCATE {chance.choice(list(LOAD))}")
    return f"BEGIN; {'; '.join(parts)}; {'ROLLBACK' if chance.random() < 0.1 else 'COMMIT'}"


class Writer:
    """Random transactions, one after the other, until it is told to stop."""

    def __init__(self, postgres: Postgres, seed: int):
        self._connection = postgres.connect()
        self._stop = threading.Event()
        self._chance = random.Random(seed)
        self.done = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        cursor = self._connection.cursor()
        while not self._stop.is_set():
            cursor.execute(transaction(self._chance))
            self.done += 1
            self._stop.wait(0.01)  # a load, not a flood: others work on this machine, too

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()


def check_equal(db, postgres: Postgres, seed: int) -> None:
    for name in LOAD:
        query = f"SELECT {COLUMNS[name]} FROM {name}"
        found, wanted = rows(db, query), theirs(postgres, query)
        assert found == wanted, f"seed {seed}: {name} differs"
        assert rows(db, f"SELECT * FROM of_{name}") == sorted(
            ((*row[:-1],) for row in wanted if row[-1] is not None), key=repr
        )
