from __future__ import annotations

import pytest

from headrace.backfill.schemas import Schemas
from headrace.catalog import Column, KeyColumn, Relation
from headrace.errors import UndefinedColumn
from headrace.types import SqlType


def test_jack_and_jill():
    """A chunk is replicated as the upstream would store it, merged with what it has stored, and read back."""
    schemas = Schemas.of(
        columns=["id", "name", "age", "drivers_license_id"], pk=["id"], reads=["drivers_license_id", "name"]
    )
    assert schemas.output == ("drivers_license_id", "name", "id")
    assert schemas.view == ("drivers_license_id", "name")
    assert (schemas.output_indices, schemas.view_indices) == ([3, 1, 0], [0, 1])

    replicated = schemas.to_stored((1, "Jack", 29))
    assert replicated == (29, "Jack", None, 1)
    stored = [replicated, (30, "Jill", 30, 2)]
    assert [schemas.to_output(row) for row in stored] == [(1, "Jack", 29), (2, "Jill", 30)]
    assert [schemas.to_view(schemas.to_output(row)) for row in stored] == [(1, "Jack"), (2, "Jill")]


def test_the_whole_pk_is_needed_even_if_the_view_reads_a_part_of_it():
    """mv1 is `SELECT id, i FROM t1 ORDER BY id, i`, with both as its pk; mv2 is `SELECT id FROM mv1`."""
    mv1 = Relation(
        id=2,
        name="mv1",
        kind="materialized view",
        columns=(Column(name="id", type=SqlType("bigint")), Column(name="i", type=SqlType("bigint"))),
        pk=(KeyColumn(name="id"), KeyColumn(name="i")),
    )
    schemas = Schemas.of_relation(mv1, ["id"])
    assert (schemas.stored, schemas.output, schemas.view) == (("id", "i"), ("id", "i"), ("id",))
    assert schemas.to_view((7, 8)) == (7,)


def test_a_view_may_read_no_column_at_all():
    schemas = Schemas.of(columns=["a", "k"], pk=["k"], reads=[])
    assert schemas.output == ("k",) and schemas.to_view((5,)) == () and schemas.to_stored((5,)) == (None, 5)
    nothing = Schemas.of(columns=["a"], pk=[], reads=[])
    assert nothing.to_output((1,)) == () and nothing.to_stored(()) == (None,)


def test_a_column_read_twice_travels_once():
    schemas = Schemas.of(columns=["k", "a"], pk=["k"], reads=["a", "k", "a"])
    assert schemas.output == schemas.view == ("a", "k")


def test_a_row_that_is_read_back_is_the_row_that_was_replicated():
    schemas = Schemas.of(columns=["a", "b", "c", "d", "e"], pk=["e", "b"], reads=["c", "a"])
    row = ("C", "A", "E", "B")
    assert schemas.to_output(schemas.to_stored(row)) == row
    with pytest.raises(ValueError):
        schemas.to_stored(row[:-1])


def test_unknown_columns_are_named():
    with pytest.raises(UndefinedColumn, match='no column "x"\nHINT: it stores: a, k'):
        Schemas.of(columns=["a", "k"], pk=["k"], reads=["x"])
