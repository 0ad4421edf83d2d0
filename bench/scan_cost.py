"""Does reading a key range cost the range, and not the table? The same 100,000 rows from 1 M rows and from 20 M rows.

The range is one in the order of the state table, (vnode, pk), as a backfill reads it: 25 vnodes of the small table
hold about as many rows as the part of a vnode and the next of the large one. The ratio should be at most 1.3.
"""

from __future__ import annotations

from bench.common import PeakMemory, database, filled_table, interleaved, median, report
from headrace.database import Database
from headrace.state.layout import Layout
from headrace.state.predicates import Bounds
from headrace.state.scan import scan

SIZES = {"1m": 1_000_000, "20m": 20_000_000}
WANTED = 100_000


def read_range(db: Database, table: str, bounds: Bounds) -> int:
    engine = db.engine
    relation = engine.committed.catalog.get(table)
    runs = engine.committed.runs[relation.id]
    frame = scan(engine.spark, engine.storage.uri(""), Layout.of(relation), runs, bounds=[bounds])
    count, _, _ = frame.selectExpr("count(*)", "sum(id)", "max(note)").first()
    return count


def range_of(rows: int) -> Bounds:
    """Bounds that hold about WANTED rows: from the middle of vnode 100 on."""
    per_vnode = rows / 256
    whole, part = divmod(WANTED, per_vnode)
    return Bounds(
        after=(100, (rows // 2,)), upto=(100 + int(whole), (int(rows // 2 + rows * part / per_vnode) % rows,))
    )


def main() -> None:
    with PeakMemory() as memory, database() as db:
        actions, counts = {}, {}
        for name, rows in SIZES.items():
            filled_table(db, f"t{name}", rows)
            bounds = range_of(rows)
            counts[name] = read_range(db, f"t{name}", bounds)
            actions[name] = lambda name=name, bounds=bounds: read_range(db, f"t{name}", bounds)
        times = interleaved(actions, rounds=15, warm_up=4)
    small, large = median(times["1m"]), median(times["20m"])
    report(
        "scan_cost",
        f"reading {counts['1m']:,} rows of 1 M took {small * 1000:.0f} ms, {counts['20m']:,} rows of 20 M "
        f"{large * 1000:.0f} ms: ratio {large / small:.2f} (at most 1.3); peak memory {memory.megabytes} MB",
        ratio=round(large / small, 3), limit=1.3, small_ms=round(small * 1000), large_ms=round(large * 1000),
        rows=counts, peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
