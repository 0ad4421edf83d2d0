"""Blocks of rows, taken from the socket that a COPY comes by."""

from __future__ import annotations

import random
import select
import socket
import struct
import threading
from collections.abc import Sequence

import psycopg2
import pytest

from headrace.cdc.postgres import copying

READY = b"Z\0\0\0\5T"


def message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!I", 4 + len(body)) + body


BEGIN = message(b"H", b"\0\0\2\0\0\0\0")
END = message(b"c", b"") + message(b"C", b"COPY 2\0") + READY


def received(sent: bytes, pieces: Sequence[int]) -> list[bytes]:
    """What becomes of bytes that come in pieces of these sizes, and the rest as it may."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)

    def send() -> None:
        at = 0
        with theirs:
            for size in (*pieces, *[len(sent)] * len(sent)):
                if at == len(sent):
                    break
                at += theirs.send(sent[at : at + size])

    thread = threading.Thread(target=send)
    thread.start()
    try:
        with ours:
            return [bytes(block) for block in copying._rows(ours)]
    finally:
        thread.join()


@pytest.mark.parametrize("seed", range(30))
def test_rows_come_as_they_are(seed, monkeypatch):
    chosen = random.Random(seed)
    monkeypatch.setattr(copying, "BLOCK", chosen.choice([64, 300, 5000]))
    rows = [
        b"".join(chosen.choices([b"a", b"\n", b"d", b'"', b","], k=chosen.choice([0, 1, 5, 9, 250, 2000]))) + b"\n"
        for _ in range(chosen.randrange(200))
    ]
    notice = message(b"N", b"SNOTICE\0C00000\0Mwords\0\0")
    sent = [BEGIN]
    for row in rows:
        sent.append(message(b"d", row))
        if chosen.random() < 0.02:
            sent.append(notice)
    blocks = received(b"".join([*sent, END]), [chosen.randrange(1, 400) for _ in range(chosen.randrange(50))])
    assert b"".join(blocks) == b"".join(copying.FILLER + row for row in rows)


def test_a_length_may_look_like_the_begin_of_a_row():
    """\\n, d and a zero are three bytes of the number 0x0A6400."""
    long = b"x" * (0x0A6400 - 5) + b"\n"
    data = message(b"d", b"1\n") + message(b"d", long) + message(b"d", b"2\n")
    buffer = bytearray(data)
    assert len(data) == copying.headers_to_columns(memoryview(buffer))
    assert bytes(buffer) == b"".join(copying.FILLER + row for row in (b"1\n", long, b"2\n"))


def test_a_row_may_be_longer_than_anything_else(monkeypatch):
    monkeypatch.setattr(copying, "BLOCK", 100)
    rows = [b"a\n", b"x" * (17 << 20) + b"\n", b"b\n"]
    sent = BEGIN + b"".join(message(b"d", row) for row in rows) + END
    assert b"".join(received(sent, [])) == b"".join(copying.FILLER + row for row in rows)


def test_what_the_server_complains_of_is_raised_as_the_library_does():
    def failing(fields: bytes) -> bytes:
        return BEGIN + message(b"d", b"1\n") + message(b"E", fields + b"\0")

    with pytest.raises(psycopg2.errors.QueryCanceled, match="canceling statement"):
        received(failing(b"SERROR\0C57014\0Mcanceling statement\0") + READY, [])
    with pytest.raises(psycopg2.OperationalError, match="shutting down"):
        received(failing(b"SFATAL\0C57P01\0Mshutting down\0"), [])
    with pytest.raises(psycopg2.DatabaseError, match="odd"):
        received(failing(b"SERROR\0CHR001\0Modd\0"), [])


@pytest.mark.parametrize("cut", [0, 3, 30])
def test_a_connection_that_ends_early_is_an_error(cut):
    sent = BEGIN + message(b"d", b"12345\n") * 10
    with pytest.raises(psycopg2.OperationalError, match="closed the connection"):
        received(sent[: len(sent) - cut], [])


def test_a_query_is_sent_whole_however_slowly_it_is_taken():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    query, taken = "SELECT " + "1" * 3_000_000, bytearray()

    def take() -> None:
        while len(taken) < 1 + 4 + len(query) + 1:
            select.select([theirs], [], [])
            taken.extend(theirs.recv(1 << 16))

    thread = threading.Thread(target=take)
    thread.start()
    copying._send(ours, query)
    thread.join()
    assert bytes(taken) == message(b"Q", query.encode() + b"\0")
    ours.close()
    theirs.close()
