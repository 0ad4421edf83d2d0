"""How fast does a topic become a view? Against Spark, which parses the events and writes them as plain Parquet.

5 M JSON events in four partitions. At least 0.8 of Spark's speed is wanted. For Spark 4.3.0 there was no connector in
Maven's repository, and that of 4.2.0 does not work with it; so $HEADRACE_BENCH_SPARK names a folder with an earlier
Spark, which reads with its own connector (:mod:`bench.kafka_spark`). Without it our Spark reads with our batch scan.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile

from bench import kafka_spark
from bench.common import PeakMemory, database, median, report, seconds
from bench.source_common import OtherSpark, broker, create_source, filled_topic
from headrace.database import Database

EVENTS, ROUNDS = 5_000_000, 2


def by_our_scan(db: Database, folder: str) -> float:
    raw = db.sql("SELECT value FROM raw").spark()
    parsed = raw.selectExpr(f"from_json(value, '{kafka_spark.SCHEMA}') AS e").selectExpr("e.*")
    return seconds(lambda: parsed.write.mode("overwrite").parquet(f"{folder}/copy"))


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    folder = tempfile.mkdtemp(prefix="headrace-bench-")
    ours: list[float] = []
    theirs: list[float] = []
    other: OtherSpark | None = None
    try:
        with broker() as server, PeakMemory() as memory, database() as db:
            topic = filled_topic(server, events)
            db.sql(create_source(server, topic))
            db.sql(
                f"CREATE SOURCE raw (value VARCHAR) WITH (connector = 'kafka', topic = '{topic}',"
                f" properties.bootstrap.server = '{server.servers}') FORMAT PLAIN ENCODE BYTES"
            )
            if kafka_spark.FOLDER in os.environ:
                other = OtherSpark(server, topic)
            for turn in range(1 + ROUNDS):  # the first is to warm up
                read = by_our_scan(db, folder) if other is None else other.copy()
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
        if other is not None:
            other.end()
        shutil.rmtree(folder, ignore_errors=True)
    ratio = median(theirs) / median(ours)
    reading = "our scan" if other is None else f"its own connector, {other.version}"
    report(
        "kafka_backfill",
        f"{events:,} events in {median(ours):.1f} s ({events / median(ours):,.0f} events/s); Spark, with {reading},"
        f" parses and writes in {median(theirs):.1f} s: ratio {ratio:.2f} (at least 0.8); peak memory"
        f" {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=0.8, events=events, ours_s=round(median(ours), 2),
        spark_s=round(median(theirs), 2), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
