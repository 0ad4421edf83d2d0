"""Connections to a MariaDB server: cut, refused, encrypted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from tests.engine.cdc_mariadb.conftest import NEEDS_MARIADB, caught_up, create_source, options, rows, theirs
from tests.engine.conftest import eventually
from tests.support.certificates import certificate
from tests.support.mariadb import PASSWORD, MariaDb
from tests.support.proxy import Proxy

pytestmark = NEEDS_MARIADB


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    found = Proxy(server.port)
    yield found
    found.close()


def source_state(db) -> tuple[str, str | None]:
    ((_, _, state, _, _, error, *_),) = db.sql("SHOW SOURCES").rows()
    return state, error


def test_a_network_that_is_cut_again_and_again(db, mariadb, proxy):
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)", "INSERT INTO t SELECT seq, 0 FROM seq_1_to_60")
    create_source(db, mariadb, port=str(proxy.port))
    db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (backfill.num_rows_per_split = 2, backfill.parallelism = 1)")
    job = db.job("t")
    for number in range(1, 4):
        eventually(lambda past=10 * number: job.progress().rows_read >= past)
        proxy.cut()
        eventually(lambda: source_state(db)[0] == "retrying")
        assert "MariaDB at" in source_state(db)[1]
        mariadb.run(f"UPDATE t SET v = {number} WHERE id % 7 = 0", f"DELETE FROM t WHERE id = {number}")
        proxy.mend()
    job.wait(60)
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t") and source_state(db) == ("running", None)
    proxy.cut()  # for good: nothing is left on the server
    assert db.sql("DROP SOURCE my CASCADE").notice is None


def test_a_password_that_is_changed(db, mariadb, caplog):
    mariadb.run(
        "CREATE USER changing@'%' IDENTIFIED BY 'f1rst'", "GRANT ALL ON *.* TO changing@'%'",
        "CREATE TABLE t (id INT PRIMARY KEY)",
    )  # fmt: skip
    try:
        db.sql("CREATE SECRET pw AS 'f1rst'")
        db.sql(f"CREATE SOURCE my WITH ({options(mariadb, username='changing')}, password = SECRET pw)")
        db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
        mariadb.run("SET PASSWORD FOR changing@'%' = PASSWORD('s3cond')", "KILL USER changing")
        eventually(lambda: "Access denied" in (source_state(db)[1] or ""))
        assert "f1rst" not in source_state(db)[1] and "f1rst" not in caplog.text
        mariadb.run("INSERT INTO t VALUES (1)", "SET PASSWORD FOR changing@'%' = PASSWORD('f1rst')")
        eventually(lambda: source_state(db) == ("running", None))
        caught_up(db, mariadb)
        assert rows(db, "SELECT * FROM t") == [(1,)]
        db.sql("DROP SOURCE my CASCADE")
    finally:
        mariadb.run("DROP USER changing@'%'")


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory) -> Iterator[tuple[MariaDb, Path]]:
    """A server that has a certificate, lets nobody in without TLS, and wants one of the user "certified"."""
    folder = tmp_path_factory.mktemp("certificates")
    certificate(folder, "authority", None)
    certificate(folder, "stranger", None)
    certificate(folder, "localhost", "authority", "-addext", "subjectAltName=DNS:localhost")
    certificate(folder, "certified", "authority")
    server = MariaDb()
    server.stop()
    files = {"ssl-cert": "localhost.crt", "ssl-key": "localhost.key", "ssl-ca": "authority.crt"}
    server.start(**{name: server.give(path, (folder / path).read_bytes()) for name, path in files.items()})
    server.run(
        "ALTER USER headrace@'%' REQUIRE SSL", "CREATE USER certified@'%' REQUIRE X509",
        "GRANT ALL ON *.* TO certified@'%'", "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)",
    )  # fmt: skip
    yield server, folder
    server.remove()


def test_encrypted_connections(db, encrypted):
    server, folder = encrypted
    db.sql("CREATE SECRET pw AS '" + PASSWORD.replace("'", "''") + "'")
    authority = {"ssl.root.cert": str(folder / "authority.crt")}

    def create(changed: dict[str, str], password: str = ", password = SECRET pw") -> None:
        asked = options(server, **({"hostname": "localhost"} | changed))
        db.sql(f"CREATE SOURCE my WITH ({asked}{password})")

    for changed, said in (
        ({"ssl.mode": "disabled"}, "Access denied"),
        ({"ssl.mode": "verify_ca", "ssl.root.cert": str(folder / "stranger.crt")}, "(?i)certificate verify failed"),
        ({"ssl.mode": "verify_identity", "ssl.root.cert": str(folder / "absent.crt")}, "No such file"),
        ({"ssl.mode": "verify_identity", "hostname": "127.0.0.1"} | authority, "IP address mismatch"),
        ({"ssl.mode": "sometimes"}, "ssl.mode cannot be"),
        ({"ssl.cert": "x"}, "belong together"),
    ):
        with pytest.raises(HeadraceError, match=said):
            create(changed)
    with pytest.raises(HeadraceError, match="Access denied"):
        create({"ssl.mode": "required", "username": "certified"}, "")
    mine = {
        "ssl.cert": str(folder / "certified.crt"), "ssl.key": str(folder / "certified.key"), "username": "certified",
    }  # fmt: skip
    verified = {"ssl.mode": "verify_identity"} | authority
    for changed, password in (
        ({}, ", password = SECRET pw"),
        ({"ssl.mode": "required"}, ", password = SECRET pw"),
        ({"ssl.mode": "verify_ca", "hostname": "127.0.0.1"} | authority, ", password = SECRET pw"),
        (verified | mine, ""),
    ):
        create(changed, password)
        db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
        server.run("INSERT INTO t SELECT max(id) + 1 FROM t")
        caught_up(db, server)
        assert rows(db, "SELECT * FROM t") == theirs(server, "SELECT * FROM t")
        db.sql("DROP SOURCE my CASCADE")
