"""What the benchmarks of sources share: a broker with events in a topic, and what it counts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.kafka import Broker

PARTITIONS = 4
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

    def bytes(self, way: str, topic: str) -> int:
        """Of a topic's events, from those who write them ("In") or to whoever reads them ("Out")."""
        bean = self._name(f"kafka.server:type=BrokerTopicMetrics,name=Bytes{way}PerSec,topic={topic}")
        return int(self._beans.getAttribute(bean, "Count"))
