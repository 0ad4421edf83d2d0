"""Blocks of a query for which there is no rule, as others that mean the same and for which there is one.

``BLOCK_RULES`` are the rewrites of every block, in the order in which they run, with those of
:mod:`headrace.plan.unnest`. The last two of the table have places of their own: where a block's windows are, and before
its clauses are looked at.

| what is written | what it becomes |
| --- | --- |
| `x IN (SELECT y FROM u WHERE u.k = t.k)`, `(a, b) IN (SELECT c, d …)` | `EXISTS (SELECT 1 FROM u WHERE … AND y = x)` |
| `EXISTS (SELECT …)` that depends on nothing | `(SELECT count(*) > 0 FROM …)`, which is one row |
| `(SELECT max(y) FROM u WHERE u.k = t.k)` anywhere, also with `ORDER BY … LIMIT 1` | a column of `LEFT JOIN LATERAL` |
| `EXISTS (SELECT … WHERE u.k = t.k)` inside of an expression | the same of `count(*) > 0` |
| a window over aggregates | a window over a query with the aggregates |
| windows that share no column of their partitions | some of them over a query with the others |
| `FETCH FIRST n ROWS ONLY` | `LIMIT n` |
| `count(u)`, `to_jsonb(u)` of a source u | the same of `_hr_row('id', u.id, 'y', u.y)` |
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX
from headrace.plan.expand import lists_rows
from headrace.plan.grouping_sets import grouped_by, is_grouping
from headrace.plan.pieces import (
    aliased,
    conjunction,
    conjuncts,
    free_name,
    has_query,
    outer_columns,
    outputs_of,
    select,
    sources_in,
    subquery,
    substituted,
    typed_column,
)
from headrace.plan.quotients import as_value
from headrace.plan.unnest import Known, Rebind, is_constant, unnested, without_not_in
from headrace.sql.aggregates import is_call
from headrace.sql.dialect import parse_expression, print_sql
from headrace.sql.grouping import has_aggregate
from headrace.sql.tree import WholeRow

BlockRule = Callable[[exp.Select, Known], exp.Select]

_MORE = ("group", "having", "limit", "offset", "with_", "laterals", "qualify")


def with_limit(node: exp.Expression) -> exp.Expression:
    """FETCH as LIMIT; with ties, and of per cents, it stays what it is."""
    fetch = node.args.get("limit")
    options = fetch.args.get("limit_options") if isinstance(fetch, exp.Fetch) else None
    if not isinstance(fetch, exp.Fetch) or (options and any(options.args.get(key) for key in ("percent", "with_ties"))):
        return node
    found = node.copy()
    found.set("limit", exp.Limit(expression=(fetch.args.get("count") or exp.Literal.number(1)).copy()))
    return found


def with_rows_spelled_out(query: exp.Expression) -> exp.Expression:
    """The query with all columns of a source in place of its name as a value, as in ``count(t)`` and ``to_jsonb(t)``.

    A piece has other sources than the block that it was a part of, and a name stays what it is when columns are put in
    place of others.
    """
    for row in list(query.find_all(WholeRow)):
        place = row.parent if isinstance(row.parent, exp.Paren) else row
        columns = [each.copy() for each in row.expressions]
        field = place.parent.expression.name if isinstance(place.parent, exp.Dot) else None
        if isinstance(place.parent, exp.Is):  # asks about the columns
            place.replace(exp.Tuple(expressions=columns))
        elif any(each.name == field for each in columns):
            place.parent.replace(next(each for each in columns if each.name == field))
        else:
            named = [part for each in columns for part in (exp.Literal.string(each.name), each)]
            value: exp.Expression = exp.Anonymous(this="_hr_row", expressions=named)
            if missing := row.args.get("missing"):  # where an outer join has found none
                there = exp.or_(*(exp.Not(this=exp.Is(this=each.copy(), expression=exp.Null())) for each in missing))
                value = exp.Case(ifs=[exp.If(this=there, true=value)])
            row.replace(value)
    return query


def with_exists(node: exp.Select, known: Known) -> exp.Select:
    where = conjuncts(node.args.get("where"))
    found = [_as_exists(each, f"{INTERNAL_PREFIX}e{number}") for number, each in enumerate(where)]
    if found == where:
        return node
    changed = node.copy()
    changed.set("where", exp.Where(this=conjunction(found)))
    return _bound(changed, known.rebound)


def _as_exists(condition: exp.Expression, alias: str) -> exp.Expression:
    if isinstance(condition, exp.In) and condition.args.get("query") is not None:
        query = condition.args["query"]
        query = query.this if isinstance(query, exp.Subquery) else query
        values = condition.this.unnest()
        listed = list(values.expressions) if isinstance(values, exp.Tuple) else [values]
        if len(listed) == 1 and not _outside(query):
            return condition  # there is a rule for it
        if not isinstance(query, exp.Select) or any(query.args.get(key) for key in _MORE) or has_query(values):
            return condition
        items = [each.unalias() for each in query.expressions]
        if len(items) != len(listed) or any(map(has_aggregate, items)) or any(each.find(exp.Window) for each in items):
            return condition
        if lists_rows(query) or _takes_first(query):
            return condition
        if sources_in(values) & _own(query) or query.args.get("from_") is None:
            return condition  # a name means something else inside
        inner = query.copy()
        inner.set("distinct", None)
        inner.set("order", None)
        inner.set("expressions", [aliased(exp.Literal.number(1), "one")])
        same = [exp.EQ(this=item.copy(), expression=each.copy()) for item, each in zip(items, listed, strict=True)]
        inner.set("where", exp.Where(this=conjunction([*conjuncts(query.args.get("where")), *same])))
        return exp.Exists(this=inner)
    asked = condition.this.unnest() if isinstance(condition, exp.Not) else condition
    if isinstance(asked, exp.Exists):
        query = asked.this.this if isinstance(asked.this, exp.Subquery) else asked.this
        if isinstance(query, exp.Query) and not _outside(query) and query.find(exp.Table) is not None:
            sign = "=" if asked is not condition else ">"
            return parse_expression(f'(SELECT count(*) {sign} 0 FROM ({print_sql(query)}) AS "{alias}")')
    return condition


def _takes_first(query: exp.Select) -> bool:
    """DISTINCT ON: which of the rows it takes is decided before any of them is compared."""
    distinct = query.args.get("distinct")
    return distinct is not None and distinct.args.get("on") is not None


def beside(node: exp.Select, known: Known) -> exp.Select:
    """The block with scalar subqueries as sources of their own.

    Those in its columns only if it has neither groups nor windows: there they are values of groups, or of partitions.
    """
    changed = node.copy()
    plain = changed.args.get("group") is None and changed.args.get("having") is None
    plain = plain and not any(has_aggregate(each) or each.find(exp.Window) for each in changed.expressions)
    # With their names: what takes the place of a whole column is found below its name.
    items = changed.expressions if plain else []
    places = [each for each in (changed.args.get("where"), *items) if each is not None]
    for each in [found for place in places for found in place.find_all(exp.Exists)]:
        if (counted := _counted(each)) is not None:
            each.replace(counted)
    constants, laterals = [], []
    for each in [found for place in places for found in place.find_all(exp.Subquery)]:
        alias = f"{INTERNAL_PREFIX}b{len(constants) + len(laterals)}"
        used: exp.Expression = typed_column(alias, "value", None)
        if is_constant(each, changed):
            query, used = as_value(each.this, alias, lazy=not isinstance(each.parent, exp.EQ))
            constants.append(exp.Join(this=subquery(query, alias), kind="CROSS"))
        elif _is_one_value(each, changed):
            name = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
            lateral = exp.Lateral(this=exp.Subquery(this=_value(each)), alias=name)
            laterals.append(exp.Join(this=lateral, side="LEFT", on=exp.Boolean(this=True)))
        else:
            continue
        each.replace(used)
    if not constants and not laterals:
        return node
    for join in (*constants, *laterals):  # what is looked up for each row comes last
        changed.append("joins", join)
    return _bound(changed, known.rebound)


def _counted(asked: exp.Exists) -> exp.Subquery | None:
    """EXISTS as a value, where it is not a condition by itself, for which there is a rule."""
    query = asked.this.this if isinstance(asked.this, exp.Subquery) else asked.this
    if not isinstance(query, exp.Select) or any(query.args.get(key) for key in (*_MORE, "joins")):
        return None
    around = asked.parent
    while isinstance(around, (exp.And, exp.Paren, exp.Not)):
        around = around.parent
    if isinstance(around, exp.Where) or lists_rows(query) or any(has_aggregate(each) for each in query.expressions):
        return None
    found = query.copy()
    found.set("distinct", None)
    found.set("order", None)
    found.set("expressions", [aliased(parse_expression("count(*) > 0"), "value")])
    return exp.Subquery(this=found)


def _value(inner: exp.Subquery) -> exp.Query:
    query = inner.this.copy()
    query.set("expressions", [aliased(query.expressions[0].unalias(), "value")])
    return query


def _is_one_value(inner: exp.Subquery, block: exp.Select) -> bool:
    """Whether it is one row at most, and depends on the row around it."""
    query = inner.this
    if not isinstance(query, exp.Select) or query.args.get("from_") is None or len(query.expressions) != 1:
        return False
    if any(query.args.get(key) for key in ("group", "having", "distinct", "offset", "with_", "joins")):
        return False
    around = inner.parent
    while around is not None and around is not block:
        if isinstance(around, (exp.Query, exp.In, exp.Exists, exp.Any, exp.All, exp.Case)):
            return False  # it belongs to another block, is not a value, or is not always evaluated
        around = around.parent
    limit = query.args.get("limit")
    one = isinstance(limit, exp.Limit) and limit.expression.name == "1"
    aggregate = limit is None and has_aggregate(query.expressions[0].unalias())
    return (one or aggregate) and bool(_outside(query))


def windows_above(node: exp.Select, rebind: Rebind) -> exp.Select | None:
    """Windows over aggregates as windows over a query that has them; None if there is something else among them."""
    names = outputs_of(node)
    if len(set(names)) < len(names) or any(has_query(each) for each in node.expressions):
        return None
    group = node.args.get("group")
    if group is not None and any(group.args.get(key) for key in ("rollup", "cube", "grouping_sets")):
        return None
    keys = grouped_by(group) if group is not None else []
    alias = f"{INTERNAL_PREFIX}groups"
    known: dict[str, tuple[str, exp.Expression]] = {}

    def above(each: exp.Expression, *, of_window: bool = False) -> exp.Expression:
        if not of_window and (each in keys or is_call(each) or is_grouping(each)):
            name, _ = known.setdefault(each.sql(), (f"had_{len(known)}", each.copy()))
            return typed_column(alias, name, None)
        inside = isinstance(each, exp.Window) or (of_window and isinstance(each, (exp.Filter, exp.WithinGroup)))
        for key, value in list(each.args.items()):
            if isinstance(value, exp.Expression):
                each.set(key, above(value, of_window=inside and key == "this"))
            elif isinstance(value, list):
                each.set(key, [above(one) if isinstance(one, exp.Expression) else one for one in value])
        return each

    shown = [(name, above(each.unalias().copy())) for name, each in zip(names, node.expressions, strict=True)]
    inner = node.copy()
    inner.set("order", None)
    inner.set("expressions", [aliased(each, name) for name, each in known.values()])
    return _bound(select(shown, subquery(inner, alias)), rebind) if known else None


def windows_in_turn(node: exp.Select, rebind: Rebind) -> exp.Select | None:
    """Windows of different partitions as those of all but one over a query that has the others; None if one has no
    partition."""
    names, items = outputs_of(node), [each.unalias().copy() for each in node.expressions]
    windows = list(dict.fromkeys(window for each in items for window in each.find_all(exp.Window)))
    partitions = [{each.sql() for each in window.args.get("partition_by") or []} for window in windows]
    below = [window for window, each in zip(windows, partitions, strict=True) if each == partitions[0]]
    if len(set(names)) < len(names) or not all(partitions) or len(below) == len(windows):
        return None
    alias = free_name(f"{INTERNAL_PREFIX}windows", _own(node))
    known = {each: f"had_{number}" for number, each in enumerate(below)}
    above = [
        each.transform(lambda one: typed_column(alias, known[one], None) if one in known else one) for each in items
    ]
    used = {(each.table, each.name): each for one in above for each in one.find_all(exp.Column) if each.table != alias}
    flat = {name: f"column_{number}" for number, name in enumerate(sorted(used))}
    columns = {name: typed_column(alias, own, None) for name, own in flat.items()}
    inner = node.copy()
    inner.set("order", None)
    shown = [(used[name], own) for name, own in flat.items()] + list(known.items())
    inner.set("expressions", [aliased(each.copy(), name) for each, name in shown])
    outer = [(name, substituted(each, columns)) for name, each in zip(names, above, strict=True)]
    return _bound(select(outer, subquery(inner, alias)), rebind)


def _own(query: exp.Expression) -> set[str]:
    return {each.alias_or_name for each in query.find_all(exp.Table, exp.Subquery, exp.Lateral)}


def _outside(query: exp.Expression) -> set[str]:
    """The sources around a query whose columns it uses."""
    return {each.table for each in outer_columns(query)}


def _bound(query: exp.Expression, rebind: Rebind) -> exp.Select:
    found = rebind(query)
    assert isinstance(found, exp.Select)
    return found


BLOCK_RULES: tuple[BlockRule, ...] = (without_not_in, with_exists, unnested, beside)
"""Each leaves a block alone that it has nothing to say about. What one makes of a block, those after it take: NOT IN
becomes NOT EXISTS and subqueries that are one row."""
