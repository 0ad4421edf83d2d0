"""The process that is going to be killed: an embedded engine with a large table, writers, and views being filled.

python -m headrace.demo.engine WAREHOUSE SEED ROWS CHUNK
"""

from __future__ import annotations

import sys
import threading
import time

import headrace
from headrace.database import Database
from headrace.demo import shop
from headrace.demo.ledger import Ledger
from headrace.demo.wire import say
from headrace.errors import HeadraceError

LOOK_EVERY = 0.2


def main(warehouse: str, seed: str, rows: str, chunk: str) -> None:
    database = headrace.connect(warehouse)
    say("open")
    for sql in (shop.TABLE, shop.history_sql(int(rows))):
        _did(database, sql)
    writers = Writers(database)
    for writer in range(shop.WRITERS):
        writers.start(shop.Customer(writer, seed=int(seed), rows=int(rows)), writer)
    writers.warm_up()
    say("writing")
    session = database.session()
    session.sql("SET background_ddl = true")
    session.sql(f"SET backfill_pacing = '{chunk}'")
    threading.Thread(target=report_jobs, args=(database,), daemon=True).start()
    for name, sql in shop.CREATE.items():
        started = time.perf_counter()
        session.sql(sql)
        say("created", name=name, sql=sql, ms=since(started))
    threading.Event().wait()  # until the plug is pulled


def _did(database: Database, sql: str) -> None:
    started = time.perf_counter()
    database.sql(sql)
    say("did", sql=sql, ms=since(started))


def report_jobs(database: Database, over: threading.Event | None = None) -> None:
    """All that a screen needs, several times a second."""
    over = over or threading.Event()
    while not over.is_set():
        # The jobs first: one that is over when it is asked for is then in the relations.
        jobs = database.engine.jobs.list()
        wanted = ("name", "state", "error", "fraction", "rows_read", "rows_total", "rows_per_second", "seconds_left",
                  "rows_in_flight")  # fmt: skip
        status = database.status()
        say(
            "status",
            epoch=status["epoch"],
            last_epoch_ms=status["last_epoch_ms"],
            jobs=[{name: job[name] for name in wanted} for job in jobs],
            relations=[{"name": each["name"], "rows": each["rows"]} for each in status["relations"]],
        )
        over.wait(LOOK_EVERY)


class Writers:
    """Each in a thread of its own: it sends its next statement when the one before was acknowledged."""

    def __init__(self, database: Database, ledger: Ledger | None = None):
        self._database, self._ledger = database, ledger
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._acknowledged = 0

    def start(self, customer: shop.Customer, writer: int) -> None:
        thread = threading.Thread(target=self._write, args=(customer, writer), daemon=True)
        self._threads.append(thread)
        thread.start()

    def warm_up(self) -> None:
        """The first statements of a JVM are slow; what they take is not what is to be compared."""
        while self._acknowledged < 2 * shop.WRITERS:
            time.sleep(0.05)

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _write(self, customer: shop.Customer, writer: int) -> None:
        session = self._database.session()
        while not self._stop.is_set():
            change = customer.next()
            say("sent", writer=writer, change=change.to_json())
            if self._ledger is not None:
                self._ledger.sent(writer, change)
            started = time.perf_counter()
            try:
                session.sql(change.sql)
            except HeadraceError as error:
                say("failed", why=str(error), sql=change.sql[:200])
                return
            say("acknowledged", writer=writer, ms=since(started))
            if self._ledger is not None:
                self._ledger.acknowledge(writer)
            self._acknowledged += 1


def since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except HeadraceError as error:
        say("failed", why=str(error), sql="")
        sys.exit(1)
