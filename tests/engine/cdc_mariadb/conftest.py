"""A MariaDB server for the tests of tables that follow one, and what they all do with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pymysql
import pytest

import headrace
from headrace.cdc.mysql.positions import Place
from tests.engine.cdc.followed import ROOT, Followed, follower, rows, stopped, theirs
from tests.engine.cdc_mariadb.load import MariaDbLoad
from tests.support.mariadb import PASSWORD, USER, MariaDb, MySql
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

__all__ = ["ROOT", "follower", "rows", "stopped", "theirs"]  # for tests, along with what is here

KINDS = {"mariadb": MariaDb, "mysql": MySql}
BOTH = tuple(KINDS)
"""For ``SERVERS`` of a module, or of a test: on which ones it runs; without it, on MariaDB alone"""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "server" in metafunc.fixturenames:
        named = getattr(metafunc.function, "servers", None) or getattr(metafunc.module, "SERVERS", ("mariadb",))
        metafunc.parametrize("server", [_needed(kind) for kind in named], indirect=True, scope="session")


def _needed(kind: str):
    # All tests of one server run in one worker, so there is one of it.
    missing = pytest.mark.skipif(KINDS[kind].binaries() is None, reason=f"{KINDS[kind].name}'s server is not installed")
    return pytest.param(kind, marks=[missing, pytest.mark.xdist_group(kind)], id=kind)


def servers(*kinds: str):
    """Says of one test on which servers it runs."""

    def mark(test):
        test.servers = kinds
        return test

    return mark


@pytest.fixture(scope="session")
def server(request) -> Iterator[MariaDb]:
    server = KINDS[request.param]()
    yield server
    server.remove()


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
    """Or MySQL."""

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
        self.run(f"ALTER USER {name}@'%' IDENTIFIED BY '{password}'")

    def throw_out(self, name: str) -> None:
        for (connection,) in self.server.run(
            f"SELECT id FROM information_schema.processlist WHERE user = '{name}' AND command <> 'Killed'"
        ):
            with contextlib.suppress(pymysql.MySQLError):  # it may be gone by now
                self.run(f"KILL {connection}")

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
    return Place.parse(*mariadb.log_end()).number


def caught_up(db, mariadb: MariaDb) -> None:
    """Waits until all that the server has committed is committed here."""
    wanted, following = log_end(mariadb), follower(db)
    eventually(lambda: following._stream.position >= wanted)


@contextlib.contextmanager
def commits_held(mariadb: MariaDb) -> Iterator[None]:
    mariadb.hold_commits(True)
    try:
        yield
    finally:
        mariadb.hold_commits(False)
