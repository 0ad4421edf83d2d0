"""The random queries that ``tests/engine/test_random_queries.py`` compares with Spark can all be views."""

from __future__ import annotations

import random

from headrace.catalog import TABLE, Catalog, Column, KeyColumn, Relation
from headrace.plan.cut import cut
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.types import SqlType, array_of
from tests.support.four_ways import drawn_seed
from tests.support.random_queries import how_many
from tests.support.spark_queries import FLOAT, INT, KINDS, TEXT, TIME, SparkQueries

TYPES = {
    INT: SqlType("integer"),
    TEXT: SqlType("varchar"),
    FLOAT: SqlType("double precision"),
    TIME: SqlType("timestamp"),
}


def _catalog() -> Catalog:
    catalog = Catalog()
    for number, (name, kinds) in enumerate(KINDS.items(), 1):
        columns = [Column(name=each, type=TYPES[kind], nullable=each != "id") for each, kind in kinds.items()]
        if name == "p":
            columns.append(Column(name="tags", type=array_of(SqlType("integer"))))
        if "id" not in kinds:
            columns.append(Column(name="_row_id", type=SqlType("bigint"), hidden=True, nullable=False))
        key = "id" if "id" in kinds else "_row_id"
        relation = Relation(
            id=number, name=name, kind=TABLE, columns=tuple(columns), pk=(KeyColumn(name=key),), distribution=(key,)
        )
        catalog = catalog.add(relation)
    return catalog


def test_each_of_them_is_cut_in_pieces():
    catalog, first = _catalog(), drawn_seed()
    for seed in range(first, first + how_many(40)):
        text = SparkQueries(random.Random(seed)).query()
        try:
            bound = bind_query(parse_query(text), catalog)
            cut(bound, catalog, "v", bound.output)
        except Exception as error:
            error.add_note(f"HEADRACE_SEED={seed} HEADRACE_QUERIES=1 draws it again: {text}")
            raise
