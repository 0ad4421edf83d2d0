"""Processes that are killed for real, in the middle of everything. What was acknowledged is there, whole and once."""

from __future__ import annotations

import datetime
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace
from headrace.engine.backfill import AT_ONCE
from tests.engine.crash_child import BACKFILL_CHUNK, BACKFILL_ROWS, RELATIONS, expected
from tests.support.stored import stored

ROOT = Path(__file__).parents[2]

# Where a child dies, and at which time it gets there. Around each step of a commit and of what leads to it; the first
# commit of a child is the one with which it opens the warehouse.
PLACES = (
    "before_write:2",  # an epoch's deltas are known
    "after_write:2",  # its files are written
    "after_stage:1",  # a bulk write's rows are staged
    "before_commit:6",  # the manifest is known
    "before_link:1",  # the manifest is a temporary file; the warehouse is being opened
    "before_link:7",
    "after_link:8",  # the manifest is there
    "before_full:1",  # … and the full copy that is due with it is not
    "after_commit:5",  # nobody knows yet
    "after_merge:1",  # merged files are written
    "after_prune:1",  # VACUUM has removed old manifests
    "before_delete:1",  # … and will remove files
)


@contextmanager
def child(*arguments: str, **environment: str) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.engine.crash_child", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | environment,
        start_new_session=True,  # so that its JVM can be killed with it
    )
    try:
        yield process
    finally:
        if process.poll() is None:  # once it is waited for, its number may be somebody else's
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.slow
def test_a_process_killed_anywhere_loses_nothing(spark, warehouse):
    """One warehouse, one crash after the other, each by another child that goes on where the last one died."""
    headrace.connect(warehouse, spark=spark).close()  # this also ships our code to the executors
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    done = 0
    for place in PLACES:
        with child("steps", warehouse, str(done), HEADRACE_FAILPOINT=place, **borrowed) as process:
            output, errors = process.communicate(timeout=200)
        assert process.returncode == -signal.SIGKILL, f"{place} was not reached:\n{output}\n{errors}"
        acknowledged = max(
            (int(line.split()[1]) + 1 for line in output.splitlines() if line[:3] == "ack"), default=done
        )
        done = verified_steps(spark, warehouse, acknowledged, place)


def verified_steps(spark, warehouse: str, acknowledged: int, place: str) -> int:
    """How many steps the warehouse has: all that were acknowledged, and maybe the one that was going on."""
    with headrace.connect(warehouse, spark=spark) as db:
        db.sql("WAIT")  # for a view whose creation was going on
        names = [name for name in RELATIONS if db.engine.committed.catalog.find(name) is not None]
        assert len(names) == len(RELATIONS) or acknowledged == 0, f"{place}: only {names} are there"
        found = {name: sorted(db.sql(f"SELECT * FROM {name}").rows()) for name in names}
        for steps in (acknowledged, acknowledged + 1):
            wanted = expected(steps)
            if all(found[name] == wanted.relation(name) for name in names):
                return steps
    pytest.fail(f"{place}: after {acknowledged} acknowledged steps the warehouse has {found}")


BACKFILL_PLACES = (
    "after_commit:4",  # the creation is durable, and nobody knows
    "after_chunk:2",  # a chunk is read and has not landed
    "before_write:2",  # it is about to land
    "after_write:3",  # its late delta is written
    "before_commit:4",  # positions and rows are in the manifest that is not there yet
    "after_link:5",  # … that is there
)


@pytest.mark.slow
def test_a_backfill_killed_anywhere_goes_on_from_its_positions(spark, warehouse):
    headrace.connect(warehouse, spark=spark).close()
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    read = landed = progress = lives = 0
    for place in (*BACKFILL_PLACES, ""):
        with child("backfill", warehouse, HEADRACE_FAILPOINT=place, **borrowed) as process:
            output, errors = process.communicate(timeout=250)
        said = [line.split() for line in output.splitlines() if line]
        assert process.returncode in (0, -signal.SIGKILL), errors
        lives += 1
        read += sum(int(rows) for what, rows in said if what == "read")
        landed += sum(int(rows) for what, rows in said if what == "landed")
        with headrace.connect(warehouse, spark=spark, parameters={"paused": "true"}) as db:
            if ["ack", "create"] in said:
                assert db.engine.committed.catalog.find("m") is not None, f"{place}: an acknowledged view is gone"
            if db.engine.committed.catalog.find("m") is None:
                continue
            seen = max((int(rows) for what, rows in said if what == "progress"), default=0)
            jobs = db.engine.jobs.list()
            if jobs:
                assert jobs[0]["rows_read"] >= max(seen, progress), f"{place}: progress was lost"
                progress = jobs[0]["rows_read"]
            (line,) = db.sql("CHECK MATERIALIZED VIEW m").rows()
            assert line[0].startswith("equal"), (place, line)
        headrace.connect(warehouse, spark=spark, parameters={"paused": "false"}).close()
        if not jobs:
            break
    assert not jobs, "the last child was not killed, and must have finished"
    assert read >= BACKFILL_ROWS
    # A chunk counts the stored rows of its row groups, of which an update leaves some more.
    assert read - landed <= lives * AT_ONCE * 2 * BACKFILL_CHUNK, f"{read - landed} rows were read in vain"


WINDOW_PLACES = (
    "after_write:4",  # rows are written, and so is what has closed because of them
    "after_merge:2",  # merged files are there, without closed windows
    "before_link:8",  # the manifest is known: rows, watermark, windows
    "after_commit:6",  # … and is there, but nobody has been told
)


@pytest.mark.slow
def test_windows_come_once_however_often_the_process_is_killed(spark, warehouse):
    """The watermark is as durable as the rows that brought it on, and so are the windows that it has closed."""
    headrace.connect(warehouse, spark=spark).close()
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    done, seen = 0, Counter()
    for place in WINDOW_PLACES:
        with child("windows", warehouse, str(done), HEADRACE_FAILPOINT=place, **borrowed) as process:
            output, errors = process.communicate(timeout=200)
        assert process.returncode == -signal.SIGKILL, f"{place} was not reached:\n{output}\n{errors}"
        said = [int(line.split()[1]) + 1 for line in output.splitlines() if line[:3] == "ack"]
        acknowledged = max(said, default=done)
        with headrace.connect(warehouse, spark=spark, parameters={"compaction": "false"}) as db:
            done, windows = closed_windows(db, acknowledged, place)
            assert windows >= seen, f"{place}: a window that had closed has changed"
            assert windows == stored(db.engine, "closed"), f"{place}, after {done} batches"
            view = db.engine.committed.catalog.get("closed")
            assert not any(run.retractions for run in db.engine.committed.runs.get(view.id, ())), (
                f"{place}: a window went"
            )
            seen = windows
    assert done > 6 and len(seen) > 2


def closed_windows(db, acknowledged: int, place: str) -> tuple[int, Counter]:
    """How many batches there are, and which windows have closed by them."""
    ((_, _, time, late),) = db.sql("SHOW WATERMARKS").rows()
    start = datetime.datetime(2026, 1, 1, 1, tzinfo=datetime.UTC)
    reached = None if time is None else int((time - start).total_seconds()) // 60
    batches = 0 if reached is None else reached // 2 + 1
    assert batches in (acknowledged, acknowledged + 1), (
        f"{place}: {acknowledged} were acknowledged, {batches} are there"
    )
    assert late == max(0, batches - 1), place
    minutes = [-4, *range(2 * batches)] if batches else []
    assert Counter(minute for minute, _ in stored(db.engine, "e")) == Counter(minutes), place
    windows = {}
    for minute in minutes:
        windows.setdefault(minute // 5 * 5 + 5, []).append(minute)
    at = {end: (start + datetime.timedelta(minutes=end)).replace(tzinfo=None) for end in windows}
    closed = [end for end in windows if end <= reached]
    return batches, Counter((at[end], len(windows[end]), max(windows[end])) for end in closed)


@pytest.mark.slow
def test_a_program_that_ends_without_closing_gives_up_no_job(spark, warehouse):
    headrace.connect(warehouse, spark=spark).close()
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    with child("leave", warehouse, **borrowed) as process:
        output, errors = process.communicate(timeout=100)
    assert process.returncode == 0 and "cannot schedule new futures" not in errors, errors
    with headrace.connect(warehouse, spark=spark, parameters={"paused": "true"}) as db:
        assert {job.name: job.error for job in db.jobs()} == {"held": None, "m": None}
        assert db.job("m").progress().rows_read > 0
        (line,) = db.sql("CHECK MATERIALIZED VIEW m").rows()
        assert line[0].startswith("equal"), line


@pytest.mark.slow
def test_a_random_kill_under_concurrent_writers(spark, warehouse):
    seed = int(os.environ.get("HEADRACE_SEED", random.randrange(1 << 32)))
    print(f"HEADRACE_SEED={seed}")
    wanted = random.Random(seed).randrange(10, 60)
    acknowledged: dict[int, int] = {}
    with child("swarm", warehouse) as process:
        lines = []
        while len(lines) < wanted:
            line = process.stdout.readline()
            assert line, f"the child ended by itself: {process.stderr.read()}"
            lines.append(line)
        os.killpg(process.pid, signal.SIGKILL)
        # What it wrote before it died was said, too.
        lines += [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    for line in lines:
        _, client, batch = line.split()
        acknowledged[int(client)] = int(batch)

    with headrace.connect(warehouse, spark=spark) as db:
        rows = db.sql("SELECT id, client, batch FROM t").rows()
        counters = dict(db.sql("SELECT client, batch FROM counters").rows())
        odd = Counter(db.sql("SELECT batch, client FROM odd").rows())
        assert db.sql("SELECT count(*) FROM t").rows() == [(len(rows),)]
    assert len({id for id, _, _ in rows}) == len(rows), "a row is there twice"
    assert odd == Counter((batch, client) for id, client, batch in rows if id % 2)
    sizes = Counter((client, batch) for _, client, batch in rows)
    assert set(sizes.values()) <= {3}, f"half an epoch is visible: {sizes}"
    for client in range(4):
        last = acknowledged.get(client, -1)
        batches = {batch for each, batch in sizes if each == client}
        assert batches in (set(range(last + 1)), set(range(last + 2))), f"client {client}: {last} acknowledged"
        if client in counters:
            assert counters[client] in (last, last + 1) and counters[client] in batches
        else:
            assert last == -1
