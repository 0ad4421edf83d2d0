"""The content of events to columns: ENCODE JSON, CSV, BYTES, AVRO.

A block of events is decoded by Arrow at once. If Arrow finds anything in it that it does not understand, the block is
decoded again one event at a time, which finds the one at fault, knows more spellings of values, and has the last word.
So a bad event costs its block some time, and nothing else. Avro's are always decoded one at a time.

A field that an event lacks is NULL, one that no column has is ignored, and a value that its column cannot hold makes
the event a bad one.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.json as pa_json

from headrace import uuids
from headrace.errors import InvalidDefinition
from headrace.sources import avro
from headrace.sources.definition import Definition
from headrace.sources.values import NotThis, field_value, read_json, reason_of, text_value
from headrace.types import INTEGERS, SqlType

Values = Sequence[bytes | None]
Columns = dict[str, pa.Array]

csv.field_size_limit(1 << 30)  # Python's own is 128 KiB; how long a line may be is said elsewhere

_AS_THEY_ARE = (*INTEGERS, "boolean", "real", "double precision", "varchar")
_FROM_TEXT = ("date", "timestamp", "timestamptz", "uuid")


@dataclass(frozen=True)
class Fault:
    at: int
    """The event's place in the block"""
    reason: str


def check(definition: Definition, encodings: Sequence[str]) -> None:
    if definition.encode not in encodings:
        raise InvalidDefinition(
            f"connector = '{definition.connector}' needs FORMAT PLAIN ENCODE {' or '.join(encodings).upper()}"
        )
    if definition.format != "plain":
        raise InvalidDefinition(
            f"FORMAT {definition.format.upper()} describes changes of rows, and a source has none", hint="use PLAIN"
        )
    check_options(definition)
    if definition.encode == "bytes":
        kinds = [kind.name for _, kind in definition.columns]
        if kinds not in (["bytea"], ["varchar"]):
            raise InvalidDefinition("ENCODE BYTES needs one column, of type BYTEA or VARCHAR")
    if definition.encode == "csv":
        delimiter_of(definition)
        has_header(definition)
        for name, kind in definition.columns:
            if kind.name in ("array", "struct", "map", "bytea"):
                raise InvalidDefinition(f'column "{name}": ENCODE CSV has no values of type {kind}')


def check_options(definition: Definition) -> None:
    known = {"csv": {"delimiter", "without_header"}, "avro": avro.OPTIONS}.get(definition.encode or "", set())
    for name, _ in definition.encode_options:
        if name not in known:
            raise InvalidDefinition(f'ENCODE {(definition.encode or "").upper()} has no option "{name}"')


def in_order_of(definition: Definition, names: Sequence[str]) -> Definition:
    """With the columns of a file whose first line names them: those that the source has not are text, and ignored."""
    kinds = dict(definition.columns)
    columns = tuple(
        (name, kinds[name]) if name in kinds and name not in names[:at] else (f"\0{at}", SqlType("varchar"))
        for at, name in enumerate(names)
    )
    return dataclasses.replace(definition, columns=columns)


def delimiter_of(definition: Definition) -> str:
    delimiter = dict(definition.encode_options).get("delimiter", ",")
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise InvalidDefinition(f"a delimiter cannot be {delimiter!r}", hint="it is one character")
    return delimiter


def has_header(definition: Definition) -> bool:
    without = dict(definition.encode_options).get("without_header", "false")
    if without.lower() not in ("true", "false"):
        raise InvalidDefinition(f"without_header cannot be {without!r}", hint="it is true or false")
    return without.lower() == "false"


def decode(definition: Definition, values: Values, records: avro.Records | None = None) -> tuple[Columns, list[Fault]]:
    """The columns of the good events, in order, and what is wrong with the others; ``records`` reads those of Avro."""
    if records is not None:
        slow = avro.columns_of(records)
    else:
        quick, slow = _ENCODINGS[definition.encode or "json"]
        columns = quick(definition, values)
        if columns is not None:
            return columns, []
    rows, places, faults = [], [], []
    for at, value in enumerate(values):
        try:
            rows.append(slow(definition, value))
            places.append(at)
        except Exception as problem:
            faults.append(Fault(at, reason_of(problem)))
    columns, unfit = arrays_of(definition, rows)
    faults += [Fault(places[each.at], each.reason) for each in unfit]
    return columns, sorted(faults, key=lambda fault: fault.at)


def arrays_of(definition: Definition, rows: Sequence[Sequence[Any]]) -> tuple[Columns, list[Fault]]:
    """Rows as columns, without those that Arrow cannot hold, and what is wrong with these."""
    try:
        return {
            name: pa.array([row[at] for row in rows], kind.arrow) for at, (name, kind) in enumerate(definition.columns)
        }, []
    except Exception as problem:
        reason_of(problem)
    good, faults = [], []
    for at, row in enumerate(rows):
        if (reason := _unfit(definition, row)) is None:
            good.append(row)
        else:
            faults.append(Fault(at, reason))
    if not faults:
        raise RuntimeError("rows that fit one by one do not fit together")
    return arrays_of(definition, good)[0], faults


def _unfit(definition: Definition, row: Sequence[Any]) -> str | None:
    for value, (name, kind) in zip(row, definition.columns, strict=True):
        try:
            pa.array([value], kind.arrow)
        except Exception as problem:
            return f'column "{name}": {reason_of(problem)}'
    return None


# --- JSON --------------------------------------------------------------------------------------------------------


def _quick_json(definition: Definition, values: Values) -> Columns | None:
    fields = arrow_fields(definition.columns)
    table = None if fields is None else json_table(fields, values)
    if table is None:
        return None
    try:
        return {name: checked(_one(table[name]), kind) for name, kind in definition.columns}
    except pa.ArrowException:
        return None


def arrow_fields(columns: Sequence[tuple[str, SqlType]]) -> list[pa.Field] | None:
    """As what Arrow's reader is to read columns; None if it cannot."""
    fields = []
    for name, kind in columns:
        if kind.name in _AS_THEY_ARE:
            fields.append(pa.field(name, kind.arrow))
        elif kind.name in _FROM_TEXT:
            fields.append(pa.field(name, pa.string()))
        else:
            return None
    return fields


def json_table(fields: Sequence[pa.Field], values: Values) -> pa.Table | None:
    """Events as Arrow reads them, all at once; None if there is something that it does not understand."""
    # Arrow's reader is for objects, one to a line. Of other things it may make anything, or nothing ever again.
    if not values or None in values:
        return None
    joined = b"\n".join(values)
    between = len(values) - 1
    if joined.count(b"\n") != between or joined.count(b"}\n{") != between or (joined[:1], joined[-1:]) != (b"{", b"}"):
        return None
    if not joined.isascii() and not _is_text(joined):
        return None  # also where nobody looks: what an event is does not depend on which columns there are
    try:
        table = pa_json.read_json(
            pa.BufferReader(joined),
            read_options=pa_json.ReadOptions(use_threads=False, block_size=len(joined) + 1),
            parse_options=pa_json.ParseOptions(
                explicit_schema=pa.schema(fields), newlines_in_values=False, unexpected_field_behavior="ignore"
            ),
        )
        return table if table.num_rows == len(values) else None
    except pa.ArrowException:
        return None


def _is_text(data: bytes) -> bool:
    """Arrow looks at it twice as fast as Python."""
    buffers = [None, pa.py_buffer(struct.pack("=2q", 0, len(data))), pa.py_buffer(data)]
    try:
        pa.Array.from_buffers(pa.large_utf8(), 1, buffers).validate(full=True)
        return True
    except pa.ArrowInvalid:
        return False


def checked(column: pa.Array, kind: SqlType) -> pa.Array:
    """Arrow lets pass what is not JSON: bytes that are no text, and numbers that are none."""
    if pa.types.is_string(column.type):
        column.validate(full=True)
    elif pa.types.is_floating(column.type) and pc.any(pc.invert(pc.is_finite(column))).as_py():
        raise pa.ArrowInvalid("a number that JSON does not have")
    if kind.name in _AS_THEY_ARE:
        return column
    if pc.any(_doubtful(column, kind)).as_py():
        raise pa.ArrowInvalid("one at a time")
    return column.cast(kind.arrow)


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _slow_json(definition: Definition, value: bytes | None) -> list[Any]:
    if value is None:
        raise NotThis("it has no content")
    try:
        found = read_json(value)
    except ValueError as problem:
        raise NotThis(f"it is not JSON: {problem}") from None
    if not isinstance(found, dict):
        raise NotThis("it is JSON, but not an object")
    return [field_value(found, name, kind) for name, kind in definition.columns]


# --- CSV ---------------------------------------------------------------------------------------------------------


def _quick_csv(definition: Definition, values: Values) -> Columns | None:
    if not values or any(not value or b"\n" in value or b'"' in value for value in values):
        return None
    names = [name for name, _ in definition.columns]
    try:
        table = pa_csv.read_csv(
            pa.BufferReader(b"\n".join(values)),
            read_options=pa_csv.ReadOptions(column_names=names, use_threads=False),
            parse_options=pa_csv.ParseOptions(delimiter=delimiter_of(definition)),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
            ),
        )
        if table.num_rows != len(values):
            return None
        return {name: _of_texts(_one(table[name]), kind) for name, kind in definition.columns}
    except pa.ArrowException:
        return None


def _of_texts(texts: pa.Array, kind: SqlType) -> pa.Array:
    if kind.name == "boolean" or kind.name not in (*_AS_THEY_ARE, *_FROM_TEXT):
        raise pa.ArrowInvalid("one at a time")
    texts.validate(full=True)
    found = texts.cast(kind.arrow)
    if kind.name in INTEGERS:
        doubtful = pc.match_substring(texts, "x", ignore_case=True)  # hexadecimal digits, to Arrow
    elif pa.types.is_floating(found.type):  # what does not fit is infinite to Arrow, or 0
        odd = pc.or_(pc.invert(pc.is_finite(found)), pc.equal(found, 0))
        doubtful = pc.and_(odd, pc.invert(pc.match_substring_regex(texts, "^[-+]?[0.]*$")))
    else:
        doubtful = _doubtful(texts, kind)
    if kind.name != "varchar" and pc.any(doubtful).as_py():
        raise pa.ArrowInvalid("one at a time")
    return found


def _doubtful(texts: pa.Array, kind: SqlType) -> pa.Array:
    """Of times, an hour without minutes, and the year 0, which Arrow knows and PostgreSQL does not."""
    if kind.name == "uuid":
        return pc.invert(pc.match_substring_regex(texts, uuids.PLAIN))
    return pc.match_substring_regex(texts, "^0000|^.{10}[T ][0-9]{2}([^:]|$)")


def _slow_csv(definition: Definition, value: bytes | None) -> list[Any]:
    if value is None:
        raise NotThis("it has no content")
    try:
        text = value.decode()
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(definition), strict=True))
    except (UnicodeDecodeError, csv.Error) as problem:
        raise NotThis(f"it is not CSV: {problem}") from None
    if len(lines) != 1:
        raise NotThis(f"it has {len(lines)} lines")
    texts = lines[0]
    if len(texts) > len(definition.columns):
        raise NotThis(f"it has {len(texts)} fields, and the source {len(definition.columns)} columns")
    quoted = _in_quotes(text, delimiter_of(definition)) if '""' in text else [False] * len(texts)
    found = []
    for at, (name, kind) in enumerate(definition.columns):
        try:
            is_null = at >= len(texts) or (not texts[at] and not quoted[at])
            found.append(None if is_null else text_value(texts[at], kind))
        except NotThis as reason:
            raise NotThis(f'column "{name}": {reason}') from None
    return found


def _in_quotes(line: str, delimiter: str) -> list[bool]:
    """Which fields of a line are, of one that is known to be CSV: the module ``csv`` does not tell.

    >>> _in_quotes('x,"",,"a,""b"', ",")
    [False, True, False, True]
    """
    apart = re.escape(delimiter)
    fields = re.findall(rf'("(?:[^"]|"")*"|[^{apart}]*)(?:{apart}|\Z)', line.rstrip("\r\n") + delimiter)
    return [field.startswith('"') for field in fields[:-1]]


# --- BYTES -------------------------------------------------------------------------------------------------------


def _quick_bytes(definition: Definition, values: Values) -> Columns | None:
    ((name, kind),) = definition.columns
    try:
        found = pa.array(values, pa.binary()).cast(kind.arrow)
        found.validate(full=True)
        return {name: found}
    except pa.ArrowException:
        return None


def _slow_bytes(definition: Definition, value: bytes | None) -> list[Any]:
    ((_, kind),) = definition.columns
    if value is None or kind.name == "bytea":
        return [value]
    try:
        return [value.decode()]
    except UnicodeDecodeError as problem:
        raise NotThis(f"it is not text: {problem}") from None


Quick = Callable[[Definition, Values], Columns | None]
Slow = Callable[[Definition, bytes | None], list[Any]]
_ENCODINGS: dict[str, tuple[Quick, Slow]] = {
    "json": (_quick_json, _slow_json),
    "csv": (_quick_csv, _slow_csv),
    "bytes": (_quick_bytes, _slow_bytes),
}
