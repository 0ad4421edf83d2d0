"""A MariaDB server for the tests of tables that follow one, and what they all do with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.cdc.mysql.positions import Place
from tests.engine.conftest import eventually
from tests.support.mariadb import PASSWORD, USER, MariaDb, binaries

NEEDS_MARIADB = [
    pytest.mark.skipif(binaries() is None, reason="MariaDB's server is not installed"),
    pytest.mark.xdist_group("mariadb"),
]
"""For ``pytestmark``: all of them run in one worker, so there is one server"""

ROOT = Path(__file__).parents[3]


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


def options(mariadb: MariaDb, **changed: str) -> str:
    found = {
        "connector": "mysql-cdc", "hostname": "127.0.0.1", "port": str(mariadb.port), "username": USER,
        "database.name": "shop",
    } | changed  # fmt: skip
    return ", ".join(f"{name} = '{value}'" for name, value in found.items())


def create_source(db, mariadb: MariaDb, **changed: str) -> None:
    db.sql("CREATE SECRET IF NOT EXISTS pw AS '" + PASSWORD.replace("'", "''") + "'")
    db.sql(f"CREATE SOURCE my WITH ({options(mariadb, **changed)}, password = SECRET pw)")


@pytest.fixture
def source(db, mariadb) -> None:
    create_source(db, mariadb)


def follower(db):
    (found,) = db.engine.sources._followers.values()
    return found


def log_end(mariadb: MariaDb) -> int:
    name, offset, *_ = mariadb.run("SHOW MASTER STATUS")[0]
    return Place.parse(name, offset).number


def caught_up(db, mariadb: MariaDb) -> None:
    """Waits until all that the server has committed is committed here."""
    wanted, following = log_end(mariadb), follower(db)
    eventually(lambda: following._stream.position >= wanted)


def rows(db, query: str) -> list[tuple]:
    return sorted((tuple(row) for row in db.sql(query).rows()), key=repr)


def theirs(mariadb: MariaDb, query: str) -> list[tuple]:
    return sorted(mariadb.run(query), key=repr)


def stopped(db) -> dict[str, tuple[str, str]]:
    return {row[1].split()[2]: (row[2], row[8]) for row in db.sql("SHOW JOBS").rows()}


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
