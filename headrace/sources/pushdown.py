"""Which offsets a query on a source can want at all: what it demands of the columns of INCLUDE, as ranges.

The query checks its conditions itself, of every row; this only leaves out what cannot meet them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from headrace.sources.connector import Feed
from headrace.sources.handover import Range


class Demand(Protocol):
    """Of a column: one of these values, or else limits like (">=", 5)."""

    values: tuple[Any, ...]
    limits: tuple[tuple[str, Any], ...]


def narrowed(feed: Feed, ranges: Sequence[Range], demands: Mapping[str, Demand]) -> list[Range]:
    if feed.definition.connector == "file":
        return list(ranges)  # its splits and offsets are not those that its columns show
    found = list(ranges)
    for each in feed.definition.include:
        demand = demands.get(each.name)
        if demand is None:
            continue
        low, high = _bounds(demand)
        if each.what == "partition":
            found = [range for range in found if _holds(demand, low, high, range.split)]
        elif each.what == "offset":
            found = [_between(range, low, high) for range in found]
        elif each.what == "timestamp" and isinstance(low, datetime):
            # Later events may be older: so only where those begin that are not older.
            since = feed.since(low) or {}
            found = [_between(range, since.get(range.split), None) for range in found]
    return [range for range in found if range.size > 0]


def _bounds(demand: Demand) -> tuple[Any, Any]:
    """The least and the greatest value that it allows; None: there is no such."""
    if demand.values:
        return min(demand.values), max(demand.values)
    lows = [value for operator, value in demand.limits if operator in (">", ">=")]
    highs = [value for operator, value in demand.limits if operator in ("<", "<=")]
    return max(lows, default=None), min(highs, default=None)


def _holds(demand: Demand, low: Any, high: Any, value: int) -> bool:
    if demand.values:
        return value in demand.values
    return (low is None or value >= low) and (high is None or value <= high)


def _between(range: Range, low: int | None, high: int | None) -> Range:
    """
    >>> _between(Range(0, 5, 10), 7, 8), _between(Range(0, 5, 10), None, 3)
    (Range(split=0, start=7, end=9), Range(split=0, start=5, end=5))
    """
    start = range.start if low is None else min(max(range.start, int(low)), range.end)
    end = range.end if high is None else max(min(range.end, int(high) + 1), start)
    return Range(range.split, start, end)
