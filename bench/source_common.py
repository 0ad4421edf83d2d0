"""What the benchmarks of sources share: a broker with events in a topic, and Spark's own connector."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from headrace.demo.kafka.broker import jars_of
from headrace.demo.process import DemoFailed
from tests.support.kafka import Broker

PARTITIONS = 4
COLUMNS = "user_id BIGINT, url VARCHAR, price DOUBLE PRECISION, at TIMESTAMPTZ"


@contextmanager
def broker() -> Iterator[Broker]:
    found = Broker()
    try:
        yield found
    finally:
        found.remove()


def event(number: int) -> bytes:
    second = number // 1000
    at = f"2026-01-{1 + second // 86400 % 28:02}T{second // 3600 % 24:02}:{second // 60 % 60:02}:{second % 60:02}Z"
    user, price = number * 7919 % 100003, number % 10007 / 100
    return f'{{"user_id": {user}, "url": "/shop/{number % 5003}/cart", "price": {price}, "at": "{at}"}}'.encode()


def filled_topic(broker: Broker, events: int) -> str:
    topic = broker.topic(partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        broker.send(topic, map(event, range(partition, events, PARTITIONS)), partition=partition)
    return topic


def create_source(broker: Broker, topic: str, name: str = "clicks") -> str:
    return (
        f"CREATE SOURCE {name} ({COLUMNS}) INCLUDE timestamp AS sent WITH (connector = 'kafka', topic = '{topic}',"
        f" properties.bootstrap.server = '{broker.servers}') FORMAT PLAIN ENCODE JSON"
    )


def with_sparks_connector(folder: str) -> bool:
    """Before Spark starts: it is to have its connector for Kafka, if there is one for this version."""
    there = {path.name for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    coordinates = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    try:
        jars = jars_of(coordinates, Path(folder) / "connector")
    except DemoFailed:
        return False
    found = [path for path in jars.glob("*.jar") if path.name not in there]
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, found))} pyspark-shell"
    return True
