"""One server for all tests of this folder: each makes tables of its own."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable, Iterator

import pytest

from headrace.serving.interpreter.queries import evaluate

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def database(spark, tmp_path_factory) -> Iterator:
    import headrace

    folder = tmp_path_factory.mktemp("server") / "warehouse"
    with headrace.connect(str(folder), spark=spark, parameters={"barrier_interval": "100ms"}) as database:
        yield database


@pytest.fixture(scope="session")
def server(database) -> Iterator:
    from headrace.serving.server.server import Server

    server = Server(database.engine, port=0)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def wait_for_busy(server) -> Callable[[], None]:
    """Until the server has begun a statement."""

    def wait() -> None:
        deadline = time.monotonic() + 60
        while not server.busy_sessions:
            assert time.monotonic() < deadline, "no statement was begun"
            time.sleep(0.01)

    return wait


@pytest.fixture
def spark_is_not_asked(monkeypatch) -> Iterator[None]:
    """Whatever a client asks about the system meanwhile is answered by the interpreter."""
    left: list[str] = []

    def watched(bound, tables):
        rows = evaluate(bound, tables)
        if rows is None:
            left.append(bound.text())
        return rows

    monkeypatch.setattr("headrace.serving.asked.evaluate", watched)
    yield
    assert left == []


@pytest.fixture(scope="session")
def long_query(database) -> str:
    """Takes long, and longer if its rows are only counted."""
    database.sql("CREATE TABLE many (id INT PRIMARY KEY)")
    database.sql("INSERT INTO many SELECT x FROM generate_series(1, 400) s(x)")
    return "SELECT a.id * b.id % 7 + c.id FROM many a, many b, many c"


@pytest.fixture
def table() -> str:
    """A name that no other test has."""
    return f"t{next(_numbers)}"


@pytest.fixture
def dsn(server) -> str:
    return f"host=127.0.0.1 port={server.port} user=root dbname=dev"


@pytest.fixture
def connect(dsn) -> Iterator[Callable]:
    import psycopg

    opened = []

    def connect(**more):
        opened.append(psycopg.connect(dsn, **({"autocommit": True} | more)))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


@pytest.fixture
def psql(dsn) -> Callable[..., subprocess.CompletedProcess]:
    def run(*commands: str, rows_only: bool = True, **more) -> subprocess.CompletedProcess:
        arguments = [part for command in commands for part in ("-c", command)]
        flags = ["-X", "-A", *(["-t"] if rows_only else [])]
        return subprocess.run(["psql", *flags, dsn, *arguments], capture_output=True, text=True, timeout=120, **more)

    return run
