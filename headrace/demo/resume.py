"""The process that opens what the killed one left, goes on, and says whether it is right.

python -m headrace.demo.resume WAREHOUSE SEED LEDGER SCRATCH
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import headrace
from headrace.database import Database
from headrace.demo import shop
from headrace.demo.engine import Writers, report_jobs, since
from headrace.demo.ledger import Ledger
from headrace.demo.wire import say
from headrace.errors import HeadraceError


def main(warehouse: str, seed: str, ledger_path: str, scratch: str) -> bool:
    ledger = Ledger.from_json(json.loads(Path(ledger_path).read_text()))
    started = time.perf_counter()
    # The dead engine could not say that it is gone.
    with headrace.connect(warehouse, takeover=True) as database:
        database.sql("PAUSE")  # so that what was saved can be told from what is read from now on
        jobs = {job["name"]: job["rows_read"] for job in database.engine.jobs.list()}
        say("open", epoch=database.status()["epoch"], seconds=since(started) / 1000, jobs=jobs)
        good = _compare(database, ledger)
        over = threading.Event()
        reporter = threading.Thread(target=report_jobs, args=(database, over), daemon=True)
        writers = Writers(database, ledger)
        for writer in range(shop.WRITERS):
            customer = shop.Customer(writer, seed=int(seed) + 1, rows=ledger.history, touched=ledger.touched[writer])
            writers.start(customer, writer)
        database.sql("RESUME")
        reporter.start()
        say("resumed")
        database.sql("WAIT")
        over.set()
        reporter.join()
        writers.stop()
        say("filled")
        # Side by side, because most of the time goes into planning queries for the first time.
        with ThreadPoolExecutor(max_workers=len(shop.CREATE)) as threads:
            good = all(list(threads.map(lambda name: _check(database, name), shop.CREATE))) and good
        good = _compare(database, ledger) and good
        _copy_offline(database, scratch)
    return good


def _compare(database: Database, ledger: Ledger) -> bool:
    found = dict(database.sql(f"SELECT id % {shop.WRITERS}, count(*) FROM orders GROUP BY 1").rows())
    counts = [found.get(writer, 0) for writer in range(shop.WRITERS)]
    rows = database.sql(shop.changed_sql(ledger.history, ledger.ids)).rows()
    problems = ledger.compare(map(tuple, rows), counts)
    say("table", rows=sum(counts), expected=ledger.rows, problems=problems)
    return not problems


def _check(database: Database, name: str) -> bool:
    lines = database.sql(shop.check_sql(name)).rows()
    equal = len(lines) == 1 and len(lines[0]) == 1
    say("check", name=name, equal=equal, lines=[" ".join(map(str, line)) for line in lines[:3]])
    return equal


def _copy_offline(database: Database, scratch: str) -> None:
    """The same queries as plain Spark jobs, all at once as the jobs were, when nobody writes."""

    def copy(name: str) -> None:
        frame = database.sql(shop.OFFLINE[name]).spark()
        started = time.perf_counter()
        frame.write.parquet(f"{scratch}/copy/{name}")
        say("copied", name=name, ms=since(started))

    with ThreadPoolExecutor(max_workers=len(shop.OFFLINE)) as threads:
        list(threads.map(copy, shop.OFFLINE))


if __name__ == "__main__":
    try:
        sys.exit(0 if main(*sys.argv[1:]) else 1)
    except HeadraceError as error:
        say("failed", why=str(error), sql="")
        sys.exit(1)
