"""What a database's log says about rows, in a form that all kinds of databases share.

A log is a sequence of transactions, in the order in which they were committed. Values are the database's own text for
them, until :mod:`headrace.cdc.values` makes columns of them: the same text comes from a snapshot, so both ways give the
same value.

Several changes of one key within an epoch become one:

>>> rows = [Change(key=("1",), values=("1", "a")), Change(key=("1",), values=("1", "b")), Change(key=("2",))]
>>> folded = fold(rows)
>>> folded.puts, folded.deletes
([('1', 'b')], [('2',)])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import DataError


class _Unchanged:
    """The log leaves a large value out when an update does not touch it. It is not NULL."""

    def __repr__(self) -> str:
        return "UNCHANGED"

    def __reduce__(self):
        return "UNCHANGED"


UNCHANGED = _Unchanged()

CHANGE_BYTES = 300
"""Of a change, whatever its values are"""

Value = str | None | _Unchanged
Key = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """What becomes of one key. An update that moves a row is two of them: the new key comes, then the old one goes."""

    key: Key
    values: tuple[Value, ...] | None = None
    """The whole row, in the order of the table's columns; None if it is gone"""
    origin: Key | None = None
    """The key under which the row was before, where its unchanged values are found; None: its own"""

    @property
    def size(self) -> int:
        """About the bytes that it takes here.

        >>> Change(key=("1",), values=("1", "x" * 1000, None, UNCHANGED)).size, Change(key=("1",)).size
        (1301, 300)
        """
        return CHANGE_BYTES + sum(len(value) for value in self.values or () if isinstance(value, str))


@dataclass(frozen=True, kw_only=True, slots=True)
class Truncate:
    """All rows of the table go."""


@dataclass(kw_only=True, slots=True)
class Piece:
    """A transaction, or a part of one that is too large for an epoch."""

    xid: int
    position: int
    """Where the log goes on behind the transaction"""
    committed_at: int
    """Microseconds since 1970"""
    commit: int = 0
    """Where its commit lies in the log: no two transactions have the same"""
    events: list[Any] = field(default_factory=list)
    first: int = 0
    """How many events of the transaction came before this piece"""
    final: bool = True
    """Whether the transaction ends with it"""


@dataclass(kw_only=True)
class Folded:
    puts: list[tuple[Value, ...]] = field(default_factory=list)
    fills: dict[int, Key] = field(default_factory=dict)
    """Rows of ``puts`` with UNCHANGED values: the key of the stored row that has them"""
    deletes: list[Key] = field(default_factory=list)


def fold(changes: Iterable[Change]) -> Folded:
    """The changes of an epoch, in order, as at most one for each key: what it is in the end.

    A row's key may be written in two ways (0 and -0): then there is a delete of the one and a put of the other, which
    wins, because whoever applies them deletes first.
    """
    now: dict[Key, tuple[tuple[Value, ...] | None, Key]] = {}
    for change in changes:
        values, origin = change.values, change.origin or change.key
        if values is not None and UNCHANGED in values and (known := now.get(origin)) is not None:
            stored, origin = known
            if stored is None:
                raise DataError(f"the log changes a row that it has deleted before: ({', '.join(change.key)})")
            values = tuple(old if new is UNCHANGED else new for old, new in zip(stored, values, strict=True))
        now[change.key] = (values, origin)
    folded = Folded()
    for key, (values, origin) in now.items():
        if values is None:
            folded.deletes.append(key)
            continue
        if UNCHANGED in values:
            folded.fills[len(folded.puts)] = origin
        folded.puts.append(values)
    return folded


def columns_of(rows: Sequence[tuple[Value, ...]], width: int) -> list[list[str | None]]:
    """Rows of text as columns of text, with None where a value is to be filled in."""
    columns: list[list[str | None]] = [[None] * len(rows) for _ in range(width)]
    for number, row in enumerate(rows):
        for column, value in zip(columns, row, strict=True):
            column[number] = None if value is UNCHANGED else value  # type: ignore[call-overload]
    return columns
