"""How many changes a second does a followed table take, and how long until a commit is visible?

A table of 1 M rows is followed. First 20 seconds of 200 short transactions a second: from a commit's return on the
server to the epoch that has it, p50 and p99. Then as much as the server will write for 20 seconds, in transactions of
100 rows: changes a second until the last of them is visible.
"""

from __future__ import annotations

import sys
import threading
import time

from bench.cdc_common import Transactions, create_source, difference, postgres
from bench.common import PeakMemory, database, median, report
from headrace.cdc.postgres.server import parse_lsn
from headrace.database import Database
from headrace.engine.following import source_state
from tests.support.postgres import Postgres

ROWS, PER_SECOND, SECONDS, BATCH, WRITERS = 1_000_000, 200, 20, 100, 2


def applied(db: Database) -> int:
    """Up to where the server's log is in the committed tables."""
    committed = db.engine.committed
    (source,) = (each for each in committed.catalog.relations.values() if each.kind == "source")
    return source_state(committed, source.id).lsn


def visible_after(db: Database, server: Postgres) -> list[float]:
    """Seconds from a commit on the server until it is visible here, of a few transactions a second."""
    connection = server.connect()
    waits = []
    until = time.monotonic() + SECONDS
    with connection.cursor() as cursor:
        number = 0
        while time.monotonic() < until:
            number += 1
            cursor.execute("UPDATE items SET qty = qty + 1 WHERE id = %s", (number,))
            committed = time.perf_counter()
            cursor.execute("SELECT pg_current_wal_lsn()::text")
            wanted = parse_lsn(cursor.fetchone()[0])
            while applied(db) < wanted:
                time.sleep(0.001)
            waits.append(time.perf_counter() - committed)
            time.sleep(0.05)
    connection.close()
    return sorted(waits)


def flood(server: Postgres, rows: int) -> int:
    """Changes that the server committed."""
    written = [0] * WRITERS
    until = time.monotonic() + SECONDS

    def write(number: int) -> None:
        connection = server.connect()
        with connection.cursor() as cursor:
            at = number * (rows // WRITERS)
            while time.monotonic() < until:
                cursor.execute(
                    "UPDATE items SET qty = qty + 1 WHERE id > %s AND id <= %s", (at, at + BATCH)
                )  # fmt: skip
                written[number] += cursor.rowcount
                at = (at + BATCH) % rows
        connection.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(written)


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with postgres(rows) as server, PeakMemory() as memory, database() as db:
        create_source(db, server.port, server.owner)
        db.sql("CREATE TABLE items (*) FROM pg TABLE 'public.items'")
        db.sql("WAIT items")
        with Transactions(server, rows, PER_SECOND):
            time.sleep(5)
            waits = visible_after(db, server)
        began = time.perf_counter()
        changes = flood(server, rows)
        written = time.perf_counter() - began
        different = difference(db, server)
        took = time.perf_counter() - began
    p99 = waits[min(len(waits) - 1, int(len(waits) * 0.99))]
    report(
        "cdc_stream",
        f"{changes / took:,.0f} changes/s until the last of {changes:,} was visible, {took - written:.1f} s after it "
        f"was written; at {PER_SECOND} transactions/s a commit was visible after {median(waits) * 1000:.0f} ms (p50), "
        f"{p99 * 1000:.0f} ms (p99); {'equal' if not different else 'NOT EQUAL'}; peak memory {memory.megabytes} MB",
        changes_per_second=round(changes / took), changes=changes, behind_s=round(took - written, 2),
        p50_ms=round(median(waits) * 1000), p99_ms=round(p99 * 1000), peak_memory_mb=memory.megabytes,
    )  # fmt: skip
    if different:
        sys.exit(f"{different} rows differ")


if __name__ == "__main__":
    main()
