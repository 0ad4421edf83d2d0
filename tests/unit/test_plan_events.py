"""What is stored of a source of events for a query that is not linear."""

from __future__ import annotations

import pytest

from headrace.catalog import SOURCE, TABLE, Catalog, Column, KeyColumn, Relation
from headrace.plan.cut import cut
from headrace.sources.definition import KEY_COLUMNS, PK
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.types import SqlType


@pytest.fixture
def catalog() -> Catalog:
    kinds = {"id": "bigint", "url": "varchar", "price": "bigint"}
    columns = tuple(Column(name=name, type=SqlType(kind)) for name, kind in kinds.items())
    key = tuple(each.name for each in PK)
    users = Column(name="url", type=SqlType("varchar"), nullable=False)
    return (
        Catalog()
        .add(Relation(id=1, name="clicks", kind=SOURCE, columns=(*columns, *KEY_COLUMNS), pk=PK, distribution=key))
        .add(
            Relation(
                id=2, name="pages", kind=TABLE, columns=(users,), pk=(KeyColumn(name="url"),), distribution=("url",)
            )
        )
    )


def stored(text: str, catalog: Catalog) -> list[str]:
    """The queries of the internal tables that hold events."""
    bound = bind_query(parse_query(text), catalog)
    _, arrangements = cut(bound, catalog, "v", bound.output)
    events = [each for each in arrangements.made if each.depends_on == (1,)]
    for each in events:
        assert len(each.pk) == len(PK) and each.distribution == tuple(key.name for key in each.pk)
    others = [each for each in arrangements.made if each not in events]
    assert not any(1 in (each.reads or each.depends_on) for each in others)
    return [each.query.replace('"', "").replace("public.", "").replace("headrace.", "") for each in events]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT url, count(*) FROM clicks WHERE price > 5 GROUP BY url", "SELECT url WHERE price > 5"),
        ("SELECT count(*) FROM clicks", "SELECT id"),
        ("SELECT max(price) FROM clicks c (a, b, price)", "SELECT id, url, price"),
        ("SELECT c.id FROM clicks c JOIN pages p ON c.url = p.url WHERE c.price > 5", "SELECT id, url, price"),
        ("SELECT id FROM clicks WHERE price > 5 AND url IN (SELECT url FROM pages)", "SELECT id, url WHERE price > 5"),
        ("WITH c AS (SELECT id FROM clicks) SELECT max(a.id) FROM c a JOIN c b ON a.id = b.id", "SELECT id"),
    ],
)
def test_what_is_stored(catalog, text, expected):
    (query,) = stored(text, catalog)
    columns, _, condition = expected.removeprefix("SELECT ").partition(" WHERE ")
    assert [each.rsplit(" ", 1)[-1] for each in query.split(" FROM ")[0].split(", ")] == columns.split(", ")
    assert ("WHERE" in query) == bool(condition), query


def test_nothing_is_stored_twice(catalog):
    text = "SELECT a.id FROM clicks a JOIN clicks b ON a.id = b.id WHERE b.url = 'x'"
    assert len(stored(text, catalog)) == 1
