"""Which relations the changes of another are mapped to, row by row."""

from __future__ import annotations

import pytest

from headrace.catalog import INDEX, INTERNAL, MATERIALIZED_VIEW, SOURCE, TABLE, VIEW, Catalog, Operator, Relation
from headrace.engine.deltas import Work


def relation(id: int, kind: str, *depends_on: int, **more) -> Relation:
    return Relation(id=id, name=f"r{id}", kind=kind, columns=(), depends_on=depends_on, **more)


GROUPS = Operator(key=("k",), inputs=((3, ("k",)),), describe="aggregate")


@pytest.fixture
def catalog() -> Catalog:
    """A source and a table, each with a linear view; on the table an arrangement, groups, and what stands on those."""
    found = Catalog()
    for each in (
        relation(1, SOURCE),
        relation(2, TABLE),
        relation(3, INTERNAL, 2),
        relation(4, MATERIALIZED_VIEW, 1),
        relation(5, VIEW, 2),
        relation(6, MATERIALIZED_VIEW, 5, 2),
        relation(7, INTERNAL, 3, reads=(3,), operator=GROUPS),
        relation(8, MATERIALIZED_VIEW, 2, 7, reads=(7,), maintained="SELECT …"),
        relation(9, INDEX, 8),
    ):
        found = found.add(each)
    return found


@pytest.mark.parametrize(("below", "above"), [(1, [4]), (2, [3, 6]), (3, []), (7, [8, 9]), (8, [9])])
def test_views_above(catalog, below, above):
    work = Work(catalog=catalog, epoch=1, jobs={})
    assert [each.id for each in work.views_above(catalog.relations[below])] == above
