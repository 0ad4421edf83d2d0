"""What is tested of every kind of server, in the same words."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import headrace
from headrace.engine import splits
from headrace.errors import HeadraceError
from tests.engine.cdc.followed import ROOT, Followed, rows, some_epochs_later, source_state, theirs
from tests.engine.cdc.load import COLUMNS, Writer, check_equal, check_meanwhile, create_tables, create_views
from tests.support.certificates import certificate
from tests.support.waiting import eventually

PLACES = (
    "after_split:2",  # a chunk is read and has not landed
    "after_write:2",  # its rows are written
    "before_commit:3",  # all is in the manifest that is not there yet
    "after_commit:3",  # … that is there, and the server does not know
)


def random_transactions_while_everything_dies(spark, warehouse: str, followed: Followed, *, resnapshot: bool) -> None:
    """The engine is abandoned, as by a crash, the server is stopped and killed, tables get other parallelisms. Tables
    are compared with their source all the time, as of the transaction that they have reached."""
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    followed.load.prepare(followed.server, chance)
    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})

    def abandon() -> None:
        nonlocal db
        some_epochs_later(db)
        db.engine.abandon()
        db = headrace.connect(warehouse, spark=spark)

    def restart_server(immediate: bool) -> None:
        followed.server.stop(immediate=immediate)
        followed.server.start()
        eventually(lambda: source_state(db) == ("running", None))

    def rescale() -> None:
        for name in COLUMNS:
            db.sql(f"ALTER TABLE {name} SET PARALLELISM = {chance.randrange(1, 5)}")

    events = [abandon, abandon, lambda: restart_server(False), lambda: restart_server(True), rescale]
    chance.shuffle(events)
    followed.create_source(db)
    for statement in (*create_tables(followed.source, chance), *create_views()):
        db.sql(statement)
    writer = Writer(followed.load, followed.server, seed)
    try:
        seen = 0
        for event in events:
            seen += check_meanwhile(db, writer, chance, seed, complete=False)
            event()
        db.sql("WAIT")
        seen += check_meanwhile(db, writer, chance, seed, complete=True)
        if resnapshot:
            for name in COLUMNS:
                db.sql(f"ALTER TABLE {name} SET PARALLELISM = {chance.randrange(1, 4)}; RESNAPSHOT TABLE {name}")
            abandon()
            check_meanwhile(db, writer, chance, seed, complete=True)
            db.sql("WAIT")
    finally:
        writer.stop()
    assert seen >= 3
    followed.caught_up(db)
    check_equal(db, followed.server, seed)
    db.sql(f"DROP SOURCE {followed.source} CASCADE")
    db.close()


def a_process_killed_anywhere(spark, warehouse: str, followed: Followed) -> None:
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    followed.load.prepare(followed.server, chance)
    db = headrace.connect(warehouse, spark=spark)
    followed.create_source(db)
    db.engine.sources.stop()
    db.close()
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    tables = create_tables(followed.source, chance)
    writer = Writer(followed.load, followed.server, seed)
    try:
        for place in PLACES:
            process = subprocess.run(
                [sys.executable, "-m", "tests.engine.cdc_child", warehouse, "; ".join(tables)], cwd=ROOT, timeout=200,
                text=True, capture_output=True, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": place},
            )  # fmt: skip
            assert process.returncode == -signal.SIGKILL, f"{place} was not reached: {process.stderr[-2000:]}"
            followed.let_go()
    finally:
        writer.stop()
    with headrace.connect(warehouse, spark=spark) as db:
        for statement in (*tables, *create_views()):
            db.sql(statement)
        db.sql("WAIT")
        followed.caught_up(db)
        check_equal(db, followed.server, seed)
        db.sql(f"DROP SOURCE {followed.source} CASCADE")


def a_network_that_is_cut_again_and_again(db, followed: Followed, proxy, *, said: str) -> str | None:
    """Answers what is said about what stays on a server that cannot be reached."""
    values = ", ".join(f"({id}, 0)" for id in range(1, 61))
    followed.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", f"INSERT INTO t VALUES {values}")
    followed.create_source(db, port=str(proxy.port))
    db.sql(
        f"CREATE TABLE t (*) FROM {followed.source} TABLE 't'"
        " WITH (backfill.num_rows_per_split = 2, backfill.parallelism = 1)"
    )
    job = db.job("t")
    for number in range(1, 4):
        eventually(lambda past=10 * number: job.progress().rows_read >= past)
        proxy.cut()
        eventually(lambda: source_state(db)[0] == "retrying")
        assert said in source_state(db)[1]
        followed.run(f"UPDATE t SET v = {number} WHERE id % 7 = 0", f"DELETE FROM t WHERE id = {number}")
        proxy.mend()
    job.wait(60)
    followed.caught_up(db)
    assert rows(db, "SELECT * FROM t") == theirs(followed.server, "SELECT * FROM t")
    assert source_state(db) == ("running", None)
    proxy.cut()  # for good
    return db.sql(f"DROP SOURCE {followed.source} CASCADE").notice


def a_password_that_is_changed(db, followed: Followed, caplog) -> None:
    followed.add_user("changing", "f1rst")
    try:
        followed.run("CREATE TABLE t (id INT PRIMARY KEY)")
        db.sql("CREATE SECRET pw AS 'f1rst'")
        address = followed.address(username="changing")
        db.sql(f"CREATE SOURCE {followed.source} WITH ({address}, password = SECRET pw)")
        db.sql(f"CREATE TABLE t (*) FROM {followed.source} TABLE 't'; WAIT t")
        followed.set_password("changing", "s3cond")
        followed.throw_out("changing")
        eventually(lambda: followed.denied in (source_state(db)[1] or ""))
        assert "f1rst" not in source_state(db)[1] and "f1rst" not in caplog.text
        followed.run("INSERT INTO t VALUES (1)")
        followed.set_password("changing", "f1rst")
        eventually(lambda: source_state(db) == ("running", None))
        followed.caught_up(db)
        assert rows(db, "SELECT * FROM t") == [(1,)]
        db.sql(f"DROP SOURCE {followed.source} CASCADE")
    finally:
        followed.drop_user("changing")


def certificates(folder: Path) -> None:
    """Those of an authority, of the server "localhost" and the user "certified" by it, and of a stranger."""
    certificate(folder, "authority", None)
    certificate(folder, "stranger", None)
    certificate(folder, "localhost", "authority", "-addext", "subjectAltName=DNS:localhost")
    certificate(folder, "certified", "authority")


def encrypted_connections(
    db,
    followed: Followed,
    *,
    refused: Iterable[tuple[dict[str, str], str]],
    accepted: Iterable[dict[str, str]],
    seen_by_the_server: Callable[[], None] = lambda: None,
) -> None:
    """Options of sources that are refused, and with what words, and of others, that are followed. "certified" has no
    password. The server has a table "t" of numbers."""
    db.sql("CREATE SECRET pw AS '" + followed.password.replace("'", "''") + "'")

    def create(changed: dict[str, str]) -> None:
        password = "" if changed.get("username") == "certified" else ", password = SECRET pw"
        asked = followed.address(**({"hostname": "localhost"} | changed))
        db.sql(f"CREATE SOURCE {followed.source} WITH ({asked}{password})")

    for changed, said in refused:
        with pytest.raises(HeadraceError, match=said):
            create(changed)
    for changed in accepted:
        create(changed)
        db.sql(f"CREATE TABLE t (*) FROM {followed.source} TABLE 't'; WAIT t")
        followed.run("INSERT INTO t SELECT max(id) + 1 FROM t")
        followed.caught_up(db)
        assert rows(db, "SELECT * FROM t") == theirs(followed.server, "SELECT * FROM t")
        seen_by_the_server()
        db.sql(f"DROP SOURCE {followed.source} CASCADE")


def truncate_while_a_chunk_is_read(db, followed: Followed, monkeypatch, *, before: bool) -> None:
    """To a snapshot of before, the table may be empty afterwards: that must not land."""
    values = ", ".join(f"({id}, 'old')" for id in range(1, 41))
    followed.run("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(9))", f"INSERT INTO t VALUES {values}")
    followed.create_source(db)
    read, once = splits.read_chunk, threading.Event()

    def truncated(*arguments):
        if once.is_set():
            return read(*arguments)
        once.set()
        staged = read(*arguments) if before else None
        followed.run("TRUNCATE TABLE t", "INSERT INTO t VALUES (7, 'new')")
        return read(*arguments) if staged is None else staged

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", truncated)
    db.sql(f"CREATE TABLE t (*) FROM {followed.source} TABLE 't' WITH (backfill.num_rows_per_split = 5); WAIT t")
    followed.caught_up(db)
    assert rows(db, "SELECT * FROM t") == [(7, "new")]


def columns_change_in_the_middle_of_a_snapshot(db, followed: Followed, monkeypatch) -> None:
    """Some chunks have landed with the old columns, others are in flight: the table ends up with the new ones."""
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    values = ", ".join(f"({id}, {id}, {id})" for id in range(1, 31))
    followed.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)", f"INSERT INTO t VALUES {values}")
    followed.create_source(db, **{"auto.schema.change": "true"})
    gate, read = threading.Semaphore(2), splits.read_chunk

    def one_by_one(*arguments):
        assert gate.acquire(timeout=60)
        return read(*arguments)

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", one_by_one)
    db.sql(
        f"CREATE TABLE t (*) FROM {followed.source} TABLE 't'"
        " WITH (backfill.num_rows_per_split = 3, backfill.parallelism = 1)"
    )
    eventually(lambda: db.job("t").progress().rows_read == 6)
    followed.run(
        "UPDATE t SET b = 0 WHERE id IN (2, 25)", "ALTER TABLE t DROP a, ADD c INT DEFAULT 3",
        "UPDATE t SET c = 4 WHERE id IN (1, 29)", "DELETE FROM t WHERE id = 5",
    )  # fmt: skip
    for _ in range(40):
        gate.release()
    eventually(lambda: db.sql("SELECT * FROM t").columns == ["id", "b", "c"])
    db.sql("WAIT t")
    followed.caught_up(db)
    assert rows(db, "SELECT * FROM t") == theirs(followed.server, "SELECT id, b, c FROM t")
