"""How fast does a topic become a view? Against Spark, which parses the events and writes them as plain Parquet.

5 M JSON events in four partitions. At least 0.8 of Spark's speed is wanted. Spark reads with its own connector, of
its own version if that is in Maven's repository (4.3.0 was not), or else of an earlier one; or, if that does not work,
with our batch scan, as bytes.
"""

from __future__ import annotations

import shutil
import sys
import tempfile

from bench.common import PeakMemory, database, median, report, seconds
from bench.source_common import broker, create_source, filled_topic, with_sparks_connector
from headrace.database import Database
from tests.support.kafka import Broker

EVENTS, ROUNDS = 5_000_000, 2


def by_spark(db: Database, server: Broker, topic: str, folder: str, *, own: bool) -> None:
    if own:
        reader = db.engine.spark.read.format("kafka").option("kafka.bootstrap.servers", server.servers)
        raw = reader.option("subscribe", topic).load()
    else:
        raw = db.sql("SELECT value FROM raw").spark()
    schema = "user_id BIGINT, url STRING, price DOUBLE, at TIMESTAMP"
    parsed = raw.selectExpr(f"from_json(CAST(value AS STRING), '{schema}') AS e").selectExpr("e.*")
    parsed.write.mode("overwrite").parquet(folder)


def works(db: Database, server: Broker, topic: str) -> bool:
    """Whether Spark can use the connector that it was given."""
    reader = db.engine.spark.read.format("kafka").option("kafka.bootstrap.servers", server.servers)
    try:
        return reader.option("subscribe", topic).load().limit(1).count() == 1
    except Exception as problem:
        print(f"Spark's connector does not work: {str(problem).splitlines()[0]}", file=sys.stderr)
        return False


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    folder = tempfile.mkdtemp(prefix="headrace-bench-")
    ours: list[float] = []
    theirs: list[float] = []
    try:
        version = with_sparks_connector(folder)
        with broker() as server, PeakMemory() as memory, database() as db:
            topic = filled_topic(server, events)
            own = version is not None and works(db, server, topic)
            db.sql(create_source(server, topic))
            db.sql(
                f"CREATE SOURCE raw (value VARCHAR) WITH (connector = 'kafka', topic = '{topic}',"
                f" properties.bootstrap.server = '{server.servers}') FORMAT PLAIN ENCODE BYTES"
            )
            for turn in range(1 + ROUNDS):  # the first is to warm up
                read = seconds(lambda: by_spark(db, server, topic, f"{folder}/copy", own=own))
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
    reading = f"its own connector {version}" if own else "our scan"
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
