"""Keys that an epoch touched, and rows of them (:mod:`headrace.engine.keyed`)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.catalog import Relation
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.runs import Run
from headrace.state.vnode import vnodes_of
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
