"""The log that a connector keeps in the warehouse: files under ``sources/<id>``, in the order of the manifest.

The manifest has their names, and how much is in each. What is appended is a file; when there are many small ones they
become one. A file that is large enough is never written again, so a log costs what is appended to it, however long it
is.
"""

from __future__ import annotations

import itertools
import json
import uuid
import zlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.engine.feeds import log_segments, with_log
from headrace.errors import CorruptWarehouse
from headrace.sources.connector import Segment
from headrace.state.manifest import Manifest

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

SMALL_SEGMENTS = 64
"""Files that are not large; then they become one"""

SEGMENT_ENTRIES = 8_192
"""How many entries make a file large"""


class StoredSegments:
    def __init__(self, engine: Engine, id: int):
        self._engine, self._id = engine, id

    def parts(self) -> list[Segment]:
        return log_segments(self._engine.committed, self._id)

    def read(self, part: Segment) -> list[Any]:
        try:
            return json.loads(zlib.decompress(self._engine.storage.read(part.path)))
        except FileNotFoundError:
            if part not in self.parts():
                raise
            raise CorruptWarehouse(f"{part.path} is gone") from None
        except (zlib.error, ValueError) as problem:
            raise CorruptWarehouse(f"{part.path} cannot be read: {problem}") from None

    def tidy(self) -> None:
        """Removes what a crash has left: files that no manifest names. Nobody may append meanwhile."""
        named = {each.path for each in self.parts()}
        folder = f"sources/{self._id}"
        found = [f"{folder}/{entry.name}" for entry in self._engine.storage.list(folder)]
        self._engine.storage.delete([path for path in found if path not in named])

    def append(self, entries: Sequence[Any], *, weight: int) -> None:
        large, small = cut(self.parts())
        merged = small if len(small) >= SMALL_SEGMENTS else []
        entries = [*itertools.chain.from_iterable(map(self.read, merged)), *entries]
        path = f"sources/{self._id}/{uuid.uuid4().hex}"
        storage = self._engine.storage
        storage.make_dirs(f"sources/{self._id}")
        storage.write(path, zlib.compress(json.dumps(entries).encode(), 1))
        added = Segment(path, len(entries), weight + sum(each.weight for each in merged))
        after = [*large, added] if merged else [*large, *small, added]
        self._engine.coordinator.mutate(_with_log(self._id, after), "listing")
        storage.delete([each.path for each in merged])


def cut(segments: Sequence[Segment]) -> tuple[list[Segment], list[Segment]]:
    """Up to the last that is large, and the small ones behind it.

    >>> of = [Segment("a", SEGMENT_ENTRIES, 1), Segment("b", 1, 1), Segment("c", 1, 1)]
    >>> [[each.path for each in part] for part in cut(of)]
    [['a'], ['b', 'c']]
    """
    end = next((at for at in range(len(segments), 0, -1) if segments[at - 1].entries >= SEGMENT_ENTRIES), 0)
    return list(segments[:end]), list(segments[end:])


def _with_log(id: int, segments: Sequence[Segment]) -> Callable[[Manifest, int], tuple[Manifest, None]]:
    return lambda state, epoch: (with_log(state, id, segments), None)
