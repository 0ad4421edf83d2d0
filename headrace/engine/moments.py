"""Relations whose rows come and go with the clock, or with a watermark: which of them do between two times, and when
that is next.

The time that such relations stand at is in the manifest, so it goes on from there after a crash, and never back. It
goes on with every epoch. If nobody writes there is an epoch when a row is due, but not more often than barriers are.
"""

from __future__ import annotations

import dataclasses
import datetime
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
from headrace.state.runs import Run
from headrace.state.storage import Storage
from headrace.types import quote_spark

CLOCK = "clock"
"""Under which a manifest has the time, in microseconds since 1970."""

HELD = "held:"
"""Under which, and its id, it has the time of a relation that could not follow (:mod:`headrace.engine.held`): since
when, because of which view, and what was wrong."""

NEXT_ROWS = 1 << 20
"""Stored rows that may be read to find out when a row comes or goes next; beyond, there is an epoch to see."""

_ARROW = {"<": pc.greater, "<=": pc.greater_equal, ">": pc.less, ">=": pc.less_equal}
"""From the other side."""


def read_clock() -> int:
    return time.time_ns() // 1000


def timed(catalog: Catalog) -> list[Relation]:
    """Those whose rows come and go by themselves."""
    operators = ((each, each.operator) for each in catalog.in_order())
    return [each for each, of in operators if of is not None and of.clock is not None and of.watermark is None]


def held(offsets: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """By their ids, the relations that stay at an earlier time."""
    return {int(name.removeprefix(HELD)): value for name, value in offsets.items() if name.startswith(HELD)}


def time_of(offsets: Mapping[str, Any], relation: Relation) -> int:
    """The time that a relation stands at in a manifest with these offsets."""
    assert relation.operator is not None
    if relation.operator.watermark is not None:
        return watermark(offsets, relation.operator.watermark)
    mine = offsets.get(f"{HELD}{relation.id}")
    return offsets.get(CLOCK, 0) if mine is None else mine["at"]


def with_clock(state: Manifest) -> Manifest:
    """The state with the time that it is now, if anything depends on it."""
    if not timed(state.catalog):
        return state
    now = max(read_clock(), state.offsets.get(CLOCK, 0))
    return dataclasses.replace(state, offsets=state.offsets | {CLOCK: now})


def at_its_time(query: exp.Expression, state: Manifest, view: Relation) -> exp.Expression:
    """The query of a view with the time that it stands at in place of now(), and watermarks in place of their calls."""
    stays = [
        each["at"]
        for id, each in held(state.offsets).items()
        if view.id == id or view.id in (above.id for above in state.catalog.dependents(id))
    ]
    clock = min([*stays, state.offsets.get(CLOCK, 0)])

    def replaced(node: exp.Expression) -> exp.Expression:
        if not is_now(node):
            return node
        id = watermark_of(node)
        if id is None and CLOCK not in state.offsets:
            return node
        time = clock if id is None else min(watermark(state.offsets, each) for each in _kept(state, id))
        return parse_expression(f"CAST('{instant(time).isoformat()}' AS TIMESTAMPTZ)")

    return query.transform(replaced)


def _kept(state: Manifest, id: int) -> list[int]:
    """Who has the watermark of a relation: itself, or what is stored of it if it is a source."""
    if state.catalog.relations[id].kind != SOURCE:
        return [id]
    return [each.id for each in events_on_time(state.catalog, id)]


def _moment_of(of: Operator) -> tuple[str, str]:
    """The column of the only input that has the moment, and how the time must compare with it."""
    assert of.clock is not None
    ((_, columns),) = of.inputs
    return columns[of.key.index(of.clock[0])], of.clock[1]


def there_now(rows: pa.Table, of: Operator, clock: int) -> pa.Table:
    """Those of the input's rows that are there at a time."""
    column, comparison = _moment_of(of)
    return rows.filter(_ARROW[comparison](rows[column], _instant(clock)))


def spark_condition(of: Operator, clock: int) -> str:
    column, comparison = _moment_of(of)
    return f"timestamp_micros({clock}) {comparison} {quote_spark(column)}"


def _instant(clock: int) -> pa.Scalar:
    return pa.scalar(clock, pa.timestamp("us", tz="UTC"))


class Moments:
    def __init__(self, storage: Storage, indexes: IndexCache):
        self._storage, self._indexes = storage, indexes
        self._next: dict[int, tuple[frozenset[str], int, int | None]] = {}
        """What was found of a relation: of which runs, at what time, and when it is."""

    def crossing(self, state: Manifest, relation: Relation, since: int, now: int, *, most: int) -> pa.Table | None:
        """The keys of rows that may have come or gone, under the relation's names; None if that is much to read."""
        assert relation.operator is not None
        ((id, columns),) = relation.operator.inputs
        layout = Layout.of(state.catalog.relations[id])
        low, high = (layout.codec.encode_with_vnode(0, [instant(each)]) for each in (since, now))
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
        follow = [each for each in timed(state.catalog) if not each.creating and each.id not in held(state.offsets)]
        found = [self._next_of(state, each, clock) for each in follow]
        return min((moment for moment in found if moment is not None), default=None)

    def _next_of(self, state: Manifest, relation: Relation, clock: int) -> int | None:
        """``clock`` itself if it is not known: then somebody has to look."""
        assert relation.operator is not None
        ((id, columns),) = relation.operator.inputs
        runs = {run.id: run for run in state.runs.get(id, ())}
        seen, then, moment = self._next.get(relation.id, (frozenset(), clock, None))
        if not (clock == then or moment is None or moment > clock) or not seen <= runs.keys():
            seen, moment = frozenset(), None  # it has passed, or runs were merged
        if new := [run for run_id, run in runs.items() if run_id not in seen]:
            # What came since may be earlier. If it has taken the row away that was found, somebody looks for nothing.
            found = self._first_after(state.catalog.relations[id], new, relation.operator, columns[0], clock)
            moment = min((each for each in (moment, found) if each is not None), default=None)
        self._next[relation.id] = (frozenset(runs), clock, moment)
        return moment

    def _first_after(self, input: Relation, runs: list[Run], of: Operator, column: str, clock: int) -> int | None:
        layout = Layout.of(input)
        # What was due at the very time was taken with it, unless it is due right after.
        after = of.clock is not None and of.clock[1] in ("<=", ">")
        start = layout.codec.encode_with_vnode(0, [instant(clock if after else clock + 1)])
        found = first_after(self._storage.files, layout, runs, start, self._indexes, most=NEXT_ROWS)
        if found is None:
            return clock
        return found[column][0].cast(pa.int64()).as_py() + after if found.num_rows else None


def instant(micros: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=micros)
