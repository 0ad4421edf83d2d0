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

from headrace.catalog import INTERNAL_PREFIX, Catalog
from headrace.errors import DuplicateColumn
from headrace.plan.arrange import Arrangements
from headrace.plan.build import cast_to, refuse, refuse_what_changes
from headrace.plan.events import with_events_stored
from headrace.plan.joins import Joins
from headrace.plan.pieces import (
    HIDDEN,
    Keyed,
    NotCut,
    Piece,
    Side,
    aliased,
    branches_of,
    columns_of,
    conjuncts,
    flat_names,
    has_query,
    merged,
    outputs_of,
    relations_in,
    select,
    subquery,
    substituted,
    typed_column,
)
from headrace.plan.sums import additive, groups, over_groups
from headrace.plan.unnest import unnested
from headrace.sql.bind import BoundQuery
from headrace.sql.dialect import parse_expression, print_sql
from headrace.sql.grouping import has_aggregate, own_calls
from headrace.sql.names import check_column_names
from headrace.sql.sets import is_set_returning
from headrace.sql.translate import types_of
from headrace.sql.typed import TEXT
from headrace.types import SqlType, quote_sql

SOURCE = f"{INTERNAL_PREFIX}s"
"""What a piece calls its only input."""


def cut(bound: BoundQuery, catalog: Catalog, name: str, names: Sequence[str]) -> tuple[Piece, Arrangements]:
    """The last piece of a view, and the internal tables that it needs; ``names`` are those of the view's columns."""
    _check_names(names)
    refuse_what_changes(bound.expression)
    cutter = _Cutter(Arrangements(catalog, name))
    query = with_events_stored(_without_ctes(bound.expression.copy()), cutter.arrangements)
    try:
        return renamed(cutter.piece(query), names), cutter.arrangements
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
    return Keyed(
        query=query,
        visible=piece.visible,
        key=tuple(new.get(each, each) for each in piece.key),
        rest=tuple(new.get(each, each) for each in piece.rest),
        inputs=piece.inputs,
        describe=piece.describe,
    )


def _without_ctes(query: exp.Expression) -> exp.Expression:
    """The query with its CTEs in the place where they are used."""
    clause = query.args.get("with_")
    if clause is None:
        for inner in [each for each in query.find_all(exp.Query) if each.args.get("with_") and each is not query]:
            if inner.args.get("with_") is not None:
                inner.replace(_without_ctes(inner.copy()))
        return query
    if clause.args.get("recursive"):
        raise refuse("WITH RECURSIVE", clause)
    query.set("with_", None)
    ctes = [(each.alias, each.args["alias"].args.get("columns") or [], each.this) for each in clause.expressions]
    known: dict[str, tuple[list, exp.Expression]] = {}
    for name, columns, body in ctes:
        known[name] = (columns, _without_ctes(_inlined(body.copy(), known)))
    return _without_ctes(_inlined(query, known))


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


class _Cutter(Joins):
    def __init__(self, arrangements: Arrangements):
        self.arrangements = arrangements

    def piece(self, query: exp.Expression) -> Piece:
        """The query as a piece; what it needs is stored in internal tables."""
        if isinstance(query, exp.Subquery) and not any(query.args.get(key) for key in ("order", "limit", "offset")):
            return self.piece(query.this)
        if not isinstance(query, (exp.Select, exp.SetOperation, exp.Subquery)):
            raise NotCut  # the block around it may know what to do
        before = self.arrangements.mark()
        try:
            found = self._cut(query)
            if not isinstance(found, Keyed):
                self.arrangements.check_linear(found)
        except NotCut:
            self.arrangements.back_to(before)
            found = self.whole(query)
        if isinstance(found, Keyed):
            return dataclasses.replace(found, query=self.arrangements.rebound(found.query))
        return self.arrangements.rebound(found)

    def _cut(self, query: exp.Expression) -> Piece:
        if isinstance(query, exp.Select):
            return self._select(query)
        if isinstance(query, exp.SetOperation):
            return self._set_operation(query)
        raise NotCut

    def linear(self, query: exp.Expression) -> exp.Query:
        """The query as a linear one, over an internal table if need be."""
        found = self.piece(query)
        return self.arrangements.stored(found) if isinstance(found, Keyed) else found

    def whole(self, query: exp.Expression, describe: str = "recompute") -> Keyed:
        """Any query at all: its rows are their own key, numbered where they are the same."""
        names = outputs_of(query)
        distinct = [name if names.count(name) == 1 else f"column_{at}" for at, name in enumerate(names)]
        inner = query.copy()
        for branch in branches_of(inner):
            for each, name in zip(branch.expressions, distinct, strict=True):
                each.set("alias", exp.to_identifier(name, quoted=True))
        columns = [
            typed_column(SOURCE, name, kind or TEXT) for name, kind in zip(distinct, types_of(query), strict=True)
        ]
        listed = ", ".join(f"{quote_sql(SOURCE)}.{quote_sql(name)}" for name in distinct)
        number = parse_expression(f"row_number() OVER (PARTITION BY {listed} ORDER BY {listed})")
        occurrence = f"{HIDDEN}0"
        return Keyed(
            query=select([*zip(distinct, columns, strict=True), (occurrence, number)], subquery(inner, SOURCE)),
            visible=len(distinct),
            key=(),
            rest=(*distinct, occurrence),
            inputs=tuple((name, ()) for name in relations_in(query)),
            describe=describe,
        )

    # --- SELECT ---------------------------------------------------------------------------------------------------

    def _select(self, node: exp.Select) -> Piece:
        if node.args.get("from_") is None:
            raise NotCut
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            return self._limited(node)
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            return self._first_of_each(node, distinct.args["on"])
        if distinct is not None:
            inner = node.copy()
            inner.set("distinct", None)
            inner.set("order", None)
            return self._distinct(self.linear(inner))
        node = unnested(node, self.arrangements.rebound)
        items = [each.unalias() for each in node.expressions]
        if any(_has_window(each) for each in items):
            return self._windowed(node)
        having = node.args.get("having")
        if node.args.get("group") is not None or having is not None or any(map(has_aggregate, items)):
            return self._aggregated(node)
        return self._plain(node)

    def _items(self, node: exp.Select) -> list[tuple[str, exp.Expression]]:
        """The columns asked for, under distinct names and with a type."""
        names = [each.alias_or_name for each in node.expressions]
        distinct = [name if names.count(name) == 1 else f"column_{at}" for at, name in enumerate(names)]
        items = []
        for name, each, kind in zip(distinct, node.expressions, types_of(node), strict=True):
            expression = each.unalias()
            items.append((name, expression if kind is not None else cast_to(expression, TEXT)))
        return items

    def _plain(self, node: exp.Select) -> Piece:
        items = self._items(node)
        if any(has_query(each) or _makes_rows(each) for _, each in items):
            raise NotCut
        where = conjuncts(node.args.get("where"))
        if not node.args.get("joins") and not any(map(has_query, where)):
            return self._mapped(node, items, where)
        joined = self.joined(node, [each for _, each in items])
        return joined.keyed(items)

    def _mapped(self, node: exp.Select, items: list[tuple[str, exp.Expression]], where: list[exp.Expression]) -> Piece:
        """One source, of which each row becomes one row or none."""
        source = node.args["from_"].this
        if not isinstance(source, exp.Subquery):
            self.check_table(source)
            return select(items, source.copy(), where)
        below = self.piece(source.this)
        alias = source.alias
        given = [each.name for each in source.args["alias"].args.get("columns") or []]
        if not isinstance(below, Keyed):
            named = renamed(below, [*given, *outputs_of(below)[len(given) :]])
            return select(items, subquery(named, alias), where)
        visible = outputs_of(below.query)[: below.visible]
        kinds = types_of(below.query)
        known = [*given, *visible[len(given) :]]
        columns = {
            (alias, name): typed_column(alias, own, kind)
            for name, own, kind in zip(known, visible, kinds, strict=False)
        }
        mapped = [(name, substituted(each, columns)) for name, each in items]
        return _on_top(below, alias, mapped, [substituted(each, columns) for each in where])

    # --- aggregates -----------------------------------------------------------------------------------------------

    def _aggregated(self, node: exp.Select) -> Piece:
        group = node.args.get("group")
        if group is not None and any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets")):
            raise NotCut
        keys = list(group.expressions) if group is not None else []
        sets = (exp.Literal, exp.Tuple, exp.Rollup, exp.Cube, exp.GroupingSets)
        if any(isinstance(each, sets) or has_query(each) for each in keys):
            raise NotCut
        items = self._items(node)
        having = node.args.get("having")
        used = [each for _, each in items] + keys + ([having.this] if having is not None else [])
        if any(map(has_query, used)):
            raise NotCut
        keys = list({each.sql(): each for each in keys}.values())
        side = self.side(node, used)
        if (calls := additive([each for _, each in items] + ([having.this] if having is not None else []))) is not None:
            return self._added_up(side, items, having, calls, keys)
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

    def _added_up(
        self,
        side: Side,
        items: list[tuple[str, exp.Expression]],
        having: exp.Having | None,
        calls: list[exp.Expression],
        keys: list[exp.Expression],
    ) -> Piece:
        columns = side.over(SOURCE)
        calls, keys = ([substituted(each, columns) for each in some] for some in (calls, keys))
        inputs = tuple((name, ()) for name in relations_in(side.query))
        found = self.arrangements.made_of(groups(calls, keys, subquery(side.query.copy(), SOURCE), inputs))
        asked = [(name, substituted(each, columns)) for name, each in items]
        condition = None if having is None else substituted(having.this, columns)
        return over_groups(found, asked, condition, calls, keys)

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
        return self._cut(self.arrangements.rebound(select(shown, subquery(inner, SOURCE), [first])))

    # --- windows, LIMIT -------------------------------------------------------------------------------------------

    def _windowed(self, node: exp.Select) -> Piece:
        items = self._items(node)
        listed = [each for _, each in items]
        having_group = node.args.get("group") is not None or node.args.get("having") is not None
        if having_group or any(map(has_aggregate, listed)) or any(map(has_query, listed)):
            raise NotCut
        windows = [window for each in listed for window in each.find_all(exp.Window)]
        partitions = [window.args.get("partition_by") or [] for window in windows]
        common = [each for each in partitions[0] if all(each in other for other in partitions[1:])]
        common = list({each.sql(): each for each in common}.values())
        if not common or any(isinstance(each, exp.Literal) for each in common):
            raise NotCut
        side = self.side(node, listed)
        keys = [substituted(each, side.over(SOURCE)) for each in common]
        arranged = self.arrangements.arranged(side, keys, SOURCE)
        outputs = [(name, substituted(each, arranged.columns)) for name, each in items]
        for window in [found for _, each in outputs for found in each.find_all(exp.Window)]:
            _break_ties(window, arranged.rest)
        return _with_key(outputs, arranged, select(outputs, arranged.source), "window")

    def _limited(self, node: exp.Select) -> Piece:
        if isinstance(node.args.get("limit"), exp.Fetch):
            raise NotCut
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            raise NotCut
        inner = node.copy()
        for key in ("limit", "offset", "order"):
            inner.set(key, None)
        names = [each.alias_or_name for each in inner.expressions]
        order = []
        for number, each in enumerate(node.args["order"].expressions if node.args.get("order") is not None else []):
            ordered = each.copy()
            if isinstance(each.this, exp.Literal) and not each.this.is_string:
                at = int(each.this.name) - 1
            else:
                if distinct is not None:
                    raise NotCut
                at = len(inner.expressions)
                inner.append("expressions", aliased(each.this.copy(), f"order_{number}"))
            ordered.set("this", exp.Literal.number(at))
            order.append(ordered)
        found = self.linear(inner)
        outputs, kinds = outputs_of(found), [kind or TEXT for kind in types_of(found)]
        columns = [typed_column(SOURCE, name, kind) for name, kind in zip(outputs, kinds, strict=True)]
        for each in order:
            each.set("this", columns[int(each.this.name)].copy())
        order += [exp.Ordered(this=column.copy()) for column in columns]
        visible = [*zip(outputs, columns, strict=True)][: len(names)]
        query = select(visible, subquery(found.copy(), SOURCE))
        query.set("order", exp.Order(expressions=order))
        for key in ("limit", "offset"):
            if node.args.get(key) is not None:
                query.set(key, node.args[key].copy())
        return self.whole(self.arrangements.rebound(query), "recompute (top n)")

    # --- UNION, INTERSECT, EXCEPT ---------------------------------------------------------------------------------

    def _set_operation(self, node: exp.SetOperation) -> Piece:
        if node.args.get("limit") is not None or node.args.get("offset") is not None:
            raise NotCut
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
        if not node.args.get("joins") and not any(map(has_query, where)):
            kinds = {(each.table, each.name): each for one in used for each in one.find_all(exp.Column)}
            items = [(names[name], kinds[name]) for name in wanted] or [("one", exp.Literal.number(1))]
            found = self._mapped(node, items, where)
        else:
            joined = self.joined(node, used)
            items = [(names[name], joined.columns[name]) for name in wanted if name in joined.columns] or [
                ("one", exp.Literal.number(1))
            ]
            found = joined.keyed(items)
        query = self.arrangements.stored(found) if isinstance(found, Keyed) else found
        return self.arrangements.side(query, names)


def _makes_rows(expression: exp.Expression) -> bool:
    return any(is_set_returning(call.this) for call in own_calls(expression))


def _has_window(expression: exp.Expression) -> bool:
    return expression.find(exp.Window) is not None


def _break_ties(window: exp.Window, rest: Sequence[exp.Column]) -> None:
    """Rows that the order leaves equal come in the order of their stream key, always."""
    order = window.args.get("order")
    if order is None or window.args.get("spec") is not None:
        return
    call = window.this
    while isinstance(call, (exp.Filter, exp.WithinGroup)):
        call = call.this
    if isinstance(call, exp.Anonymous) and str(call.this).lower() in ("row_number", "lag", "lead", "ntile"):
        for column in rest:
            order.append("expressions", exp.Ordered(this=column.copy()))


def _with_key(outputs, arranged, query: exp.Select, describe: str) -> Keyed:
    """A piece that has a row for each of its input's."""
    count = len(outputs)
    key, rest = [], []
    for columns, names in ((arranged.key, key), (arranged.rest, rest)):
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
    )


def _on_top(
    below: Keyed, alias: str, items: list[tuple[str, exp.Expression]], where: Sequence[exp.Expression]
) -> Keyed:
    """A projection and a filter of a keyed piece, computed together with it."""
    kinds = dict(zip(outputs_of(below.query), types_of(below.query), strict=True))
    outputs = list(items)
    names: dict[str, str] = {}
    for own in (*below.key, *below.rest):
        column = typed_column(alias, own, kinds[own])
        shown = next((name for name, item in items if item == column), None)
        if shown is None:
            shown = f"{HIDDEN}{len(outputs) - len(items)}"
            outputs.append((shown, column))
        names[own] = shown
    return Keyed(
        query=select(outputs, subquery(below.query.copy(), alias), where),
        visible=len(items),
        key=tuple(names[each] for each in below.key),
        rest=tuple(names[each] for each in below.rest),
        inputs=below.inputs,
        describe=below.describe,
    )
