"""Window functions, and the first rows of each group or of all: ORDER BY … LIMIT, and row_number() <= n.

A window function needs all rows of its partition. Who asks for the first rows alone, in some order, needs no others:

    SELECT * FROM (SELECT k, x, row_number() OVER (PARTITION BY k ORDER BY x DESC) AS n FROM t) AS q WHERE n <= 3

    A  SELECT k, x FROM t                                    by k, x DESC, and what tells rows apart: an arrangement
       the query over A, of which the first 3 rows of a touched k are read

So however many rows a k has, few are read. ORDER BY … LIMIT is the same without a k. Rows that the order leaves equal
come in the order of their stream key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.plan.arrange import Arranged, Arrangements
from headrace.plan.pieces import (
    HIDDEN,
    SOURCE,
    Keyed,
    NotCut,
    Piece,
    Side,
    aliased,
    columns_above,
    conjuncts,
    free_name,
    has_query,
    on_top,
    outputs_of,
    select,
    substituted,
    typed_column,
)
from headrace.plan.rewrites import windows_in_turn
from headrace.sql.grouping import has_aggregate
from headrace.sql.translate import type_of, types_of
from headrace.sql.typed import TEXT
from headrace.types import SqlType

Items = list[tuple[str, exp.Expression]]


@dataclass(frozen=True, kw_only=True)
class FirstRows:
    """What is asked for of each group: some of its first rows, or all of them."""

    count: int
    all: bool


class TopN:
    arrangements: Arrangements

    def piece(self, query: exp.Expression, first: int | None = None) -> Piece:
        raise NotImplementedError

    def cut_query(self, query: exp.Expression) -> Piece:
        raise NotImplementedError

    def linear(self, query: exp.Expression) -> exp.Query:
        raise NotImplementedError

    def whole(self, query: exp.Expression, describe: str = "recompute") -> Keyed:
        raise NotImplementedError

    def side(self, node: exp.Select, used: Sequence[exp.Expression]) -> Side:
        raise NotImplementedError

    def items(self, node: exp.Select) -> list[tuple[str, exp.Expression]]:
        raise NotImplementedError

    # --- window functions -----------------------------------------------------------------------------------------

    def windowed(self, node: exp.Select, first: int | None) -> Piece:
        """``first``: how many rows of a partition are wanted, if it has one row_number() and nothing else."""
        items = self.items(node)
        listed = [each for _, each in items]
        having_group = node.args.get("group") is not None or node.args.get("having") is not None
        if having_group or any(map(has_aggregate, listed)) or any(map(has_query, listed)):
            raise NotCut
        windows = [window for each in listed for window in each.find_all(exp.Window)]
        partitions = [window.args.get("partition_by") or [] for window in windows]
        common = [each for each in partitions[0] if all(each in other for other in partitions[1:])]
        common = list({each.sql(): each for each in common}.values())
        if not common and first is None and (above := windows_in_turn(node, self.arrangements.rebound)) is not None:
            return self.cut_query(above)
        if (not common and first is None) or any(isinstance(each, exp.Literal) for each in common):
            raise NotCut
        if first is None and (fused := self._fused(node, items, partitions)) is not None:
            return fused
        side = self.side(node, listed)
        keys = [substituted(each, side.over(SOURCE)) for each in common]
        order = windows[0].args.get("order")
        sorted_by = [substituted(each, side.over(SOURCE)) for each in order.expressions] if order else []
        if not all(has_order(type_of(each.this)) for each in sorted_by):
            if not common:
                raise NotCut
            first = None
        if first is None:
            arranged = self.arrangements.arranged(side, keys, SOURCE)
        else:
            arranged = self.arrangements.arranged(side, keys, SOURCE, sorted_by)
        outputs = [(name, substituted(each, arranged.columns)) for name, each in items]
        for window in [found for _, each in outputs for found in each.find_all(exp.Window)]:
            if first is None:
                _break_ties(window, arranged.rest)
            else:
                window.set("order", _order(arranged))
        query = select(outputs, arranged.source)
        if first is None:
            return with_key(outputs, arranged, query, "window")
        return with_key(outputs, arranged, query, "top n", first)

    def _fused(self, node: exp.Select, items: Items, partitions: list[list[exp.Expression]]) -> Keyed | None:
        """Windows over windows that have the same partitions, or larger ones: computed together."""
        source, where = node.args["from_"].this, conjuncts(node.args.get("where"))
        if not isinstance(source, exp.Subquery) or node.args.get("joins") or any(map(has_query, where)):
            return None
        below, alias = self.piece(source.this), source.alias
        if not isinstance(below, Keyed) or below.describe != "window":
            return None
        given = [each.name for each in source.args["alias"].args.get("columns") or []]
        columns = columns_above(below, alias, given)
        kinds = dict(zip(outputs_of(below.query), types_of(below.query), strict=True))
        key, rest = ([typed_column(alias, own, kinds[own]) for own in names] for names in (below.key, below.rest))
        parted = [[substituted(each, columns) for each in some] for some in partitions]
        if not all(column in some for column in key for some in parted):
            return None
        mapped = [(name, substituted(each, columns)) for name, each in items]
        for window in [found for _, each in mapped for found in each.find_all(exp.Window)]:
            _break_ties(window, rest)
        return on_top(below, alias, mapped, [substituted(each, columns) for each in where])

    # --- LIMIT ----------------------------------------------------------------------------------------------------

    def limited(self, node: exp.Select | exp.SetOperation) -> Piece:
        limit, offset = (_constant(node.args.get(key)) for key in ("limit", "offset"))
        if node.args.get("offset") is None:
            offset = 0
        if limit is None or limit == 0 or offset is None:
            raise NotCut
        distinct = node.args.get("distinct")
        if isinstance(distinct, exp.Distinct) and distinct.args.get("on") is not None:
            raise NotCut  # it needs the order for itself
        inner, order = _without_order(node)
        found = self.linear(inner)
        outputs, kinds = outputs_of(found), [kind or TEXT for kind in types_of(found)]
        names = {(SOURCE, name): name for name in outputs}
        side = self.arrangements.side(found, names)
        for each in order:
            at = int(each.this.name)
            if not has_order(kinds[at]):
                raise NotCut
            each.set("this", typed_column(SOURCE, outputs[at], kinds[at]))
        arranged = self.arrangements.arranged(side, [], SOURCE, order)
        shown = [(name, arranged.columns[SOURCE, name]) for name in outputs[: len(outputs_of(node))]]
        query = select(shown, arranged.source)
        query.set("order", _order(arranged))
        query.set("limit", exp.Limit(expression=exp.Literal.number(limit)))
        if offset:
            query.set("offset", exp.Offset(expression=exp.Literal.number(offset)))
        return with_key(shown, arranged, query, "top n", limit + offset)


def has_order(kind: SqlType | None) -> bool:
    """Whether rows can be stored in the order of values of a type."""
    return kind is None or kind.name not in ("array", "struct", "map")


def _order(arranged: Arranged) -> exp.Order | None:
    """How rows of one key are stored; where there is never more than one, nothing."""
    return exp.Order(expressions=[each.copy() for each in arranged.order]) if arranged.order else None


def _without_order(node: exp.Select | exp.SetOperation) -> tuple[exp.Query, list[exp.Ordered]]:
    """The query without its last clauses, and its ORDER BY over positions of its columns, some of them added."""
    inner = node.copy()
    for key in ("limit", "offset", "order"):
        inner.set(key, None)
    names, order = outputs_of(node), []
    for number, each in enumerate(node.args["order"].expressions if node.args.get("order") is not None else []):
        ordered = each.copy()
        if isinstance(each.this, exp.Literal) and not each.this.is_string:
            at = int(each.this.name) - 1
        elif isinstance(inner, exp.Select) and inner.args.get("distinct") is None:
            at = len(inner.expressions)
            inner.append("expressions", aliased(each.this.copy(), free_name(f"order_{number}", outputs_of(inner))))
        elif isinstance(inner, exp.SetOperation) and names.count(each.this.name) == 1:
            at = names.index(each.this.name)
        else:
            raise NotCut
        ordered.set("this", exp.Literal.number(at))
        order.append(ordered)
    return inner, order


def _constant(clause: exp.Expression | None) -> int | None:
    found = clause.args.get("expression") if isinstance(clause, (exp.Limit, exp.Offset)) else None
    return int(found.name) if isinstance(found, exp.Literal) and found.name.isdigit() else None


def first_wanted(
    inner: exp.Expression, alias: str, names: Sequence[str], where: Sequence[exp.Expression]
) -> FirstRows | None:
    """Which rows of each partition are asked for of a query whose only window function is row_number().

    ``names``: what its columns are called where the conditions stand.
    """
    if not isinstance(inner, exp.Select) or any(inner.args.get(key) for key in ("limit", "offset", "distinct")):
        return None
    items = [each.unalias() for each in inner.expressions]
    windows = [window for each in items for window in each.find_all(exp.Window)]
    if not windows or any(each != windows[0] for each in windows) or windows[0].args.get("spec") is not None:
        return None
    call = windows[0].this
    if not isinstance(call, exp.Anonymous) or str(call.this).lower() != "row_number":
        return None
    numbers = {name for name, each in zip(names, items, strict=True) if each == windows[0]}
    found = [(_most(each, alias, numbers), isinstance(each, exp.EQ)) for each in where]
    count = min((most for most, _ in found if most is not None), default=0)
    if count <= 0:
        return None
    return FirstRows(count=count, all=all(most is not None and (most == 1 or not exact) for most, exact in found))


def without_unused(inner: exp.Select, alias: str, used: Sequence[exp.Expression]) -> exp.Select:
    """The query without the columns that nobody above it needs."""
    asked = {column.name for each in used for column in each.find_all(exp.Column) if column.table == alias}
    found = inner.copy()
    found.set("expressions", [each.copy() for each in inner.expressions if each.alias_or_name in asked])
    found.set("order", None)  # without a LIMIT it says nothing, and it counts columns that are gone
    return found


def _most(condition: exp.Expression, alias: str, numbers: set[str]) -> int | None:
    """What a condition says that a row's number is at most."""
    one, other = condition.this, condition.args.get("expression")
    if isinstance(condition, (exp.GT, exp.GTE)):
        one, other = other, one
    elif isinstance(condition, exp.EQ) and isinstance(one, exp.Literal):
        one, other = other, one
    elif not isinstance(condition, (exp.LT, exp.LTE, exp.EQ)):
        return None
    if not isinstance(one, exp.Column) or one.table != alias or one.name not in numbers:
        return None
    if not isinstance(other, exp.Literal) or not other.name.isdigit() or other.is_string:
        return None
    return int(other.name) - isinstance(condition, (exp.LT, exp.GT))


def _break_ties(window: exp.Window, rest: Sequence[exp.Column]) -> None:
    """Rows that the order leaves equal come in the order of their stream key, always.

    But a frame by RANGE, as there is one where none is written, has all rows that are equal, or none of them.
    """
    order, spec = window.args.get("order"), window.args.get("spec")
    if order is None:
        return
    call = window.this
    while isinstance(call, (exp.Filter, exp.WithinGroup)):
        call = call.this
    name = str(call.this).lower() if isinstance(call, exp.Anonymous) else ""
    if spec is None:
        counts_rows = name in ("row_number", "lag", "lead", "ntile", "first_value")
    else:
        counts_rows = str(spec.args.get("kind")).upper() == "ROWS"
    if counts_rows:
        for column in rest:
            order.append("expressions", exp.Ordered(this=column.copy()))


def with_key(
    outputs: list[tuple[str, exp.Expression]],
    arranged: Arranged,
    query: exp.Select,
    describe: str,
    first: int | None = None,
) -> Keyed:
    """A piece that has a row for each of its input's, or for some."""
    count = len(outputs)
    key: list[str] = []
    rest: list[str] = []
    kept: list[str] = []
    used = [] if first is None or not arranged.key else _columns_used(arranged, query)
    for columns, names in ((arranged.key, key), (arranged.rest, rest), (used, kept)):
        for column in columns:
            shown = next((name for name, item in outputs if item == column), None)
            if shown is None:
                shown = f"{HIDDEN}{len(outputs) - count}"
                outputs.append((shown, column))
                query.append("expressions", aliased(column.copy(), shown))
            names.append(shown)
    return Keyed(
        query=query,
        visible=count,
        key=tuple(key),
        rest=tuple(each for each in rest if each not in key),
        inputs=(arranged.input,),
        describe=describe,
        first=() if first is None else (first,),
        kept=tuple((column.name, own) for column, own in zip(used, kept, strict=True)),
    )


def _columns_used(arranged: Arranged, query: exp.Select) -> list[exp.Column]:
    """Those of the source that decide what comes of a row, and in which order; each once."""
    found = [*arranged.key, *arranged.rest, *query.find_all(exp.Column)]
    return list({each.name: each for each in found}.values())
