"""How long does a small epoch take? One table, 5 views on it, 1,000 changes each second, for a minute; median and p99.

700 of the changes are new keys, 300 overwrite the newest ones. There is no limit to hold, only a figure.
"""

from __future__ import annotations

import sys
import time

import pyarrow as pa

from bench.common import TABLE, PeakMemory, database, median, report

SECONDS = 60
VIEWS = (
    "SELECT id, upper(product) AS product FROM t WHERE price < 5000",
    "SELECT id, price * qty AS total FROM t",
    "SELECT customer, note FROM t WHERE qty > 10",
    "SELECT id, product FROM t WHERE qty > 50 UNION ALL SELECT id, note FROM t WHERE qty < 5",
    "SELECT product FROM v0 WHERE length(product) > 3",
)


def main() -> None:
    with PeakMemory() as memory, database() as db:
        db.sql(TABLE.format(name="t"))
        for number, query in enumerate(VIEWS):
            db.sql(f"CREATE MATERIALIZED VIEW v{number} AS {query}")
        first = 1
        times = []
        seconds = int(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
        for number in range(seconds):
            began = time.perf_counter()
            keys = list(range(first, first + 700)) + list(range(max(1, first - 300), first))
            first += 700
            qty = [key % 77 for key in keys]
            db.insert(
                "t",
                pa.table(
                    {"id": pa.array(keys, pa.int64()), "qty": pa.array(qty, pa.int32()), "product": ["p"] * len(keys)}
                ),
            )
            if number >= 5:  # the first ones start Spark's workers and compile its code
                times.append(time.perf_counter() - began)
            time.sleep(max(0.0, 1 - (time.perf_counter() - began)))
    times.sort()
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))]
    report(
        "small_epochs",
        f"an epoch of 1,000 changes with 5 views took {median(times) * 1000:.0f} ms (median), "
        f"{p99 * 1000:.0f} ms (p99) over {len(times)} epochs; peak memory {memory.megabytes} MB",
        median_ms=round(median(times) * 1000), p99_ms=round(p99 * 1000), epochs=len(times),
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
