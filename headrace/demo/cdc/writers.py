"""Clients of the PostgreSQL server: short transactions that never stop, and how long their commits take."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

from headrace.cdc.postgres.server import driver
from headrace.demo.cdc.server import PrivateServer

WRITERS, PER_SECOND = 3, 100
TABLE = "CREATE TABLE orders (id bigint PRIMARY KEY, customer text NOT NULL, amount numeric(10,2), placed timestamptz)"
HISTORY = """
    INSERT INTO orders SELECT g, 'customer ' || g % 5003, (g::bigint * 7919 % 100003) / 100.0,
    timestamptz '2026-01-01 00:00:00Z' + g * interval '1 second' FROM generate_series(1, {rows}) AS g
"""


class Writers:
    def __init__(self, server: PrivateServer, rows: int):
        self._server, self._rows = server, rows
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(number,), daemon=True) for number in range(WRITERS)]
        self.transactions = 0
        self.commits: list[float] = []
        """Seconds of each since it was emptied last."""
        self.problem: str | None = None
        """Why one of them could not go on"""

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _write(self, number: int) -> None:
        try:
            self._go_on(number)
        except driver().Error as error:
            self.problem = str(error).strip().splitlines()[0]

    def _go_on(self, number: int) -> None:
        chosen = random.Random(number)
        connection = self._server.connect()
        connection.autocommit = False
        new = 10**12 + number
        with connection.cursor() as cursor:
            while not self._stop.is_set():
                began = time.perf_counter()
                new = self._transaction(cursor, chosen, new)
                connection.commit()
                took = time.perf_counter() - began
                self.commits.append(took)
                self.transactions += 1
                self._stop.wait(max(0.0, 1 / PER_SECOND - took))
        connection.close()

    def _transaction(self, cursor: Any, chosen: random.Random, new: int) -> int:
        anywhere = chosen.randint(1, self._rows)
        cursor.execute("UPDATE orders SET amount = amount + 1 WHERE id = %s", (anywhere,))
        what = chosen.random()
        if what < 0.3:
            new += WRITERS
            cursor.execute("INSERT INTO orders VALUES (%s, 'new', 1, now())", (new,))
        elif what < 0.4:
            cursor.execute("DELETE FROM orders WHERE id = %s", (chosen.randint(1, self._rows),))
        elif what < 0.45:  # a row that moves to another key, from before the position to behind it, or back
            new += WRITERS
            cursor.execute("UPDATE orders SET id = %s WHERE id = %s", (new, chosen.randint(1, self._rows)))
        return new
