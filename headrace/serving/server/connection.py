"""One client, in a thread of its own: its messages in order, and what each is answered.

An error ends the statement and not the connection, unless the client does not speak the protocol. What a client does,
or fails to do, costs nobody but itself: its thread waits for its socket, and the epoch loop waits for no such thread.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial

import pyarrow as pa

from headrace.catalog import Relation
from headrace.engine.engine import Engine
from headrace.engine.news import asking
from headrace.errors import HeadraceError, QueryCancelled
from headrace.serving.result import Result
from headrace.serving.server.budget import too_much_held, tree_bytes
from headrace.serving.server.channel import Channel, Gone
from headrace.serving.server.copying import copy_in, copy_out, query_text
from headrace.serving.server.grouping import InsertGroup
from headrace.serving.server.parameters import without_positions
from headrace.serving.server.portal import Portal
from headrace.serving.server.prepared import Bound, PreparedStatements
from headrace.serving.server.startup import Greeting
from headrace.serving.server.timings import Timings
from headrace.serving.session import Session
from headrace.serving.transaction import FAILED, IDLE
from headrace.serving.wire import reader, writer
from headrace.serving.wire.rows import spread
from headrace.sql import statements as ast
from headrace.sql.parse import parse

log = logging.getLogger("headrace.server")

CANCEL_AGAIN = 0.3
"""Seconds"""

REPORTED = {
    "server_version": "server_version", "server_encoding": "server_encoding", "client_encoding": "client_encoding",
    "DateStyle": "datestyle", "TimeZone": "timezone", "integer_datetimes": "integer_datetimes",
    "standard_conforming_strings": "standard_conforming_strings", "IntervalStyle": "intervalstyle",
    "application_name": "application_name",
}  # fmt: skip
"""What PostgreSQL tells clients without being asked, under the names it uses."""

_OF_CONNECTION = (
    ast.Copy, ast.DeclareCursor, ast.FetchCursor, ast.CloseCursor, ast.Prepare, ast.Deallocate, ast.Discard,
)  # fmt: skip
"""Statements that the session does not perform"""


class ShuttingDown(HeadraceError):
    sqlstate = "57P01"


class CannotRunAgain(HeadraceError):
    sqlstate = "55000"


class InternalError(HeadraceError):
    """A fault of ours."""


class Connection:
    def __init__(
        self, channel: Channel, engine: Engine, greeting: Greeting, *, process: int, secret: int, timings: Timings
    ):
        self.process, self.secret = process, secret
        self.user = greeting.user
        self._channel = channel
        self._engine = engine
        self._greeting = greeting
        self._session = Session(engine, on_notice=self._notice_now, while_waiting=self._refuse_if_nobody_waits)
        self._session.user, self._session.process = greeting.user, process
        self._prepared = PreparedStatements(self._session, keep=partial(channel.hold, what="prepared"))
        self._timings = timings
        self._group = InsertGroup(self._write_group, channel.send)
        self._prepared.before_running = self._group.settle
        self._skipping = False
        """After an error, up to the next Sync"""
        self._reported: dict[str, str] = {}
        self._reported_version = -1
        self._busy = threading.Lock()
        self._running = False
        self._begun = 0
        """Counts what was begun, so that a cancellation meets only what it was meant for"""
        self._timed_out = False
        self.stopping = False
        self._cut_off = False
        self.statements = 0

    # --- for other threads -------------------------------------------------------------------------------------

    def cancel(self) -> None:
        """As Ctrl-C: what is running now, if anything is."""
        with self._busy:
            if self._running and not self._session.cancelled:
                self._session.cancel()
                threading.Thread(target=self._keep_cancelling, args=(self._begun,), daemon=True).start()

    def _keep_cancelling(self, begun: int) -> None:
        """A statement that was still being planned starts its Spark jobs later: those must not run either."""
        while True:
            time.sleep(CANCEL_AGAIN)
            with self._busy:
                if not self._running or self._begun != begun:
                    return
                self._session.cancel()

    def stop(self) -> None:
        """The statement that is running may end; there will be no other."""
        self.stopping = True
        self._channel.stop_reading()

    def give_up(self) -> None:
        """What is running ends now, and the client is told."""
        self._cut_off = True
        self.cancel()

    def cut(self) -> None:
        self._channel.cut()

    @property
    def running(self) -> bool:
        return self._running

    # --- the thread --------------------------------------------------------------------------------------------

    def serve(self) -> None:
        try:
            self._serve()
        finally:
            self._prepared.close_portals()
            self._session.close()

    def _serve(self) -> None:
        asking.set(f"session {self.process}")
        self._session.own_thread()
        for name, value in self._greeting.settings.items():
            self._session.start_with(name, value)
        self._report_parameters()
        self._channel.send(writer.backend_key(self.process, self.secret))
        self._ready()
        try:
            self._converse()
        except Gone:
            if not self.stopping:
                raise
            self._say_goodbye()

    def _converse(self) -> None:
        while True:
            message = self._channel.message(before_waiting=self._settle)
            if isinstance(message, reader.Terminate):
                return
            if self.stopping and not isinstance(message, reader.Sync):
                # What has come already is not begun any more, however much it is; what was begun gets its answer.
                self._settle()
                raise Gone("the server stops")
            if isinstance(message, reader.Sync):
                self._settle()
                self._skipping = False
                if self._session.status == IDLE:
                    self._prepared.forget_bound()
                self._ready()
            elif isinstance(message, reader.Query):
                self._settle()
                self._skipping = False
                self._guarded(partial(self._simple, message.text))
                self._ready()
            elif isinstance(message, reader.BadText) and message.simple:
                self._settle()
                self._skipping = False
                self._guarded(partial(_refuse, message.problem()))
                self._ready()
            elif isinstance(message, (reader.CopyData, reader.CopyDone, reader.CopyFail)):
                pass  # what is left of a COPY that failed
            elif not self._skipping:
                self._skipping = not self._guarded(partial(self._extended, message))

    def _settle(self) -> None:
        """What is held back of a pipeline is written now."""
        if self._group and not self._guarded(self._group.settle):
            self._skipping = True

    def _ready(self) -> None:
        self._report_parameters()
        self._channel.send(writer.ready(self._session.status))
        self._channel.flush()

    def _say_goodbye(self) -> None:
        problem = ShuttingDown("terminating connection due to administrator command", hint="the server stops")
        with contextlib.suppress(Gone):
            self._channel.send(writer.error(problem, severity="FATAL"))
            self._channel.flush()
            self._channel.part()

    def _guarded(self, work: Callable[[], None]) -> bool:
        """Whether it went well; else the client has been told why not."""
        timer = self._begin()
        try:
            work()
            return True
        except (Gone, reader.ProtocolViolation):
            raise
        except HeadraceError as error:
            self._fail(error)
        except Exception as error:
            if not self._session.cancelled:
                log.exception("unexpected error in a statement of session %d", self.process)
            self._fail(InternalError(f"unexpected error: {type(error).__name__}: {error}"))
        finally:
            with self._busy:
                self._running = False
            if timer is not None:
                timer.cancel()
        return False

    def _begin(self) -> threading.Timer | None:
        with self._busy:
            self._session.begin_statement()
            self._running = True
            self._begun += 1
            self._timed_out = False
        limit = self._session.variables.value("statement_timeout")
        if not limit:
            return None
        timer = threading.Timer(min(limit / 1000, threading.TIMEOUT_MAX), self._time_out)
        timer.daemon = True
        timer.start()
        return timer

    def _time_out(self) -> None:
        self._timed_out = True
        self.cancel()

    def _fail(self, error: HeadraceError) -> None:
        try:
            self._group.settle()  # what was sent before the statement that failed is no less valid
        except HeadraceError as earlier:
            error = earlier
        except Gone:
            raise
        except Exception as earlier:
            log.exception("unexpected error in a statement of session %d", self.process)
            error = InternalError(f"unexpected error: {type(earlier).__name__}: {earlier}")
        self._session.fail()
        if self._session.cancelled and error.sqlstate != "57014":
            error = QueryCancelled("canceling statement due to user request")
        if self._timed_out and error.sqlstate == "57014":
            error = QueryCancelled("canceling statement due to statement timeout")
        self._channel.send(writer.error(error))

    def _refuse_if_nobody_waits(self) -> None:
        """A client that went away, or was cut off, has cancelled nothing: what it waited for goes on."""
        if self._cut_off:
            raise Gone("the server stops")
        self._channel.refuse_if_gone()

    def _notice_now(self, text: str) -> None:
        """For something that takes long: not kept until there is more."""
        self._channel.send(writer.notice(text))
        self._channel.flush()

    def _report_parameters(self) -> None:
        if self._reported_version == self._session.variables.version:
            return
        self._reported_version = self._session.variables.version
        for shown, name in REPORTED.items():
            value = self._session.shown(name)
            if self._reported.get(shown) != value:
                self._reported[shown] = value
                self._channel.send(writer.parameter_status(shown, value))

    # --- simple queries ----------------------------------------------------------------------------------------

    def _simple(self, text: str) -> None:
        try:
            if not self._channel.hold(tree_bytes(text), "statements"):
                raise too_much_held()
            self._answer_all(text)
        finally:
            self._channel.hold(0, "statements")

    def _answer_all(self, text: str) -> None:
        statements = parse(text, between=self._session.refuse_if_cancelled)
        if not statements:
            self._channel.send(writer.EMPTY_QUERY)
        for statement in statements:
            self._session.refuse_if_cancelled()
            self.statements += 1
            with self._timings.one():
                self._answer(statement)

    def _answer(self, statement: ast.Statement) -> None:
        if isinstance(statement, ast.Execute):
            self._session.refuse_if_impossible(statement)
            with without_positions():
                self._answer(self._prepared.executed(statement))
            return
        if self._for_the_connection(statement):
            return
        result = self._session.perform(statement)
        self._notice(result)
        portal = Portal(result)
        if portal.columns:
            self._channel.send(writer.row_description(portal.columns, portal.types, portal.formats))
        rows = self._send_rows(portal, None)
        self._channel.send(writer.command_complete(portal.tag(rows)))

    def _notice(self, result: Result) -> None:
        if result.notice is not None:
            self._channel.send(writer.notice(result.notice))

    def _send_rows(self, portal: Portal, limit: int | None) -> int:
        portal.zone = self._session.variables.zone
        for data in portal.fetch(limit):
            if portal.is_query:  # what RETURNING answers is committed, and whoever asked for it is told so
                self._session.refuse_if_cancelled()
            self._channel.send(data)
        return portal.rows

    # --- the extended protocol -----------------------------------------------------------------------------------

    def _extended(self, message: object) -> None:
        if isinstance(message, reader.BadText):
            raise message.problem()
        if isinstance(message, reader.Parse):
            self._prepared.parse(message, self._engine.committed.catalog)
            self._group.send(writer.PARSE_COMPLETE)
        elif isinstance(message, reader.Bind):
            self._prepared.bind(message)
            self._group.send(writer.BIND_COMPLETE)
        elif isinstance(message, reader.Describe):
            self._group.send(self._prepared.describe(message))
        elif isinstance(message, reader.Execute):
            self._execute(message)
        elif isinstance(message, reader.Close):
            self._prepared.close(message)
            self._group.send(writer.CLOSE_COMPLETE)
        elif isinstance(message, reader.Flush):
            self._group.settle()
            self._channel.flush()
        else:
            raise reader.ProtocolViolation(f"unexpected message {type(message).__name__}")

    def _execute(self, message: reader.Execute) -> None:
        bound = self._prepared.portal(message.portal)
        portal = bound.portal
        limit = message.limit if message.limit > 0 else None
        if bound.ran:
            raise CannotRunAgain(f'portal "{message.portal}" cannot be run')
        if isinstance(bound.statement, ast.Insert) and self._collected(bound):
            return
        self._group.settle()
        if portal is None and bound.statement is None:
            self._channel.send(writer.EMPTY_QUERY)
            return
        if portal is not None:
            self._send_portal(portal, limit)
            return
        self.statements += 1
        with self._timings.one():
            if self._for_the_connection(bound.statement, formats=bound.formats):
                bound.ran = True
                return
            self._prepared.refuse_if_changed(bound)
            with bound.positions():
                result = self._session.perform(bound.statement)
            self._notice(result)
            self._send_portal(self._prepared.open(bound, result), limit)

    def _send_portal(self, portal: Portal, limit: int | None) -> None:
        rows = self._send_rows(portal, limit)
        if portal.done or limit is None:
            self._channel.send(writer.command_complete(portal.tag(rows)))
        else:
            self._channel.send(writer.PORTAL_SUSPENDED)

    def _write_group(self, relation: Relation, rows: pa.Table) -> None:
        with self._timings.one():
            self._session.write_rows(relation, rows)

    def _collected(self, bound: Bound) -> bool:
        """Whether the INSERT will be written with others of its pipeline."""
        found = None
        if bound.exact is not None:
            found = self._session.plain_insert(bound.statement, constants_only=True)
            if found is None:
                (bound.statement, bound.positions), bound.exact = bound.exact(), None
        if found is None:
            with bound.positions():
                found = self._session.plain_insert(bound.statement)
        if found is None:
            return False
        relation, rows = found
        if not self._group.takes(relation):
            self._group.settle()
        self.statements += 1
        bound.ran = True
        self._group.add(relation, rows, writer.command_complete(f"INSERT 0 {rows.num_rows}"))
        return True

    # --- statements about the connection itself --------------------------------------------------------------------

    def _for_the_connection(self, statement: ast.Statement, *, formats: Sequence[int] | None = None) -> bool:
        """Whether the statement was one of these, and has been answered. Without formats, rows are described first."""
        if isinstance(statement, _OF_CONNECTION):
            self._session.refuse_if_impossible(statement)
        if isinstance(statement, ast.Copy):
            tag = f"COPY {self._copy(statement)}"
        elif isinstance(statement, ast.DeclareCursor):
            query = ast.Select(sql=statement.sql, query=statement.query)
            held = {"hold": statement.hold, "committed": self._session.status == IDLE}
            self._prepared.declare(statement.name, self._session.perform(query), **held)
            tag = "DECLARE_CURSOR"
        elif isinstance(statement, ast.FetchCursor):
            tag = self._fetch(statement, formats)
        elif isinstance(statement, ast.CloseCursor):
            self._close_cursors(statement.name)
            tag = "CLOSE_CURSOR"
        elif isinstance(statement, ast.Prepare):
            self._prepared.prepare(statement, self._engine.committed.catalog)
            tag = "PREPARE"
        elif isinstance(statement, ast.Deallocate):
            self._prepared.deallocate(statement.name)
            tag = "DEALLOCATE"
        elif isinstance(statement, ast.Discard):
            self._close_cursors(None)
            self._prepared.deallocate(None)
            self._session.perform(ast.ResetAll(sql=statement.sql))
            self._session.close()
            tag = "DISCARD ALL"
        else:
            if isinstance(statement, (ast.Commit, ast.Rollback)):
                committed = isinstance(statement, ast.Commit) and self._session.status != FAILED
                self._prepared.end_transaction(committed=committed)
            return False
        self._channel.send(writer.command_complete(tag))
        return True

    def _fetch(self, statement: ast.FetchCursor, formats: Sequence[int] | None) -> str:
        cursor = self._prepared.cursor(statement.name).portal
        if statement.move:
            for _ in cursor.fetch(statement.count):
                self._session.refuse_if_cancelled()
            return f"MOVE {cursor.rows}"
        cursor.formats = spread(formats or (), len(cursor.columns))
        if formats is None:
            self._channel.send(writer.row_description(cursor.columns, cursor.types, cursor.formats))
        return f"FETCH {self._send_rows(cursor, statement.count)}"

    def _close_cursors(self, name: str | None) -> None:
        if name is None:
            self._prepared.close_portals()
        else:
            self._prepared.cursor(name)
            self._prepared.close_portals([name])

    def _copy(self, statement: ast.Copy) -> int:
        if statement.into:
            meant = self._session.meant(statement)
            count = copy_in(self._channel, self._engine, meant, self._session.refuse_if_cancelled)
            self._session.wrote()
            return count
        if statement.query is not None:
            query = ast.Select(sql=statement.sql, query=statement.query)
        else:
            relation = self._engine.committed.catalog.find(self._session.meant(statement).table)
            (query,) = parse(query_text(statement, relation))
        result = self._session.perform(query)
        return copy_out(self._channel, result, statement, self._session.refuse_if_cancelled)


def _refuse(error: HeadraceError) -> None:
    raise error
