"""GROUP BY, and aggregates without it: which of their values can be had from old ones, and which need rows.

| what is asked for | how |
| --- | --- |
| counts, sums and averages of exact numbers | from their old values, :mod:`headrace.plan.sums` |
| the same with DISTINCT | the same, over the groups of the values themselves |
| minima and maxima with GROUP BY, or of rows that only come | from their old values, too, or the rows of the group |
| minima and maxima without GROUP BY | from the first row of an arrangement in their order |
| anything else with GROUP BY | from the rows of the touched groups |
| anything else without | from all rows |

Parts of the second and the fourth kind are kept apart from others and joined by their groups; if there is one alone,
the block is a linear query over it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX, Relation
from headrace.plan.arrange import Arrangements
from headrace.plan.grouping_sets import as_union, has_sets
from headrace.plan.pieces import (
    HIDDEN,
    SOURCE,
    Keyed,
    NotCut,
    Piece,
    Side,
    has_query,
    merged,
    relations_in,
    select,
    subquery,
    substituted,
    table,
    typed_column,
)
from headrace.plan.sums import (
    Part,
    adds_up,
    calls_in,
    distinct_argument,
    distinct_groups,
    groups,
    is_extreme,
    is_kept,
    over_parts,
)
from headrace.plan.temporal import only_grows
from headrace.plan.unnest import above_groups
from headrace.sql.aggregates import guarded
from headrace.sql.translate import type_of
from headrace.sql.typed import TEXT

Items = list[tuple[str, exp.Expression]]


class Aggregates:
    arrangements: Arrangements

    def cut_query(self, query: exp.Expression) -> Piece:
        raise NotImplementedError

    def side(self, node: exp.Select, used: Sequence[exp.Expression]) -> Side:
        raise NotImplementedError

    def items(self, node: exp.Select) -> Items:
        raise NotImplementedError

    def aggregated(self, node: exp.Select) -> Piece:
        group = node.args.get("group")
        if group is not None and any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets")):
            raise NotCut
        if group is not None and has_sets(group):
            if (union := as_union(node)) is None:
                raise NotCut
            return self.cut_query(self.arrangements.rebound(union))
        keys = list(group.expressions) if group is not None else []
        if any(isinstance(each, exp.Literal) or has_query(each) for each in keys):
            raise NotCut
        node = node.transform(lambda each: guarded(each) if isinstance(each, exp.Filter) else each)
        items = self.items(node)
        having = node.args.get("having")
        asked = [each for _, each in items] + ([having.this] if having is not None else [])
        if any(map(has_query, asked)):
            if (above := above_groups(node, self.arrangements.rebound)) is None:
                raise NotCut
            return self.cut_query(above)
        keys = list({each.sql(): each for each in keys}.values())
        side = self.side(node, [*asked, *keys])
        calls = calls_in(asked)
        kept = is_kept if keys else is_extreme
        if calls is not None and all(adds_up(call) or kept(call) for call in calls):
            return self._in_parts(side, items, None if having is None else having.this, calls, keys)
        return self._from_rows(side, items, having, keys)

    def _from_rows(self, side: Side, items: Items, having: exp.Having | None, keys: list[exp.Expression]) -> Piece:
        """All values from the rows of a group, or of everything."""
        if keys:
            arranged = self.arrangements.arranged(side, [substituted(each, side.over(SOURCE)) for each in keys], SOURCE)
            source, inputs, columns = arranged.source, (arranged.input,), arranged.columns
        else:
            source, columns = subquery(side.query.copy(), SOURCE), side.over(SOURCE)
            inputs = tuple((name, ()) for name in relations_in(side.query))
        outputs = [(name, substituted(each, columns)) for name, each in items]
        grouped = [substituted(each, columns) for each in keys]
        key = []
        for each in grouped:
            shown = next((name for name, item in outputs if item == each), None)
            if shown is None:
                shown = f"{HIDDEN}{len(outputs) - len(items)}"
                outputs.append((shown, each))
            key.append(shown)
        query = select(outputs, source)
        if grouped:
            query.set("group", exp.Group(expressions=[each.copy() for each in grouped]))
        if having is not None:
            query.set("having", exp.Having(this=substituted(having.this, columns)))
        return Keyed(
            query=query,
            visible=len(items),
            key=tuple(key),
            rest=(),
            inputs=inputs,
            describe="aggregate" if keys else "recompute",
        )

    # --- parts ----------------------------------------------------------------------------------------------------

    def _in_parts(
        self,
        side: Side,
        items: Items,
        having: exp.Expression | None,
        calls: list[exp.Expression],
        keys: list[exp.Expression],
    ) -> Piece:
        columns = side.over(SOURCE)
        calls, keys = ([substituted(each, columns) for each in some] for some in (calls, keys))
        asked = [(name, substituted(each, columns)) for name, each in items]
        condition = None if having is None else substituted(having, columns)
        grows = all(only_grows(each, self.arrangements.catalog) for each in self._relations(side))
        alone = [call for call in calls if is_extreme(call) and not (is_kept(call) and (keys or grows))]
        plain = [call for call in calls if distinct_argument(call) is None and call not in alone]
        parts: list[Part] = []
        if plain or not calls:
            parts.append(self._added_up(side, plain, keys, may_shrink=not grows))
        arguments = [distinct_argument(call) for call in calls]
        for argument in {each.sql(): each for each in arguments if each is not None}.values():
            mine = [call for call, its in zip(calls, arguments, strict=True) if its == argument]
            parts.append(self._of_values(side, argument, mine, keys))
        for call in alone:
            parts.append(self._extreme(side, call, len(parts)))
        if len(parts) == 1 and parts[0].stored:
            return over_parts(parts, asked, condition, keys)
        return self._joined_parts(parts, asked, condition, keys)

    def _relations(self, side: Side) -> list[Relation]:
        return [self.arrangements.catalog.get(name) for name in relations_in(side.query)]

    def _added_up(
        self, side: Side, calls: list[exp.Expression], keys: list[exp.Expression], *, may_shrink: bool = False
    ) -> Part:
        if may_shrink and any(map(is_extreme, calls)):
            arranged = self.arrangements.arranged(side, keys, SOURCE)
            relation = self.arrangements.made_of(groups(calls, keys, arranged.source, (arranged.input,)))
        else:
            inputs = tuple((name, ()) for name in relations_in(side.query))
            relation = self.arrangements.made_of(groups(calls, keys, subquery(side.query.copy(), SOURCE), inputs))
        source = table(relation.name, relation.name)
        return Part.of_groups(relation, source, [(call, f"value_{at}") for at, call in enumerate(calls)])

    def _of_values(
        self, side: Side, argument: exp.Expression, calls: list[exp.Expression], keys: list[exp.Expression]
    ) -> Part:
        """Aggregates with DISTINCT of one argument: the groups of its values, and what those add up to."""
        counts, outer = distinct_groups(calls, len(keys))
        values = self._added_up(side, counts, [*keys, argument]).relation
        source = table(values.name, SOURCE)
        columns = {(SOURCE, each.name): typed_column(SOURCE, each.name, each.type) for each in values.columns}
        own_keys = [columns[SOURCE, f"group_{at}"] for at in range(len(keys))]
        own_calls = [substituted(each, columns) for each in outer]
        relation = self.arrangements.made_of(groups(own_calls, own_keys, source, ((values.name, ()),)))
        named = [(call, f"value_{at}") for at, call in enumerate(calls)]
        return Part.of_groups(relation, table(relation.name, relation.name), named)

    def _extreme(self, side: Side, call: exp.Expression, number: int) -> Part:
        """A minimum or maximum of all rows: those that count, in its order, of which the first says it."""
        inner = call.this if isinstance(call, exp.Filter) else call
        (argument,) = inner.expressions
        argument = argument.expressions[0] if isinstance(argument, exp.Distinct) else argument
        where: list[exp.Expression] = [exp.Not(this=exp.Is(this=argument.copy(), expression=exp.Null()))]
        if isinstance(call, exp.Filter):
            where.append(call.expression.this)
        query = select([("value", argument)], subquery(side.query.copy(), SOURCE), where)
        kind = type_of(argument) or TEXT
        values = Side(query=query, names={(SOURCE, "value"): "value"}, types={"value": kind})
        alias = f"{INTERNAL_PREFIX}p{number}"
        largest = str(inner.this).lower() == "max"
        order = [exp.Ordered(this=typed_column(alias, "value", kind), desc=largest, nulls_first=False)]
        arranged = self.arrangements.arranged(values, [], alias, order)
        found = exp.Anonymous(this=str(inner.this).lower(), expressions=[arranged.columns[SOURCE, "value"]])
        source = subquery(select([("value", found)], arranged.source), alias)
        return Part(source=source, alias=alias, calls=((call, "value"),), input=arranged.input, types={"value": kind})

    def _joined_parts(
        self, parts: list[Part], asked: Items, condition: exp.Expression | None, keys: list[exp.Expression]
    ) -> Keyed:
        query = over_parts(parts, asked, condition, keys)
        outputs, key = [(each.alias, each.unalias()) for each in query.expressions], []
        for at in range(len(keys)):
            column = parts[0].column(f"group_{at}")
            shown = next((name for name, item in outputs if item == column), None)
            if shown is None:
                shown = f"{HIDDEN}{len(outputs) - len(asked)}"
                outputs.append((shown, column))
                query.append("expressions", exp.Alias(this=column, alias=exp.to_identifier(shown, quoted=True)))
            key.append(shown)
        names = tuple(f"group_{at}" for at in range(len(keys)))
        inputs = merged((part.input[0], names) for part in parts)
        return Keyed(
            query=query,
            visible=len(asked),
            key=tuple(key),
            rest=(),
            inputs=inputs,
            describe="aggregate",
            first=() if keys else (1,) * len(inputs),
        )
