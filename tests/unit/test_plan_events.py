"""What is stored of a source of events for a query that is not linear."""

from __future__ import annotations

import pytest

from headrace.catalog import SOURCE, TABLE, Catalog, Column, KeyColumn, Relation
from headrace.plan.cut import cut
from headrace.plan.pieces import Keyed, relations_in
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
        .add(Relation(id=3, name="views", kind=SOURCE, columns=(*columns, *KEY_COLUMNS), pk=PK, distribution=key))
        .add(
            Relation(
                id=2, name="pages", kind=TABLE, columns=(users,), pk=(KeyColumn(name="url"),), distribution=("url",)
            )
        )
    )


def stored(text: str, catalog: Catalog) -> list[str]:
    """The queries of the internal tables that hold events; no other piece reads a source."""
    bound = bind_query(parse_query(text), catalog)
    last, arrangements = cut(bound, catalog, "v", bound.output)
    sources = {each.id for each in catalog.of_kind(SOURCE)}
    events = [each for each in arrangements.made if each.name.endswith("events")]
    for each in events:
        assert set(each.depends_on) <= sources
        assert len(each.pk) == len(PK) and each.distribution == tuple(key.name for key in each.pk)
    for each in arrangements.made:
        assert each in events or not sources.intersection(each.reads or each.depends_on), each.query
    query = last.query if isinstance(last, Keyed) else last
    assert not {catalog.get(name).id for name in relations_in(query) if catalog.find(name)} & sources
    return [each.query.replace('"', "").replace("public.", "") for each in events]


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


@pytest.mark.parametrize(
    "text",
    [
        "SELECT id FROM clicks c WHERE price > 5 AND NOT EXISTS (SELECT 1 FROM views o WHERE o.id = c.id)",
        "SELECT id, (SELECT count(*) FROM views o WHERE o.id = c.id) AS n FROM clicks c WHERE price IN (1, 2)",
        "SELECT id FROM clicks WHERE url = 'a' UNION SELECT id FROM views WHERE url = 'b'",
        "SELECT a.id, b.url FROM clicks a LEFT JOIN views b ON a.id = b.id AND b.price > 2 WHERE a.price > 1",
        "SELECT id FROM clicks WHERE price > (SELECT max(price) FROM views WHERE url = 'x') AND url = 'y'",
        "SELECT * FROM clicks WHERE price > 2 AND id IN (SELECT id FROM views) ORDER BY id LIMIT 3",
    ],
)
def test_sources_in_every_place(catalog, text):
    assert len(stored(text, catalog)) == 2


def test_nothing_is_stored_twice(catalog):
    text = "SELECT a.id FROM clicks a JOIN clicks b ON a.id = b.id WHERE b.url = 'x'"
    assert len(stored(text, catalog)) == 1
