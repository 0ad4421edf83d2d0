"""Does the server take 1,000 single-row INSERTs a second from 20 clients? For a minute, each row acknowledged.

The clients are threads of another process. Each owes 55 INSERTs a second. It sends what it owes as a pipeline, one
statement a row, and sends the next when all are acknowledged: whoever has to wait owes more then, so that what is not
sustained shows as a rate below 1,000. A second figure is of clients that wait for every single row; they get as many
as there are commits.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time

import psycopg

from bench.common import TABLE, PeakMemory, database, median, report
from headrace.serving.server.server import Server

CLIENTS, EACH, SECONDS, ALONE_SECONDS, WANTED = 20, 55, 60, 15, 1_000
INSERT = "INSERT INTO {table} (id, customer, product, price, qty, note) VALUES (%s, %s, %s, %s, %s, %s)"


def row(id: int) -> tuple:
    return id, id % 1000, f"product number {id % 5003}", id % 10_000, id % 77, f"note {id} about something"


def client(dsn: str, number: int, table: str, seconds: float, start: float, each: int | None, into: list) -> None:
    """``each``: INSERTs owed a second; None: one after the other. Adds rows and seconds of each wait."""
    with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as connection, connection.cursor() as cursor:
        first = (number + 1) * 10_000_000
        sent = 0
        while (now := time.time()) < start:
            time.sleep(start - now)
        while (elapsed := time.time() - start) < seconds:
            owed = 1 if each is None else int(elapsed * each) - sent
            if owed < 1:
                time.sleep(1 / each)
                continue
            rows = [row(first + sent + at) for at in range(owed)]
            began = time.perf_counter()
            cursor.executemany(INSERT.format(table=table), rows)
            into.append((owed, time.perf_counter() - began))
            sent += owed


def clients(dsn: str, table: str, seconds: float, each: int | None, answer) -> None:
    waits: list[tuple[int, float]] = []
    start = time.time() + 1
    threads = [
        threading.Thread(target=client, args=(dsn, number, table, seconds, start, each, waits))
        for number in range(CLIENTS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer.put((waits, time.time() - start))


def measure(dsn: str, table: str, seconds: float, each: int | None) -> tuple[float, list[float]]:
    """Acknowledged rows a second, and how long each pipeline waited."""
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=clients, args=(dsn, table, seconds, each, answer))
    process.start()
    waits, took = answer.get()
    process.join()
    return sum(rows for rows, _ in waits) / took, sorted(wait for _, wait in waits)


def main() -> None:
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    with PeakMemory() as memory, database() as db:
        for table in ("warm", "t", "alone"):
            db.sql(TABLE.format(name=table))
        server = Server(db.engine, port=0)
        server.start()
        dsn = f"host=127.0.0.1 port={server.port} user=root dbname=dev"
        measure(dsn, "warm", 10, EACH)
        epochs = db.engine.coordinator.stats.epochs
        rate, waits = measure(dsn, "t", seconds, EACH)
        epochs = db.engine.coordinator.stats.epochs - epochs
        ((stored,),) = db.sql("SELECT count(*) FROM t").rows()
        alone, _ = measure(dsn, "alone", ALONE_SECONDS, None)
        server.stop()
    p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    report(
        "wire_inserts",
        f"{CLIENTS} clients sent {CLIENTS * EACH:,} single-row INSERTs a second for {seconds} s: {rate:,.0f} a second "
        f"were acknowledged (at least {WANTED:,}), after "
        f"{median(waits) * 1000:.0f} ms (median), {p99 * 1000:.0f} ms (p99), "
        f"{stored / max(1, epochs):,.0f} to a commit; {alone:,.0f} a second if each waits for every row; "
        f"peak memory {memory.megabytes} MB",
        rate=round(rate), limit=WANTED, median_ms=round(median(waits) * 1000), p99_ms=round(p99 * 1000),
        rows_per_commit=round(stored / max(1, epochs), 1), rate_one_by_one=round(alone), seconds=seconds,
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
