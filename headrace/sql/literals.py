"""Constants: text to values as PostgreSQL reads it, values to Spark SQL, and both at once for INSERT … VALUES.

Both ways a value can enter a table — :func:`constant` here, or Spark running the translated expression — read
string constants with :func:`from_text`, so they cannot disagree. Where Python and Spark might (rounding, overflow,
unusual formats), the answer is :data:`NOT_CONSTANT` and Spark decides.

>>> constant(parse_expression("-5"), SqlType("bigint"))
-5
>>> constant(parse_expression("DATE '2024-02-29'"), SqlType("date"))
datetime.date(2024, 2, 29)
>>> constant(parse_expression("1.5"), SqlType("integer"))
NOT_CONSTANT
"""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import Any

from sqlglot import exp

from headrace.errors import DataError, HeadraceError, InvalidParameterValue, Unsupported
from headrace.intervals import parse_interval
from headrace.sql.composites import array_items
from headrace.sql.datatypes import sql_type
from headrace.sql.dialect import parse_expression  # noqa: F401 (the doctest's)
from headrace.sql.typed import BIGINT, INTEGER, MAX_DIGITS, Typed, digits, is_integer
from headrace.sql.zoned import current as current_zone
from headrace.times import parse_time
from headrace.types import STORED_AS_TEXT, SqlType
from headrace.uuids import parse_uuid
from headrace.zones import instant, named_zone, posix_name


class _NotConstant:
    def __repr__(self) -> str:
        return "NOT_CONSTANT"

    def __bool__(self) -> bool:
        raise TypeError("compare with `is NOT_CONSTANT`")


NOT_CONSTANT = _NotConstant()

INTEGER_RANGES = {"smallint": 2**15, "integer": 2**31, "bigint": 2**63}

TRUE_WORDS = ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1")
FALSE_WORDS = ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0")

_INTEGER = re.compile(r"[+-]?\d+")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_DATE = r"(\d{4})-(\d{1,2})-(\d{1,2})"
_TIME = r"(\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?"
_ZONE = r"\s*([+-]\d{1,2}(?::?\d{2})?(?::?\d{2})?|[A-Za-z][A-Za-z_/+-]*\d*)"
_NOT_FINITE = ("nan", "inf", "+inf", "-inf", "infinity", "+infinity", "-infinity")
_MOMENT = re.compile(rf"{_DATE}(?:(?:[T ]\s*){_TIME}(?:{_ZONE})?)?")
_PLAIN_JSON = re.compile(r"[\x20-\x7e]*")


def _invalid(kind: SqlType, text: str) -> DataError:
    name = {"timestamptz": "timestamp with time zone", "varchar": "text"}.get(kind.name, str(kind))
    code = "22007" if kind.name in ("date", "timestamp", "timestamptz", "interval") else "22P02"
    return DataError(f'invalid input syntax for type {name}: "{text}"', sqlstate=code)


# --- text to value ----------------------------------------------------------------------------------------------


def from_text(text: str, kind: SqlType) -> Any:
    """The value of a string constant as the type; NOT_CONSTANT if Spark should say; DataError if there is none."""
    reader = _READERS.get(kind.name)
    return NOT_CONSTANT if reader is None else reader(text, kind)


def _boolean(text: str, kind: SqlType) -> bool:
    word = text.strip().lower()
    if word not in TRUE_WORDS and word not in FALSE_WORDS:
        raise _invalid(kind, text)
    return word in TRUE_WORDS


def _integer(text: str, kind: SqlType) -> int:
    if not _INTEGER.fullmatch(text.strip()):
        raise _invalid(kind, text)
    return _in_range(int(text), kind)


def _in_range(value: int, kind: SqlType) -> int:
    limit = INTEGER_RANGES[kind.name]
    if not -limit <= value < limit:
        raise DataError(f'value "{value}" is out of range for type {kind}', sqlstate="22003")
    return value


def _numeric(text: str, kind: SqlType) -> Any:
    if not _DECIMAL.fullmatch(text.strip()):
        if text.strip().lower() in ("nan", "infinity", "-infinity", "inf", "-inf"):
            raise Unsupported(f'numeric has no "{text.strip()}" here', hint="use double precision")
        raise _invalid(kind, text)
    return _fit(Decimal(text.strip()), kind)


def _fit(value: Decimal, kind: SqlType) -> Any:
    """The value at the type's scale if no digit is lost."""
    precision, scale = digits(kind)
    if value.adjusted() >= precision:
        return NOT_CONSTANT
    try:
        scaled = value.quantize(Decimal(1).scaleb(-scale))
    except InvalidOperation:  # more digits than the decimal module's default context
        return NOT_CONSTANT
    return scaled if scaled == value and len(scaled.as_tuple().digits) <= precision else NOT_CONSTANT


def _double(text: str, kind: SqlType) -> Any:
    if not _DECIMAL.fullmatch(text.strip()):
        return float(text.strip()) if text.strip().lower() in _NOT_FINITE else NOT_CONSTANT
    return _to_float(text.strip(), kind)


def _to_float(text: str, kind: SqlType) -> Any:
    value = float(text)
    if math.isinf(value) or (value == 0 and Decimal(text) != 0):
        raise _out_of_range(text, kind)
    if kind.name == "double precision":
        return value
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    if bits & 0x1FFFFFFF == 0x10000000:  # half way between two reals: rounding twice could go wrong
        return NOT_CONSTANT
    try:
        (real,) = struct.unpack("<f", struct.pack("<f", value))
    except OverflowError:
        raise _out_of_range(text, kind) from None
    if real == 0 and value != 0:
        raise _out_of_range(text, kind)
    return real


def _out_of_range(text: str, kind: SqlType) -> DataError:
    return DataError(f'"{text}" is out of range for type {kind}', sqlstate="22003")


def _date(text: str, kind: SqlType) -> date:
    return _moment(text, kind)[0].date()


def _timestamp(text: str, kind: SqlType) -> datetime:
    return _moment(text, kind)[0]  # PostgreSQL ignores a zone here


def _timestamptz(text: str, kind: SqlType) -> datetime:
    moment, zone = _moment(text, kind)
    try:
        return instant(moment, zone or current_zone() or "UTC")
    except OverflowError:
        raise DataError(f'timestamp out of range: "{text}"', sqlstate="22008") from None


def _moment(text: str, kind: SqlType) -> tuple[datetime, str | None]:
    """The time, and the zone if it names one."""
    if text.strip().lower() == "epoch":
        return datetime(1970, 1, 1), "UTC"
    match = _MOMENT.fullmatch(text.strip())
    if match is None:
        raise _invalid(kind, text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        moment = datetime(
            int(year), int(month), int(day), int(hour or 0), int(minute or 0), int(second or 0),
            int((fraction or "").ljust(6, "0")),
        )  # fmt: skip
    except (ValueError, OverflowError):
        raise DataError(f'date/time field value out of range: "{text}"', sqlstate="22008") from None
    if zone is None:
        return moment, None
    try:
        return moment, _zone(zone)
    except ValueError:
        if zone[0] in "+-":
            raise DataError(f'time zone displacement out of range: "{text}"', sqlstate="22009") from None
        if "/" in zone:
            raise InvalidParameterValue(f'time zone "{zone}" not recognized') from None
        raise _invalid(kind, text) from None


@lru_cache(maxsize=1024)
def _zone(name: str) -> str:
    """Of an offset, positive is east of Greenwich, whatever AT TIME ZONE says."""
    return named_zone(posix_name(name))


def _interval(text: str, kind: SqlType) -> dict[str, int]:
    return parse_interval(text).stored


def _bytea(text: str, kind: SqlType) -> bytes:
    if text[:2] in ("\\x", "\\X"):
        try:
            return bytes.fromhex(text[2:])
        except ValueError:
            wrong = re.search(r"[^0-9a-fA-F]", text[2:])
            what = "data: odd number of digits" if wrong is None else f'digit: "{wrong[0]}"'
            raise DataError(f"invalid hexadecimal {what}", sqlstate="22023") from None
    encoded, value, position = text.encode(), bytearray(), 0
    while position < len(encoded):
        if encoded[position : position + 1] != b"\\":
            value.append(encoded[position])
            position += 1
        elif encoded[position + 1 : position + 2] == b"\\":
            value.append(ord("\\"))
            position += 2
        elif re.fullmatch(rb"[0-3][0-7]{2}", encoded[position + 1 : position + 4]):
            value.append(int(encoded[position + 1 : position + 4], 8))
            position += 4
        else:
            raise _invalid(kind, text)
    return bytes(value)


def _jsonb(text: str, kind: SqlType) -> Any:
    """Only JSON whose normal form is beyond doubt: ASCII strings, small integers, true, false and null."""
    numbers: list[str] = []
    try:
        value = json.loads(text, parse_float=numbers.append, parse_constant=_no_json)
    except ValueError:
        raise DataError(f'invalid input syntax for type json: "{text}"', sqlstate="22P02") from None
    except RecursionError:
        return NOT_CONSTANT
    if _has_nul(value):
        raise DataError(
            "unsupported Unicode escape sequence", hint="\\u0000 cannot be converted to text", sqlstate="22P05"
        )
    if not _PLAIN_JSON.fullmatch(text) or "\\" in text or numbers or not _small(value):
        return NOT_CONSTANT
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _no_json(word: str) -> None:
    raise ValueError(f"{word} is Python's, not JSON's")


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_nul, value)) or any(map(_has_nul, value.values()))
    return any(map(_has_nul, value)) if isinstance(value, list) else isinstance(value, str) and "\0" in value


def _small(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_small, value.values()))
    if isinstance(value, list):
        return all(map(_small, value))
    return not isinstance(value, int) or -(2**63) <= value < 2**63


def _array(text: str, kind: SqlType) -> Any:
    values = [None if item is None else from_text(item, kind.element) for item in array_items(text)]
    return NOT_CONSTANT if any(value is NOT_CONSTANT for value in values) else values


_READERS = {
    "boolean": _boolean,
    "smallint": _integer,
    "integer": _integer,
    "bigint": _integer,
    "numeric": _numeric,
    "real": _double,
    "double precision": _double,
    "varchar": lambda text, kind: text,
    "bytea": _bytea,
    "date": _date,
    "timestamp": _timestamp,
    "timestamptz": _timestamptz,
    "interval": _interval,
    "jsonb": _jsonb,
    "uuid": lambda text, kind: parse_uuid(text),
    "time": lambda text, kind: parse_time(text, kind.precision),
    "array": _array,
}


# --- value to Spark SQL -----------------------------------------------------------------------------------------


def spark_string(text: str) -> str:
    """A string constant in Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def spark_constant(value: Any, kind: SqlType) -> str:
    """A value of :func:`from_text` in Spark SQL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind.name in STORED_AS_TEXT:
        return spark_string(value)
    if kind.name == "time":
        return f"{value}L"
    if kind.name == "bytea":
        return f"X'{value.hex().upper()}'"
    if kind.name == "date":
        return f"DATE '{value.isoformat()}'"
    if kind.name == "timestamp":
        return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
    if kind.name == "timestamptz":
        return f"TIMESTAMP_LTZ '{value.replace(tzinfo=None).isoformat(' ')}+00:00'"
    return f"CAST('{value}' AS {kind.spark})"


def number_literal(text: str, *, exact: bool = False) -> Typed:
    """A number as written: integer or bigint if it is whole and small enough, else numeric with just its digits.

    >>> number_literal("1e3").sql, number_literal("2147483648").sql
    ('1000BD', '2147483648L')
    """
    text = text.replace("_", "")
    if text.isdigit() and not exact and int(text) < 2**63:
        return Typed(text, INTEGER) if int(text) < 2**31 else Typed(f"{text}L", BIGINT)
    value = Decimal(text)
    _, figures, exponent = value.as_tuple()
    scale = max(0, -exponent)
    precision = max(len(figures) + max(0, exponent), scale, 1)
    if precision > MAX_DIGITS and "e" in text.lower() and not exact:
        if math.isinf(float(text)) or (float(text) == 0 and value != 0):
            raise _out_of_range(text, SqlType("double precision"))
        return Typed(
            f"CAST('{text}' AS DOUBLE)", SqlType("double precision")
        )  # written as a float, too large for all else
    if precision > MAX_DIGITS:
        raise Unsupported(f"the number {text} is not supported: a numeric has at most {MAX_DIGITS} digits")
    return Typed(f"{value:f}BD", SqlType("numeric", precision=precision, scale=scale))


# --- expressions to values --------------------------------------------------------------------------------------


def constant(expression: exp.Expression, kind: SqlType) -> Any:
    """The Python value that the expression has in a column of the type, or NOT_CONSTANT."""
    try:
        return _constant(expression, kind)
    except HeadraceError:
        return NOT_CONSTANT  # the translation reports it, with its position


def _constant(expression: exp.Expression, kind: SqlType) -> Any:
    if isinstance(expression, exp.Literal):
        if expression.is_string:
            return from_text(expression.this, kind)
        return _number(expression.this, kind)
    if isinstance(expression, exp.Null):
        return None
    if isinstance(expression, exp.Boolean):
        return bool(expression.this) if kind.name == "boolean" else NOT_CONSTANT
    if isinstance(expression, exp.Neg) and isinstance(expression.this, exp.Literal) and not expression.this.is_string:
        return _number(f"-{expression.this.this}", kind)
    if isinstance(expression, exp.Cast):
        return _cast(expression, kind)
    if isinstance(expression, exp.Paren):
        return _constant(expression.this, kind)
    if isinstance(expression, exp.Array) and kind.name == "array":
        values = [_constant(element, kind.element) for element in expression.expressions]
        return NOT_CONSTANT if any(value is NOT_CONSTANT for value in values) else values
    return NOT_CONSTANT


def _number(text: str, kind: SqlType) -> Any:
    if _INTEGER.fullmatch(text):
        if is_integer(kind):
            return _in_range(int(text), kind)
        if kind.name == "varchar":
            return str(int(text)) if abs(int(text)) < 2**63 else NOT_CONSTANT
    elif not _DECIMAL.fullmatch(text):
        return NOT_CONSTANT
    if kind.name == "numeric":
        return _fit(Decimal(text), kind)
    if kind.name in ("real", "double precision") and len(text) <= 38:
        return _to_float(text, kind) if float(text) != 0 or not text.startswith("-") else NOT_CONSTANT
    return NOT_CONSTANT


def _cast(cast: exp.Cast, kind: SqlType) -> Any:
    """'…'::type where the type is the column's own."""
    inner = cast.this.unnest()
    if isinstance(inner, exp.Cast) or (cast.to.expressions and kind.name == "varchar"):
        return NOT_CONSTANT
    if kind.name == "varchar" and sql_type(cast.to).name == "uuid":  # as which drivers send one, whatever the column
        return _constant(inner, SqlType("uuid"))
    if sql_type(cast.to) != kind or (isinstance(inner, exp.Literal) and not inner.is_string and not is_integer(kind)):
        return NOT_CONSTANT
    return _constant(inner, kind)
