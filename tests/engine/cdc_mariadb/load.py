"""The random load on tables of MariaDB and MySQL."""

from __future__ import annotations

import random

import pymysql

from tests.engine.cdc.load import COLUMNS, FIELD, KEYS, ROW, TEMPERS, Load


class MariaDbLoad(Load):
    tables = {
        "plain": "id BIGINT UNSIGNED PRIMARY KEY, v VARCHAR(20)",
        "words": "id VARCHAR(20) COLLATE utf8mb4_general_ci PRIMARY KEY, v VARCHAR(20)",
        "pairs": "a INT, id VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci, v TEXT, PRIMARY KEY (id, a)",
        "moods": f"id ENUM({', '.join(map(repr, TEMPERS))}) PRIMARY KEY, v VARCHAR(20)",
    }
    smallest = (1 << 63) - 30
    truncates_in_transactions = False  # they end there
    lost = (pymysql.OperationalError, pymysql.InterfaceError)

    def insert(self, name: str, row: str) -> str:
        return f"INSERT IGNORE INTO {name} VALUES {row}"

    def replace(self, name: str, row: str) -> str:
        return f"REPLACE INTO {name} VALUES {row}"

    def as_one_text(self, name: str) -> str:
        row = f", '{FIELD}', ".join(f"CONVERT({column} USING utf8mb4)" for column in COLUMNS[name].split(", "))
        return f"SELECT GROUP_CONCAT({row} ORDER BY {KEYS[name]} SEPARATOR '{ROW}') FROM {name}"

    def move(self, name: str, old: str, new: str) -> str:
        return f"UPDATE IGNORE {name} SET id = {new} WHERE id = {old}"

    def between(self, chance: random.Random) -> list[str]:
        return ["FLUSH BINARY LOGS"] if chance.random() < 0.01 else []
