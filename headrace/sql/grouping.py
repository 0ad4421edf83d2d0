"""Where aggregates may stand, and which columns beside them.

Spark checks this, too, but in its own words and without a position.

>>> from headrace.sql.dialect import parse_expression
>>> has_aggregate(parse_expression("1 + sum(a)")), has_aggregate(parse_expression("sum(a) OVER ()"))
(True, False)
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from headrace.errors import GroupingError, WindowingError
from headrace.sql.aggregates import is_aggregate, is_ordered_set, is_window_function
from headrace.sql.expressions import position_of
from headrace.sql.oracle import AGGREGATE, found_for


def check_grouping(select: exp.Select) -> None:
    """Raises what PostgreSQL would say about the aggregates of a bound SELECT."""
    _refuse_aggregates("WHERE", select.args.get("where"))
    for join in select.args.get("joins") or []:
        _refuse_aggregates("JOIN conditions", join.args.get("on"))
    group, having, order = (select.args.get(key) for key in ("group", "having", "order"))
    _refuse_aggregates("GROUP BY", group)
    parts = [each.unalias() for each in select.expressions]
    parts += [having.this] if having is not None else []
    parts += [each.this for each in order.expressions] if order is not None else []
    for part in parts:
        _refuse_nesting(part)
    if group is None and having is None and not any(map(has_aggregate, parts)):
        return
    keys = _keys(group, select)
    for part in parts:
        _check(part, keys)


def _keys(group: exp.Group | None, select: exp.Select) -> list[exp.Expression]:
    if group is None:
        return []
    sets = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
    owners = [group, *(each for each in _own_nodes(group) if isinstance(each, sets))]
    keys = [key for owner in owners for key in owner.expressions]
    constants = [int(key.name) for key in keys if isinstance(key, exp.Literal) and not key.is_string]
    return keys + [select.expressions[number - 1].unalias() for number in constants]


def _own_nodes(node: exp.Expression) -> Iterator[exp.Expression]:
    """The nodes of an expression, but not those of queries inside it."""
    return node.walk(prune=lambda each: isinstance(each, exp.Query) and each is not node)


def _is_aggregate(node: exp.Expression) -> bool:
    """A call of an aggregate function that is not a window function by its OVER."""
    if not isinstance(node, exp.Anonymous):
        return False
    found = found_for(node)
    if not (is_aggregate(node.this) or is_ordered_set(node.this) or (found is not None and found.kind == AGGREGATE)):
        return False
    child = node
    while isinstance(child.parent, (exp.Filter, exp.WithinGroup)) and child.parent.this is child:
        child = child.parent
    return not (isinstance(child.parent, exp.Window) and child.parent.this is child)


def is_own_aggregate(node: exp.Expression) -> bool:
    """A call of an aggregate function, with its FILTER and WITHIN GROUP."""
    return _is_aggregate(_call(node) if isinstance(node, (exp.Filter, exp.WithinGroup)) else node)


def own_calls(node: exp.Expression) -> list[exp.Anonymous]:
    """The function calls of an expression, but not those of queries inside it."""
    return [each for each in _own_nodes(node) if isinstance(each, exp.Anonymous)]


def has_aggregate(node: exp.Expression) -> bool:
    return any(map(_is_aggregate, _own_nodes(node)))


def _refuse_aggregates(clause: str, node: exp.Expression | None) -> None:
    for each in _own_nodes(node) if node is not None else ():
        if _is_aggregate(each):
            raise GroupingError(f"aggregate functions are not allowed in {clause}", position=position_of(each))
        if isinstance(each, exp.Window):
            raise WindowingError(f"window functions are not allowed in {clause}", position=position_of(each))


def _refuse_nesting(node: exp.Expression) -> None:
    for each in _own_nodes(node):
        if _is_aggregate(each):
            for inner in _own_nodes(each):
                if inner is not each and _is_aggregate(inner):
                    raise GroupingError("aggregate function calls cannot be nested", position=position_of(inner))
                if isinstance(inner, exp.Window) or (
                    inner is not each and isinstance(inner, exp.Anonymous) and is_window_function(inner.this)
                ):
                    raise GroupingError(
                        "aggregate function calls cannot contain window function calls", position=position_of(inner)
                    )


def _check(node: exp.Expression, keys: list[exp.Expression]) -> None:
    """Every column is in a key or in an aggregate."""
    if _is_aggregate(node) or isinstance(node, exp.Query) or any(node == key for key in keys):
        return
    if isinstance(node, (exp.Filter, exp.WithinGroup)) and _is_aggregate(_call(node)):
        return
    if isinstance(node, exp.Anonymous) and node.this == "grouping":
        if not node.expressions or not all(any(each == key for key in keys) for each in node.expressions):
            raise GroupingError(
                "arguments to GROUPING must be grouping expressions of the associated query level",
                position=position_of(node),
            )
        return
    if isinstance(node, exp.Column):
        name = f"{node.table}.{node.name}" if node.table else node.name
        raise GroupingError(
            f'column "{name}" must appear in the GROUP BY clause or be used in an aggregate function',
            position=position_of(node),
        )
    for child in node.iter_expressions():
        _check(child, keys)


def _call(node: exp.Expression) -> exp.Expression:
    while isinstance(node, (exp.Filter, exp.WithinGroup)):
        node = node.this
    return node
