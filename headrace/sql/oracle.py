"""Functions that only Spark knows: who is asked for them, and what the answer says.

The binder needs no JVM. Somebody who has one hands it a :class:`FunctionOracle`; without one, a function that
Headrace does not define itself is refused. The answer stays with the call, as a column's type stays with the column,
so that whoever translates or checks the bound query need not ask again.

>>> from headrace.sql.dialect import parse_expression
>>> call = parse_expression("soundex('x')")
>>> found_for(call) is None
True
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from sqlglot import exp

from headrace.errors import Unsupported
from headrace.sql import zoned
from headrace.sql.aggregates import is_aggregate, is_ordered_set, is_window_function
from headrace.sql.casts import error_if
from headrace.sql.functions import is_scalar
from headrace.sql.intervals import day_time, of_day_time, parts_of
from headrace.sql.sets import is_set_returning
from headrace.sql.tree import LambdaVariable
from headrace.sql.typed import INTERVAL, Typed
from headrace.times import presenter
from headrace.types import SqlType

FOUND = "headrace_function"
"""The key under which bind leaves what the oracle said, in the meta of an exp.Anonymous."""

UNKNOWN = "headrace_unknown"
"""The key under which it leaves that there is no such function."""

SCALAR, AGGREGATE, GENERATOR = "scalar", "aggregate", "generator"


@dataclass(frozen=True, kw_only=True)
class Argument:
    type: SqlType | None
    sql: str | None
    """Spark SQL of a constant; None for what differs from row to row."""

    @property
    def spark(self) -> str:
        """The type that Spark's functions know it as."""
        if self.type is None:
            return "STRING"
        if presenter(self.type) is not None:
            raise Unsupported(
                "a time as an argument of a function that only Spark has is not supported",
                hint="cast it to varchar or interval",
            )
        return "INTERVAL DAY TO SECOND" if self.type == INTERVAL else self.type.spark


@dataclass(frozen=True, kw_only=True)
class Found:
    kind: str
    type: SqlType
    exact: bool = True
    """Whether Spark's result has exactly the type's Spark type; if not, it is cast."""
    columns: tuple[tuple[str, SqlType], ...] = ()
    """Those of a generator that returns several; the type is then the struct of them."""

    def wrap(self, call: str) -> str:
        if self.type == INTERVAL:
            return of_day_time(call)
        return call if self.exact else f"CAST({call} AS {self.type.spark})"


def for_spark(value: Typed) -> str:
    """An argument of one of its own functions: there an interval has no months, or is refused."""
    if value.type != INTERVAL:
        return value.sql
    parts = parts_of(value)
    if isinstance(parts.months, str):
        return error_if(f"{parts.months} <> 0", _MONTHS, day_time(parts))
    if parts.months:
        raise Unsupported(_MONTHS)
    return day_time(parts)


_MONTHS = "an interval with months as an argument of a function that only Spark has is not supported"


class FunctionOracle(Protocol):
    def find(self, name: str, arguments: Sequence[Argument]) -> Found | None:
        """What the function is for these arguments; None if there is none of that name that may be called.

        Raises what is wrong with the arguments if they do not fit."""


_OURS = frozenset({"grouping", "current_time", zoned.FUNCTION})


def is_ours(name: str) -> bool:
    """Whether the name means something in Headrace itself, whatever Spark has under it."""
    return (
        name in _OURS
        or is_scalar(name)
        or is_aggregate(name)
        or is_ordered_set(name)
        or is_window_function(name)
        or is_set_returning(name)
    )


def found_for(node: exp.Expression | None) -> Found | None:
    return node.meta_get(FOUND) if isinstance(node, exp.Anonymous) else None


def generates(node: exp.Expression) -> bool:
    """Whether a call is one of Spark's functions that return rows."""
    found = found_for(node)
    return found is not None and found.kind == GENERATOR


def is_constant(node: exp.Expression) -> bool:
    """Whether an argument is the same for every row, and so may be shown to the oracle as it is."""
    return node.find(exp.Column, exp.Query, exp.Anonymous, exp.Star, LambdaVariable) is None
