"""What an epoch has just written to the inputs of a relation (:mod:`headrace.engine.keyed`): which keys it touched, and
the rows that came and went. Few of them are read by the driver, many are a part of a query of Spark's."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from headrace.catalog import Relation
from headrace.engine.evaluate import quoted
from headrace.engine.relations import RelationFrames
from headrace.engine.touched import each_once
from headrace.state.files import open_parquet
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.recent import RECENT
from headrace.state.runs import WEIGHT, Run, RunFile
from headrace.state.scan import read_files
from headrace.state.storage import Storage
from headrace.state.vnode import VNODES, spark_expression
from headrace.state.whole import newest_live
from headrace.types import quote_spark

DELTA_BYTES = 64 << 20
"""Changes that the driver reads, as stored, however few rows they are."""

KEPT_BYTES = 64 << 20
"""Of files that were read in an epoch, because several relations read them."""

Touched = Mapping[int, Sequence[RunFile]]
"""What was written to each input."""


def changed_rows(touched: Touched) -> int:
    return sum(file.rows for files in touched.values() for file in files)


def are_few(touched: Touched, most: int) -> bool:
    """Whether the driver may read all of it."""
    size = sum(file.bytes for files in touched.values() for file in files)
    return changed_rows(touched) <= most and size <= DELTA_BYTES


class ChangedRows:
    def __init__(self, spark: SparkSession, storage: Storage, frames: RelationFrames):
        self._spark, self._storage, self._frames = spark, storage, frames
        self._kept: dict[str, pa.Table] = {}
        self._kept_bytes = 0

    def forget(self) -> None:
        """When the epoch ends."""
        self._kept.clear()
        self._kept_bytes = 0

    def few_keys(self, state: Manifest, relation: Relation, touched: Touched, most: int) -> pa.Table | None:
        """The touched keys under the relation's names, each once; None if there may be more."""
        if not are_few(touched, 4 * most):
            return None
        layout = Layout.of(relation)
        schema = pa.schema([layout.row_schema.field(name) for name in relation.operator.key])
        tables = [schema.empty_table()]
        for id, columns in relation.operator.inputs:  # of one that is read whole nothing was touched
            source = Layout.of(state.catalog.relations[id])
            for file in touched.get(id, ()):
                tables.append(self._columns(source, file, columns).rename_columns(schema.names).cast(schema))
        keys = each_once(relation, pa.concat_tables(tables))
        return keys if keys.num_rows <= most else None

    def all_keys(
        self, state: Manifest, relation: Relation, touched: Touched, built: int, moved: pa.Table | None = None
    ) -> DataFrame:
        """The touched keys for executors, and those that the clock has moved."""
        layout = Layout.of(relation)
        parts = []
        if moved is not None:
            ddl = ", ".join(f"_hr_k{at} {layout.types[name].spark}" for at, name in enumerate(moved.column_names))
            named = moved.rename_columns([f"_hr_k{at}" for at in range(moved.num_columns)])
            parts.append(self._spark.createDataFrame(named, schema=ddl))
        for id, columns in relation.operator.inputs:
            if not touched.get(id):
                continue
            source = Layout.of(state.catalog.relations[id])
            rows = read_files(self._spark, self._storage.uri(""), touched[id], source.spark_schema)
            names = [
                f"CAST({quote_spark(column)} AS {layout.types[own].spark}) AS _hr_k{number}"
                for number, (column, own) in enumerate(zip(columns, relation.operator.key, strict=True))
            ]
            parts.append(rows.selectExpr(*names))
        keys = functools.reduce(DataFrame.unionAll, parts).distinct()
        if built == VNODES:
            return keys
        return keys.where(f"{spark_expression([f'_hr_k{at}' for at, _ in enumerate(relation.operator.key)])} < {built}")

    def few(self, state: Manifest, relation: Relation, touched: Touched, weight: int) -> dict[int, pa.Table]:
        """The rows that came into the inputs, or that went, by their weight."""
        rows = {}
        for id, _ in relation.operator.inputs:
            layout = Layout.of(state.catalog.relations[id])
            tables = [self._columns(layout, file, [*layout.names, WEIGHT]) for file in touched.get(id, ())]
            table = pa.concat_tables(tables) if tables else layout.stored_schema.empty_table()
            rows[id] = table.filter(pc.equal(table[WEIGHT], weight)).select(layout.names)
        return rows

    def many(self, state: Manifest, relation: Relation, touched: Touched, weight: int) -> dict[int, DataFrame]:
        """The same for executors."""
        frames = {}
        for id, _ in relation.operator.inputs:
            source = state.catalog.relations[id]
            layout = Layout.of(source)
            if touched.get(id):
                rows = read_files(self._spark, self._storage.uri(""), touched[id], layout.spark_schema)
                frames[id] = rows.where(f"{WEIGHT} = {weight}").selectExpr(*quoted(layout))
            else:
                frames[id] = self._frames.empty(source)
        return frames

    def all_rows(self, layout: Layout, runs: Iterable[Run]) -> pa.Table:
        """Of a relation that has few rows."""
        tables = [layout.stored_schema.empty_table()]
        for file in (file for run in runs for file in run.files):
            tables.append(self._columns(layout, file, layout.stored_schema.names))
        return newest_live(layout, pa.concat_tables(tables))

    def _columns(self, layout: Layout, file: RunFile, names: Sequence[str]) -> pa.Table:
        """Some columns of a small file that was just written."""
        if (recent := RECENT.get((self._storage.files.root, file.path))) is not None:
            return layout.completed(recent, list(names))
        if (kept := self._kept.get(file.path)) is not None:
            return kept.select(list(names))
        with open_parquet(self._storage.files, file.path) as parquet:
            rows = layout.stored(parquet.read(use_threads=False))
        if self._kept_bytes + rows.nbytes <= KEPT_BYTES:
            self._kept[file.path] = rows
            self._kept_bytes += rows.nbytes
        return rows.select(list(names))
