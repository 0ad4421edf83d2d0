"""From a bound query that is not linear to pieces, each kept up to date by one rule (docs/design/incremental.md).

    SELECT c.name, count(*) FROM orders o JOIN customers c ON o.customer = c.id GROUP BY c.name

becomes, with A, J and B internal tables,

    A  SELECT customer FROM orders                                          by customer       an arrangement
    J  SELECT r.name FROM A l JOIN customers r ON l.customer = r.id         by customer       a join
    B  SELECT name FROM J                                                   by name           an arrangement
       SELECT name, count(*) FROM B GROUP BY name                           by name           the view

customers is read by its own key and needs no arrangement. Where no rule applies to a block of the query, the block is
one piece without a key, which is computed anew whenever one of its inputs changes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from sqlglot import exp

from headrace.catalog import Catalog
from headrace.errors import DuplicateColumn
from headrace.plan.aggregates import Aggregates
from headrace.plan.arrange import Arrangements
from headrace.plan.build import cast_to, refuse, refuse_what_changes
from headrace.plan.events import with_events_stored
from headrace.plan.expand import Expansions, joins_rows, lists_rows
from headrace.plan.lateral import Laterals, last_lateral
from headrace.plan.moments import Moment, moments
from headrace.plan.pieces import (
    HIDDEN,
    SOURCE,
    Keyed,
    NotCut,
    Piece,
    Side,
    aliased,
    branches_of,
    columns_above,
    columns_of,
    conjuncts,
    flat_names,
    free_name,
    has_query,
    merged,
    on_top,
    outputs_of,
    relations_in,
    renamed_columns,
    select,
    subquery,
    substituted,
    typed_column,
)
from headrace.plan.rewrites import BLOCK_RULES, windows_above, with_limit, with_rows_spelled_out
from headrace.plan.top import TopN, first_wanted, with_key, without_unused
from headrace.sql.aggregates import is_call
from headrace.sql.bind import BoundQuery
from headrace.sql.dialect import parse_expression, parse_query, print_sql
from headrace.sql.grouping import has_aggregate
from headrace.sql.names import check_column_names
from headrace.sql.translate import types_of
from headrace.sql.typed import TEXT
from headrace.types import SqlType, quote_sql


def cut(bound: BoundQuery, catalog: Catalog, name: str, names: Sequence[str]) -> tuple[Piece, Arrangements]:
    """The last piece of a view, and the internal tables that it needs; ``names`` are those of the view's columns."""
    _check_names(names)
    return _cut(bound, names, Arrangements(catalog, name)) or _cut(
        bound, names, Arrangements(catalog, name, passing=False)
    )


def _cut(bound: BoundQuery, names: Sequence[str], arrangements: Arrangements) -> tuple[Piece, Arrangements] | None:
    cutter = _Cutter(arrangements)
    query = _without_ctes(with_rows_spelled_out(bound.expression.copy()))
    query = with_events_stored(query, cutter.arrangements)
    try:
        found = cutter.piece(query)
        if not isinstance(found, Keyed):
            found = cutter.arrangements.unless_groups_alone(found)
        found = renamed(found, names)
        for each in cutter.arrangements.made:
            refuse_what_changes(parse_query(each.query or ""))
        refuse_what_changes(found.query if isinstance(found, Keyed) else found)
        return (found, cutter.arrangements) if cutter.arrangements.pass_on(found) else None
    except NotCut:
        raise refuse("VALUES" if isinstance(query, exp.Values) else type(query).__name__, query) from None


def _check_names(names: Sequence[str]) -> None:
    try:
        check_column_names(names)
    except DuplicateColumn as error:
        error.hint = "give one of them another name with AS"
        raise


def renamed(piece: Piece, names: Sequence[str]) -> Piece:
    """The piece with other names for its visible columns."""
    if not isinstance(piece, Keyed):
        query = piece.copy()
        for branch in branches_of(query):
            for each, name in zip(branch.expressions, names, strict=True):
                each.set("alias", exp.to_identifier(name, quoted=True))
        return query
    old = outputs_of(piece.query)[: piece.visible]
    new = dict(zip(old, names, strict=True))
    if all(before == after for before, after in new.items()):
        return piece
    outputs = outputs_of(piece.query)
    kinds = types_of(piece.query)
    items = [(new.get(each, each), typed_column(SOURCE, each, kind)) for each, kind in zip(outputs, kinds, strict=True)]
    if isinstance(piece.query, exp.Select) and not piece.query.args.get("order"):
        query = piece.query.copy()
        for each, (name, _) in zip(query.expressions, items, strict=True):
            each.set("alias", exp.to_identifier(name, quoted=True))
    else:
        query = select(items, subquery(piece.query.copy(), SOURCE))
    return renamed_columns(piece, new, query)


def _without_ctes(query: exp.Expression) -> exp.Expression:
    """The query with its CTEs in the place where they are used, those of the innermost queries first.

    A name means the innermost CTE that has it, so what an outer one is put in place of must not be one of those.
    """
    for each in reversed([each for each in query.find_all(exp.Query) if each.args.get("with_") is not None]):
        clause = each.args["with_"]
        if clause.args.get("recursive"):
            raise refuse("WITH RECURSIVE", clause)
        each.set("with_", None)
        known: dict[str, tuple[list, exp.Expression]] = {}
        for cte in clause.expressions:
            columns = cte.args["alias"].args.get("columns") or []
            known[cte.alias] = (columns, _inlined(cte.this.copy(), known))
        _inlined(each, known)
    return query


def _inlined(query: exp.Expression, known: dict[str, tuple[list, exp.Expression]]) -> exp.Expression:
    for node in list(query.find_all(exp.Table)):
        if node.db or node.name not in known:
            continue
        columns, body = known[node.name]
        alias = node.args.get("alias")
        given = (alias.args.get("columns") if alias is not None else None) or columns
        name = exp.TableAlias(
            this=exp.to_identifier(node.alias or node.name, quoted=True), columns=[each.copy() for each in given]
        )
        node.replace(exp.Subquery(this=body.copy(), alias=name))
    return query


class _Cutter(Laterals, Aggregates, TopN, Expansions):
    def __init__(self, arrangements: Arrangements):
        self.arrangements = arrangements

    def piece(self, query: exp.Expression, first: int | None = None) -> Piece:
        """The query as a piece; what it needs is stored in internal tables.

        ``first``: how many rows of each of its partitions are wanted.
        """
        if isinstance(query, exp.Subquery) and not any(query.args.get(key) for key in ("order", "limit", "offset")):
            return self.piece(query.this, first)
        if not isinstance(query, (exp.Select, exp.SetOperation, exp.Subquery)):
            raise NotCut  # the block around it may know what to do
        before = self.arrangements.mark()
        try:
            found = self.cut_query(query, first)
            if not isinstance(found, Keyed):
                self.arrangements.check_linear(found)
        except NotCut:
            self.arrangements.back_to(before)
            found = self.whole(query)
        if isinstance(found, Keyed):
            return dataclasses.replace(found, query=self.arrangements.rebound(found.query))
        return self.arrangements.rebound(found)

    def cut_query(self, query: exp.Expression, first: int | None = None) -> Piece:
        if isinstance(query, exp.Select):
            return self._select(query, first)
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query)
        raise NotCut

    def rebound(self, query: exp.Expression) -> exp.Query:
        return self.arrangements.rebound(query)

    def linear(self, query: exp.Expression) -> exp.Query:
        """The query as a linear one, over an internal table if need be."""
        found = self.piece(query)
        return self.arrangements.stored(found) if isinstance(found, Keyed) else found

    def whole(self, query: exp.Expression, describe: str = "recompute") -> Keyed:
        """Any query at all: its rows are their own key, numbered where they are the same, or differ only in values that
        cannot be keys."""
        refuse_what_changes(query)
        names = outputs_of(query)
        distinct = [name if names.count(name) == 1 else f"column_{at}" for at, name in enumerate(names)]
        inner = query.copy()
        for branch in branches_of(inner):
            for each, name in zip(branch.expressions, distinct, strict=True):
                each.set("alias", exp.to_identifier(name, quoted=True))
        kinds = [kind or TEXT for kind in types_of(query)]
        columns = [typed_column(SOURCE, name, kind) for name, kind in zip(distinct, kinds, strict=True)]
        keys = [name for name, kind in zip(distinct, kinds, strict=True) if kind.name not in ("array", "struct")]
        listed, parted = (
            ", ".join(f"{quote_sql(SOURCE)}.{quote_sql(each)}" for each in some) for some in (distinct, keys)
        )
        partition = f"PARTITION BY {parted} " if keys else ""
        number = parse_expression(f"row_number() OVER ({partition}ORDER BY {listed})")
        occurrence = f"{HIDDEN}0"
        return Keyed(
            query=select([*zip(distinct, columns, strict=True), (occurrence, number)], subquery(inner, SOURCE)),
            visible=len(distinct),
            key=(),
            rest=(*keys, occurrence),
            inputs=tuple((name, ()) for name in relations_in(query)),
            describe=describe,
        )

    # --- SELECT ---------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select, first: int | None) -> Piece:
        if node.args.get("from_") is None:
            raise NotCut
        node = with_limit(node)
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            return self.limited(node)
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            return self._first_of_each(node, distinct.args["on"])
        if distinct is not None:
            inner = node.copy()
            inner.set("distinct", None)
            inner.set("order", None)
            return self._distinct(self.linear(inner))
        for rule in BLOCK_RULES:
            node = rule(node, self)
        items = [each.unalias() for each in node.expressions]
        grouped = any(node.args.get(key) is not None for key in ("group", "having")) or any(map(has_aggregate, items))
        if lists_rows(node) and (grouped or any(map(_has_window, items))):
            raise NotCut
        if any(_has_window(each) for each in items):
            if grouped or any(map(_aggregates_in_window, items)):
                if (above := windows_above(node, self.arrangements.rebound)) is None:
                    raise NotCut
                return self.cut_query(above, first)
            return self.windowed(node, first)
        return self.aggregated(node) if grouped else self._plain(node)

    def items(self, node: exp.Select) -> list[tuple[str, exp.Expression]]:
        """The columns asked for, under distinct names and with a type."""
        names = [each.alias_or_name for each in node.expressions]
        distinct = [name if names.count(name) == 1 else f"column_{at}" for at, name in enumerate(names)]
        items = []
        for name, each, kind in zip(distinct, node.expressions, types_of(node), strict=True):
            expression = each.unalias()
            items.append((name, expression if kind is not None else cast_to(expression, TEXT)))
        return items

    def _plain(self, node: exp.Select) -> Piece:
        items = self.items(node)
        if any(has_query(each) for _, each in items):
            raise NotCut
        if last_lateral(node) is not None and not lists_rows(node):
            return self.lateral(node, items)
        if lists_rows(node) or joins_rows(node):
            return self.expanded(node, items)
        where = conjuncts(node.args.get("where"))
        if not node.args.get("joins") and not any(map(has_query, where)):
            return self.mapped(node, items, where)
        joined = self.joined(node, [each for _, each in items])
        return joined.keyed(items)

    def mapped(self, node: exp.Select, items: list[tuple[str, exp.Expression]], where: list[exp.Expression]) -> Piece:
        """One source, of which each row becomes one row or none."""
        where, edges = moments(where)
        if edges:
            return self._timed(node, items, where, edges)
        source = node.args["from_"].this
        if not isinstance(source, exp.Subquery):
            self.check_table(source)
            return select(items, source.copy(), where)
        alias = source.alias
        given = [each.name for each in source.args["alias"].args.get("columns") or []]
        called = [*given, *outputs_of(source.this)[len(given) :]]
        first = first_wanted(source.this, alias, called, where)
        if first is not None and not given:
            inner = without_unused(source.this, alias, [*(each for _, each in items), *where])
            below = self.piece(inner, first.count)
        else:
            below = self.piece(source.this, first and first.count)
        if not isinstance(below, Keyed):
            named = renamed(below, [*given, *outputs_of(below)[len(given) :]])
            return select(items, subquery(named, alias), where)
        columns = columns_above(below, alias, given)
        mapped = [(name, substituted(each, columns)) for name, each in items]
        conditions = [substituted(each, columns) for each in where]
        return on_top(below, alias, mapped, conditions, leaves_first=first is not None and first.all)

    def _timed(
        self,
        node: exp.Select,
        items: list[tuple[str, exp.Expression]],
        where: list[exp.Expression],
        edges: list[Moment],
    ) -> Keyed:
        """The same, of rows that are there only at some times: arranged by the moments when that changes.

        What is computed from a row is computed when it is there, and not before: 100 / x may fail.
        """
        computed = not all(isinstance(each, (exp.Column, exp.Literal)) for _, each in items)
        if computed:
            used = {(each.table, each.name): each for _, one in items for each in one.find_all(exp.Column)}
            flat = flat_names(sorted(used))
            shown_above = items
            items = [(flat[name], used[name]) for name in sorted(used)] or [("one", exp.Literal.number(1))]
        names = [name for name, _ in items]
        added = []
        for at, edge in enumerate(edges):
            added.append((free_name(f"moment_{at}", names), edge.of_row))
        there = [exp.Not(this=exp.Is(this=edge.of_row.copy(), expression=exp.Null())) for edge in edges]
        found = self.mapped(node, [*items, *added], [*where, *there])
        for (name, _), edge in zip(added, edges, strict=True):
            query = self.arrangements.stored(found) if isinstance(found, Keyed) else found
            side = self.arrangements.side(query, {(SOURCE, each): each for each in outputs_of(query)})
            moment = exp.Ordered(this=typed_column(SOURCE, name, side.types[name]))
            arranged = self.arrangements.arranged(side, [], SOURCE, [moment])
            shown = [(each, arranged.columns[SOURCE, each]) for each in side.types]
            what = "temporal filter" if edge.watermark is None else "emit on window close"
            piece = with_key(shown, arranged, select(shown, arranged.source), what)
            input = (arranged.input[0], tuple(column.name for column in arranged.rest))
            clock = (name, edge.comparison)
            found = dataclasses.replace(
                piece, key=piece.rest, rest=(), inputs=(input,), clock=clock, watermark=edge.watermark
            )
        assert isinstance(found, Keyed)
        found = dataclasses.replace(found, visible=len(items))
        if not computed:
            return found
        found = dataclasses.replace(found, query=self.arrangements.rebound(found.query))
        columns = {name: columns_above(found, SOURCE, ())[SOURCE, flat[name]] for name in flat}
        return on_top(found, SOURCE, [(name, substituted(each, columns)) for name, each in shown_above], [])

    # --- DISTINCT -------------------------------------------------------------------------------------------------

    def _distinct(self, query: exp.Query) -> Keyed:
        names = outputs_of(query)
        kinds = [kind or TEXT for kind in types_of(query)]
        side = Side(
            query=query,
            names={(SOURCE, name): name for name in names},
            types=dict(zip(names, kinds, strict=True)),
        )
        columns = [typed_column(SOURCE, name, kind) for name, kind in zip(names, kinds, strict=True)]
        arranged = self.arrangements.arranged(side, columns, SOURCE)
        shown = [arranged.columns[SOURCE, name] for name in names]
        found = select(zip(names, shown, strict=True), arranged.source)
        found.set("distinct", exp.Distinct())
        return Keyed(
            query=found,
            visible=len(names),
            key=tuple(names),
            rest=(),
            inputs=(arranged.input,),
            describe="distinct",
        )

    def _first_of_each(self, node: exp.Select, on: exp.Expression) -> Piece:
        """DISTINCT ON: the row that is first among those that are the same in some columns."""
        items = [each.unalias() for each in node.expressions]

        def text(each: exp.Expression) -> str:
            by_number = isinstance(each, exp.Literal) and not each.is_string
            return print_sql(items[int(each.name) - 1] if by_number else each)

        keys = [text(each) for each in (on.expressions if isinstance(on, exp.Tuple) else [on])]
        order = []
        for each in node.args["order"].expressions if node.args.get("order") is not None else []:
            ordered = each.copy()
            ordered.set("this", parse_expression(text(each.this)))
            order.append(print_sql(ordered))
        number = f"row_number() OVER (PARTITION BY {', '.join(keys)} ORDER BY {', '.join(order or keys)})"
        inner = node.copy()
        inner.set("distinct", None)
        inner.set("order", None)
        names = [f"column_{at}" for at in range(len(items))]
        inner.set("expressions", [aliased(each.copy(), name) for each, name in zip(items, names, strict=True)])
        inner.append("expressions", aliased(parse_expression(number), "number"))
        shown = [(own, typed_column(SOURCE, name, None)) for own, name in zip(outputs_of(node), names, strict=True)]
        first = exp.EQ(this=typed_column(SOURCE, "number", None), expression=exp.Literal.number(1))
        return self.cut_query(self.arrangements.rebound(select(shown, subquery(inner, SOURCE), [first])))

    # --- UNION, INTERSECT, EXCEPT ---------------------------------------------------------------------------------

    def _set_operation(self, node: exp.SetOperation) -> Piece:
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            return self.limited(node)
        names = outputs_of(node)
        names = [name if names.count(name) == 1 else f"column_{at}" for at, name in enumerate(names)]
        kinds = [kind or TEXT for kind in types_of(node)]
        parts = [self._converted(self.linear(each), names, kinds) for each in (node.this, node.expression)]
        if isinstance(node, exp.Union):
            union = exp.Union(this=parts[0], expression=parts[1], distinct=False)
            return self._distinct(self.arrangements.rebound(union)) if node.args.get("distinct") else union
        sides, sources, inputs = [], [], []
        for part in parts:
            side = Side(
                query=part,
                names={(SOURCE, name): name for name in names},
                types=dict(zip(names, kinds, strict=True)),
            )
            columns = [typed_column(SOURCE, name, kind) for name, kind in zip(names, kinds, strict=True)]
            arranged = self.arrangements.arranged(side, columns, SOURCE)
            sources.append(select([(name, arranged.columns[SOURCE, name]) for name in names], arranged.source))
            sides.append(side)
            inputs.append(arranged.input)
        all_rows = not node.args.get("distinct")
        found = type(node)(this=sources[0], expression=sources[1], distinct=not all_rows)
        word = type(node).__name__.lower()
        if not all_rows:
            return Keyed(
                query=found, visible=len(names), key=tuple(names), rest=(), inputs=merged(inputs), describe=word
            )
        numbered = self.whole(self.arrangements.rebound(found))
        return Keyed(
            query=numbered.query,
            visible=len(names),
            key=tuple(names),
            rest=numbered.rest[-1:],
            inputs=merged(inputs),
            describe=f"{word} all",
        )

    def _converted(self, query: exp.Query, names: Sequence[str], kinds: Sequence[SqlType]) -> exp.Query:
        """A branch with the names and types of the whole."""
        have = [kind or TEXT for kind in types_of(query)]
        own = outputs_of(query)
        if list(have) == list(kinds) and own == list(names):
            return query
        items = [
            (name, cast_to(typed_column(SOURCE, each, kind), wanted))
            for name, each, kind, wanted in zip(names, own, have, kinds, strict=True)
        ]
        return self.arrangements.rebound(select(items, subquery(query.copy(), SOURCE)))

    # --- FROM -----------------------------------------------------------------------------------------------------

    def side(self, node: exp.Select, used: Sequence[exp.Expression]) -> Side:
        """FROM and WHERE of a block as a linear query that has the columns that the rest of the block uses."""
        where = conjuncts(node.args.get("where"))
        wanted = sorted(set().union(*map(columns_of, used)))
        names = flat_names(wanted)
        if joins_rows(node):
            kinds = {(each.table, each.name): each for one in used for each in one.find_all(exp.Column)}
            items = [(names[name], kinds[name]) for name in wanted] or [("one", exp.Literal.number(1))]
            make = self.lateral if last_lateral(node) is not None else self.expanded
            found: Piece = make(node, items)
        elif not node.args.get("joins") and not any(map(has_query, where)):
            kinds = {(each.table, each.name): each for one in used for each in one.find_all(exp.Column)}
            items = [(names[name], kinds[name]) for name in wanted] or [("one", exp.Literal.number(1))]
            found = self.mapped(node, items, where)
        else:
            joined = self.joined(node, used)
            items = [(names[name], joined.columns[name]) for name in wanted if name in joined.columns] or [
                ("one", exp.Literal.number(1))
            ]
            found = joined.keyed(items)
        query = self.arrangements.stored(found) if isinstance(found, Keyed) else found
        return self.arrangements.side(query, names)


def _has_window(expression: exp.Expression) -> bool:
    return expression.find(exp.Window) is not None


def _aggregates_in_window(expression: exp.Expression) -> bool:
    """Whether a window function takes, or orders by, an aggregate."""
    windows = expression.find_all(exp.Window)
    return any(
        is_call(each) for window in windows for each in window.find_all(exp.Anonymous) if each is not _of(window)
    )


def _of(window: exp.Window) -> exp.Expression:
    function = window.this
    while isinstance(function, (exp.Filter, exp.WithinGroup)):
        function = function.this
    return function
