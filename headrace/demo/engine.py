"""The process that is going to be killed: an embedded engine with a few writers on it.

python -m headrace.demo.engine WAREHOUSE SEED
"""

from __future__ import annotations

import sys
import threading
import time

import headrace
from headrace.demo import shop
from headrace.demo.wire import say
from headrace.errors import HeadraceError


def main(warehouse: str, seed: int) -> None:
    database = headrace.connect(warehouse, parameters={"barrier_interval": "100ms"})
    say("open")
    for sql in (
        shop.TABLE,
        shop.history_sql(),
        *(f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in shop.VIEWS.items()),
    ):
        started = time.perf_counter()
        result = database.sql(sql)
        say("did", sql=sql, tag=result.tag, ms=_since(started))
    say("ready")
    for writer in range(shop.WRITERS):
        threading.Thread(target=_write, args=(database, writer, seed), daemon=True).start()
    while True:  # until the plug is pulled
        say("status", status=database.status())
        time.sleep(0.2)


def _write(database, writer: int, seed: int) -> None:
    session = database.session()
    customer = shop.Customer(writer, seed=seed)
    while True:
        change = customer.next()
        say("sent", writer=writer, change=change.to_json())
        started = time.perf_counter()
        try:
            session.sql(change.sql)
        except HeadraceError as error:
            say("failed", why=str(error), sql=change.sql[:200])
            return
        say("acknowledged", writer=writer, ms=_since(started))


def _since(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 1)


if __name__ == "__main__":
    try:
        main(sys.argv[1], int(sys.argv[2]))
    except HeadraceError as error:
        say("failed", why=str(error), sql="")
        sys.exit(1)
