"""The names of output columns, as PostgreSQL chooses them.

>>> from headrace.sql.dialect import parse_expression
>>> [label(parse_expression(text)) for text in ("t.a", "a + 1", "lower(a)", "a::int", "'1'::int")]
['a', '?column?', 'lower', 'a', 'int4']
"""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import HeadraceError
from headrace.sql.datatypes import sql_type

UNNAMED = "?column?"

_TYPE_NAMES = {
    "boolean": "bool", "smallint": "int2", "integer": "int4", "bigint": "int8", "real": "float4",
    "double precision": "float8",
}  # fmt: skip


def label(item: exp.Expression) -> str:
    return _label(item) or UNNAMED


def _label(item: exp.Expression) -> str | None:
    """None if the expression suggests no name."""
    name, _ = _strength(item)
    return name


def _strength(item: exp.Expression) -> tuple[str | None, int]:
    """A name and how good it is: a column or function beats the name of a type or construct."""
    if isinstance(item, (exp.Alias,)):
        return item.alias, 2
    if isinstance(item, exp.Column):
        return item.name, 2
    if isinstance(item, exp.Dot) and isinstance(item.expression, exp.Identifier):
        return item.expression.name, 2
    if isinstance(item, exp.Anonymous):
        return item.this, 2
    if isinstance(item, (exp.Window, exp.Filter, exp.Paren, exp.Bracket, exp.WithinGroup)):
        return _strength(item.this)
    if isinstance(item, exp.Cast):
        name, strength = _strength(item.this)
        return (name, strength) if strength > 1 else (_type_name(item), 1)
    if isinstance(item, exp.Case):
        default = item.args.get("default")
        name, strength = _strength(default) if default is not None else (None, 0)
        return (name, strength) if strength > 1 else ("case", 1)
    if isinstance(item, exp.AtTimeZone):
        return "timezone", 2
    if isinstance(item, exp.Exists):
        return "exists", 2
    if isinstance(item, exp.Array):
        return "array", 2
    if isinstance(item, exp.Boolean):
        return "bool", 1
    if isinstance(item, exp.Tuple):
        return "row", 2
    if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Select) and len(item.this.expressions) == 1:
        return _strength(item.this.expressions[0])
    return None, 0


def _type_name(item: exp.Cast) -> str | None:
    try:
        kind = sql_type(item.to)
    except HeadraceError:
        return None
    while kind.name == "array":
        kind = kind.element
    if kind.name == "varchar" and item.to.this is exp.DType.TEXT:
        return "text"
    return "row" if kind.name == "struct" else _TYPE_NAMES.get(kind.name, kind.name)
