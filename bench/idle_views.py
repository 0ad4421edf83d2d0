"""Are idle views free? An epoch with one changing table and 20 views on others against no views at all: at most 1.3."""

from __future__ import annotations

import shutil
import tempfile

import pyarrow as pa

import headrace
from bench.common import TABLE, PeakMemory, database, interleaved, median, report

VIEWS = 20


class Writer:
    def __init__(self, db, table: str):
        self.db, self.table, self.next = db, table, 1

    def __call__(self) -> None:
        keys = list(range(self.next, self.next + 1000))
        self.next += 1000
        self.db.insert(self.table, pa.table({"id": pa.array(keys, pa.int64()), "note": ["row"] * 1000}))


def main() -> None:
    with PeakMemory() as memory, database(compaction="false") as alone:
        alone.sql(TABLE.format(name="t"))
        folder = tempfile.mkdtemp(prefix="headrace-bench-")
        with headrace.connect(folder, spark=alone.engine.spark, parameters={"compaction": "false"}) as crowded:
            for name in ("t", "idle"):
                crowded.sql(TABLE.format(name=name))
            for number in range(VIEWS):
                crowded.sql(
                    f"CREATE MATERIALIZED VIEW v{number} AS SELECT id, upper(note) AS n FROM idle WHERE qty > {number}"
                )
            crowded.sql("INSERT INTO idle (id, qty) VALUES (1, 50)")
            times = interleaved({"none": Writer(alone, "t"), "idle": Writer(crowded, "t")}, rounds=20, warm_up=4)
        shutil.rmtree(folder, ignore_errors=True)
    none, idle = median(times["none"]), median(times["idle"])
    report(
        "idle_views",
        f"an epoch took {none * 1000:.0f} ms without views, {idle * 1000:.0f} ms beside {VIEWS} idle ones: "
        f"ratio {idle / none:.2f} (at most 1.3); peak memory {memory.megabytes} MB",
        ratio=round(idle / none, 3), limit=1.3, none_ms=round(none * 1000), idle_ms=round(idle * 1000),
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
