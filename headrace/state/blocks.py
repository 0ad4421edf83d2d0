"""What lookups have decoded of files, kept for the next one: the block cache of state tables.

A few hundred keys lie in most row groups of a table of half a million rows, and to decode those is nearly all that it
costs to look the keys up. Files never change, so what is decoded stays right: the keys as sortable bytes, in which a
lookup bisects for all of its keys at once, and the columns, of which it takes the rows that it has found.

Keys with texts among them are filled up with zeros to one width, which changes nothing about their order, because none
of them begins with another one. Only for relations that fit (``fits``): of a larger one each lookup would push out what
the one before has left. What fits nowhere is read row group by row group (:mod:`headrace.state.lookup`).
"""

from __future__ import annotations

import functools
import math
import os
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.state.files import FOOTERS, Files, open_parquet
from headrace.state.kept import KeptColumn, is_number, spread, stretches_of
from headrace.state.layout import LEFT_OUT, Layout
from headrace.state.recent import beside
from headrace.state.runs import EPOCH, VNODE, WEIGHT, GroupIndex, RunFile
from headrace.state.small_blocks import KEY_BYTES, SMALL_FILE_ROWS, LongKeys, SmallBlocks, filled_up

if TYPE_CHECKING:
    from headrace.state.lookup import IndexCache

BLOCK_CACHE_BYTES = 512 << 20
"""Of decoded columns and keys that the driver keeps."""

RELATION_SHARE = 3 / 4
"""What one relation may have of it."""

MANY_GROUPS = 8
"""Of a file of which more than this part of the row groups is wanted all of them are decoded, once …"""

WHOLE_ROWS = 1 << 19
"""… if it has no more rows than this, as no epoch should wait long for what the next ones want …"""

AHEAD = 2
"""… or else so many times as many as are wanted."""

GROUPS_AT_ONCE = 64
"""Row groups that are decoded before they are taken apart; more would need memory that is not there yet."""

FEW_ROWS = 4096
"""Of files that one thread reads."""

_TEXT_BYTES = 32
"""What a value of no fixed width is taken for, before any was read"""

_KEY = ""
"""The name of no column: what the bytes of a key take"""

LOOKED_UP_WITHOUT = 64
"""Lookups of a relation after which a file that none of them has looked at is taken for gone. One that reads a relation
as it was looks at some of its files only."""

_VNODE_AND_MORE = 4
"""Bytes that any key has"""

_SAMPLE = 16
"""Row groups that are read to see what a row takes"""

_RELATIONS = 10_000
"""… and relations of which that is remembered"""

T = TypeVar("T")
R = TypeVar("R")


class Blocks:
    """What is decoded of one file."""

    def __init__(self, file: RunFile, index: GroupIndex, layout: Layout):
        self.file, self._layout, self.schema = file, layout, layout.stored_schema
        width = layout.codec.width or max(len(bound) for low, high, _ in index.groups for bound in (low, high))
        if width > KEY_BYTES:
            raise LongKeys
        self._beside = layout.key_names if layout.codec.width is None else layout.codec.lossy
        """Columns of the key that its bytes do not say"""
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
        self.bytes = beside(0)

    def widths(self) -> dict[str, float]:
        """Bytes of a row in each column of which something is loaded, and in the keys."""
        rows = {name: int(self.sizes[column.there].sum()) for name, column in list(self._columns.items())}
        columns = {name: self._columns[name].bytes / count for name, count in rows.items() if count}
        return columns | {_KEY: float(self.width)}

    @property
    def width(self) -> int:
        """To which keys are filled up."""
        return self._keys.itemsize

    def groups_of(self, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The row groups, first and after the last, that may hold keys of each range."""
        first = np.searchsorted(self._highs, lows, "left")
        return first, np.maximum(first, np.searchsorted(self._lows, highs, "right"))

    def load(self, files: Files, groups: np.ndarray, names: Iterable[str]) -> None:
        """Decodes what is not there of the keys and some columns of row groups."""
        with self._lock:
            if not self.missing(groups, names):
                return
            if len(groups) > len(self.sizes) // MANY_GROUPS:  # the next lookups want the others
                groups = self._with_others(groups)
            missing = self.missing(groups, names)
            with open_parquet(files, self.file.path, footers=FOOTERS) as parquet:
                for packed, wanted in missing.items():
                    absent = np.frombuffer(packed, dtype=groups.dtype)
                    for at in range(0, len(absent), GROUPS_AT_ONCE):
                        self._read(parquet, absent[at : at + GROUPS_AT_ONCE], wanted)
            keys = int(self.sizes[self._keyed].sum()) * self._keys.itemsize
            self.bytes = beside(len(self._columns)) + keys + sum(column.bytes for column in self._columns.values())

    def missing(self, groups: np.ndarray, names: Iterable[str]) -> dict[bytes, list[str]]:
        """Columns by the row groups in which they are missing; the key's stand for the keys."""
        found: dict[bytes, list[str]] = {}
        for name in dict.fromkeys((*self._layout.key_names, *names)):
            if name not in self._absent:
                absent = groups[~self._there(name)[groups]]
                if len(absent):
                    found.setdefault(absent.tobytes(), []).append(name)
        return found

    def _with_others(self, groups: np.ndarray) -> np.ndarray:
        """All row groups; or, of a large file, some more of those of which nothing is there."""
        if self.file.rows <= WHOLE_ROWS:
            return np.arange(len(self.sizes))
        others = self._keyed.copy()
        count = AHEAD * int((~others[groups]).sum())
        others[groups] = True
        return np.sort(np.concatenate([groups, np.flatnonzero(~others)[:count]]))

    def _there(self, name: str) -> np.ndarray:
        if name in self._layout.key_names and name not in self._beside:
            return self._keyed
        return self._columns.setdefault(name, KeptColumn(self._starts)).there

    def _read(self, parquet: pq.ParquetFile, groups: np.ndarray, names: list[str]) -> None:
        with_keys = any(name in self._layout.key_names for name in names)
        asked = [*dict.fromkeys((*names, *self._layout.key_names)), VNODE] if with_keys else names
        table = parquet.read_row_groups(groups.tolist(), columns=asked, use_threads=False)
        stretches = stretches_of(groups, self._starts)
        if with_keys:
            encoded = self._encoded(table)
            spread(self._keys, stretches, encoded)
        for name in names:
            if name in self._columns:
                if name in table.column_names:
                    self._columns[name].put(groups, stretches, pa.concat_arrays(table[name].chunks))
                else:  # it came later, or is one that files may leave out
                    self._absent.add(name)
        if with_keys:
            self._keyed[groups] = True

    def _encoded(self, table: pa.Table) -> np.ndarray:
        encoded = filled_up(self._layout, self._layout.completed(table, [*self._layout.key_names, VNODE]), self.width)
        if encoded.itemsize > self.width:
            self._keys = self._keys.astype(encoded.dtype)
        return encoded

    def rows_in(self, lows: np.ndarray, highs: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Which rows have keys in these ranges, each of which is in some of the row groups, all of them loaded."""
        if self._keyed.all():
            begin, end = np.searchsorted(self._keys, lows, "left"), np.searchsorted(self._keys, highs, "right")
        else:  # what is not loaded is not in order
            begin = _bisect(self._keys, lows, self._starts[first], self._starts[first + 1], right=False)
            end = _bisect(self._keys, highs, self._starts[last - 1], self._starts[last], right=True)
        counts = np.maximum(end - begin, 0)
        return np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())

    def take(self, rows: np.ndarray, names: Iterable[str]) -> tuple[np.ndarray, pa.Table]:
        """Keys and stored rows; what is neither in the key nor in ``names`` is NULL."""
        groups, keys = np.searchsorted(self._starts, rows, "right") - 1, self._keys[rows]
        columns = {}
        if self._layout.codec.width is not None:
            columns = self._layout.codec.columns(keys.view(np.uint8).reshape(len(keys), -1))
        with self._lock:
            for name in (*self._beside, *names):
                if name not in self._absent and name not in columns:
                    columns[name] = self._columns[name].take(groups, rows)
        return keys, self._stored(columns | {VNODE: _vnodes(keys)}, len(keys))

    def _stored(self, columns: Mapping[str, pa.Array], count: int) -> pa.Table:
        arrays = []
        for each in self._layout.stored_schema:
            if each.name not in columns:
                value = pa.scalar(LEFT_OUT.get(each.name), each.type)
                arrays.append(pa.repeat(value, count) if value.is_valid else pa.nulls(count, each.type))
            else:
                values = columns[each.name]
                arrays.append(values if values.type == each.type else values.cast(each.type))
        return pa.table(arrays, schema=self._layout.stored_schema)


@dataclass(eq=False)
class _Held:
    """Blocks of a file, what they were counted as, and when they were used last: by lookups of all relations, and of
    their own."""

    blocks: Blocks | SmallBlocks
    bytes: int
    used: int
    looked_up: int


@dataclass(eq=False)
class _OfRelation:
    files: OrderedDict[str, _Held] = field(default_factory=OrderedDict)
    """By their paths, the least recently used one first"""
    lookups: int = 0


class BlockCache:
    """Blocks of files, those of the least recently used ones forgotten first.

    A lookup looks at all files of a relation. So what several have not looked at was merged away, and goes, too.
    """

    def __init__(self, limit: int = BLOCK_CACHE_BYTES):
        self._limit = limit
        self._lock = Lock()
        self._held: dict[tuple[str, int], _OfRelation] = {}
        self._uses = 0
        self.bytes = 0
        self._widths: OrderedDict[tuple[str, int], dict[str, float]] = OrderedDict()
        """Bytes of a row in columns of relations, as far as they are known"""
        self._refused: set[tuple[str, int]] = set()

    @property
    def files(self) -> int:
        return sum(len(relation.files) for relation in self._held.values())

    def fits(
        self, files: Files, layout: Layout, stored: Sequence[RunFile], names: Iterable[str], indexes: IndexCache
    ) -> bool:
        """Whether a relation may be kept here, with some of its columns."""
        place, schema = (files.root, layout.relation_id), layout.row_schema
        if place in self._refused:
            return False
        beside = layout.key_names if layout.codec.width is None else layout.codec.lossy
        columns = [name for name in layout.names if name in beside or (name in names and name not in layout.key_names)]
        # Internal columns take next to nothing: most rows of a relation are of one epoch.
        rows, room, known = sum(file.rows for file in stored), self._limit * RELATION_SHARE, self._widths.get(place, {})
        most = {_KEY: float(layout.codec.width or KEY_BYTES)}
        most |= {name: float(_most_bytes(schema.field(name).type)) for name in columns}
        if rows * sum(known.get(name, width) for name, width in most.items()) <= room:
            return True
        if known.keys() >= most.keys() or rows * (layout.codec.width or _VNODE_AND_MORE) > room:
            return False
        known = self._measured(files, layout, stored, columns, indexes)
        return rows * sum(known.get(name, 0) for name in most) <= room

    def refuse(self, files: Files, layout: Layout) -> None:
        """Keeps nothing of a relation."""
        with self._lock:
            self._refused.add((files.root, layout.relation_id))

    def _measured(
        self, files: Files, layout: Layout, stored: Sequence[RunFile], names: Sequence[str], indexes: IndexCache
    ) -> dict[str, float]:
        """What a row takes of each column in some row groups of the largest file."""
        file = max(stored, key=lambda file: file.rows)
        try:
            sample = Blocks(file, indexes.get(file), layout)
            groups = np.unique(np.linspace(0, len(sample.sizes) - 1, _SAMPLE).astype(np.int64))
            sample.load(files, groups, names)
        except LongKeys:
            return {_KEY: math.inf}
        return self._learn(files, layout, {name: 0.0 for name in names} | sample.widths())

    def _learn(self, files: Files, layout: Layout, widths: Mapping[str, float]) -> dict[str, float]:
        """What a row takes at least."""
        with self._lock:
            place = (files.root, layout.relation_id)
            known = self._widths.get(place, {})
            self._widths[place] = known | {name: max(width, known.get(name, 0.0)) for name, width in widths.items()}
            self._widths.move_to_end(place)
            while len(self._widths) > _RELATIONS:
                self._widths.popitem(last=False)
            return self._widths[place]

    def of(self, files: Files, file: RunFile, layout: Layout, indexes: IndexCache) -> Blocks | SmallBlocks:
        place = (files.root, layout.relation_id)
        with self._lock:
            if (held := self._used(place, file.path, layout)) is not None:
                return held
        small = file.rows <= SMALL_FILE_ROWS
        made = SmallBlocks(file, layout) if small else Blocks(file, indexes.get(file), layout)
        with self._lock:
            if (held := self._used(place, file.path, layout)) is not None:  # another thread has made them as well
                return held
            relation = self._held.setdefault(place, _OfRelation())
            self._forget(relation, file.path)  # which has the columns of before
            relation.files[file.path] = _Held(made, made.bytes, self._uses, relation.lookups)
            self.bytes += made.bytes
            return made

    def _used(self, place: tuple[str, int], path: str, layout: Layout) -> Blocks | SmallBlocks | None:
        relation = self._held.get(place)
        held = None if relation is None else relation.files.get(path)
        if held is None or not held.blocks.schema.equals(layout.stored_schema):
            return None
        self._uses += 1
        held.used, held.looked_up = self._uses, relation.lookups
        relation.files.move_to_end(path)
        return held.blocks

    def trim(
        self, files: Files, layout: Layout, used: Iterable[Blocks | SmallBlocks], *, given_up: bool = False
    ) -> None:
        """Ends a lookup, in which not all files were looked at if it was ``given_up``: forgets what is too much, and
        what is gone. Whoever reads it still may go on.

        If that is something that a relation has just ``used``, it takes more than was thought.
        """
        used, forgotten = list(used), set()
        with self._lock:
            relation = self._held.get((files.root, layout.relation_id), _OfRelation())
            for each in used:
                held = relation.files.get(each.file.path)
                if held is not None and held.blocks is each:
                    self.bytes += each.bytes - held.bytes
                    held.bytes = each.bytes
            relation.lookups += not given_up
            while (oldest := _oldest(relation)) is not None and relation.lookups - oldest.looked_up > LOOKED_UP_WITHOUT:
                self._forget(relation, oldest.blocks.file.path)
            while self.bytes > self._limit:
                holding = [each for each in self._held.values() if each.files]
                fullest = min(holding, key=lambda each: _oldest(each).used)
                oldest = _oldest(fullest)
                forgotten.add(id(oldest.blocks))
                self._forget(fullest, oldest.blocks.file.path)
        if any(id(each) in forgotten for each in used):
            for each in used:
                if isinstance(each, Blocks):
                    self._learn(files, layout, each.widths())

    def _forget(self, relation: _OfRelation, path: str) -> None:
        if (held := relation.files.pop(path, None)) is not None:
            self.bytes -= held.bytes


def _oldest(relation: _OfRelation) -> _Held | None:
    return next(iter(relation.files.values()), None)


BLOCKS = BlockCache()
"""Of the driver, where lookups run by themselves; tasks keep none."""


class _Wanted:
    """Whole keys, or the first bytes of keys, each once and in order, and the ranges that they are."""

    def __init__(self, keys: np.ndarray | Sequence[bytes]):
        """Rows of bytes, or keys that are not all as long."""
        if isinstance(keys, np.ndarray):
            self.keys = np.unique(np.ascontiguousarray(keys).view(f"S{keys.shape[1]}").ravel())
            self.lengths = np.full(len(self.keys), keys.shape[1])
        else:
            each = sorted(set(keys))
            self.keys, self.lengths = np.array(each, dtype=np.bytes_), np.array([*map(len, each)])
        self._ranges: dict[int, tuple[np.ndarray, np.ndarray]] = {}

    def ranges(self, width: int) -> tuple[np.ndarray, np.ndarray]:
        """Filled up to a width with the least and with the largest bytes; what is longer is cut off."""
        if width not in self._ranges:
            lows = np.zeros((len(self.keys), width), dtype=np.uint8)
            held = self.keys.view(np.uint8).reshape(len(self.keys), -1)[:, :width]
            lows[:, : held.shape[1]] = held
            highs = np.where(np.arange(width) < self.lengths[:, None], lows, np.uint8(0xFF))
            self._ranges[width] = tuple(np.ascontiguousarray(each).view(f"S{width}").ravel() for each in (lows, highs))
        return self._ranges[width]


def find(
    files: Files,
    layout: Layout,
    stored: Sequence[RunFile],
    keys: np.ndarray | Sequence[bytes],
    names: Sequence[str],
    indexes: IndexCache,
    *,
    most: int | None = None,
) -> pa.Table | None:
    """The live rows whose (vnode, pk) starts with one of some keys, which are rows of bytes, or not all as long; of the
    other columns than those asked for nothing is read. None if that means to look at more than ``most`` stored rows.
    :class:`LongKeys` if the relation cannot be kept."""
    if len(keys) == 0:
        return layout.stored_schema.empty_table()
    try:
        return _found(files, layout, stored, _Wanted(keys), names, indexes, most)
    except LongKeys:
        BLOCKS.refuse(files, layout)
        raise


def _found(
    files: Files,
    layout: Layout,
    stored: Sequence[RunFile],
    wanted: _Wanted,
    names: Sequence[str],
    indexes: IndexCache,
    most: int | None,
) -> pa.Table | None:
    todo, rows = [], 0
    for file in stored:
        blocks = BLOCKS.of(files, file, layout, indexes)
        first, last = blocks.groups_of(*wanted.ranges(max(blocks.width, wanted.keys.itemsize)))
        (inside,) = np.nonzero(first < last)
        if len(inside):
            first, last = first[inside], last[inside]
            groups = _covered(first, last, len(blocks.sizes))
            rows += int(blocks.sizes[groups].sum())
            # The weight of files without retractions is known.
            asked = [name for name in names if name != WEIGHT or file.retractions]
            todo.append(_Todo(blocks=blocks, names=asked, ranges=inside, first=first, last=last, groups=groups))
        if most is not None and rows > most:
            BLOCKS.trim(files, layout, (), given_up=True)
            return None
    # To decode takes two threads half as long; to find rows in what is there takes them longer than one.
    to_read = [each for each in todo if each.to_read]
    in_threads(
        lambda each: each.blocks.load(files, each.groups, each.names),
        to_read,
        alone=sum(each.blocks.file.rows for each in to_read) <= FEW_ROWS,
    )
    read = [_rows_of(each, layout, wanted) for each in todo]
    BLOCKS.trim(files, layout, [each.blocks for each in todo])
    found = [(keys, rows) for keys, rows in read if len(keys)]
    if not found:
        return layout.stored_schema.empty_table()
    if not any(each.blocks.file.retractions for each in todo):  # no key is there twice
        return pa.concat_tables([rows for _, rows in found])
    return _newest_live(np.concatenate([keys for keys, _ in found]), pa.concat_tables([rows for _, rows in found]))


@dataclass(frozen=True, kw_only=True)
class _Todo:
    """Ranges of keys, and the row groups of a file that each of them may be in."""

    blocks: Blocks | SmallBlocks
    names: list[str]
    ranges: np.ndarray
    first: np.ndarray
    last: np.ndarray
    groups: np.ndarray

    @property
    def to_read(self) -> bool:
        return bool(self.blocks.missing(self.groups, self.names))


def _rows_of(todo: _Todo, layout: Layout, wanted: _Wanted) -> tuple[np.ndarray, pa.Table]:
    """All stored versions of the keys in a file."""
    width, ranges, first, last = todo.blocks.width, todo.ranges, todo.first, todo.last
    if not (fitting := wanted.lengths[ranges] <= width).all():  # what is longer than all that is there is not there
        ranges, first, last = ranges[fitting], first[fitting], last[fitting]
    lows, highs = wanted.ranges(width)
    rows = todo.blocks.rows_in(lows[ranges], highs[ranges], first, last)
    if len(rows) == 0:
        return np.empty(0, dtype=f"S{width}"), layout.stored_schema.empty_table()
    return todo.blocks.take(rows, todo.names)


def in_threads(work: Callable[[T], R], items: Sequence[T], *, alone: bool = False) -> list[R]:
    """What each of them gives; side by side, but for one, or for what is not worth it."""
    if len(items) > 1 and not alone:
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


def _vnodes(keys: np.ndarray) -> pa.Array:
    prefix = np.ascontiguousarray(keys.view(np.uint8).reshape(len(keys), -1)[:, :2])
    return pa.array(prefix.view(">u2").ravel().astype(np.int16))


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
