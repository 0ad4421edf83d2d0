"""The formats of COPY: text and csv, between bytes and columns of texts. NULL is None.

>>> options = CopyOptions.of((("format", "csv"), ("header", "true")))
>>> read_columns(b'a,b\\n1,"x, y"\\n,""\\n', 2, options)
[['1', None], ['x, y', '']]
>>> lines_of([["1", None], ["a\\tb", "c"]], CopyOptions())
[b'1\\ta\\\\tb\\n', b'\\\\N\\tc\\n']
"""

from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv

from headrace.errors import DataError, InvalidParameterValue, SqlSyntaxError

PIECE_BYTES = 4 * 1024 * 1024
"""Of a COPY that becomes values at once."""
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BACK = {value: f"\\{key}" for key, value in _ESCAPES.items()} | {"\\": "\\\\"}
_SPECIAL = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class CopyOptions:
    csv: bool = False
    binary: bool = False
    header: bool = False
    delimiter: str = "\t"
    null: str = "\\N"
    quote: str = '"'
    escape: str = '"'

    @staticmethod
    def of(given: Sequence[tuple[str, str]]) -> CopyOptions:
        options = dict(given)
        csv = options.get("format") == "csv"
        if options.get("format") == "binary" and (others := [name for name in options if name != "format"]):
            raise SqlSyntaxError(f"cannot specify {others[0].upper()} in BINARY mode")
        found = CopyOptions(
            csv=csv,
            binary=options.get("format") == "binary",
            header=options.get("header", "false") in ("true", "on", "1", "match"),
            delimiter=options.get("delimiter", "," if csv else "\t"),
            null=options.get("null", "" if csv else "\\N"),
            quote=options.get("quote", '"'),
            escape=options.get("escape", options.get("quote", '"')),
        )
        for name in ("delimiter", "quote", "escape"):
            value = getattr(found, name)
            if len(value.encode()) != 1 or value in "\r\n":
                raise InvalidParameterValue(f"COPY {name} must be a single one-byte character")
        return found


def read_pieces(
    data: bytes, width: int, options: CopyOptions, piece_bytes: int = PIECE_BYTES
) -> Iterator[list[list[str | None]]]:
    """The columns of so many rows at a time; a piece has a row at least."""
    data, first = _without_end(data, options), 1
    for start, end in _cuts(data, options, piece_bytes):
        of_piece = options if start == 0 else dataclasses.replace(options, header=False)
        columns = read_columns(data[start:end], width, of_piece, first)
        if columns[0]:
            yield columns
        first += len(columns[0])


def _without_end(data: bytes, options: CopyOptions) -> bytes:
    """Up to the mark that old clients end their data with."""
    mark = rb"(?:^|(?<=\n))\\\.\r?\n?\Z" if options.csv else rb"(?:^|(?<=\n))\\\.\r?(?:\n|\Z)"
    found = re.search(mark, data)
    return data if found is None else data[: found.start()]


def _cuts(data: bytes, options: CopyOptions, piece_bytes: int) -> Iterator[tuple[int, int]]:
    """Where to cut: behind a line, which in csv is no line if a quote is open."""
    quote = options.quote.encode()
    start = 0
    while start < len(data):
        end = start + piece_bytes
        if options.csv and options.escape != options.quote:
            end = len(data)  # whether a quote is one, only the reader knows
        end, counted, open_quotes = data.find(b"\n", end) + 1 or len(data), start, 0
        while options.csv and end < len(data):
            open_quotes += data.count(quote, counted, end)
            if open_quotes % 2 == 0:
                break
            counted, end = end, data.find(b"\n", end) + 1 or len(data)
        yield start, end
        start = end


def read_columns(data: bytes, width: int, options: CopyOptions, first_line: int = 1) -> list[list[str | None]]:
    if options.csv:
        return _read_csv(data, width, options)
    return _read_text(data, width, options, first_line)


def _read_text(data: bytes, width: int, options: CopyOptions, first_line: int) -> list[list[str | None]]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise DataError('invalid byte sequence for encoding "UTF8"', sqlstate="22021") from None
    lines = text.replace("\r\n", "\n").split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    if options.header:
        lines = lines[1:]
    columns: list[list[str | None]] = [[] for _ in range(width)]
    for number, line in enumerate(lines, first_line):
        fields = _split(line, options)
        if len(fields) != width:
            problem = "missing data" if len(fields) < width else "extra data after the last expected column"
            raise DataError(f"{problem}, line {number}: {line[:100]!r}", sqlstate="22P04")
        for column, field in zip(columns, fields, strict=True):
            column.append(None if field == options.null else _unescape(field))
    return columns


def _split(line: str, options: CopyOptions) -> list[str]:
    """An escaped delimiter is part of the value."""
    if "\\" + options.delimiter not in line:
        return line.split(options.delimiter)
    fields, current, position = [], "", 0
    while position < len(line):
        character = line[position]
        if character == "\\" and position + 1 < len(line):
            current += line[position : position + 2]
            position += 2
            continue
        if character == options.delimiter:
            fields.append(current)
            current = ""
        else:
            current += character
        position += 1
    return [*fields, current]


def _unescape(field: str) -> str:
    if "\\" not in field:
        return field

    def one(match: re.Match[str]) -> str:
        octal, hexadecimal, simple = match.groups()
        if octal is not None:
            return _byte(int(octal, 8) & 0xFF)
        if hexadecimal is not None:
            return _byte(int(hexadecimal, 16))
        return _ESCAPES.get(simple, simple)

    try:
        return _SPECIAL.sub(one, field).encode("utf-8", "surrogateescape").decode()
    except UnicodeDecodeError:
        raise DataError('invalid byte sequence for encoding "UTF8"', sqlstate="22021") from None


def _byte(value: int) -> str:
    """A byte of a character that may take several: they are put together afterwards."""
    if value == 0:
        raise DataError('invalid byte sequence for encoding "UTF8": 0x00', sqlstate="22021")
    return chr(value) if value < 0x80 else chr(0xDC00 + value)


def _read_csv(data: bytes, width: int, options: CopyOptions) -> list[list[str | None]]:
    if not data.strip(b"\r\n") or (options.header and not data.partition(b"\n")[2]):
        return [[] for _ in range(width)]
    names = [str(number) for number in range(width)]
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names, skip_rows=int(options.header), use_threads=False, block_size=max(len(data), 1 << 20)
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote,
                double_quote=options.escape == options.quote,
                escape_char=False if options.escape == options.quote else options.escape,
                newlines_in_values=True,
                ignore_empty_lines=width > 1,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[options.null],
            ),
        )
    except pa.ArrowInvalid as error:
        if "Empty CSV file" in str(error):
            return [[] for _ in range(width)]
        raise DataError(str(error).removeprefix("CSV parse error: "), sqlstate="22P04") from None
    return [column.to_pylist() for column in table.columns]


def lines_of(columns: Sequence[Sequence[str | None]], options: CopyOptions) -> list[bytes]:
    """Each row by itself: clients are promised a message for each."""
    write = _csv_field if options.csv else _text_field
    lines = (options.delimiter.join(write(field, options) for field in row) for row in zip(*columns, strict=True))
    return [f"{line}\n".encode() for line in lines]


def _text_field(field: str | None, options: CopyOptions) -> str:
    if field is None:
        return options.null
    escaped = "".join(_BACK.get(character, character) for character in field) if _NEEDS_ESCAPE.search(field) else field
    if options.delimiter in escaped and options.delimiter != "\t":
        escaped = escaped.replace(options.delimiter, "\\" + options.delimiter)
    return escaped


_NEEDS_ESCAPE = re.compile(r"[\\\b\f\n\r\t\v]")


def _csv_field(field: str | None, options: CopyOptions) -> str:
    if field is None:
        return options.null
    quoted = field == options.null or any(mark in field for mark in (options.delimiter, options.quote, "\n", "\r"))
    if not quoted and field != "\\.":
        return field
    text = field
    if options.escape != options.quote:
        text = text.replace(options.escape, options.escape * 2)
    return options.quote + text.replace(options.quote, options.escape + options.quote) + options.quote
