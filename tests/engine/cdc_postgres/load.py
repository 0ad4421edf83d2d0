"""The random load on tables of PostgreSQL."""

from __future__ import annotations

import random

import psycopg2

from tests.engine.cdc.load import COLUMNS, FIELD, KEYS, ROW, TEMPERS, Load


class PostgresLoad(Load):
    tables = {
        "plain": "id bigint PRIMARY KEY, v text",
        "words": 'id text COLLATE "en-x-icu" PRIMARY KEY, v text',
        "pairs": 'a int, id text COLLATE "de-x-icu", v text, PRIMARY KEY (id, a)',
        "moods": "id tempers PRIMARY KEY, v text",
    }
    truncates_in_transactions = True
    lost = (psycopg2.OperationalError, psycopg2.InterfaceError)

    def prepare(self, server, chance: random.Random) -> None:
        server.run(f"CREATE TYPE tempers AS ENUM ({', '.join(map(repr, TEMPERS))})")
        super().prepare(server, chance)

    def insert(self, name: str, row: str) -> str:
        return f"INSERT INTO {name} VALUES {row} ON CONFLICT DO NOTHING"

    def replace(self, name: str, row: str) -> str:
        key = "id, a" if name == "pairs" else "id"
        return f"INSERT INTO {name} VALUES {row} ON CONFLICT ({key}) DO UPDATE SET v = excluded.v"

    def as_one_text(self, name: str) -> str:
        row = f" || '{FIELD}' || ".join(f"{column}::text" for column in COLUMNS[name].split(", "))
        return f"SELECT string_agg({row}, '{ROW}' ORDER BY {KEYS[name]}) FROM {name}"

    def move(self, name: str, old: str, new: str) -> str:
        return f"UPDATE {name} SET id = {new} WHERE id = {old} AND NOT EXISTS (SELECT 1 FROM {name} WHERE id = {new})"
