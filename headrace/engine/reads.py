"""Reading the part of a table that :mod:`headrace.engine.access` chose: by its primary key, or by an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.catalog import Relation
from headrace.engine.access import FEW, Access
from headrace.engine.relations import with_logical_types
from headrace.engine.small import with_vnode
from headrace.state.layout import Layout
from headrace.state.lookup import lookup_frame, prefix_frame
from headrace.state.manifest import Manifest
from headrace.types import quote_spark

if TYPE_CHECKING:
    from headrace.engine.engine import Engine


def read_part(engine: Engine, state: Manifest, access: Access) -> DataFrame | None:
    """The rows of the table that the access reaches, with the table's names; None if a scan is better."""
    if access.lookup and access.path.relation.id == access.table.id:
        return _rows_of_keys(engine, state, access.table, given_keys(access))
    rows = _starting_with(engine, state, access)
    if access.missing:
        return _through_index(engine, state, access, rows)
    return rows.selectExpr(
        *(f"{quote_spark(held)} AS {quote_spark(name)}" for name, held in access.path.columns.items())
    )


def given_keys(access: Access) -> pa.Table:
    types, keys = Layout.of(access.path.relation).types, access.keys()
    return pa.table({name: pa.array([key[name] for key in keys], types[name].arrow) for name, _ in access.pinned})


def _starting_with(engine: Engine, state: Manifest, access: Access) -> DataFrame:
    """Of the path, the rows that the access reaches: read by one task if they are few, else by a scan that prunes."""
    relation = access.path.relation
    layout, runs = Layout.of(relation), state.runs.get(relation.id, ())
    keys = with_vnode(layout, given_keys(access))
    few = prefix_frame(engine.spark, engine.storage.files, layout, runs, keys, engine.indexes)
    if few is not None:
        return with_logical_types(relation, few)
    return engine.frames.part(relation, runs, access.bounds(), access.predicate())


def _through_index(engine: Engine, state: Manifest, access: Access, rows: DataFrame) -> DataFrame | None:
    """The index says which rows; the table has the columns. Only for few: each row is a lookup."""
    layout, held = Layout.of(access.table), access.path.columns
    names = list(dict.fromkeys((*layout.key_names, *layout.distribution)))
    found = rows.selectExpr(*(f"{quote_spark(held[name])} AS {quote_spark(name)}" for name in names))
    keys = found.limit(FEW + 1).toArrow()
    if keys.num_rows > FEW:
        return None
    return _rows_of_keys(engine, state, access.table, keys)


def _rows_of_keys(engine: Engine, state: Manifest, table: Relation, keys: pa.Table) -> DataFrame:
    layout = Layout.of(table)
    keyed = with_vnode(layout, keys)
    runs = state.runs.get(table.id, ())
    frame = lookup_frame(engine.spark, engine.storage.files, layout, runs, keyed, engine.indexes)
    return with_logical_types(table, frame)
