"""Types as PostgreSQL numbers them.

>>> oid_of(SqlType("integer")), type_of(1007)
(23, SqlType(name='array', precision=None, scale=None, element=SqlType(name='integer', precision=None, scale=None, \
element=None, fields=()), fields=()))
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.types import DEFAULT_PRECISION, SqlType, array_of


@dataclass(frozen=True)
class PgType:
    oid: int
    array_oid: int
    size: int
    """In bytes; -1: it varies"""
    pg_name: str
    """As pg_type has it"""
    shown: str
    """As format_type prints it"""
    category: str


PG_TYPES = {
    "boolean": PgType(16, 1000, 1, "bool", "boolean", "B"),
    "bytea": PgType(17, 1001, -1, "bytea", "bytea", "U"),
    "bigint": PgType(20, 1016, 8, "int8", "bigint", "N"),
    "smallint": PgType(21, 1005, 2, "int2", "smallint", "N"),
    "integer": PgType(23, 1007, 4, "int4", "integer", "N"),
    "real": PgType(700, 1021, 4, "float4", "real", "N"),
    "double precision": PgType(701, 1022, 8, "float8", "double precision", "N"),
    "varchar": PgType(1043, 1015, -1, "varchar", "character varying", "S"),
    "date": PgType(1082, 1182, 4, "date", "date", "D"),
    "timestamp": PgType(1114, 1115, 8, "timestamp", "timestamp without time zone", "D"),
    "timestamptz": PgType(1184, 1185, 8, "timestamptz", "timestamp with time zone", "D"),
    "interval": PgType(1186, 1187, 16, "interval", "interval", "T"),
    "numeric": PgType(1700, 1231, -1, "numeric", "numeric", "N"),
    "jsonb": PgType(3802, 3807, -1, "jsonb", "jsonb", "U"),
    "struct": PgType(2249, 2287, -1, "record", "record", "P"),
}

# Types that only clients name: what their values are here.
_OTHER = {
    18: "varchar", 19: "varchar", 25: "varchar", 26: "bigint", 114: "jsonb", 705: "varchar", 1042: "varchar",
    2950: "varchar",
}  # fmt: skip
_OTHER_ARRAYS = {1002: "varchar", 1003: "varchar", 1009: "varchar", 1014: "varchar", 1028: "bigint", 199: "jsonb"}


def oid_of(kind: SqlType) -> int:
    if kind.name == "array":
        # Arrays of arrays are one type with several dimensions in PostgreSQL.
        element = kind.element
        while element.name == "array":
            element = element.element
        return PG_TYPES[element.name].array_oid
    return PG_TYPES[kind.name].oid


def size_of(kind: SqlType) -> int:
    return -1 if kind.name == "array" else PG_TYPES[kind.name].size


def typmod_of(kind: SqlType) -> int:
    if kind.name == "numeric" and kind.precision is not None and kind.precision < DEFAULT_PRECISION:
        return ((kind.precision << 16) | (kind.scale or 0)) + 4
    return -1


_BY_OID = {
    **{each.oid: SqlType(name) for name, each in PG_TYPES.items() if name != "struct"},
    **{each.array_oid: array_of(SqlType(name)) for name, each in PG_TYPES.items() if name != "struct"},
    **{oid: SqlType(name) for oid, name in _OTHER.items()},
    **{oid: array_of(SqlType(name)) for oid, name in _OTHER_ARRAYS.items()},
}


def type_of(oid: int) -> SqlType | None:
    """The type with that number; None if it is one that Headrace does not have, or 0, which leaves it open."""
    return _BY_OID.get(oid)


def typed(oid: int, modifier: int) -> SqlType | None:
    """The same, with the digits of a numeric as :func:`typmod_of` says them.

    >>> str(typed(1700, typmod_of(SqlType("numeric", precision=10, scale=2))))
    'numeric(10,2)'
    """
    kind = type_of(oid)
    if kind is not None and kind.name == "numeric" and modifier >= 4:
        return SqlType("numeric", precision=(modifier - 4) >> 16, scale=(modifier - 4) & 0xFFFF)
    return kind
