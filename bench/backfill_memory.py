"""Does filling a view need memory in proportion to the table? Peak on 20 M rows against 1 M; at most 1.2 is wanted.

Each size in a process of its own, which opens a table that another one has filled: otherwise what an INSERT of 20 M
rows leaves in Python's workers would count. The JVM's heap is what a JVM fills before it collects, so what is counted
is the rest (Python and what lies outside the heap) and the heap in use after a collection, sampled while the view is
filled. Every slot has its Python worker before, and that worker has filled a view: how many there are, and which of them
have loaded what a fill needs, depends on how much ran at once, not on the table.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator

import pyarrow as pa

import headrace
from bench.common import filled_table, report, resident_bytes

SIZES = (1_000_000, 20_000_000)


def load(warehouse: str, rows: int) -> None:
    with headrace.connect(warehouse, driver_memory="4g") as db:
        filled_table(db, "t", rows)
        db.sql("COMPACT")  # or it would be merged beside the fill


def fill(warehouse: str) -> int:
    """The peak, in bytes."""
    with headrace.connect(warehouse, driver_memory="4g") as db:
        db.engine.spark.range(0, 16, 1, 16).mapInArrow(slowly, "id BIGINT").collect()
        for number in range(4):
            db.sql(f"CREATE MATERIALIZED VIEW warm{number} AS SELECT id FROM t WHERE id < 200000")
        runtime = db.engine.spark._jvm.java.lang.Runtime.getRuntime()
        peak, stop = [0], threading.Event()

        def watch() -> None:
            while not stop.wait(0.05):  # a fill of the small table takes about a second
                runtime.gc()
                used = runtime.totalMemory() - runtime.freeMemory()
                peak[0] = max(peak[0], used + resident_bytes(leave_out="java"))

        watcher = threading.Thread(target=watch)
        watcher.start()
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, customer, upper(product) AS p, note FROM t")
        stop.set()
        watcher.join()
        return peak[0]


def slowly(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(0.2)  # so that no worker takes two tasks before all have one
    yield from batches


def in_a_process(*arguments: str) -> str:
    command = [sys.executable, "-m", "bench.backfill_memory", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def main() -> None:
    match sys.argv[1:]:
        case ["load", warehouse, rows]:
            return load(warehouse, int(rows))
        case ["fill", warehouse]:
            return print(json.dumps(fill(warehouse)))
    peaks = []
    for rows in SIZES:
        folder = tempfile.mkdtemp(prefix="headrace-bench-")
        try:
            in_a_process("load", f"{folder}/warehouse", str(rows))
            peaks.append(json.loads(in_a_process("fill", f"{folder}/warehouse").splitlines()[-1]) >> 20)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    ratio = peaks[1] / peaks[0]
    report(
        "backfill_memory",
        f"filling a view took at most {peaks[0]} MB on 1 M rows, {peaks[1]} MB on 20 M rows: ratio {ratio:.2f} "
        "(at most 1.2)",
        ratio=round(ratio, 3), limit=1.2, small_mb=peaks[0], large_mb=peaks[1],
    )  # fmt: skip


if __name__ == "__main__":
    main()
