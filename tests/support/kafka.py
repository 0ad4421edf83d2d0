"""A Kafka broker of the tests' own, in a folder that goes away, and what tests do to its topics."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.demo.kafka.broker import PATIENCE, NoKafka, PrivateBroker
from tests.support.certificates import certificate

USER, PASSWORD = "reader", "s3cret-of-the-reader"

_SECURE = {
    "listener.name.secure.sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "listener.name.secure.scram-sha-512.sasl.jaas.config": (
        "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    ),
    "listener.name.secure.ssl.keystore.type": "PEM",
}


class Broker(PrivateBroker):
    """With a second listener, SECURE, which speaks TLS and asks for a password (SASL, SCRAM)."""

    def __init__(self, *, jmx: bool = False, **settings: str) -> None:
        folder = Path(tempfile.mkdtemp(prefix="headrace-kafka-"))
        certificate(folder, "authority", None)
        certificate(folder, "broker", "authority", "-addext", "subjectAltName=IP:127.0.0.1")
        self.authority = folder / "authority.crt"
        keystore = folder / "broker.pem"
        keystore.write_text((folder / "broker.key").read_text() + (folder / "broker.crt").read_text())
        # Retention and compaction as soon as they are due, not every few minutes.
        soon = {
            "log.retention.check.interval.ms": "200", "log.cleaner.backoff.ms": "200",
            "log.segment.delete.delay.ms": "0", "log.initial.task.delay.ms": "200",
        }  # fmt: skip
        try:
            super().__init__(
                folder, {"SECURE": "SASL_SSL"}, **soon, **_SECURE, **settings,
                **{"listener.name.secure.ssl.keystore.location": str(keystore)}, jmx=jmx,
            )  # fmt: skip
        except BaseException as reason:
            shutil.rmtree(folder, ignore_errors=True)
            if isinstance(reason, NoKafka):
                pytest.skip(str(reason))
            raise

    def remove(self) -> None:
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def let_in(self, user: str, password: str) -> None:
        """Makes a user, or changes the password of one."""
        admin = self.kafka.admin
        known = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_512, 4096)
        change = admin.UserScramCredentialUpsertion(user, known, password.encode())
        self.admin.alter_user_scram_credentials([change])[user].result()

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
