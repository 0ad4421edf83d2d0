"""GROUPING SETS, CUBE and ROLLUP: one query for each set of groups, put together by UNION ALL.

    SELECT a, b, count(*) FROM t GROUP BY ROLLUP (a, b)

    SELECT a, b, count(*) FROM t GROUP BY a, b
    UNION ALL SELECT a, CAST(NULL AS …), count(*) FROM t GROUP BY a
    UNION ALL SELECT CAST(NULL AS …), CAST(NULL AS …), count(*) FROM t GROUP BY <a constant>

The last is a group, too, and not an aggregate without groups: of no rows there is nothing, as in a query.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from sqlglot import exp

from headrace.plan.build import cast_to
from headrace.sql.aggregates import is_call
from headrace.sql.translate import type_of
from headrace.sql.typed import INTEGER, SMALLINT, TEXT

SETS = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)

MOST = 256
"""Sets of groups, each of which is kept by itself."""


def has_sets(group: exp.Group) -> bool:
    return any(isinstance(each, SETS) for each in group.expressions)


def grouped_by(group: exp.Group) -> list[exp.Expression]:
    """What any of its sets groups by, each once."""
    return _once([each for one in _product([_sets(each) for each in group.expressions]) for each in one])


def is_grouping(node: exp.Expression) -> bool:
    """Whether it is a call of grouping(), which is a value of the group as an aggregate is."""
    return isinstance(node, exp.Anonymous) and str(node.this).lower() == "grouping"


def as_union(node: exp.Select) -> exp.Query | None:
    """The block as a query for each of its sets; None if there are too many of them, or only one without columns."""
    sets = _product([_sets(each) for each in node.args["group"].expressions])
    every = _once([each for one in sets for each in one])
    if not every or len(sets) > MOST:
        return None
    branches = [_branch(node, one, every) for one in sets]
    found: exp.Query = branches[0]
    for each in branches[1:]:
        found = exp.Union(this=found, expression=each, distinct=False)
    return found


def _sets(item: exp.Expression) -> list[list[exp.Expression]]:
    """
    >>> from headrace.sql.dialect import parse_query
    >>> group = parse_query("SELECT 1 FROM t GROUP BY a, ROLLUP (b, c)").args["group"]
    >>> [[each.name for each in one] for one in _product([_sets(each) for each in group.expressions])]
    [['a', 'b', 'c'], ['a', 'b'], ['a']]
    """
    if isinstance(item, exp.Tuple):
        return [list(item.expressions)]
    if isinstance(item, exp.GroupingSets):
        return [one for each in item.expressions for one in _sets(each)]
    if not isinstance(item, (exp.Rollup, exp.Cube)):
        return [[item]]
    parts = [list(each.expressions) if isinstance(each, exp.Tuple) else [each] for each in item.expressions]
    counts = range(len(parts), -1, -1)
    if isinstance(item, exp.Rollup):
        chosen = [parts[:count] for count in counts]
    else:
        chosen = [list(some) for count in counts for some in itertools.combinations(parts, count)]
    return [[each for part in some for each in part] for some in chosen]


def _product(items: Sequence[list[list[exp.Expression]]]) -> list[list[exp.Expression]]:
    return [_once([each for part in parts for each in part]) for parts in itertools.product(*items)]


def _once(some: Sequence[exp.Expression]) -> list[exp.Expression]:
    return list({each.sql(): each for each in some}.values())


def _branch(node: exp.Select, keys: list[exp.Expression], every: list[exp.Expression]) -> exp.Select:
    missing = [each for each in every if each not in keys]

    def replaced(each: exp.Expression) -> exp.Expression:
        if is_call(each):  # what stands in an aggregate is the row's own value, whatever it is grouped by
            return each
        if is_grouping(each):
            bits = "".join("1" if argument in missing else "0" for argument in each.expressions)
            return cast_to(exp.Literal.number(int(bits, 2)), INTEGER)
        if each in missing:
            return cast_to(exp.Null(), type_of(each) or TEXT)
        for name, value in list(each.args.items()):
            if isinstance(value, exp.Expression):
                each.set(name, replaced(value))
            elif isinstance(value, list):
                each.set(name, [replaced(one) if isinstance(one, exp.Expression) else one for one in value])
        return each

    branch = node.copy()
    branch.set("order", None)
    branch.set("expressions", [replaced(each) for each in branch.expressions])
    if branch.args.get("having") is not None:
        branch.set("having", replaced(branch.args["having"]))
    groups = [each.copy() for each in keys] or [cast_to(exp.Literal.number(0), SMALLINT)]
    branch.set("group", exp.Group(expressions=groups))
    return branch
