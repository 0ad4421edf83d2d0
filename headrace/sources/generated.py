"""What connectors have in common whose rows are worked out from their number, and from nothing else.

The row at an offset is a function of the definition, the split and the offset, so it is the same whoever reads it and
how often. What grows is only how many there are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.sources.connector import Connector, Decoded, Feed, Outside, Resolved
from headrace.sources.definition import OFFSET, PARTITION, Definition
from headrace.sources.handover import Extent, Range

BATCH = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Generator:
    """The reader: a range of offsets to rows."""

    definition: Definition
    splits: int
    created_at: float

    def count(self, now: float) -> int:
        """Rows that there are, of all splits together."""
        raise NotImplementedError

    def columns(self, numbers: np.ndarray) -> Mapping[str, pa.Array]:
        """The columns of the definition, for the rows with these numbers."""
        raise NotImplementedError

    def extent(self, split: int, now: float) -> Extent:
        """Rows are dealt out to the splits in turn."""
        return Extent(0, (self.count(now) - split + self.splits - 1) // self.splits)

    def read(self, task: Range) -> Iterator[Decoded]:
        for start in range(task.start, task.end, BATCH):
            offsets = np.arange(start, min(start + BATCH, task.end), dtype=np.int64)
            columns = dict(self.columns(offsets * self.splits + task.split))
            split = np.full(len(offsets), task.split, dtype=np.int64)
            for each in self.definition.include:
                columns[each.name] = pa.array(split if each.what == "partition" else offsets)
            columns |= {PARTITION: pa.array(split), OFFSET: pa.array(offsets)}
            yield Decoded(rows=pa.table(columns).cast(self.definition.schema))


@dataclass(kw_only=True)
class GeneratedFeed(Feed):
    reader: Generator
    clock: Callable[[], float] = time.time

    def extents(self, *, fresh: bool = False) -> dict[int, Extent]:
        now = self.clock()
        return {split: self.reader.extent(split, now) for split in range(self.reader.splits)}


def connector(check: Callable[[Definition], None], of: Callable[..., Generator], **known: Any) -> Connector:
    """``of`` makes the generator of a source that was created at a time. What else it is told is remembered of each
    source, so that one that was created when it was told something else keeps its rows."""

    def resolve(definition: Definition, outside: Outside) -> Resolved:
        found = {"created_at": time.time()} | known
        return Resolved(starts=dict.fromkeys(range(of(definition, **found).splits), 0), known=found)

    def feed(definition: Definition, resolved: Resolved, outside: Outside) -> Feed:
        return GeneratedFeed(definition=definition, reader=of(definition, **resolved.known))

    return Connector(check=check, resolve=resolve, feed=feed)


def mixed(numbers: np.ndarray, seed: int) -> np.ndarray:
    """64 random bits of each number: SplitMix64.

    >>> mixed(np.arange(2), 1).tolist() == mixed(np.arange(2), 1).tolist()
    True
    >>> len(set(mixed(np.arange(1000), 7).tolist()))
    1000
    """
    with np.errstate(over="ignore"):
        words = numbers.astype(np.uint64) + np.uint64(seed % (1 << 64)) * np.uint64(0xD1342543DE82EF95)
        words = (words + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return words ^ (words >> np.uint64(31))
