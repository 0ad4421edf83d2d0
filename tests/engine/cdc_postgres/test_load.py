"""Under load, while everything dies again and again: nothing is lost, and nothing is there twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys

import pytest

import headrace
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, ROOT, caught_up, create_source
from tests.engine.cdc_postgres.load import COLUMNS, LOAD, Writer, check_equal, prepare
from tests.engine.conftest import eventually

pytestmark = NEEDS_POSTGRES


@pytest.mark.slow
def test_random_transactions_while_the_snapshot_is_read_and_the_engine_dies(spark, warehouse, postgres):
    """The engine is abandoned, as by a crash, again and again; nothing is lost, and nothing is there twice."""
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    prepare(postgres, chance)

    def work() -> None:
        epoch = db.engine.committed.epoch
        eventually(lambda: db.engine.committed.epoch > epoch + 4)

    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})
    create_source(db, postgres)
    for name in LOAD:
        db.sql(
            f"CREATE TABLE {name} (*) FROM pg TABLE '{name}'"
            f" WITH (backfill.num_rows_per_split = {chance.randrange(1, 4)},"
            f" backfill.parallelism = {chance.randrange(1, 4)})"
        )
        columns = COLUMNS[name].removesuffix(", v")
        db.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT {columns} FROM {name} WHERE v IS NOT NULL")
    writer = Writer(postgres, seed)
    try:
        for _ in range(3):
            work()
            db.engine.abandon()
            db = headrace.connect(warehouse, spark=spark)
        db.sql("WAIT")
        for name in LOAD:
            db.sql(f"ALTER TABLE {name} SET PARALLELISM = {chance.randrange(1, 4)}; RESNAPSHOT TABLE {name}")
        work()
        db.engine.abandon()
        db = headrace.connect(warehouse, spark=spark)
        db.sql("WAIT")
    finally:
        writer.stop()
    assert writer.done > 20
    caught_up(db, postgres)
    check_equal(db, postgres, seed)
    db.sql("DROP SOURCE pg CASCADE")
    db.close()


PLACES = (
    "after_split:2",  # a chunk is read and has not landed
    "after_write:2",  # its rows are written
    "before_commit:3",  # all is in the manifest that is not there yet
    "after_commit:3",  # … that is there, and the server does not know
)


@pytest.mark.slow
def test_a_process_killed_anywhere_goes_on(spark, warehouse, postgres):
    seed = random.randrange(10**6)
    prepare(postgres, random.Random(seed))
    db = headrace.connect(warehouse, spark=spark)
    create_source(db, postgres)
    db.engine.sources.stop()
    db.close()
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    writer = Writer(postgres, seed)
    try:
        for place in PLACES:
            process = subprocess.run(
                [sys.executable, "-m", "tests.engine.cdc_child", warehouse], cwd=ROOT, timeout=200, text=True,
                capture_output=True, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": place},
            )  # fmt: skip
            assert process.returncode == -signal.SIGKILL, f"{place} was not reached: {process.stderr[-2000:]}"
            eventually(lambda: not postgres.run("SELECT 1 FROM pg_replication_slots WHERE active"))
    finally:
        writer.stop()
    with headrace.connect(warehouse, spark=spark) as db:
        for name in LOAD:
            columns = COLUMNS[name].removesuffix(", v")
            db.sql(f"CREATE TABLE IF NOT EXISTS {name} (*) FROM pg TABLE '{name}'")
            db.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT {columns} FROM {name} WHERE v IS NOT NULL")
        db.sql("WAIT")
        caught_up(db, postgres)
        check_equal(db, postgres, seed)
        db.sql("DROP SOURCE pg CASCADE")
