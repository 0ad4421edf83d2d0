"""The books: what was acknowledged, and what was on its way when the engine died.

An acknowledged statement must be there. One that was sent but not acknowledged may be there or not, but not in part.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.demo.shop import WRITERS, Change, Row, history, row_from_json, row_to_json


class Ledger:
    def __init__(self) -> None:
        self.acknowledged: list[dict[int, Row]] = [{} for _ in range(WRITERS)]
        self.pending: dict[int, Change] = {}
        self.statements = 0
        self.changes = 0
        for row in history():
            self.acknowledged[row[0] % WRITERS][row[0]] = row

    def sent(self, writer: int, change: Change) -> None:
        self.pending[writer] = change

    def acknowledge(self, writer: int) -> Change:
        change = self.pending.pop(writer)
        change.apply(self.acknowledged[writer])
        self.statements += 1
        self.changes += change.size
        return change

    @property
    def rows(self) -> int:
        return sum(map(len, self.acknowledged))

    def compare(self, rows: Iterable[Row]) -> list[str]:
        """What is wrong with the table, one sentence for each writer that has reason to complain."""
        found: list[dict[int, Row]] = [{} for _ in range(WRITERS)]
        for row in rows:
            found[row[0] % WRITERS][row[0]] = row
        return [
            complaint for writer in range(WRITERS) if (complaint := self._complaint(writer, found[writer])) is not None
        ]

    def _complaint(self, writer: int, found: dict[int, Row]) -> str | None:
        expected = self.acknowledged[writer]
        if found == expected:
            return None
        if (change := self.pending.get(writer)) is not None:
            with_it = dict(expected)
            change.apply(with_it)
            if found == with_it:
                return None
        lost = sum(1 for id, row in expected.items() if found.get(id) != row)
        extra = len(found.keys() - expected.keys())
        return f"writer {writer}: {lost} acknowledged rows are missing or different, {extra} rows were never written"

    def to_json(self) -> dict[str, Any]:
        return {
            "acknowledged": [[row_to_json(row) for row in orders.values()] for orders in self.acknowledged],
            "pending": {str(writer): change.to_json() for writer, change in self.pending.items()},
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Ledger:
        ledger = Ledger()
        ledger.acknowledged = [{row[0]: row for row in map(row_from_json, rows)} for rows in data["acknowledged"]]
        ledger.pending = {int(writer): Change.from_json(change) for writer, change in data["pending"].items()}
        return ledger
