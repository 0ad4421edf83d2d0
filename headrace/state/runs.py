"""Runs: the sorted Parquet files that a relation's rows live in.

A run is one relation's change in one epoch, or the merge of several such. Its rows are sorted by
(``_hr_vnode``, pk, ``_hr_epoch``, ``_hr_weight``); weight +1 puts a row, -1 retracts the one before it, and an update
is both, in one epoch. The rule that all reading and merging follows:

    a +1 row is dead if and only if some -1 row of the same key has a larger epoch.

So the update ``-1 old, +1 new`` of epoch 5 kills what epoch 4 put, and not what it puts itself:

    epoch 4:  k=1  +1  'old'          dead, killed at 5
    epoch 5:  k=1  -1  'old'
              k=1  +1  'new'          alive

Bounds are encoded (vnode, pk) keys, see :mod:`headrace.state.keys`. A file of more than one row group has a sidecar
``<path>.index``, a :class:`GroupIndex`, so that a lookup of a few keys reads only the groups that may hold them.
"""

from __future__ import annotations

import struct
import zlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.errors import CorruptWarehouse

VNODE, EPOCH, WEIGHT = "_hr_vnode", "_hr_epoch", "_hr_weight"
SIDECAR = ".index"
VNODE_BYTES = 2
"""Of an encoded (vnode, pk)"""


@dataclass(frozen=True, kw_only=True)
class RunFile:
    path: str
    """Relative to the warehouse."""
    rows: int
    bytes: int
    low: bytes
    high: bytes
    groups: int = 1
    retractions: int = 0
    first_key: tuple[bytes, bytes] | None = None
    """The smallest and the largest value of the key's first column, encoded, in any vnode; None: not known. Where rows
    were written in the order of their keys, the files of a run overlap in all vnodes, and this tells them apart."""

    @property
    def sidecar(self) -> str | None:
        return self.path + SIDECAR if self.groups > 1 else None

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "rows": self.rows,
            "bytes": self.bytes,
            "low": self.low.hex(),
            "high": self.high.hex(),
            "groups": self.groups,
            "retractions": self.retractions,
        } | ({} if self.first_key is None else {"first_key": [bound.hex() for bound in self.first_key]})

    @staticmethod
    def from_json(data: dict[str, Any]) -> RunFile:
        bounds = {"low": bytes.fromhex(data["low"]), "high": bytes.fromhex(data["high"])}
        if "first_key" in data:
            low, high = map(bytes.fromhex, data["first_key"])
            bounds |= {"first_key": (low, high)}
        return RunFile(**(data | bounds))

    def may_hold(self, key: bytes) -> bool:
        """Whether a (vnode, pk) may be among its rows.

        >>> file = RunFile(path="f", rows=9, bytes=9, low=b"..b", high=b"..y", first_key=(b"c", b"m"))
        >>> file.may_hold(b"..d1"), file.may_hold(b"..m1"), file.may_hold(b"..n"), file.may_hold(b"..b")
        (True, True, False, False)
        """
        if not self.low <= key <= self.high:
            return False
        if self.first_key is None:
            return True
        low, high = self.first_key
        pk = key[VNODE_BYTES:]
        return pk >= low and pk[: len(high)] <= high


@dataclass(frozen=True, kw_only=True)
class Run:
    id: str
    first_epoch: int
    last_epoch: int
    level: int = 0
    files: tuple[RunFile, ...] = ()
    base: bool = False
    """A chunk of a backfill: for every key in it, nothing older exists in any other run."""

    @property
    def rows(self) -> int:
        return sum(file.rows for file in self.files)

    @property
    def retractions(self) -> int:
        return sum(file.retractions for file in self.files)

    @property
    def live_rows(self) -> int:
        """What the run adds to the rows of its relation. A retraction takes away a row that some run holds, so counting
        needs no reading."""
        return self.rows - 2 * self.retractions

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def low(self) -> bytes:
        return min((file.low for file in self.files), default=b"")

    @property
    def high(self) -> bytes:
        return max((file.high for file in self.files), default=b"")

    @cached_property
    def depth(self) -> int:
        """How many of its files may hold the same key: 1 where each has a range of its own."""
        depth, open_until = 0, []
        for file in sorted(self.files, key=lambda file: file.low):
            open_until = [high for high in open_until if high >= file.low] + [file.high]
            depth = max(depth, len(open_until))
        return depth

    def overlaps(self, other: Run) -> bool:
        """Whether both may hold the same key."""
        return bool(self.files and other.files) and self.low <= other.high and other.low <= self.high

    def to_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "first_epoch": self.first_epoch,
            "last_epoch": self.last_epoch,
            "level": self.level,
            "files": [file.to_json() for file in self.files],
        } | ({"base": True} if self.base else {})

    @staticmethod
    def from_json(data: dict[str, Any]) -> Run:
        return Run(**(data | {"files": tuple(map(RunFile.from_json, data["files"]))}))


_HEADER = struct.Struct(">4sBI")
_GROUP = struct.Struct(">III")
_MAGIC, _FORMAT = b"HRGI", 1


@dataclass(frozen=True)
class GroupIndex:
    """The bounds of a file's row groups, which are sorted; neighbours may share a bound.

    >>> index = GroupIndex(((b"a", b"c", 10), (b"c", b"f", 10), (b"h", b"k", 10)))
    >>> index.overlapping([b"b", b"c", b"g", b"z"])
    {0: (0, 2), 1: (1, 2)}
    """

    groups: tuple[tuple[bytes, bytes, int], ...]
    """(low, high, rows)"""

    def overlapping(self, sorted_keys: Sequence[bytes]) -> dict[int, tuple[int, int]]:
        """The groups that may hold a key, each with the slice of the keys that it may hold."""
        found: dict[int, tuple[int, int]] = {}
        number, start = 0, 0
        while number < len(self.groups):
            low, high, _ = self.groups[number]
            start = bisect_left(sorted_keys, low, start)
            if start == len(sorted_keys):
                break
            stop = bisect_right(sorted_keys, high, start)
            if start < stop:
                found[number] = (start, stop)
                number += 1
            else:  # a few keys in a large file: skip to the group that the next one may be in
                number = bisect_left(self.groups, sorted_keys[start], number + 1, key=lambda group: group[1])
        return found

    def starting_with(self, prefix: bytes) -> range:
        """The groups that may hold a key that starts so.

        >>> GroupIndex(((b"aa", b"ab", 9), (b"ac", b"bd", 9), (b"be", b"c", 9), (b"d", b"e", 9))).starting_with(b"b")
        range(1, 3)
        """
        first = bisect_left(self.groups, prefix, key=lambda group: group[1])
        last = bisect_right(self.groups, prefix, key=lambda group: group[0][: len(prefix)])
        return range(first, max(first, last))

    def to_bytes(self) -> bytes:
        parts = [_HEADER.pack(_MAGIC, _FORMAT, len(self.groups))]
        for low, high, rows in self.groups:
            parts += (_GROUP.pack(rows, len(low), len(high)), low, high)
        body = b"".join(parts)
        return body + zlib.crc32(body).to_bytes(4, "big")

    @staticmethod
    def from_bytes(data: bytes, path: str = "a row group index") -> GroupIndex:
        body = memoryview(data)[:-4]
        if len(data) < _HEADER.size + 4 or zlib.crc32(body) != int.from_bytes(data[-4:], "big"):
            raise CorruptWarehouse(f"{path} is damaged: its checksum does not match", hint="restore it from a backup")
        magic, version, count = _HEADER.unpack_from(body)
        if magic != _MAGIC or version != _FORMAT:
            raise CorruptWarehouse(
                f"{path} is not a row group index of format {_FORMAT}",
                hint="a newer Headrace may have written it; use that one",
            )
        groups = []
        at = _HEADER.size
        for _ in range(count):
            rows, low_size, high_size = _GROUP.unpack_from(body, at)
            low_end = at + _GROUP.size + low_size
            at = low_end + high_size
            groups.append((bytes(body[low_end - low_size : low_end]), bytes(body[low_end:at]), rows))
        return GroupIndex(tuple(groups))


def live_rows(runs: Iterable[Run]) -> int:
    """Every retraction takes away a row that a run holds, so counting needs no reading."""
    return sum(run.rows - 2 * run.retractions for run in runs)
