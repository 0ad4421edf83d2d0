"""Statements and their answers on one connection, as they come: notices at once, rows a few at a time.

What is asked goes by PostgreSQL's simple protocol: the server takes a text apart, and says where in it something is
wrong. An answer that nobody reads to its end holds up the connection, and nothing else.
"""

from __future__ import annotations

import contextlib
import selectors
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.errors import EngineClosed, Unsupported
from headrace.notices import Notice
from headrace.remote.errors import told
from headrace.sql.text import nul_character

if TYPE_CHECKING:
    import psycopg
    from psycopg.pq.abc import PGresult

CHUNK_ROWS = 100
"""Rows that are taken over at once, if libpq can; else one. They may be wide."""
LOOKS_EVERY = 0.5
"""Seconds, whether another thread has closed the connection: a socket that is closed wakes nobody who waits for it"""


class Wire:
    def __init__(self, connection: psycopg.Connection, on_notice: Callable[[str], None]):
        self.connection = connection
        self._pq = connection.pgconn
        self._on_notice = on_notice
        self._heard: list[str] = []
        self._idle = True
        self.statements = 0
        """So many were begun"""
        # Said later, and not from within libpq, which would swallow what goes wrong.
        connection.add_notice_handler(lambda told: self._heard.append(_notice(told)))

    def begin(self) -> None:
        """What an earlier statement has left to say is given up."""
        self.finish()
        if self.connection.closed:
            raise EngineClosed("the connection to the server is closed", hint="connect again")
        self._heard.clear()
        self.statements += 1

    def send(self, text: str) -> None:
        import psycopg

        if "\0" in text:  # libpq would take it for the end, and what is before it for a statement
            raise nul_character()
        self.begin()
        try:
            self._idle = False  # before: who is interrupted while it is sent has to cancel it
            self._pq.send_query(text.encode())
            with contextlib.suppress(psycopg.NotSupportedError):
                self._pq.set_single_row_mode()
                self._pq.set_chunked_rows_mode(CHUNK_ROWS)
            while self._pq.flush():
                if self._ready(selectors.EVENT_READ | selectors.EVENT_WRITE) & selectors.EVENT_READ:
                    self._pq.consume_input()
        except psycopg.Error as error:
            raise told(error) from None

    def answer(self) -> PGresult | None:
        """The next part of what is answered: some rows, the end of a statement, or an error, which is raised; None when
        all is said. Ctrl-C cancels."""
        import psycopg
        from psycopg.pq import ExecStatus

        if self._idle:
            return None
        try:
            answer = self._next()
            if answer is None:
                return None
            status = ExecStatus(answer.status)
            if status == ExecStatus.FATAL_ERROR:
                raise psycopg.errors.error_from_result(answer)
        except psycopg.Error as error:
            self.finish()
            raise told(error) from None
        except BaseException:
            self.finish()
            raise
        if status in (ExecStatus.COPY_IN, ExecStatus.COPY_OUT):
            self.finish()
            raise Unsupported("COPY is not supported here", hint="insert() brings many rows; psql has \\copy")
        return answer

    def finish(self) -> None:
        """Nobody wants what is still to come."""
        import psycopg

        if self._idle:
            return
        with contextlib.suppress(psycopg.Error):  # then it is heard to its end
            self.connection.cancel_safe()
        with contextlib.suppress(psycopg.Error):  # a connection that is lost answers no more
            while (answer := self._next()) is not None:
                self._leave_copy(answer)
        self._idle = True

    def _next(self) -> PGresult | None:
        while self._pq.is_busy():
            self._say_notices()
            self._ready(selectors.EVENT_READ)
            self._pq.consume_input()
        answer = self._pq.get_result()
        self._say_notices()
        self._idle = answer is None
        return answer

    def _leave_copy(self, answer: PGresult) -> None:
        from psycopg.pq import ExecStatus

        if answer.status == ExecStatus.COPY_IN:
            self._pq.put_copy_end(b"nothing is to be copied")
        elif answer.status == ExecStatus.COPY_OUT:
            while self._pq.get_copy_data(0)[0] > 0:
                pass

    def _say_notices(self) -> None:
        while self._heard:
            self._on_notice(self._heard.pop(0))

    def _ready(self, events: int) -> int:
        """Waits for the socket, in a way that Ctrl-C can interrupt."""
        while True:
            with selectors.DefaultSelector() as selector:
                selector.register(self._pq.socket, events)  # which a connection that is closed has no more
                for _, found in selector.select(LOOKS_EVERY):
                    return found


def columns_of(answer: PGresult) -> Iterator[list[bytes | None]]:
    rows = range(answer.ntuples)
    for at in range(answer.nfields):
        yield [answer.get_value(row, at) for row in rows]


def is_end(answer: PGresult) -> bool:
    """Of a statement, and not only a part of its rows."""
    from psycopg.pq import ExecStatus

    return answer.status in (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)


def is_empty(answer: PGresult) -> bool:
    """There was nothing but a comment."""
    from psycopg.pq import ExecStatus

    return answer.status == ExecStatus.EMPTY_QUERY


def _notice(told: psycopg.errors.Diagnostic) -> Notice:
    severity, sqlstate = told.severity_nonlocalized or "NOTICE", told.sqlstate or "00000"
    return Notice(told.message_primary or "", severity=severity, sqlstate=sqlstate)
