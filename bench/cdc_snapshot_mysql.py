"""How fast does a live table of MariaDB or MySQL become one here? Against Spark's JDBC read of it, quiet, to Parquet.

As cdc_snapshot, with fewer transactions: 200 a second, because this server syncs its log for each of them.

    python -m bench.cdc_snapshot_mysql [mariadb | mysql] [ROWS]
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.cdc_common import settled
from bench.cdc_snapshot import snapshot
from bench.common import PeakMemory, database, median, report, seconds
from headrace.database import Database
from tests.support.mariadb import PASSWORD, USER, MariaDb, MySql
from tests.support.maven import jar

DRIVER = "org.mariadb.jdbc:mariadb-java-client:3.5.3"
DRIVER_SHA256 = "85c4ba2f221d0dfd439c26affbb294f784960763544263c65aba9c2c76858706"
ROWS, PER_SECOND, WARM_UP, ROUNDS = 5_000_000, 200, 2, 3
SUMS = "SELECT count(*), sum(id), sum(qty) FROM items"


@contextmanager
def filled(kind: type[MariaDb], rows: int) -> Iterator[MariaDb]:
    """With a table ``items`` of so many rows, as cdc_snapshot's."""
    settings = {"innodb-buffer-pool-size": "1G", "innodb-flush-log-at-trx-commit": "1", "sync-binlog": "1"}
    if kind is MySql:
        settings["cte-max-recursion-depth"] = str(rows + 1)
    server = kind(**settings)
    try:
        server.run(
            "CREATE TABLE items (id bigint PRIMARY KEY, customer bigint, product varchar(100), "
            "price decimal(10,2), qty int, note varchar(200))"
        )
        server.run(
            "SET sql_log_bin = 0",
            "INSERT INTO items SELECT seq, seq * 7919 % 100003, concat('product number ', seq % 5003), seq % 10000, "
            f"seq % 77, concat('note ', seq, ' about something') FROM seq_1_to_{rows}",
        )
        yield server
    finally:
        server.remove()


def create_source(db: Database, port: int) -> None:
    db.sql("CREATE SECRET pw AS '" + PASSWORD.replace("'", "''") + "'")
    db.sql(
        f"CREATE SOURCE shop WITH (connector = 'mysql-cdc', hostname = '127.0.0.1', port = '{port}', "
        f"username = '{USER}', password = SECRET pw, database.name = 'shop')"
    )


def read_by_jdbc(db: Database, server: MariaDb, rows: int, folder: str, parallelism: int) -> None:
    # Spark knows how to quote names for the scheme of MySQL only.
    frame = db.engine.spark.read.jdbc(
        f"jdbc:mysql://127.0.0.1:{server.port}/shop?permitMysqlScheme",
        "items", column="id", lowerBound=1, upperBound=rows, numPartitions=parallelism,
        properties={"user": USER, "password": PASSWORD, "driver": "org.mariadb.jdbc.Driver", "fetchsize": "10000"},
    )  # fmt: skip
    frame.write.mode("overwrite").parquet(folder)


@contextmanager
def transactions(server: MariaDb, rows: int) -> Iterator[Any]:
    """How many there were is its value, once it has stopped."""
    context = multiprocessing.get_context("spawn")
    stop, count = context.Event(), context.Value("q", 0)
    process = context.Process(target=_write, args=(f"{server.folder}/socket", rows, stop, count), daemon=True)
    process.start()
    while not count.value:
        time.sleep(0.01)
    try:
        yield count
    finally:
        stop.set()
        process.join()


def _write(path: str, rows: int, stop: Any, count: Any) -> None:
    import random

    import pymysql

    chosen, begun, fresh = random.Random(1), time.perf_counter(), rows + 10**9
    connection = pymysql.connect(unix_socket=path, user="root", database="shop", autocommit=True)
    with connection.cursor() as cursor:
        while not stop.is_set():
            ahead = count.value / PER_SECOND - (time.perf_counter() - begun)
            if ahead > 0:
                time.sleep(ahead)
            what = chosen.random()
            if what < 0.6:
                cursor.execute("UPDATE items SET qty = qty + 1 WHERE id = %s", (chosen.randint(1, rows),))
            elif what < 0.95:
                fresh += 1
                cursor.execute("INSERT IGNORE INTO items VALUES (%s, 1, 'new', 1, 1, 'new')", (fresh,))
            else:
                cursor.execute("DELETE FROM items WHERE id = %s", (chosen.randint(1, rows),))
            count.value += 1
    connection.close()


def equal(db: Database, server: MariaDb) -> bool:
    """Once the table has caught up, as far as its count and sums tell; the writers must have stopped."""
    wanted = [int(value) for value in server.run(SUMS)[0]]
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if [int(value) for value in db.sql(SUMS).rows()[0]] == wanted:
            return True
        time.sleep(0.2)
    return False


def main() -> None:
    kind = MySql if "mysql" in sys.argv[1:] else MariaDb
    (rows,) = [int(argument) for argument in sys.argv[1:] if argument.isdigit()] or [ROWS]
    folder = tempfile.mkdtemp(prefix="headrace-bench-")
    ours: list[float] = []
    jdbc: list[float] = []
    memory = PeakMemory()
    written, same = 0, True
    try:
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"--jars {jar(DRIVER, DRIVER_SHA256, Path(folder))} pyspark-shell"
        with filled(kind, rows) as server, database() as db:
            cores = db.engine.spark.sparkContext.defaultParallelism
            create_source(db, server.port)
            for turn in range(WARM_UP + ROUNDS):
                read = seconds(lambda: read_by_jdbc(db, server, rows, f"{folder}/copy", 2 * cores))
                # Sampling takes time from all that is sampled, so it is done while warming up.
                watched = memory if turn < WARM_UP else contextlib.nullcontext()
                with watched, transactions(server, rows) as count:
                    took = seconds(lambda: snapshot(db, "shop", "shop.items"))
                same = same and equal(db, server)
                db.sql("DROP TABLE items")
                settled(db)
                if turn >= WARM_UP:
                    jdbc.append(read)
                    ours.append(took)
                    written += count.value
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    ratio, rate = median(jdbc) / median(ours), rows / median(ours)
    report(
        f"cdc_snapshot_mysql {kind.name}",
        f"{rows:,} rows in {median(ours):.1f} s ({rate:,.0f} rows/s) under {written / sum(ours):.0f} transactions/s, "
        f"and {'equal' if same else 'NOT EQUAL'} to the source; Spark's JDBC read of the quiet table to Parquet "
        f"{median(jdbc):.1f} s: ratio {ratio:.2f} (at least 1.0); peak memory {memory.megabytes} MB",
        ratio=round(ratio, 3), limit=1.0, rows=rows, ours_s=round(median(ours), 2), jdbc_s=round(median(jdbc), 2),
        rows_per_second=round(rate), peak_memory_mb=memory.megabytes,
    )  # fmt: skip
    if not same:
        sys.exit("the table differs from its source")


if __name__ == "__main__":
    main()
