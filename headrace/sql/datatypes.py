"""A type as sqlglot parsed it, made one of ours.

Two of PostgreSQL's finer points are decided here: the length of ``varchar(n)`` is accepted and not enforced (as
RisingWave does), and ``char(n)``, whose blanks would have to be padded, is refused.

>>> str(sql_type(exp.DataType.build("decimal(10, 2)")))
'numeric(10,2)'
"""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import InvalidParameterValue, UndefinedType, Unsupported
from headrace.types import SqlType, array_of, numeric_of

_D = exp.DType

_SIMPLE = {
    _D.BOOLEAN: "boolean",
    _D.SMALLINT: "smallint",
    _D.INT: "integer",
    _D.BIGINT: "bigint",
    _D.FLOAT: "real",
    _D.DOUBLE: "double precision",
    _D.VARCHAR: "varchar",
    _D.TEXT: "varchar",
    _D.VARBINARY: "bytea",
    _D.DATE: "date",
    _D.TIMESTAMP: "timestamp",
    _D.TIMESTAMPTZ: "timestamptz",
    _D.INTERVAL: "interval",
    _D.JSON: "jsonb",
    _D.JSONB: "jsonb",
    _D.UUID: "uuid",
    _D.TIME: "time",
}

_HINTS = {
    _D.CHAR: "use varchar",
    _D.BPCHAR: "use varchar",
    _D.SERIAL: "use integer with values of your own, or no primary key at all",
    _D.BIGSERIAL: "use bigint with values of your own, or no primary key at all",
    _D.SMALLSERIAL: "use smallint with values of your own, or no primary key at all",
    _D.TIMETZ: "use time, or timestamptz",
}

MAX_PRECISION = 38

_GEOMETRY_AND_SEARCH = frozenset(
    "point line lseg box path polygon circle tsvector tsquery jsonpath pg_lsn macaddr macaddr8 cidr oid name".split()
)
"""Types of PostgreSQL's that sqlglot does not know either."""


def sql_type(data_type: exp.Expression) -> SqlType:
    kind = data_type.this if isinstance(data_type, exp.DataType) else None
    if kind is _D.ARRAY and data_type.expressions:
        return array_of(sql_type(data_type.expressions[0]))
    if kind is _D.STRUCT:
        return _struct(data_type)
    if kind is _D.DECIMAL:
        return _numeric(data_type)
    if isinstance(kind, exp.Interval):  # interval day to second, interval year …: the fields only limit the values
        raise Unsupported(f"type {data_type.sql('postgres').lower()} is not supported", hint="use interval")
    if kind is _D.USERDEFINED and (name := _name(data_type)) not in _GEOMETRY_AND_SEARCH:
        raise UndefinedType(f'type "{name}" does not exist')
    if kind not in _SIMPLE:
        raise Unsupported(f"type {_name(data_type)} is not supported", hint=_HINTS.get(kind))
    if data_type.expressions and kind is _D.TIME:
        return SqlType("time", precision=min(_parameters(data_type)[0], 6))  # more digits become six, as in PostgreSQL
    if data_type.expressions and kind in (_D.TIMESTAMP, _D.TIMESTAMPTZ, _D.INTERVAL):
        if _parameters(data_type) != [6]:
            raise Unsupported(
                f"type {_SIMPLE[kind]}({_parameters(data_type)[0]}) is not supported",
                hint="microseconds are always kept",
            )
    if kind is _D.VARCHAR:
        return SqlType("varchar", modifier=_parameters(data_type)[0] + 4 if data_type.expressions else -1)
    return SqlType("real" if kind is _D.DOUBLE and _is_short_float(data_type) else _SIMPLE[kind])


def _name(data_type: exp.Expression) -> str:
    """The type as the user may have called it: sqlglot would print the nearest that PostgreSQL has."""
    kind = data_type.this
    if not isinstance(kind, exp.DType) or kind is _D.USERDEFINED:
        return data_type.sql("postgres").lower().strip('"')
    if any(not isinstance(each, exp.DataTypeParam) for each in data_type.expressions):  # map<…> and its like
        return kind.value.lower()
    return kind.value.lower() + (f"({', '.join(map(str, _parameters(data_type)))})" if data_type.expressions else "")


def _parameters(data_type: exp.DataType) -> list[int]:
    return [int(parameter.this.name) for parameter in data_type.expressions]


def _is_short_float(data_type: exp.DataType) -> bool:
    """float(1) to float(24) are real in PostgreSQL."""
    return bool(data_type.expressions) and _parameters(data_type)[0] <= 24


def _numeric(data_type: exp.DataType) -> SqlType:
    if not data_type.expressions:
        return SqlType("numeric")
    precision, scale, *_ = [*_parameters(data_type), 0]
    if precision > MAX_PRECISION:
        raise Unsupported(
            f"numeric({precision},{scale}) is not supported: a numeric has at most {MAX_PRECISION} digits"
        )
    if not 0 <= scale <= precision or precision < 1:
        raise InvalidParameterValue(
            f"numeric({precision},{scale}) is invalid: the scale must be between 0 and the precision"
        )
    return numeric_of(precision, scale)


def _struct(data_type: exp.DataType) -> SqlType:
    fields = []
    for field in data_type.expressions:
        if not isinstance(field, exp.ColumnDef) or field.args.get("kind") is None:
            raise Unsupported("a struct without field names is not supported", hint="write struct<name type, …>")
        fields.append((field.this.name if field.this.quoted else field.this.name.lower(), sql_type(field.args["kind"])))
    return SqlType("struct", fields=tuple(fields))
