"""Connections to a server: cut, refused, encrypted."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cdc.mysql.positions import Place
from headrace.cdc.mysql.server import Control
from headrace.cdc.mysql.session import Address
from headrace.cdc.mysql.stream import LogStream
from tests.engine.cdc import stories
from tests.engine.cdc_mariadb.conftest import BOTH, KINDS, FollowedMariaDb
from tests.support.mariadb import PASSWORD, USER, MariaDb
from tests.support.waiting import eventually

SERVERS = BOTH


def test_a_network_that_is_cut_again_and_again(db, followed, proxy):
    # Nothing is left on the server, so nothing is said about it.
    assert stories.a_network_that_is_cut_again_and_again(db, followed, proxy, said=f"{followed.server.name} at") is None


def test_what_is_taken_while_the_connection_is_lost_is_known(mariadb, proxy):
    """Which transactions there were before it is asked when the log is read on from there, and must be right."""
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)")
    address = Address(host="127.0.0.1", port=proxy.port, user=USER, database="shop", password=PASSWORD)
    with contextlib.closing(Control(dataclasses.replace(address, port=mariadb.port))) as control:
        start, known = control.start()
        stream = LogStream(
            address, base=start.base, server_id=4711, server_uuid=control.uuid(), gtids=known,
            position=start.number, on_news=lambda: None,
        )  # fmt: skip
        stream.start()
        try:
            mariadb.run(*(f"INSERT INTO t VALUES ({id})" for id in range(20)))
            end = control.log_end()
            eventually(lambda: stream.received >= end)
            pieces = stream.peek(1000)
            proxy.cut()
            eventually(lambda: stream.received == start.number)  # it tries to begin anew, before they are taken
            stream.take(pieces)
            control.check_log(Place.of(start.base, stream.taken), stream.gtids_at(stream.taken), control.uuid())
            proxy.mend()
            mariadb.run("INSERT INTO t VALUES (20)")
            eventually(lambda: len(stream.peek(1000)) == 1)
            assert stream.error is None
        finally:
            stream.stop()


def test_a_password_that_is_changed(db, followed, caplog):
    stories.a_password_that_is_changed(db, followed, caplog)


@pytest.fixture(scope="module")
def encrypted(server, tmp_path_factory) -> Iterator[tuple[MariaDb, Path]]:
    """A server that has a certificate, lets nobody in without TLS, and wants one of the user "certified"."""
    folder = tmp_path_factory.mktemp("certificates")
    stories.certificates(folder)
    server = KINDS[server.name.lower()]()
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
    authority = {"ssl.root.cert": str(folder / "authority.crt")}
    verified = {"ssl.mode": "verify_identity"} | authority
    mine = {
        "ssl.cert": str(folder / "certified.crt"), "ssl.key": str(folder / "certified.key"), "username": "certified",
    }  # fmt: skip
    stories.encrypted_connections(
        db,
        FollowedMariaDb(server),
        refused=[
            ({"ssl.mode": "disabled"}, "Access denied|only on an encrypted connection"),
            ({"ssl.mode": "verify_ca", "ssl.root.cert": str(folder / "stranger.crt")}, "(?i)certificate verify failed"),
            ({"ssl.mode": "verify_identity", "ssl.root.cert": str(folder / "absent.crt")}, "No such file"),
            (verified | {"hostname": "127.0.0.1"}, "IP address mismatch"),
            ({"ssl.mode": "sometimes"}, "ssl.mode cannot be"),
            ({"ssl.cert": "x"}, "belong together"),
            (authority, "ssl.root.cert is of no use with ssl.mode = 'preferred'"),
            ({"ssl.mode": "required", "username": "certified"}, "Access denied"),
        ],
        accepted=[
            {},
            {"ssl.mode": "required"},
            {"ssl.mode": "verify_ca", "hostname": "127.0.0.1"} | authority,
            verified | mine,
        ],
    )
