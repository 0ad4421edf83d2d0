"""Queries of drivers that are too much for Spark, known by their shape, and answered without it.

asyncpg looks up the types that it has no codec for, such as arrays, by walking from a type to those it is made of:
a recursive query with recursive subqueries in it. What it would find is known: an array's element, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sqlglot import exp

from headrace.serving.wire.oids import PG_TYPES
from headrace.sql.dialect import parse_query

_TREE = "typeinfo_tree"
_COLUMNS = (
    "oid", "ns", "name", "kind", "basetype", "elemtype", "elemdelim", "range_subtype", "attrtypoids", "attrnames",
    "depth",
)  # fmt: skip
_NUMBERS = {"oid", "basetype", "elemtype", "range_subtype", "depth"}


def without_recursion(query: exp.Expression) -> exp.Expression:
    """The query with the walk over types replaced by what it comes to; any other query as it is."""
    with_ = query.args.get("with_")
    if with_ is None or not with_.args.get("recursive") or len(with_.expressions) != 1:
        return query
    (cte,) = with_.expressions
    names = tuple(column.name for column in cte.args["alias"].args.get("columns") or ())
    if cte.alias != _TREE or names != _COLUMNS:
        return query
    replaced = query.copy()
    with_ = replaced.args["with_"]
    with_.set("recursive", False)
    with_.expressions[0].set("this", parse_query(_values(list(_types(_asked(cte))))))
    return replaced


def _asked(cte: exp.CTE) -> list[int]:
    """The numbers in ``oid = any('{…}')``."""
    texts = (literal.this for found in cte.find_all(exp.Any) for literal in found.find_all(exp.Literal))
    return [int(number) for text in texts for number in re.findall(r"\d+", text)]


def _types(asked: list[int]) -> Iterator[tuple]:
    by_oid = {each.oid: each for each in PG_TYPES.values()}
    by_array = {each.array_oid: each for each in PG_TYPES.values()}
    for number in dict.fromkeys(asked):
        if number in by_array:
            element = by_array[number]
            yield number, "pg_catalog", f"_{element.pg_name}", "b", None, element.oid, ",", None, None, None, 0
            yield element.oid, "pg_catalog", element.pg_name, "b", None, None, ",", None, None, None, 1
        elif number in by_oid:
            yield number, "pg_catalog", by_oid[number].pg_name, "b", None, None, ",", None, None, None, 0


def _values(rows: list[tuple]) -> str:
    def constant(name: str, value: str | int | None) -> str:
        kind = "INT" if name in _NUMBERS else "VARCHAR"
        text = "NULL" if value is None else f"'{value}'"
        return f'CAST({text} AS {kind}) AS "{name}"'

    def select(row: tuple) -> str:
        return "SELECT " + ", ".join(constant(name, value) for name, value in zip(_COLUMNS, row, strict=True))

    if not rows:
        return f"{select((None,) * len(_COLUMNS))} WHERE false"
    return " UNION ALL ".join(map(select, rows))
