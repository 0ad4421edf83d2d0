"""How fast does a topic become a view? Against Spark, which parses the events and writes them as plain Parquet.

5 M JSON events in four partitions. At least 0.8 of Spark's speed is wanted. Spark's own connector could not be had for
this (docs/benchmarks.md), so Spark reads the same events as lines of files: it is spared the broker.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from bench.common import PeakMemory, database, median, report, seconds
from bench.source_common import PARTITIONS, broker, create_source, event, filled_topic
from headrace.database import Database

EVENTS, ROUNDS = 5_000_000, 2
SCHEMA = "user_id BIGINT, url STRING, price DOUBLE, at TIMESTAMP"


def write_lines(folder: Path, events: int) -> None:
    """The events of each partition in a file."""
    folder.mkdir()
    for partition in range(PARTITIONS):
        with (folder / f"{partition}.json").open("wb") as written:
            written.writelines(event(number) + b"\n" for number in range(partition, events, PARTITIONS))


def by_spark(db: Database, folder: Path) -> None:
    lines = db.engine.spark.read.text(str(folder / "lines"))
    parsed = lines.selectExpr(f"from_json(value, '{SCHEMA}') AS e").selectExpr("e.*")
    parsed.write.mode("overwrite").parquet(str(folder / "copy"))


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    ours: list[float] = []
    theirs: list[float] = []
    try:
        write_lines(folder / "lines", events)
        with broker() as server, PeakMemory() as memory, database() as db:
            topic = filled_topic(server, events)
            db.sql(create_source(server, topic))
            for turn in range(1 + ROUNDS):  # the first is to warm up
                read = seconds(lambda: by_spark(db, folder))
                took = seconds(
                    lambda: db.sql("CREATE MATERIALIZED VIEW v AS SELECT user_id, url, price, at FROM clicks")
                )
                ((count,),) = db.sql("SELECT count(*) FROM v").rows()
                assert count == events, f"{count} events instead of {events}"
                db.sql("DROP MATERIALIZED VIEW v")
                if turn:
                    ours.append(took)
                    theirs.append(read)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratio = median(theirs) / median(ours)
    report(
        "kafka_backfill",
        f"{events:,} events in {median(ours):.1f} s ({events / median(ours):,.0f} events/s); Spark reads them as lines,"
        f" parses and writes in {median(theirs):.1f} s: ratio {ratio:.2f} (at least 0.8); peak memory"
        f" {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=0.8, events=events, ours_s=round(median(ours), 2),
        spark_s=round(median(theirs), 2), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
