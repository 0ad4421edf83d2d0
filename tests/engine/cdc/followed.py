"""Servers of all kinds, as tests of tables that follow them see them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar

from tests.engine.cdc.load import Load
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]


class Followed(ABC):
    """A server, and what the same story needs to be told of each kind."""

    source: ClassVar[str]
    """What it is called in SQL"""
    options: ClassVar[dict[str, str]]
    """Those that do not depend on the server"""
    password: ClassVar[str]
    load: ClassVar[Load]
    denied: ClassVar[str]
    """What it says to a wrong password"""

    def __init__(self, server: Any):
        self.server = server

    @property
    @abstractmethod
    def user(self) -> str: ...

    def address(self, **changed: str) -> str:
        """For WITH (…)."""
        where = {"hostname": "127.0.0.1", "port": str(self.server.port), "username": self.user}
        return ", ".join(f"{name} = '{value}'" for name, value in (self.options | where | changed).items())

    def create_source(self, db, **changed: str) -> None:
        db.sql("CREATE SECRET IF NOT EXISTS pw AS '" + self.password.replace("'", "''") + "'")
        db.sql(f"CREATE SOURCE {self.source} WITH ({self.address(**changed)}, password = SECRET pw)")

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.server.run(statement)

    @abstractmethod
    def caught_up(self, db) -> None:
        """Waits until all that the server has committed is committed here."""

    def let_go(self) -> None:  # noqa: B027 (a server may have nothing to notice)
        """Waits until the server has noticed that whoever followed it is gone, if it cares."""

    @abstractmethod
    def add_user(self, name: str, password: str) -> None:
        """One who may do everything."""

    @abstractmethod
    def set_password(self, name: str, password: str) -> None: ...

    @abstractmethod
    def throw_out(self, name: str) -> None:
        """Ends all connections of a user."""

    @abstractmethod
    def drop_user(self, name: str) -> None: ...


def follower(db):
    (found,) = db.engine.sources._followers.values()
    return found


def rows(db, query: str) -> list[tuple]:
    return sorted((tuple(row) for row in db.sql(query).rows()), key=repr)


def theirs(server, query: str) -> list[tuple]:
    return sorted(server.run(query), key=repr)


def stopped(db) -> dict[str, tuple[str, str]]:
    return {row[1].split()[2]: (row[4], row[9]) for row in db.sql("SHOW JOBS").rows()}


def source_state(db) -> tuple[str, str | None]:
    ((_, _, state, _, _, error, *_),) = db.sql("SHOW SOURCES").rows()
    return state, error


def some_epochs_later(db) -> None:
    epoch = db.engine.committed.epoch
    eventually(lambda: db.engine.committed.epoch > epoch + 4)
