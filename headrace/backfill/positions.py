"""Positions: how far each vnode of an upstream has been read into the view that is being filled.

A vnode is not started (``None``), at a pk (its encoded bytes, without the vnode), or ``DONE``. Rows at or before the
position belong to the view: a change of theirs passes the filter. Rows beyond it will be read later, together with all
that happened to them, so a change of theirs is dropped. That is all a barrier has to remember.

A :class:`Chunk` is the next stretch to read, and landing it advances the positions:

>>> at = Positions.start(4).advance(Chunk(first_vnode=0, after=None, last_vnode=2, upto=b"m", rows=100))
>>> at.of(0), at.of(2), at.of(3)
(DONE, b'm', None)
>>> at.covers(2, b"m"), at.covers(2, b"n"), at.covers(3, b"a")
(True, False, False)
>>> at.advance(Chunk(first_vnode=2, after=b"m", last_vnode=3, upto=None, rows=7)).done
True

Keys are those of :mod:`headrace.state.keys`, so comparing bytes is comparing pks, whatever their types and directions.
One position per vnode, and not per partition, is what lets a job change its parallelism at any barrier.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from headrace.errors import CorruptWarehouse, HeadraceError, InvalidParameterValue
from headrace.intervals import Interval
from headrace.state.keys import KeyCodec
from headrace.state.vnode import VNODES

_VNODE = struct.Struct(">H")


class _Done(enum.Enum):
    """An enum, so that it is the same object after a trip through pickle to an executor."""

    DONE = "done"

    def __repr__(self) -> str:
        return "DONE"


DONE: Final = _Done.DONE

Position = bytes | _Done | None


def encoded(vnode: int, key: bytes = b"") -> bytes:
    """A key with its vnode in front, as the bounds of files and row groups are written."""
    return _VNODE.pack(vnode) + key


def split(key: bytes) -> tuple[int, bytes]:
    """The vnode and the pk of an encoded key."""
    return _VNODE.unpack_from(key)[0], key[2:]


@dataclass(frozen=True, kw_only=True)
class Chunk:
    """A contiguous key range: from after ``after`` in the first vnode, up to and with ``upto`` in the last one.

    ``after`` None is the vnode's start; ``upto`` None is its end, which makes it done.
    """

    first_vnode: int
    after: bytes | None
    last_vnode: int
    upto: bytes | None
    rows: int
    """About how many stored rows it holds: dead ones and retractions too."""
    limit: int | None = None
    """The reader stops after so many live rows, and cuts the chunk there."""

    def to_vnode_end(self) -> Chunk:
        """Ended where a vnode ends, if that makes it little smaller: others may go on from there (see sharing)."""
        vnodes = self.last_vnode - self.first_vnode
        if self.upto is None or self.limit is not None or vnodes < 4:
            return self
        return dataclasses.replace(
            self, last_vnode=self.last_vnode - 1, upto=None, rows=self.rows * vnodes // (vnodes + 1)
        )

    def holds(self, vnode: int, key: bytes) -> bool:
        if not self.first_vnode <= vnode <= self.last_vnode:
            return False
        if vnode == self.first_vnode and self.after is not None and key <= self.after:
            return False
        return vnode != self.last_vnode or self.upto is None or key <= self.upto

    def cut(self, vnode: int, key: bytes) -> Chunk:
        """What was read, when the reader stopped at this key because of ``limit``."""
        if not self.holds(vnode, key):
            raise HeadraceError(f"vnode {vnode} key {key.hex()} is not in the {self}, so it cannot be cut there")
        rows = self.rows if self.limit is None else min(self.rows, self.limit)
        return dataclasses.replace(self, last_vnode=vnode, upto=key, rows=rows, limit=None)

    @property
    def low(self) -> bytes:
        """Where it starts, as an encoded key; the key itself is in the chunk only if ``after`` is None."""
        return encoded(self.first_vnode, self.after or b"")

    @property
    def high(self) -> bytes:
        """Where it ends, as an encoded key; the key itself is in the chunk unless ``upto`` is None."""
        return encoded(self.last_vnode + 1) if self.upto is None else encoded(self.last_vnode, self.upto)

    def overlaps(self, low: bytes, high: bytes) -> bool:
        """Whether a file or row group with these (inclusive, encoded) bounds may hold a row of the chunk."""
        starts_before_end = low < self.high if self.upto is None else low <= self.high
        return starts_before_end and (high >= self.low if self.after is None else high > self.low)

    def __str__(self) -> str:
        start = f"{self.first_vnode}" + ("" if self.after is None else f":{self.after.hex()}")
        end = f"{self.last_vnode}" + ("" if self.upto is None else f":{self.upto.hex()}")
        return f"chunk ({start} … {end}]"


@dataclass(frozen=True)
class Positions:
    vnodes: tuple[Position, ...]

    @staticmethod
    def start(count: int = VNODES) -> Positions:
        return Positions((None,) * count)

    def of(self, vnode: int) -> Position:
        return self.vnodes[vnode]

    def covers(self, vnode: int, key: bytes) -> bool:
        """The delta filter: whether a row belongs to what has been read."""
        position = self.vnodes[vnode]
        return position is not None and (position is DONE or key <= position)

    def advance(self, chunk: Chunk) -> Positions:
        """With the chunk landed. It must continue where the positions are: a stale chunk would lose or repeat rows."""
        first, last = chunk.first_vnode, chunk.last_vnode
        continues = self.vnodes[first] is not DONE and self.vnodes[first] == chunk.after
        fresh = all(position is None for position in self.vnodes[first + 1 : last + 1])
        forward = first < last or None in (chunk.after, chunk.upto) or chunk.after < chunk.upto
        if not (first <= last < len(self.vnodes) and continues and fresh and forward):
            raise HeadraceError(f"the {chunk} does not continue from where its vnodes are")
        end = DONE if chunk.upto is None else chunk.upto
        return Positions((*self.vnodes[:first], *([DONE] * (last - first)), end, *self.vnodes[last + 1 :]))

    @property
    def done(self) -> bool:
        return self.done_count == len(self.vnodes)

    @cached_property
    def done_count(self) -> int:
        return sum(position is DONE for position in self.vnodes)

    @property
    def partial(self) -> dict[int, bytes]:
        """The vnodes that are neither done nor untouched."""
        return {vnode: key for vnode, key in enumerate(self.vnodes) if isinstance(key, bytes)}

    def to_json(self) -> dict[str, Any]:
        """
        >>> Positions((DONE, DONE, b"m", DONE, None)).to_json()
        {'vnodes': 5, 'done': '0-1,3', 'at': {'2': '6d'}}
        """
        done = [vnode for vnode, position in enumerate(self.vnodes) if position is DONE]
        data: dict[str, Any] = {"vnodes": len(self.vnodes), "done": _ranges(done)}
        if self.partial:
            data["at"] = {str(vnode): key.hex() for vnode, key in self.partial.items()}
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Positions:
        vnodes: list[Position] = [None] * data["vnodes"]
        try:
            for part in filter(None, data["done"].split(",")):
                first, _, last = part.partition("-")
                for vnode in range(int(first), int(last or first) + 1):
                    vnodes[vnode] = DONE
            for vnode, key in data.get("at", {}).items():
                vnodes[int(vnode)] = bytes.fromhex(key)
        except (ValueError, IndexError):
            raise CorruptWarehouse(f"these are not the positions of a backfill: {data}") from None
        return Positions(tuple(vnodes))

    def describe(self, codec: KeyCodec) -> list[tuple[int, str]]:
        """Each vnode's position for a person: 'done', 'not started', or the pk's values."""
        return [(vnode, _describe(position, codec)) for vnode, position in enumerate(self.vnodes)]


def _describe(position: Position, codec: KeyCodec) -> str:
    if position is None:
        return "not started"
    if position is DONE:
        return "done"
    values = ("NULL" if value is None else _text(value) for value in codec.decode(position))
    return f"({', '.join(values)})"


def _text(value: Any) -> str:
    return str(Interval.of(value) if isinstance(value, dict) else value)


def _ranges(numbers: list[int]) -> str:
    """Sorted numbers as text: neighbours as one range."""
    parts = []
    for _, group in itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0]):
        members = [number for _, number in group]
        parts.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return ",".join(parts)


def partitions(parallelism: int, count: int = VNODES) -> list[range]:
    """All vnodes in contiguous shares whose sizes differ by at most one.

    >>> partitions(3, 8)
    [range(0, 3), range(3, 6), range(6, 8)]
    """
    if not 1 <= parallelism <= count:
        raise InvalidParameterValue(
            f"a parallelism of {parallelism} is not possible", hint=f"choose 1 to {count}: a vnode cannot be divided"
        )
    size, larger = divmod(count, parallelism)
    starts = [number * size + min(number, larger) for number in range(parallelism + 1)]
    return [range(start, stop) for start, stop in itertools.pairwise(starts)]
