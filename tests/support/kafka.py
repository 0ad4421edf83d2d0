"""A Kafka broker of the tests' own: one process that is broker and controller (KRaft), in a folder that goes away."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.support.maven import jars_of

BROKER = "org.apache.kafka:kafka_2.13:4.1.1"
PATIENCE = 60.0


class Broker:
    def __init__(self, **settings: str) -> None:
        import confluent_kafka
        import confluent_kafka.admin

        self.kafka = confluent_kafka
        self.folder = Path(tempfile.mkdtemp(prefix="headrace-kafka-"))
        try:
            self._classes = f"{jars_of(BROKER, self.folder / 'jars')}/*"
        except BaseException:  # a test that is skipped, too
            shutil.rmtree(self.folder)
            raise
        self.port, controller = _free_port(), _free_port()
        self.servers = f"127.0.0.1:{self.port}"
        lines = {
            "process.roles": "broker,controller", "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}", "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self.folder / "data"), "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1",
            "auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0",
            # Retention and compaction as soon as they are due, not every few minutes.
            "log.retention.check.interval.ms": "200", "log.cleaner.backoff.ms": "200",
            "log.segment.delete.delay.ms": "0", "log.initial.task.delay.ms": "200",
            **settings,
        }  # fmt: skip
        self._settings = self.folder / "server.properties"
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        done = self._java("kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(self._settings))
        assert done.wait(PATIENCE) == 0, self._log
        self._process: subprocess.Popen | None = None
        self.start()

    def _java(self, *command: str) -> subprocess.Popen:
        with (self.folder / "log").open("ab") as written:
            return subprocess.Popen(
                ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", self._classes, *command],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            )  # fmt: skip

    @property
    def _log(self) -> str:
        return (self.folder / "log").read_text()[-2000:]

    def start(self) -> None:
        self._process = self._java("kafka.Kafka", str(self._settings))
        self.admin = self.kafka.admin.AdminClient({"bootstrap.servers": self.servers, "log_level": "0"})
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.admin.list_topics(timeout=1)
                return
            except self.kafka.KafkaException:
                alive = time.monotonic() < deadline and self._process.poll() is None
                assert alive, f"Kafka did not start: {self._log}"

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # --- topics ------------------------------------------------------------------------------------------------

    def topic(self, partitions: int = 1, **config: str) -> str:
        name = f"t{uuid.uuid4().hex[:8]}"
        self.create(name, partitions, **config)
        return name

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = self.kafka.admin.NewTopic(name, partitions, 1, config=settings)
        self.admin.create_topics([new])[name].result()
        self._until(lambda: len(self._partitions(name)) == partitions)

    def delete(self, name: str) -> None:
        self.admin.delete_topics([name])[name].result()
        self._until(lambda: not self._partitions(name))

    def grow(self, name: str, partitions: int) -> None:
        self.admin.create_partitions([self.kafka.admin.NewPartitions(name, partitions)])[name].result()
        self._until(lambda: len(self._partitions(name)) == partitions)

    def _partitions(self, name: str) -> dict:
        return self.admin.list_topics(timeout=10).topics.get(name, _NoTopic).partitions

    def remove_before(self, name: str, partition: int, offset: int) -> None:
        """As retention does."""
        at = self.kafka.TopicPartition(name, partition, offset)
        self.admin.delete_records([at])[at].result()

    def begin(self, name: str, partition: int) -> int:
        at = self.kafka.TopicPartition(name, partition)
        spec = self.kafka.admin.OffsetSpec.earliest()
        return self.admin.list_offsets({at: spec})[at].result().offset

    def _until(self, state: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not state():
            assert time.monotonic() < deadline, "Kafka did not do what it was asked for"
            time.sleep(0.01)

    # --- events ------------------------------------------------------------------------------------------------

    def producer(self, **config: str) -> Any:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        return self.kafka.Producer({"bootstrap.servers": self.servers, "linger.ms": "1", **settings})

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


class _NoTopic:
    partitions: dict = {}


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def _cluster_id() -> str:
    import base64

    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
