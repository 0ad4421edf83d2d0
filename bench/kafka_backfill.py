"""How fast does a topic become a view? Against Spark's own batch, which reads it, parses it and writes plain Parquet.

5 M JSON events in four partitions. At least 0.8 of Spark's speed is wanted. Spark's connector is not part of Spark:
Maven gets it, of a version that can be had and runs (docs/benchmarks.md).
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

from bench.common import PeakMemory, database, median, report, seconds
from bench.source_common import broker, create_source, filled_topic
from headrace.database import Database
from tests.support.kafka import Broker
from tests.support.maven import jars

EVENTS, ROUNDS = 5_000_000, 2
SCHEMA = "user_id BIGINT, url STRING, price DOUBLE, at TIMESTAMP"


CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
SPARK_HAS = ("org.apache.hadoop:*", "org.scala-lang:*", "org.scala-lang.modules:*", "org.slf4j:*", "org.lz4:*")


def get_connector(folder: Path) -> None:
    """Onto the class path of the Spark that is started next."""
    found = jars([CONNECTOR], folder / "jars", without=SPARK_HAS)
    folder.joinpath("spark-defaults.conf").write_text(f"spark.jars {','.join(map(str, found))}\n")
    os.environ["SPARK_CONF_DIR"] = str(folder)


def by_spark(db: Database, server: Broker, topic: str, folder: Path) -> None:
    events = db.engine.spark.read.format("kafka").option("kafka.bootstrap.servers", server.servers)
    events = events.option("subscribe", topic).option("startingOffsets", "earliest").load()
    parsed = events.selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS e").selectExpr("e.*")
    parsed.write.mode("overwrite").parquet(str(folder / "copy"))


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    folder = Path(tempfile.mkdtemp(prefix="headrace-bench-"))
    ours: list[float] = []
    theirs: list[float] = []
    try:
        get_connector(folder)
        with broker() as server, PeakMemory() as memory, database() as db:
            topic = filled_topic(server, events)
            db.sql(create_source(server, topic))
            for turn in range(1 + ROUNDS):  # the first is to warm up
                read = seconds(lambda: by_spark(db, server, topic, folder))
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
        f"{events:,} events in {median(ours):.1f} s ({events / median(ours):,.0f} events/s); Spark's own batch"
        f" {median(theirs):.1f} s: ratio {ratio:.2f} (at least 0.8); peak memory"
        f" {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=0.8, events=events, ours_s=round(median(ours), 2),
        spark_s=round(median(theirs), 2), peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
