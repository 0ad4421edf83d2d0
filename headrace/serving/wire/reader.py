"""Bytes to messages of a PostgreSQL client: no sockets here, so that anything can be fed to it.

What a client sends is believed as little as possible. A length is checked before anything is kept for it, a message
that is cut short or runs over is an error, and text must be UTF-8.

>>> reader = MessageReader()
>>> reader.feed(b"Q\\x00\\x00\\x00\\x0dSELECT 1")
>>> reader.next_message()
>>> reader.feed(b"\\x00")
>>> reader.next_message()
Query(text='SELECT 1')
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from headrace.errors import DataError, HeadraceError

STARTUP_BYTES = 10_000
"""As in PostgreSQL: a client that has not said who it is may not send much."""
MESSAGE_BYTES = 64 * 1024 * 1024
"""The largest message of a client. An INSERT that is larger can be sent as several, or with COPY."""

CANCEL, TLS, GSS = 80877102, 80877103, 80877104


class ProtocolViolation(HeadraceError):
    """The client does not speak the protocol. Nothing after it can be understood."""

    sqlstate = "08P01"


@dataclass(frozen=True)
class EncryptionRequest:
    """Asked before the startup message; answered by one letter."""

    kind: int


@dataclass(frozen=True)
class CancelRequest:
    process: int
    secret: int


@dataclass(frozen=True)
class Startup:
    minor: int
    parameters: dict[str, str]


@dataclass(frozen=True)
class Password:
    """An answer to an authentication request, of whatever kind."""

    body: bytes


@dataclass(frozen=True)
class Query:
    text: str


@dataclass(frozen=True)
class Parse:
    name: str
    text: str
    oids: tuple[int, ...]


@dataclass(frozen=True)
class Bind:
    portal: str
    statement: str
    formats: tuple[int, ...]
    values: tuple[bytes | None, ...]
    result_formats: tuple[int, ...]


@dataclass(frozen=True)
class Describe:
    kind: str
    """S, a statement, or P, a portal; as in Close"""
    name: str


@dataclass(frozen=True)
class Close:
    kind: str
    name: str


@dataclass(frozen=True)
class Execute:
    portal: str
    limit: int
    """0: all rows"""


@dataclass(frozen=True)
class CopyData:
    data: bytes


@dataclass(frozen=True)
class CopyFail:
    reason: str


@dataclass(frozen=True)
class Sync:
    pass


@dataclass(frozen=True)
class Flush:
    pass


@dataclass(frozen=True)
class CopyDone:
    pass


@dataclass(frozen=True)
class Terminate:
    pass


@dataclass(frozen=True)
class BadText:
    """A message with text that is not UTF-8. It has come whole, so what follows can be understood."""

    simple: bool
    """Whether it was a query of the simple protocol, which is answered at once"""

    def problem(self) -> DataError:
        return DataError('invalid byte sequence for encoding "UTF8"', sqlstate="22021")


class _NotUtf8(Exception):
    pass


class MessageReader:
    def __init__(self, limit: int = MESSAGE_BYTES):
        self._held = bytearray()
        self._limit = limit

    def feed(self, data: bytes) -> None:
        self._held += data

    def next_startup(self) -> EncryptionRequest | CancelRequest | Startup | None:
        """The next message of a client that has not started yet: it has no letter."""
        body = self._body(0, STARTUP_BYTES)
        if body is None:
            return None
        fields = _Fields(body)
        code = fields.int32()
        if code in (TLS, GSS):
            fields.end()
            return EncryptionRequest(code)
        if code == CANCEL:
            process, secret = fields.uint32(), fields.uint32()
            fields.end()
            return CancelRequest(process, secret)
        if code >> 16 != 3:
            raise ProtocolViolation(f"protocol {code >> 16}.{code & 0xFFFF} is not supported", hint="use protocol 3")
        parameters = {}
        try:
            while name := fields.text():
                parameters[name] = fields.text()
        except _NotUtf8:
            raise ProtocolViolation('invalid byte sequence for encoding "UTF8"') from None
        fields.end()
        return Startup(code & 0xFFFF, parameters)

    def next_answer(self):
        """The next message of a client that still has to prove who it is: it may not send much either."""
        return self.next_message(STARTUP_BYTES)

    def next_message(self, limit: int | None = None):
        """The next message, or None if it has not come in full."""
        if not self._held:
            return None
        kind = self._held[0]
        read = _READERS.get(kind)
        if read is None:
            raise ProtocolViolation(f"invalid frontend message type {kind}")
        body = self._body(1, limit or self._limit)
        if body is None:
            return None
        fields = _Fields(body)
        try:
            message = read(fields)
        except _NotUtf8:
            return BadText(simple=kind == ord("Q"))
        fields.end()
        return message

    @property
    def waiting(self) -> int:
        """Bytes that have come and not been read."""
        return len(self._held)

    def _body(self, offset: int, limit: int) -> bytes | None:
        if len(self._held) < offset + 4:
            return None
        (length,) = struct.unpack_from("!i", self._held, offset)
        if length < (8 if offset == 0 else 4):
            raise ProtocolViolation("invalid message length")
        if length > limit:
            raise ProtocolViolation(f"a message of {length:,} bytes is too long", hint=f"at most {limit:,} are read")
        end = offset + length
        if len(self._held) < end:
            return None
        body = bytes(self._held[offset + 4 : end])
        del self._held[:end]
        return body


class _Fields:
    """What a message consists of, in order."""

    def __init__(self, body: bytes):
        self._body, self._at = body, 0

    def bytes(self, length: int) -> bytes:
        if length < 0 or self._at + length > len(self._body):
            raise ProtocolViolation("insufficient data left in message")
        part = self._body[self._at : self._at + length]
        self._at += length
        return part

    def uint16(self) -> int:
        return int.from_bytes(self.bytes(2))

    def int32(self) -> int:
        return int.from_bytes(self.bytes(4), signed=True)

    def uint32(self) -> int:
        return int.from_bytes(self.bytes(4))

    def text(self) -> str:
        end = self._body.find(b"\0", self._at)
        if end < 0:
            raise ProtocolViolation("invalid string in message")
        part = self.bytes(end - self._at)
        self._at += 1
        try:
            return part.decode()
        except UnicodeDecodeError:
            raise _NotUtf8 from None

    def counted(self, read):
        # Without a sign: a statement may have 65,535 parameters.
        return tuple(read() for _ in range(self.uint16()))

    def value(self) -> bytes | None:
        length = self.int32()
        return None if length == -1 else self.bytes(length)

    def letter(self) -> str:
        kind = self.bytes(1)
        if kind not in (b"S", b"P"):
            raise ProtocolViolation("expected a statement (S) or a portal (P)")
        return kind.decode()

    def rest(self) -> bytes:
        return self.bytes(len(self._body) - self._at)

    def end(self) -> None:
        if self._at != len(self._body):
            raise ProtocolViolation("invalid message format")


_CODES = {"Query": "Q", "Parse": "P", "Bind": "B", "Describe": "D", "Close": "C", "Execute": "E", "Terminate": "X"}


def code_of(message: object) -> int:
    """The letter that a message came with, of those that a client cannot send just anywhere."""
    return ord(_CODES.get(type(message).__name__, "p"))


_READERS = {
    ord("Q"): lambda f: Query(f.text()),
    ord("P"): lambda f: Parse(f.text(), f.text(), f.counted(f.uint32)),
    ord("B"): lambda f: Bind(f.text(), f.text(), f.counted(f.uint16), f.counted(f.value), f.counted(f.uint16)),
    ord("D"): lambda f: Describe(f.letter(), f.text()),
    ord("C"): lambda f: Close(f.letter(), f.text()),
    ord("E"): lambda f: Execute(f.text(), f.int32()),
    ord("S"): lambda f: Sync(),
    ord("H"): lambda f: Flush(),
    ord("X"): lambda f: Terminate(),
    ord("d"): lambda f: CopyData(f.rest()),
    ord("c"): lambda f: CopyDone(),
    ord("f"): lambda f: CopyFail(f.text()),
    ord("p"): lambda f: Password(f.rest()),
}
