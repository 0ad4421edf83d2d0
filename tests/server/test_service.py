"""``headrace serve`` as a process: a newcomer's quick start, through a stop, a kill -9, and the end of Spark.

Starting one takes long, so all of it is one life with three starts.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.serving.status import read_status
from tests.support.waiting import eventually

pytestmark = pytest.mark.slow

README = Path(__file__).parents[2] / "README.md"
MANY, GROWTH = 2_000_000, 64 * 1024
"""Rows of a SELECT, of about 80 bytes each; and KiB that the server may grow by while it sends them"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def _heeds_its_terminal() -> None:
    """Also if these tests were started by nohup, which the server would honour."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


class Service:
    def __init__(self, warehouse):
        self.port, self.http_port = free_port(), free_port()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headrace.cli", "serve", "-w", str(warehouse), "--port", str(self.port),
             "--http-port", str(self.http_port), "--driver-memory", "1g", "--log-format", "json"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=_heeds_its_terminal,
        )  # fmt: skip
        line = self.process.stdout.readline()
        assert line.startswith("headrace is ready"), self.process.stderr.read()

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(f"host=127.0.0.1 port={self.port} user=root dbname=dev", autocommit=True)

    def psql(self, text: str) -> str:
        """What psql prints if the text is pasted into it."""
        arguments = ["psql", "-X", "-v", "ON_ERROR_STOP=1", f"host=127.0.0.1 port={self.port} user=root dbname=dev"]
        done = subprocess.run(arguments, input=text, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return "\n".join(line.rstrip() for line in done.stdout.splitlines())

    def memory(self) -> int:
        """The most that its process has had, in KiB."""
        return int(re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{self.process.pid}/status").read_text())[1])

    def get(self, path: str) -> str:
        return urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10).read().decode()

    def health(self) -> tuple[int, str]:
        try:
            return 200, self.get("/healthz")
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


class Writer(threading.Thread):
    """A client that writes to rows of its own, in all ways there are, and remembers what it was told."""

    def __init__(self, service: Service, first: int):
        super().__init__(daemon=True)
        self._service, self._ids = service, itertools.count(first)
        self.rows: dict[int, int] = {}
        self.gone: set[int] = set()
        self.unsure: set[int] = set()
        """Rows of a statement that was not answered"""
        self.statements = 0

    def run(self) -> None:
        try:
            with self._service.connect() as connection:
                for write in itertools.cycle((self.insert, self.send_many, self.copy, self.update, self.delete)):
                    write(connection)
                    self.unsure.clear()
                    self.statements += 1
        except psycopg.Error:
            pass  # the server is gone

    def _new(self, count: int) -> dict[int, int]:
        rows = {id: id % 7 + 1 for id in itertools.islice(self._ids, count)}
        self.unsure.update(rows)
        return rows

    def insert(self, connection: psycopg.Connection) -> None:
        ((id, n),) = (rows := self._new(1)).items()
        connection.execute("INSERT INTO t VALUES (%s, %s)", (id, n))
        self.rows |= rows

    def send_many(self, connection: psycopg.Connection) -> None:
        rows = self._new(5)
        with connection.cursor() as cursor:
            cursor.executemany("INSERT INTO t VALUES (%s, %s)", list(rows.items()))
        self.rows |= rows

    def copy(self, connection: psycopg.Connection) -> None:
        rows = self._new(3)
        with connection.cursor().copy("COPY t FROM STDIN") as copy:
            for row in rows.items():
                copy.write_row(row)
        self.rows |= rows

    def update(self, connection: psycopg.Connection) -> None:
        id = next(iter(self.rows))
        self.unsure.add(id)
        connection.execute("UPDATE t SET n = n + 10 WHERE id = %s", (id,))
        self.rows[id] += 10

    def delete(self, connection: psycopg.Connection) -> None:
        id = next(reversed(self.rows))
        self.unsure.add(id)
        connection.execute("DELETE FROM t WHERE id = %s", (id,))
        del self.rows[id]
        self.gone.add(id)

    def check(self, table: dict[int, int]) -> None:
        """All that was acknowledged is there."""
        sure = {id: n for id, n in self.rows.items() if id not in self.unsure}
        assert {id: table.get(id) for id in sure} == sure
        assert not (self.gone - self.unsure) & table.keys()


def written_until(service: Service, end: Callable[[], None], *, first: int) -> list[Writer]:
    """Four clients that were writing when the server ended."""
    writers = [Writer(service, first + number * 1_000_000) for number in range(4)]
    for writer in writers:
        writer.start()
    eventually(lambda: min(writer.statements for writer in writers) >= 5)  # each of all kinds
    end()
    for writer in writers:
        writer.join()
    return writers


def quick_start() -> list[str]:
    """The SQL of the README, and after the first part what it answers."""
    first, answer, second = re.findall(
        r"^```(?:sql|text output)\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE
    )[:3]
    return [first, "\n".join(line.rstrip() for line in answer.strip("\n").splitlines()), second]


def fail_in_the_background(connection: psycopg.Connection) -> None:
    """A job that fails for good, over a row that nobody is to read in the log; and a secret."""
    connection.execute("CREATE SECRET word AS 's3cret'")
    connection.execute("CREATE TABLE texts (text varchar)")
    connection.execute("INSERT INTO texts VALUES ('pr1vate')")
    connection.execute("SET background_ddl = true")
    connection.execute("CREATE MATERIALIZED VIEW numbers AS SELECT text::int AS number FROM texts")
    eventually(lambda: "failed" in str(connection.execute("SHOW JOBS").fetchall()))
    connection.execute("DROP TABLE texts CASCADE")


def check_log(text: str) -> None:
    """What a person would want to know, and nothing that nobody may."""
    lines = [json.loads(line) for line in text.splitlines()]
    assert all({"time", "level", "message"} <= line.keys() for line in lines)
    messages = [line["message"] for line in lines]
    for expected in (
        r"headrace \S+ starts on .*/warehouse",
        r"ready after [\d.]+ s: epoch \d+, 0 relations, 0 jobs that go on",
        r"session \d+ of root begins",
        r'session \d+: table "t" is made',
        r'session \d+: materialized view "v" is made',
        r'session \d+: source "g" is made',
        r'session \d+: secret "word" is made',
        r'session \d+: materialized view "numbers" is made, and being filled',
        r'session \d+: job \d+ of "numbers" begins',
        r'job \d+ of "numbers" has failed, SHOW JOBS says why: DataError 22P02',
        r'session \d+: materialized view "numbers" is dropped',
        r"stopping: no new clients; .*",
        r"stopped in [\d.]+ s: all that was asked for is committed",
    ):
        assert any(re.fullmatch(expected, message) for message in messages), (expected, messages)
    assert {line["level"] for line in lines if "has failed" in line["message"]} == {"error"}
    assert "s3cret" not in text and "pr1vate" not in text


def sent(service: Service, rows: int) -> None:
    query = f"SELECT x, repeat('x', 60) || x FROM generate_series(1, {rows}) s(x)"
    with service.connect() as connection, connection.cursor() as cursor:
        total = 0
        for _ in (
            cursor.stream(query, size=10_000) if psycopg.capabilities.has_stream_chunked() else cursor.stream(query)
        ):
            total += 1
        assert total == rows


@pytest.mark.timeout(600)  # Spark is started three times
def test_a_life(tmp_path):
    warehouse = tmp_path / "warehouse"
    first, answer, second = quick_start()

    service = Service(warehouse)
    assert answer in service.psql(first)
    with service.connect() as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY, n int)")
        connection.execute("CREATE MATERIALIZED VIEW v AS SELECT id FROM t WHERE n > 0")
        connection.execute("CREATE TABLE kinds (kind int PRIMARY KEY, name varchar)")
        connection.execute("INSERT INTO kinds VALUES (1, 'one'), (2, 'two'), (12, 'twelve')")
        connection.execute("CREATE MATERIALIZED VIEW named AS SELECT id, name FROM t JOIN kinds ON n = kind")
        connection.execute("CREATE MATERIALIZED VIEW sums AS SELECT n, count(*) AS c, sum(id) AS s FROM t GROUP BY n")
        connection.execute("CREATE INDEX t_n ON t (n)")
        connection.execute("CREATE SOURCE g (a int) WITH (connector = 'datagen', datagen.rows = '10')")
        fail_in_the_background(connection)
    assert service.health() == (200, "ok\n")
    text = service.get("/metrics")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert all(family.documentation and family.type != "unknown" for family in families.values()), text
    assert {"headrace_lag_seconds", "headrace_relation_rows"} <= families.keys()
    figures = text.splitlines()
    assert 'headrace_source_up{source="g"} 1' in figures and 'headrace_source_skipped{source="g"} 0' in figures
    assert {f"headrace_source_{name}" for name in ("lag_rows", "rows_per_second", "lost")} <= families.keys()
    assert 'headrace_relation_rows{relation="t",kind="table"} 0' in figures
    assert "headrace_lag_seconds 0" in figures and "headrace_queue_rows 0" in figures
    idle = service.connect()
    # Its terminal is closed, which all of its processes are told.
    stopped = written_until(service, lambda: os.killpg(service.process.pid, signal.SIGHUP), first=0)
    assert service.process.wait(timeout=60) == 0
    with pytest.raises(psycopg.OperationalError, match="terminating connection"):
        idle.execute("SELECT 1")
    check_log(service.process.stderr.read())
    rows = {relation["name"]: relation["rows"] for relation in read_status(str(warehouse))["relations"]}
    assert rows["t"] == rows["v"] >= sum(len(writer.rows.keys() - writer.unsure) for writer in stopped)

    # the next day
    service = Service(warehouse)
    assert answer in service.psql("SELECT * FROM cheap;")
    shown = service.psql(second)
    assert "CREATE MATERIALIZED VIEW dear" in shown and re.search(r"equal, 4001 rows at epoch \d+", shown)
    killed = written_until(service, lambda: os.killpg(service.process.pid, signal.SIGKILL), first=10_000_000)

    service = Service(warehouse)
    assert re.search(
        r"^ *20001 \| gold \| 9999\.00$", service.psql("SELECT * FROM dear WHERE id > 20000;"), re.MULTILINE
    )
    with service.connect() as connection:
        table = dict(connection.execute("SELECT id, n FROM t").fetchall())
        for writer in (*stopped, *killed):
            writer.check(table)
        assert {id for (id,) in connection.execute("SELECT id FROM v")} == table.keys()
        for kind, name in [("MATERIALIZED VIEW", "named"), ("MATERIALIZED VIEW", "sums"), ("INDEX", "t_n")]:
            (answer,) = connection.execute(f"CHECK {kind} {name}").fetchone()
            assert answer.startswith("equal, "), answer

    sent(service, MANY // 10)
    before = service.memory()
    sent(service, MANY)
    assert service.memory() - before < GROWTH, "a large result is not held"

    # There is nothing that it could serve without Spark; whatever watches it starts it again.
    (java,) = Path(f"/proc/{service.process.pid}/task/{service.process.pid}/children").read_text().split()
    os.kill(int(java), signal.SIGKILL)
    assert service.process.wait(timeout=60) == 1
    assert "Spark's Java process has ended" in service.process.stderr.read()


@pytest.mark.timeout(300)
def test_a_statement_that_runs_may_end_and_monitoring_hears_of_it(tmp_path):
    service = Service(tmp_path / "warehouse")
    rows = 300_000
    with service.connect() as connection, connection.cursor() as cursor:
        stream = cursor.stream(f"SELECT x, repeat('x', 60) || x FROM generate_series(1, {rows}) s(x)")
        next(stream)
        service.process.send_signal(signal.SIGTERM)
        eventually(lambda: service.health() == (503, "stopping\n"))
        assert sum(1 for _ in stream) == rows - 1
    assert service.process.wait(timeout=60) == 0
