"""Which rows are alive, and all of those of a relation that has few."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from headrace.state.files import FOOTERS, Files, open_parquet
from headrace.state.layout import Layout
from headrace.state.recent import RECENT
from headrace.state.runs import EPOCH, WEIGHT, Run, RunFile

BATCH_ROWS = 256
"""That are decoded before it is seen how large they are: a value that many rows have is stored once."""


def live_rows(files: Files, layout: Layout, runs: Sequence[Run], *, most: int) -> pa.Table | None:
    """None if they have more bytes than ``most``."""
    stored = [file for run in runs for file in run.files]
    tables = [layout.stored_schema.empty_table()]
    for file in stored:
        for rows in _rows(files, layout, file):
            tables.append(rows)
            most -= rows.nbytes
            if most < 0:
                return None
    rows = pa.concat_tables(tables)
    # Of one run, in which nothing goes, no key is there twice.
    settled = len(runs) <= 1 and not any(file.retractions for file in stored)
    return (rows if settled else newest_live(layout, rows)).select(layout.names)


def _rows(files: Files, layout: Layout, file: RunFile) -> Iterator[pa.Table]:
    if (recent := RECENT.get((files.root, file.path))) is not None:
        yield layout.completed(recent, layout.stored_schema.names)
        return
    with open_parquet(files, file.path, footers=FOOTERS) as parquet:
        for batch in parquet.iter_batches(BATCH_ROWS, use_threads=False):
            yield layout.stored(pa.Table.from_batches([batch]))


def size_of(runs: Iterable[Run]) -> tuple[int, int, int]:
    """Stored rows, bytes and files."""
    stored = [file for run in runs for file in run.files]
    return sum(file.rows for file in stored), sum(file.bytes for file in stored), len(stored)


def newest_live(layout: Layout, rows: pa.Table) -> pa.Table:
    """Of all stored versions, the one that is alive for each key, if any."""
    if rows.num_rows == 0:
        return rows
    keys = layout.encode(rows)
    epochs, weights = rows[EPOCH].to_pylist(), rows[WEIGHT].to_pylist()
    newest: dict[bytes, tuple[int, int, int]] = {}
    for index, key in enumerate(keys):
        # In one epoch the retraction comes before what replaces it, so +1 wins over -1.
        rank = (epochs[index], weights[index], index)
        if key not in newest or rank > newest[key]:
            newest[key] = rank
    alive = sorted(index for _, weight, index in newest.values() if weight > 0)
    return rows.take(pa.array(alive, pa.int64()))
