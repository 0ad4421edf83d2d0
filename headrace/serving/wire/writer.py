"""Messages of a server, as bytes.

>>> ready("I")
b'Z\\x00\\x00\\x00\\x05I'
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from headrace import notices
from headrace.errors import HeadraceError
from headrace.serving.wire.oids import oid_of, size_of, typmod_of
from headrace.types import SqlType


def message(letter: bytes, body: bytes = b"") -> bytes:
    return letter + struct.pack("!i", len(body) + 4) + body


def _text(text: str) -> bytes:
    # A zero byte would end the text early, and no text of PostgreSQL's holds one.
    return text.replace("\0", "").encode("utf-8", "replace") + b"\0"


AUTHENTICATED = message(b"R", struct.pack("!i", 0))
PARSE_COMPLETE, BIND_COMPLETE, CLOSE_COMPLETE = message(b"1"), message(b"2"), message(b"3")
NO_DATA, EMPTY_QUERY, PORTAL_SUSPENDED, COPY_DONE = message(b"n"), message(b"I"), message(b"s"), message(b"c")


def ask_sasl(*mechanisms: str) -> bytes:
    return message(b"R", struct.pack("!i", 10) + b"".join(map(_text, mechanisms)) + b"\0")


def sasl_continue(data: bytes) -> bytes:
    return message(b"R", struct.pack("!i", 11) + data)


def sasl_final(data: bytes) -> bytes:
    return message(b"R", struct.pack("!i", 12) + data)


def negotiate_version(minor: int, unknown: Sequence[str]) -> bytes:
    return message(b"v", struct.pack("!ii", minor, len(unknown)) + b"".join(map(_text, unknown)))


def parameter_status(name: str, value: str) -> bytes:
    return message(b"S", _text(name) + _text(value))


def backend_key(process: int, secret: int) -> bytes:
    return message(b"K", struct.pack("!II", process, secret))


def ready(status: str) -> bytes:
    """I: idle, T: in a transaction, E: in one that failed"""
    return message(b"Z", status.encode())


def command_complete(tag: str) -> bytes:
    return message(b"C", _text(tag))


def parameter_description(oids: Sequence[int]) -> bytes:
    return message(b"t", struct.pack(f"!H{len(oids)}I", len(oids), *oids))


def row_description(columns: Sequence[str], types: Sequence[SqlType], formats: Sequence[int]) -> bytes:
    parts = [struct.pack("!H", len(columns))]
    for name, kind, form in zip(columns, types, formats, strict=True):
        parts.append(_text(name))
        parts.append(struct.pack("!IhIhih", 0, 0, oid_of(kind), size_of(kind), typmod_of(kind), form))
    return message(b"T", b"".join(parts))


def copy_response(letter: bytes, columns: int, *, binary: bool = False) -> bytes:
    """G: send me data, H: here it comes."""
    return message(letter, struct.pack(f"!bh{columns}h", binary, columns, *([int(binary)] * columns)))


def copy_data(data: bytes) -> bytes:
    return message(b"d", data)


def error(problem: HeadraceError, *, severity: str = "ERROR") -> bytes:
    """Where PostgreSQL names the function of its own that found it, the error's class stands: several share a code."""
    name = next(kind.__name__ for kind in type(problem).__mro__ if kind.__module__ == HeadraceError.__module__)
    return _report(b"E", severity, problem.sqlstate, problem.message, problem.hint, problem.position, routine=name)


def notice(text: str) -> bytes:
    return _report(b"N", notices.severity(text), notices.sqlstate(text), text, None, None)


def _report(
    letter: bytes,
    severity: str,
    sqlstate: str,
    text: str,
    hint: str | None,
    position: int | None,
    routine: str | None = None,
) -> bytes:
    fields = {"S": severity, "V": severity, "C": sqlstate, "M": text}
    if hint:
        fields["H"] = hint
    if position:
        fields["P"] = str(position)
    if routine:
        fields["R"] = routine
    return message(letter, b"".join(key.encode() + _text(value) for key, value in fields.items()) + b"\0")
