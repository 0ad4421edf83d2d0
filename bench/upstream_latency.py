"""Do writers feel a backfill? A write's time, p95, while a view on 10 M rows is filled; at most 1.5 of that without.

1,000 changes each second to a table with three views on it. A write is acknowledged when it is committed and all
three have followed. First a minute alone, then as long as the backfill takes, then half a minute alone again.
"""

from __future__ import annotations

import sys
import time

from bench.common import PeakMemory, Writer, database, filled_table, p95, report

ROWS = 10_000_000


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with PeakMemory() as memory, database() as db:
        db.sql("SET background_ddl = true")
        filled_table(db, "t", rows)
        for number in range(3):
            db.sql(f"CREATE MATERIALIZED VIEW v{number} AS SELECT id, qty, note FROM t WHERE qty = {number}")
        db.sql("WAIT")
        with Writer(db, "t", rows) as writer:
            time.sleep(40)
            alone = list(writer.seconds[5:])
            writer.seconds.clear()
            began = time.perf_counter()
            db.sql("CREATE MATERIALIZED VIEW big AS SELECT id, customer, upper(product) AS p, note FROM t")
            db.sql("WAIT")
            filled = time.perf_counter() - began
            during = list(writer.seconds)
            writer.seconds.clear()
            time.sleep(20)
            alone += writer.seconds[5:]
    ratio = p95(during) / p95(alone)
    report(
        "upstream_latency",
        f"a write took {p95(alone) * 1000:.0f} ms (p95) alone and {p95(during) * 1000:.0f} ms while {rows:,} rows were "
        f"filled into a view in {filled:.1f} s: ratio {ratio:.2f} (at most 1.5); peak memory {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=1.5, alone_ms=round(p95(alone) * 1000), during_ms=round(p95(during) * 1000),
        filled_s=round(filled, 2), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
