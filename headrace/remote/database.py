"""What :class:`headrace.database.Database` offers, of a server."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.errors import EngineClosed
from headrace.remote.address import Address
from headrace.remote.copying import insert
from headrace.remote.jobs import RemoteJob, find_job, running_jobs
from headrace.remote.result import RemoteResult
from headrace.remote.session import RemoteSession

if TYPE_CHECKING:
    import psycopg

_STORED = """\
SELECT name, 'table' AS kind, row_count, stored_bytes FROM rw_catalog.rw_tables
UNION ALL SELECT name, 'materialized view', row_count, stored_bytes FROM rw_catalog.rw_materialized_views
UNION ALL SELECT name, 'index', NULL, NULL FROM rw_catalog.rw_indexes"""


class RemoteDatabase:
    """Connections are opened when they are needed: one for what :meth:`sql` runs, one for what is asked of jobs
    meanwhile, and one for each session."""

    def __init__(self, address: Address):
        self._address = address
        self._lock = threading.Lock()
        self._spare: psycopg.Connection | None = address.open()  # or nobody knows yet whether there is a server
        self._sessions: dict[str, RemoteSession] = {}
        self._opened: list[RemoteSession] = []
        self._closed = False

    def sql(self, text: str) -> RemoteResult:
        """Runs all statements and answers the last one's result, with all of its rows."""
        return self._own("sql").sql(text)

    def session(self) -> RemoteSession:
        """A session with variables of its own: a connection of its own, open until it is closed, or the database is."""
        with self._lock:
            session = self._open_now()
            self._opened = [*(each for each in self._opened if not each.closed), session]
        return session

    def insert(self, table: str, rows: pa.Table) -> int:
        """Adds Arrow rows to a table, without SQL; columns go by name, missing ones get their default."""
        return insert(self._own("sql"), table, rows)

    def jobs(self) -> list[RemoteJob]:
        """The views and indexes that are being filled now; also while a statement runs."""
        return running_jobs(self._own("jobs"), self._open)

    def job(self, name_or_id: str | int) -> RemoteJob:
        """The job of a view or an index, by its name or number; one that is filled already has the state "done"."""
        return find_job(self._own("jobs"), self._open, name_or_id)

    def status(self) -> dict[str, Any]:
        """What is stored; also while a statement runs."""
        rows = self._own("jobs").ask(_STORED).rows()
        return {"relations": [dict(zip(("name", "kind", "rows", "bytes"), row, strict=True)) for row in rows]}

    @property
    def place(self) -> str:
        """Where the server is, without a password."""
        return str(self._address)

    def _own(self, purpose: str) -> RemoteSession:
        with self._lock:
            if purpose not in self._sessions:
                self._sessions[purpose] = self._open_now()
            return self._sessions[purpose]

    def _open(self) -> RemoteSession:
        with self._lock:
            return self._open_now()

    def _open_now(self) -> RemoteSession:
        if self._closed:
            raise EngineClosed("the connection to the server is closed", hint="connect again")
        connection, self._spare = self._spare, None
        return RemoteSession(self._address, connection or self._address.open())

    def close(self) -> None:
        with self._lock, contextlib.ExitStack() as closing:
            self._closed = True
            for each in (self._spare, *self._sessions.values(), *self._opened):
                if each is not None:
                    closing.callback(each.close)

    def __repr__(self) -> str:
        return f"<RemoteDatabase {self.place}>"

    def __enter__(self) -> RemoteDatabase:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def connect(url: str) -> RemoteDatabase:
    return RemoteDatabase(Address(url))
