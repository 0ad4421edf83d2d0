"""The server: who listens, how many clients there may be, and how it ends.

One thread accepts, and each client has its own. A thread that waits costs little, and one that is slow holds up nobody
else, which a shared pool would not promise.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import secrets
import socket
import threading
import time

from headrace.engine.engine import Engine
from headrace.errors import HeadraceError
from headrace.serving.server.budget import Budget
from headrace.serving.server.channel import Channel, Gone
from headrace.serving.server.connection import Connection, ShuttingDown
from headrace.serving.server.startup import Access, greet
from headrace.serving.server.timings import Timings
from headrace.serving.wire import reader, writer

log = logging.getLogger("headrace.server")

SESSIONS = 100
"""Clients at a time, unless told otherwise."""
GREETED_AT_ONCE = 50
"""Clients more that have not said yet who they are; one who wants to cancel something is such a client."""


class TooManySessions(HeadraceError):
    sqlstate = "53300"


def bind(host: str, port: int) -> socket.socket:
    """A socket that has the address and does not listen yet: whether it is free is known before an engine starts."""
    if not 0 <= port < 65_536:  # which the resolver would silently make a smaller one
        raise OSError(f"there is no port {port}")
    family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


class Server:
    def __init__(
        self, engine: Engine, *, host: str = "127.0.0.1", port: int = 4566, bound: socket.socket | None = None,
        access: Access | None = None, sessions: int = SESSIONS,
    ):  # fmt: skip
        self._engine = engine
        self._access = access or Access()
        self._limit = sessions
        self._lock = threading.Lock()
        self._connections: dict[int, Connection] = {}
        self._greeting: dict[Channel, threading.Thread] = {}
        self._threads: set[threading.Thread] = set()
        self._processes = itertools.count(1)
        self._budget = Budget()
        self.timings = Timings()
        """Of statements"""
        self._stopping = False
        self.accepted = 0
        self.refused = 0
        self._statements_before = 0
        self._listener = bound or bind(host, port)
        self._listener.listen(128)
        self.host, self.port = self._listener.getsockname()[:2]
        self._accepting = threading.Thread(target=self._accept, name="headrace-accept", daemon=True)

    def start(self) -> None:
        self._accepting.start()

    # --- counts ------------------------------------------------------------------------------------------------

    @property
    def sessions(self) -> int:
        return len(self._connections)

    @property
    def busy_sessions(self) -> int:
        with self._lock:
            return sum(connection.running for connection in self._connections.values())

    @property
    def statements(self) -> int:
        with self._lock:
            return self._statements_before + sum(each.statements for each in self._connections.values())

    # --- accepting ---------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        while not self._stopping:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                if self._stopping:
                    return
                time.sleep(0.05)  # out of file descriptors: it will pass
                continue
            self.accepted += 1
            try:
                channel = Channel(sock, self._budget)
            except OSError:  # gone already, or there is no file descriptor left for it
                self.refused += 1
                sock.close()
                continue
            thread = threading.Thread(target=self._client, args=(channel,), name="headrace-client", daemon=True)
            with self._lock:
                if len(self._greeting) >= GREETED_AT_ONCE:
                    self._drop_oldest_greeting()
                full = len(self._threads) >= self._limit + 2 * GREETED_AT_ONCE  # those dropped have not all ended yet
                if not full:
                    self._threads.add(thread)
                    self._greeting[channel] = thread
            if full or not _started(thread):
                self.refused += 1
                channel.close()  # not even a word: whoever reads none of it must not make us wait
                with self._lock:
                    self._greeting.pop(channel, None)
                    self._threads.discard(thread)

    def _drop_oldest_greeting(self) -> None:
        """Who says nothing must not keep out others, who need a moment only."""
        oldest = next(iter(self._greeting))
        del self._greeting[oldest]
        self.refused += 1
        oldest.cut()

    def _client(self, channel: Channel) -> None:
        try:
            self._talk(channel)
        except Gone as error:
            log.debug("a client went away: %s", error)
        except HeadraceError as error:
            self._refuse(channel, error)
        except Exception:
            log.exception("unexpected error in a client's thread")
        finally:
            channel.close()
            with self._lock:
                self._greeting.pop(channel, None)
                self._threads.discard(threading.current_thread())

    def _talk(self, channel: Channel) -> None:
        greeting = greet(channel, self._access)
        if isinstance(greeting, reader.CancelRequest):
            self._cancel(greeting)
            return
        with self._lock:
            if channel not in self._greeting:
                raise Gone("others have come meanwhile")
            if self._stopping:
                raise ShuttingDown("the database system is shutting down")
            if len(self._connections) >= self._limit:
                raise TooManySessions("too many sessions", hint=f"the server takes {self._limit}; see --sessions")
            # The numbers start again after 2³¹, long after the first have gone.
            process = next(self._processes) & 0x7FFFFFFF
            numbers = {"process": process, "secret": secrets.randbits(32)}
            connection = Connection(channel, self._engine, greeting, timings=self.timings, **numbers)
            self._connections[process] = connection
            self._greeting.pop(channel, None)  # not earlier: who is refused takes its place until it has heard why
        threading.current_thread().name = f"headrace-client-{process}"
        log.info("session %d of %s begins", process, greeting.user)
        try:
            connection.serve()
        finally:
            with self._lock:
                self._connections.pop(process, None)
                self._statements_before += connection.statements
            log.info("session %d ends after %d statements", process, connection.statements)

    def _refuse(self, channel: Channel, error: HeadraceError) -> None:
        self.refused += 1
        log.warning("a client was refused: %s", error.message)
        with contextlib.suppress(Gone):
            channel.send(writer.error(error, severity="FATAL"))
            channel.flush()
            channel.part()

    def _cancel(self, request: reader.CancelRequest) -> None:
        with self._lock:
            connection = self._connections.get(request.process)
        # Nobody is told whether there was such a session: it would help guessing.
        if connection is not None and secrets.compare_digest(connection.secret.to_bytes(4), request.secret.to_bytes(4)):
            connection.cancel()

    # --- stopping ----------------------------------------------------------------------------------------------

    def stop(self, patience: float = 30.0) -> None:
        """No new clients; those there are get the answer that they wait for, and are told that the server stops."""
        self._stopping = True
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            connections, greeting = list(self._connections.values()), list(self._greeting)
        for channel in greeting:
            channel.cut()
        for connection in connections:
            connection.stop()
        self._wait_for_threads(patience)
        for connection in self._open():
            log.warning("session %d does not end, and is cut off", connection.process)
            connection.give_up()
        self._wait_for_threads(1.0)
        for connection in self._open():
            connection.cut()
        self._wait_for_threads(5.0)

    def _open(self) -> list[Connection]:
        with self._lock:
            return list(self._connections.values())

    def _wait_for_threads(self, patience: float) -> None:
        deadline = time.monotonic() + patience
        while self._threads and time.monotonic() < deadline:
            time.sleep(0.02)


def _started(thread: threading.Thread) -> bool:
    """Whether the system has room for one more; if not, those there are must not suffer for it."""
    try:
        thread.start()
    except RuntimeError as error:
        log.warning("a client could not be served: %s", error)
        return False
    return True
