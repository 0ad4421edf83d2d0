"""What do more views on a source cost? Five views on one topic against one: the time of the shared stream's epochs, for
as many events.

Events are produced in one transaction, so all of them are there at the same moment, when nobody produces any more, and
the stream takes them in epochs that are as large as they may be. At most 1.5 is wanted. The broker counts the bytes
that it gets and hands out: for five views as many as for one.
"""

from __future__ import annotations

import sys
import time

from bench.common import database, median, report
from bench.source_common import PARTITIONS, BrokerMetrics, broker, create_source, event
from headrace.database import Database
from tests.support.kafka import Broker

EVENTS, ROUNDS, VIEWS = 400_000, 3, 5


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else EVENTS
    times: dict[int, list[float]] = {1: [], VIEWS: []}
    read: dict[int, list[float]] = {1: [], VIEWS: []}
    with broker(jmx=True) as server, database() as db:
        metrics = BrokerMetrics(server)
        for turn in range(1 + ROUNDS):  # the first is to warm up
            for views in times:
                took, size = drain(db, server, metrics, events, views)
                if turn:
                    times[views].append(took)
                    read[views].append(size)
    ratio = median(times[VIEWS]) / median(times[1])
    report(
        "kafka_fanout",
        f"{events:,} events to one view in {median(times[1]):.2f} s, to {VIEWS} in {median(times[VIEWS]):.2f} s: ratio"
        f" {ratio:.2f} (at most 1.5); of each byte that the broker got it handed out {median(read[1]):.2f} and"
        f" {median(read[VIEWS]):.2f}",
        ratio=round(ratio, 3), limit=1.5, events=events, one_s=round(median(times[1]), 3),
        many_s=round(median(times[VIEWS]), 3), bytes_out_for_one=round(median(read[1]), 3),
        bytes_out_for_many=round(median(read[VIEWS]), 3),
    )  # fmt: skip


def drain(db: Database, server: Broker, metrics: BrokerMetrics, events: int, views: int) -> tuple[float, float]:
    """Seconds of the stream's epochs, and how often the broker has handed out what it got."""
    topic = server.topic(partitions=PARTITIONS)
    db.sql(create_source(server, topic))
    for number in range(views):
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS SELECT user_id, url, price FROM clicks WHERE price > {number}")
    produce(server, topic, events)
    reader = db.engine.event_sources.reader(db.engine.committed.catalog.get("clicks").id)
    while reader.rows_taken < events:
        time.sleep(0.002)
    found = reader.seconds_taking, metrics.bytes("Out", topic) / metrics.bytes("In", topic)
    db.sql("DROP SOURCE clicks CASCADE")
    return found


def produce(server: Broker, topic: str, events: int) -> None:
    producer = server.producer(transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(events):
        producer.produce(topic, event(number), partition=number % PARTITIONS)
        if number % 10_000 == 0:
            producer.flush()
    producer.commit_transaction()


if __name__ == "__main__":
    main()
