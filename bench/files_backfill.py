"""How fast does a folder become a view? Against a plain read and write by Spark. And do many files hold up epochs?

5 M rows in 1,000 Parquet files: at least 0.8 of Spark's speed is wanted. Then 100,000 tiny files: the longest epoch
while they are read says whether anybody else would have had to wait.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from bench.common import PeakMemory, database, median, report, seconds
from headrace.database import Database

ROWS, FILES, TINY, ROUNDS = 5_000_000, 1_000, 100_000, 2


def write_files(folder: Path, files: int, rows: int) -> None:
    folder.mkdir()
    for number in range(files):
        ids = range(number * rows, (number + 1) * rows)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()), "customer": pa.array([id % 100003 for id in ids], pa.int64()),
                "note": [f"note {id} about something" for id in ids],
            }
        )  # fmt: skip
        pq.write_table(table, folder / f"{number:06}.parquet")


def create_source(name: str, folder: Path) -> str:
    return (
        f"CREATE SOURCE {name} (id BIGINT, customer BIGINT, note VARCHAR) WITH (connector = 'file',"
        f" path = '{folder}/*.parquet') FORMAT PLAIN ENCODE PARQUET"
    )


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    tiny = int(sys.argv[2]) if len(sys.argv) > 2 else TINY
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    ours: list[float] = []
    theirs: list[float] = []
    try:
        write_files(folder / "large", FILES, rows // FILES)
        with PeakMemory() as memory, database() as db:
            db.sql(create_source("s", folder / "large"))
            for turn in range(1 + ROUNDS):  # the first is to warm up
                frame = db.engine.spark.read.parquet(str(folder / "large"))
                read = seconds(lambda frame=frame: frame.write.mode("overwrite").parquet(str(folder / "copy")))
                took = seconds(lambda: db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, customer, note FROM s"))
                assert db.sql("SELECT count(*) FROM v").rows() == [(rows,)]
                db.sql("DROP MATERIALIZED VIEW v")
                if turn:
                    ours.append(took)
                    theirs.append(read)
            longest = many_files(db, folder / "tiny", tiny)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratio = median(theirs) / median(ours)
    report(
        "files_backfill",
        f"{rows:,} rows of {FILES:,} files in {median(ours):.1f} s; Spark's own read and write {median(theirs):.1f} s:"
        f" ratio {ratio:.2f} (at least 0.8); {tiny:,} tiny files: the longest epoch {longest:.0f} ms; peak memory"
        f" {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=0.8, rows=rows, ours_s=round(median(ours), 2), spark_s=round(median(theirs), 2),
        longest_epoch_ms=round(longest), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


def many_files(db: Database, folder: Path, files: int) -> float:
    """Milliseconds of the longest epoch while so many files are listed and read."""
    write_files(folder, files, 1)
    db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("INSERT INTO t VALUES (0)")
    db.engine.coordinator.stats.recent_ms.clear()
    db.sql(create_source("many", folder))
    db.sql("SET background_ddl = true")
    db.sql("CREATE MATERIALIZED VIEW w AS SELECT id FROM many")
    number = 0
    while db.jobs():
        number += 1
        db.sql(f"INSERT INTO t VALUES ({number})")
    assert db.sql("SELECT count(*) FROM w").rows() == [(files,)]
    return max(db.engine.coordinator.stats.recent_ms)


if __name__ == "__main__":
    main()
