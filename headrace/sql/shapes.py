"""Shapes of a query's tree that mean the same as a simpler one: what binding looks at or rewrites before it binds.

>>> from headrace.sql.dialect import parse_query
>>> is_query(parse_query("(SELECT 1)"))
True
"""

from __future__ import annotations

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX
from headrace.errors import InvalidColumnReference, SqlSyntaxError, UndefinedColumn
from headrace.sql.expressions import COLUMN_TYPE, position_of, unsupported
from headrace.sql.tree import WholeRow


def is_query(node: exp.Expression) -> bool:
    """Whether parentheses hold a query rather than a join."""
    while isinstance(node, exp.Subquery) and node.args.get("alias") is None and not node.args.get("joins"):
        node = node.this
    return isinstance(node, (exp.Select, exp.SetOperation, exp.Values))


def wrapped(node: exp.Expression) -> exp.Expression:
    """A side of a set operation, in parentheses if it would otherwise lose its ORDER BY, LIMIT or WITH."""
    if isinstance(node, (exp.Subquery,)):
        return node
    clauses = ("order", "limit", "offset", "with_")
    if any(node.args.get(key) for key in clauses) or isinstance(node, (exp.SetOperation, exp.Values)):
        return exp.Subquery(this=node)
    return node


def require_alias(node: exp.Expression, what: str) -> str:
    alias = node.args.get("alias")
    if alias is None or not alias.name:
        raise SqlSyntaxError(f"{what} must have an alias", hint="for example (…) AS q", position=position_of(node))
    return alias.name


def unnest_call(node: exp.Unnest) -> exp.Table:
    alias = node.args.get("alias")
    offset = node.args.get("offset")
    if alias is not None and isinstance(offset, exp.Identifier):  # sqlglot took the last column alias for it
        alias.append("columns", offset)
    return exp.Table(
        this=exp.Anonymous(this="unnest", expressions=node.expressions), alias=alias, ordinality=bool(offset) or None
    )


def ordinal(item: exp.Expression) -> int | None:
    if isinstance(item, exp.Literal) and not item.is_string and item.name.isdigit():
        return int(item.name)
    return None


def meaning(node: exp.Select, number: int, clause: str, item: exp.Expression) -> exp.Expression:
    """The output that a number in GROUP BY stands for; a constant stays a number, as it would be taken for one."""
    if not 1 <= number <= len(node.expressions):
        raise InvalidColumnReference(f"{clause} position {number} is not in select list", position=position_of(item))
    expression = node.expressions[number - 1].unalias()
    return exp.Literal.number(number) if isinstance(expression.unnest(), exp.Literal) else expression.copy()


def check_distinct_order(node: exp.Select, order: exp.Order, on: exp.Tuple | None) -> None:
    """Of rows that are alike in what DISTINCT looks at, nothing else has an order."""

    def meant(item: exp.Expression) -> exp.Expression:
        number = ordinal(item)
        return (item if number is None else node.expressions[number - 1].unalias()).unnest()

    if on is None:
        known = [each.unalias().unnest() for each in node.expressions]
        for each in order.expressions:
            if meant(each.this) not in known:
                raise InvalidColumnReference(
                    "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                    position=position_of(each.this),
                )
        return
    wanted = [meant(each) for each in on.expressions]
    left = list(wanted)
    for each in order.expressions:
        item = meant(each.this)
        if item in left:
            left.remove(item)
        elif left and item not in wanted:
            raise InvalidColumnReference(
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                position=position_of(on.expressions[wanted.index(left[0])]),
            )


def name_windows(node: exp.Select) -> None:
    """OVER w means what WINDOW w AS (…) says; a window may itself start from another."""
    named: dict[str, exp.Window] = {}
    for window in node.args.get("windows") or []:
        _expand(window, named)
        named[window.this.name] = window
    node.set("windows", None)
    for window in list(node.find_all(exp.Window)):
        if window.find_ancestor(exp.Select) is node:  # a query inside has windows, and names for them, of its own
            _expand(window, named)


def _expand(window: exp.Window, named: dict[str, exp.Window]) -> None:
    alias = window.args.get("alias")
    if alias is None:
        return
    if alias.name not in named:
        raise UndefinedColumn(f'window "{alias.name}" does not exist', position=position_of(alias))
    for key in ("partition_by", "order", "spec"):
        value = named[alias.name].args.get(key)
        if value and not window.args.get(key):
            window.set(key, [each.copy() for each in value] if isinstance(value, list) else value.copy())
    window.set("alias", None)


def plain_arguments(call: exp.Anonymous) -> list[exp.Expression]:
    """The arguments of a call without the DISTINCT and ORDER BY of an aggregate."""
    arguments = list(call.expressions)
    if arguments and isinstance(arguments[-1], exp.Order):
        arguments[-1] = arguments[-1].this
    if arguments and isinstance(arguments[0], exp.Distinct):
        arguments = [*arguments[0].expressions, *arguments[1:]]
    return [each for each in arguments if not isinstance(each, exp.Star)]


def is_array_query(node: exp.Expression) -> bool:
    named = isinstance(node, exp.Array) or (isinstance(node, exp.Anonymous) and node.this == "array")
    return named and bool(node.expressions) and isinstance(node.expressions[0], exp.Query)


def array_query(node: exp.Expression) -> exp.Expression:
    """ARRAY(SELECT x … ORDER BY y) as the array_agg(x ORDER BY y) of its rows, which is never NULL."""
    query = node.expressions[0]
    while isinstance(query, exp.Subquery) and not any(query.args.get(key) for key in ("order", "limit", "offset")):
        query = query.this
    order = query.args.get("order")
    plain = isinstance(query, exp.Select) and not any(
        query.args.get(key) for key in ("distinct", "group", "having", "limit", "offset", "with_")
    )
    if plain and len(query.expressions) == 1 and query.find(exp.Window) is None:
        item = query.expressions[0]
        value = item.unalias()
        if order is not None:
            value = exp.Order(this=value.copy(), expressions=_keys(query, order))
        query.set("expressions", [exp.Anonymous(this="array_agg", expressions=[value])])
        query.set("order", None)
        return _or_empty(exp.Subquery(this=query))
    collected = exp.column("_v", "_q", quoted=True)
    columns = [exp.to_identifier("_v", quoted=True)]
    if order is not None and (isinstance(query, exp.SetOperation) or query.args.get("distinct")):
        # there ORDER BY speaks of the result's only column
        key = order.expressions[0].copy()
        key.set("this", collected.copy())
        collected = exp.Order(this=collected, expressions=[key])
    elif order is not None:
        window = exp.Window(this=exp.Anonymous(this="row_number"), order=exp.Order(expressions=_keys(query, order)))
        query.append("expressions", exp.alias_(window, "_n", quoted=True))
        columns.append(exp.to_identifier("_n", quoted=True))
        # Spark sorts by no aggregate that is not selected; the number stands for it
        query.set("order", exp.Order(expressions=[exp.Ordered(this=exp.Literal.number(2), nulls_first=False)]))
        number = exp.Ordered(this=exp.column("_n", "_q", quoted=True), nulls_first=False)
        collected = exp.Order(this=collected, expressions=[number])
    alias = exp.TableAlias(this=exp.to_identifier("_q", quoted=True), columns=columns)
    source = exp.Subquery(this=query, alias=alias)
    outer = exp.Select(
        expressions=[exp.Anonymous(this="array_agg", expressions=[collected])], from_=exp.From(this=source)
    )
    return _or_empty(exp.Subquery(this=outer))


def _keys(query: exp.Select, order: exp.Order) -> list[exp.Expression]:
    """What ORDER BY sorts by, with the one output's expression for its number or its name."""
    item = query.expressions[0]
    keys = [each.copy() for each in order.expressions]
    for key in keys:
        if ordinal(key.this) == 1 or (isinstance(key.this, exp.Column) and key.this.name == item.alias):
            key.set("this", item.unalias().copy())
    return keys


def _or_empty(query: exp.Subquery) -> exp.Expression:
    return exp.Anonymous(this="_array_or_empty", expressions=[query])


def fields_of(node: exp.Expression) -> list[tuple[str, exp.Expression]]:
    """What ``(node).*`` stands for, if node is the row of a source; other structs know their fields by their type."""
    if isinstance(node, WholeRow):
        return [(column.name, column.copy()) for column in node.expressions]
    kind = node.meta_get(COLUMN_TYPE)
    if kind is None or kind.name != "struct":
        raise unsupported("(…).* of something else than a row or a struct column", node)
    paren = exp.Paren(this=node)
    return [
        (name, exp.Dot(this=paren.copy(), expression=exp.to_identifier(name, quoted=True))) for name, _ in kind.fields
    ]


def as_in(node: exp.Expression) -> exp.Expression:
    """x = ANY (query) as x IN (query), and x <> ALL (query) as NOT IN."""
    quantifier = node.expression if isinstance(node, (exp.EQ, exp.NEQ)) else None
    inner = quantifier.this.unnest() if isinstance(quantifier, (exp.Any, exp.All)) else None
    if isinstance(inner, exp.Subquery):
        inner = inner.this
    if isinstance(inner, exp.Query):
        if isinstance(node, exp.EQ) and isinstance(quantifier, exp.Any):
            return exp.In(this=node.this.copy(), query=inner.copy())
        if isinstance(node, exp.NEQ) and isinstance(quantifier, exp.All):
            return exp.Not(this=exp.In(this=node.this.copy(), query=inner.copy()))
    return node


def as_lateral(join: exp.Join) -> None:
    """``t ASOF JOIN u ON t.k = u.k AND t.at >= u.at``: of the rows of u for which it holds, the nearest.

    >>> from headrace.sql.dialect import parse_query, print_sql
    >>> query = parse_query("SELECT 1 FROM t ASOF JOIN u ON t.at >= u.at")
    >>> as_lateral(query.args["joins"][0])
    >>> print_sql(query.args["joins"][0], identify=False).partition("WHERE ")[2]
    '"t"."at" >= "_hr_u"."at" ORDER BY "_hr_u"."at" DESC NULLS LAST LIMIT 1) AS "u"'
    """
    alias, on = join.this.alias_or_name, join.args.get("on")
    side = (join.args.get("side") or "").upper()
    form = "write t ASOF [LEFT] JOIN u ON t.key = u.key AND t.at >= u.at, with the names of the tables"
    if not isinstance(join.this, exp.Table) or on is None or side not in ("", "LEFT"):
        raise SqlSyntaxError("ASOF JOIN needs a relation and a condition", hint=form, position=position_of(join.this))
    inner = f"{INTERNAL_PREFIX}{alias}"
    parts = list(on.flatten()) if isinstance(on, exp.And) else [on]
    nearest = [each for each in (_nearest(part.unnest(), alias) for part in parts) if each is not None]
    if len(nearest) != 1:
        raise SqlSyntaxError(
            "ASOF JOIN needs one <, <=, > or >= between its sides", hint=form, position=position_of(on)
        )
    column, descending = nearest[0]
    condition = on.copy()
    order = exp.Ordered(this=column.copy(), desc=descending, nulls_first=False)
    source = join.this.copy()
    source.set("alias", exp.TableAlias(this=exp.to_identifier(inner, quoted=True)))
    query = exp.Select(
        expressions=[exp.Star()],
        from_=exp.From(this=source),
        where=exp.Where(this=condition),
        order=exp.Order(expressions=[order]),
        limit=exp.Limit(expression=exp.Literal.number(1)),
    )
    for each in [*condition.find_all(exp.Column), *order.find_all(exp.Column)]:
        if each.table == alias:
            each.set("table", exp.to_identifier(inner, quoted=True))
    named = exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    join.set("this", exp.Lateral(this=exp.Subquery(this=query), alias=named))
    join.set("method", None)
    join.set("kind", None if side else "CROSS")
    join.set("on", exp.true() if side else None)


def _nearest(condition: exp.Expression, alias: str) -> tuple[exp.Expression, bool] | None:
    """Of a comparison the side that belongs to the relation, and whether the largest is the nearest."""
    if not isinstance(condition, (exp.LT, exp.LTE, exp.GT, exp.GTE)):
        return None
    mine = [
        {each.table for each in side.find_all(exp.Column)} == {alias} for side in (condition.this, condition.expression)
    ]
    if sum(mine) != 1:
        return None
    largest = isinstance(condition, (exp.GT, exp.GTE)) != mine[0]
    return (condition.this if mine[0] else condition.expression), largest
