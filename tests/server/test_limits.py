"""Clients that misbehave get an error or are dropped, and nobody else notices."""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
import time

import psycopg
import pytest

from headrace.serving.server import http, startup
from headrace.serving.server.budget import Budget
from headrace.serving.server.server import Server, bind
from tests.support.waiting import eventually


def raw(server) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def read_all(sock: socket.socket) -> bytes:
    data = b""
    try:
        while part := sock.recv(65_536):
            data += part
    except OSError:
        pass
    return data


def read_until_ready(sock: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"Z\0\0\0\5I"):
        part = sock.recv(65_536)
        assert part, data
        data += part
    return data


STARTUP = struct.pack("!ii", 32, 3 << 16) + b"user\0root\0database\0dev\0\0"


def test_garbage(server, connect):
    for seed in range(30):
        with raw(server) as sock:
            sock.sendall(random.Random(seed).randbytes(100))
            sock.shutdown(socket.SHUT_WR)
            read_all(sock)
    with raw(server) as sock:
        sock.sendall(STARTUP + b"\xff\0\0\0\4")
        answer = read_all(sock)
        assert b"08P01" in answer and b"FATAL" in answer
    assert connect().execute("SELECT 1").fetchone() == (1,)


def test_text_that_is_not_utf8_is_an_error_and_no_more(server):
    """A terminal may be set to Latin-1: its session stays."""
    parse = b"\0SELECT '\xff'\0\0\0"
    with raw(server) as sock:
        sock.sendall(STARTUP)
        read_until_ready(sock)
        sock.sendall(b"Q" + struct.pack("!i", 15) + b"SELECT '\xe9'\0")
        assert b"C22021\0" in read_until_ready(sock)
        sock.sendall(b"P" + struct.pack("!i", len(parse) + 4) + parse + b"S\0\0\0\4")
        assert b"C22021\0" in read_until_ready(sock)
        sock.sendall(b"Q" + struct.pack("!i", 13) + b"SELECT 8\0")
        assert b"\0\0\0\x018C" in read_until_ready(sock)


def extended(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def test_a_portal_is_run_as_often_as_in_postgresql(server, connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int)")
    bound = extended(b"B", b"\0\0" + bytes(6))

    def prepared(sql: str) -> bytes:
        return extended(b"P", b"\0" + sql.encode() + b"\0\0\0") + bound

    def execute(limit: int) -> bytes:
        return extended(b"E", b"\0" + struct.pack("!i", limit))

    with raw(server) as sock:
        sock.sendall(STARTUP)
        read_until_ready(sock)
        sock.sendall(prepared(f"INSERT INTO {table} VALUES (1)") + execute(0) * 2 + b"S\0\0\0\4")
        answer = read_until_ready(sock)
        assert b"INSERT 0 1\0" in answer and b"C55000\0" in answer
        sock.sendall(prepared("SELECT * FROM (VALUES (1), (2), (3)) v") + execute(2) + execute(-1) + b"S\0\0\0\4")
        answer = read_until_ready(sock)
        assert answer.count(b"s\0\0\0\4") == 1 and b"SELECT 1\0" in answer, answer
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


def test_a_message_that_is_too_long(server):
    with raw(server) as sock:
        sock.sendall(STARTUP + b"Q" + struct.pack("!i", 2**31 - 1))
        assert b"too long" in read_all(sock)


def test_who_goes_on_talking_hears_why_the_server_stops(database):
    """What comes after the last word must not reset the connection: the client might never see that word."""
    server = Server(database.engine, port=0)
    server.start()
    with raw(server) as sock:
        sock.sendall(STARTUP)
        read_until_ready(sock)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        assert sock.recv(1, socket.MSG_PEEK) == b"E"  # it has been said, and is not read yet
        query = b"SELECT 1\0"
        for _ in range(3):
            sock.sendall(b"Q" + struct.pack("!i", len(query) + 4) + query)
        assert b"57P01" in read_all(sock)
    stopping.join(60)
    assert not stopping.is_alive() and server.sessions == 0


def test_half_a_handshake_is_not_waited_for(server, monkeypatch):
    monkeypatch.setattr(startup, "PATIENCE", 0.5)
    with raw(server) as sock:
        sock.sendall(STARTUP[:10])
        started = time.monotonic()
        read_all(sock)
        assert time.monotonic() - started < 10


@pytest.mark.parametrize("parameters", [b"user\0nobody\0database\0dev\0\0", b"user\0root\0database\0other\0\0", b"\0"])
def test_who_may_not_come_in(server, parameters):
    with raw(server) as sock:
        sock.sendall(struct.pack("!ii", len(parameters) + 8, 3 << 16) + parameters)
        assert b"FATAL" in read_all(sock)


def test_sessions_are_bounded(database):
    server = Server(database.engine, port=0, sessions=2)
    server.start()
    try:
        dsn = f"host=127.0.0.1 port={server.port} user=root dbname=dev"
        with psycopg.connect(dsn), psycopg.connect(dsn):
            with pytest.raises(psycopg.OperationalError, match="too many sessions"):
                psycopg.connect(dsn)
        deadline = time.monotonic() + 10
        while server.sessions and time.monotonic() < deadline:
            time.sleep(0.01)
        psycopg.connect(dsn).close()
    finally:
        server.stop()


def test_a_client_that_reads_nothing_delays_no_epoch(database, server, connect, table):
    """Nor does one that holds a portal half read, or that goes silent in the middle of a COPY, all on one table."""
    writer, (rows, more) = connect(), (16_000, 50_000)
    writer.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, text varchar)")
    writer.execute(f"INSERT INTO {table} SELECT x, repeat('x', 1000) FROM generate_series(1, {rows}) s(x)")
    stats = database.engine.coordinator.stats

    def begun(sock: socket.socket, sent: bytes) -> None:
        sock.sendall(STARTUP)
        read_until_ready(sock)
        sock.sendall(sent)
        assert select.select([sock], [], [], 60)[0], "nothing came"

    with raw(server) as slow, raw(server) as holding, raw(server) as copying:
        query = f"SELECT text FROM {table}\0".encode()
        begun(slow, extended(b"Q", query))
        parse_and_bind = extended(b"P", b"\0" + query + b"\0\0") + extended(b"B", b"\0\0" + bytes(6))
        begun(holding, parse_and_bind + extended(b"E", b"\0" + struct.pack("!i", 10)) + extended(b"H", b""))
        begun(copying, extended(b"Q", f"COPY {table} FROM STDIN\0".encode()))
        copying.sendall(extended(b"d", f"{more}\tha".encode()))
        before = stats.epochs
        # Who stalls is dropped after ten minutes: an epoch that waited for one of them would be too late by far.
        writer.execute("SET statement_timeout = '2min'")
        for number in range(5):
            writer.execute(f"INSERT INTO {table} VALUES (%s, 'new')", (rows + 1 + number,))
            writer.execute(f"UPDATE {table} SET text = 'old' WHERE id = %s", (number + 1,))
        epochs = stats.epochs - before
        assert epochs >= 10 and max(list(stats.recent_ms)[-epochs:]) < 120_000
        assert server.busy_sessions >= 2, "the first and the last are where they were"

        # They were only slow: each gets what it asked for, as of its epoch.
        answer = read_until_ready(slow)
        assert answer.count(b"D\0\0\3\xf2\0\1") == rows and f"SELECT {rows}".encode() in answer
        holding.sendall(extended(b"E", b"\0" + struct.pack("!i", 0)) + b"S\0\0\0\4")
        assert read_until_ready(holding).count(b"D\0\0\3\xf2\0\1") == rows
        copying.sendall(extended(b"d", b"lf\n") + extended(b"c", b""))
        assert b"COPY 1\0" in read_until_ready(copying)
    assert writer.execute(f"SELECT text FROM {table} WHERE id = {more}").fetchone() == ("half",)
    writer.execute(f"DROP TABLE {table}")


def test_tiny_queries_without_reading_the_answers(server, connect):
    with raw(server) as sock:
        sock.sendall(STARTUP + b"Q\0\0\0\5\0" * 20_000 + b"X\0\0\0\4")
        assert read_all(sock).count(b"Z\0\0\0\5I") == 20_001
    assert connect().execute("SELECT 1").fetchone() == (1,)


def test_what_all_clients_send_is_bounded_together(database):
    server = Server(database.engine, port=0)
    server._budget = Budget(3_000_000)
    server.start()
    dsn = f"host=127.0.0.1 port={server.port} user=root dbname=dev"
    try:
        with raw(server) as large, psycopg.connect(dsn, autocommit=True) as other:
            large.sendall(STARTUP)
            read_until_ready(large)
            large.sendall(b"Q" + struct.pack("!i", 4_000_000) + b" " * 3_500_000)
            assert until(lambda: server._budget._free < 600_000)
            with pytest.raises(psycopg.OperationalError, match="more at a time than the server holds"):
                other.execute(f"SELECT length('{'x' * 2_000_000}')")
            with psycopg.connect(dsn, autocommit=True) as third:
                assert third.execute("SELECT 1").fetchone() == (1,), "small messages cost nothing"
                third.execute("CREATE TABLE IF NOT EXISTS crowded (id int PRIMARY KEY, n varchar)")
                with third.cursor().copy("COPY crowded FROM STDIN") as copy:
                    for id in range(20):
                        copy.write(f"{id}\t{'x' * 100_000}\n")
                assert third.execute("SELECT count(*) FROM crowded").fetchone() == (20,), "a COPY waits on disk"
        assert until(lambda: server._budget._free == 3_000_000), "what was held is given back"
    finally:
        server.stop()


def test_monitoring_takes_a_few_requests_at_a_time(database, server, monkeypatch):
    monkeypatch.setattr(http, "REQUESTS", 2)
    monitoring = http.MonitoringServer(database.engine, server, bound=bind("127.0.0.1", 0))
    monitoring.start()
    address = ("127.0.0.1", monitoring.port)
    try:
        with socket.create_connection(address, 30) as first, socket.create_connection(address, 30) as second:
            first.sendall(b"GET /heal")
            second.sendall(b"GET")
            with socket.create_connection(address, 30) as third:
                assert third.recv(100) == b"", "it is dropped without a word"
            first.sendall(b"thz?full=1 HTTP/1.0\r\n\r\n")
            assert read_all(first).endswith(b"ok\n")
    finally:
        monitoring.stop()


def until(happens) -> bool:
    deadline = time.monotonic() + 30
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.01)
    return happens()


def test_what_came_before_the_end_is_not_begun_after_it(database):
    """However much a client has sent ahead, a server that stops ends the statement that runs and says so."""
    server = Server(database.engine, port=0)
    server.start()
    query = b"Q" + struct.pack("!i", 13) + b"SELECT 1\0"
    with raw(server) as sock:
        sock.sendall(STARTUP)
        read_until_ready(sock)
        sock.sendall(query * 2_000)
        answered = sock.recv(10)
        server.stop()
        answered += read_all(sock)
    assert 0 < answered.count(b"Z\0\0\0\5I") < 2_000
    assert answered.endswith(b"\0") and b"57P01" in answered[-200:]


def test_a_creation_that_is_cut_off_by_the_end_goes_on(database, table):
    """Its client waits longer than a server that stops does, and has not given it up."""
    server = Server(database.engine, port=0)
    server.start()
    database.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY); INSERT INTO {table} VALUES (1), (2)")
    client = psycopg.connect(host="127.0.0.1", port=server.port, user="root", dbname="dev", autocommit=True)
    client.execute("SET backfill_rate_limit = 0")
    told: list[Exception] = []

    def create() -> None:
        try:
            client.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id FROM {table}")
        except Exception as error:
            told.append(error)

    waiting = threading.Thread(target=create, daemon=True)
    waiting.start()
    eventually(lambda: f"{table}_v" in [job.name for job in database.jobs()])
    server.stop(patience=0.1)
    waiting.join(60)
    assert told[0].sqlstate == "57P01", told
    database.sql(f"ALTER MATERIALIZED VIEW {table}_v SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT {table}_v")
    assert database.sql(f"SELECT count(*) FROM {table}_v").rows() == [(2,)]


def test_a_port_of_either_family_is_bound_before_anybody_listens():
    with bind("::1", 0) as bound:
        address = bound.getsockname()[:2]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address, timeout=5)
        bound.listen()
        with pytest.raises(OSError):
            bind(*address)
    with pytest.raises(OSError, match="no port 70000"):
        bind("127.0.0.1", 70_000)
