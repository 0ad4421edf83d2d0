"""A Kafka broker of the tests' own, in a folder that goes away, and what tests do to its topics."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.demo.kafka.broker import PATIENCE, PrivateBroker
from headrace.demo.process import DemoFailed


class Broker(PrivateBroker):
    def __init__(self, **settings: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix="headrace-kafka-"))
        # Retention and compaction as soon as they are due, not every few minutes.
        soon = {
            "log.retention.check.interval.ms": "200", "log.cleaner.backoff.ms": "200",
            "log.segment.delete.delay.ms": "0", "log.initial.task.delay.ms": "200",
        }  # fmt: skip
        try:
            super().__init__(folder, **soon, **settings)
        except DemoFailed as reason:
            shutil.rmtree(folder, ignore_errors=True)
            pytest.skip(str(reason))

    def remove(self) -> None:
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- topics ------------------------------------------------------------------------------------------------

    def topic(self, partitions: int = 1, **config: str) -> str:
        name = f"t{uuid.uuid4().hex[:8]}"
        self.create(name, partitions, **config)
        return name

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result()
        self._until(lambda: not self._partitions(name))

    def grow(self, name: str, partitions: int) -> None:
        self.admin.create_partitions([self.kafka.admin.NewPartitions(name, partitions)])[name].result()
        self._until(lambda: len(self._partitions(name)) == partitions)

    def remove_before(self, name: str, partition: int, offset: int) -> None:
        """As retention does."""
        at = self.kafka.TopicPartition(name, partition, offset)
        self.admin.delete_records([at])[at].result()

    # --- events ------------------------------------------------------------------------------------------------

    def send(self, name: str, values: Iterable[bytes | None], *, partition: int = 0, **fields: Any) -> None:
        producer = self.producer()
        for value in values:
            while True:
                try:
                    producer.produce(name, value, partition=partition, **fields)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(PATIENCE) == 0
