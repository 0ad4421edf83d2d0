"""Does the source feel that it is being read? The p99 of its own commits, with and without a snapshot running.

500 transactions a second on a table of 5 M rows, in turns alone and while the table is read. Server, writers and
Headrace share this machine's processors, so this is the worst case: elsewhere the server has its own.
"""

from __future__ import annotations

import sys
import time

from bench.cdc_common import Transactions, create_source, postgres
from bench.cdc_snapshot import snapshot
from bench.common import PeakMemory, database, report

ROWS, PER_SECOND, ROUNDS, ALONE = 5_000_000, 500, 3, 12


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    alone: list[float] = []
    during: list[float] = []
    with postgres(rows) as server, PeakMemory() as memory, database() as db:
        create_source(db, server.port, server.owner)
        snapshot(db)  # to warm up
        db.sql("DROP TABLE items")
        for _ in range(ROUNDS):
            with Transactions(server, rows, PER_SECOND) as writing:
                time.sleep(ALONE)
            alone += writing.commits
            with Transactions(server, rows, PER_SECOND) as writing:
                snapshot(db)
            during += writing.commits
            db.sql("DROP TABLE items")
    found = {name: _percentiles(times) for name, times in (("alone", alone), ("during", during))}
    report(
        "cdc_source_impact",
        f"a commit on the server took {found['alone'][0]:.1f} ms (p50), {found['alone'][1]:.1f} ms (p99) alone, and "
        f"{found['during'][0]:.1f} and {found['during'][1]:.1f} ms while {rows:,} rows were read: ratio of p99 "
        f"{found['during'][1] / found['alone'][1]:.2f}; peak memory {memory.megabytes} MB",
        ratio=round(found["during"][1] / found["alone"][1], 3), alone_p99_ms=round(found["alone"][1], 2),
        during_p99_ms=round(found["during"][1], 2), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


def _percentiles(times: list[float]) -> tuple[float, float]:
    ordered = sorted(times)
    return ordered[len(ordered) // 2] * 1000, ordered[int(len(ordered) * 0.99)] * 1000


if __name__ == "__main__":
    main()
