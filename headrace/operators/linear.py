"""Linear operators: projection, filter, UNION ALL. Their output's delta is the operator applied to the input's delta.

All linear views on one table are evaluated together, as one projection over its delta. Each operator's output is a
struct column, NULL where a filter dropped the row:

    SELECT _hr_vnode, _hr_weight, n0, n1, CASE WHEN n1 IS NOT NULL THEN struct(upper(n1.name) AS name) END AS n2 FROM (
      SELECT *, CASE WHEN n0 IS NOT NULL AND n0.price < 10 THEN n0 END AS n1 FROM (
        SELECT _hr_vnode, _hr_weight, struct(id, name, price) AS n0 FROM delta))

A row maps to at most one row per branch, so weights and vnodes carry over unchanged. UNION ALL has no column of its
own: its branches are the struct columns of its inputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from sqlglot import exp

from headrace.errors import Unsupported
from headrace.plan.nodes import Expression, Filter, Node, Project, Scan, UnionAll
from headrace.sql.expressions import Expressions
from headrace.state.layout import Layout
from headrace.state.runs import VNODE, WEIGHT
from headrace.state.vnode import spark_expression
from headrace.types import SqlType, quote_spark


@dataclass
class WideQuery:
    """Struct columns by level; a level's expressions use only columns of the levels before."""

    columns: list[str]
    """The table's columns, which become the struct n0."""
    levels: list[list[tuple[str, str]]] = field(default_factory=list)
    _level_of: dict[str, int] = field(default_factory=dict)
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def __post_init__(self):
        self._level_of["n0"] = 0

    def add(self, input: str, expression: str) -> str:
        """A struct column computed from another one; the same work is done once."""
        if (input, expression) in self._known:
            return self._known[input, expression]
        name = f"n{len(self._level_of)}"
        level = self._level_of[input]
        while len(self.levels) <= level:
            self.levels.append([])
        self.levels[level].append((name, expression))
        self._level_of[name] = level + 1
        self._known[input, expression] = name
        return name

    def with_vnode(self, branch: str, layout: Layout) -> str:
        """The rows with a vnode of their own, for a relation that is not distributed like its input."""
        names = [quote_spark(name) for name in layout.names]
        fields = ", ".join(f"{branch}.{name} AS {name}" for name in names)
        vnode = spark_expression(layout.distribution, within=branch)
        return self.add(branch, f"CASE WHEN {branch} IS NOT NULL THEN struct({fields}, {vnode} AS {VNODE}) END")

    def apply(
        self,
        delta: DataFrame,
        wanted: Iterable[str],
        internal: Sequence[str] = (VNODE, WEIGHT),
        *,
        carried: Sequence[str] = (),
    ) -> DataFrame:
        """The wide rows: vnode, weight (and epoch, if asked for) and the wanted struct columns. ``carried`` are other
        columns of the delta that expressions use."""
        fields = ", ".join(quote_spark(column) for column in self.columns)
        frame = delta.selectExpr(*internal, *carried, f"struct({fields}) AS n0")
        for level in self.levels:
            frame = frame.selectExpr("*", *(f"{expression} AS {name}" for name, expression in level))
        return frame.selectExpr(*internal, *wanted)


def branches(
    node: Node, inputs: Mapping[int, list[str]], wide: WideQuery, types: Mapping[str, SqlType] | None = None
) -> list[str]:
    """The struct columns that hold the node's output, given those of the relations that have changed.

    ``types`` are those of a stored view's columns, to which its root converts.
    """
    match node:
        case Scan():
            return inputs.get(node.relation_id, [])
        case UnionAll():
            return [branch for each in node.inputs for branch in branches(each, inputs, wide, types)]
        case Filter():
            return [
                wide.add(branch, f"CASE WHEN {branch} IS NOT NULL AND {_condition(node, branch)} THEN {branch} END")
                for branch in branches(node.input, inputs, wide)
            ]
        case Project():
            return [
                wide.add(branch, f"CASE WHEN {branch} IS NOT NULL THEN {_struct(node, branch, types or {})} END")
                for branch in branches(node.input, inputs, wide)
            ]
    raise Unsupported(f"{type(node).__name__} has no incremental rule yet")


def frames(node: Node, inputs: Mapping[int, DataFrame], types: Mapping[str, SqlType] | None = None) -> list[DataFrame]:
    """The node's output over whole relations, one frame per branch, each in its input's order, with the vnode.

    For many rows this is faster than the wide row: Spark knows filters and columns, and what it can skip.
    """
    match node:
        case Scan():
            return [inputs[node.relation_id]] if node.relation_id in inputs else []
        case UnionAll():
            return [frame for each in node.inputs for frame in frames(each, inputs, types)]
        case Filter():
            return [frame.alias("n").where(_condition(node, "n")) for frame in frames(node.input, inputs)]
        case Project():
            columns = _fields(node, "n", types or {})
            return [frame.alias("n").selectExpr(VNODE, *columns) for frame in frames(node.input, inputs)]
    raise Unsupported(f"{type(node).__name__} has no incremental rule yet")


def _struct(node: Project, branch: str, types: Mapping[str, SqlType]) -> str:
    return f"struct({', '.join(_fields(node, branch, types))})"


def _fields(node: Project, branch: str, types: Mapping[str, SqlType]) -> list[str]:
    fields = []
    for name, expression in node.columns:
        sql = Expressions().text(_within(expression, branch))
        if name in types:
            sql = f"CAST({sql} AS {types[name].spark})"
        fields.append(f"{sql} AS {quote_spark(name)}")
    return fields


def _condition(node: Filter, branch: str) -> str:
    return Expressions().boolean("WHERE", _within(node.condition, branch))


def _within(expression: Expression, branch: str) -> Expression:
    """The expression over the fields of a struct column."""
    copy = expression.copy()
    for column in copy.find_all(exp.Column):
        column.set("table", exp.to_identifier(branch, quoted=True))
    return copy
