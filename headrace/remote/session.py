"""One connection, which is one session: variables, temporary tables, and one statement at a time."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.remote.address import Address
from headrace.remote.errors import told
from headrace.remote.result import Columns, RemoteResult, RowsGone
from headrace.remote.values import column_type
from headrace.remote.wire import Wire, columns_of, is_empty, is_end
from headrace.zones import session_zone

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult


class RemoteSession:
    def __init__(self, address: Address, connection: psycopg.Connection):
        self.on_notice: Callable[[str], None] | None = None
        """Who is told what the server says while a statement runs; without anybody, its result is."""
        self._address = address
        self._connection = connection
        self._notices: list[str] = []
        self._wire = Wire(connection, self._heard)
        self._turn = threading.RLock()

    def sql(self, text: str) -> RemoteResult:
        """Runs all statements and answers the last one's result, with all of its rows."""
        with self._turn:
            results = deque(self.execute(text), maxlen=1)
        return results[0] if results else _nothing()

    def ask(self, text: str) -> RemoteResult:
        """The same for a text that the user has not written, and into which no error is to point."""
        try:
            return self.sql(text)
        except HeadraceError as error:
            error.position = None
            raise

    def execute(self, text: str) -> Iterator[RemoteResult]:
        """The results one after the other. Rows come as they are read, or are kept when the next result is asked for;
        who asks for no more has cancelled what still runs."""
        self._notices = []
        try:
            self._wire.send(text)
            while (answer := self._wire.answer()) is not None:
                if is_empty(answer):
                    continue
                result = self._result(answer)
                yield result
                result.keep()
        finally:
            self._wire.finish()

    def _result(self, answer: PGresult) -> RemoteResult:
        columns = range(answer.nfields)
        coming = _Coming(self._wire, answer)
        zone = self._connection.pgconn.parameter_status(b"TimeZone") or b"UTC"
        notices, self._notices = self._notices, []
        return RemoteResult(
            [(answer.fname(at) or b"").decode() for at in columns],
            [column_type(answer.ftype(at), answer.fmod(at)) for at in columns],
            coming,
            notices,
            session_zone(zone.decode()).name,
        )

    def copy_in(self, statement: str, pieces: Iterable[bytes]) -> int:
        """COPY … FROM STDIN: nothing is written unless all of it has come."""
        import psycopg

        with self._turn:
            self._wire.begin()
            try:
                with psycopg.ClientCursor(self._connection) as cursor:
                    with cursor.copy(statement) as copy:
                        for piece in pieces:
                            copy.write(piece)
                    return cursor.rowcount
            except psycopg.Error as error:
                raise told(error, positions=False) from None

    def _heard(self, notice: str) -> None:
        if self.on_notice is None:
            self._notices.append(notice)
        else:
            self.on_notice(notice)

    def close(self) -> None:
        """Its temporary tables go."""
        self._connection.close()

    @property
    def closed(self) -> bool:
        return self._connection.closed

    def __repr__(self) -> str:
        return f"<RemoteSession {self._address}>"


class _Coming:
    """The rows of one result, as long as the session has not gone on to the next."""

    def __init__(self, wire: Wire, first: PGresult):
        self._wire = wire
        self._answer: PGresult | None = first
        self._number = wire.statements
        self.tag = ""

    def __iter__(self) -> Iterator[Columns]:
        while self._answer is not None:
            answer, self._answer = self._answer, None
            if answer.ntuples and answer.nfields:
                yield list(columns_of(answer))
            self.tag = (answer.command_status or b"").decode() or self.tag  # it may come with the last rows
            if is_end(answer):
                return
            if self._number == self._wire.statements:
                self._answer = self._wire.answer()
            if self._answer is None:
                raise RowsGone("the session has gone on: the rest of these rows is gone", hint="ask with sql()")


class _NoRows:
    tag = "EMPTY"

    def __iter__(self) -> Iterator[Columns]:
        return iter(())


def _nothing() -> RemoteResult:
    return RemoteResult([], [], _NoRows(), [], "UTC")
