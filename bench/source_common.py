"""What the benchmarks of sources share: a broker with events in a topic, and Spark's own connector."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from headrace.demo.kafka.broker import jars_of
from headrace.demo.process import DemoFailed
from tests.support.kafka import Broker

PARTITIONS = 4
EARLIER_SPARK = "4.2.0"
"""Whose connector is taken if Spark's own version has none in Maven's repository"""
COLUMNS = "user_id BIGINT, url VARCHAR, price DOUBLE PRECISION, at TIMESTAMPTZ"


@contextmanager
def broker(*, jmx: bool = False) -> Iterator[Broker]:
    found = Broker(jmx=jmx)
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


def with_sparks_connector(folder: str) -> str | None:
    """Before Spark starts: it is to have its connector for Kafka. Answers the version, if there is one that may do."""
    there = {_artifact(path) for path in (Path(pyspark.__file__).parent / "jars").glob("*.jar")}
    for version in (pyspark.__version__, EARLIER_SPARK):
        coordinates = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}"
        try:
            jars = jars_of(coordinates, Path(folder) / version)
        except DemoFailed:
            continue
        found = [path for path in jars.glob("*.jar") if _artifact(path) not in there]
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {','.join(map(str, found))} pyspark-shell"
        return version
    return None


def _artifact(jar: Path) -> str:
    """Its name without the version.

    >>> _artifact(Path("kafka-clients-3.9.1.jar"))
    'kafka-clients'
    """
    return re.sub(r"-[0-9][^-]*(-[a-z]+[0-9]*)?$", "", jar.stem)


class BrokerMetrics:
    """What a broker that was started with ``jmx`` counts, by JMX."""

    def __init__(self, broker: Broker):
        import jpype

        if not jpype.isJVMStarted():
            jpype.startJVM(convertStrings=True)
        management = jpype.JPackage("javax").management
        url = f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{broker.jmx}/jmxrmi"
        remote = management.remote
        self._beans = remote.JMXConnectorFactory.connect(remote.JMXServiceURL(url)).getMBeanServerConnection()
        self._name = management.ObjectName

    def bytes_out(self, topic: str) -> int:
        """Of a topic's events, to whoever reads them."""
        bean = self._name(f"kafka.server:type=BrokerTopicMetrics,name=BytesOutPerSec,topic={topic}")
        return int(self._beans.getAttribute(bean, "Count"))
