"""A private Kafka broker: one process that is broker and controller (KRaft), from the jars that its makers publish."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.demo.process import DemoFailed

BROKER = "org.apache.kafka:kafka_2.13:4.1.1"
JARS = "HEADRACE_KAFKA_JARS"
"""The environment variable with a folder that has them, for who has no Maven"""
PATIENCE = 120.0
"""Seconds, of a machine that does much else: if the process ends, that is told at once"""
FETCHING = 300.0
_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>headrace</groupId><artifactId>jars</artifactId><version>1</version><dependencies><dependency>
<groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>
</dependency></dependencies></project>"""
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class NoKafka(DemoFailed):
    """It is not there, and cannot be had."""


def jars_of(coordinates: str, folder: Path) -> Path:
    """A folder with the jar ``group:artifact:version`` and all that it needs. Maven fetches and checks them, once."""
    _, artifact, version = coordinates.split(":")
    given = os.environ.get(JARS)
    if given is not None and (Path(given) / f"{artifact}-{version}.jar").is_file():
        return Path(given)
    if shutil.which("mvn") is None:
        raise NoKafka(f"{artifact} {version} is needed: install Maven, or put its jars into a folder and set {JARS}")
    folder.mkdir(parents=True, exist_ok=True)
    pom = folder / "pom.xml"
    pom.write_text(_POM.format(*coordinates.split(":")))
    command = ["mvn", "-q", "-B", "-f", str(pom), _COPY, f"-DoutputDirectory={folder}", "-DincludeScope=runtime"]
    for offline in (["-o"], []):
        try:
            done = subprocess.run([*command, *offline], capture_output=True, text=True, timeout=FETCHING)
        except subprocess.TimeoutExpired:
            raise NoKafka(f"Maven did not get {coordinates} within {FETCHING:.0f} seconds") from None
        if done.returncode == 0:
            return folder
    said = [line for line in done.stdout.splitlines() if "ERROR" in line]
    raise NoKafka(f"Maven could not get {coordinates} (is there a network?): {said[0] if said else done.stderr[-300:]}")


class PrivateBroker:
    """Everything of it is in one folder, which the caller removes."""

    def __init__(
        self, folder: Path, listeners: Mapping[str, str] | None = None, *, jmx: bool = False, **settings: str
    ) -> None:
        """``listeners``: protocols of more listeners, by their names in the settings. ``jmx``: it can be asked what it
        counts, at that port."""
        try:
            import confluent_kafka
            import confluent_kafka.admin
        except ImportError:
            raise NoKafka("it needs the package confluent-kafka: pip install 'headrace[kafka]'") from None
        self.kafka: Any = confluent_kafka
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._classes = f"{jars_of(BROKER, folder / 'jars')}/*"
        port, controller = _free_port(), _free_port()
        self.servers = f"127.0.0.1:{port}"
        self.jmx = _free_port() if jmx else None
        self.listeners = {name: f"127.0.0.1:{_free_port()}" for name in listeners or {}}
        more = "".join(f",{name}://{at}" for name, at in self.listeners.items())
        protocols = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT", **(listeners or {})}
        lines = {
            "process.roles": "broker,controller", "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "listeners": f"PLAINTEXT://{self.servers},CONTROLLER://127.0.0.1:{controller}{more}",
            "advertised.listeners": f"PLAINTEXT://{self.servers}{more}", "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": ",".join(f"{name}:{each}" for name, each in protocols.items()),
            "log.dirs": str(folder / "data"), "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1", "transaction.state.log.min.isr": "1",
            "offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1",
            "auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0",
            **settings,
        }  # fmt: skip
        self._settings = folder / "server.properties"
        self._settings.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # With "=", or an id that begins with "-" would be taken for an option.
        formatting = self._java(
            "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(self._settings)
        )
        self._process: subprocess.Popen | None = formatting
        try:
            if formatting.wait(PATIENCE) != 0:
                raise DemoFailed(f"Kafka did not format its storage:\n{self._log}")
            self.start()
        except BaseException as problem:  # nobody else knows of the process yet
            self.end()
            if isinstance(problem, subprocess.TimeoutExpired):
                raise DemoFailed(f"Kafka did not format its storage within {PATIENCE:.0f} s:\n{self._log}") from None
            raise

    def _java(self, *command: str, options: Sequence[str] = ()) -> subprocess.Popen:
        with (self.folder / "log").open("ab") as written:
            return subprocess.Popen(
                ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", *options, "-cp", self._classes, *command],
                cwd=self.folder, stdin=subprocess.DEVNULL, stdout=written, stderr=written,
            )  # fmt: skip

    @property
    def _log(self) -> str:
        return (self.folder / "log").read_text()[-2000:]

    def start(self) -> None:
        prefix = "-Dcom.sun.management.jmxremote"
        jmx = [prefix, f"{prefix}.port={self.jmx}", f"{prefix}.authenticate=false", f"{prefix}.ssl=false"]
        jmx += ["-Djava.rmi.server.hostname=127.0.0.1"]
        self._process = self._java("kafka.Kafka", str(self._settings), options=jmx if self.jmx else ())
        self.admin = self.kafka.admin.AdminClient({"bootstrap.servers": self.servers, "log_level": "0"})
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.admin.list_topics(timeout=1)
                return
            except self.kafka.KafkaException:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise DemoFailed(f"Kafka did not start:\n{self._log}") from None

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()
            self._process = None

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def create(self, name: str, partitions: int = 1, **config: str) -> None:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        new = self.kafka.admin.NewTopic(name, partitions, 1, config=settings)
        self.admin.create_topics([new])[name].result()
        self._until(lambda: len(self._partitions(name)) == partitions)

    def _partitions(self, name: str) -> dict:
        found = self.admin.list_topics(timeout=10).topics.get(name)
        return {} if found is None else found.partitions

    def _until(self, state: Any) -> None:
        deadline = time.monotonic() + PATIENCE
        while not state():
            if time.monotonic() > deadline:
                raise DemoFailed("Kafka did not do what it was asked for")
            time.sleep(0.01)

    def producer(self, **config: str) -> Any:
        settings = {key.replace("_", "."): value for key, value in config.items()}
        # What goes wrong is said by errors: its own log would be written into what the demo tells.
        given = {"bootstrap.servers": self.servers, "linger.ms": "1", "log_level": "2"}
        return self.kafka.Producer({**given, **settings})


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
