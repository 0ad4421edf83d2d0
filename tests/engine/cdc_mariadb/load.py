"""Random transactions on tables with keys that only their database can order."""

from __future__ import annotations

import itertools
import random
import threading

from tests.engine.cdc_mariadb.conftest import rows, theirs
from tests.support.mariadb import MariaDb

_numbers = itertools.count(1)

TABLES = {
    "plain": "id BIGINT UNSIGNED PRIMARY KEY, v VARCHAR(20)",
    "words": "id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v VARCHAR(20)",
    "pairs": "a INT, id VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci, v TEXT, PRIMARY KEY (id, a)",
    "moods": "id ENUM('zest','Awe','calm','Bliss','dread','ardor','Zeal','envy') PRIMARY KEY, v VARCHAR(20)",
}
COLUMNS = {name: "a, id, v" if name == "pairs" else "id, v" for name in TABLES}
TEMPERS = ["zest", "Awe", "calm", "Bliss", "dread", "ardor", "Zeal", "envy"]
WORDS = [
    "a",
    "A",
    "ä",
    "b",
    "B ",
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
]


def prepare(mariadb: MariaDb, chance: random.Random) -> None:
    for name, columns in TABLES.items():
        mariadb.run(
            f"CREATE TABLE {name} ({columns})",
            *(f"INSERT IGNORE INTO {name} ({COLUMNS[name]}) VALUES {values(name, chance)}" for _ in range(40)),
        )


def key(name: str, chance: random.Random) -> str:
    if name == "plain":
        return str(chance.randrange(60) + (1 << 63) - 30)
    return f"'{chance.choice(TEMPERS if name == 'moods' else WORDS)}'"


def values(name: str, chance: random.Random) -> str:
    first = f"{chance.randrange(3)}, " if name == "pairs" else ""
    return f"({first}{key(name, chance)}, 'v{next(_numbers)}')"


def transaction(chance: random.Random) -> list[str]:
    parts = ["BEGIN"]
    for _ in range(chance.randrange(1, 5)):
        name = chance.choice(list(TABLES))
        kind = chance.randrange(7)
        if kind == 0:
            parts.append(f"DELETE FROM {name} WHERE id = {key(name, chance)}")
        elif kind == 1:
            parts.append(f"UPDATE {name} SET v = 'u{next(_numbers)}' WHERE id <= {key(name, chance)}")
        elif kind in (2, 3):  # also to a key that is the same to the database, and other letters
            parts.append(f"UPDATE IGNORE {name} SET id = {key(name, chance)} WHERE id = {key(name, chance)}")
        elif kind == 4:
            parts.append(f"REPLACE INTO {name} ({COLUMNS[name]}) VALUES {values(name, chance)}")
        else:
            parts.append(f"INSERT IGNORE INTO {name} ({COLUMNS[name]}) VALUES {values(name, chance)}")
    if chance.random() < 0.2:
        parts += ["SAVEPOINT s", f"DELETE FROM plain WHERE id = {key('plain', chance)}", "ROLLBACK TO s"]
    parts.append("ROLLBACK" if chance.random() < 0.1 else "COMMIT")
    if chance.random() < 0.003:
        parts.append(f"TRUNCATE {chance.choice(list(TABLES))}")
    if chance.random() < 0.01:
        parts.append("FLUSH BINARY LOGS")
    return parts


class Writer:
    """Random transactions, one after the other, until it is told to stop."""

    def __init__(self, mariadb: MariaDb, seed: int, pause: float = 0.01):
        """With a pause it is a load, not a flood: others work on this machine, too."""
        self._connection = mariadb.connect()
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
                for statement in transaction(self._chance):
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


def create_tables(chance: random.Random) -> list[str]:
    statements = []
    for name in TABLES:
        statements.append(
            f"CREATE TABLE IF NOT EXISTS {name} (*) FROM my TABLE '{name}'"
            f" WITH (backfill.num_rows_per_split = {chance.randrange(1, 4)},"
            f" backfill.parallelism = {chance.randrange(1, 4)})"
        )
    return statements


def create_views() -> list[str]:
    return [
        f"CREATE MATERIALIZED VIEW IF NOT EXISTS of_{name} AS"
        f" SELECT {COLUMNS[name].removesuffix(', v')} FROM {name} WHERE v IS NOT NULL"
        for name in TABLES
    ]


def check_equal(db, mariadb: MariaDb, seed: int) -> None:
    for name in TABLES:
        query = f"SELECT {COLUMNS[name]} FROM {name}"
        found, wanted = rows(db, query), theirs(mariadb, query)
        if name == "plain":
            found = [(int(id), v) for id, v in found]
        assert sorted(found, key=repr) == wanted, f"seed {seed}: {name} differs"
        viewed = [tuple(int(part) if name == "plain" else part for part in row) for row in rows(db, f"TABLE of_{name}")]
        assert sorted(viewed, key=repr) == sorted((row[:-1] for row in wanted), key=repr), f"seed {seed}: of_{name}"
