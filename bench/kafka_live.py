"""How many events a second does a view keep up with, and how long does one take from the producer to a query?

Events are produced at a rate, for some seconds. The age of an event is that at the commit which has it: p99 over all of
them. The rate is sustained if all are there a second after the last.
"""

from __future__ import annotations

import sys
import threading
import time

from bench.common import database, report
from bench.source_common import PARTITIONS, broker, create_source, event

PER_SECOND, SECONDS = 50_000, 20


def main() -> None:
    rate = int(sys.argv[1]) if len(sys.argv) > 1 else PER_SECOND
    with broker() as server, database() as db:
        topic = server.topic(partitions=PARTITIONS)
        db.sql(create_source(server, topic))
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT user_id, url, price, sent FROM clicks WHERE price > 1")
        commits: list[tuple[float, int]] = []
        stop = threading.Event()

        def watch() -> None:
            """When how many events were in the view."""
            seen = -1
            while not stop.wait(0.005):
                runs = db.engine.committed.runs.get(db.engine.committed.catalog.get("v").id, ())
                rows = sum(run.rows for run in runs)
                if rows != seen:
                    commits.append((time.time(), rows))
                    seen = rows

        threading.Thread(target=watch, daemon=True).start()
        sent = produce(server, topic, rate)
        wanted = sum(number % 10007 / 100 > 1 for number in range(len(sent)))
        deadline = time.time() + 60
        while commits[-1][1] < wanted and time.time() < deadline:
            time.sleep(0.01)
        stop.set()
        ages = _ages([at for number, at in enumerate(sent) if number % 10007 / 100 > 1], commits)
    behind = commits[-1][0] - sent[-1]
    report(
        "kafka_live",
        f"{len(sent) / (sent[-1] - sent[0]):,.0f} events/s for {sent[-1] - sent[0]:.0f} s, from producer to commit"
        f" p50 {ages[len(ages) // 2] * 1000:.0f} ms, p99 {ages[int(len(ages) * 0.99)] * 1000:.0f} ms; the last one"
        f" {behind:.1f} s after it was sent",
        events_per_second=round(len(sent) / (sent[-1] - sent[0])), p50_ms=round(ages[len(ages) // 2] * 1000),
        p99_ms=round(ages[int(len(ages) * 0.99)] * 1000), behind_s=round(behind, 2),
    )  # fmt: skip


def produce(server, topic: str, rate: int) -> list[float]:
    """When each event was sent."""
    producer, sent = server.producer(), []
    began = time.time()
    while time.time() - began < SECONDS:
        for _ in range(rate // 100):
            number = len(sent)
            producer.produce(topic, event(number), partition=number % PARTITIONS)
            sent.append(time.time())
        producer.poll(0)
        time.sleep(max(0.0, began + len(sent) / rate - time.time()))
    producer.flush()
    return sent


def _ages(sent: list[float], commits: list[tuple[float, int]]) -> list[float]:
    """Events come in about the order in which they were sent: the n-th is there when n are."""
    ages, at = [], 0
    for moment, rows in commits:
        while at < min(rows, len(sent)):
            ages.append(max(0.0, moment - sent[at]))
            at += 1
    return sorted(ages)


if __name__ == "__main__":
    main()
