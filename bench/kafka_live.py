"""How long does an event take from its producer to a query, at a rate?

A process of its own produces events at a rate, for some seconds, to a source that a view stands on. The age of an event
is that at the commit which has it: the stream's offsets are in the manifest, and what was sent when is known by offset.
p50 and p99 are over all events that were sent after the first seconds, in which the engine has just been started; those
of the first seconds are printed beside them. The rate is sustained if all are there a second or two after the last.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from bench.common import database, report
from bench.source_common import PARTITIONS, broker, create_source, event
from headrace.engine.feeds import stream_state

RATES = (50_000, 5_000)
SECONDS, STARTING = 40, 10
BATCHES = 100
"""In a second, in which a producer sends"""


def main() -> None:
    if sys.argv[1:2] == ["produce"]:
        return produce(*sys.argv[2:])
    for rate in [int(each) for each in sys.argv[1:]] or RATES:
        measure(rate)


def measure(rate: int) -> None:
    with broker() as server, database() as db, tempfile.TemporaryDirectory(prefix="headrace-bench-") as folder:
        topic = server.topic(partitions=PARTITIONS)
        db.sql(create_source(server, topic))
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT user_id, url, price, sent FROM clicks WHERE price > 1")
        source = db.engine.committed.catalog.get("clicks").id
        commits: list[tuple[float, list[int]]] = []
        stop = threading.Event()

        def watch() -> None:
            """When which offsets of each partition were in the view."""
            seen = None
            while not stop.wait(0.005):
                state = db.engine.committed
                if state is not seen:
                    seen, known = state, stream_state(state, source)
                    commits.append((time.time(), [known.stream.next.get(split, 0) for split in range(PARTITIONS)]))

        threading.Thread(target=watch, daemon=True).start()
        told = Path(folder) / "sent.npy"
        command = [sys.executable, "-m", "bench.kafka_live", "produce", server.servers, topic, str(rate), str(told)]
        subprocess.run(command, check=True)
        sent = np.load(told)
        deadline = time.time() + 60
        while sum(commits[-1][1]) < len(sent) and time.time() < deadline:
            time.sleep(0.01)
        stop.set()
        ((count,),) = db.sql("SELECT count(*) FROM v").rows()
        assert count == np.count_nonzero(np.arange(len(sent)) % 10007 > 100), f"{count} rows"
    ages = visible(len(sent), commits) - sent
    steady, first = ages[sent >= sent[0] + STARTING], ages[sent < sent[0] + STARTING]
    behind, took = commits[-1][0] - sent[-1], sent[-1] - sent[0]
    figures = {"events_per_second": round(len(sent) / took), "behind_s": round(behind, 2)}
    figures |= {f"p{q}_ms": round(np.percentile(steady, q) * 1000) for q in (50, 99)}
    figures |= {f"first_p{q}_ms": round(np.percentile(first, q) * 1000) for q in (50, 99)}
    report(
        "kafka_live",
        f"{len(sent) / took:,.0f} events/s for {took:.0f} s, from producer to commit p50 {figures['p50_ms']} ms, p99"
        f" {figures['p99_ms']} ms (of the first {STARTING} s {figures['first_p50_ms']}, {figures['first_p99_ms']} ms)"
        f"; the last one {behind:.1f} s after it was sent; {len(commits)} commits",
        **figures,
    )


def visible(events: int, commits: list[tuple[float, list[int]]]) -> np.ndarray:
    """When each event was; number n is at offset n // PARTITIONS of partition n % PARTITIONS."""
    moments = np.array([at for at, _ in commits])
    numbers = np.arange(events)
    found = np.empty(events)
    for split in range(PARTITIONS):
        ends = np.array([next[split] for _, next in commits])
        mine = numbers % PARTITIONS == split
        found[mine] = moments[np.searchsorted(ends, numbers[mine] // PARTITIONS, side="right")]
    return found


def produce(servers: str, topic: str, rate: str, told: str) -> None:
    """Sends events in their order, and writes down when each was sent."""
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 5})
    made = [event(number) for number in range(10007 * PARTITIONS)]  # again and again: making them is not the question
    each, sent = max(1, int(rate) // BATCHES), []
    began = time.time()
    while time.time() - began < SECONDS:
        for _ in range(each):
            number = len(sent)
            producer.produce(topic, made[number % len(made)], partition=number % PARTITIONS)
            sent.append(time.time())
        producer.poll(0)
        time.sleep(max(0.0, began + len(sent) / (each * BATCHES) - time.time()))
    producer.flush()
    np.save(told, np.array(sent))


if __name__ == "__main__":
    main()
