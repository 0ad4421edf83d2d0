"""Scalar subqueries that depend on the row around them, as joins with what they say of each value that they depend on.

    … WHERE x < (SELECT max(y) FROM u WHERE u.k = t.k)

is, because a comparison with the NULL of a group that is not there is not true,

    … JOIN (SELECT u.k AS key_0, max(y) AS value FROM u GROUP BY u.k) AS q ON q.key_0 = t.k … WHERE x < q.value

One that depends on nothing is one row, with which all others are joined. In HAVING that is done above the groups:

    SELECT k, sum(x) AS s FROM t GROUP BY k HAVING sum(x) > (SELECT avg(n) FROM u)

    SELECT s.k, s.s FROM (SELECT k, sum(x) AS s, sum(x) AS had_0 FROM t GROUP BY k) AS s CROSS JOIN
      (SELECT avg(n) AS value FROM u) AS q WHERE s.had_0 > q.value
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX
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
    typed_column,
)
from headrace.plan.quotients import as_value
from headrace.sql.aggregates import is_call
from headrace.sql.dialect import parse_expression, print_sql
from headrace.sql.grouping import has_aggregate, own_calls
from headrace.sql.translate import types_of

COMPARISONS = (exp.EQ, exp.LT, exp.LTE, exp.GT, exp.GTE)

Rebind = Callable[[exp.Expression], exp.Query]


class Known(Protocol):
    """What a rule asks about the relations of a block."""

    def rebound(self, query: exp.Expression) -> exp.Query:
        """A query that was put together, bound again."""

    def without_nulls(self, condition: exp.In, node: exp.Select) -> bool:
        """Whether neither side of IN can be NULL."""


def unnested(node: exp.Select, known: Known) -> exp.Select:
    """The block with such subqueries in its FROM."""
    where = conjuncts(node.args.get("where"))
    found, changed, rebind = [], node.copy(), known.rebound
    for number, each in enumerate(where):
        joined = _joined(each, f"{INTERNAL_PREFIX}q{number}", rebind)
        found += [each] if joined is None else joined[1]
        if joined is not None:
            changed.append("joins", exp.Join(this=joined[0], kind="CROSS"))
    lifted = [_lifted(each, f"{INTERNAL_PREFIX}w{number}_", changed, rebind) for number, each in enumerate(found)]
    if lifted == where:
        return node
    changed.set("where", exp.Where(this=conjunction(lifted)))
    bound = rebind(changed)
    assert isinstance(bound, exp.Select)
    return bound


def without_not_in(node: exp.Select, known: Known) -> exp.Select:
    """The block with NOT IN taken apart, where NULLs are possible: then it is not true if there is one on any side.

    x NOT IN (q)    NOT EXISTS (SELECT 1 FROM q WHERE q.y = x) AND
                    (q has no rows OR (x IS NOT NULL AND q has none that are NULL))
    """
    where = conjuncts(node.args.get("where"))
    found: list[exp.Expression] = []
    for number, each in enumerate(where):
        inner = each.this.unnest() if isinstance(each, exp.Not) else None
        asked = isinstance(inner, exp.In) and inner.args.get("query") is not None
        if not asked or known.without_nulls(inner, node) or not _is_apart(inner):
            found.append(each)
            continue
        alias = f'"{INTERNAL_PREFIX}n{number}"'
        query = inner.args["query"]
        source = f"({print_sql(query.this if isinstance(query, exp.Subquery) else query)}) AS {alias}"
        value, column = print_sql(inner.this), f"{alias}.{exp.to_identifier(outputs_of(query)[0], quoted=True).sql()}"
        texts = [
            f"NOT EXISTS (SELECT 1 FROM {source} WHERE {column} = {value})",
            f"((SELECT count(*) = 0 FROM {source}) OR"
            f" ({value} IS NOT NULL AND (SELECT count(*) = 0 FROM {source} WHERE {column} IS NULL)))",
        ]
        found += [parse_expression(text) for text in texts]
    if found == where:
        return node
    changed = node.copy()
    changed.set("where", exp.Where(this=conjunction(found)))
    bound = known.rebound(changed)
    assert isinstance(bound, exp.Select)
    return bound


def _is_apart(condition: exp.In) -> bool:
    """Whether what is compared with depends on nothing, and what is compared is one value."""
    apart = not outer_columns(condition.args["query"])
    return apart and not isinstance(condition.this.unnest(), exp.Tuple) and not has_query(condition.this)


def _lifted(condition: exp.Expression, prefix: str, node: exp.Select, rebind: Rebind) -> exp.Expression:
    """The condition with columns in place of subqueries that depend on nothing, which the block then joins with."""
    held = exp.Paren(this=condition.copy())
    asked = [each for each in held.find_all(exp.Subquery) if is_constant(each)]
    for number, each in enumerate(asked):
        # An equality is looked up by the value, which has to be there for that.
        query, used = as_value(each.this, alias := f"{prefix}{number}", lazy=not isinstance(condition, exp.EQ))
        node.append("joins", exp.Join(this=subquery(rebind(query), alias), kind="CROSS"))
        each.replace(used)
    return held.this.pop() if asked else condition


def is_constant(inner: exp.Subquery, block: exp.Expression | None = None) -> bool:
    """Whether it is one value, always there, and the same for all rows; ``block``: the block that it stands in."""
    query = inner.this
    if not isinstance(query, exp.Select) or query.args.get("from_") is None or len(query.expressions) != 1:
        return False
    if any(query.args.get(key) for key in ("group", "having", "distinct", "limit", "offset", "with_")):
        return False
    around = inner.parent
    while around is not None and around is not block:
        if isinstance(around, (exp.Query, exp.In, exp.Exists)):
            return False  # it belongs to another block, or is not a value
        around = around.parent
    return has_aggregate(query.expressions[0].unalias()) and not outer_columns(query)


def above_groups(node: exp.Select, rebind: Rebind) -> exp.Select | None:
    """A block with such subqueries in HAVING, or beside aggregates, as a query over the block without them; None if it
    has others."""
    having = node.args.get("having")
    parts = conjuncts(having.this) if having is not None else []
    asked = [each for each in parts if has_query(each)]
    kept = [each for each in parts if each not in asked]
    names, items = outputs_of(node), [each.unalias() for each in node.expressions]
    calls = [call for each in (*items, *asked) for call in each.walk() if is_call(call)]
    if len(set(names)) < len(names) or any(map(has_query, calls)):
        return None
    keys = list(node.args["group"].expressions) if node.args.get("group") is not None else []
    # What a query inside takes of the row around it must be a value of the group.
    inside = [each for part in (*items, *asked) for each in part.find_all(exp.Query)]
    around = [column for each in inside for column in outer_columns(each)]
    if any(column.table in _aliases(node) and column not in keys for column in around):
        return None
    inner, alias = node.copy(), f"{INTERNAL_PREFIX}groups"
    inner.set("order", None)
    inner.set("having", exp.Having(this=conjunction(kept)) if kept else None)
    known: dict[str, tuple[str, exp.Expression]] = {}

    def shown_above(each: exp.Expression) -> exp.Column:
        name, _ = known.setdefault(each.sql(), (free_name(f"had_{len(known)}", names), each.copy()))
        return typed_column(alias, name, None)

    def above(each: exp.Expression) -> exp.Expression:
        if isinstance(each, exp.Query):
            for column in outer_columns(each):
                column.replace(shown_above(column))
            return each
        if each in keys or is_call(each):
            return shown_above(each)
        for name, value in list(each.args.items()):
            if isinstance(value, exp.Expression):
                each.set(name, above(value))
            elif isinstance(value, list):
                each.set(name, [above(one) if isinstance(one, exp.Expression) else one for one in value])
        return each

    conditions = [above(each.copy()) for each in asked]
    shown = [
        (name, above(each.copy()) if has_query(each) else typed_column(alias, name, None))
        for name, each in zip(names, items, strict=True)
    ]
    plain = [aliased(each.copy(), name) for name, each in zip(names, items, strict=True) if not has_query(each)]
    inner.set("expressions", [*plain, *(aliased(each, name) for name, each in known.values())])
    if not inner.expressions:  # of which it is enough to know that there are groups
        inner.set("expressions", [aliased(exp.Literal.number(1), "one")])
    return rebind(select(shown, subquery(inner, alias), conditions))


def _joined(condition: exp.Expression, alias: str, rebind: Rebind) -> tuple[exp.Subquery, list[exp.Expression]] | None:
    """What to join with, and the conditions that take the place of this one."""
    if not isinstance(condition, COMPARISONS):
        return None
    sides = [condition.this.unnest(), condition.expression.unnest()]
    inner = next((side for side in sides if isinstance(side, (exp.Subquery, exp.Select))), None)
    if inner is None or sum(map(has_query, sides)) != 1:
        return None
    query = inner.this if isinstance(inner, exp.Subquery) else inner
    if not _is_one_value(query):
        return None
    own = _aliases(query)
    where = conjuncts(query.args.get("where"))
    outside = [each for each in where if not sources_in(each) <= own]
    pairs = [_pair(each, own) for each in outside]
    if not pairs or any(pair is None for pair in pairs) or not sources_in(query.expressions[0]) <= own:
        return None
    keys = [key for key, _ in pairs]
    value = query.expressions[0].unalias()
    names = [f"key_{at}" for at in range(len(keys))]
    grouped = select(
        [*zip(names, keys, strict=True), ("value", value)],
        query.args["from_"].this.copy(),
        [each for each in where if each not in outside],
        [join.copy() for join in query.args.get("joins") or []],
    )
    grouped.set("group", exp.Group(expressions=[key.copy() for key in keys]))
    bound = rebind(grouped)
    types = dict(zip(outputs_of(bound), types_of(bound), strict=True))
    found = [
        exp.EQ(this=outer.copy(), expression=typed_column(alias, name, types[name]))
        for name, (_, outer) in zip(names, pairs, strict=True)
    ]
    compared = condition.copy()
    for name, side in (("this", sides[0]), ("expression", sides[1])):
        if side is inner:
            compared.set(name, typed_column(alias, "value", types["value"]))
    return subquery(bound, alias), [*found, compared]


def _is_one_value(query: exp.Expression) -> bool:
    """An aggregate without groups that is NULL if there are no rows."""
    if not isinstance(query, exp.Select) or query.args.get("from_") is None or len(query.expressions) != 1:
        return False
    if any(query.args.get(key) for key in ("group", "having", "distinct", "limit", "offset", "order", "with_")):
        return False
    value = query.expressions[0].unalias()
    strict = (exp.Mul, exp.Add, exp.Sub, exp.Div, exp.Neg, exp.Paren, exp.Literal)
    while isinstance(value, strict):
        parts = [each for each in (value.this, value.args.get("expression")) if isinstance(each, exp.Expression)]
        parts = [each for each in parts if not isinstance(each, exp.Literal)]
        if len(parts) != 1:
            return False
        value = parts[0]
    calls = own_calls(value)
    return isinstance(value, exp.Anonymous) and has_aggregate(value) and str(calls[0].this).lower() in (
        "min", "max", "sum", "avg",
    )  # fmt: skip


def _aliases(query: exp.Select) -> set[str]:
    sources = [query.args["from_"].this, *(join.this for join in query.args.get("joins") or [])]
    return {each.alias_or_name for each in sources}


def _pair(condition: exp.Expression, own: set[str]) -> tuple[exp.Expression, exp.Expression] | None:
    """Of an equality the side of the subquery, and the other."""
    if not isinstance(condition, exp.EQ) or has_query(condition) or condition.find(exp.Any, exp.All):
        return None  # x = ANY (array) holds for several groups at once
    one, other = sources_in(condition.this), sources_in(condition.expression)
    if one and one <= own and other and not other & own:
        return condition.this, condition.expression
    if other and other <= own and one and not one & own:
        return condition.expression, condition.this
    return None
