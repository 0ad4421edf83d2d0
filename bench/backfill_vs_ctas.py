"""How fast is a view created on a live table? 10 M rows and 1,000 changes each second; at least 0.75 is wanted.

The time from CREATE MATERIALIZED VIEW until the view is complete, at default settings, against an offline copy: the
same query over the same table, run once by Spark and written as Parquet, while nobody writes. The copy is made before
and after, and the faster one counts. The view must be equal to its query at the end.

Both sides are run in full several times before they are measured: a JVM compiles for minutes before it is at its speed.
How long the first view takes, in a process that has just been started, is printed too.
"""

from __future__ import annotations

import sys
import tempfile

from bench.common import PeakMemory, Writer, database, filled_table, p95, report, seconds

ROWS = 10_000_000
WARM_UP = 5
QUERY = "SELECT id, customer, upper(product) AS product, price * qty AS total, note FROM t WHERE qty < 70"


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with PeakMemory() as memory, database() as db, tempfile.TemporaryDirectory() as folder:
        filled_table(db, "t", rows)

        def copy() -> None:
            db.sql(QUERY).spark().write.mode("overwrite").parquet(f"{folder}/copy")

        for _ in range(WARM_UP):
            copy()
        offline = seconds(copy)
        with Writer(db, "t", rows) as writer:
            before = []
            for _ in range(WARM_UP):
                before.append(seconds(lambda: db.sql(f"CREATE MATERIALIZED VIEW warm AS {QUERY}")))
                db.sql("DROP MATERIALIZED VIEW warm")
            first = before[0]
            writer.seconds.clear()
            live = seconds(lambda: db.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}"))
            during = list(writer.seconds)
        ((answer,),) = db.sql("CHECK MATERIALIZED VIEW v").rows()
        assert answer.startswith("equal"), answer
        offline = min(offline, seconds(copy))
    ratio = offline / live
    report(
        "backfill_vs_ctas",
        f"a view on {rows:,} rows under 1,000 changes/s was complete after {live:.1f} s ({rows / live:,.0f} rows/s), "
        f"an offline copy took {offline:.1f} s: {ratio:.2f} of its speed (at least 0.75); writes took "
        f"{p95(during) * 1000:.0f} ms (p95); the first view of the process took {first:.1f} s; "
        f"peak memory {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=0.75, live_s=round(live, 2), offline_s=round(offline, 2),
        first_s=round(first, 2), write_p95_ms=round(p95(during) * 1000), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
