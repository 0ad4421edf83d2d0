"""LATERAL with a query that is compared with the row by equality, which ASOF joins are, too.

    SELECT t.id, q.price FROM t ASOF JOIN u ON t.k = u.k AND t.at >= u.at

    SELECT t.id, q.price FROM t CROSS JOIN LATERAL
      (SELECT * FROM u WHERE t.k = u.k AND t.at >= u.at ORDER BY u.at DESC LIMIT 1) AS q

What the query says of a row depends on nothing but the rows of u that have its k. So k is the key of a join, whatever
else the query does with them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from headrace.plan.expand import numbered
from headrace.plan.grouping_sets import has_sets
from headrace.plan.joins import LEFT, RIGHT, Item, Joins, alike, equalities
from headrace.plan.pieces import (
    Keyed,
    NotCut,
    Side,
    conjunction,
    conjuncts,
    has_query,
    merged,
    relations_in,
    select,
    sources_in,
    substituted,
)
from headrace.sql.grouping import has_aggregate


def last_lateral(node: exp.Select) -> exp.Join | None:
    """The last of its joins, if that is a LATERAL query over relations."""
    joins = node.args.get("joins") or []
    return joins[-1] if joins and isinstance(joins[-1].this, exp.Lateral) and relations_in(joins[-1]) else None


class Laterals(Joins):
    def lateral(self, node: exp.Select, items: Sequence[tuple[str, exp.Expression]]) -> Keyed:
        join = last_lateral(node)
        assert join is not None
        inner, alias = join.this.this.this.copy(), join.this.alias
        if (join.args.get("side") or "") not in ("", "LEFT") or not isinstance(inner, exp.Select):
            raise NotCut
        if inner.args.get("from_") is None or inner.args.get("joins") or inner.args.get("with_"):
            raise NotCut
        own = inner.args["from_"].this.alias_or_name
        where = conjuncts(node.args.get("where"))
        outer = {each.this.alias_or_name for each in node.args["joins"][:-1]} | {node.args["from_"].this.alias_or_name}
        if (
            own in outer
            or alias in outer
            or own == alias
            or any(map(has_query, where))
            or has_query(inner.args["from_"].this)
        ):
            raise NotCut
        after = [each for each in where if alias in sources_in(each)]
        equal = equalities(conjuncts(inner.args.get("where")), outer, {own})
        on = [] if join.args.get("on") is None else [join.args["on"]]
        if not equal or any(has_query(each) for each in inner.iter_expressions() if not isinstance(each, exp.From)):
            raise NotCut
        used = [*(each for _, each in items), *after, *on, inner]
        left = self._before(node, [each for each in where if each not in after], used, outer)
        right = self._theirs(inner, own)
        keys = [alike(substituted(a, left.over(LEFT)), substituted(b, right.over(RIGHT))) for _, a, b in equal]
        one = self.arrangements.arranged(left, [a for a, _ in keys], LEFT)
        other = self.arrangements.arranged(right, [b for _, b in keys], RIGHT)
        columns: Mapping = {**one.columns, **other.columns}
        query = _over(inner, other.source, columns)
        if query.args.get("limit") is not None and not query.args.get("distinct"):
            _break_ties(query, other.order)
        lateral = join.copy()
        lateral.this.this.set("this", query)
        if lateral.args.get("on") is not None:
            lateral.set("on", substituted(lateral.args["on"], one.columns))
        shown = [(name, substituted(each, one.columns)) for name, each in items]
        conditions = [substituted(each, one.columns) for each in after]
        return numbered(
            self.arrangements,
            shown,
            select([], one.source, conditions, [lateral]),
            key=one.key,
            rest=one.rest,
            inputs=merged([one.input, other.input]),
            describe="lateral join",
        )

    def _before(
        self, node: exp.Select, where: list[exp.Expression], used: Sequence[exp.Expression], outer: set[str]
    ) -> Side:
        """What stands before the LATERAL, with the columns that are used after it."""
        before = node.copy()
        before.set("joins", before.args["joins"][:-1])
        before.set("where", exp.Where(this=conjunction(where)) if where else None)
        columns = [each for part in used for each in part.find_all(exp.Column) if each.table in outer]
        return self.side(before, columns)

    def _theirs(self, inner: exp.Select, own: str) -> Side:
        """The relation inside, with the columns that its query uses."""
        kinds = {(each.table, each.name): each for each in inner.find_all(exp.Column) if each.table == own}
        item = Item(source=inner.args["from_"].this, alias=own, kind="inner", on=[])
        return self.item_side(item, sorted(kinds), kinds, [])


def _break_ties(query: exp.Select, rows: Sequence[exp.Ordered]) -> None:
    """What a LIMIT takes of those that tie follows from their key: ``rows``, or what they are grouped by."""
    group = query.args.get("group")
    if group is not None:
        plain = not has_sets(group) and not any(isinstance(each, exp.Literal) for each in group.expressions)
        more = [exp.Ordered(this=each.copy()) for each in group.expressions] if plain else []
    elif query.args.get("having") is not None or any(has_aggregate(each.unalias()) for each in query.expressions):
        return  # there is one row
    else:
        more = [each.copy() for each in rows]
    order = query.args.get("order") or exp.Order(expressions=[])
    order.set("expressions", [*order.expressions, *more])
    query.set("order", order if order.expressions else None)


def _over(inner: exp.Select, source: exp.Expression, columns: Mapping) -> exp.Select:
    """The query over another source, whose columns and those of the row around it are called otherwise."""
    found = inner.copy()
    found.set("from_", None)
    found = substituted(found, columns)
    found.set("from_", exp.From(this=source))
    return found
