"""Stored relations as Spark DataFrames and temporary views, kept while their runs stay the same."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.catalog import Catalog, Relation
from headrace.state.layout import Layout
from headrace.state.predicates import Bounds
from headrace.state.runs import Run
from headrace.state.scan import scan
from headrace.types import UNKNOWN_TO_SPARK, quote_spark

KEPT = 256
"""Frames that are remembered. One is a plan, not data."""


class RelationFrames:
    def __init__(self, spark: SparkSession, root: str):
        self._spark, self._root = spark, root
        self._lock = threading.Lock()
        self._frames: OrderedDict[tuple, DataFrame] = OrderedDict()
        self._number = 0

    def frame(self, relation: Relation, runs: Sequence[Run]) -> DataFrame:
        """The live rows, hidden columns included, of exactly these runs."""
        key = (relation, tuple(run.id for run in runs))
        with self._lock:
            if key in self._frames:
                self._frames.move_to_end(key)
                return self._frames[key]
        frame = with_logical_types(relation, scan(self._spark, self._root, Layout.of(relation), runs))
        with self._lock:
            self._frames[key] = frame
            while len(self._frames) > KEPT:
                self._frames.popitem(last=False)
        return frame

    def part(self, relation: Relation, runs: Sequence[Run], bounds: Sequence[Bounds], predicate: str) -> DataFrame:
        """The live rows within bounds for which the predicate, which is over key columns, holds."""
        rows = scan(self._spark, self._root, Layout.of(relation), runs, bounds=bounds, predicate=predicate)
        return with_logical_types(relation, rows)

    def empty(self, relation: Relation) -> DataFrame:
        return self.frame(relation, ())

    @contextmanager
    def named(self, frames: dict[str, DataFrame]) -> Iterator[dict[str, str]]:
        """Temporary views for a query's relations: relation name → view name. A planned query outlives them."""
        names = {}
        with self._lock:
            for relation_name in frames:
                self._number += 1
                names[relation_name] = f"_hr_view_{self._number}"
        try:
            for relation_name, view in names.items():
                frames[relation_name].createOrReplaceTempView(view)
            yield names
        finally:
            for view in names.values():
                self._spark.catalog.dropTempView(view)


def with_logical_types(relation: Relation, frame: DataFrame) -> DataFrame:
    """jsonb and uuid are text to Spark; the column's metadata says what it is to the user."""
    if all(column.type.name not in UNKNOWN_TO_SPARK for column in relation.columns):
        return frame
    return frame.select(
        *(
            F.col(quote_spark(column.name)).alias(column.name, metadata={"headrace_type": column.type.to_json()})
            if column.type.name in UNKNOWN_TO_SPARK
            else F.col(quote_spark(column.name))
            for column in relation.columns
        )
    )


def frames_of(engine_frames: RelationFrames, catalog: Catalog, runs: dict, ids: Sequence[int]) -> dict[str, DataFrame]:
    return {catalog.relations[id].name: engine_frames.frame(catalog.relations[id], runs.get(id, ())) for id in ids}
