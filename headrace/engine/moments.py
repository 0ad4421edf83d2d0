"""Relations whose rows come and go with the clock, or with a watermark: which of them do between two times, and when
that is next.

The time that such relations stand at is in the manifest, so it goes on from there after a crash, and never back. It
goes on with every epoch. If nobody writes there is an epoch when a row is due, but not more often than barriers are.
"""

from __future__ import annotations

import dataclasses
import datetime
import sys
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from headrace.catalog import SOURCE, Catalog, Operator, Relation
from headrace.engine.watermarks import events_on_time, watermark
from headrace.plan.moments import is_now
from headrace.sql.dialect import parse_expression
from headrace.sql.watermarks import watermark_of
from headrace.state.first_rows import first_after, rows_between
from headrace.state.layout import Layout
from headrace.state.lookup import IndexCache
from headrace.state.manifest import Manifest
from headrace.state.storage import Storage
from headrace.types import quote_spark

CLOCK = "clock"
"""Under which a manifest has the time, in microseconds since 1970."""

_ARROW = {"<": pc.greater, "<=": pc.greater_equal, ">": pc.less, ">=": pc.less_equal}
"""From the other side."""


def read_clock() -> int:
    return time.time_ns() // 1000


def timed(catalog: Catalog) -> list[Relation]:
    """Those whose rows come and go by themselves."""
    operators = ((each, each.operator) for each in catalog.in_order())
    return [each for each, of in operators if of is not None and of.clock is not None and of.watermark is None]


def time_of(offsets: Mapping[str, Any], of: Operator) -> int:
    """The time that a relation stands at in a manifest with these offsets."""
    return offsets.get(CLOCK, 0) if of.watermark is None else watermark(offsets, of.watermark)


def with_clock(state: Manifest) -> Manifest:
    """The state with the time that it is now, if anything depends on it."""
    if not timed(state.catalog):
        return state
    now = max(read_clock(), state.offsets.get(CLOCK, 0))
    return dataclasses.replace(state, offsets=state.offsets | {CLOCK: now})


def at_its_time(query: exp.Expression, state: Manifest) -> exp.Expression:
    """The query with the state's time in place of now(), and its watermarks in place of their calls."""

    def replaced(node: exp.Expression) -> exp.Expression:
        if not is_now(node):
            return node
        id = watermark_of(node)
        if id is None and CLOCK not in state.offsets:
            return node
        time = state.offsets[CLOCK] if id is None else min(watermark(state.offsets, each) for each in _kept(state, id))
        return parse_expression(f"CAST('{_time(time).isoformat()}' AS TIMESTAMPTZ)")

    return query.transform(replaced)


def _kept(state: Manifest, id: int) -> list[int]:
    """Who has the watermark of a relation: itself, or what is stored of it if it is a source."""
    if state.catalog.relations[id].kind != SOURCE:
        return [id]
    return [each.id for each in events_on_time(state.catalog, id)]


def there_now(rows: pa.Table, of: Operator, clock: int) -> pa.Table:
    """Those of the rows that are there at a time."""
    assert of.clock is not None
    column, comparison = of.clock
    return rows.filter(_ARROW[comparison](rows[column], _instant(clock)))


def spark_condition(of: Operator, clock: int) -> str:
    assert of.clock is not None
    column, comparison = of.clock
    return f"timestamp_micros({clock}) {comparison} {quote_spark(column)}"


def _instant(clock: int) -> pa.Scalar:
    return pa.scalar(clock, pa.timestamp("us", tz="UTC"))


class Moments:
    def __init__(self, storage: Storage, indexes: IndexCache):
        self._storage, self._indexes = storage, indexes
        self._next: dict[int, tuple[tuple, int | None]] = {}
        """What was found of a relation: of which runs and time, and when."""

    def crossing(self, state: Manifest, relation: Relation, since: int, now: int, *, most: int) -> pa.Table | None:
        """The keys of rows that may have come or gone, under the relation's names; None if that is much to read."""
        assert relation.operator is not None
        ((id, columns),) = relation.operator.inputs
        layout = Layout.of(state.catalog.relations[id])
        low, high = (layout.codec.encode_with_vnode(0, [_time(moment)]) for moment in (since, now))
        runs = state.runs.get(id, ())
        found = rows_between(self._storage.files, layout, runs, low, high, self._indexes, most=most)
        if found is None:
            return None
        names = list(relation.operator.key)
        schema = pa.schema([Layout.of(relation).row_schema.field(name) for name in names])
        return found.select(list(columns)).rename_columns(names).cast(schema)

    def next_moment(self, state: Manifest) -> int | None:
        """When the next row comes or goes, in microseconds since 1970."""
        clock = state.offsets.get(CLOCK, 0)
        found = [self._next_of(state, each, clock) for each in timed(state.catalog) if not each.creating]
        return min((moment for moment in found if moment is not None), default=None)

    def _next_of(self, state: Manifest, relation: Relation, clock: int) -> int | None:
        assert relation.operator is not None
        ((id, columns),) = relation.operator.inputs
        runs = state.runs.get(id, ())
        known = (tuple(run.id for run in runs), clock)
        if relation.id not in self._next or self._next[relation.id][0] != known:
            layout = Layout.of(state.catalog.relations[id])
            # What was due at the very time was taken with it, unless it is due right after.
            after = relation.operator.clock is not None and relation.operator.clock[1] in ("<=", ">")
            start = layout.codec.encode_with_vnode(0, [_time(clock if after else clock + 1)])
            found = first_after(self._storage.files, layout, runs, start, self._indexes, most=sys.maxsize)
            assert found is not None
            moment = found[columns[0]][0].cast(pa.int64()).as_py() + after if found.num_rows else None
            self._next[relation.id] = (known, moment)
        return self._next[relation.id][1]


def _time(micros: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=micros)
