"""Keys that an epoch touched, rows of them, and what has to change (:mod:`headrace.engine.keyed`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.catalog import Relation
from headrace.engine.deltas import TableDelta
from headrace.engine.watermarks import watermark
from headrace.errors import EpochFailed
from headrace.plan.finished import finished
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.merge import consolidate
from headrace.state.runs import VNODE, WEIGHT, Run
from headrace.state.sorting import in_order
from headrace.state.vnode import vnodes_of
from headrace.state.writer import with_internal
from headrace.types import quote_spark


def each_once(relation: Relation, keys: pa.Table) -> pa.Table:
    layout, keys = Layout.of(relation), keys.combine_chunks()
    codec = KeyCodec([(layout.types[key.name], key) for key in layout.pk[: keys.num_columns]])
    first = {key: at for at, key in enumerate(codec.encode_table(keys, keys.column_names))}
    return keys.take(pa.array(sorted(first.values()), pa.int64()))


def of_vnodes(relation: Relation, keys: pa.Table, built: int) -> pa.Table:
    """The keys of the part that is there."""
    layout = Layout.of(relation)
    vnodes = vnodes_of(keys, layout.distribution, [layout.types[name] for name in layout.distribution])
    return keys.filter(pa.array(vnodes < built))


def runs_then(state: Manifest, id: int, epoch: int) -> tuple[Run, ...]:
    """What a relation held before the epoch."""
    return tuple(run for run in state.runs.get(id, ()) if run.first_epoch < epoch)


def of_keys(rows: DataFrame, columns: Sequence[str], keys: DataFrame) -> DataFrame:
    same = " AND ".join(f"r.{quote_spark(column)} <=> k._hr_k{number}" for number, column in enumerate(columns))
    return rows.alias("r").join(keys.alias("k"), F.expr(same), "left_semi")


def unfinished(state: Manifest, relation: Relation, before: Mapping[str, Any]) -> str | None:
    """Which rows can still change, if the input of the relation has lost those that cannot; None: it has all."""
    ((id, columns),) = relation.operator.inputs
    if (found := finished(state.catalog.relations[id], state.catalog)) is None:
        return None
    column, (after, ids) = found
    time = min(watermark(before, each) for each in ids) - after
    own = quote_spark(dict(zip(columns, relation.operator.key, strict=True))[column])
    return f"{own} IS NULL OR CAST({own} AS TIMESTAMP) > timestamp_micros({time})"


def difference(relation: Relation, new: pa.Table, old: pa.Table, *, summed: bool = False) -> TableDelta | None:
    """What has to change so that the relation holds the new rows in place of the old ones.

    ``summed``: a row may come in one part of what changes, and go in another. All that counts is the sum.
    """
    layout = Layout.of(relation)
    kinds = [layout.types[name] for name in layout.distribution]
    weighted = []
    for rows, weight in ((old, -1), (new, 1)):
        vnodes = pa.chunked_array([pa.array(vnodes_of(rows, layout.distribution, kinds), pa.int16())])
        weights = pa.chunked_array([pa.repeat(pa.scalar(weight, pa.int8()), rows.num_rows)])
        weighted.append(with_internal(rows.select(layout.names), vnodes, 0, weights))
    if not summed and not relation.operator.passing:
        _check_keys(relation, layout, weighted[1])
    changed = consolidate(
        in_order(layout, pa.concat_tables(weighted).combine_chunks(), [WEIGHT]), [VNODE, *layout.key_names]
    )
    if summed and not relation.operator.passing:
        _check_keys(relation, layout, changed.filter(pc.greater(changed[WEIGHT], 0)))
    if changed.num_rows == 0:
        return None
    return TableDelta(relation=relation, rows=changed.select([*layout.names, VNODE, WEIGHT]), settled=True)


def _check_keys(relation: Relation, layout: Layout, rows: pa.Table) -> None:
    if len(set(layout.encode(rows))) < rows.num_rows:
        raise EpochFailed(f'two rows of "{relation.name}" have the same key; this is a fault of Headrace')
