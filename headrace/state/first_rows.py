"""The first rows of some keys, or of a whole relation, in its order: what a top-N reads.

Files are sorted, and the bounds of their row groups are known. So of each file only the row groups are read that hold
the first rows of a key; where that turns out to be too few, because rows at the front are gone, more of them are. A row
counts as found if no row group that was left out could say more about its key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from headrace.state.files import Files
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.state.lookup import GROUPS_AT_ONCE, IndexCache, ReadProbes
from headrace.state.recent import RECENT
from headrace.state.runs import VNODE, GroupIndex, Run
from headrace.state.vnode import vnodes_of
from headrace.state.whole import newest_live

FRONT_ROWS = 64
"""Of each file that are looked at first, where the first rows of all are wanted."""


@dataclass(frozen=True, kw_only=True)
class _Span:
    """Row groups of a file that may hold rows of a key."""

    path: str
    index: GroupIndex
    groups: range


def first_rows(
    files: Files,
    layout: Layout,
    runs: Iterable[Run],
    keys: pa.Table | None,
    count: int,
    indexes: IndexCache,
    *,
    most: int,
) -> pa.Table | None:
    """For each key its first ``count`` live rows, in the stored schema and in order; None if that means to read more
    than ``most`` stored rows at once. ``keys`` has the first columns of the pk, which the vnode follows from; without
    them it is the first rows of a relation of one slice."""
    names = layout.key_names[: keys.num_columns] if keys is not None else []
    codec = KeyCodec([(layout.types[key.name], key) for key in layout.pk[: len(names)]])
    if keys is None:
        prefixes = [codec.encode_with_vnode(0, ())]
    else:
        vnodes = vnodes_of(keys, layout.distribution, [layout.types[name] for name in layout.distribution])
        prefixes = codec.encode_table(keys, names, vnodes=vnodes)
    stored = [(file, indexes.get(file)) for run in runs for file in run.files]
    pending = {
        prefix: [
            _Span(path=file.path, index=index, groups=index.starting_with(prefix))
            for file, index in stored
            if file.low[: len(prefix)] <= prefix <= file.high
        ]
        for prefix in prefixes
    }
    return _collected(files, layout, names, keys, pending, count, most=most)


def first_after(
    files: Files, layout: Layout, runs: Iterable[Run], start: bytes, indexes: IndexCache, *, most: int
) -> pa.Table | None:
    """The first live row of a relation of one slice whose key is not before ``start``, if there is one."""
    spans = []
    for file in (file for run in runs for file in run.files):
        index = indexes.get(file)
        first = bisect_left(index.groups, start, key=lambda group: group[1])
        spans.append(_Span(path=file.path, index=index, groups=range(first, len(index.groups))))
    whole = layout.codec.encode_with_vnode(0, ())
    return _collected(files, layout, [], None, {whole: spans}, 1, most=most, start=start)


def rows_between(
    files: Files, layout: Layout, runs: Iterable[Run], low: bytes, high: bytes, indexes: IndexCache, *, most: int
) -> pa.Table | None:
    """The live rows of a relation of one slice from a prefix of its key to another, both included; None if that means
    to read more than ``most`` stored rows."""
    body = ReadProbes(files=files, layout=layout, whole_keys=False)
    nothing, tables, rows = pa.table({}), [layout.stored_schema.empty_table()], 0
    for file in (file for run in runs for file in run.files):
        bounds = indexes.get(file).groups
        first = bisect_left(bounds, low, key=lambda group: group[1])
        last = bisect_right(bounds, high, key=lambda group: group[0][: len(high)])
        rows += sum(group[2] for group in bounds[first:last])
        if rows > most:
            return None
        if first < last:
            tables += body.read([(file.path, tuple(range(first, last)), 0, 0, True)], nothing)
    live = newest_live(layout, pa.concat_tables(tables))
    inside = [low <= key and key[: len(high)] <= high for key in layout.encode(live)]
    return live.filter(pa.array(inside, pa.bool_()))


def _collected(
    files: Files,
    layout: Layout,
    names: Sequence[str],
    keys: pa.Table | None,
    pending: dict[bytes, list[_Span]],
    count: int,
    *,
    most: int,
    start: bytes = b"",
) -> pa.Table | None:
    codec = KeyCodec([(layout.types[key.name], key) for key in layout.pk[: len(names)]])
    body = ReadProbes(files=files, layout=layout, whole_keys=False)
    values = keys if keys is not None else pa.table({})
    found, depth = [layout.stored_schema.empty_table()], 1
    while pending:
        wanted, bounds = _next_groups(pending, depth, count)
        if sum(rows for of_file in wanted.values() for rows in of_file.values()) > most:
            return None
        tables = [layout.stored_schema.empty_table()]
        for path, groups in wanted.items():
            listed = sorted(groups)
            if (recent := RECENT.get((files.root, path))) is not None:
                stored = recent
            else:
                chunks = [listed[at : at + GROUPS_AT_ONCE] for at in range(0, len(listed), GROUPS_AT_ONCE)]
                stored = pa.concat_tables(
                    body.read([(path, tuple(chunk), 0, values.num_rows, True) for chunk in chunks], values)
                )
            if keys is None and not start:
                # What comes first in all is at the front of each file: the rest need not be looked at.
                front = depth * max(count, FRONT_ROWS)
                if stored.num_rows > front:
                    bounds = {prefix: _earlier(bound, layout.bound(stored, front)) for prefix, bound in bounds.items()}
                    stored = stored.slice(0, front)
            tables.append(stored)
        live = newest_live(layout, pa.concat_tables(tables))
        held = codec.encode_table(live, names, vnodes=live[VNODE].to_numpy())
        rows_of = _by_prefix(layout.encode(live), held, bounds, start)
        chosen: list[int] = []
        for prefix, bound in bounds.items():
            mine = rows_of.get(prefix, [])
            if bound is None or len(mine) >= count:
                chosen += [at for _, at in sorted(mine)[:count]]
                del pending[prefix]
        found.append(live.take(pa.array(chosen, pa.int64())))
        depth *= 4
    return pa.concat_tables(found)


def _earlier(bound: bytes | None, other: bytes) -> bytes:
    return other if bound is None else min(bound, other)


def _next_groups(
    pending: dict[bytes, list[_Span]], depth: int, count: int
) -> tuple[dict[str, dict[int, int]], dict[bytes, bytes | None]]:
    """Row groups to read, with their rows; and for each key where what is left out begins, if anything is."""
    wanted: dict[str, dict[int, int]] = {}
    bounds: dict[bytes, bytes | None] = {}
    for prefix, spans in pending.items():
        bound: bytes | None = None
        for span in spans:
            rows = 0
            for number, group in enumerate(span.groups):
                low, _, size = span.index.groups[group]
                if number >= depth and rows >= count * depth:
                    bound = low if bound is None else min(bound, low)
                    break
                wanted.setdefault(span.path, {})[group] = size
                rows += size
        bounds[prefix] = bound
    return wanted, bounds


def _by_prefix(
    keys: Sequence[bytes], prefixes: Sequence[bytes], bounds: dict[bytes, bytes | None], start: bytes
) -> dict[bytes, list[tuple[bytes, int]]]:
    """The rows of each key of which all is known, by their whole keys."""
    found: dict[bytes, list[tuple[bytes, int]]] = {}
    for at, (key, prefix) in enumerate(zip(keys, prefixes, strict=True)):
        if prefix in bounds and key >= start:
            bound = bounds[prefix]
            if bound is None or key < bound:
                found.setdefault(prefix, []).append((key, at))
    return found
