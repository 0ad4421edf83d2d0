"""A client's socket: whole messages in, bytes out. Blocking, because each client has a thread of its own."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable
from typing import Any

from headrace.serving.server.budget import FREE_BYTES, Budget, too_much_held
from headrace.serving.wire.reader import MessageReader

RECEIVE_BYTES = 65_536
FLUSH_BYTES = 65_536
STALLED_AFTER = 600.0
"""Seconds in which a client takes nothing of what it asked for, after which it is given up."""


HEARD_WITHIN = 1.0
"""Seconds in which a client that was told why it is dropped should have closed its side."""
_FIN_WAIT = (4, 5)
_CLOSED_BY_CLIENT = (7, 8)
"""States of TCP: reset, and closed by the other side"""


KEEPALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
"""A client of which nothing has come for so many seconds is asked whether it is there, every so many seconds, so often;
then it is given up. Systems would wait two hours first, and a laptop that was closed keep its session until then."""


class Gone(Exception):
    """The client is not there any more, or takes nothing."""


class Channel:
    def __init__(self, sock: socket.socket, budget: Budget | None = None):
        self._socket = sock
        self._budget = budget or Budget()
        self._charged = 0
        self._held_apart: dict[str, int] = {}
        self._reader = MessageReader()
        self._out = bytearray()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(sock)
        self._closing, self._closed = threading.Lock(), False
        self._told_to_stop, self._tell_to_stop = os.pipe()
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll.register(self._told_to_stop, select.POLLIN)

    def startup(self, deadline: float) -> Any:
        """The next message of a client that has to say who it is by then."""
        return self._next(self._reader.next_startup, deadline)

    def answer(self, deadline: float) -> Any:
        """The next message of a client that has to prove who it is by then."""
        return self._next(self._reader.next_answer, deadline)

    def message(self, *, before_waiting: Callable[[], None] | None = None) -> Any:
        return self._next(self._reader.next_message, None, before_waiting)

    def _next(self, take, deadline: float | None, before_waiting: Callable[[], None] | None = None) -> Any:
        self._charge()  # what was read last has been dealt with
        while (message := take()) is None:
            if before_waiting is not None:
                before_waiting()
            self.flush()
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise Gone("timed out")
            self._wait_for_data(left)
            self._socket.settimeout(left)
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except (OSError, ssl.SSLError) as error:
                raise Gone(str(error)) from None
            if not data:
                raise Gone("the client closed the connection")
            self._reader.feed(data)
            if not self._charge():
                raise too_much_held()
        return message

    def _wait_for_data(self, seconds: float | None) -> None:
        if isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
            return
        ready = dict(self._poll.poll(None if seconds is None else seconds * 1000))
        if self._socket.fileno() not in ready:
            raise Gone("the server stops" if ready else "timed out")

    def hold(self, size: int, what: str) -> bool:
        """So much of what came is kept elsewhere, as that; False if that is too much, and it must be let go."""
        before = self._held_apart.get(what, 0)
        self._held_apart[what] = size
        if self._charge():
            return True
        self._held_apart[what] = before
        return False

    def _charge(self) -> bool:
        """Takes of the budget what is held now, or gives back what is not any more."""
        needed = max(0, self._reader.waiting + sum(self._held_apart.values()) - FREE_BYTES)
        if needed > self._charged and not self._budget.take(needed - self._charged):
            return False
        if needed < self._charged:
            self._budget.give(self._charged - needed)
        self._charged = needed
        return True

    def send(self, data: bytes) -> None:
        """Keeps it until there is enough, or until :meth:`flush`."""
        self._out += data
        if len(self._out) >= FLUSH_BYTES:
            self.flush()

    def flush(self) -> None:
        if not self._out:
            return
        pending = memoryview(bytes(self._out))
        self._out.clear()
        self._socket.settimeout(STALLED_AFTER)
        try:
            while pending:
                pending = pending[self._socket.send(pending) :]
        except (OSError, ssl.SSLError) as error:
            raise Gone(str(error)) from None

    def refuse_if_gone(self) -> None:
        """For somebody who works for the client and does not read: has it closed the connection, or died?"""
        if self._tcp_state in _CLOSED_BY_CLIENT:
            raise Gone("the client closed the connection")

    def encrypt(self, context: ssl.SSLContext, deadline: float) -> None:
        if self._reader.waiting:
            # Whatever was sent before the encryption began was sent by somebody in between.
            raise Gone("received unencrypted data after SSL request")
        self._socket.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            self._socket = context.wrap_socket(self._socket, server_side=True)
        except (OSError, ssl.SSLError) as error:
            raise Gone(str(error)) from None

    @property
    def encrypted(self) -> bool:
        return isinstance(self._socket, ssl.SSLSocket)

    def stop_reading(self) -> None:
        """From another thread: whoever waits for a message is told that none will come; answers still go out.

        The socket goes on receiving: if its reading side were shut, what a client sends after the last answer would
        reset the connection, see :meth:`part`.
        """
        with self._closing:
            if not self._closed:
                os.write(self._tell_to_stop, b"\0")

    def cut(self) -> None:
        """From another thread: nothing more in either direction."""
        with contextlib.suppress(OSError):
            # Not SSLSocket.shutdown, which would also forget the encryption.
            socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def part(self) -> None:
        """Says nothing more, and waits a moment until the client has heard the rest.

        To close while something of the client's is unread would reset the connection, and the client might never see
        what was said last.
        """
        with contextlib.suppress(OSError):
            socket.socket.shutdown(self._socket, socket.SHUT_WR)
            self._socket.setblocking(False)
            deadline = time.monotonic() + HEARD_WITHIN
            while self._half_open and time.monotonic() < deadline:
                with contextlib.suppress(BlockingIOError):
                    socket.socket.recv(self._socket, RECEIVE_BYTES)
                time.sleep(0.01)

    @property
    def _half_open(self) -> bool:
        """Whether the client has not closed its side yet."""
        return self._tcp_state in _FIN_WAIT

    @property
    def _tcp_state(self) -> int | None:
        """None where the system does not tell."""
        if not hasattr(socket, "TCP_INFO"):
            return None
        return self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]

    def close(self) -> None:
        self._budget.give(self._charged)
        self._charged = 0
        with self._closing:
            if not self._closed:
                os.close(self._told_to_stop)
                os.close(self._tell_to_stop)
            self._closed = True
        with contextlib.suppress(OSError):
            self._socket.close()


def _keep_alive(sock: socket.socket) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:  # not all systems have all of them
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
