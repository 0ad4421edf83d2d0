"""The three shapes that a row has on its way into a view.

1. *stored*: the upstream's row as its state table holds it;
2. *output*: what the upstream hands to the backfill: the columns that the view reads, and the whole pk, because
   positions are pks;
3. *view*: what the backfill hands on: only what the view reads, so a part of (2).

A delta that waits in the replica is merged with stored rows, so it goes back from (2) to (1); a column that nobody
reads is NULL there. The vnode travels beside the row in all three: the columns it is the hash of need not be among
them.

>>> schemas = Schemas.of(columns=["id", "name", "age", "drivers_license_id"], pk=["id"],
...                      reads=["drivers_license_id", "name"])
>>> schemas.output
('drivers_license_id', 'name', 'id')
>>> schemas.to_stored((1, "Jack", 29))
(29, 'Jack', None, 1)
>>> schemas.to_view(schemas.to_output((30, "Jill", 30, 2)))
(2, 'Jill')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from headrace.catalog import Relation
from headrace.errors import UndefinedColumn


@dataclass(frozen=True, kw_only=True)
class Schemas:
    stored: tuple[str, ...]
    output: tuple[str, ...]
    view: tuple[str, ...]

    @staticmethod
    def of(*, columns: Iterable[str], pk: Iterable[str], reads: Iterable[str]) -> Schemas:
        """``reads`` in the order in which the view wants them; what else the pk needs follows."""
        stored, view = tuple(columns), tuple(dict.fromkeys(reads))
        output = tuple(dict.fromkeys((*view, *pk)))
        if missing := [name for name in output if name not in stored]:
            raise UndefinedColumn(
                f'the upstream stores no column "{missing[0]}"', hint=f"it stores: {', '.join(stored)}"
            )
        return Schemas(stored=stored, output=output, view=view)

    @staticmethod
    def of_relation(relation: Relation, reads: Iterable[str]) -> Schemas:
        return Schemas.of(
            columns=(column.name for column in relation.columns), pk=(key.name for key in relation.pk), reads=reads
        )

    @cached_property
    def output_indices(self) -> list[int]:
        """Of each output column, which stored column it is: from upstream to backfill."""
        return [self.stored.index(name) for name in self.output]

    @cached_property
    def view_indices(self) -> list[int]:
        """Of each column of the view's input, which output column it is: from backfill to view."""
        return [self.output.index(name) for name in self.view]

    def to_output(self, stored: Sequence[Any]) -> tuple:
        return tuple(stored[index] for index in self.output_indices)

    def to_stored(self, output: Sequence[Any]) -> tuple:
        values = dict(zip(self.output, output, strict=True))
        return tuple(values.get(name) for name in self.stored)

    def to_view(self, output: Sequence[Any]) -> tuple:
        return tuple(output[index] for index in self.view_indices)
