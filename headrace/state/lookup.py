"""Old rows by key, in time proportional to the keys and not to the table.

The driver knows the bounds of every row group (from the manifest, and from the sidecar index of a file with several);
it bisects the sorted keys into them, and tasks read exactly those row groups with Arrow. What no row group can hold
costs nothing: keys beyond everything stored, such as a growing id, start no job at all.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from headrace.errors import CorruptWarehouse
from headrace.state.blocks import BLOCKS, find, in_threads
from headrace.state.files import FOOTERS, RESTORE, Files, LocalFiles, open_parquet
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.state.prepared import in_one_process, packed_rows, run_tasks
from headrace.state.runs import EPOCH, SIDECAR, VNODE, WEIGHT, GroupIndex, Run, RunFile
from headrace.state.small_blocks import LongKeys
from headrace.state.vnode import vnodes_of
from headrace.state.whole import newest_live
from headrace.types import SqlType

if TYPE_CHECKING:
    from headrace.state.storage import Storage

INDEX_CACHE_BYTES = 64 << 20
"""Bounds the driver's memory for row-group bounds; about 200,000 of them fit."""

DRIVER_VALUES = 1 << 25
"""Stored values that the driver reads itself, in threads, if they are on a disk of its own: a job would take longer."""

DRIVER_PROBES = 256
"""… and in how many pieces."""

GROUPS_AT_ONCE = 32
"""Row groups that a task decodes before it looks for its keys in them; what is decoded then still is in the cache."""

PREFIX_ROWS = 1 << 17
"""Stored rows up to which one task reads the part of an index that a query asks for; beyond, it is a scan."""


class IndexCache:
    """Row-group bounds of files, least recently used ones forgotten first."""

    def __init__(self, storage: Storage):
        self._storage = storage
        self._lock = Lock()
        self._held: OrderedDict[str, tuple[GroupIndex, int]] = OrderedDict()
        self._bytes = 0

    def get(self, file: RunFile) -> GroupIndex:
        if file.groups == 1:
            return GroupIndex(((file.low, file.high, file.rows),))
        with self._lock:
            if file.path in self._held:
                self._held.move_to_end(file.path)
                return self._held[file.path][0]
        path = f"{file.path}{SIDECAR}"
        try:
            data = self._storage.read(path)
        except FileNotFoundError:
            raise CorruptWarehouse(f"{path} is missing", hint=RESTORE) from None
        index = GroupIndex.from_bytes(data, path)
        size = len(data) + 250 * len(index.groups)  # what Python adds to every bound
        with self._lock:
            if file.path in self._held:  # another thread has read it as well
                return self._held[file.path][0]
            self._held[file.path] = (index, size)
            self._bytes += size
            while self._bytes > INDEX_CACHE_BYTES and len(self._held) > 1:
                _, (_, size) = self._held.popitem(last=False)
                self._bytes -= size
        return index


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Row groups of one file, and the keys (as positions in the sorted key list) that they may hold."""

    path: str
    groups: tuple[int, ...]
    first_key: int
    last_key: int
    rows: int
    retracts: bool = True
    """Whether some of the file's rows may be retractions."""


BriefProbe = tuple[str, tuple[int, ...], int, int, bool]


def probes(files: Iterable[RunFile], keys: Sequence[bytes], indexes: IndexCache) -> list[Probe]:
    """What to read for sorted (vnode, pk) keys."""
    found = []
    for file in files:
        if not keys or keys[-1] < file.low or keys[0] > file.high:
            continue
        places: Sequence[int] = range(len(keys))
        wanted = keys
        if file.first_key is not None:
            places = [place for place in places if file.may_hold(keys[place])]
            wanted = [keys[place] for place in places]
        hits = indexes.get(file).overlapping(wanted) if places else {}
        if not hits:
            continue
        per_group = max(1, file.rows // file.groups)
        for chunk in _chunks(sorted(hits), GROUPS_AT_ONCE):
            found.append(
                Probe(
                    path=file.path,
                    groups=tuple(chunk),
                    first_key=places[min(hits[group][0] for group in chunk)],
                    last_key=places[max(hits[group][1] for group in chunk) - 1] + 1,
                    rows=per_group * len(chunk),
                    retracts=file.retractions > 0,
                )
            )
    return found


def _chunks(items: list[int], size: int) -> Iterator[list[int]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


@dataclass(frozen=True, kw_only=True)
class ReadProbes:
    """A task body for ``mapInArrow``: pickled probes with their keys in, matching stored rows out."""

    files: Files
    layout: Layout
    whole_keys: bool = True
    """Whether the keys are whole, or only their first columns: then rows of all combinations of their values match."""
    columns: tuple[str, ...] | None = None
    """What to read besides the key; all others are NULL. None: everything."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for packed in batch.column(0).to_pylist():
                todo, keys_ipc = pickle.loads(packed)
                for table in self.read(todo, pa.ipc.open_stream(keys_ipc).read_all()):
                    yield from table.to_batches()

    def read(self, todo: Sequence[BriefProbe], keys: pa.Table) -> Iterator[pa.Table]:
        """The same wherever it runs. What to do as :func:`_brief` says it."""
        for path, probes_of_file in itertools.groupby(todo, key=lambda probe: probe[0]):
            with open_parquet(self.files, path, footers=FOOTERS) as parquet:
                found = []
                for _, groups, first, last, retracts in probes_of_file:
                    names = [name for name in self.names if retracts or name != WEIGHT]
                    table = parquet.read_row_groups(list(groups), columns=names, use_threads=False)
                    found.append(self._matching(table, keys.slice(first, last - first)))
            yield self._stored(pa.concat_tables(found))

    @cached_property
    def names(self) -> list[str]:
        """What is read of each row. The vnode follows from the key, and each column costs as much as the next."""
        schema, distribution = self.layout.stored_schema, self.layout.distribution
        wanted = set(schema.names if self.columns is None else (*self.layout.key_names, *self.columns, EPOCH, WEIGHT))
        if wanted.issuperset(distribution):
            wanted.discard(VNODE)
        else:
            wanted.add(VNODE)
        return [name for name in schema.names if name in wanted]

    def _matching(self, table: pa.Table, keys: pa.Table) -> pa.Table:
        exactly = self.whole_keys and len(self.layout.key_names) > 1
        for name in keys.column_names:
            if self.layout.types[name].name in ("real", "double precision", "interval"):
                # Arrow tells 0.0 from -0.0 and one NaN from another; keys do not. And it does not look for structs.
                exactly = self.whole_keys
                continue
            wanted = pc.unique(keys[name]).cast(table.schema.field(name).type)
            table = _with_low_bits_of(table, name, wanted)
            table = table.filter(pc.is_in(table[name], value_set=wanted))
        if exactly and table.num_rows:
            # Column by column is not enough for a composite key: (1,2) and (2,1) would let (1,1) through.
            names = self.layout.key_names
            exact = set(self.layout.codec.encode_table(keys, names))
            held = self.layout.codec.encode_table(self.layout.completed(table, names), names)
            table = table.filter(pa.array([key in exact for key in held], pa.bool_()))
        return table

    def _stored(self, table: pa.Table) -> pa.Table:
        if self.columns is not None:
            table = self._with_nulls(table)
        table = self.layout.stored(table)
        if VNODE not in self.names:
            vnodes = pa.array(vnodes_of(table, self.layout.distribution, self._hashed), pa.int16())
            table = table.set_column(table.column_names.index(VNODE), VNODE, vnodes)
        return table

    @property
    def _hashed(self) -> list[SqlType]:
        return [self.layout.types[name] for name in self.layout.distribution]

    def _with_nulls(self, table: pa.Table) -> pa.Table:
        for name, kind in self.layout.columns:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(table.num_rows, kind.arrow))
        return table


_LOW_BITS = np.uint16
_MANY = 4096
"""Numbers with which most low bits would be taken"""


def _with_low_bits_of(table: pa.Table, name: str, wanted: pa.Array) -> pa.Table:
    """Rows whose number may be one of those wanted. To look each up in a hash table takes eight times as long, so what
    cannot be one of a few is told by its low bits."""
    column = table[name]
    if not pa.types.is_integer(wanted.type) or column.null_count or wanted.null_count or len(wanted) > _MANY:
        return table
    marks = np.zeros(np.iinfo(_LOW_BITS).max + 1, np.bool_)
    marks[wanted.to_numpy().astype(_LOW_BITS)] = True
    return table.take(pa.array(np.flatnonzero(marks[column.to_numpy().astype(_LOW_BITS)])))


@dataclass(frozen=True, kw_only=True)
class LiveRows:
    """A task body for ``mapInArrow``: all probes of a lookup in, the live rows out."""

    files: Files
    layout: Layout
    whole_keys: bool = True

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = list(ReadProbes(files=self.files, layout=self.layout, whole_keys=self.whole_keys)(batches))
        stored = pa.Table.from_batches(found, self.layout.stored_schema)
        yield from newest_live(self.layout, stored).select(self.layout.names).to_batches()


def lookup(
    spark: SparkSession,
    files: Files,
    layout: Layout,
    runs: Iterable[Run],
    keys: pa.Table,
    indexes: IndexCache,
    *,
    columns: Iterable[str] | None = None,
) -> pa.Table:
    """The live rows of these keys; ``keys`` has the pk columns and the vnode. Rows come in the stored schema.

    Of the columns that are not in ``columns`` or the key, nothing is read: they are NULL.
    """
    stored = [file for run in runs for file in run.files]
    body = ReadProbes(files=files, layout=layout, columns=None if columns is None else tuple(sorted(columns)))
    if _kept(spark, body, stored, indexes):
        names = [name for name in body.names if name != VNODE]
        with contextlib.suppress(LongKeys):
            found = find(files, layout, stored, _wanted(layout.codec, keys, keys[VNODE].to_numpy()), names, indexes)
            assert found is not None
            return found
    encoded = layout.encode(keys)
    order = sorted(range(len(encoded)), key=encoded.__getitem__)
    sorted_keys = [encoded[index] for index in order]
    todo = probes(stored, sorted_keys, indexes)
    if not todo:
        return layout.stored_schema.empty_table()
    key_table = keys.select(layout.key_names).take(pa.array(order, pa.int64()))
    return newest_live(layout, _found(spark, body, todo, key_table))


def lookup_frame(
    spark: SparkSession, files: Files, layout: Layout, runs: Iterable[Run], keys: pa.Table, indexes: IndexCache
) -> DataFrame:
    """The live rows of a few keys as a part of a query: one task reads them, when the query runs."""
    encoded = layout.encode(keys)
    order = sorted(range(len(encoded)), key=encoded.__getitem__)
    todo = probes([file for run in runs for file in run.files], [encoded[index] for index in order], indexes)
    if not todo:
        return spark.createDataFrame(layout.row_schema.empty_table(), schema=layout.row_ddl)
    packed = [_pack(todo, keys.select(layout.key_names).take(pa.array(order, pa.int64())))]
    frame = spark.createDataFrame(pa.table({"task": pa.array(packed, pa.binary())})).coalesce(1)
    return frame.mapInArrow(LiveRows(files=files, layout=layout), layout.row_ddl)


def prefix_frame(
    spark: SparkSession, files: Files, layout: Layout, runs: Iterable[Run], keys: pa.Table, indexes: IndexCache
) -> DataFrame | None:
    """The live rows whose key starts with given values, as a part of a query; None if that is more than a task's work.

    ``keys`` has the vnode and the first columns of the pk, in all combinations of the values that they may have.
    """
    names = layout.key_names[: keys.num_columns - 1]
    columns = [keys[name].to_pylist() for name in (VNODE, *names)]
    prefixes = [layout.codec.encode_with_vnode(vnode, values) for vnode, *values in zip(*columns, strict=True)]
    todo = []
    for file in (file for run in runs for file in run.files):
        wanted = [prefix for prefix in prefixes if file.low[: len(prefix)] <= prefix <= file.high]
        groups = sorted({group for prefix in wanted for group in indexes.get(file).starting_with(prefix)})
        if groups:
            rows = sum(indexes.get(file).groups[group][2] for group in groups)
            todo.append(Probe(path=file.path, groups=tuple(groups), first_key=0, last_key=keys.num_rows, rows=rows))
    if not todo:
        return spark.createDataFrame(layout.row_schema.empty_table(), schema=layout.row_ddl)
    if _rows(todo) > PREFIX_ROWS:
        return None
    frame = spark.createDataFrame(pa.table({"task": pa.array([_pack(todo, keys.select(names))], pa.binary())}))
    return frame.coalesce(1).mapInArrow(LiveRows(files=files, layout=layout, whole_keys=False), layout.row_ddl)


def starting_with(
    spark: SparkSession,
    files: Files,
    layout: Layout,
    runs: Iterable[Run],
    keys: pa.Table,
    indexes: IndexCache,
    *,
    most: int,
    most_bytes: int | None = None,
    columns: Iterable[str] | None = None,
) -> pa.Table | None:
    """The live rows whose key starts with one of the given ones, in the stored schema; None if that means to read more
    than ``most`` stored rows, or more than ``most_bytes`` of files. ``keys`` has the first columns of the pk, which the
    vnode follows from. Columns that are neither in ``columns`` nor in the key are NULL."""
    names = layout.key_names[: keys.num_columns]
    codec = KeyCodec([(layout.types[key.name], key) for key in layout.pk[: len(names)]])
    vnodes = vnodes_of(keys, layout.distribution, [layout.types[name] for name in layout.distribution])
    stored = [file for run in runs for file in run.files]
    asked = None if columns is None else tuple(sorted(columns))
    body = ReadProbes(files=files, layout=layout, whole_keys=False, columns=asked)
    if _kept(spark, body, stored, indexes):
        read = [name for name in body.names if name != VNODE]
        with contextlib.suppress(LongKeys):
            return find(files, layout, stored, _wanted(codec, keys, vnodes), read, indexes, most=most)
    prefixes = codec.encode_table(keys, names, vnodes=vnodes)
    todo, rows, size = [], 0, 0.0
    for file in stored:
        index, groups = indexes.get(file), set()
        for prefix in prefixes:
            if file.low[: len(prefix)] <= prefix <= file.high:
                groups.update(index.starting_with(prefix))
        for some in _chunks(sorted(groups), GROUPS_AT_ONCE):
            count = sum(index.groups[group][2] for group in some)
            rows += count
            size += file.bytes * count / file.rows
            if rows > most or (most_bytes is not None and size > most_bytes):
                return None
            todo.append(
                Probe(
                    path=file.path,
                    groups=tuple(some),
                    first_key=0,
                    last_key=keys.num_rows,
                    rows=count,
                    retracts=file.retractions > 0,
                )
            )
    if not todo:
        return layout.stored_schema.empty_table()
    found = _found(spark, body, todo, keys)
    wanted = set(prefixes)
    held = codec.encode_table(found, names, vnodes=found[VNODE].to_numpy())
    return newest_live(layout, found.filter(pa.array([key in wanted for key in held], pa.bool_())))


def _wanted(codec: KeyCodec, keys: pa.Table, vnodes: np.ndarray) -> np.ndarray | list[bytes]:
    if codec.width is not None:
        return codec.matrix(keys, vnodes=vnodes)
    return codec.encode_table(keys, codec.names, vnodes=vnodes)


def _found(spark: SparkSession, body: ReadProbes, todo: list[Probe], keys: pa.Table) -> pa.Table:
    """All stored versions of the keys, read by tasks, or by threads of this process where it is the only one."""
    if _here(spark, body.files) and _rows(todo) * len(body.names) <= DRIVER_VALUES and len(todo) <= DRIVER_PROBES:

        def read(task: list[Probe]) -> list[pa.Table]:
            return list(body.read(_brief(task), keys))

        found = in_threads(read, _balance(todo, os.cpu_count() or 1))
        return pa.concat_tables(itertools.chain.from_iterable(found))
    tasks = _balance(todo, spark.sparkContext.defaultParallelism)
    found = run_tasks(spark, body, [_pack(task, keys) for task in tasks], body.layout.spark_schema)
    return found.cast(body.layout.stored_schema)


def _here(spark: SparkSession, files: Files) -> bool:
    """Whether what a task would read this process may read as well."""
    return isinstance(files, LocalFiles) and in_one_process(spark.sparkContext.master)


def _kept(spark: SparkSession, body: ReadProbes, stored: Sequence[RunFile], indexes: IndexCache) -> bool:
    """Whether what is read is kept for the next lookup (:mod:`headrace.state.blocks`)."""
    return _here(spark, body.files) and BLOCKS.fits(body.files, body.layout, stored, body.names, indexes)


def _balance(todo: list[Probe], parallelism: int) -> list[list[Probe]]:
    """As many tasks as there are slots, with about as many rows to read in each; a file goes to as few as can be."""
    share = -(-sum(probe.rows for probe in todo) // parallelism)
    units: list[list[Probe]] = []
    for _, of_file in itertools.groupby(todo, key=lambda probe: probe.path):
        units.append([])
        for probe in of_file:
            if units[-1] and _rows(units[-1]) + probe.rows > share:
                units.append([])
            units[-1].append(probe)
    tasks: list[list[Probe]] = [[] for _ in range(min(parallelism, len(units)))]
    for unit in sorted(units, key=_rows, reverse=True):
        min(tasks, key=_rows).extend(unit)
    return tasks


def _rows(some: list[Probe]) -> int:
    return sum(probe.rows for probe in some)


def _brief(task: list[Probe]) -> list[BriefProbe]:
    return [(probe.path, probe.groups, probe.first_key, probe.last_key, probe.retracts) for probe in task]


def _pack(task: list[Probe], key_table: pa.Table) -> bytes:
    return pickle.dumps((_brief(task), packed_rows(key_table)))
