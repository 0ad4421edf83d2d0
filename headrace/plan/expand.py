"""Functions that return rows, in FROM or among the columns, and LATERAL queries over nothing but the row.

    SELECT t.id, u.tag FROM t, unnest(t.tags) AS u (tag)

Each row of t becomes some rows, which depend on nothing else. So the key is that of t, and its rows are told apart by a
number: their place among the rows of the key, in the order of their values.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.plan.arrange import Arrangements
from headrace.plan.pieces import (
    HIDDEN,
    SOURCE,
    Inputs,
    Keyed,
    NotCut,
    Piece,
    conjuncts,
    flat_names,
    has_query,
    outputs_of,
    relations_in,
    select,
    subquery,
    substituted,
    typed_column,
)
from headrace.sql.grouping import own_calls
from headrace.sql.sets import is_set_returning
from headrace.sql.translate import types_of
from headrace.sql.typed import TEXT

ROW = f"{HIDDEN}row"
"""What the piece calls the source whose rows become others."""


def lists_rows(node: exp.Select) -> bool:
    """Whether a column of the block is a function that returns rows."""
    return any(is_set_returning(call.this) for each in node.expressions for call in own_calls(each))


def joins_rows(node: exp.Select) -> bool:
    """Whether such functions, or LATERAL, are among its sources."""
    return any(map(_is_function, node.args.get("joins") or []))


def _is_function(join: exp.Join) -> bool:
    return isinstance(join.this, exp.Lateral) or (
        isinstance(join.this, exp.Table) and isinstance(join.this.this, exp.Anonymous)
    )


class Expansions:
    arrangements: Arrangements

    def piece(self, query: exp.Expression, first: int | None = None) -> Piece:
        raise NotImplementedError

    def mapped(self, node: exp.Select, items: list, where: list) -> Piece:
        raise NotImplementedError

    def expanded(self, node: exp.Select, items: Sequence[tuple[str, exp.Expression]]) -> Keyed:
        joins, where = node.args.get("joins") or [], conjuncts(node.args.get("where"))
        source = node.args["from_"].this
        alone = all(map(_is_function, joins)) and not any(relations_in(join) for join in joins)
        outer = any((join.args.get("side") or "") in ("RIGHT", "FULL") for join in joins)
        if not alone or outer or any(map(has_query, where)):
            raise NotCut
        parts = [*(each for _, each in items), *where, *joins]
        found = {(each.table, each.name): each for part in parts for each in part.find_all(exp.Column)}
        wanted = sorted(name for name in found if name[0] == source.alias_or_name)
        names = flat_names(wanted)
        columns = [(names[name], found[name]) for name in wanted] or [("one", exp.Literal.number(1))]
        below = self.mapped(select([], source.copy()), columns, [])
        query = self.arrangements.stored(below) if isinstance(below, Keyed) else below
        one = self.arrangements.itself(self.arrangements.side(query, names), ROW)
        if not one.key:
            raise NotCut
        shown = [(name, substituted(each, one.columns)) for name, each in items]
        around = select(
            [],
            one.source,
            [substituted(each, one.columns) for each in where],
            [substituted(join, one.columns) for join in joins],
        )
        return numbered(
            self.arrangements, shown, around, key=one.key, rest=[], inputs=(one.input,), describe="table function"
        )


def numbered(
    arrangements: Arrangements,
    shown: Sequence[tuple[str, exp.Expression]],
    around: exp.Select,
    *,
    key: Sequence[exp.Expression],
    rest: Sequence[exp.Expression],
    inputs: Inputs,
    describe: str,
) -> Keyed:
    """A block without its columns, which makes several rows of one: a number tells them apart."""
    carried = [(f"{HIDDEN}{at}", each) for at, each in enumerate([*key, *rest])]
    inner = select([*shown, *carried], around.args["from_"].this)
    for clause in ("joins", "where"):
        inner.set(clause, around.args.get(clause))
    inner = arrangements.rebound(inner)
    kinds = [kind or TEXT for kind in types_of(inner)]
    own = [typed_column(SOURCE, name, kind) for name, kind in zip(outputs_of(inner), kinds, strict=True)]
    number = exp.Window(
        this=exp.Anonymous(this="row_number"),
        partition_by=[each.copy() for each in own[len(shown) :]],
        order=exp.Order(expressions=[exp.Ordered(this=each.copy()) for each in own[: len(shown)]]),
    )
    outputs = [*zip(outputs_of(inner), own, strict=True), (f"{HIDDEN}{len(carried)}", number)]
    names = [name for name, _ in carried]
    return Keyed(
        query=select(outputs, subquery(inner, SOURCE)),
        visible=len(shown),
        key=tuple(names[: len(key)]),
        rest=(*names[len(key) :], f"{HIDDEN}{len(carried)}"),
        inputs=inputs,
        describe=describe,
    )
