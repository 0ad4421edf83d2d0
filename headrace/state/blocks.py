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
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.state.files import FOOTERS, Files, open_parquet
from headrace.state.layout import Layout
from headrace.state.runs import EPOCH, VNODE, WEIGHT, GroupIndex, RunFile

if TYPE_CHECKING:
    from headrace.state.lookup import IndexCache

BLOCK_CACHE_BYTES = 512 << 20
"""Of decoded columns and keys that the driver keeps; one relation may have three quarters of it."""

MANY_GROUPS = 8
"""Of a file of which more than this part of the row groups is wanted all of them are decoded, once."""

_TEXT_BYTES = 32
"""What a value of no fixed width is taken for, before any was read"""

T = TypeVar("T")
R = TypeVar("R")


@dataclass
class _Column:
    """Where the values of each row group are: in which of the arrays that were read, and from which row on."""

    groups: int
    arrays: list[pa.Array | pa.Scalar] = field(default_factory=list)
    """A scalar where all values are the same: most rows of a table are of one epoch."""

    def __post_init__(self) -> None:
        self.array = np.full(self.groups, -1, dtype=np.int32)
        self.first = np.zeros(self.groups, dtype=np.int64)

    def put(self, groups: np.ndarray, firsts: np.ndarray, values: pa.Array) -> None:
        # Last where they are: another thread may look.
        self.arrays.append(values)
        self.first[groups] = firsts
        self.array[groups] = len(self.arrays) - 1

    def take(self, groups: np.ndarray, rows: np.ndarray) -> pa.Array:
        """Values by the row group and the row in it."""
        places, which = self.first[groups] + rows, self.array[groups]
        numbers = np.unique(which)
        if len(numbers) == 1:
            return self._values(numbers[0], places)
        order = np.argsort(which, kind="stable")
        parts = [self._values(number, places[which == number]) for number in numbers]
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(parts).take(pa.array(back))

    def _values(self, number: int, places: np.ndarray) -> pa.Array:
        held = self.arrays[number]
        return pa.repeat(held, len(places)) if isinstance(held, pa.Scalar) else held.take(pa.array(places))


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
        self._columns: dict[str, _Column] = {}
        self._absent: set[str] = set()
        self._lock = Lock()
        self.bytes = 0

    def groups_of(self, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row groups, first and after the last, that may hold keys of each range."""
        first = np.searchsorted(self._highs, lows, "left")
        return first, np.maximum(first, np.searchsorted(self._lows, highs, "right"))

    def load(self, files: Files, groups: np.ndarray, names: Sequence[str]) -> None:
        """Decodes what is not there of some columns of row groups; the key's are always there."""
        with self._lock:
            if not self.missing(groups, names):
                return
            if len(groups) > len(self.sizes) // MANY_GROUPS:  # the next lookups want the others
                groups = np.arange(len(self.sizes))
            missing = self.missing(groups, names)
            with open_parquet(files, self.file.path, footers=FOOTERS) as parquet:
                for packed, wanted in missing.items():
                    self._read(parquet, np.frombuffer(packed, dtype=groups.dtype), wanted)

    def missing(self, groups: np.ndarray, names: Sequence[str]) -> dict[bytes, list[str]]:
        """Columns by the row groups in which they are missing."""
        found: dict[bytes, list[str]] = {}
        for name in dict.fromkeys((*self._layout.key_names, *names)):
            if name not in self._absent:
                column = self._columns.setdefault(name, _Column(len(self.sizes)))
                absent = groups[column.array[groups] < 0]
                if len(absent):
                    found.setdefault(absent.tobytes(), []).append(name)
        return found

    def _read(self, parquet: pq.ParquetFile, groups: np.ndarray, names: list[str]) -> None:
        with_keys = self._layout.key_names[0] in names
        asked = [*names, VNODE] if with_keys else names
        table = parquet.read_row_groups(groups.tolist(), columns=asked, use_threads=False)
        ends = np.cumsum(self.sizes[groups])
        firsts = ends - self.sizes[groups]
        if with_keys:
            keys = self._encoded(table)
            for group, first, end in zip(groups.tolist(), firsts.tolist(), ends.tolist(), strict=True):
                self._keys[self._starts[group] : self._starts[group + 1]] = keys[first:end]
            self.bytes += keys.nbytes
        for name in names:
            if name not in table.column_names:  # it came later, or is one that files may leave out
                self._absent.add(name)
                continue
            values = pa.concat_arrays(table[name].chunks)
            if name == EPOCH and len(once := pc.unique(values)) == 1:
                self._columns[name].put(groups, firsts, once[0])
                continue
            self._columns[name].put(groups, firsts, values)
            self.bytes += values.nbytes

    def _encoded(self, table: pa.Table) -> np.ndarray:
        keys = self._layout.completed(table, [*self._layout.key_names, VNODE])
        matrix = self._layout.codec.matrix(keys, vnodes=keys[VNODE].to_numpy())
        return np.ascontiguousarray(matrix).view(self._keys.dtype).ravel()

    def rows_in(self, lows: np.ndarray, highs: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Which rows have keys in these ranges, each of which is in some of the row groups, all of them loaded."""
        if (self._columns[self._layout.key_names[0]].array >= 0).all():
            begin, end = np.searchsorted(self._keys, lows, "left"), np.searchsorted(self._keys, highs, "right")
        else:  # what is not loaded is not in order
            begin = _bisect(self._keys, lows, self._starts[first], self._starts[first + 1], right=False)
            end = _bisect(self._keys, highs, self._starts[last - 1], self._starts[last], right=True)
        counts = np.maximum(end - begin, 0)
        return np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())

    def take(self, rows: np.ndarray, names: Iterable[str]) -> tuple[np.ndarray, dict[str, pa.Array]]:
        """The keys of rows, and some columns."""
        groups = np.searchsorted(self._starts, rows, "right") - 1
        within = rows - self._starts[groups]
        held = [name for name in names if name not in self._absent]
        return self._keys[rows], {name: self._columns[name].take(groups, within) for name in held}


class BlockCache:
    """Blocks of files, those of the least recently used ones forgotten first."""

    def __init__(self, limit: int = BLOCK_CACHE_BYTES):
        self._limit = limit
        self._lock = Lock()
        self._held: OrderedDict[tuple[str, str], Blocks] = OrderedDict()

    @property
    def bytes(self) -> int:
        return sum(blocks.bytes for blocks in self._held.values())

    def fits(self, layout: Layout, files: Iterable[RunFile], names: Iterable[str]) -> bool:
        """Whether a relation may be kept here, with some of its columns."""
        if layout.codec.width is None:
            return False
        # Internal columns take next to nothing: most rows of a relation are of one epoch.
        schema, columns = layout.row_schema, {*layout.key_names, *names}.intersection(layout.names)
        each = layout.codec.width + sum(_bytes_of(schema.field(name).type) for name in columns)
        return each * sum(file.rows for file in files) <= self._limit * 3 // 4

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
    keys, columns = todo.blocks.take(rows, dict.fromkeys((*layout.key_names, *todo.names)))
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


def _bytes_of(kind: pa.DataType) -> int:
    try:
        return max(1, kind.bit_width // 8)
    except ValueError:  # a text, or something nested
        return _TEXT_BYTES
