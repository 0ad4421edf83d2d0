"""What ``COPY … TO STDOUT`` sends, taken from the socket in blocks of many rows.

The library hands over a row at a time, which costs as much as all that Arrow does with it. A row comes as a message:
the letter ``d``, its length in four bytes, and a line of CSV. Those five bytes are overwritten with a column more:

>>> sent = bytearray(b'd\\0\\0\\0\\x081,a\\nd\\0\\0\\0\\x082,b\\nc\\0\\0\\0\\4')
>>> end = headers_to_columns(memoryview(sent))
>>> bytes(sent[:end])
b'0000,1,a\\n0000,2,b\\n'

Not under TLS, of which only the library has the keys.
"""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from headrace.cdc.postgres.server import driver

BLOCK = 2 << 20
"""Bytes that are received before they become columns: few, because memory that is used again and again costs the least.
A row may be longer."""

FILLER = b"0000,"
"""What stands before each row: a column more"""

HEADER = len(FILLER)
_ROW, _LINE = ord("d"), ord("\n")
_READY = b"Z\0\0\0\5"
"""The last message, without the one byte in it"""

_length = struct.Struct("!I").unpack_from


def in_blocks(connection: Any) -> bool:
    """Whether the rows of a connection can be read so."""
    return not connection.info.ssl_in_use


def blocks(connection: Any, copy: str) -> Iterator[memoryview]:
    """Lines of CSV, each with FILLER before it. A block is valid until the next is asked for. The connection is as
    before once they have ended; if they are not read to their end, or fail, it can only be closed."""
    with socket.socket(fileno=os.dup(connection.fileno())) as wire:
        _send(wire, copy)
        yield from _rows(wire)


def _send(wire: socket.socket, query: str) -> None:
    text = query.encode() + b"\0"
    left = memoryview(b"Q" + struct.pack("!I", 4 + len(text)) + text)
    while left:
        try:
            left = left[wire.send(left) :]
        except BlockingIOError:
            _wait(wire, select.POLLOUT)
        except OSError as problem:
            raise driver().OperationalError(str(problem)) from None


def _rows(wire: socket.socket) -> Iterator[memoryview]:
    buffer, filled = bytearray(BLOCK), 0
    while True:
        closed = not (received := _receive(wire, memoryview(buffer)[filled:]))
        filled += received
        if filled < len(buffer) and not closed and buffer[max(0, filled - 6) : filled - 1] != _READY:
            continue
        at, passed = 0, True
        while passed:  # rows, then what is between them
            end = at + headers_to_columns(memoryview(buffer)[at:filled])
            if end > at:
                yield memoryview(buffer)[at:end]
            at, ready = _pass_others(buffer, end, filled)
            passed = at > end
            if ready:
                return
        if closed:
            raise driver().OperationalError("server closed the connection unexpectedly")
        # What has begun goes to the front, of a larger buffer if it does not fit.
        rest = buffer[at:filled]
        if len(rest) >= HEADER and (needed := 1 + _length(rest, 1)[0]) > len(buffer):
            buffer = bytearray(needed + BLOCK)
        buffer[: len(rest)] = rest
        filled = len(rest)


def _receive(wire: socket.socket, into: memoryview) -> int:
    """How much has come; 0 if nothing will any more."""
    while True:
        try:
            return wire.recv_into(into)
        except BlockingIOError:  # it is the library's socket, and stays as that wants it
            _wait(wire, select.POLLIN)
        except OSError as problem:
            raise driver().OperationalError(str(problem)) from None


def _wait(wire: socket.socket, event: int) -> None:
    waiting = select.poll()
    waiting.register(wire, event)
    waiting.poll()


def headers_to_columns(received: memoryview) -> int:
    """Overwrites what stands before each of the rows at the begin that are whole; where the last of them ends."""
    data = np.frombuffer(received, np.uint8)
    begins = _rows_found(data)
    ends = begins + 1 + _lengths(data, begins)
    if not (len(begins) and begins[0] == 0 and np.array_equal(ends[:-1], begins[1:])):
        begins, ends = _rows_followed(received)
    whole = int(np.searchsorted(ends, len(data), "right"))
    for place, byte in enumerate(FILLER):
        data[begins[:whole] + place] = byte
    return int(ends[whole - 1]) if whole else 0


def _rows_found(data: np.ndarray) -> np.ndarray:
    """What looks like the begin of a row. No text has a zero in it, and each row ends with a line feed; but three bytes
    of a length may look alike, and a long row has no zero there."""
    zeros = np.flatnonzero(data[1 : 1 - HEADER] == 0)
    begins = zeros[data[zeros] == _ROW]
    return begins[(begins == 0) | (data[begins - 1] == _LINE)]


def _lengths(data: np.ndarray, begins: np.ndarray) -> np.ndarray:
    lengths = np.zeros(len(begins), np.int64)
    for place in range(1, HEADER):
        lengths = (lengths << 8) | data[begins + place]
    return lengths


def _rows_followed(received: memoryview) -> tuple[np.ndarray, np.ndarray]:
    """The same one by one, which is slow and always right."""
    begins, ends, at = [], [], 0
    while at + HEADER <= len(received) and received[at] == _ROW:
        begins.append(at)
        at += 1 + _length(received, at + 1)[0]
        ends.append(at)
    return np.array(begins, np.int64), np.array(ends, np.int64)


def _pass_others(buffer: bytearray, at: int, filled: int) -> tuple[int, bool]:
    """Where the next row begins, or something that is not whole yet, and whether all is done."""
    while at + HEADER <= filled and buffer[at] != _ROW:
        end = at + 1 + _length(buffer, at + 1)[0]
        if end > filled:
            break
        if buffer[at] == ord("E"):
            raise _problem(bytes(buffer[at + HEADER : end]))
        if buffer[at] == ord("Z"):
            return end, True
        at = end
    return at, False


def _problem(body: bytes) -> Exception:
    """As the library raises what a server complains of."""
    fields = {part[:1]: part[1:].decode(errors="replace") for part in body.split(b"\0") if part}
    psycopg2 = driver()
    message = fields.get(b"M", "unknown error")
    try:
        kind = psycopg2.errors.lookup(fields.get(b"C", ""))
    except KeyError:
        kind = psycopg2.DatabaseError
    return kind(message)
