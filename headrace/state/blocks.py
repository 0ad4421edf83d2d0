"""What lookups have decoded of files, kept for the next one: the block cache of state tables.

A few hundred keys lie in most row groups of a table of half a million rows, and to decode those is nearly all that it
costs to look the keys up. Files never change, so what is decoded stays right: the keys as sortable bytes, in which a
lookup bisects for all of its keys at once, and the columns, of which it takes the rows that it has found.

Only for keys of one width, and for relations that fit (``fits``): of a larger one each lookup would push out what the
one before has left. What fits nowhere is read row group by row group (:mod:`headrace.state.lookup`).
"""

from __future__ import annotations

import functools
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.state.files import FOOTERS, Files, open_parquet
from headrace.state.kept import KeptColumn, is_number, spread, stretches_of
from headrace.state.layout import Layout
from headrace.state.runs import EPOCH, VNODE, WEIGHT, GroupIndex, RunFile

if TYPE_CHECKING:
    from headrace.state.lookup import IndexCache

BLOCK_CACHE_BYTES = 512 << 20
"""Of decoded columns and keys that the driver keeps."""

RELATION_SHARE = 3 / 4
"""What one relation may have of it."""

MANY_GROUPS = 8
"""Of a file of which more than this part of the row groups is wanted all of them are decoded, once …"""

WHOLE_ROWS = 1 << 20
"""… if it has no more rows than this, as no epoch should wait long for what the next ones want."""

_TEXT_BYTES = 32
"""What a value of no fixed width is taken for, before any was read"""

_SAMPLE = 16
"""Row groups that are read to see what a row takes"""

_RELATIONS = 10_000
"""… and relations of which that is remembered"""

T = TypeVar("T")
R = TypeVar("R")


class Blocks:
    """What is decoded of one file."""

    def __init__(self, file: RunFile, index: GroupIndex, layout: Layout):
        self.file, self._layout, width = file, layout, layout.codec.width
        self.sizes = np.array([rows for _, _, rows in index.groups], dtype=np.int64)
        self._starts = np.concatenate([[0], np.cumsum(self.sizes)])
        self._lows, self._highs = (
            np.array([group[end] for group in index.groups], dtype=f"S{width}") for end in (0, 1)
        )
        # Memory that was not written to is not there yet: it costs what is loaded.
        self._keys = np.empty(file.rows, dtype=f"S{width}")
        self._keyed = np.zeros(len(self.sizes), dtype=np.bool_)
        self._columns: dict[str, KeptColumn] = {}
        self._absent: set[str] = set()
        self._lock = Lock()
        self.bytes = 0

    def widths(self) -> dict[str, float]:
        """Bytes of a row in each column of which something is loaded."""
        rows = {name: int(self.sizes[column.there].sum()) for name, column in list(self._columns.items())}
        return {name: self._columns[name].bytes / count for name, count in rows.items() if count}

    def groups_of(self, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row groups, first and after the last, that may hold keys of each range."""
        first = np.searchsorted(self._highs, lows, "left")
        return first, np.maximum(first, np.searchsorted(self._lows, highs, "right"))

    def load(self, files: Files, groups: np.ndarray, names: Iterable[str]) -> None:
        """Decodes what is not there of the keys and some columns of row groups."""
        with self._lock:
            if not self.missing(groups, names):
                return
            if len(groups) > len(self.sizes) // MANY_GROUPS and self.file.rows <= WHOLE_ROWS:
                groups = np.arange(len(self.sizes))  # the next lookups want the others
            missing = self.missing(groups, names)
            with open_parquet(files, self.file.path, footers=FOOTERS) as parquet:
                for packed, wanted in missing.items():
                    self._read(parquet, np.frombuffer(packed, dtype=groups.dtype), wanted)
            keys = int(self.sizes[self._keyed].sum()) * self._keys.itemsize
            self.bytes = keys + sum(column.bytes for column in self._columns.values())

    def missing(self, groups: np.ndarray, names: Iterable[str]) -> dict[bytes, list[str]]:
        """Columns by the row groups in which they are missing; the key's stand for the keys."""
        found: dict[bytes, list[str]] = {}
        for name in dict.fromkeys((*self._layout.key_names, *names)):
            if name not in self._absent:
                absent = groups[~self._there(name)[groups]]
                if len(absent):
                    found.setdefault(absent.tobytes(), []).append(name)
        return found

    def _there(self, name: str) -> np.ndarray:
        if name in self._layout.key_names and name not in self._layout.codec.lossy:
            return self._keyed
        return self._columns.setdefault(name, KeptColumn(self._starts)).there

    def _read(self, parquet: pq.ParquetFile, groups: np.ndarray, names: list[str]) -> None:
        with_keys = any(name in self._layout.key_names for name in names)
        asked = [*dict.fromkeys((*names, *self._layout.key_names)), VNODE] if with_keys else names
        table = parquet.read_row_groups(groups.tolist(), columns=asked, use_threads=False)
        stretches = stretches_of(groups, self._starts)
        if with_keys:
            spread(self._keys, stretches, self._encoded(table))
        for name in names:
            if name in self._columns:
                if name in table.column_names:
                    self._columns[name].put(groups, stretches, pa.concat_arrays(table[name].chunks))
                else:  # it came later, or is one that files may leave out
                    self._absent.add(name)
        if with_keys:
            self._keyed[groups] = True

    def _encoded(self, table: pa.Table) -> np.ndarray:
        keys = self._layout.completed(table, [*self._layout.key_names, VNODE])
        matrix = self._layout.codec.matrix(keys, vnodes=keys[VNODE].to_numpy())
        return np.ascontiguousarray(matrix).view(self._keys.dtype).ravel()

    def rows_in(self, lows: np.ndarray, highs: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Which rows have keys in these ranges, each of which is in some of the row groups, all of them loaded."""
        if self._keyed.all():
            begin, end = np.searchsorted(self._keys, lows, "left"), np.searchsorted(self._keys, highs, "right")
        else:  # what is not loaded is not in order
            begin = _bisect(self._keys, lows, self._starts[first], self._starts[first + 1], right=False)
            end = _bisect(self._keys, highs, self._starts[last - 1], self._starts[last], right=True)
        counts = np.maximum(end - begin, 0)
        return np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())

    def take(self, rows: np.ndarray, names: Iterable[str]) -> tuple[np.ndarray, dict[str, pa.Array]]:
        """The keys of rows, and their columns and some others."""
        groups, keys = np.searchsorted(self._starts, rows, "right") - 1, self._keys[rows]
        columns = self._layout.codec.columns(keys.view(np.uint8).reshape(len(keys), -1))
        with self._lock:
            for name in (*self._layout.codec.lossy, *names):
                if name not in self._absent and name not in columns:
                    columns[name] = self._columns[name].take(groups, rows)
        return keys, columns


class BlockCache:
    """Blocks of files, those of the least recently used ones forgotten first."""

    def __init__(self, limit: int = BLOCK_CACHE_BYTES):
        self._limit = limit
        self._lock = Lock()
        self._held: OrderedDict[tuple[str, str], Blocks] = OrderedDict()
        self._widths: OrderedDict[tuple[str, int], dict[str, float]] = OrderedDict()
        """Bytes of a row in columns of relations, as far as they are known"""

    @property
    def bytes(self) -> int:
        return sum(blocks.bytes for blocks in self._held.values())

    def fits(
        self, files: Files, layout: Layout, stored: Sequence[RunFile], names: Iterable[str], indexes: IndexCache
    ) -> bool:
        """Whether a relation may be kept here, with some of its columns."""
        if layout.codec.width is None:
            return False
        lossy, schema = layout.codec.lossy, layout.row_schema
        columns = [name for name in layout.names if name in lossy or (name in names and name not in layout.key_names)]
        # Internal columns take next to nothing: most rows of a relation are of one epoch.
        rows, room = sum(file.rows for file in stored), self._limit * RELATION_SHARE
        if rows * (layout.codec.width + sum(_most_bytes(schema.field(name).type) for name in columns)) <= room:
            return True
        if rows * layout.codec.width > room:
            return False
        widths = self._measured(files, layout, stored, columns, indexes)
        return rows * (layout.codec.width + sum(widths.get(name, 0) for name in columns)) <= room

    def _measured(
        self, files: Files, layout: Layout, stored: Sequence[RunFile], names: Sequence[str], indexes: IndexCache
    ) -> dict[str, float]:
        """What a row takes of each column: as it is kept already, or else in some row groups of the largest file."""
        with self._lock:
            known = self._widths.setdefault((files.root, layout.relation_id), {})
            self._widths.move_to_end((files.root, layout.relation_id))
            while len(self._widths) > _RELATIONS:
                self._widths.popitem(last=False)
        if any(name not in known for name in names):
            file = max(stored, key=lambda file: file.rows)
            sample = Blocks(file, indexes.get(file), layout)
            groups = np.unique(np.linspace(0, len(sample.sizes) - 1, _SAMPLE).astype(np.int64))
            sample.load(files, groups, names)
            known.update({name: 0.0 for name in names} | sample.widths())
        return known

    def of(self, files: Files, file: RunFile, layout: Layout, indexes: IndexCache) -> Blocks:
        name = (files.root, file.path)
        with self._lock:
            if name in self._held:
                self._held.move_to_end(name)
                return self._held[name]
        made = Blocks(file, indexes.get(file), layout)
        with self._lock:
            return self._held.setdefault(name, made)

    def trim(self) -> None:
        """Forgets what is too much. Whoever reads it still may go on."""
        with self._lock:
            total = self.bytes
            while total > self._limit:
                total -= self._held.popitem(last=False)[1].bytes


BLOCKS = BlockCache()
"""Of the driver, where lookups run by themselves; tasks keep none."""


def find(
    files: Files,
    layout: Layout,
    stored: Sequence[RunFile],
    matrix: np.ndarray,
    names: Sequence[str],
    indexes: IndexCache,
    *,
    most: int | None = None,
) -> pa.Table | None:
    """The live rows whose (vnode, pk) starts with one of some keys, which are rows of bytes; of the other columns than
    those asked for nothing is read. None if that means to look at more than ``most`` stored rows."""
    if len(matrix) == 0:
        return layout.stored_schema.empty_table()
    wanted = np.unique(np.ascontiguousarray(matrix).view(f"S{matrix.shape[1]}").ravel())
    lows, highs = (_filled_up(wanted, layout, byte) for byte in (0x00, 0xFF))
    todo, rows = [], 0
    for file in stored:
        blocks = BLOCKS.of(files, file, layout, indexes)
        first, last = blocks.groups_of(lows, highs)
        (inside,) = np.nonzero(first < last)
        if len(inside):
            first, last = first[inside], last[inside]
            groups = _covered(first, last, len(blocks.sizes))
            rows += int(blocks.sizes[groups].sum())
            # The weight of files without retractions is known.
            asked = [name for name in names if name != WEIGHT or file.retractions]
            todo.append(_Todo(blocks=blocks, names=asked, ranges=inside, first=first, last=last, groups=groups))
        if most is not None and rows > most:
            return None
    # To decode takes two threads half as long; to find rows in what is there takes them longer than one.
    in_threads(lambda each: each.blocks.load(files, each.groups, each.names), [each for each in todo if each.to_read])
    read = [_rows_of(each, layout, lows, highs) for each in todo]
    BLOCKS.trim()
    found = [(keys, rows) for keys, rows in read if len(keys)]
    if not found:
        return layout.stored_schema.empty_table()
    return _newest_live(np.concatenate([keys for keys, _ in found]), pa.concat_tables([rows for _, rows in found]))


@dataclass(frozen=True, kw_only=True)
class _Todo:
    """Ranges of keys, and the row groups of a file that each of them may be in."""

    blocks: Blocks
    names: list[str]
    ranges: np.ndarray
    first: np.ndarray
    last: np.ndarray
    groups: np.ndarray

    @property
    def to_read(self) -> bool:
        return bool(self.blocks.missing(self.groups, self.names))


def _rows_of(todo: _Todo, layout: Layout, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, pa.Table]:
    """All stored versions of the keys in a file."""
    rows = todo.blocks.rows_in(lows[todo.ranges], highs[todo.ranges], todo.first, todo.last)
    if len(rows) == 0:
        return np.empty(0, dtype=lows.dtype), layout.stored_schema.empty_table()
    keys, columns = todo.blocks.take(rows, todo.names)
    return keys, layout.stored(_with_vnodes(keys, pa.table(columns)))


def in_threads(work: Callable[[T], R], items: Sequence[T]) -> list[R]:
    """What each of them gives; side by side, but for one."""
    if len(items) > 1:
        try:
            return list(_threads().map(work, items))
        except RuntimeError:  # the program's first thread has ended, so no pool takes anything; others may still write
            pass
    return list(map(work, items))


@functools.cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(os.cpu_count(), "headrace-lookup")


def _newest_live(keys: np.ndarray, rows: pa.Table) -> pa.Table:
    """As :func:`headrace.state.lookup.newest_live`, for keys that are known."""
    epochs, weights = rows[EPOCH].to_numpy(), rows[WEIGHT].to_numpy()
    # In one epoch the retraction comes before what replaces it, so +1 wins over -1.
    order = np.lexsort((weights, epochs, keys))
    ordered = keys[order]
    newest = order[np.append(ordered[1:] != ordered[:-1], True)]
    return rows.take(pa.array(np.sort(newest[weights[newest] > 0])))


def _with_vnodes(keys: np.ndarray, rows: pa.Table) -> pa.Table:
    prefix = np.ascontiguousarray(keys.view(np.uint8).reshape(len(keys), -1)[:, :2])
    return rows.append_column(VNODE, pa.array(prefix.view(">u2").ravel().astype(np.int16)))


def _filled_up(keys: np.ndarray, layout: Layout, byte: int) -> np.ndarray:
    """Keys of which the last columns are missing, with one byte in place of those."""
    width = layout.codec.width
    matrix = np.full((len(keys), width), byte, dtype=np.uint8)
    matrix[:, : keys.dtype.itemsize] = keys.view(np.uint8).reshape(len(keys), -1)
    return matrix.view(f"S{width}").ravel()


def _covered(first: np.ndarray, last: np.ndarray, count: int) -> np.ndarray:
    """The numbers in any of the ranges."""
    edges = np.bincount(first, minlength=count + 1) - np.bincount(last, minlength=count + 1)
    return np.flatnonzero(np.cumsum(edges[:count]) > 0)


def _bisect(keys: np.ndarray, wanted: np.ndarray, low: np.ndarray, high: np.ndarray, *, right: bool) -> np.ndarray:
    """For each wanted key where it belongs among those from ``low`` on and before ``high``, which are sorted."""
    low, high = low.copy(), high.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        held = keys[np.where(open_, middle, 0)]
        before = held <= wanted if right else held < wanted
        low = np.where(open_ & before, middle + 1, low)
        high = np.where(open_ & ~before, middle, high)
    return low


def _most_bytes(kind: pa.DataType) -> int:
    """Of a value, unless it is a long text."""
    if is_number(kind):
        return 8
    try:
        return max(1, kind.bit_width // 8)
    except ValueError:  # a text, or something nested
        return _TEXT_BYTES
