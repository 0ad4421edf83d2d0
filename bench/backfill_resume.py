"""How much work does a restart repeat? A backfill of 5 M rows is killed in the middle and goes on; in rows.

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
from bench.common import ROWS as SELECT
from bench.common import TABLE, report
from headrace.engine.chunks import ChunkReader

ROWS = 5_000_000


def child(warehouse: str) -> None:
    read_chunk = ChunkReader.read

    def read(reader, *arguments, **options):
        found = read_chunk(reader, *arguments, **options)
        print(f"read {found.rows}", flush=True)
        return found

    ChunkReader.read = read
    db = headrace.connect(warehouse, driver_memory="4g")
    if db.engine.committed.catalog.find("t") is None:
        db.sql(TABLE.format(name="t"))
        db.sql(f"INSERT INTO t {SELECT.format(first=1, last=ROWS)}")
        db.sql("SET background_ddl = true; CREATE MATERIALIZED VIEW v AS SELECT id, upper(product) AS p, note FROM t")
    while jobs := db.engine.jobs.list():
        print(f"progress {jobs[0]['rows_read']}", flush=True)
        time.sleep(0.05)
    ((answer,),) = db.sql("CHECK MATERIALIZED VIEW v").rows()
    print(f"answer {answer}", flush=True)
    db.close()


def run(warehouse: str, *, kill_at: int | None) -> tuple[int, str]:
    """The rows that were read, and what CHECK said."""
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.backfill_resume", warehouse],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
    )  # fmt: skip
    read, answer = 0, ""
    for line in process.stdout:
        what, _, rest = line.strip().partition(" ")
        if what == "read":
            read += int(rest)
        elif what == "answer":
            answer = rest
        elif kill_at is not None and int(rest) >= kill_at:
            os.killpg(process.pid, signal.SIGKILL)
            kill_at = None
    process.wait()
    return read, answer


def main() -> None:
    if len(sys.argv) > 1:
        child(sys.argv[1])
        return
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        first, _ = run(f"{folder}/warehouse", kill_at=ROWS // 3)
        second, answer = run(f"{folder}/warehouse", kill_at=None)
    assert answer.startswith("equal"), answer
    repeated = first + second - ROWS
    report(
        "backfill_resume",
        f"killed after reading {first:,} of {ROWS:,} rows, it read {second:,} more: {repeated:,} rows "
        f"({repeated / ROWS:.1%}) twice; {answer}",
        repeated_rows=repeated, first_rows=first, second_rows=second,
    )  # fmt: skip


if __name__ == "__main__":
    main()
