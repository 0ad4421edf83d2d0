"""The types of MariaDB and MySQL as ours, and the one text that each value has.

A value comes in two forms: as the server prints it for a SELECT, and in the log's own bytes. Both become the same text
(:func:`printed` here, :mod:`headrace.cdc.mysql.rows` for the log), and :mod:`headrace.cdc.values` makes columns of it.
Texts are read as they are stored, not converted by the server, so both forms have the same bytes.

>>> latin1_text(b"\\x80\\x81"), latin1_bytes("€\\x81")
('€\\x81', b'\\x80\\x81')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from headrace.cdc.mysql.documents import with_plain_numbers
from headrace.cdc.values import column
from headrace.errors import DataError, InvalidDefinition, Unsupported
from headrace.types import INTEGERS, SqlType, numeric_of

_VARCHAR = SqlType("varchar")
_UNSIGNED_64 = SqlType("numeric", precision=20, scale=0)

_INTEGERS = {
    "tinyint": ("smallint", "smallint"),
    "smallint": ("smallint", "integer"),
    "mediumint": ("integer", "integer"),
    "int": ("integer", "bigint"),
}
"""With a sign, and without"""

TEXTS = ("char", "varchar", "tinytext", "text", "mediumtext", "longtext")
BYTES = ("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob")
CHOICES = ("enum", "set")
ADDRESSES = ("uuid", "inet6", "inet4")

_OTHERS = {
    "float": SqlType("real"),
    "double": SqlType("double precision"),
    "year": SqlType("smallint"),
    "date": SqlType("date"),
    "datetime": SqlType("timestamp"),
    "timestamp": SqlType("timestamptz"),
    "json": _VARCHAR,  # of MySQL; MariaDB's is a longtext
    **{name: _VARCHAR for name in (*TEXTS, *CHOICES, *ADDRESSES)},
    **{name: SqlType("bytea") for name in BYTES},
}

READABLE = {*_INTEGERS, *_OTHERS, "bigint", "decimal", "bit", "time"}
"""Types of which the log's bytes are understood"""

LARGEST_PRECISION = 38


@dataclass(frozen=True, kw_only=True)
class SourceType:
    name: str
    """DATA_TYPE in information_schema"""
    text: str
    """COLUMN_TYPE there: with lengths and attributes"""
    unsigned: bool = False
    precision: int = 0
    """Of decimals and bits: digits"""
    scale: int = 0
    """Of decimals: digits behind the point; of times: of a second"""
    length: int = 0
    """Of texts and bytes: the most that fits, in bytes"""
    charset: str | None = None
    collation: str | None = None
    collation_id: int = 0
    values: tuple[str, ...] = ()
    """Of ENUM and SET"""


# --- character sets ---------------------------------------------------------------------------------------------

_CODECS = {
    "utf8mb4": "utf-8", "utf8mb3": "utf-8", "utf8": "utf-8", "ascii": "ascii", "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13", "cp850": "cp850", "cp852": "cp852", "cp1250": "cp1250", "cp1251": "cp1251",
    "koi8r": "koi8-r", "macce": "mac-latin2", "macroman": "mac-roman", "ucs2": "utf-16-be", "utf16": "utf-16-be",
    "utf16le": "utf-16-le", "utf32": "utf-32-be",
}  # fmt: skip
"""Those where Python and the server agree on every byte, so that a text has the same bytes again when it goes back"""

_UTF8 = ("utf8mb4", "utf8mb3", "utf8")  # the last is how older servers call the second
_UNDEFINED = {0x81: "\x81", 0x8D: "\x8d", 0x8F: "\x8f", 0x90: "\x90", 0x9D: "\x9d"}
_LATIN1 = "".join(_UNDEFINED.get(byte) or bytes([byte]).decode("cp1252") for byte in range(256))
"""The server's latin1 is Windows' cp1252, and has characters for the five bytes that this leaves out."""
_TO_LATIN1 = {character: byte for byte, character in enumerate(_LATIN1)}


def latin1_text(data: bytes) -> str:
    return data.decode("latin-1").translate(_LATIN1)


def latin1_bytes(text: str) -> bytes:
    return bytes(_TO_LATIN1[character] for character in text)


def decoder(charset: str | None) -> Callable[[bytes], str]:
    if charset == "latin1":
        return latin1_text
    codec = _CODECS[charset or "utf8mb4"]
    return lambda data: data.decode(codec)


def encoded(text: str, charset: str) -> bytes:
    return latin1_bytes(text) if charset == "latin1" else text.encode(_CODECS[charset])


# --- types ------------------------------------------------------------------------------------------------------


def natural(kind: SourceType, column: str) -> SqlType:
    """The type that (*) gives a column."""
    check_readable(kind, column)
    if kind.name in _INTEGERS:
        return SqlType(_INTEGERS[kind.name][kind.unsigned])
    if kind.name == "bigint":
        return _UNSIGNED_64 if kind.unsigned else SqlType("bigint")
    if kind.name == "bit":
        return _UNSIGNED_64 if kind.precision > 63 else SqlType("bigint")
    if kind.name == "decimal" and kind.precision <= LARGEST_PRECISION:
        return numeric_of(kind.precision, kind.scale)
    if kind.name in _OTHERS:
        return _OTHERS[kind.name]
    raise Unsupported(f'column "{column}" is of type {kind.text}, which has no counterpart', hint=_hint(column, True))


def checked(kind: SourceType, wanted: SqlType, column: str) -> SqlType:
    """The type that the user asks for, if the column's values can be had as such."""
    check_readable(kind, column)
    if wanted == _VARCHAR:
        return wanted
    have = natural(kind, column)
    if wanted == have:
        return wanted
    if wanted.name in INTEGERS and have.name in INTEGERS and INTEGERS.index(wanted.name) > INTEGERS.index(have.name):
        return wanted
    if wanted.name == have.name == "numeric":
        return wanted
    if wanted.name == "bigint" and have == _UNSIGNED_64:
        return wanted  # most are small; one that is not stops the table
    if wanted.name == "boolean" and (kind.name in ("tinyint", "bit") or kind.text.startswith("bool")):
        return wanted
    raise InvalidDefinition(
        f'column "{column}" is of type {kind.text}, which cannot be had as {wanted}', hint=f"use {have} or varchar"
    )


def check_readable(kind: SourceType, column: str) -> None:
    """Whether the log's bytes of it are understood at all, be it as text."""
    words = kind.text.lower()
    old = "mariadb-5.3" in words or words == "year(2)" or (kind.name in ADDRESSES and words != kind.name)
    if kind.name not in READABLE or old or ("compressed" in words and kind.name not in CHOICES):
        raise Unsupported(f'column "{column}" is of type {kind.text}, which cannot be followed', hint=_hint(column))
    if kind.name in (*TEXTS, *CHOICES) and kind.charset not in _CODECS and kind.charset != "latin1":
        raise Unsupported(
            f'column "{column}" has the character set {kind.charset}, which cannot be followed', hint=_hint(column)
        )


def _hint(column: str, as_text: bool = False) -> str:
    more = ", or with it as VARCHAR: the text of its value" if as_text else ""
    return f'name the columns that the table shall have, without "{column}"{more}'


# --- values as a SELECT prints them -----------------------------------------------------------------------------


def printed(kind: SourceType) -> Callable[[bytes], str]:
    """From the bytes of a SELECT to the value's text."""
    if kind.name in (*TEXTS, *CHOICES):
        return decoder(kind.charset)
    if kind.name in BYTES:
        return lambda data: "\\x" + data.hex()
    if kind.name == "bit":
        return lambda data: str(int.from_bytes(data, "big"))
    if kind.name in ("float", "double"):
        return lambda data: repr(float(data))
    if kind.name == "timestamp":
        return lambda data: data.decode() + "+00"
    if kind.name == "json":
        return lambda data: with_plain_numbers(data.decode())
    return bytes.decode


def read_by_arrow(kind: SourceType, wanted: SqlType) -> bool:
    """Whether Arrow reads exactly what a SELECT sends, without a column of texts between."""
    return kind.name in (*_INTEGERS, "bigint", "decimal") and wanted.name in (*INTEGERS, "numeric")


def columns_read(values: pa.Array, kind: SourceType, wanted: SqlType, name: str) -> pa.Array:
    """A column of a SELECT, converted as a whole where that can be; the text is that of :func:`printed`."""
    if (kind.name in BYTES and wanted.name == "bytea") or (read_by_arrow(kind, wanted) and values.type == wanted.arrow):
        return values
    try:
        if (kind.name in (*TEXTS, *CHOICES) and kind.charset not in _UTF8) or kind.name in (*BYTES, "bit") or (
            kind.name in ("float", "double") and wanted == _VARCHAR
        ):  # fmt: skip
            text = printed(kind)
            texts = pa.array([None if value is None else text(value) for value in values.to_pylist()], pa.string())
        else:
            texts = values.cast(pa.string())
            if kind.name == "json":
                texts = _with_plain_numbers(texts)
            elif kind.name == "timestamp":
                texts = pc.binary_join_element_wise(texts, "+00", "")
    except (UnicodeDecodeError, pa.ArrowInvalid):
        raise undecodable(name, kind) from None
    return column(texts, wanted, name)


def _with_plain_numbers(texts: pa.Array) -> pa.Array:
    """Those with numbers that need it, and perhaps some others, are looked at one by one."""
    doubtful = pc.match_substring_regex(texts, "[0-9][.e]")
    found = [with_plain_numbers(text) for text in texts.filter(doubtful).to_pylist()]
    return pc.replace_with_mask(texts, doubtful.fill_null(False), pa.array(found, pa.string())) if found else texts


def undecodable(name: str, kind: SourceType) -> DataError:
    return DataError(
        f'column "{name}" has bytes that are no text in the character set {kind.charset}',
        hint="correct them in the database, then create the table again",
    )
