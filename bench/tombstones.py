"""Do deleted rows slow a backfill down? 90 % of 5 M rows deleted in long runs, not merged away; at least 0.5 is wanted.

The ratio is the rate in stored rows per second: deleted rows and their retractions have to be passed, too.
"""

from __future__ import annotations

import sys
from functools import partial

from bench.common import PeakMemory, database, filled_table, report, seconds

ROWS = 5_000_000
QUERY = "SELECT id, customer, upper(product) AS product, note FROM {table}"


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    with PeakMemory() as memory, database(compaction="false") as db:
        for table in ("clean", "deleted"):
            filled_table(db, table, rows)
        db.sql(f"DELETE FROM deleted WHERE id BETWEEN {rows // 20} AND {rows // 20 * 19}")
        db.sql(f"CREATE MATERIALIZED VIEW warm AS {QUERY.format(table='clean')} WHERE id < 200000")
        rates = {}
        for table in ("clean", "deleted"):
            stored = sum(run.rows for run in db.engine.committed.runs[db.engine.committed.catalog.get(table).id])
            took = seconds(partial(db.sql, f"CREATE MATERIALIZED VIEW of_{table} AS {QUERY.format(table=table)}"))
            rates[table] = stored / took
            ((answer,),) = db.sql(f"CHECK MATERIALIZED VIEW of_{table}").rows()
            assert answer.startswith("equal"), answer
    ratio = rates["deleted"] / rates["clean"]
    report(
        "tombstones",
        f"{rates['clean']:,.0f} stored rows/s from a clean table, {rates['deleted']:,.0f} with 90 % deleted: ratio "
        f"{ratio:.2f} (at least 0.5); peak memory {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=0.5, peak_memory_mb=memory.megabytes,
        **{f"{name}_rows_per_s": round(rate) for name, rate in rates.items()},
    )  # fmt: skip


if __name__ == "__main__":
    main()
