"""Values as text, exactly as PostgreSQL prints them.

The shell, the golden SQL tests and everything that speaks to PostgreSQL clients print through here, so that one value
looks the same everywhere. NULL has no text; it is None, and the caller decides how to show it.

>>> from headrace.types import SqlType, array_of, map_of
>>> render(True, SqlType("boolean"))
't'
>>> render([1, None, 3], array_of(SqlType("integer")))
'{1,NULL,3}'
>>> kind = SqlType("struct", fields=(("id", SqlType("integer")), ("name", SqlType("varchar"))))
>>> render({"id": 1, "name": "a b"}, kind)
'(1,"a b")'

>>> kind = map_of(SqlType("varchar"), SqlType("integer"))
>>> render([("a", 1), ("b c", None)], kind)
'{a:1,"b c":NULL}'

Where Headrace's types differ from PostgreSQL's, so does the text:

* An unconstrained ``numeric`` does not remember how many zeros were written after the point; none are printed.
* Of a quotient that was stored it is guessed how many decimals PostgreSQL would have chosen (:mod:`headrace.decimals`).
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.decimals import Shown, decimals_of_value, decimals_shown, rounded
from headrace.errors import DataError
from headrace.intervals import Interval
from headrace.times import from_python, presented, presenter, time_text
from headrace.types import SHOWN_DECIMALS, SHOWN_VALUE, SqlType
from headrace.zones import clock, offset_text

_NEEDS_QUOTES_IN_ARRAY = re.compile(r'[{},"\\ \t\n\r\v\f]')
_NEEDS_QUOTES_IN_STRUCT = re.compile(r'[(),"\\ \t\n\r\v\f]')


def python_columns(rows: pa.Table | pa.RecordBatch) -> list[list[Any]]:
    """The values column by column. Python's dates end with the year 9999; Spark's do not."""
    try:
        return [_python_values(column) for column in rows.columns]
    except (OverflowError, ValueError):
        raise outside_of_years() from None


def presented_columns(rows: pa.Table | pa.RecordBatch, types: Sequence[SqlType]) -> list[list[Any]]:
    """The same for programs, to which a time is no number."""
    found = python_columns(rows)
    for at, kind in enumerate(types):
        if (convert := presenter(kind)) is not None:
            found[at] = [None if value is None else convert(value) for value in found[at]]
    return found


def _python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    if _is_shown(column.type):
        values, decimals = (pc.struct_field(column, [at]).to_pylist() for at in range(2))
        return [
            value if value is None or shown is None else Shown.of(value, shown)
            for value, shown in zip(values, decimals, strict=True)
        ]
    values, convert = column.to_pylist(), _converter(column.type)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def _converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """What makes intervals of their structs in a value; None where there are none."""
    if pa.types.is_list(kind):
        inner = _converter(kind.value_type)
        return inner and (lambda values: [None if each is None else inner(each) for each in values])
    if pa.types.is_map(kind):
        of_key, of_item = (_converter(each) or (lambda value: value) for each in (kind.key_type, kind.item_type))
        return lambda pairs: [(of_key(key), None if item is None else of_item(item)) for key, item in pairs]
    if not pa.types.is_struct(kind):
        return None
    if tuple((field.name, field.type) for field in kind) == _STORED_INTERVAL:
        return Interval.of
    found = {field.name: inner for field in kind if (inner := _converter(field.type)) is not None}
    if not found:
        return None
    return lambda value: {
        name: found[name](each) if each is not None and name in found else each for name, each in value.items()
    }


def _is_shown(kind: pa.DataType) -> bool:
    return pa.types.is_struct(kind) and [field.name for field in kind] == [SHOWN_VALUE, SHOWN_DECIMALS]


def plain(rows: pa.Table, types: Sequence[SqlType] = ()) -> pa.Table:
    """The rows with numbers only where structs say how many of their decimals are shown.

    ``types``: for a program, to which a time is no number."""
    for at, kind in enumerate(types):
        if presenter(kind) is not None:
            column = rows.column(at)
            rows = rows.set_column(at, rows.field(at).name, column.cast(presented(kind, column.type)))
    for at, column in enumerate(rows.columns):
        if _is_shown(column.type):
            rows = rows.set_column(at, rows.field(at).name, pc.struct_field(column, [0]))
    return rows


_STORED_INTERVAL = tuple((field.name, field.type) for field in SqlType("interval").arrow)


def outside_of_years() -> DataError:
    return DataError(
        "a date or time outside of the years 1 to 9999 cannot be returned",
        hint="cast it to text, or keep it out with a WHERE",
        sqlstate="22008",
    )


def render(value: Any, kind: SqlType, zone: str = "UTC") -> str | None:
    return None if value is None else renderer(kind, zone)(value)


def renderer(kind: SqlType, zone: str = "UTC") -> Callable[[Any], str]:
    """The function that prints a non-NULL value of the type: look it up once per column, call it once per row.

    ``zone``: whose clocks show the instants, as Spark spells it.
    """
    if kind.name == "timestamptz" and zone != "UTC":
        return _instant_renderer(zone)
    if kind.name == "numeric" and kind.quotient is not None:
        return _quotient_renderer(kind)
    if kind.name == "numeric":
        return _numeric_without_trailing_zeros if kind.precision is None or kind.free else _numeric
    if kind.name == "array":
        return _array_renderer(kind.element, zone)
    if kind.name == "struct":
        return _struct_renderer(kind.fields, zone)
    if kind.name == "map":
        return _map_renderer(kind.fields[0][1], kind.fields[1][1], zone)
    return _SIMPLE[kind.name]


def _boolean(value: bool) -> str:
    return "t" if value else "f"


def _numeric(value: Decimal | int) -> str:
    return format(value, "f")


def _numeric_without_trailing_zeros(value: Decimal | int) -> str:
    text = format(value, "f")
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _quotient_renderer(kind: SqlType) -> Callable[[Any], str]:
    """
    >>> print_it = _quotient_renderer(SqlType("numeric", precision=38, scale=20, quotient=(0, 0)))
    >>> print_it(Decimal("1.33333333333333333333")), print_it(Shown.of(Decimal("1.5"), 3))
    ('1.3333333333333333', '1.500')
    """
    (least, more), scale = kind.quotient, kind.scale

    def printed(value: Decimal) -> str:
        known = type(value) is Shown
        decimals = decimals_shown(value, scale) if known else decimals_of_value(value, scale, least, more)
        return format(rounded(value, decimals), "f")

    return printed


def _double(value: float) -> str:
    return _float(value, repr(float(value)), largest_plain_exponent=15)


def _real(value: float) -> str:
    # The shortest text that reads back as the same 32-bit number; Python's repr knows only 64-bit ones.
    if math.isfinite(value):
        for digits in range(9):
            shortest = f"{value:.{digits}e}"
            if struct.pack("f", float(shortest)) == struct.pack("f", value):
                return _float(value, shortest, largest_plain_exponent=6)
    return _float(value, repr(value), largest_plain_exponent=6)


def _float(value: float, shortest: str, *, largest_plain_exponent: int) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(shortest).as_tuple()
    text = "".join(map(str, digits)).rstrip("0") or "0"
    exponent = 0 if text == "0" else len(digits) + exponent - 1  # now: that of the first digit
    minus = "-" if sign else ""
    if -4 <= exponent < largest_plain_exponent:
        if exponent < 0:
            return f"{minus}0.{'0' * (-exponent - 1)}{text}"
        whole, fraction = text[: exponent + 1].ljust(exponent + 1, "0"), text[exponent + 1 :]
        return minus + whole + (f".{fraction}" if fraction else "")
    fraction = f".{text[1:]}" if len(text) > 1 else ""
    return f"{minus}{text[0]}{fraction}e{'-' if exponent < 0 else '+'}{abs(exponent):02d}"


def _bytea(value: bytes) -> str:
    return "\\x" + bytes(value).hex()


def _date(value: date) -> str:
    return f"{value.year:04d}-{value.month:02d}-{value.day:02d}"


def _timestamp(value: datetime) -> str:
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    return f"{_date(value)} {value.hour:02d}:{value.minute:02d}:{value.second:02d}{fraction}"


def _timestamptz(value: datetime) -> str:
    if value.tzinfo is not None:
        value = value.astimezone(UTC)
    return _timestamp(value) + "+00"


def _instant_renderer(zone: str) -> Callable[[Any], str]:
    """
    >>> _instant_renderer("Europe/Berlin")(datetime(2024, 7, 1, 12, tzinfo=UTC))
    '2024-07-01 14:00:00+02'
    """
    there = clock(zone)

    def printed(value: datetime) -> str:
        try:
            shown = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).astimezone(there)
        except OverflowError:
            raise outside_of_years() from None
        return _timestamp(shown) + offset_text(int((shown.utcoffset() or timedelta(0)).total_seconds()))

    return printed


def _time(value: int | time | str) -> str:
    return time_text(value) if isinstance(value, int) else time_text(from_python(value))


def _interval(value: Interval | Mapping[str, int]) -> str:
    return str(Interval.of(value) if isinstance(value, Mapping) else value)


def _jsonb(value: str) -> str:
    try:
        return _json(json.loads(value, parse_float=Decimal))
    except ValueError:
        return value


def _json(value: Any) -> str:
    """PostgreSQL's form of a jsonb value: one blank after `:` and `,`, shorter keys before longer ones."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(encoded := key.encode()), encoded))
        return "{" + ", ".join(f"{_json(key)}: {_json(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_json, value)) + "]"
    if isinstance(value, Decimal):
        return format(value, "f")
    return json.dumps(value, ensure_ascii=False)


def _array_renderer(element: SqlType, zone: str) -> Callable[[Any], str]:
    inner = renderer(element, zone)
    nested = element.name == "array"  # an inner array is part of the same literal, not a quoted value in it

    def item(value: Any) -> str:
        if value is None:
            return "NULL"
        if is_deeper(value, element):
            return whole(value)
        text = inner(value)
        if nested or not (text == "" or text.upper() == "NULL" or _NEEDS_QUOTES_IN_ARRAY.search(text)):
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def whole(values: list) -> str:
        return "{" + ",".join(map(item, values)) + "}"

    return whole


def is_deeper(value: Any, element: SqlType) -> bool:
    """Whether what should be an element of an array is one itself: types of a server do not count dimensions, so what
    it calls integer[] may be an array of arrays.

    >>> render([[1, None], [3, 4]], SqlType("array", element=SqlType("integer")))
    '{{1,NULL},{3,4}}'
    """
    return type(value) is list and element.name not in ("array", "map")


def _struct_renderer(fields: tuple[tuple[str, SqlType], ...], zone: str) -> Callable[[Any], str]:
    columns = [(name, renderer(kind, zone)) for name, kind in fields]

    def item(value: Any, inner: Callable[[Any], str]) -> str:
        if value is None:
            return ""
        text = inner(value)
        if text and not _NEEDS_QUOTES_IN_STRUCT.search(text):
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '""') + '"'

    def whole(value: Any) -> str:
        # Arrow gives a struct as a dict, Spark as a Row, which is a tuple.
        values = [value.get(name) for name, _ in columns] if isinstance(value, Mapping) else list(value)
        return "(" + ",".join(item(each, inner) for each, (_, inner) in zip(values, columns, strict=True)) + ")"

    return whole


def _map_renderer(key: SqlType, value: SqlType, zone: str) -> Callable[[Any], str]:
    """{key:value,…}, each quoted where an element of an array would be, or where it holds a colon."""
    inner_key, inner_value = renderer(key, zone), renderer(value, zone)

    def item(each: Any, inner: Callable[[Any], str]) -> str:
        if each is None:
            return "NULL"
        text = inner(each)
        if text and text.upper() != "NULL" and ":" not in text and not _NEEDS_QUOTES_IN_ARRAY.search(text):
            return text
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def whole(entries: Any) -> str:
        # Arrow gives a map as a list of pairs, Spark as a dict.
        pairs = entries.items() if isinstance(entries, Mapping) else entries
        return "{" + ",".join(f"{item(k, inner_key)}:{item(v, inner_value)}" for k, v in pairs) + "}"

    return whole


_SIMPLE: dict[str, Callable[[Any], str]] = {
    "boolean": _boolean,
    "smallint": str,
    "integer": str,
    "bigint": str,
    "real": _real,
    "double precision": _double,
    "varchar": str,
    "bytea": _bytea,
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "interval": _interval,
    "jsonb": _jsonb,
    "uuid": str,
    "time": _time,
}
