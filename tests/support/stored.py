"""What a relation's files hold, read without Spark."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa

from headrace.engine.engine import Engine
from headrace.state.files import open_parquet
from headrace.state.layout import Layout
from headrace.state.whole import newest_live


def live_rows(engine: Engine, name: str, *, hidden: bool = False) -> pa.Table:
    """The rows of a relation in the committed manifest, with or without hidden columns."""
    manifest = engine.committed
    relation = manifest.catalog.get(name)
    layout = Layout.of(relation)
    tables = [layout.stored_schema.empty_table()]
    for run in manifest.runs.get(relation.id, ()):
        for file in run.files:
            with open_parquet(engine.storage.files, file.path) as parquet:
                tables.append(layout.stored(parquet.read()))
    live = newest_live(layout, pa.concat_tables(tables))
    return live.select([column.name for column in relation.columns if hidden or not column.hidden])


def stored(engine: Engine, name: str) -> Counter:
    """The same, and how often each is there."""
    columns = (column.to_pylist() for column in live_rows(engine, name).columns)
    return Counter(tuple(map(_plain, row)) for row in zip(*columns, strict=True))


def _plain(value):
    return int(value) if hasattr(value, "as_tuple") else value
