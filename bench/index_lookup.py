"""Does an index save the scan? Rows of one customer among 5 M rows, with and without the index on the customer.

Both sides read the same warehouse and take turns; only `enable_index_selection` differs. A point query by the primary
key is measured beside them. The ratio is the time with the index over the time without; at most 0.5 is wanted.
"""

from __future__ import annotations

import random

from bench.common import PeakMemory, database, filled_table, interleaved, median, report

ROWS = 5_000_000


def main() -> None:
    source = random.Random(1)
    with PeakMemory() as memory, database(compaction="false") as db:
        filled_table(db, "t", ROWS)
        db.sql("CREATE INDEX by_customer ON t (customer)")
        sessions = {"index": db.session(), "scan": db.session(), "key": db.session()}
        sessions["scan"].sql("SET enable_index_selection = false")

        def by_customer(name: str) -> None:
            sessions[name].sql(f"SELECT * FROM t WHERE customer = {source.randrange(100_003)}").arrow()

        times = interleaved(
            {
                "index": lambda: by_customer("index"),
                "scan": lambda: by_customer("scan"),
                "key": lambda: sessions["key"].sql(f"SELECT * FROM t WHERE id = {source.randrange(ROWS) + 1}").arrow(),
            },
            rounds=12,
            warm_up=3,
        )
    index, scan, key = (median(times[name]) for name in ("index", "scan", "key"))
    report(
        "index_lookup",
        f"one customer of 5 M rows took {index * 1000:.0f} ms by the index, {scan * 1000:.0f} ms by a scan: "
        f"ratio {index / scan:.2f} (at most 0.5); one row by its key {key * 1000:.0f} ms; "
        f"peak memory {memory.megabytes} MB",
        ratio=round(index / scan, 3), limit=0.5, index_ms=round(index * 1000), scan_ms=round(scan * 1000),
        key_ms=round(key * 1000), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
