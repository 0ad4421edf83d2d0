"""Types as PostgreSQL numbers them.

>>> oid_of(SqlType("integer")), type_of(1007)
(23, SqlType(name='array', precision=None, scale=None, element=SqlType(name='integer', precision=None, scale=None, \
element=None, fields=()), fields=()))
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.types import DEFAULT_PRECISION, DEFAULT_SCALE, SqlType, array_of, numeric_of


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
    "text": PgType(25, 1009, -1, "text", "text", "S"),
    "date": PgType(1082, 1182, 4, "date", "date", "D"),
    "timestamp": PgType(1114, 1115, 8, "timestamp", "timestamp without time zone", "D"),
    "timestamptz": PgType(1184, 1185, 8, "timestamptz", "timestamp with time zone", "D"),
    "interval": PgType(1186, 1187, 16, "interval", "interval", "T"),
    "numeric": PgType(1700, 1231, -1, "numeric", "numeric", "N"),
    "jsonb": PgType(3802, 3807, -1, "jsonb", "jsonb", "U"),
    "uuid": PgType(2950, 2951, 16, "uuid", "uuid", "U"),
    "time": PgType(1083, 1183, 8, "time", "time without time zone", "D"),
    "struct": PgType(2249, 2287, -1, "record", "record", "P"),
}

OID = 26
"""The modifier of an integer that clients are told is an oid: a number of PostgreSQL's catalog."""
_OID = PgType(OID, 1028, 4, "oid", "oid", "N")

# Types that only clients name: what their values are here.
_OTHER = {18: "varchar", 19: "varchar", 26: "bigint", 114: "jsonb", 705: "varchar", 1042: "varchar"}
_OTHER_ARRAYS = {1002: "varchar", 1003: "varchar", 1014: "varchar", 1028: "bigint", 199: "jsonb"}


def pg_type(kind: SqlType) -> PgType:
    """Of a type that is no array. Text is PostgreSQL's text, unless it was declared as varchar; so are maps, which
    PostgreSQL does not have.

    >>> pg_type(SqlType("map")).shown
    'text'
    """
    if kind.name == "integer" and kind.modifier == OID:
        return _OID
    is_text = kind.name == "map" or (kind.name == "varchar" and kind.modifier is None)
    return PG_TYPES["text" if is_text else kind.name]


def pg_category(kind: SqlType) -> str:
    return "A" if kind.name == "array" else pg_type(kind).category


def oid_of(kind: SqlType) -> int:
    if kind.name == "array":
        # Arrays of arrays are one type with several dimensions in PostgreSQL.
        element = kind.element
        while element.name == "array":
            element = element.element
        return pg_type(element).array_oid
    return pg_type(kind).oid


def size_of(kind: SqlType) -> int:
    return -1 if kind.name not in PG_TYPES else PG_TYPES[kind.name].size


def typmod_of(kind: SqlType) -> int:
    """What was declared of it; -1: nothing."""
    while kind.name == "array":
        kind = kind.element
    if kind.name == "time":
        return -1 if kind.precision is None else kind.precision
    return -1 if kind.modifier is None or kind.name == "integer" else kind.modifier


def _named(name: str) -> SqlType:
    return (
        SqlType("varchar", modifier=-1 if name == "varchar" else None) if name in ("text", "varchar") else SqlType(name)
    )


def modifier_text(kind: SqlType) -> str:
    """What was declared, as it is written behind the type's name.

    >>> modifier_text(numeric_of(10, 2)), modifier_text(SqlType("varchar", modifier=9)), modifier_text(SqlType("date"))
    ('(10,2)', '(5)', '')
    """
    while kind.name == "array":
        kind = kind.element
    modifier = typmod_of(kind) - 4
    if modifier < 0 or kind.name == "time":  # of which it is said within the name
        return ""
    return f"({modifier >> 16},{modifier & 0xFFFF})" if modifier > 0xFFFF else f"({modifier})"


_BY_OID = {
    **{each.oid: _named(name) for name, each in PG_TYPES.items() if name != "struct"},
    **{each.array_oid: array_of(_named(name)) for name, each in PG_TYPES.items() if name != "struct"},
    **{oid: SqlType(name) for oid, name in _OTHER.items()},
    **{oid: array_of(SqlType(name)) for oid, name in _OTHER_ARRAYS.items()},
}


def type_of(oid: int) -> SqlType | None:
    """The type with that number; None if it is one that Headrace does not have, or 0, which leaves it open."""
    return _BY_OID.get(oid)


def typed(oid: int, modifier: int) -> SqlType | None:
    """The same, with the digits of a numeric as :func:`typmod_of` says them.

    >>> str(typed(1700, typmod_of(numeric_of(10, 2))))
    'numeric(10,2)'
    """
    kind = type_of(oid)
    if kind is not None and kind.name == "time" and modifier >= 0:
        return SqlType("time", precision=modifier)
    if kind is not None and kind.name == "numeric":
        if modifier >= 4:
            return numeric_of((modifier - 4) >> 16, (modifier - 4) & 0xFFFF)
        # Its zeros are what the server has decided to print.
        return SqlType("numeric", precision=DEFAULT_PRECISION, scale=DEFAULT_SCALE)
    return kind
