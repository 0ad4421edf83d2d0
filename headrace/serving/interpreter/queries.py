"""Queries over rows that are held here, evaluated without Spark: what clients ask of the system's own relations.

Such a query joins a dozen tables of a few rows each. Spark plans it for a cluster, which takes longer than everything
else, and waits for its turn if the executors are busy. Here it is a few functions over tuples: sources are joined one
after the other, by a hash of what must be equal, and conditions are applied as soon as their columns are known.

What the interpreter does not do exactly as Spark does, it does not do: :func:`evaluate` answers None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from headrace.errors import HeadraceError
from headrace.serving.interpreter.calls import sort_by, ways
from headrace.serving.interpreter.primitives import Rows
from headrace.serving.interpreter.scope import STEPS, Elsewhere, Evaluate, Row, Scope, hashable, hashable_row
from headrace.serving.interpreter.sources import From, renamed
from headrace.serving.interpreter.values import Values
from headrace.sql.bind import BoundQuery
from headrace.sql.grouping import has_aggregate, own_calls
from headrace.sql.literals import NOT_CONSTANT, from_text
from headrace.sql.sets import is_set_returning
from headrace.sql.translate import types_of
from headrace.sql.typed import TEXT, is_text
from headrace.types import SqlType

_CLAUSES = {
    "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
}  # fmt: skip


def evaluate(bound: BoundQuery, tables: Mapping[str, pa.Table]) -> pa.Table | None:
    """The rows of a query that reads only these tables; None if Spark is to say."""
    kinds = [kind or TEXT for kind in bound.types]
    try:
        rows = Compiler(Scope(None), Held(tables)).subquery(bound.expression).rows(None)
        arrays = [pa.array([row[at] for row in rows], kind.arrow) for at, kind in enumerate(kinds)]
    except (Elsewhere, HeadraceError, pa.ArrowException, TypeError, RecursionError):
        # The last three are values of a kind, or queries of a depth, that nobody has thought of.
        return None
    return pa.Table.from_arrays(arrays, names=list(bound.output))


class Held:
    """What a whole query shares: the tables, as tuples, and how much it has looked at."""

    def __init__(self, tables: Mapping[str, pa.Table]):
        self._tables = tables
        self._rows: dict[str, Rows] = {}
        self._steps = 0

    def table(self, name: str) -> tuple[list[str], Rows]:
        if name not in self._tables:
            raise Elsewhere(f"{name} is stored")
        table = self._tables[name]
        if name not in self._rows:
            self._rows[name] = Rows(zip(*(column.to_pylist() for column in table.columns), strict=True))
        return table.column_names, self._rows[name]

    def step(self, count: int = 1) -> None:
        self._steps += count
        if self._steps > STEPS:
            raise Elsewhere("too much")


class Compiled:
    def __init__(self, names: list[str], types: list[SqlType | None], run: Callable[[Row | None], list[tuple]]):
        self.names, self.types, self._run = names, types, run
        self.correlated = False
        """Whether it needs the row of the query around it; else it is run once"""
        self._kept: Rows | None = None

    def rows(self, row: Row | None) -> Rows:
        if self.correlated:
            return Rows(self._run(row))
        if self._kept is None:
            self._kept = Rows(self._run(row))
        return self._kept


class Compiler(Values):
    """Compiles one query, whose scope it is given, and by others of its kind those inside."""

    def __init__(self, scope: Scope, held: Held):
        super().__init__(scope)
        self.held = held

    def subquery(self, node: exp.Expression) -> Compiled:
        """A query that may use the columns of this scope."""
        return self.inside(node, Scope(self.scope))

    def beside(self, node: exp.Expression) -> Compiled:
        """A query in FROM: it sees the columns of the query around this one, not those of its neighbours."""
        compiled = self.inside(node, Scope(self.scope.parent, self.scope.ctes))
        self.scope.correlated = self.scope.correlated or compiled.correlated
        return compiled

    def inside(self, node: exp.Expression, scope: Scope) -> Compiled:
        compiled = Compiler(scope, self.held)._query(node)
        compiled.correlated = compiled.correlated or scope.correlated
        return compiled

    def _query(self, node: exp.Expression) -> Compiled:
        self._common_queries(node)
        if isinstance(node, exp.Select):
            return self._select(node)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node)
        if isinstance(node, exp.Values):
            return self._listed(node)
        if isinstance(node, exp.Subquery):
            inner = self.inside(node.this, Scope(self.scope.parent, self.scope.ctes))
            return self._cut(node, inner)
        raise Elsewhere(type(node).__name__)

    def _common_queries(self, node: exp.Expression) -> None:
        clause = node.args.get("with_")
        if clause is None:
            return
        if clause.args.get("recursive"):
            raise Elsewhere("WITH RECURSIVE")
        for cte in clause.expressions:
            compiled = self.inside(cte.this, Scope(self.scope.parent, self.scope.ctes))
            if compiled.correlated:
                raise Elsewhere("a WITH query that needs another")
            self.scope.ctes[cte.alias] = compiled, renamed(cte, compiled.names)

    def _listed(self, node: exp.Values) -> Compiled:
        kinds = types_of(node)
        rows = [
            [self.converted(each, kind or TEXT) for each, kind in zip(row.expressions, kinds, strict=True)]
            for row in node.expressions
        ]

        def run(outer: Row | None) -> list[tuple]:
            row = Row((), outer)
            return [tuple(value(row) for value in values) for values in rows]

        names = [f"column{number}" for number in range(1, len(kinds) + 1)]
        return self._cut(node, Compiled(names, kinds, run))

    def _set_operation(self, node: exp.SetOperation) -> Compiled:
        sides = [self.inside(each, Scope(self.scope.parent, self.scope.ctes)) for each in (node.this, node.expression)]
        kinds, every = types_of(node), not node.args.get("distinct")
        if every and not isinstance(node, exp.Union):
            raise Elsewhere("ALL")
        changes = [
            [_becoming(own, kind or TEXT) for own, kind in zip(each.types, kinds, strict=True)] for each in sides
        ]

        def run(outer: Row | None) -> list[tuple]:
            left, right = (
                [tuple(change(value) for change, value in zip(to, row, strict=True)) for row in side.rows(outer)]
                for side, to in zip(sides, changes, strict=True)
            )
            if every:
                return left + right
            first, second = ({hashable_row(row): row for row in rows} for rows in (left, right))
            if isinstance(node, exp.Union):
                return list((second | first).values())
            present = isinstance(node, exp.Intersect)
            return [row for key, row in first.items() if (key in second) is present]

        compiled = Compiled(sides[0].names, kinds, run)
        compiled.correlated = any(each.correlated for each in sides)
        return self._cut(node, compiled)

    def _cut(self, node: exp.Expression, inner: Compiled) -> Compiled:
        """ORDER BY, which is by names and numbers of the result's columns here, LIMIT and OFFSET."""
        order, cut = node.args.get("order"), self._limits(node)
        keys = [(int(each.this.this) - 1, *ways(each)) for each in (order.expressions if order is not None else [])]

        def run(outer: Row | None) -> list[tuple]:
            rows = list(inner.rows(outer))
            for at, descending, nulls_first in reversed(keys):
                rows = sort_by(rows, lambda row, at=at: row[at], descending, nulls_first)
            return cut(rows)

        compiled = Compiled(inner.names, inner.types, run)
        compiled.correlated = inner.correlated
        return compiled

    def _limits(self, node: exp.Expression) -> Callable[[list], list]:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        numbers = []
        for clause in (limit, offset):
            found = clause.args.get("expression") if clause is not None else None
            if clause is not None and not (isinstance(found, exp.Literal) and found.this.isdigit()):
                raise Elsewhere("LIMIT")
            numbers.append(None if found is None else int(found.this))
        count, first = numbers[0], numbers[1] or 0
        return lambda rows: rows[first:] if count is None else rows[first : first + count]

    # --- SELECT ------------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select) -> Compiled:
        if any(value not in (None, False, []) and key not in _CLAUSES for key, value in node.args.items()):
            raise Elsewhere("a clause")
        source = From(self, node)
        items = [each.unalias() for each in node.expressions]
        order, having = node.args.get("order"), node.args.get("having")
        sorts = [each.this for each in order.expressions] if order is not None else []
        grouped = node.args.get("group") is not None or having is not None or any(map(has_aggregate, items + sorts))
        parts = [*items, *(each for each in sorts if not _ordinal(each))]
        calls = [call for each in parts for call in own_calls(each) if is_set_returning(call.this)]
        if calls and (grouped or any(each.find(exp.Window) for each in items)):
            raise Elsewhere("functions that return rows beside aggregates")
        windows = [window for each in parts for window in each.find_all(exp.Window)]
        if windows and grouped:
            raise Elsewhere("windows over groups")
        kinds = types_of(node)
        values = [self.converted(each, kind or TEXT) for each, kind in zip(items, kinds, strict=True)]
        group = self._groups(node) if grouped else None
        keep = None if having is None else self.condition(having.this)
        numbered = [self._numbered(window) for window in windows]
        unfold = self._unfold(calls) if calls else None
        finish = self._finish(node, values)

        def run(outer: Row | None) -> list[tuple]:
            rows = source.rows(outer)
            if group is not None:
                rows = group(rows, outer)
            if keep is not None:
                rows = [row for row in rows if keep(row)]
            for number in numbered:
                number(rows)
            if unfold is not None:
                rows = unfold(rows)
            return finish(rows)

        return Compiled([each.alias for each in node.expressions], kinds, run)

    def _groups(self, node: exp.Select) -> Callable[[list[Row], Row | None], list[Row]]:
        clause = node.args.get("group")
        if clause is not None and any(value for key, value in clause.args.items() if key != "expressions"):
            raise Elsewhere("GROUPING SETS")
        if clause is not None and any(isinstance(each, exp.Tuple) for each in clause.expressions):
            raise Elsewhere("GROUP BY of a row")
        keys = [self.value(each) for each in clause.expressions if not _ordinal(each)] if clause is not None else []
        widths = self.scope.widths

        def group(rows: list[Row], outer: Row | None) -> list[Row]:
            found: dict[tuple, list[Row]] = {} if clause is not None else {(): []}
            for row in rows:
                found.setdefault(tuple(hashable(key(row)) for key in keys), []).append(row)
            made = []
            for members in found.values():
                # all of them agree on what may be asked outside of aggregates
                tuples = members[0].tuples if members else tuple((None,) * width for width in widths)
                row = Row(tuples, outer)
                row.group = members
                made.append(row)
            return made

        return group

    def _numbered(self, node: exp.Window) -> Callable[[list[Row]], None]:
        """row_number() OVER (PARTITION BY … ORDER BY …)"""
        call, order = node.this, node.args.get("order")
        if not isinstance(call, exp.Anonymous) or call.this != "row_number" or node.args.get("spec") is not None:
            raise Elsewhere("a window function")
        keys = [self.value(each) for each in node.args.get("partition_by") or []]
        sort, name = self.sorter(order.expressions if order is not None else []), id(node)

        def number(rows: list[Row]) -> None:
            parts: dict[tuple, list[Row]] = {}
            for row in rows:
                parts.setdefault(tuple(hashable(key(row)) for key in keys), []).append(row)
            for members in parts.values():
                for at, row in enumerate(sort(members), 1):
                    row.made = {**(row.made or {}), name: at}

        return number

    def _unfold(self, calls: Sequence[exp.Anonymous]) -> Callable[[list[Row]], list[Row]]:
        """Functions that return rows run in step: where one has fewer rows than another, it is NULL."""
        made = [(id(call), self.rows_of(call)) for call in calls]

        def unfold(rows: list[Row]) -> list[Row]:
            unfolded = []
            for row in rows:
                found = [(name, function(row)) for name, function in made]
                for at in range(max(len(each) for _, each in found)):
                    self.held.step()
                    other = Row(row.tuples, row.outer)
                    other.made = {name: each[at][0] if at < len(each) else None for name, each in found}
                    unfolded.append(other)
            return unfolded

        return unfold

    def _finish(self, node: exp.Select, values: list[Evaluate]) -> Callable[[list[Row]], list[tuple]]:
        """DISTINCT, ORDER BY and LIMIT."""
        order, distinct, cut = node.args.get("order"), node.args.get("distinct"), self._limits(node)
        if distinct is not None and distinct.args.get("on") is not None:
            raise Elsewhere("DISTINCT ON")
        keys: list[tuple[Callable[[tuple[Row, tuple]], Any], bool, bool]] = []
        for each in order.expressions if order is not None else []:
            if _ordinal(each.this):
                at = int(each.this.this) - 1
                (key,) = self.comparable([node.expressions[at].unalias()])
            else:
                (key,) = self.comparable([each.this])
            keys.append((lambda pair, key=key: key(pair[0]), *ways(each)))

        def finish(rows: list[Row]) -> list[tuple]:
            pairs = [(row, tuple(value(row) for value in values)) for row in rows]
            if distinct is not None:
                first: dict[tuple, tuple[Row, tuple]] = {}
                for pair in pairs:
                    first.setdefault(hashable_row(pair[1]), pair)
                pairs = list(first.values())
            for key, descending, nulls_first in reversed(keys):
                pairs = sort_by(pairs, key, descending, nulls_first)
            return cut([made for _, made in pairs])

        return finish


def _ordinal(node: exp.Expression) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string


def _becoming(own: SqlType | None, kind: SqlType) -> Callable[[Any], Any]:
    """From one side of a UNION to the common type; a constant string may still become anything."""
    if own is None and not is_text(kind):

        def read(value: Any) -> Any:
            if value is None:
                return None
            found = from_text(value, kind)
            if found is NOT_CONSTANT:
                raise Elsewhere(value)
            return found

        return read
    if own is None or own == kind or {own.name, kind.name} <= {"smallint", "integer", "bigint"}:
        return lambda value: value

    def refuse(value: Any) -> Any:
        if value is not None:
            raise Elsewhere(f"{own} as {kind}")

    return refuse
