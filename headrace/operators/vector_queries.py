"""Whole queries over a few rows in Arrow, with their order and limit, where Arrow says what Spark would.

What a client asks is mostly plain: the rows of a key, a count, the newest ten. Their FROM, WHERE and GROUP BY are those
of pieces (:mod:`headrace.operators.vector_pieces`); around them are DISTINCT, ORDER BY, LIMIT and OFFSET. A query
without FROM is one over a single row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from headrace.operators.vector_pieces import First, Mapped, Plan, Sums, Tables, count_of, place_of, plan_of
from headrace.operators.vectorize import vector_projection
from headrace.operators.vectors import Column, NotVectorized, VectorProject
from headrace.plan.pieces import outputs_of
from headrace.sql.grouping import has_aggregate
from headrace.sql.translate import type_of
from headrace.sql.typed import INTERVAL, is_float
from headrace.types import SqlType

TAIL = ("order", "limit", "offset")

PAIR_BYTES = 16 << 20
"""Of the rows of a join: many clients may ask at once."""


@dataclass(frozen=True)
class OneRow:
    """What a query without FROM reads."""

    def evaluate(self, tables: Tables) -> pa.Table:
        return pa.table({"row": pa.array([0], pa.int8())})


@dataclass(frozen=True)
class VectorQuery:
    plan: Plan
    columns: int
    """Those of the result come first; others are what it is ordered by."""

    def evaluate(self, tables: Tables) -> pa.Table:
        return self.plan.evaluate(tables).select(list(range(self.columns)))


def vectorized_query(
    query: exp.Expression, relations: Mapping[str, int], types: Sequence[SqlType]
) -> VectorQuery | None:
    """A bound query over relations by their names, with columns of these types; None if it is Spark's."""
    try:
        return _query(query, relations, types)
    except (NotVectorized, RecursionError):
        return None


def _query(query: exp.Expression, relations: Mapping[str, int], types: Sequence[SqlType]) -> VectorQuery:
    if not isinstance(query, (exp.Select, exp.Union)):
        raise NotVectorized(type(query).__name__)
    core = query.copy()
    for key in TAIL:
        core.set(key, None)
    distinct = core.args.get("distinct") if isinstance(core, exp.Select) else None
    if distinct is not None and distinct.args.get("on") is not None:
        raise NotVectorized("DISTINCT ON")
    order = query.args["order"].expressions if query.args.get("order") is not None else []
    names, kinds = [f"c{at}" for at, _ in enumerate(types)], list(types)
    keys = []
    if isinstance(core, exp.Select):
        _check_quotients(core, types)
        core.set("distinct", None)
        items = [each.unalias() for each in core.expressions]
        grouped = core.args.get("group") is not None or any(map(has_aggregate, items))
        for each in order:
            at = place_of(each, items)
            if at is None:
                if grouped or distinct is not None:
                    raise NotVectorized("an order by what is not shown")
                at = len(items)
                items.append(each.this)
                kinds.append(_kind_of(each.this))
            keys.append((at, each))
        names = [f"c{at}" for at, _ in enumerate(items)]
        core.set("expressions", [exp.alias_(item, name, quoted=True) for item, name in zip(items, names, strict=True)])
    else:
        names = outputs_of(core)
        keys = [(place_of(each, ()), each) for each in order]
    if any(at is None or is_float(kinds[at]) or kinds[at] == INTERVAL for at, _ in keys):
        raise NotVectorized("an order by something else")
    plan = _core(core, relations, dict(zip(names, kinds, strict=True)))
    if distinct is not None:
        if any(is_float(kind) or kind == INTERVAL or kind.element or kind.fields for kind in kinds):
            raise NotVectorized("DISTINCT of values that have several forms")
        plan = Sums(plan, tuple((name, Column(name), kind.arrow) for name, kind in zip(names, kinds, strict=True)), ())
    ways = tuple((names[at], bool(each.args.get("desc")), bool(each.args.get("nulls_first"))) for at, each in keys)
    limit, offset = (
        None if (clause := query.args.get(key)) is None else count_of(clause, key) for key in ("limit", "offset")
    )
    if ways or limit is not None or offset:
        plan = First(plan, ways, offset or 0, limit)
    return VectorQuery(plan, len(types))


def _core(core: exp.Expression, relations: Mapping[str, int], types: Mapping[str, SqlType]) -> Plan:
    given = {name for name, value in core.args.items() if value}
    if isinstance(core, exp.Select) and given == {"expressions"}:
        columns = [vector_projection(each.alias, each.unalias(), types[each.alias]) for each in core.expressions]
        return Mapped(OneRow(), (VectorProject(tuple(columns)),))
    return plan_of(core, relations, types, pair_bytes=PAIR_BYTES)


def _check_quotients(core: exp.Select, types: Sequence[SqlType]) -> None:
    """How many decimals of one are shown may depend on its operands, which nobody looks at here."""
    for each, kind in zip(core.expressions, types, strict=True):
        if kind.quotient is not None and not isinstance(each.unalias(), exp.Column):
            raise NotVectorized("a quotient")


def _kind_of(item: exp.Expression) -> SqlType:
    kind = type_of(item)
    if kind is None:
        raise NotVectorized("an order by a constant")
    return kind
