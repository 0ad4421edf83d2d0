"""Queries that read few rows, answered by the driver itself.

A Spark job for a handful of rows takes a tenth of a second, whatever it does. Where tasks would run on the driver's own
machine, a query that Arrow can evaluate (:mod:`headrace.operators.vector_queries`) needs none, if what it reads is
little: rows of given keys, found as old rows are for an epoch, a part of an index, or relations that are small.

It is decided without reading anything. If a value then turns out to be one that only Spark can judge, or there are more
rows than the bounds of a manifest told, Spark answers, as if nobody had tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from headrace.catalog import SOURCE
from headrace.engine.access import Access, narrow
from headrace.engine.direct import is_here
from headrace.engine.plans import index_paths, refuse_unfinished
from headrace.engine.reads import given_keys
from headrace.engine.spark import spark_errors
from headrace.operators.vector_queries import VectorQuery, vectorized_query
from headrace.operators.vectors import FAULTS
from headrace.sql.bind import BoundQuery
from headrace.state.layout import Layout
from headrace.state.lookup import starting_with
from headrace.state.manifest import Manifest
from headrace.state.whole import live_rows, size_of
from headrace.types import SqlType

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

WHOLE_ROWS = 10_000
"""Stored rows of all relations that are read whole. Beyond, Spark is as fast."""

WHOLE_BYTES = 4 << 20
WHOLE_FILES = 64

DECODED_BYTES = 32 << 20
"""Of all that is read: what is stored once may be many times as much."""

FOUND_ROWS = 1 << 14
FOUND_BYTES = 4 << 20
"""Stored rows, and bytes of files, that may be read for given keys, or of a part of an index."""

TEXT = SqlType("varchar")


@dataclass(frozen=True, kw_only=True)
class SmallQuery:
    engine: Engine
    state: Manifest
    plan: VectorQuery
    output: tuple[str, ...]
    types: tuple[SqlType, ...]
    whole: Mapping[int, int]
    """Relations that are read in full, by their number in the plan."""
    parts: Mapping[int, Access]

    def rows(self) -> pa.Table | None:
        """The answer; None if it is Spark's after all."""
        with spark_errors("the query"):
            tables = self._tables()
        if tables is None:
            return None
        try:
            found = self.plan.evaluate(tables)
            columns = [column.cast(kind.arrow) for column, kind in zip(found.columns, self.types, strict=True)]
        except FAULTS:
            return None
        self.engine.answered_without_spark += 1
        return pa.table(columns, names=list(self.output))

    def _tables(self) -> dict[int, pa.Table] | None:
        tables, left = {}, DECODED_BYTES
        for number, access in self.parts.items():
            tables[number] = found = self._part(access)
            if found is None or (left := left - found.nbytes) < 0:
                return None
        for number, id in self.whole.items():
            layout, files = Layout.of(self.state.catalog.relations[id]), self.engine.storage.files
            tables[number] = found = live_rows(files, layout, self.state.runs.get(id, ()), most=left)
            if found is None or (left := left - found.nbytes) < 0:
                return None
        return tables

    def _part(self, access: Access) -> pa.Table | None:
        """The rows of the table that the access reaches, with the table's names; None if they are many."""
        rows = self._starting_with(access.path.relation.id, given_keys(access))
        if rows is None:
            return None
        if access.path.relation.id == access.table.id:
            return rows
        held = access.path.columns
        if not access.missing:
            return rows.select(list(held.values())).rename_columns(list(held))
        names = Layout.of(access.table).key_names
        if not set(access.table.distribution).issubset(names):
            return None
        keys = rows.select([held[name] for name in names]).rename_columns(names)
        return self._starting_with(access.table.id, keys)

    def _starting_with(self, id: int, keys: pa.Table) -> pa.Table | None:
        engine, layout = self.engine, Layout.of(self.state.catalog.relations[id])
        if keys.num_rows == 0:
            return layout.row_schema.empty_table()
        keys = keys.cast(pa.schema([layout.row_schema.field(name) for name in keys.column_names]))
        runs, files = self.state.runs.get(id, ()), engine.storage.files
        most = {"most": FOUND_ROWS, "most_bytes": FOUND_BYTES}
        found = starting_with(engine.spark, files, layout, runs, keys, engine.indexes, **most)
        return None if found is None else found.select(layout.names)

    def describe(self) -> str:
        rows = sum(size_of(self.state.runs.get(id, ()))[0] for id in self.whole.values())
        read = [each.describe() for each in self.parts.values()]
        read += [f"{rows} stored rows"] if self.whole else []
        return f"answered without Spark: {', '.join(read) or 'nothing is read'}"


def small_query(engine: Engine, state: Manifest, bound: BoundQuery, *, use_indexes: bool) -> SmallQuery | None:
    """How the driver answers the query, if it does."""
    refuse_unfinished(state.catalog, bound)
    relations = [state.catalog.relations[id] for id in bound.relations]
    if not is_here(engine.spark, engine.storage.files) or any(each.kind == SOURCE for each in relations):
        return None
    expression, parts, mentioned = bound.expression, {}, [each.name for each in relations]
    if use_indexes and relations:
        narrowed = narrow(expression, state.catalog, lambda table: index_paths(table, state.catalog))
        expression, parts, mentioned = narrowed.expression, narrowed.parts, list(narrowed.whole)
    numbers = {name: at for at, name in enumerate((*parts, *mentioned))}
    whole = {numbers[name]: state.catalog.get(name).id for name in mentioned}
    sizes = [size_of(state.runs.get(id, ())) for id in whole.values()]
    limits = (WHOLE_ROWS, WHOLE_BYTES, WHOLE_FILES)
    if any(sum(size[at] for size in sizes) > most for at, most in enumerate(limits)):
        return None
    types = tuple(kind or TEXT for kind in bound.types)
    plan = vectorized_query(expression, numbers, types)
    if plan is None:
        return None
    return SmallQuery(
        engine=engine,
        state=state,
        plan=plan,
        output=bound.output,
        types=types,
        whole=whole,
        parts={numbers[name]: access for name, access in parts.items()},
    )
