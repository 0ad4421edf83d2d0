"""What does it cost to build a view of a join and its groups on rows that are there, against its query run once?

5 M rows joined with 1 M, grouped by one of the columns of the latter. The rows of both are arranged, joined, stored and
grouped, so that the view can follow them from then on; the query only has to answer. The ratio should be at least 0.4.
"""

from __future__ import annotations

from bench.common import PeakMemory, database, filled_table, report, seconds

ROWS, OTHERS = 5_000_000, 1_000_000
QUERY = """
    SELECT o.qty, count(*) AS orders, sum(l.price) AS total FROM lines AS l JOIN orders AS o ON l.customer = o.id
    GROUP BY o.qty
"""


def main() -> None:
    with PeakMemory() as memory, database() as db:
        filled_table(db, "lines", ROWS)
        filled_table(db, "orders", OTHERS)
        db.sql(f"CREATE TABLE warm AS {QUERY}")
        offline = seconds(lambda: db.sql(f"CREATE TABLE offline AS {QUERY}"))
        built = seconds(lambda: db.sql(f"CREATE MATERIALIZED VIEW live AS {QUERY}"))
    report(
        "view_build",
        f"building the view took {built:.1f} s, its query once {offline:.1f} s: ratio {offline / built:.2f}"
        f" (at least 0.4); peak memory {memory.megabytes} MB",
        ratio=round(offline / built, 3), limit=0.4, built_s=round(built, 1), offline_s=round(offline, 1),
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
