"""What the benchmarks of CDC tables share: a private PostgreSQL with a table, and clients that keep writing to it."""

from __future__ import annotations

import multiprocessing
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg2

from bench.common import ROWS
from headrace.database import Database
from tests.support.maven import jar
from tests.support.postgres import PASSWORD, Postgres

DRIVER = "org.postgresql:postgresql:42.7.4"
DRIVER_SHA256 = "188976721ead8e8627eb6d8389d500dccc0c9bebd885268a3047180274a6031e"
CONNECTIONS = 4


@contextmanager
def postgres(rows: int) -> Iterator[Postgres]:
    """With a table ``items`` of so many rows. It syncs its log, as a server that people use does."""
    server = Postgres(fsync="on", shared_buffers="512MB", max_wal_size="4GB", autovacuum="on", synchronous_commit="on")
    try:
        server.run(
            "CREATE TABLE items "
            "(id bigint PRIMARY KEY, customer bigint, product text, price numeric(10,2), qty int, note text)"
        )
        server.run(f"INSERT INTO items {ROWS.format(first=1, last=rows)}")
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE items")
            cursor.execute("CHECKPOINT")
        connection.close()
        yield server
    finally:
        server.remove()


def create_source(db: Database, port: int, owner: str) -> None:
    db.sql("CREATE SECRET pw AS '" + PASSWORD.replace("'", "''") + "'")
    db.sql(
        f"CREATE SOURCE pg WITH (connector = 'postgres-cdc', hostname = '127.0.0.1', port = '{port}', "
        f"username = '{owner}', password = SECRET pw, database.name = 'postgres')"
    )


def with_jdbc(folder: str) -> None:
    """Before Spark starts: it is to have PostgreSQL's JDBC driver."""
    driver = jar(DRIVER, DRIVER_SHA256, Path(folder))
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {driver} pyspark-shell"


def read_by_jdbc(db: Database, server: Postgres, rows: int, folder: str, parallelism: int) -> None:
    """What people do today: Spark reads the table, in ranges of its key, and writes Parquet."""
    frame = db.engine.spark.read.jdbc(
        f"jdbc:postgresql://127.0.0.1:{server.port}/postgres",
        "items",
        column="id",
        lowerBound=1,
        upperBound=rows,
        numPartitions=parallelism,
        properties={
            "user": server.owner, "password": PASSWORD, "driver": "org.postgresql.Driver", "fetchsize": "10000",
        },
    )  # fmt: skip
    frame.write.mode("overwrite").parquet(folder)


class Transactions:
    """Short transactions, so many a second, by a process of their own: rows that are changed, new ones, and a few that
    go. ``commits`` has, once it has stopped, how long each took."""

    def __init__(self, server: Postgres, rows: int, per_second: int):
        context = multiprocessing.get_context("spawn")
        self._stop, self._answer = context.Event(), context.Queue()
        arguments = (server.port, server.owner, rows, per_second, self._stop, self._answer)
        self._process = context.Process(target=_transactions, args=arguments, daemon=True)
        self.commits: list[float] = []
        self.seconds = 0.0

    def __enter__(self) -> Transactions:
        self._process.start()
        assert self._answer.get() == "running"
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self.commits, self.seconds = self._answer.get()
        self._process.join()


def _transactions(port: int, user: str, rows: int, per_second: int, stop: Any, answer: Any) -> None:
    commits: list[float] = []
    begun = time.perf_counter()
    threads = [
        threading.Thread(target=_write, args=(port, user, rows, per_second / CONNECTIONS, number, stop, commits))
        for number in range(CONNECTIONS)
    ]
    for thread in threads:
        thread.start()
    answer.put("running")
    for thread in threads:
        thread.join()
    answer.put((commits, time.perf_counter() - begun))


def _write(port: int, user: str, rows: int, per_second: float, number: int, stop: Any, commits: list[float]) -> None:
    chosen = random.Random(number)
    connection = psycopg2.connect(host="127.0.0.1", port=port, user=user, password=PASSWORD, dbname="postgres")
    fresh = 10**9 * (number + 1)
    begun = time.perf_counter()
    with connection.cursor() as cursor:
        sent = 0
        while not stop.is_set():
            ahead = sent / per_second - (time.perf_counter() - begun)
            if ahead > 0:
                time.sleep(ahead)
            started = time.perf_counter()
            what = chosen.random()
            if what < 0.6:
                cursor.execute("UPDATE items SET qty = qty + 1 WHERE id = %s", (chosen.randint(1, rows),))
            elif what < 0.95:
                fresh += 1
                cursor.execute("INSERT INTO items VALUES (%s, 1, 'new', 1, 1, 'new') ON CONFLICT DO NOTHING", (fresh,))
            else:
                cursor.execute("DELETE FROM items WHERE id = %s", (chosen.randint(1, rows),))
            connection.commit()
            commits.append(time.perf_counter() - started)
            sent += 1
    connection.close()


def settled(db: Database) -> None:
    """Nothing is merged any more: what a table that was dropped had begun would be in the next one's way."""
    time.sleep(0.5)
    while db.engine.maintenance.being_merged:
        time.sleep(0.1)


def difference(db: Database, server: Postgres, table: str = "items") -> int:
    """0 once the table has caught up, as far as its count and sums tell; the writers must have stopped."""
    wanted = server.run("SELECT count(*), sum(id), sum(qty) FROM items")
    deadline = time.monotonic() + 120
    query = f"SELECT count(*), sum(id), sum(qty) FROM {table}"
    while time.monotonic() < deadline:
        found = db.sql(query).rows()
        if [int(value) for value in found[0]] == [int(value) for value in wanted[0]]:
            return 0
        time.sleep(0.2)
    return abs(int(found[0][0]) - int(wanted[0][0])) or 1
