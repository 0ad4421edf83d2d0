"""A query as Spark answers it, over the rows that tables hold in the committed manifest.

The rows are read once for many queries, and handed to Spark in memory. Nothing is compiled and nothing is shuffled:
of a few rows that is most of what a query costs.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from headrace.engine.relations import with_logical_types
from headrace.engine.spark import key_session
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.sql.translate import to_spark
from headrace.state.layout import Layout
from headrace.types import quote_spark
from tests.support.stored import live_rows

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}


class Batch:
    def __init__(self, database, given: Mapping[str, pa.Table] | None = None):
        """``given``: rows of relations that store none, with hidden columns."""
        self._engine, self._given = database.engine, given or {}
        self._session = key_session(self._engine.spark)
        for name, value in INTERPRETED.items():
            self._session.conf.set(name, value)
        self._named: dict[str, str] = {}

    def answer(self, query: str) -> pa.Table:
        catalog = self._engine.committed.catalog
        bound = bind_query(parse_query(query), catalog)
        for relation in (catalog.relations[id] for id in bound.relations):
            if relation.name not in self._named:
                rows = self._given.get(relation.name)
                rows = live_rows(self._engine, relation.name, hidden=True) if rows is None else rows
                frame = self._session.createDataFrame(rows, schema=Layout.of(relation).row_ddl)
                self._named[relation.name] = f"batch_{relation.name}"
                with_logical_types(relation, frame).createOrReplaceTempView(self._named[relation.name])
        found = self._session.sql(to_spark(bound.expression, table_names=self._named))
        kinds = [(quote_spark(f"c{at}"), kind) for at, kind in enumerate(bound.types)]
        columns = [name if kind is None else f"CAST({name} AS {kind.spark}) AS {name}" for name, kind in kinds]
        return found.toDF(*(f"c{at}" for at, _ in enumerate(kinds))).selectExpr(*columns).toArrow()
