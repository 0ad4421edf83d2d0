"""SQL types: PostgreSQL's names outside, Spark's and Arrow's types inside.

The physical choices that a user can notice:

* ``numeric`` without precision is ``numeric(38,10)``: Spark's decimals have a fixed scale.
* ``timestamptz`` is Spark's TIMESTAMP (an instant), ``timestamp`` its TIMESTAMP_NTZ (a wall clock).
* ``interval`` is a struct of its length, by which it is compared, its months and its days (:mod:`headrace.intervals`).
* ``jsonb`` is text in a normal form (sorted keys, no blanks), because Spark's VARIANT can be neither compared nor
  grouped; the logical type stays ``jsonb``.
* ``time`` is a bigint, the microseconds since midnight (:mod:`headrace.times` says why).
* ``uuid`` is text in PostgreSQL's one form of it (:mod:`headrace.uuids`), which sorts as UUIDs do.

>>> SqlType("numeric", precision=10, scale=2).spark
'DECIMAL(10,2)'
>>> str(array_of(SqlType("integer")))
'integer[]'
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace import intervals
from headrace.errors import Unsupported

_SPARK = {
    "boolean": "BOOLEAN",
    "smallint": "SMALLINT",
    "integer": "INT",
    "bigint": "BIGINT",
    "real": "FLOAT",
    "double precision": "DOUBLE",
    "varchar": "STRING",
    "bytea": "BINARY",
    "date": "DATE",
    "timestamp": "TIMESTAMP_NTZ",
    "timestamptz": "TIMESTAMP",
    "interval": "STRUCT<length: BIGINT, months: INT, days: INT>",
    "jsonb": "STRING",
    "uuid": "STRING",
    "time": "BIGINT",
}

_ARROW = {
    "boolean": pa.bool_(),
    "smallint": pa.int16(),
    "integer": pa.int32(),
    "bigint": pa.int64(),
    "real": pa.float32(),
    "double precision": pa.float64(),
    "varchar": pa.string(),
    "bytea": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "interval": intervals.ARROW,
    "jsonb": pa.string(),
    "uuid": pa.string(),
    "time": pa.int64(),
}

STORED_AS_TEXT = ("varchar", "jsonb", "uuid")
UNKNOWN_TO_SPARK = ("jsonb", "uuid", "time")
"""Types whose columns Spark is told of by their metadata alone: to it they are of another type."""

INTEGERS = ("smallint", "integer", "bigint")
SHOWN_VALUE, SHOWN_DECIMALS = "_hr_value", "_hr_decimals"
"""Fields of a struct that stands for a numeric in a query's result: the number, and how many decimals are printed."""
DEFAULT_PRECISION, DEFAULT_SCALE = 38, 10


@dataclass(frozen=True)
class SqlType:
    name: str
    precision: int | None = None
    """Of a numeric; of a time, the digits of the fraction of a second, which is rounded to them"""
    scale: int | None = None
    element: SqlType | None = None
    fields: tuple[tuple[str, SqlType], ...] = ()
    modifier: int | None = field(default=None, compare=False, repr=False)
    """What was declared, as PostgreSQL's type modifier: the digits of ``numeric(10,2)``, the length of ``varchar(5)``,
    -1 of ``varchar``. None: an expression's type, or ``text``. Clients are told; nothing is computed differently."""
    free: bool = field(default=False, compare=False, repr=False)
    """Of a numeric: nobody chose its scale, so no zeros are printed at the end of its fraction."""
    quotient: tuple[int, int] | None = field(default=None, compare=False, repr=False)
    """Of a numeric that comes from a division: how many decimals are shown depends on the value. At least so many, and
    so many more (:mod:`headrace.decimals`)."""

    def __post_init__(self):
        if self.name not in _SPARK and self.name not in ("numeric", "array", "struct", "map"):
            raise Unsupported(f"type {self.name} is not supported")

    def __deepcopy__(self, memo: object) -> SqlType:
        # It never changes, but other threads fill in what is cached: a copy that is made of that meanwhile fails.
        return self

    @cached_property
    def spark(self) -> str:
        """The type in Spark's DDL."""
        if self.name == "numeric":
            return (
                f"DECIMAL({self.precision or DEFAULT_PRECISION},{DEFAULT_SCALE if self.scale is None else self.scale})"
            )
        if self.name == "array":
            return f"ARRAY<{self.element.spark}>"
        if self.name == "struct":
            inner = ", ".join(f"{quote_spark(name)}: {kind.spark}" for name, kind in self.fields)
            return f"STRUCT<{inner}>"
        if self.name == "map":
            return f"MAP<{', '.join(kind.spark for _, kind in self.fields)}>"
        return _SPARK[self.name]

    @cached_property
    def arrow(self) -> pa.DataType:
        if self.name == "numeric":
            return pa.decimal128(
                self.precision or DEFAULT_PRECISION, DEFAULT_SCALE if self.scale is None else self.scale
            )
        if self.name == "array":
            return pa.list_(self.element.arrow)
        if self.name == "struct":
            return pa.struct([pa.field(name, kind.arrow) for name, kind in self.fields])
        if self.name == "map":
            return pa.map_(*(kind.arrow for _, kind in self.fields))
        return _ARROW[self.name]

    def __str__(self) -> str:
        if self.name == "numeric" and self.precision is not None:
            return f"numeric({self.precision},{self.scale or 0})"
        if self.name == "time" and self.precision is not None:
            return f"time({self.precision})"
        if self.name == "array":
            return f"{self.element}[]"
        if self.name == "struct":
            return "struct<" + ", ".join(f"{name} {kind}" for name, kind in self.fields) + ">"
        if self.name == "map":
            return f"map<{', '.join(str(kind) for _, kind in self.fields)}>"
        return self.name

    def to_json(self) -> Any:
        if self.name == "array":
            return {"array": self.element.to_json()}
        if self.name == "map":
            return {"map": [kind.to_json() for _, kind in self.fields]}
        if self.name == "struct":
            return {"struct": [[name, kind.to_json()] for name, kind in self.fields]}
        if self.name == "numeric" and self.precision is not None:
            if self.quotient is not None:
                return {"numeric": [self.precision, self.scale or 0, _QUOTIENT, *self.quotient]}
            return {
                "numeric": [self.precision, self.scale or 0, _FREE if self.free else int(self.modifier is not None)]
            }
        if self.name == "time" and self.precision is not None:
            return {"time": self.precision}
        return self.name if self.modifier is None else {self.name: self.modifier}

    @staticmethod
    def from_json(data: Any) -> SqlType:
        if isinstance(data, str):
            return SqlType(data)
        ((kind, value),) = data.items()
        if kind == "array":
            return array_of(SqlType.from_json(value))
        if kind == "map":
            return map_of(*map(SqlType.from_json, value))
        if kind == "struct":
            return SqlType("struct", fields=tuple((name, SqlType.from_json(inner)) for name, inner in value))
        if kind == "time":
            return SqlType("time", precision=value)
        if kind != "numeric":
            return SqlType(kind, modifier=value)
        # Warehouses of older versions do not say whether the digits were declared.
        precision, scale, origin, *shown = (
            value if len(value) > 2 else [*value, _FREE if value[0] == DEFAULT_PRECISION else 1]
        )
        if origin == _QUOTIENT:
            return SqlType("numeric", precision=precision, scale=scale, quotient=tuple(shown))
        return (
            SqlType("numeric", precision=precision, scale=scale, free=origin == _FREE)
            if origin != 1
            else numeric_of(precision, scale)
        )


_FREE, _QUOTIENT = 2, 3


def numeric_of(precision: int, scale: int) -> SqlType:
    """``numeric(precision, scale)`` as a column or a cast declares it."""
    return SqlType("numeric", precision=precision, scale=scale, modifier=((precision << 16) | scale) + 4)


def array_of(element: SqlType) -> SqlType:
    return SqlType("array", element=element)


def map_of(key: SqlType, value: SqlType) -> SqlType:
    """A map is the result of a query or of a part of it; tables do not hold any."""
    return SqlType("map", fields=(("key", key), ("value", value)))


def quote_spark(name: str) -> str:
    """An identifier as Spark SQL wants it quoted."""
    return "`" + name.replace("`", "``") + "`"


# Words that PostgreSQL does not take for a name unless they are quoted.
_RESERVED = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization between binary both case cast check coalesce
    collate collation column concurrently constraint create cross current_catalog current_date current_role
    current_schema current_time current_timestamp current_user default deferrable desc distinct do else end except
    exists extract false fetch for foreign freeze from full grant group grouping having ilike in initially inner
    intersect interval into is isnull join lateral leading left like limit localtime localtimestamp natural not notnull
    null nullif offset on only or order outer overlaps overlay placing position primary references returning right row
    select session_user similar some substring symmetric table tablesample then to trailing trim true union unique user
    using values variadic verbose when where window with
    """.split()
)


def quote_sql(name: str) -> str:
    """An identifier as PostgreSQL prints it: quoted only when folding would change it, or it is a word of SQL's.

    >>> quote_sql("id"), quote_sql("Id"), quote_sql("select")
    ('id', '"Id"', '"select"')
    """
    plain = re.fullmatch(r"[a-z_][a-z0-9_$]*", name) and name not in _RESERVED
    return name if plain else '"' + name.replace('"', '""') + '"'


_INTERVAL_FIELDS = (("length", SqlType("bigint")), ("months", SqlType("integer")), ("days", SqlType("integer")))


def from_spark_json(data: Any, metadata: dict | None = None) -> SqlType:
    """A type of ``DataFrame.schema.jsonValue()``; the column's metadata may name a logical type such as jsonb."""
    if metadata and metadata.get("headrace_type"):
        return SqlType.from_json(metadata["headrace_type"])
    if isinstance(data, dict):
        if data["type"] == "array":
            return array_of(from_spark_json(data["elementType"]))
        if data["type"] == "map":
            return map_of(from_spark_json(data["keyType"]), from_spark_json(data["valueType"]))
        if data["type"] == "struct":
            fields = tuple((f["name"], from_spark_json(f["type"])) for f in data["fields"])
            return SqlType("interval") if fields == _INTERVAL_FIELDS else SqlType("struct", fields=fields)
        raise Unsupported(f"type {data['type']} is not supported", hint="cast it to another type")
    if match := re.fullmatch(r"decimal\((\d+),\s*(-?\d+)\)", data):
        return SqlType("numeric", precision=int(match[1]), scale=int(match[2]), free=int(match[1]) == DEFAULT_PRECISION)
    simple = {
        "boolean": "boolean", "byte": "smallint", "short": "smallint", "integer": "integer", "long": "bigint",
        "float": "real", "double": "double precision", "string": "varchar", "binary": "bytea", "date": "date",
        "timestamp": "timestamptz", "timestamp_ntz": "timestamp",
    }  # fmt: skip
    if data in simple:
        return SqlType(simple[data])
    if data.startswith("string collate "):
        return SqlType("varchar")
    if data.startswith("interval") and "month" not in data and "year" not in data:
        return SqlType("interval")
    raise Unsupported(f"type {data} cannot be stored", hint="cast it to another type")
