"""How many rows of the source does a restart read again? A snapshot of 3 M rows is killed at 50 %, and goes on.

The child process reports what each of its chunks read; what it had read and not committed is read again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time

import headrace
from bench.cdc_common import Transactions, create_source, difference, postgres
from bench.common import report
from headrace.engine import chunk_reads
from tests.support.postgres import Postgres

ROWS, PER_SECOND = 3_000_000, 100


def child(warehouse: str, port: str, owner: str) -> None:
    read_chunk = chunk_reads.read_chunk

    def read(*arguments):
        found = read_chunk(*arguments)
        print(f"read {sum(file.rows for file in found)}", flush=True)
        return found

    chunk_reads.read_chunk = read
    db = headrace.connect(warehouse, driver_memory="4g", takeover=True)
    if db.engine.committed.catalog.find("items") is None:
        create_source(db, int(port), owner)
        db.sql("CREATE TABLE items (*) FROM pg TABLE 'public.items'")
    job = db.job("items")
    while not (look := job.progress()).over:
        print(f"progress {look.rows_read}", flush=True)
        time.sleep(0.02)
    print("done 0", flush=True)
    db.close()


def run(warehouse: str, server: Postgres, *, kill_at: int | None) -> int:
    """The rows that were read."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.cdc_resume", warehouse, str(server.port), server.owner],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    read = 0
    for line in process.stdout:
        what, _, rest = line.strip().partition(" ")
        if what == "read":
            read += int(rest)
        elif what == "progress" and kill_at is not None and int(rest) >= kill_at:
            os.killpg(process.pid, signal.SIGKILL)
            kill_at = None
    process.wait()
    return read


def main() -> None:
    if len(sys.argv) > 1:
        child(*sys.argv[1:])
        return
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder, postgres(ROWS) as server:
        with Transactions(server, ROWS, PER_SECOND):
            first = run(f"{folder}/warehouse", server, kill_at=ROWS // 2)
            second = run(f"{folder}/warehouse", server, kill_at=None)
        with headrace.connect(f"{folder}/warehouse") as db:
            different = difference(db, server)
    repeated = max(0, first + second - ROWS)
    report(
        "cdc_resume",
        f"killed after reading {first:,} of {ROWS:,} rows, it read {second:,} more: about {repeated:,} rows "
        f"({repeated / ROWS:.1%}) twice; {'equal' if not different else 'NOT EQUAL'} to the source",
        repeated_rows=repeated, first_rows=first, second_rows=second,
    )  # fmt: skip
    if different:
        sys.exit(f"{different} rows differ")


if __name__ == "__main__":
    main()
