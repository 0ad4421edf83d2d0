"""Connections to a server: cut, refused, encrypted, and how a server sees them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cdc.postgres import stream
from headrace.engine.writes import WriteEvaluator
from headrace.errors import HeadraceError
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, caught_up, create_source, options, rows, theirs
from tests.engine.conftest import eventually
from tests.support.certificates import certificate
from tests.support.postgres import PASSWORD, Postgres
from tests.support.proxy import Proxy

pytestmark = NEEDS_POSTGRES


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    found = Proxy(server.port)
    yield found
    found.close()


def source_state(db) -> tuple[str, str | None]:
    ((_, _, state, _, _, error, *_),) = db.sql("SHOW SOURCES").rows()
    return state, error


def test_a_network_that_is_cut_again_and_again(db, postgres, proxy):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t SELECT g, 0 FROM generate_series(1, 60) g")
    create_source(db, postgres, port=str(proxy.port))
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 2, backfill.parallelism = 1)")
    job = db.job("t")
    for number in range(1, 4):
        eventually(lambda past=10 * number: job.progress().rows_read >= past)
        proxy.cut()
        eventually(lambda: source_state(db)[0] == "retrying")
        assert "cannot connect" in source_state(db)[1] or "PostgreSQL at" in source_state(db)[1]
        postgres.run(f"UPDATE t SET v = {number} WHERE id % 7 = 0; DELETE FROM t WHERE id = {number}")
        proxy.mend()
    job.wait(60)
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t") and source_state(db) == ("running", None)
    proxy.cut()  # for good: what is left on the server is said
    notice = db.sql("DROP SOURCE pg CASCADE").notice
    assert "pg_drop_replication_slot" in notice and "DROP PUBLICATION" in notice


def test_a_password_that_is_changed(db, postgres, caplog):
    postgres.run("CREATE ROLE changing SUPERUSER LOGIN PASSWORD 'f1rst'; CREATE TABLE t (id int PRIMARY KEY)")
    try:
        db.sql("CREATE SECRET pw AS 'f1rst'")
        db.sql(f"CREATE SOURCE pg WITH ({options(postgres, username='changing')}, password = SECRET pw)")
        db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
        postgres.run("ALTER ROLE changing PASSWORD 's3cond'")
        postgres.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'changing'")
        eventually(lambda: "authentication failed" in (source_state(db)[1] or ""))
        assert "f1rst" not in source_state(db)[1] and "f1rst" not in caplog.text
        postgres.run("INSERT INTO t VALUES (1); ALTER ROLE changing PASSWORD 'f1rst'")
        eventually(lambda: source_state(db) == ("running", None))
        caught_up(db, postgres)
        assert rows(db, "SELECT * FROM t") == [(1,)]
        db.sql("DROP SOURCE pg CASCADE")
    finally:
        postgres.run("REASSIGN OWNED BY changing TO CURRENT_USER; DROP ROLE changing")


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
    certificate(folder, "authority", None)
    certificate(folder, "stranger", None)
    certificate(folder, "localhost", "authority", "-addext", "subjectAltName=DNS:localhost")
    certificate(folder, "certified", "authority")
    server = Postgres()
    server.run("CREATE ROLE certified SUPERUSER LOGIN")
    server.stop()
    server.give("server.crt", (folder / "localhost.crt").read_bytes())
    server.give("server.key", (folder / "localhost.key").read_bytes())
    server.give("root.crt", (folder / "authority.crt").read_bytes())
    server.give("pg_hba.conf", b"hostssl all certified all cert\nhostssl all all all scram-sha-256\n")
    server.set(ssl="on", ssl_ca_file="root.crt")
    server.start()
    yield server, folder
    server.remove()


def test_encrypted_connections(db, encrypted):
    server, folder = encrypted
    db.sql("CREATE SECRET pw AS '" + PASSWORD.replace("'", "''") + "'")

    authority = {"ssl.root.cert": str(folder / "authority.crt")}

    def create(changed: dict[str, str]) -> None:
        asked = options(server, **({"hostname": "localhost"} | changed))
        db.sql(f"CREATE SOURCE pg WITH ({asked}, password = SECRET pw)")

    for changed, said in (
        ({"ssl.mode": "disable"}, "no encryption"),
        ({"ssl.mode": "verify-ca", "ssl.root.cert": str(folder / "stranger.crt")}, "certificate verify failed"),
        ({"ssl.mode": "verify-full", "ssl.root.cert": str(folder / "absent.crt")}, "absent.crt"),
        ({"ssl.mode": "verify-full", "hostname": "127.0.0.1"} | authority, "does not match host name"),
        ({"ssl.mode": "require", "username": "certified"}, "certificate"),
    ):
        with pytest.raises(HeadraceError, match=said):
            create(changed)
    server.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    verified = {"ssl.mode": "verify-full"} | authority
    mine = {
        "ssl.cert": str(folder / "certified.crt"),
        "ssl.key": str(folder / "certified.key"),
        "username": "certified",
    }
    for changed in ({"ssl.mode": "require"}, verified, verified | mine):
        create(changed)
        db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
        server.run("INSERT INTO t SELECT max(id) + 1 FROM t")
        caught_up(db, server)
        assert rows(db, "SELECT * FROM t") == theirs(server, "SELECT * FROM t")
        ours = "SELECT count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'headrace'"
        assert server.run(f"{ours} AND NOT ssl") == [(0,)] and server.run(f"{ours} AND ssl")[0][0] >= 2
        db.sql("DROP SOURCE pg CASCADE")
