"""A MariaDB server for the tests of tables that follow one, and what they all do with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import headrace
from headrace.cdc.mysql.positions import Place
from tests.engine.cdc.followed import ROOT, Followed, follower, rows, stopped, theirs
from tests.engine.cdc_mariadb.load import MariaDbLoad
from tests.support.mariadb import PASSWORD, USER, MariaDb, binaries
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

__all__ = ["ROOT", "follower", "rows", "stopped", "theirs"]  # for tests, along with what is here

NEEDS_MARIADB = [
    pytest.mark.skipif(binaries() is None, reason="MariaDB's server is not installed"),
    pytest.mark.xdist_group("mariadb"),
]
"""For ``pytestmark``: all of them run in one worker, so there is one server"""


@pytest.fixture(scope="session")
def server() -> Iterator[MariaDb]:
    mariadb = MariaDb()
    yield mariadb
    mariadb.remove()


@pytest.fixture
def mariadb(server) -> Iterator[MariaDb]:
    """The server, with an empty database "shop"."""
    yield server
    server.run("DROP DATABASE IF EXISTS shop", "CREATE DATABASE shop")


@pytest.fixture
def db(mariadb, spark, warehouse) -> Iterator:
    """Closed before the server is cleaned up."""
    with headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"}) as database:
        yield database


class FollowedMariaDb(Followed):
    source = "my"
    options = {"connector": "mysql-cdc", "database.name": "shop"}
    password = PASSWORD
    load = MariaDbLoad()
    denied = "Access denied"
    user = USER

    def caught_up(self, db) -> None:
        caught_up(db, self.server)

    def add_user(self, name: str, password: str) -> None:
        self.run(f"CREATE USER {name}@'%' IDENTIFIED BY '{password}'", f"GRANT ALL ON *.* TO {name}@'%'")

    def set_password(self, name: str, password: str) -> None:
        self.run(f"SET PASSWORD FOR {name}@'%' = PASSWORD('{password}')")

    def throw_out(self, name: str) -> None:
        self.run(f"KILL USER {name}")

    def drop_user(self, name: str) -> None:
        self.run(f"DROP USER {name}@'%'")


@pytest.fixture
def followed(mariadb) -> FollowedMariaDb:
    return FollowedMariaDb(mariadb)


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    with contextlib.closing(Proxy(server.port)) as found:
        yield found


def options(mariadb: MariaDb, **changed: str) -> str:
    return FollowedMariaDb(mariadb).address(**changed)


def create_source(db, mariadb: MariaDb, **changed: str) -> None:
    FollowedMariaDb(mariadb).create_source(db, **changed)


@pytest.fixture
def source(db, mariadb) -> None:
    create_source(db, mariadb)


def log_end(mariadb: MariaDb) -> int:
    name, offset, *_ = mariadb.run("SHOW MASTER STATUS")[0]
    return Place.parse(name, offset).number


def caught_up(db, mariadb: MariaDb) -> None:
    """Waits until all that the server has committed is committed here."""
    wanted, following = log_end(mariadb), follower(db)
    eventually(lambda: following._stream.position >= wanted)


@contextlib.contextmanager
def commits_held(mariadb: MariaDb) -> Iterator[None]:
    """Commits are in the log, and sent to replicas, and no SELECT sees them: until a replica has answered, of which
    there is none."""
    mariadb.run(
        "SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_SYNC'",
        "SET GLOBAL rpl_semi_sync_master_timeout = 600000",
        "SET GLOBAL rpl_semi_sync_master_wait_no_slave = ON",
        "SET GLOBAL rpl_semi_sync_master_enabled = ON",
    )
    try:
        yield
    finally:
        mariadb.run("SET GLOBAL rpl_semi_sync_master_enabled = OFF")
