"""How long is a server away that was killed? From the start of ``headrace serve`` to the first SELECT that is answered.

Most of it is Spark's start, which a bare session in a process of its own shows in the same run. Two warehouses: a small
one, and one with many relations and a job in flight.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

import psycopg

import headrace
from bench.common import ROWS, TABLE, median, report, seconds

TABLES = 60
"""Of the second warehouse, each with a view and an index"""
FILLED = 300_000
"""Rows that its job has to read, too slowly to end"""
ROUNDS = 5
BARE = "from headrace.engine.spark import start_session; start_session(driver_memory='1g'); print('up', flush=True)"


def small(folder: str) -> None:
    with headrace.connect(folder, driver_memory="1g") as db:
        db.sql("CREATE TABLE t0 (id INT PRIMARY KEY, n INT); INSERT INTO t0 VALUES (1, 1)")
        db.sql("CREATE MATERIALIZED VIEW v0 AS SELECT id, n FROM t0 WHERE n > 0")


def large(folder: str) -> None:
    with headrace.connect(folder, driver_memory="1g") as db:
        for number in range(TABLES):
            name = f"t{number}"
            db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, n INT)")
            db.sql(f"CREATE MATERIALIZED VIEW v{number} AS SELECT n, count(*) AS c FROM {name} GROUP BY n")
            db.sql(f"CREATE INDEX i{number} ON {name} (n); INSERT INTO {name} VALUES (1, 1)")
        db.sql(f"{TABLE.format(name='filled')}; INSERT INTO filled {ROWS.format(first=1, last=FILLED)}")
        db.sql("SET background_ddl = true; SET backfill_rate_limit = 100")
        db.sql("CREATE MATERIALIZED VIEW filling AS SELECT id, upper(product) AS product FROM filled")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


class Killed:
    """A process, with what it started, that is killed when the block ends."""

    def __init__(self, *arguments: str):
        self.process = subprocess.Popen(
            [sys.executable, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip

    def __enter__(self) -> subprocess.Popen:
        return self.process

    def __exit__(self, *_: object) -> None:
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def start_spark() -> None:
    with Killed("-c", BARE) as process:
        assert process.stdout.readline() == b"up\n"


def start_server(folder: str) -> float:
    port = str(free_port())
    began = time.perf_counter()
    command = ("-m", "headrace.cli", "serve", "-w", folder, "--port", port, "--http-port", "0", "--driver-memory", "1g")
    with Killed(*command) as process:
        while True:
            try:
                with psycopg.connect(f"host=127.0.0.1 port={port} user=root dbname=dev", autocommit=True) as connection:
                    assert connection.execute("SELECT n FROM v0").fetchone() == (1,)
                    return time.perf_counter() - began
            except psycopg.OperationalError:
                assert process.poll() is None, "the server has ended"
                time.sleep(0.01)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory(prefix="headrace-bench-") as scratch:
        folders = {"small": f"{scratch}/small", "large": f"{scratch}/large"}
        small(folders["small"])
        large(folders["large"])
        for folder in folders.values():
            start_server(folder)  # which is killed, as all that follow
        bare: list[float] = []
        times: dict[str, list[float]] = {name: [] for name in folders}
        for _ in range(rounds):
            bare.append(seconds(start_spark))
            for name, folder in folders.items():
                times[name].append(start_server(folder))
    spark = median(bare)
    for name, took in times.items():
        ratio = median([whole / alone for whole, alone in zip(took, bare, strict=True)])
        report(
            "restart",
            f"{name} warehouse: {median(took):.1f} s after a kill -9, of which Spark {spark:.1f} s; ratio {ratio:.2f}",
            warehouse=name, seconds=round(median(took), 2), spark_seconds=round(spark, 2), ratio=round(ratio, 2),
            rounds=rounds,
        )  # fmt: skip


if __name__ == "__main__":
    main()
