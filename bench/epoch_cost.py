"""Does an epoch cost what changes, and not what exists? 1,000 changes on 1 M rows against 20 M rows.

Half of the changes are new keys, half overwrite keys of the epochs just before. The ratio should be at most 1.5.
"""

from __future__ import annotations

import pyarrow as pa

from bench.common import PeakMemory, database, filled_table, interleaved, median, report

SIZES = {"1m": 1_000_000, "20m": 20_000_000}


class Changes:
    def __init__(self, table: str, first: int):
        self.table, self.next = table, first

    def batch(self) -> pa.Table:
        keys = list(range(self.next, self.next + 500)) + list(range(self.next - 500, self.next))
        self.next += 500
        return pa.table(
            {
                "id": pa.array(keys, pa.int64()),
                "customer": pa.array([self.next] * 1000, pa.int64()),
                "product": ["product"] * 1000,
                "qty": pa.array([1] * 1000, pa.int32()),
                "note": ["changed"] * 1000,
            }
        )


def main() -> None:
    with PeakMemory() as memory, database(compaction="false") as db:
        actions = {}
        for name, rows in SIZES.items():
            filled_table(db, f"t{name}", rows)
            changes = Changes(f"t{name}", rows + 1)
            actions[name] = lambda changes=changes: db.insert(changes.table, changes.batch())
        times = interleaved(actions, rounds=15, warm_up=4)
    small, large = median(times["1m"]), median(times["20m"])
    report(
        "epoch_cost",
        f"an epoch of 1,000 changes took {small * 1000:.0f} ms on 1 M rows, {large * 1000:.0f} ms on 20 M rows: "
        f"ratio {large / small:.2f} (at most 1.5); peak memory {memory.megabytes} MB",
        ratio=round(large / small, 3), limit=1.5, small_ms=round(small * 1000), large_ms=round(large * 1000),
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
