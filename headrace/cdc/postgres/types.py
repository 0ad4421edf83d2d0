"""PostgreSQL's types as ours.

A column's natural type holds every ordinary value of it exactly. Where PostgreSQL has values beyond (infinite dates,
NaN in numeric, years before Christ, arrays of arrays), meeting one stops the table with an error that names column and
value. Every type can also be had as VARCHAR: the text that PostgreSQL prints.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from headrace.errors import InvalidDefinition, Unsupported
from headrace.types import INTEGERS, SqlType, array_of, numeric_of

_VARCHAR = SqlType("varchar")

NATURAL = {
    "bool": SqlType("boolean"),
    "int2": SqlType("smallint"),
    "int4": SqlType("integer"),
    "int8": SqlType("bigint"),
    "float4": SqlType("real"),
    "float8": SqlType("double precision"),
    "bytea": SqlType("bytea"),
    "date": SqlType("date"),
    "timestamp": SqlType("timestamp"),
    "timestamptz": SqlType("timestamptz"),
    "interval": SqlType("interval"),
    **{
        name: _VARCHAR
        for name in (
            "text", "varchar", "bpchar", "name", "uuid", "json", "jsonb", "xml", "inet", "cidr", "macaddr", "macaddr8",
            "bit", "varbit", "time", "timetz", "money", "int4range", "int8range", "numrange", "daterange", "tsrange",
            "tstzrange", "point", "line", "lseg", "box", "path", "polygon", "circle", "tsvector",
        )
    },
}  # fmt: skip
"""By the name in pg_type. numeric, enums and arrays are not here."""

_ON_REQUEST = {"uuid": SqlType("uuid"), "time": SqlType("time")}
"""What a column is only if it is declared so: (*) gives the text, as it did before there were these types."""

LARGEST_PRECISION = 38


@dataclass(frozen=True, kw_only=True)
class SourceType:
    """The type of a column; of a domain, what it is based on."""

    name: str
    """In pg_type"""
    schema: str
    modifier: int = -1
    enum: bool = False
    text: str = ""
    """As PostgreSQL writes it: with its schema, if that is not pg_catalog, and its modifier"""

    @property
    def built_in(self) -> bool:
        return self.schema == "pg_catalog"


def natural(kind: SourceType, column: str) -> SqlType:
    """The type that (*) gives a column."""
    if kind.enum:
        return _VARCHAR
    if kind.built_in and kind.name == "numeric":
        return _numeric(kind, column)
    if kind.built_in and kind.name in NATURAL:
        return NATURAL[kind.name]
    if kind.built_in and kind.name.startswith("_") and kind.name != "_box":  # whose elements are not between commas
        element = dataclasses.replace(kind, name=kind.name[1:])
        return array_of(natural(element, column))
    raise Unsupported(f'column "{column}" is of type {kind.text}, which has no counterpart', hint=_hint(column))


def checked(kind: SourceType, wanted: SqlType, column: str) -> SqlType:
    """The type that the user asks for, if the column's values can be had as such."""
    if wanted == _VARCHAR:
        return wanted
    have, requested = natural(kind, column), _on_request(kind.name) if kind.built_in else None
    if wanted in (have, requested):
        return wanted
    if wanted.name in INTEGERS and have.name in INTEGERS and INTEGERS.index(wanted.name) > INTEGERS.index(have.name):
        return wanted
    if wanted.name == have.name == "numeric":
        return wanted
    raise InvalidDefinition(
        f'column "{column}" is of type {kind.text}, which cannot be had as {wanted}',
        hint=f"use {' or '.join(str(each) for each in dict.fromkeys((requested or have, have, _VARCHAR)))}",
    )


def _on_request(name: str) -> SqlType | None:
    if name.startswith("_"):
        return None if (element := _ON_REQUEST.get(name[1:])) is None else array_of(element)
    return _ON_REQUEST.get(name)


def _numeric(kind: SourceType, column: str) -> SqlType:
    if kind.modifier < 4:
        return SqlType("numeric")
    precision, scale = (kind.modifier - 4) >> 16 & 0xFFFF, (kind.modifier - 4) & 0x7FF
    scale = scale - 2048 if scale >= 1024 else scale  # eleven bits, with a sign
    if precision > LARGEST_PRECISION or not 0 <= scale <= precision:
        raise Unsupported(
            f'column "{column}" is of type {kind.text}, which does not fit numeric(38,…)', hint=_hint(column)
        )
    return numeric_of(precision, scale)


def _hint(column: str) -> str:
    return (
        f'name the columns that the table shall have, without "{column}", or with it as VARCHAR: the text of its value'
    )
