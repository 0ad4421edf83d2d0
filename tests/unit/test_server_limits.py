"""What one client can make the server hold, and for how long, without an engine."""

from __future__ import annotations

import logging
import socket
import struct
import time
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from headrace.catalog import Catalog
from headrace.errors import QueryCancelled
from headrace.serving.server import copying, logs, startup
from headrace.serving.server import server as servers
from headrace.serving.server.budget import FREE_BYTES, Budget, TooLongText, TooMuchHeld, tree_bytes
from headrace.serving.server.channel import Channel, Gone
from headrace.serving.server.prepared import PreparedStatements
from headrace.serving.wire import reader
from headrace.sql.parse import parse
from tests.support.waiting import eventually

TLS_REQUEST = struct.pack("!ii", 8, reader.TLS)
GSS_REQUEST = struct.pack("!ii", 8, reader.GSS)


@pytest.fixture
def pair() -> Iterator[tuple[Channel, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        sock, _ = listener.accept()
    channel = Channel(sock, Budget(1_000_000))
    yield channel, client
    channel.close()
    client.close()


def test_a_client_that_is_silent_is_asked_whether_it_is_there(pair):
    channel, _ = pair
    assert channel._socket.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
    for name, value in {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}.items():
        if hasattr(socket, name):
            assert channel._socket.getsockopt(socket.IPPROTO_TCP, getattr(socket, name)) == value


def test_a_system_without_these_options_does_without(monkeypatch, pair):
    _, client = pair
    monkeypatch.delattr(socket, "TCP_KEEPIDLE", raising=False)
    Channel(client).close()


def test_what_is_parsed_is_bounded():
    """A character of SQL becomes a hundred bytes and more; what is in quotes stays what it is."""
    assert tree_bytes("x" * 20_000) > 2_000_000 > tree_bytes(f"SELECT '{'x' * 1_000_000}'")
    hidden = f"SELECT 1 -- it's\n{'+1' * 3_000_000} -- it's"
    with pytest.raises(TooLongText) as caught:
        tree_bytes(hidden)
    assert caught.value.sqlstate == "54000" and "COPY" in caught.value.hint


def test_parsing_can_be_cancelled_between_statements():
    seen = []

    def between() -> None:
        seen.append(len(seen))
        if len(seen) == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parse("SELECT 1; " * 10, between=between)
    assert seen == [0, 1, 2]


def test_prepared_statements_are_bounded_by_bytes(pair):
    channel, _ = pair
    session = SimpleNamespace(meant=lambda statement: statement)
    prepared = PreparedStatements(session, keep=lambda size: channel.hold(size, "prepared"))
    rows = ", ".join(["($1, $2)"] * 300)
    catalog = Catalog()

    def parsed(name: str) -> None:
        prepared.parse(reader.Parse(name=name, text=f"INSERT INTO t VALUES {rows}", oids=()), catalog)

    parsed("a")
    parsed("")
    parsed("")  # takes the place of the one before
    with pytest.raises(TooMuchHeld):
        for number in range(5):
            parsed(f"more {number}")
    prepared.deallocate(None)
    parsed("a")
    with pytest.raises(TooMuchHeld):
        bind = reader.Bind("", "a", (), (b"1", b"x" * FREE_BYTES), ())
        prepared.bind(bind)
    prepared.close(reader.Close("S", "a"))
    assert channel._budget._free == 1_000_000 and prepared._kept == 0, "what was held is given back"


def test_a_copy_is_cancelled_at_its_next_message(pair):
    channel, client = pair
    client.sendall(b"d" + struct.pack("!i", 6) + b"1\n")

    def refuse() -> None:
        raise QueryCancelled("canceling statement due to statement timeout")

    with pytest.raises(QueryCancelled):
        list(copying._messages(channel, refuse))


def test_a_client_that_drips_is_dropped_at_its_deadline(pair):
    channel, client = pair
    client.sendall(b"\0")
    with pytest.raises(Gone, match="timed out"):
        channel.startup(time.monotonic() - 1)


@pytest.mark.parametrize("again", [TLS_REQUEST, GSS_REQUEST])
def test_encryption_is_asked_for_once(pair, again):
    channel, client = pair
    client.sendall(TLS_REQUEST + GSS_REQUEST + again)
    with pytest.raises(reader.ProtocolViolation, match="asks again"):
        startup.greet(channel, startup.Access())


def test_a_client_cannot_write_lines_of_the_log():
    record = logging.LogRecord(
        "headrace", logging.WARNING, "", 0, 'role "%s" does not exist', ("a\n2026 ERROR x",), None
    )
    assert logs.format_text(record).endswith(r'role "a\n2026 ERROR x" does not exist')


def test_who_says_nothing_keeps_nobody_out(monkeypatch):
    """However many sessions are free, so many have not said who they are; the oldest of them make room."""
    monkeypatch.setattr(servers, "GREETED_AT_ONCE", 2)
    server = servers.Server(SimpleNamespace(), port=0, sessions=100)
    server.start()
    silent = [socket.create_connection((server.host, server.port), timeout=30) for _ in range(2)]
    try:
        eventually(lambda: len(server._greeting) == 2)
        with socket.create_connection((server.host, server.port), timeout=30) as third:
            third.sendall(TLS_REQUEST)
            assert third.recv(1) == b"N"
            assert silent[0].recv(1) == b""
            assert len(server._greeting) == 2
    finally:
        for sock in silent:
            sock.close()
        server.stop(patience=5)
