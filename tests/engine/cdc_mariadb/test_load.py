"""A random load on a MariaDB server while its tables are read, and the engine dies again and again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest

import headrace
from tests.engine.cdc_mariadb.conftest import NEEDS_MARIADB, ROOT, caught_up, create_source
from tests.engine.cdc_mariadb.load import Writer, check_equal, create_tables, create_views, prepare
from tests.engine.conftest import eventually

pytestmark = [*NEEDS_MARIADB, pytest.mark.slow]


def test_random_transactions_while_the_snapshot_is_read_and_the_engine_dies(spark, warehouse, mariadb):
    """The engine is abandoned, as by a crash, again and again; nothing is lost, and nothing is there twice."""
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    prepare(mariadb, chance)

    def work() -> None:
        epoch = db.engine.committed.epoch
        eventually(lambda: db.engine.committed.epoch > epoch + 4)

    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})
    create_source(db, mariadb)
    for statement in (*create_tables(chance), *create_views()):
        db.sql(statement)
    writer = Writer(mariadb, seed)
    try:
        for _ in range(3):
            work()
            db.engine.abandon()
            db = headrace.connect(warehouse, spark=spark)
        db.sql("WAIT")
    finally:
        writer.stop()
    assert writer.done > 20
    caught_up(db, mariadb)
    check_equal(db, mariadb, seed)
    db.sql("DROP SOURCE my CASCADE")
    db.close()


PLACES = (
    "after_split:2",  # a chunk is read and has not landed
    "after_write:2",  # its rows are written
    "before_commit:3",  # all is in the manifest that is not there yet
    "after_commit:3",  # … that is there, and nothing else knows
)


def test_a_process_killed_anywhere_goes_on(spark, warehouse, mariadb):
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    prepare(mariadb, chance)
    db = headrace.connect(warehouse, spark=spark)
    create_source(db, mariadb)
    db.engine.sources.stop()
    db.close()
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    statements = "; ".join(create_tables(chance))
    writer = Writer(mariadb, seed)
    try:
        for place in PLACES:
            process = subprocess.run(
                [sys.executable, "-m", "tests.engine.cdc_child", warehouse, statements], cwd=ROOT, timeout=200,
                text=True, capture_output=True, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": place},
            )  # fmt: skip
            assert process.returncode == -signal.SIGKILL, f"{place} was not reached: {process.stderr[-2000:]}"
    finally:
        writer.stop()
    with headrace.connect(warehouse, spark=spark) as db:
        for statement in (*create_tables(chance), *create_views()):
            db.sql(statement)
        db.sql("WAIT")
        caught_up(db, mariadb)
        check_equal(db, mariadb, seed)
        db.sql("DROP SOURCE my CASCADE")
