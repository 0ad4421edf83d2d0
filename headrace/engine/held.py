"""Views that cannot follow the clock: a row that became due by itself makes an expression of theirs fail.

    CREATE MATERIALIZED VIEW due AS SELECT id, x FROM t WHERE at <= now();
    CREATE MATERIALIZED VIEW share AS SELECT id, 100 / x AS s FROM due;

A row with x = 0 is accepted while it is not due. When it is, no statement is to blame, and none may fail for it. So
what stands on the clock below the view that failed is *held*: it stays at the time at which it stood, in the manifest,
while all else goes on. It is tried again when the epoch wrote to something that the view stands on, when the view is
gone, and every :data:`RETRY_SECONDS`. Whatever shares a view with what is held is held with it, so that each view
stands at one time.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from headrace.catalog import Catalog, Relation
from headrace.engine.moments import HELD, held, instant, time_of, timed
from headrace.errors import DataError, HeadraceError
from headrace.state.manifest import Manifest

log = logging.getLogger("headrace")

RETRY_SECONDS = 30.0


class HeldClocks:
    def __init__(self):
        self._again: dict[int, float] = {}
        """When what is held is tried next, by time.monotonic(); what an earlier process held is tried at once."""

    def due_in(self, state: Manifest) -> float:
        """In how many seconds there is something to try."""
        return min((self._due(state.catalog, id, each) for id, each in held(state.offsets).items()), default=math.inf)

    def _due(self, catalog: Catalog, id: int, each: Mapping[str, Any]) -> float:
        if id not in catalog.relations or each["view"] not in catalog.relations:
            return 0.0
        return self._again.get(id, 0.0) - time.monotonic()

    def tried_again(self, state: Manifest, written: Iterable[int]) -> Manifest:
        """The state in which some of what is held goes on; ``written``: the relations that the epoch wrote to."""
        known = held(state.offsets)
        touched = {above.id for id in written if known for above in state.catalog.dependents(id)}
        trying = [
            id for id, each in known.items() if each["view"] in touched or self._due(state.catalog, id, each) <= 0
        ]
        freed = {*trying, *_sharing(state.catalog, trying)}
        offsets = {name: value for name, value in state.offsets.items() if name not in {f"{HELD}{id}" for id in freed}}
        return dataclasses.replace(state, offsets=offsets) if freed else state

    def holding(
        self, state: Manifest, before: Mapping[str, Any], error: HeadraceError, built: Collection[int]
    ) -> Manifest | None:
        """The state without the step of the clock that may have led to the error; None if there was no such step.

        ``before``: the offsets of the last epoch; ``built``: what lands in this one, and stands at another time.
        """
        view = state.catalog.relations.get(getattr(error, "view_id", -1))
        if not isinstance(error, DataError) or view is None or view.creating:
            return None
        below = [
            each.id
            for each in timed(state.catalog)
            if view.id == each.id or view.id in (above.id for above in state.catalog.dependents(each.id))
        ]
        relations = state.catalog.relations
        moved = {
            f"{HELD}{id}": {"at": time_of(before, relations[id]), "view": view.id, "error": error.message}
            for id in {*below, *_sharing(state.catalog, below)}
            if not relations[id].creating
            and id not in built
            and time_of(before, relations[id]) != time_of(state.offsets, relations[id])
        }
        if not moved:
            return None
        for name in moved:
            self._again[int(name.removeprefix(HELD))] = time.monotonic() + RETRY_SECONDS
        return dataclasses.replace(state, offsets=state.offsets | moved)

    def report(self, before: Mapping[str, Any], state: Manifest) -> None:
        """Says what is held from now on, and what is not any more."""
        then, now = ({each["view"]: each for each in held(offsets).values()} for offsets in (before, state.offsets))
        for name in _names(state, now.keys() - then.keys()):
            log.error('view "%s" cannot follow the clock, and stays at the time before: SHOW JOBS says why', name)
        for name in _names(state, then.keys() - now.keys()):
            log.info('view "%s" follows the clock again', name)


def _names(state: Manifest, ids: Collection[int]) -> list[str]:
    catalog = state.catalog
    return [catalog.owner(catalog.relations[id]).name for id in ids if id in catalog.relations]


def views_behind(state: Manifest) -> list[tuple[Relation, str, float]]:
    """The views that could not follow, each with what is wrong, and since when, in seconds since 1970."""
    found = {each["view"]: each for each in held(state.offsets).values() if each["view"] in state.catalog.relations}
    views = ((state.catalog.owner(state.catalog.relations[id]), each) for id, each in found.items())
    return [
        (view, f"{each['error']}; it stays at {instant(each['at']).isoformat(' ', 'seconds')}", each["at"] / 1e6)
        for view, each in views
    ]


def _sharing(catalog: Catalog, ids: Collection[int]) -> set[int]:
    """What else stands on the clock below a view that stands on these."""
    above = {each.id: {each.id, *(view.id for view in catalog.dependents(each.id))} for each in timed(catalog)}
    found = {id for id in ids if id in above}
    while True:
        views = set().union(*(above[id] for id in found))
        more = {id for id, mine in above.items() if id not in found and mine & views}
        if not more:
            return found
        found |= more
