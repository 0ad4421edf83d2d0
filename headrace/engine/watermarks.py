"""Watermarks: how far the time of a relation has come, and which of its rows are late.

A relation with a watermark has, in the manifest, the latest time of its rows less the delay. It goes on at the end of
an epoch, with what the epoch wrote, and never back; so it commits with the rows, and a crash takes both or neither.
Rows that come later than it are left out where they come in, by what the manifest said before their epoch: in an
INSERT, or when events are read. So what is stored has no late row, and any query over it says the same at any time.

While a relation is being filled it has no watermark, and nothing is late: history comes by key and not by time. Its
first watermark is that of all of it. What stands on it is built after that.
"""

from __future__ import annotations

import calendar
import dataclasses
import datetime
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.catalog import INTERNAL, SOURCE, Catalog, Relation
from headrace.state.files import open_parquet
from headrace.state.manifest import Manifest
from headrace.state.runs import RunFile
from headrace.state.storage import Storage
from headrace.types import quote_spark

WATERMARK, LATE = "watermark:", "late:"
"""Under which, and its id, a manifest has the watermark of a relation in microseconds since 1970, and how many rows
were late."""

NONE = -62_135_596_800_000_000
"""The watermark of a relation that has none yet: the year 1."""


def watermark(offsets: Mapping[str, Any], relation_id: int) -> int:
    return offsets.get(f"{WATERMARK}{relation_id}", NONE)


def late_count(offsets: Mapping[str, Any], relation_id: int) -> int:
    return offsets.get(f"{LATE}{relation_id}", 0)


def events_on_time(catalog: Catalog, source_id: int) -> list[Relation]:
    """What is stored of a source without its late events."""
    stored = catalog.of_kind(INTERNAL)
    return [each for each in stored if each.lateness is not None and source_id in each.depends_on]


def late_rows(rows: pa.Table, relation: Relation, offsets: Mapping[str, Any]) -> pa.ChunkedArray | None:
    """Which rows are late; None: none can be. A row without a time never is."""
    name = f"{WATERMARK}{relation.id}"
    if relation.lateness is None or name not in offsets:
        return None
    return late(rows, relation.lateness.column, offsets[name])


def late(rows: pa.Table, column: str, watermark: int) -> pa.ChunkedArray:
    kind = rows.schema.field(column).type
    return pc.fill_null(pc.less(rows[column], pa.scalar(watermark, pa.int64()).cast(kind)), False)


def late_condition(relation: Relation, offsets: Mapping[str, Any]) -> str | None:
    """The same for Spark, never NULL."""
    name = f"{WATERMARK}{relation.id}"
    if relation.lateness is None or name not in offsets:
        return None
    column = f"CAST({quote_spark(relation.lateness.column)} AS TIMESTAMP)"
    return f"coalesce({column} < timestamp_micros({offsets[name]}), false)"


def count_late(offsets: dict[str, Any], relation: Relation, count: int) -> None:
    if count:
        name = f"{LATE}{relation.id}"
        offsets[name] = offsets.get(name, 0) + count


class Watermarks:
    def __init__(self, storage: Storage):
        self._storage = storage

    def advanced(self, state: Manifest, written: Mapping[int, Iterable[RunFile]]) -> Manifest:
        """The state with the watermarks that follow from what the epoch wrote."""
        found = {}
        for relation in state.catalog.relations.values():
            if relation.lateness is None or relation.kind == SOURCE or relation.creating:
                continue
            name = f"{WATERMARK}{relation.id}"
            if name in state.offsets:
                files = list(written.get(relation.id, ()))
            else:  # it has just been filled, or has had no row with a time yet
                files = [file for run in state.runs.get(relation.id, ()) for file in run.files]
            latest = max((time for file in files if (time := self._latest(file, relation)) is not None), default=None)
            if latest is not None and latest - relation.lateness.delay > state.offsets.get(name, NONE):
                found[name] = latest - relation.lateness.delay
        return dataclasses.replace(state, offsets=state.offsets | found) if found else state

    def _latest(self, file: RunFile, relation: Relation) -> int | None:
        """The latest time of a file's rows, from what its footer says; of a relation that is only added to."""
        assert relation.lateness is not None
        column = relation.lateness.column
        with open_parquet(self._storage.files, file.path) as parquet:
            metadata = parquet.metadata
            at = [metadata.schema.column(leaf).path for leaf in range(metadata.num_columns)].index(column)
            said = [metadata.row_group(group).column(at).statistics for group in range(metadata.num_row_groups)]
            if all(each is not None and (each.has_min_max or each.null_count == each.num_values) for each in said):
                times = [_micros(each.max) for each in said if each.has_min_max]
                return max(times, default=None)
            latest = None
            for group in range(metadata.num_row_groups):  # written before there was a watermark
                found = pc.max(parquet.read_row_group(group, columns=[column], use_threads=False)[column])
                if found.is_valid:
                    time = found.cast(pa.int64()).as_py()
                    latest = time if latest is None else max(latest, time)
            return latest


def _micros(time: datetime.datetime) -> int:
    return calendar.timegm(time.utctimetuple()) * 1_000_000 + time.microsecond
