"""FROM and WHERE: sources joined one after the other, each by a hash of what must be equal.

A condition of WHERE is applied as soon as the sources that it mentions are there. That is right because only inner and
left joins are done here, and these never bring back what was taken away before them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headrace.serving.interpreter.scope import Elsewhere, Evaluate, Row
from headrace.sql.names import SCHEMA
from headrace.sql.translate import Translator

if TYPE_CHECKING:
    from headrace.serving.interpreter.queries import Compiler

Match = tuple[tuple, ...]
"""What a source adds to a row: a tuple, or several if it is a join in parentheses."""


class From:
    """The sources of a SELECT, or of a join in parentheses, and the conditions on them."""

    def __init__(self, compiler: Compiler, node: exp.Expression, *, first: exp.Expression | None = None):
        self._compiler, self._start = compiler, compiler.scope.slots
        self._steps: list[_Step] = []
        clause = node.args.get("from_")
        first = first if first is not None else (clause.this if clause is not None else None)
        if first is not None:
            self._add(first)
        for join in node.args.get("joins") or []:
            self._join(join)
        where = node.args.get("where")
        self._before = self._place(list(_conjuncts(where.this)) if where is not None else [])

    def rows(self, outer: Row | None) -> list[Row]:
        rows = [Row(((),) * self._start, outer)]
        rows = [row for row in rows if all(condition(row) for condition in self._before)]
        for step in self._steps:
            if rows:
                rows = step.joined(rows, outer)
        return rows

    def _join(self, join: exp.Join) -> None:
        side, kind = join.side.upper(), join.kind.upper()
        if side not in ("", "LEFT") or kind not in ("", "INNER", "OUTER", "CROSS") or join.method:
            raise Elsewhere(f"{side} {kind} JOIN")
        step = self._add(join.this, optional=side == "LEFT")
        on = join.args.get("on")
        for condition in _conjuncts(on) if on is not None else ():
            step.require(condition)

    def _place(self, conditions: list[exp.Expression]) -> list[Evaluate]:
        """Each condition to the step after which it can be told; those that need no source come first."""
        before = []
        for condition in conditions:
            evaluate, touched = self._compiler.scope.touching(lambda node=condition: self._compiler.condition(node))
            steps = [step for step in self._steps if touched & set(step.slots)]
            if not steps:
                before.append(evaluate)
            elif steps[-1].optional:
                steps[-1].filters.append(evaluate)
            else:
                steps[-1].require(condition)
        return before

    # --- sources -----------------------------------------------------------------------------------------------------

    def _add(self, node: exp.Expression, *, optional: bool = False) -> _Step:
        scope, before = self._compiler.scope, self._compiler.scope.slots
        rows, lateral, fixed = self._source(node)
        step = _Step(self._compiler, range(before, scope.slots), rows, lateral=lateral, fixed=fixed, optional=optional)
        self._steps.append(step)
        return step

    def _source(self, node: exp.Expression) -> tuple[Callable[[Row], list[Match]], bool, bool]:
        """What it adds, whether that depends on the sources before it, and whether it is always the same."""
        compiler, scope = self._compiler, self._compiler.scope
        if isinstance(node, (exp.Table, exp.Subquery)) and node.args.get("joins"):
            return self._nested(node, node)
        inner = node.this if isinstance(node, exp.Subquery) else None
        if isinstance(inner, exp.Table) or (isinstance(inner, exp.Subquery) and inner.args.get("joins")):
            return self._nested(inner, inner)
        if isinstance(node, exp.Lateral) and isinstance(node.this, (exp.Subquery, exp.Query)):
            query = compiler.subquery(node.this.this if isinstance(node.this, exp.Subquery) else node.this)
            scope.add(node.alias, renamed(node, query.names))
            return lambda row: [(each,) for each in query.rows(row)], True, False
        if isinstance(node, (exp.Subquery, exp.Values)):
            query = compiler.beside(node.this if isinstance(node, exp.Subquery) else node)
            scope.add(node.alias, renamed(node, query.names))
            return lambda row: [(each,) for each in query.rows(row.outer)], False, not query.correlated
        if not isinstance(node, exp.Table) or node.args.get("sample") is not None:
            raise Elsewhere(f"{type(node).__name__} in FROM")
        if isinstance(node.this, exp.Anonymous):
            return self._function(node)
        if node.db == SCHEMA:
            names, rows = compiler.held.table(node.name)
            scope.add(node.alias_or_name, renamed(node, names))
            return lambda row: [(each,) for each in rows], False, True
        if node.name not in scope.ctes:
            raise Elsewhere(node.name)
        query, names = scope.ctes[node.name]
        scope.add(node.alias_or_name, renamed(node, names))
        return lambda row: [(each,) for each in query.rows(None)], False, True

    def _nested(self, node: exp.Expression, first: exp.Expression) -> tuple[Callable[[Row], list[Match]], bool, bool]:
        """(a JOIN b ON …): its sources are sources of this level."""
        scope, start = self._compiler.scope, self._compiler.scope.slots
        joins = node.args.get("joins") or []
        alone = first.copy()
        alone.set("joins", None)
        around, scope.correlated = scope.correlated, False
        inner = From(self._compiler, exp.Select(joins=[]), first=alone)
        for join in joins:
            inner._join(join)
        correlated, scope.correlated = scope.correlated, around or scope.correlated
        return lambda row: [each.tuples[start:] for each in inner.rows(row.outer)], False, not correlated

    def _function(self, node: exp.Table) -> tuple[Callable[[Row], list[Match]], bool, bool]:
        compiler = self._compiler
        rows, touched = compiler.scope.touching(lambda: compiler.rows_of(node.this))
        names = [name or node.alias for name, _ in Translator({}).rows_of(node.this).columns]
        if node.args.get("ordinality"):
            plain, names = rows, [*names, "ordinality"]

            def rows(row: Row) -> list[tuple]:
                return [(*each, number) for number, each in enumerate(plain(row), 1)]

        compiler.scope.add(node.alias, renamed(node, names))
        return lambda row: [(each,) for each in rows(row)], bool(touched), False


class _Step:
    """One more source beside those before it."""

    def __init__(
        self,
        compiler: Compiler,
        slots: range,
        rows: Callable[[Row], list[Match]],
        *,
        lateral: bool,
        fixed: bool,
        optional: bool,
    ):
        self._compiler, self.slots, self._rows = compiler, slots, rows
        self._lateral, self._fixed, self.optional = lateral, fixed, optional
        self._nulls = tuple((None,) * width for width in compiler.scope.widths[slots.start :])
        self._mine: list[Evaluate] = []
        self._theirs: list[Evaluate] = []
        """What must be equal, on the side of this source and on the other"""
        self._conditions: list[Evaluate] = []
        self.filters: list[Evaluate] = []
        """Conditions of WHERE, which a row without a match has to meet, too"""
        self._kept: Callable[[Row], list[Match]] | None = None

    def require(self, node: exp.Expression) -> None:
        """A row matches only if this holds."""
        sides = self._sides(node)
        if sides is None or self._lateral:
            self._conditions.append(self._compiler.condition(node))
            return
        mine, theirs = self._compiler.comparable(sides)
        self._mine.append(mine)
        self._theirs.append(theirs)

    def _sides(self, node: exp.Expression) -> list[exp.Expression] | None:
        """``mine = theirs``, if it is that, in this order."""
        node = node.unnest()
        if not isinstance(node, exp.EQ) or node.find(exp.Query, exp.Any, exp.All, exp.Anonymous, exp.Tuple):
            return None
        own = self._compiler.scope.aliases(self.slots)
        sides = [node.this, node.expression]
        names = [{column.table for column in side.find_all(exp.Column)} for side in sides]
        if names[0] and names[0] <= own and not names[1] & own:
            return sides
        return sides[::-1] if names[1] and names[1] <= own and not names[0] & own else None

    def joined(self, rows: list[Row], outer: Row | None) -> list[Row]:
        made, held = [], self._compiler.held
        find = None if self._lateral else self._finder(rows[0])
        for row in rows:
            matches = self._rows(row) if find is None else find(row)
            held.step(len(matches) + 1)
            found = False
            for match in matches:
                other = Row(row.tuples + match, outer)
                if all(condition(other) for condition in self._conditions):
                    found = True
                    made.append(other)
            if self.optional and not found:
                made.append(Row(row.tuples + self._nulls, outer))
        if self.filters:
            made = [row for row in made if all(condition(row) for condition in self.filters)]
        return made

    def _finder(self, row: Row) -> Callable[[Row], list[Match]]:
        """By what must be equal; the same for all rows of one run, or of all runs."""
        if self._kept is not None:
            return self._kept
        matches = self._rows(row)
        if not self._mine:

            def find(row: Row) -> list[Match]:
                return matches

        else:
            known: dict[tuple, list[Match]] = {}
            empty: tuple[tuple, ...] = ((),) * self.slots.start
            for match in matches:
                at = Row(empty + match, None)
                key = tuple(_key(each(at)) for each in self._mine)
                if None not in key:
                    known.setdefault(key, []).append(match)

            def find(row: Row) -> list[Match]:
                return known.get(tuple(_key(each(row)) for each in self._theirs), [])

        if self._fixed:
            self._kept = find
        return find


def _key(value: Any) -> Any:
    if isinstance(value, list):
        if None in value:
            raise Elsewhere("comparing arrays with NULLs")
        return tuple(map(_key, value))
    return value


def _conjuncts(node: exp.Expression) -> Iterator[exp.Expression]:
    node = node.unnest() if isinstance(node, exp.Paren) else node
    if isinstance(node, exp.And):
        yield from _conjuncts(node.this)
        yield from _conjuncts(node.expression)
    else:
        yield node


def renamed(node: exp.Expression, names: list[str]) -> list[str]:
    """The columns of a source, as its alias calls them."""
    alias = node.args.get("alias")
    given = [column.name for column in (alias.args.get("columns") or [])] if alias is not None else []
    return [*given, *names[len(given) :]]
