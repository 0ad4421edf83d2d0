"""Temporal joins: rows that only come, each joined with what the other side holds at that moment, and never again.

    SELECT … FROM orders AS o JOIN rates FOR SYSTEM_TIME AS OF PROCTIME() AS r ON o.currency = r.currency

The rows of orders are arranged by what they are joined by, and the piece is keyed by the whole key of that: so a new
row of orders touches a key of its own, for which rates is looked up by the first columns of the key. A change of rates
touches nothing. Since what was found is not kept anywhere else, no row may ever be computed twice: so the left side
must only grow.
"""

from __future__ import annotations

from headrace.catalog import INTERNAL, SOURCE, TABLE, Catalog, Relation
from headrace.errors import Unsupported
from headrace.plan.pieces import Side, relations_in


def only_grows(relation: Relation, catalog: Catalog) -> bool:
    """Whether rows of a relation come, and never change or go."""
    if relation.kind in (TABLE, SOURCE):
        return relation.append_only
    operator = relation.operator
    if operator is None:
        inputs = relation.reads or relation.depends_on
    elif operator.watermark is not None:  # what is final stays
        return True
    elif operator.as_of_now:
        inputs = tuple(id for id, _ in operator.inputs if id not in operator.as_of_now)
    elif operator.describe == "inner join" and not operator.whole:
        inputs = tuple(id for id, _ in operator.inputs)
    else:
        return False
    return bool(inputs) and all(only_grows(catalog.relations[id], catalog) for id in inputs)


def looked_up_once(relation: Relation, catalog: Catalog) -> bool:
    """Whether what a relation holds depends on when its rows came."""
    if relation.operator is not None and relation.operator.as_of_now:
        return True
    below = (catalog.relations[id] for id in relation.reads or relation.depends_on)
    return any(looked_up_once(each, catalog) for each in below if each.kind == INTERNAL)


def refuse_if_rows_may_change(left: Side, catalog: Catalog) -> None:
    for relation in map(catalog.get, relations_in(left.query)):
        if only_grows(relation, catalog):
            continue
        what = "a part of the query" if relation.kind == INTERNAL else f'{relation.kind} "{relation.name}"'
        raise Unsupported(
            f"FOR SYSTEM_TIME AS OF PROCTIME() needs a left side whose rows never change, but those of {what} may",
            hint="join a source, a table made with APPEND ONLY, or a view that only filters and computes such rows",
        )
