"""``headrace serve`` as a process: it is ready, stops in order, and survives kill -9."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.serving.status import read_status
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


class Service:
    def __init__(self, warehouse):
        self.port, self.http_port = free_port(), free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli", "serve", "-w", str(warehouse), "--port", str(self.port),
             "--http-port", str(self.http_port), "--driver-memory", "1g", "--log-format", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        line = self.process.stdout.readline()
        assert line.startswith("headrace is ready"), self.process.stderr.read()

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(f"host=127.0.0.1 port={self.port} user=root dbname=dev", autocommit=True)

    def get(self, path: str) -> str:
        return urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10).read().decode()


def written_until(service: Service, end: Callable[[], None], *, first: int) -> list[int]:
    """Rows that four clients were told are written, before the server ended in the middle of it."""
    acknowledged: list[int] = []

    def write(first: int) -> None:
        try:
            with service.connect() as connection:
                for id in range(first, first + 1000):
                    connection.execute("INSERT INTO t VALUES (%s, 1)", (id,))
                    acknowledged.append(id)
        except psycopg.Error:
            pass  # the server is gone

    writers = [threading.Thread(target=write, args=(first + number * 1000,)) for number in range(4)]
    for writer in writers:
        writer.start()
    eventually(lambda: len(acknowledged) >= 20)
    end()
    for writer in writers:
        writer.join()
    return acknowledged


def test_a_life(tmp_path):
    warehouse = tmp_path / "warehouse"
    service = Service(warehouse)
    with service.connect() as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        connection.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE n > 0")
        connection.execute("CREATE SOURCE g (a int) WITH (connector = 'datagen', datagen.rows = '10')")
    assert service.get("/healthz") == "ok\n"
    text = service.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert all(family.documentation and family.type != "unknown" for family in families.values()), text
    assert {"headrace_lag_seconds", "headrace_relation_rows"} <= families.keys()
    figures = text.splitlines()
    assert 'headrace_source_up{source="g"} 1' in figures and 'headrace_source_skipped{source="g"} 0' in figures
    assert 'headrace_relation_rows{relation="t",kind="table"} 0' in figures
    assert "headrace_lag_seconds 0" in figures and "headrace_queue_rows 0" in figures

    acknowledged = written_until(service, lambda: os.killpg(service.process.pid, signal.SIGKILL), first=0)
    service = Service(warehouse)
    with service.connect() as connection:
        table = {id for (id,) in connection.execute("SELECT id FROM t")}
        assert table.issuperset(acknowledged)
        assert {id for (id,) in connection.execute("SELECT id FROM v")} == table
    idle = service.connect()
    later = written_until(service, lambda: service.process.send_signal(signal.SIGTERM), first=10_000)
    assert service.process.wait(timeout=60) == 0
    with pytest.raises(psycopg.OperationalError, match="terminating connection"):
        idle.execute("SELECT 1")
    assert '"message": "stopped: all that was asked for is committed"' in service.process.stderr.read()
    rows = {relation["name"]: relation["rows"] for relation in read_status(str(warehouse))["relations"]}
    assert rows["t"] == rows["v"] >= len(table) + len(later), "what was acknowledged before the end is there"


def test_when_spark_dies_the_service_ends(tmp_path):
    """There is nothing it could serve; whatever watches it starts it again."""
    service = Service(tmp_path / "warehouse")
    with service.connect() as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    (java,) = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    os.kill(int(java), signal.SIGKILL)
    assert service.process.wait(timeout=60) == 1
    assert "Spark's Java process has ended" in service.process.stderr.read()
