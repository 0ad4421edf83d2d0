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
import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.csv

from headrace.errors import DataError, InvalidParameterValue, SqlSyntaxError

PIECE_BYTES = 4 * 1024 * 1024
"""Of a COPY that becomes values at once."""
LONGEST_LINE = 64 * 1024 * 1024
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_BACK = {value: f"\\{key}" for key, value in _ESCAPES.items()} | {"\\": "\\\\"}
_SPECIAL = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)


class TooLongLine(DataError):
    sqlstate = "54000"


@dataclass(frozen=True, kw_only=True)
class CopyOptions:
    csv: bool = False
    binary: bool = False
    header: bool = False
    match: bool = False
    """Whether the header must name the columns"""
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
            match=options.get("header") == "match",
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
    data: bytes | mmap.mmap,
    width: int,
    options: CopyOptions,
    piece_bytes: int = PIECE_BYTES,
    *,
    names: Sequence[str] = (),
) -> Iterator[list[list[str | None]]]:
    """The columns of so many rows at a time; a piece has a row at least. ``names``: what the header has to say."""
    stop, first, plain = _end_of(data, options), 1, dataclasses.replace(options, header=False)
    begin = 0
    if options.header:
        begin, first = next(_cuts(data, options, 0, 0, stop), (0, 0))[1], 2
        _check_header(data[:begin], names, options)
    for start, end in _cuts(data, options, piece_bytes, begin, stop):
        columns = read_columns(data[start:end], width, plain, first)
        if columns[0]:
            yield columns
        first += len(columns[0])


def _check_header(line: bytes, names: Sequence[str], options: CopyOptions) -> None:
    if not options.match:
        return
    if options.csv:
        fields = [value for value, _ in next(_records(_decoded(line), options), [])]
    else:
        fields = [_unescape(field) for field in _split(_decoded(line).rstrip("\r\n"), options)]
    if len(fields) != len(names):
        raise DataError(
            f"wrong number of fields in header line: field count is {len(fields)}, expected {len(names)}",
            sqlstate="22P04",
        )
    for number, (field, name) in enumerate(zip(fields, names, strict=True), 1):
        if field != name:
            raise DataError(
                f'column name mismatch in header line field {number}: got "{field}", expected "{name}"',
                sqlstate="22P04",
            )


def _end_of(data: bytes | mmap.mmap, options: CopyOptions) -> int:
    """Where the mark begins that old clients end their data with: a line of its own, of csv the last one."""
    at = data.find(b"\\.", max(0, len(data) - 4) if options.csv else 0)
    while at >= 0:
        rest = data[at + 2 : at + 4]
        alone = rest in (b"", b"\r", b"\r\n") or rest[:1] == b"\n"
        last = not options.csv or len(data) - at <= len(b"\\.\r\n")
        if alone and last and (at == 0 or data[at - 1 : at] == b"\n"):
            return at
        at = data.find(b"\\.", at + 1)
    return len(data)


def _cuts(
    data: bytes | mmap.mmap, options: CopyOptions, piece_bytes: int, start: int, stop: int
) -> Iterator[tuple[int, int]]:
    """Where to cut: behind a line, which in csv is no line if a quote is open, and in text if its end is escaped."""
    while start < stop:
        end, counted, inside = _line_end(data, start + piece_bytes, stop), start, False
        while end < stop and end - start <= piece_bytes + LONGEST_LINE:
            if options.csv:
                inside = _ends_inside(data[counted:end], options, inside)
            else:
                inside = _is_escaped(data[max(start, end - 64) : end - 1])
            if not inside:
                break
            counted, end = end, _line_end(data, end, stop)
        if end - start > piece_bytes + LONGEST_LINE:
            raise TooLongLine(
                f"a line of a COPY may have at most {LONGEST_LINE:,} bytes", hint="was a quote left open before it?"
            )
        yield start, end
        start = end


def _line_end(data: bytes | mmap.mmap, start: int, stop: int) -> int:
    return data.find(b"\n", start, stop) + 1 or stop


def _ends_inside(lines: bytes, options: CopyOptions, inside: bool) -> bool:
    """Whether a quote is open behind these lines, if one is, or is not, before them."""
    quote, escape = options.quote.encode(), options.escape.encode()
    if quote == escape:
        return inside != bool(lines.count(quote) % 2)
    escaped, at = re.compile(rb"%b[%b%b]|%b" % tuple(map(re.escape, (escape, escape, quote, quote)))), 0
    while True:
        if inside:
            found = escaped.search(lines, at)
            if found is None:
                return True
            at, inside = found.end(), found.end() - found.start() == 2
        else:
            at = lines.find(quote, at) + 1
            if not at:
                return False
            inside = True


def _is_escaped(before: bytes | str) -> bool:
    """Whether what follows this has a backslash before it that is not itself escaped."""
    backslash = b"\\" if isinstance(before, bytes) else "\\"
    return (len(before) - len(before.rstrip(backslash))) % 2 == 1


def read_columns(data: bytes, width: int, options: CopyOptions, first_line: int = 1) -> list[list[str | None]]:
    if options.csv:
        return _read_csv(data, width, options, first_line)
    return _read_text(data, width, options, first_line)


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise DataError('invalid byte sequence for encoding "UTF8"', sqlstate="22021") from None


def _read_text(data: bytes, width: int, options: CopyOptions, first_line: int) -> list[list[str | None]]:
    lines = _lines(_decoded(data))
    if options.header:
        lines = lines[1:]
    columns: list[list[str | None]] = [[] for _ in range(width)]
    for number, line in enumerate(lines, first_line):
        fields = _split(line, options)
        if len(fields) != width:
            raise _wrong_width(len(fields), width, number, line)
        for column, field in zip(columns, fields, strict=True):
            column.append(None if field == options.null else _unescape(field))
    return columns


def _lines(text: str) -> list[str]:
    """A newline behind a backslash is part of a value."""
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    if not any(line.endswith("\\") for line in lines):
        return lines
    joined: list[str] = []
    for line in lines:
        if joined and _is_escaped(joined[-1]):
            joined[-1] += "\n" + line
        else:
            joined.append(line)
    return joined


def _wrong_width(found: int, width: int, number: int, line: str) -> DataError:
    problem = "missing data" if found < width else "extra data after the last expected column"
    return DataError(f"{problem}, line {number}: {line[:100]!r}", sqlstate="22P04")


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
        if simple == ".":
            raise DataError("end-of-copy marker corrupt", sqlstate="22P04")
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


def _read_csv(data: bytes, width: int, options: CopyOptions, first_line: int) -> list[list[str | None]]:
    if options.header:
        data = data[next(_cuts(data, options, 0, 0, len(data)), (0, 0))[1] :]
    if not data:
        return [[] for _ in range(width)]
    data = data if data.endswith(b"\n") else data + b"\n"
    if not _is_regular(data, options):
        return _read_records(data, width, options, first_line)
    names = [str(number) for number in range(width)]
    try:
        table = pyarrow.csv.read_csv(
            io.BytesIO(data),
            read_options=pyarrow.csv.ReadOptions(
                column_names=names, use_threads=False, block_size=max(len(data), 1 << 20)
            ),
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote,
                double_quote=True,
                escape_char=False,
                newlines_in_values=True,
                ignore_empty_lines=False,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                null_values=[options.null],
            ),
        )
    except pa.ArrowInvalid:
        return _read_records(data, width, options, first_line)  # which says what is wrong as PostgreSQL does
    return [column.to_pylist() for column in table.columns]


def _is_regular(data: bytes, options: CopyOptions) -> bool:
    """Whether quotes are only around values, and doubled inside of them, and no line is empty: what Arrow reads as
    PostgreSQL does."""
    quote = re.escape(options.quote.encode())
    if re.search(rb"(?:\A|\n)\r?\n", data) is not None:
        return False
    if options.quote.encode() not in data:
        return True
    if options.escape != options.quote:
        return False
    value = rb"(?:%b(?:[^%b]++|%b%b)*+%b|[^%b%b\r\n]*+)" % (
        quote, quote, quote, quote, quote, quote, re.escape(options.delimiter.encode()),
    )  # fmt: skip
    delimiter = re.escape(options.delimiter.encode())
    return re.fullmatch(rb"(?:%b(?:%b%b)*+(?:\r?\n|\Z))*+" % (value, delimiter, value), data) is not None


def _read_records(data: bytes, width: int, options: CopyOptions, first_line: int) -> list[list[str | None]]:
    columns: list[list[str | None]] = [[] for _ in range(width)]
    for number, record in enumerate(_records(_decoded(data), options), first_line):
        if len(record) != width:
            raise _wrong_width(len(record), width, number, options.delimiter.join(value for value, _ in record))
        for column, (value, was_quoted) in zip(columns, record, strict=True):
            column.append(None if value == options.null and not was_quoted else value)
    return columns


def _records(text: str, options: CopyOptions) -> Iterator[list[tuple[str, bool]]]:
    """PostgreSQL's reading of csv: a quote anywhere in a value begins or ends what is taken as it is. Slow.

    A value comes with whether any of it was quoted."""
    record: list[tuple[str, bool]] = []
    value, was_quoted, inside, position = "", False, False, 0
    while position < len(text):
        character, following = text[position], text[position + 1 : position + 2]
        position += 1
        if inside:
            if character == options.escape and following and following in (options.escape, options.quote):
                value += following
                position += 1
            elif character == options.quote:
                inside = False
            else:
                value += character
        elif character == options.quote:
            inside = was_quoted = True
        elif character == options.delimiter:
            record.append((value, was_quoted))
            value, was_quoted = "", False
        elif character in "\r\n":
            position += character == "\r" and following == "\n"
            yield [*record, (value, was_quoted)]
            record, value, was_quoted = [], "", False
        else:
            value += character
    if inside:
        raise DataError("unterminated CSV quoted field", sqlstate="22P04")
    if record or value or was_quoted:
        yield [*record, (value, was_quoted)]


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
