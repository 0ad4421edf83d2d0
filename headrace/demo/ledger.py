"""The books: what was acknowledged, and what was on its way when the engine died.

An acknowledged statement must be there. One that was sent but not acknowledged may be there or not, but not in part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from headrace.demo.shop import WRITERS, Change, Row, Touched, row_from_json, row_to_json, seeded


class Ledger:
    def __init__(self, history: int):
        self.history = history
        """So many orders are there from the beginning."""
        self.touched: list[Touched] = [{} for _ in range(WRITERS)]
        """By writer, as acknowledged."""
        self.pending: dict[int, Change] = {}
        self.statements = 0
        self.changes = 0

    def sent(self, writer: int, change: Change) -> None:
        self.pending[writer] = change

    def acknowledge(self, writer: int) -> Change:
        change = self.pending.pop(writer)
        change.apply(self.touched[writer])
        self.statements += 1
        self.changes += change.size
        return change

    @property
    def rows(self) -> int:
        return sum(self._rows(writer, touched) for writer, touched in enumerate(self.touched))

    def _rows(self, writer: int, touched: Touched) -> int:
        untouched = len(range(writer, self.history, WRITERS)) - sum(id < self.history for id in touched)
        return untouched + sum(row is not None for row in touched.values())

    @property
    def ids(self) -> list[int]:
        """All orders of the history that were touched, or may have been."""
        found = {id for touched in self.touched for id in touched}
        found.update(id for change in self.pending.values() for id in change.ids)
        return sorted(id for id in found if id < self.history)

    def compare(self, rows: Iterable[Row], counts: Sequence[int]) -> list[str]:
        """What is wrong with the table, one sentence for each writer that has reason to complain.

        ``rows``: the orders that are not as in the history, and all of :attr:`ids` that are there; ``counts``: how many
        there are in all, by writer. What had been on its way is then settled: it is in the books, or forgotten.
        """
        found: list[dict[int, Row]] = [{} for _ in range(WRITERS)]
        for row in rows:
            found[row[0] % WRITERS][row[0]] = row
        complaints = [self._settle(writer, found[writer], counts[writer]) for writer in range(WRITERS)]
        return [complaint for complaint in complaints if complaint is not None]

    def _settle(self, writer: int, found: dict[int, Row], count: int) -> str | None:
        change = self.pending.pop(writer, None)
        without = self.touched[writer]
        ways = [without]
        if change is not None:
            applied = dict(without)
            change.apply(applied)
            ways.append(applied)
        for touched in ways:
            expected = {id: row for id, row in touched.items() if row is not None}
            if self._changed(found, touched) == expected and count == self._rows(writer, touched):
                self.touched[writer] = touched
                return None
        expected = {id: row for id, row in without.items() if row is not None}
        wrong = sum(1 for id, row in expected.items() if found.get(id) != row)
        extra = len(self._changed(found, without).keys() - expected.keys())
        return (
            f"writer {writer}: {wrong} acknowledged rows are missing or different, {extra} rows should not be there, "
            f"{count:,} rows in all where {self._rows(writer, without):,} were expected"
        )

    def _changed(self, found: dict[int, Row], touched: Touched) -> dict[int, Row]:
        """Without orders as in the history that were asked for only because of a statement on its way."""
        return {id: row for id, row in found.items() if id in touched or id >= self.history or row != seeded(id)}

    def to_json(self) -> dict[str, Any]:
        return {
            "history": self.history,
            "touched": [
                [[id, None if row is None else row_to_json(row)] for id, row in touched.items()]
                for touched in self.touched
            ],
            "pending": {str(writer): change.to_json() for writer, change in self.pending.items()},
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Ledger:
        ledger = Ledger(data["history"])
        ledger.touched = [
            {id: None if row is None else row_from_json(row) for id, row in touched} for touched in data["touched"]
        ]
        ledger.pending = {int(writer): Change.from_json(change) for writer, change in data["pending"].items()}
        return ledger
