"""Which inputs of a view are filled first: ``WITH (backfill_order = FIXED(dim -> facts))``.

A join that has read its small side first does not write rows that the other side then takes back. The order is a list
of pairs: the left one must be done before the right one starts.

>>> order = (("a", "b"), ("b", "c"))  # FIXED(a -> b, b -> c)
>>> sorted(blocked(order, finished={"a"}))
['c']
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import TypeVar

from headrace.errors import InvalidParameterValue, UndefinedRelation
from headrace.types import quote_sql

Pairs = tuple[tuple[str, str], ...]
Name = TypeVar("Name", bound=Hashable)


def check_order(pairs: Pairs, relations: Collection[str]) -> None:
    """Refuses what could never be carried out."""
    for name in dict.fromkeys(name for pair in pairs for name in pair):
        if name not in relations:
            known = ", ".join(map(quote_sql, relations)) or "nothing"
            raise UndefinedRelation(
                f'backfill_order names "{name}", which the view does not read', hint=f"the view reads: {known}"
            )
    if (cycle := _cycle(pairs)) is not None:
        raise InvalidParameterValue(
            f"backfill_order goes in a circle: {' -> '.join(map(quote_sql, cycle))}",
            hint="leave one of these arrows out",
        )


def _cycle(pairs: Pairs) -> list[str] | None:
    after: dict[str, list[str]] = {}
    for first, then in pairs:
        after.setdefault(first, []).append(then)
    cleared: set[str] = set()

    def search(name: str, path: list[str]) -> list[str] | None:
        if name in path:
            return [*path[path.index(name) :], name]
        if name in cleared:
            return None
        for then in after.get(name, ()):
            if (found := search(then, [*path, name])) is not None:
                return found
        cleared.add(name)
        return None

    return next((found for name in after if (found := search(name, [])) is not None), None)


def blocked(pairs: Iterable[tuple[Name, Name]], finished: Collection[Name]) -> set[Name]:
    """The relations that must not start yet."""
    return {then for first, then in pairs if first not in finished}


def waits_for(name: Name, pairs: Iterable[tuple[Name, Name]], finished: Collection[Name]) -> list[Name]:
    """What a relation is waiting for, in the order it was written."""
    return list(dict.fromkeys(first for first, then in pairs if then == name and first not in finished))
