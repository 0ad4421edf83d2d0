"""Do old rows come from keyed lookups? Overwriting 1,000 random keys in 1 M rows against 20 M rows.

The whole epoch is measured: lookup, delta, write, commit. The ratio should be at most 2.
"""

from __future__ import annotations

import random

import pyarrow as pa

from bench.common import PeakMemory, database, filled_table, interleaved, median, report

SIZES = {"1m": 1_000_000, "20m": 20_000_000}


def overwrite(db, table: str, rows: int, source: random.Random) -> None:
    keys = source.sample(range(1, rows + 1), 1000)
    db.insert(table, pa.table({"id": pa.array(keys, pa.int64()), "note": [f"overwritten {key}" for key in keys]}))


def main() -> None:
    source = random.Random(1)
    with PeakMemory() as memory, database(compaction="false") as db:
        actions = {}
        for name, rows in SIZES.items():
            filled_table(db, f"t{name}", rows)
            actions[name] = lambda name=name, rows=rows: overwrite(db, f"t{name}", rows, source)
        times = interleaved(actions, rounds=12, warm_up=4)
    small, large = median(times["1m"]), median(times["20m"])
    report(
        "lookup_cost",
        f"overwriting 1,000 random keys took {small * 1000:.0f} ms in 1 M rows, {large * 1000:.0f} ms in 20 M rows: "
        f"ratio {large / small:.2f} (at most 2); peak memory {memory.megabytes} MB",
        ratio=round(large / small, 3), limit=2.0, small_ms=round(small * 1000), large_ms=round(large * 1000),
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
