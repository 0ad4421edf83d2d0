"""Connections to a server: cut, refused, encrypted, and how a server sees them."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cdc.postgres import stream
from headrace.engine.writes import WriteEvaluator
from tests.engine.cdc import stories
from tests.engine.cdc.followed import source_state
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, FollowedPostgres, caught_up, create_source, rows, theirs
from tests.support.postgres import Postgres
from tests.support.waiting import eventually

pytestmark = NEEDS_POSTGRES


def test_a_network_that_is_cut_again_and_again(db, followed, proxy):
    notice = stories.a_network_that_is_cut_again_and_again(db, followed, proxy, said="PostgreSQL at")
    assert "pg_drop_replication_slot" in notice and "DROP PUBLICATION" in notice


def test_a_password_that_is_changed(db, followed, caplog):
    stories.a_password_that_is_changed(db, followed, caplog)


def test_a_server_with_little_patience_hears_of_us_while_an_epoch_takes_long(db, postgres, monkeypatch):
    """It sends more than we hold, and would end the connection of a reader that says nothing for two seconds."""
    monkeypatch.setattr(stream, "BUFFER_BYTES", 1000)
    postgres.run("ALTER SYSTEM SET wal_sender_timeout = '2s'")
    postgres.run("SELECT pg_reload_conf()")
    eventually(lambda: postgres.run("SHOW wal_sender_timeout") == [("2s",)])
    create_source(db, postgres)
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    evaluate, held, go_on = WriteEvaluator.__call__, threading.Event(), threading.Event()

    def slow(*arguments):
        held.set()
        assert go_on.wait(60)
        return evaluate(*arguments)

    monkeypatch.setattr(WriteEvaluator, "__call__", slow)
    for number in range(20):
        postgres.run(f"INSERT INTO t SELECT g, repeat('x', 200) FROM generate_series({number}00, {number}99) g")
    assert held.wait(60)
    look = "SELECT pid, reply_time > now() - interval '1 s' FROM pg_stat_replication"
    ((pid, _),) = postgres.run(look)
    began = postgres.run("SELECT now()")[0][0]
    eventually(lambda: postgres.run(f"SELECT now() - '{began}' > interval '4 s'") == [(True,)])
    assert postgres.run(look) == [(pid, True)]
    go_on.set()
    caught_up(db, postgres)
    assert postgres.run(look)[0][0] == pid
    assert rows(db, "SELECT count(*) FROM t") == theirs(postgres, "SELECT count(*) FROM t")


# --- TLS ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory) -> Iterator[tuple[Postgres, Path]]:
    """A server that has a certificate, lets nobody in without TLS, and wants one of the user "certified"."""
    folder = tmp_path_factory.mktemp("certificates")
    stories.certificates(folder)
    server = Postgres()
    server.run("CREATE ROLE certified SUPERUSER LOGIN; CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    server.stop()
    server.give("server.crt", (folder / "localhost.crt").read_bytes())
    server.give("server.key", (folder / "localhost.key").read_bytes())
    server.give("root.crt", (folder / "authority.crt").read_bytes())
    server.give("pg_hba.conf", b"hostssl all certified all cert\nhostssl all all all scram-sha-256\n")
    server.set(ssl="on", ssl_ca_file="root.crt")
    server.start()
    yield server, folder
    server.remove()


def test_a_server_that_hangs_is_like_one_that_is_gone(db, postgres, source, monkeypatch):
    """Its machine goes on to acknowledge what is sent, so no connection is ever lost."""
    monkeypatch.setattr("headrace.cdc.postgres.server.ANSWER_SECONDS", 1)
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    pids = [postgres._process.pid, *(pid for (pid,) in postgres.run("SELECT pid FROM pg_stat_activity"))]
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: source_state(db)[0] == "retrying")
        eventually(lambda: "not answered for" in (source_state(db)[1] or ""))
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    postgres.run("INSERT INTO t VALUES (1)")
    eventually(lambda: rows(db, "SELECT * FROM t") == [(1,)])
    eventually(lambda: source_state(db) == ("running", None))


def test_encrypted_connections(db, encrypted):
    server, folder = encrypted
    authority = {"ssl.root.cert": str(folder / "authority.crt")}
    verified = {"ssl.mode": "verify-full"} | authority
    mine = {
        "ssl.cert": str(folder / "certified.crt"), "ssl.key": str(folder / "certified.key"), "username": "certified",
    }  # fmt: skip

    def all_are_encrypted() -> None:
        ours = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'headrace'"
        assert server.run(f"{ours} AND NOT ssl") == [(0,)] and server.run(f"{ours} AND ssl")[0][0] >= 2

    stories.encrypted_connections(
        db,
        FollowedPostgres(server),
        refused=[
            ({"ssl.mode": "disable"}, "no encryption"),
            ({"ssl.mode": "verify-ca", "ssl.root.cert": str(folder / "stranger.crt")}, "certificate verify failed"),
            ({"ssl.mode": "verify-full", "ssl.root.cert": str(folder / "absent.crt")}, "absent.crt"),
            (verified | {"hostname": "127.0.0.1"}, "does not match host name"),
            ({"ssl.mode": "require", "username": "certified"}, "certificate"),
        ],
        accepted=[{"ssl.mode": "require"}, verified, verified | mine],
        seen_by_the_server=all_are_encrypted,
    )
