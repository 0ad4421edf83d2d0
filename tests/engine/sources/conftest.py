"""A Kafka broker for the tests of sources, and what they all do with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import eventually
from tests.support.kafka import Broker

ROOT = Path(__file__).parents[3]

NEEDS_KAFKA = [pytest.mark.xdist_group("kafka")]
"""For ``pytestmark``: all of them run in one worker, so there is one broker"""


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    found = Broker()
    yield found
    found.remove()


def source(broker: Broker, topic: str, name: str = "s", **options: str) -> str:
    """CREATE SOURCE with partition and offset as columns."""
    more = "".join(f", {key.replace('__', '.')} = '{value}'" for key, value in options.items())
    return (
        f"CREATE SOURCE {name} (id BIGINT, word VARCHAR) INCLUDE partition AS p, offset AS o WITH (connector = 'kafka',"
        f" topic = '{topic}', properties.bootstrap.server = '{broker.servers}'{more}) FORMAT PLAIN ENCODE JSON"
    )


def event(id: int) -> bytes:
    return json.dumps({"id": id, "word": f"w{id % 7}"}).encode()


def send(broker: Broker, topic: str, ids: range, partition: int = 0) -> None:
    broker.send(topic, map(event, ids), partition=partition)


def events_of(broker: Broker, topic: str) -> int:
    """How many there are in the first partition: compaction makes them fewer."""
    consumer = broker.kafka.Consumer(
        {"bootstrap.servers": broker.servers, "group.id": "count", "enable.partition.eof": "true"}
    )
    consumer.assign([broker.kafka.TopicPartition(topic, 0, 0)])
    count = 0
    try:
        while (message := consumer.poll(10)) is not None and message.error() is None:
            count += 1
        return count
    finally:
        consumer.close()


def rows(db: Any, query: str) -> list:
    return sorted(db.sql(query).rows())


def offsets(db: Any, view: str) -> list[tuple[int, int]]:
    """What a view holds; the same offset twice would be seen."""
    return rows(db, f"SELECT p, o FROM {view}")


def holds(db: Any, view: str, expected: list[tuple[int, int]]) -> None:
    eventually(lambda: len(offsets(db, view)) >= len(expected))
    assert offsets(db, view) == sorted(expected)
    ((found, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {view}").rows()
    assert found.startswith("equal"), found
