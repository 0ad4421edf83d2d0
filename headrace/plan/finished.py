"""Rows of internal tables that nobody will read again, because a watermark has made all final that follows from them.

An internal table of a view with EMIT ON WINDOW CLOSE is read by key: a change brings keys, and their rows are computed
anew. If one of the columns of that key closes (:mod:`headrace.plan.closing`), no change comes any more of a value that
has closed. So a row can go when

* its own value has closed: neither does it change, nor is it looked up to be compared with;
* each relation that reads the table by key has the same column in its key, and there the value has closed, too. That
  may be later, if the other side of a join waits for another watermark.

Who only maps the table's changes, or adds them up, reads nothing of it but those. They do while they are being filled,
so nothing goes before they are complete; and nothing new is put on such a table, which has no history to fill it with.

Merging runs leaves such rows out (:mod:`headrace.engine.maintenance`): so there is no change that would have to be
mapped on, and it costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.catalog import INTERNAL, Catalog, Relation
from headrace.plan.closing import Closing, both, closings
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query

_TIMES = ("timestamp", "timestamptz")

Finished = tuple[str, Closing]
"""A column, and when a row is finished by its value there."""


def finished(relation: Relation, catalog: Catalog) -> Finished | None:
    """Which rows of an internal table may go, once all that is read from it is complete; None: none."""
    operator = relation.operator
    if relation.kind != INTERNAL:
        return None
    if operator is not None and (operator.whole or operator.as_of_now or not operator.key):
        return None  # it may be computed anew as a whole, or its rows are found nowhere else
    found = {name: each for name, each in _closings(relation, catalog).items() if _is_time(relation, name)}
    for reader in catalog if found else ():
        if relation.id in (reader.reads or reader.depends_on):
            needed = _finished_for(reader, relation, catalog)
            if needed is not None:
                found = {name: both(each, needed[name]) for name, each in found.items() if name in needed}
    return next(((each.name, found[each.name]) for each in relation.columns if each.name in found), None)


def can_be_computed_anew(relation: Relation, catalog: Catalog) -> bool:
    """Whether all rows of one with an operator follow from what its inputs hold.

    What a temporal join has found cannot be found again; what comes and goes by a clock has a rule of its own for many
    rows; and where rows have left internal tables because they were finished, what followed from them must stay.
    """
    operator = relation.operator
    if operator is None or operator.passing or operator.as_of_now or operator.clock is not None:
        return False
    read = [catalog.relations[id] for id in catalog.stored_inputs(relation.reads)]
    return all(finished(each, catalog) is None for each in (relation, *read))


def is_complete(relation: Relation, catalog: Catalog) -> bool:
    """Whether neither an internal table nor anything that may be filled from it is still being filled."""
    found, frontier = {relation.id}, [relation]
    while frontier:
        each = frontier.pop()
        if each.creating:
            return False
        if each.kind == INTERNAL:
            above = [one for one in catalog if one.id not in found and each.id in (one.reads or one.depends_on)]
            found |= {one.id for one in above}
            frontier += above
    return True


def _finished_for(reader: Relation, relation: Relation, catalog: Catalog) -> Mapping[str, Closing] | None:
    """When who reads the relation needs its rows no more, by columns of the relation; None: it never does."""
    operator = reader.operator
    if operator is None or operator.follows_changes:
        return None
    if not operator.key or relation.id in (*operator.whole, *operator.as_of_now):
        return {}
    found = _closings(reader, catalog)
    columns = dict(operator.inputs)[relation.id]
    return {column: found[key] for key, column in zip(operator.key, columns, strict=False) if key in found}


def _closings(relation: Relation, catalog: Catalog) -> Mapping[str, Closing]:
    if relation.lateness is not None:  # what is stored of a source has a watermark of its own
        return {relation.lateness.column: Closing(1, frozenset([relation.id]))}
    bound = bind_query(parse_query(relation.maintained or relation.query or ""), catalog)
    found = closings(bound.expression, catalog)
    named = zip(bound.output, relation.columns, strict=False)
    return {column.name: found[output] for output, column in named if output in found}


def _is_time(relation: Relation, name: str) -> bool:
    return relation.column(name).type.name in _TIMES
