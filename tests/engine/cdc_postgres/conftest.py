"""A PostgreSQL server for the tests of tables that follow one, and what they all do with it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from headrace.cdc.postgres.server import before_header, parse_lsn
from tests.engine.conftest import eventually
from tests.support.postgres import PASSWORD, Postgres, binaries

NEEDS_POSTGRES = [
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL's server is not installed"),
    pytest.mark.xdist_group("postgres"),
]
"""For ``pytestmark``: all of them run in one worker, so there is one server"""

ROOT = Path(__file__).parents[3]


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


def options(postgres: Postgres, **changed: str) -> str:
    found = {
        "connector": "postgres-cdc", "hostname": "127.0.0.1", "port": str(postgres.port), "username": postgres.owner,
        "database.name": "postgres",
    } | changed  # fmt: skip
    return ", ".join(f"{name} = '{value}'" for name, value in found.items())


def create_source(db, postgres: Postgres, **changed: str) -> None:
    db.sql("CREATE SECRET IF NOT EXISTS pw AS '" + PASSWORD.replace("'", "''") + "'")
    db.sql(f"CREATE SOURCE pg WITH ({options(postgres, **changed)}, password = SECRET pw)")


@pytest.fixture
def source(db, postgres) -> None:
    create_source(db, postgres)


def follower(db):
    (found,) = db.engine.sources._followers.values()
    return found


def caught_up(db, postgres: Postgres) -> None:
    """Waits until all that the server has committed is committed here."""
    lsn, block = postgres.run("SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int")[0]
    wanted = before_header(parse_lsn(lsn), block)
    following = follower(db)

    def reached() -> bool:
        following._stream.nudge()
        return following._stream.position >= wanted

    eventually(reached)


def rows(db, query: str) -> list[tuple]:
    return sorted((tuple(row) for row in db.sql(query).rows()), key=repr)


def theirs(postgres: Postgres, query: str) -> list[tuple]:
    return sorted(postgres.run(query), key=repr)


def stopped(db) -> dict[str, tuple[str, str]]:
    return {row[1].split()[2]: (row[2], row[8]) for row in db.sql("SHOW JOBS").rows()}
