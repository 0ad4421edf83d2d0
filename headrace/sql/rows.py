"""Rows as values: comparisons of several columns at once, and of periods.

>>> from headrace.sql.typed import INTEGER
>>> a, b, c, d = (Typed(name, INTEGER) for name in "abcd")
>>> compare_rows("<", [a, b], [c, d]).sql
'((a < c) OR ((a = c) AND (b < d)))'
"""

from __future__ import annotations

from headrace.errors import TypeMismatch
from headrace.sql import operators
from headrace.sql.intervals import comparable
from headrace.sql.literals import spark_string
from headrace.sql.typed import BOOLEAN, INTERVAL, Typed, is_moment, is_time
from headrace.types import SqlType


def compare_rows(symbol: str, left: list[Typed], right: list[Typed]) -> Typed:
    """From left to right, until two columns differ or one is NULL."""
    if len(left) != len(right):
        raise TypeMismatch("unequal number of entries in row expressions")
    pairs = list(zip(left, right, strict=True))
    if symbol in ("=", "<>", "<=>"):
        equal = " AND ".join(operators.compare("=" if symbol == "<>" else symbol, a, b).sql for a, b in pairs)
        return Typed(f"(NOT ({equal}))" if symbol == "<>" else f"({equal})", BOOLEAN)
    sql = operators.compare(symbol, *pairs[-1]).sql
    for a, b in reversed(pairs[:-1]):
        strictly, equal = operators.compare(symbol[0], a, b).sql, operators.compare("=", a, b).sql
        sql = f"({strictly} OR ({equal} AND {sql}))"
    return Typed(sql, BOOLEAN)


def whole_row(columns: list[tuple[str, Typed]], missing: list[str]) -> Typed:
    """A relation's row as a struct, which is NULL where all that must tell a missing row from a found one is."""
    inner = ", ".join(f"{spark_string(name)}, {value.sql}" for name, value in columns)
    kind = SqlType("struct", fields=tuple((name, value.type) for name, value in columns))
    if not missing:
        return Typed(f"named_struct({inner})", kind)
    found = " OR ".join(f"{each} IS NOT NULL" for each in missing)
    return Typed(f"CASE WHEN {found} THEN named_struct({inner}) END", kind)


def row_is_null(values: list[Typed], *, negated: bool) -> Typed:
    """IS NULL: all are; IS NOT NULL: none is. A row can be neither."""
    word = "IS NOT NULL" if negated else "IS NULL"
    return Typed(f"({' AND '.join(f'({value.sql} {word})' for value in values)})", BOOLEAN)


def overlaps(left: list[Typed], right: list[Typed]) -> Typed:
    """(start, end) OVERLAPS (start, end), as SQL-92 defines it. An end may be a length, and ends may be swapped."""
    if len(left) != 2 or len(right) != 2:
        raise TypeMismatch("wrong number of parameters on a side of OVERLAPS expression")
    s1, e1, s2, e2 = operators.same_type("OVERLAPS", *_period(left), *_period(right))
    if not is_moment(s1.type) and not is_time(s1.type):
        raise TypeMismatch(f"OVERLAPS does not take {s1.type}")
    a, b = f"least({s1.sql}, {e1.sql})", f"greatest({s1.sql}, {e1.sql})"
    c, d = f"least({s2.sql}, {e2.sql})", f"greatest({s2.sql}, {e2.sql})"
    known = " OR ".join(f"{each.sql} IS NULL" for each in (s1, e1, s2, e2))
    return Typed(
        f"CASE WHEN {known} THEN NULL WHEN {a} = {c} THEN true WHEN {a} > {c} THEN {a} < {d} ELSE {c} < {b} END",
        BOOLEAN,
    )


def _period(sides: list[Typed]) -> list[Typed]:
    start, end = sides
    return [start, operators.arithmetic("+", start, end)] if end.type == INTERVAL else [start, end]


def array_contains_all(left: Typed, right: Typed, symbol: str) -> Typed:
    """left @> right, or left && right with one element in common. NULL elements are equal to nothing."""
    left, right = operators.same_type(symbol, left, right)
    if left.type.name != "array":
        raise operators.no_operator(symbol, left.type, right.type)
    left, right = map(comparable, (left, right))
    function = "exists" if symbol == "&&" else "forall"
    inner = f"{function}({right.sql}, _e -> coalesce(array_contains({left.sql}, _e), false))"
    return Typed(f"CASE WHEN {left.sql} IS NOT NULL AND {right.sql} IS NOT NULL THEN {inner} END", BOOLEAN)
