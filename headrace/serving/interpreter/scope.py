"""What an expression of the interpreter is evaluated in, and where its columns are found.

When a query is compiled, every source of its FROM gets a slot of its :class:`Scope`; when it runs, a :class:`Row`
holds the tuples of these slots, and the row of the query around it. So a column is three numbers: how many queries
outwards, which slot, which place in the tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

STEPS = 200_000
"""Rows and pairs of rows that a query may look at; what needs more is Spark's work."""


class Elsewhere(Exception):
    """The interpreter does not know this, or not exactly: Spark is to evaluate the query."""


class Row:
    """One row of a FROM, as far as it has been joined."""

    __slots__ = ("group", "made", "outer", "tuples")

    def __init__(self, tuples: tuple[tuple, ...], outer: Row | None):
        self.tuples, self.outer = tuples, outer
        self.group: Sequence[Row] | None = None
        """The rows that it stands for, where there is a GROUP BY or an aggregate"""
        self.made: dict[int, Any] | None = None
        """Values that are not made by looking at one row: of window functions, and of functions that return rows"""


Evaluate = Callable[[Row], Any]


class Scope:
    """The sources of one query, while it is compiled."""

    def __init__(self, parent: Scope | None, ctes: dict[str, tuple[Any, list[str]]] | None = None):
        self.parent = parent
        self.ctes = dict(parent.ctes if parent is not None else {}) | (ctes or {})
        self._slots: dict[str, tuple[int, list[str]]] = {}
        self.touched: set[int] = set()
        """Slots that were asked for"""
        self.correlated = False
        """Whether something inside was found further out"""

    def add(self, alias: str, names: list[str]) -> int:
        if alias in self._slots:
            raise Elsewhere(f"two sources {alias}")
        self._slots[alias] = (len(self._slots), names)
        return len(self._slots) - 1

    @property
    def slots(self) -> int:
        return len(self._slots)

    @property
    def widths(self) -> list[int]:
        """How many columns each source has."""
        return [len(names) for _, names in self._slots.values()]

    def aliases(self, slots: Collection[int]) -> set[str]:
        return {alias for alias, (slot, _) in self._slots.items() if slot in slots}

    def touching(self, work: Callable[[], Evaluate]) -> tuple[Evaluate, set[int]]:
        """What is compiled, and the slots that it asks for."""
        before, self.touched = self.touched, set()
        made, touched = work(), self.touched
        self.touched = before | touched
        return made, touched

    def find(self, alias: str, name: str) -> Evaluate:
        scope, outwards = self, 0
        while alias not in scope._slots:
            scope.correlated = True
            if scope.parent is None:
                raise Elsewhere(f"no source {alias}")
            scope, outwards = scope.parent, outwards + 1
        slot, names = scope._slots[alias]
        if names.count(name) != 1:
            raise Elsewhere(f"not one column {name}")
        scope.touched.add(slot)
        return _getter(outwards, slot, names.index(name))


def _getter(outwards: int, slot: int, at: int) -> Evaluate:
    if outwards == 0:
        return lambda row: row.tuples[slot][at]
    if outwards == 1:
        return lambda row: row.outer.tuples[slot][at]

    def get(row: Row) -> Any:
        for _ in range(outwards):
            row = row.outer
        return row.tuples[slot][at]

    return get


def hashable(value: Any) -> Any:
    """Arrays and structs are lists and dicts, which cannot be looked up."""
    if isinstance(value, list):
        return tuple(map(hashable, value))
    if isinstance(value, dict):
        return tuple((name, hashable(each)) for name, each in value.items())
    return value


def hashable_row(values: Sequence[Any]) -> tuple:
    return tuple(map(hashable, values))
