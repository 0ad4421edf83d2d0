"""Do writers feel a backfill? A write's time, p95, while a view on 10 M rows is filled; at most 1.5 of that without.

1,000 changes each second to a table with three views on it. A write is acknowledged when it is committed and all
three have followed. A view is filled again and again, with pauses between, so that there are enough writes of both
kinds, and both meet the same noise.
"""

from __future__ import annotations

import sys
import time

from bench.common import PeakMemory, Writer, database, filled_table, median, p95, report, seconds
from headrace.database import Database

ROWS = 10_000_000
WARM_UP, FILLS = 2, 8
PAUSE = 7


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    alone: list[float] = []
    during: list[float] = []
    filled: list[float] = []
    with PeakMemory() as memory, database() as db:
        db.sql("SET background_ddl = true")
        filled_table(db, "t", rows)
        for number in range(3):
            db.sql(f"CREATE MATERIALIZED VIEW v{number} AS SELECT id, qty, note FROM t WHERE qty = {number}")
        db.sql("WAIT")
        with Writer(db, "t", rows) as writer:
            for _ in range(WARM_UP):
                _fill(db)
            time.sleep(5)
            for _ in range(FILLS):
                writer.seconds.clear()
                time.sleep(PAUSE)
                alone += writer.seconds[2:]  # those before may meet what the fill left to be tidied up
                writer.seconds.clear()
                filled.append(seconds(lambda: _create(db)))
                during += writer.seconds
                db.sql("DROP MATERIALIZED VIEW big")
    ratio = p95(during) / p95(alone)
    report(
        "upstream_latency",
        f"a write took {p95(alone) * 1000:.0f} ms (p95) alone and {p95(during) * 1000:.0f} ms while {rows:,} rows were "
        f"filled into a view in {median(filled):.1f} s: ratio {ratio:.2f} (at most 1.5); "
        f"peak memory {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=1.5, alone_ms=round(p95(alone) * 1000), during_ms=round(p95(during) * 1000),
        filled_s=round(median(filled), 2), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


def _fill(db: Database) -> None:
    _create(db)
    db.sql("DROP MATERIALIZED VIEW big")


def _create(db: Database) -> None:
    db.sql("CREATE MATERIALIZED VIEW big AS SELECT id, customer, upper(product) AS p, note FROM t")
    db.sql("WAIT")


if __name__ == "__main__":
    main()
