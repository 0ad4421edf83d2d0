"""A state table of dictionaries."""

from __future__ import annotations

from headrace.backfill.chunks import Group
from headrace.backfill.positions import encoded

Ident = tuple[int, bytes]
"""(vnode, encoded pk)"""
Row = tuple
Change = tuple[Ident, Row, int]
"""The last is the weight."""


class Relation:
    """Rows as of each epoch, the deltas between them, and the row groups that they would be stored in."""

    def __init__(self, id: int, name: str, epoch: int, group_rows: int):
        self.id, self.name = id, name
        self.group_rows = group_rows
        self.rows: dict[Ident, Row] = {}
        self.versions: dict[int, dict[Ident, Row]] = {epoch: self.rows}
        self.deltas: dict[int, list[Change]] = {}
        self.runs: list[tuple[int, list[Group]]] = []

    def end_epoch(self, epoch: int, delta: list[Change]) -> None:
        if delta:
            rows = dict(self.rows)
            for ident, row, weight in delta:
                if weight < 0 and rows.get(ident) == row:
                    del rows[ident]
            for ident, row, weight in delta:
                if weight > 0:
                    rows[ident] = row
            self.rows = rows
            self.deltas[epoch] = delta
            self._store(epoch, [encoded(*ident) for ident, _, _ in delta])
        self.versions[epoch] = self.rows

    def _store(self, epoch: int, keys: list[bytes]) -> None:
        keys.sort()
        size = self.group_rows
        pieces = [keys[at : at + size] for at in range(0, len(keys), size)]
        self.runs.append((epoch, [(piece[0], piece[-1], len(piece)) for piece in pieces]))

    def compact(self, epoch: int) -> None:
        """One run of live rows for all that is committed."""
        newer = [run for run in self.runs if run[0] > epoch]
        self.runs = []
        self._store(epoch, [encoded(*ident) for ident in self.versions[epoch]])
        self.runs += newer

    def sources(self, epoch: int) -> list[list[Group]]:
        return [groups for written, groups in self.runs if written <= epoch]

    def forget(self, epoch: int) -> None:
        """Back to the checkpoint of this epoch."""
        self.versions = {each: rows for each, rows in self.versions.items() if each <= epoch}
        self.deltas = {each: delta for each, delta in self.deltas.items() if each <= epoch}
        self.runs = [run for run in self.runs if run[0] <= epoch]
        self.rows = self.versions[epoch]
