"""Rewrites that leave a plan's result alone, in the order in which they run.

After them a plan has one of two shapes, which is all that the rest of Headrace has to know: a chain of Project and
Filter over a Scan, or a UnionAll of such chains.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from headrace.plan.nodes import Filter, Node, Project, Scan, UnionAll, columns_in

Rule = Callable[[Node], Node]


def simplify(node: Node) -> Node:
    for rule in RULES:
        node = rule(node)
    return node


def _map(node: Node, function: Rule) -> Node:
    """The node with the function applied to its inputs."""
    if isinstance(node, Filter):
        return Filter(input=function(node.input), condition=node.condition)
    if isinstance(node, Project):
        return Project(input=function(node.input), columns=node.columns)
    if isinstance(node, UnionAll):
        return UnionAll(inputs=tuple(map(function, node.inputs)))
    return node


def lift_unions(node: Node) -> Node:
    """Filters and projections of a union are those of its branches; a union of unions is one union."""
    node = _map(node, lift_unions)
    if isinstance(node, UnionAll):
        branches = []
        for branch in node.inputs:
            branches += branch.inputs if isinstance(branch, UnionAll) else [branch]
        return UnionAll(inputs=tuple(branches))
    if isinstance(node, (Filter, Project)) and isinstance(node.input, UnionAll):
        return UnionAll(inputs=tuple(_map(node, lambda _, branch=branch: branch) for branch in node.input.inputs))
    return node


def merge_projections(node: Node) -> Node:
    """Two projections are one, if that computes nothing twice; a filter moves below one that only renames."""
    node = _map(node, merge_projections)
    if not isinstance(node, (Project, Filter)) or not isinstance(node.input, Project):
        return node
    below = node.input
    names = dict(below.columns)
    computed = {name for name, each in below.columns if not isinstance(each, (exp.Column, exp.Literal))}
    if isinstance(node, Filter):
        if computed:
            return node
        return Project(input=Filter(input=below.input, condition=_rename(node.condition, names)), columns=below.columns)
    uses = [each.name for _, expression in node.columns for each in expression.find_all(exp.Column)]
    if any(uses.count(name) > 1 for name in computed):
        return node
    return Project(input=below.input, columns=tuple((name, _rename(each, names)) for name, each in node.columns))


def _rename(expression: exp.Expression, names: dict[str, exp.Expression]) -> exp.Expression:
    """The expression with other expressions in place of its columns."""
    copy = exp.Paren(this=expression.copy())  # a parent, so that even the root can be replaced
    for each in list(copy.find_all(exp.Column)):
        new = names[each.name].copy()
        whole = each.parent is copy or isinstance(each.parent, (exp.Cast, exp.Anonymous))
        whole = whole or isinstance(new, (exp.Column, exp.Literal, exp.Anonymous, exp.Cast))
        each.replace(new if whole else exp.Paren(this=new))
    return copy.this.pop()


def merge_filters(node: Node) -> Node:
    node = _map(node, merge_filters)
    if isinstance(node, Filter) and isinstance(node.input, Filter):
        both = exp.And(this=_operand(node.input.condition), expression=_operand(node.condition))
        return Filter(input=node.input.input, condition=both)
    return node


def _operand(condition: exp.Expression) -> exp.Expression:
    return exp.Paren(this=condition.copy()) if isinstance(condition, exp.Or) else condition.copy()


def prune_columns(node: Node) -> Node:
    """No operator carries a column that nothing above it uses."""
    return _prune(node, set(node.output))


def _prune(node: Node, wanted: set[str]) -> Node:
    if isinstance(node, Scan):
        kept = tuple(name for name in node.columns if name in wanted)
        return Scan(relation=node.relation, relation_id=node.relation_id, columns=kept)
    if isinstance(node, Filter):
        return Filter(input=_prune(node.input, wanted | columns_in(node.condition)), condition=node.condition)
    if isinstance(node, Project):
        columns = tuple((name, each) for name, each in node.columns if name in wanted)
        below = set().union(*(columns_in(each) for _, each in columns))
        return Project(input=_prune(node.input, below), columns=columns)
    assert isinstance(node, UnionAll)
    return UnionAll(inputs=tuple(_prune(branch, wanted) for branch in node.inputs))


RULES: tuple[Rule, ...] = (lift_unions, merge_projections, merge_filters)
"""prune_columns runs last of all, when the key columns are known: see :mod:`headrace.plan.keys`."""
