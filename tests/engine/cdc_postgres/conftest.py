"""A PostgreSQL server for the tests of tables that follow one, and what they all do with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

import headrace
from headrace.cdc.postgres.server import before_header, parse_lsn
from tests.engine.cdc.followed import ROOT, Followed, follower, rows, stopped, theirs
from tests.engine.cdc_postgres.load import PostgresLoad
from tests.support.postgres import PASSWORD, Postgres, binaries
from tests.support.proxy import Proxy
from tests.support.waiting import eventually

__all__ = ["ROOT", "follower", "rows", "stopped", "theirs"]  # for tests, along with what is here

NEEDS_POSTGRES = [
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL's server is not installed"),
    pytest.mark.xdist_group("postgres"),
]
"""For ``pytestmark``: all of them run in one worker, so there is one server"""


@pytest.fixture(scope="session")
def server() -> Iterator[Postgres]:
    postgres = Postgres()
    yield postgres
    postgres.remove()


@pytest.fixture
def postgres(server) -> Iterator[Postgres]:
    """The server, with an empty schema "public"."""
    yield server
    server.run("ALTER SYSTEM RESET ALL")
    server.run("SELECT pg_reload_conf()")
    server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    for (name,) in server.run("SELECT pubname FROM pg_publication"):
        server.run(f'DROP PUBLICATION "{name}"')
    server.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL")
    for (name,) in server.run("SELECT slot_name FROM pg_replication_slots"):
        eventually(lambda slot=name: not active(server, slot))
        server.run(f"SELECT pg_drop_replication_slot('{name}')")


@pytest.fixture
def db(postgres, spark, warehouse) -> Iterator:
    """Closed before the server is cleaned up."""
    with headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"}) as database:
        yield database


def active(postgres: Postgres, slot: str) -> bool:
    return postgres.run(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'")[0][0]


class FollowedPostgres(Followed):
    source = "pg"
    options = {"connector": "postgres-cdc", "database.name": "postgres"}
    password = PASSWORD
    load = PostgresLoad()
    denied = "authentication failed"

    @property
    def user(self) -> str:
        return self.server.owner

    def caught_up(self, db) -> None:
        caught_up(db, self.server)

    def let_go(self) -> None:
        eventually(lambda: not self.server.run("SELECT 1 FROM pg_replication_slots WHERE active"))

    def add_user(self, name: str, password: str) -> None:
        self.run(f"CREATE ROLE {name} SUPERUSER LOGIN PASSWORD '{password}'")

    def set_password(self, name: str, password: str) -> None:
        self.run(f"ALTER ROLE {name} PASSWORD '{password}'")

    def throw_out(self, name: str) -> None:
        self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{name}'")

    def drop_user(self, name: str) -> None:
        self.run(f"REASSIGN OWNED BY {name} TO CURRENT_USER", f"DROP ROLE {name}")


@pytest.fixture
def followed(postgres) -> FollowedPostgres:
    return FollowedPostgres(postgres)


@pytest.fixture
def proxy(server) -> Iterator[Proxy]:
    with contextlib.closing(Proxy(server.port)) as found:
        yield found


def options(postgres: Postgres, **changed: str) -> str:
    return FollowedPostgres(postgres).address(**changed)


def create_source(db, postgres: Postgres, **changed: str) -> None:
    FollowedPostgres(postgres).create_source(db, **changed)


@pytest.fixture
def source(db, postgres) -> None:
    create_source(db, postgres)


def caught_up(db, postgres: Postgres) -> None:
    """Waits until all that the server has committed is committed here."""
    lsn, block = postgres.run("SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int")[0]
    wanted = before_header(parse_lsn(lsn), block)
    following = follower(db)

    def reached() -> bool:
        following._stream.nudge()
        return following._stream.position >= wanted

    eventually(reached)
