"""The demo's shop: its tables and views, and what customers do to it. Nothing here runs SQL.

Each writer owns the orders whose id it is congruent to, so that the outcome of a run does not depend on how the
writers' statements interleave, and the books can be kept without asking the engine.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = tuple[int, str, Decimal, int]
"""id, item, price, qty"""

WRITERS = 3
HISTORY = 6_000
"""Rows that are there before the first view is created."""
ITEMS = ("tea", "lamp", "desk", "chair", "book", "pen", "rug")

TABLE = "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR, price NUMERIC(10,2), qty INT)"

# Name and query. Each is created as a materialized view, and each query is asked again at the end.
VIEWS = {
    "totals": "SELECT id, item, price * qty AS total FROM orders",
    "large": "SELECT id, item, total FROM totals WHERE total >= 500",
    "cheap": "SELECT id, upper(item) AS item, price FROM orders WHERE price < 20",
    "alerts": "SELECT id, 'large order' AS why FROM large UNION ALL SELECT id, 'sold out' FROM orders WHERE qty = 0",
}


def history() -> list[Row]:
    return [_seeded(number) for number in range(HISTORY)]


def history_sql() -> str:
    cases = " ".join(f"WHEN {number} THEN '{item}'" for number, item in enumerate(ITEMS))
    return (
        f"INSERT INTO orders SELECT n, CASE n % {len(ITEMS)} {cases} END, (n * 37 % 9000) / 100.0, n % 11 "
        f"FROM generate_series(0, {HISTORY - 1}) AS g (n)"
    )


def _seeded(number: int) -> Row:
    return number, ITEMS[number % len(ITEMS)], Decimal(number * 37 % 9000) / 100, number % 11


@dataclass(frozen=True, kw_only=True)
class Change:
    """One statement: rows to insert, or ids to update or delete."""

    kind: str
    rows: tuple[Row, ...] = ()
    ids: tuple[int, ...] = ()
    price: Decimal = Decimal(0)
    qty: int = 0

    @property
    def size(self) -> int:
        return len(self.rows) + len(self.ids)

    @property
    def sql(self) -> str:
        if self.kind == "INSERT":
            values = ", ".join(f"({id}, '{item}', {price}, {qty})" for id, item, price, qty in self.rows)
            return f"INSERT INTO orders VALUES {values}"
        where = f"WHERE id IN ({', '.join(map(str, self.ids))})"
        if self.kind == "UPDATE":
            return f"UPDATE orders SET price = {self.price}, qty = {self.qty} {where}"
        return f"DELETE FROM orders {where}"

    def apply(self, orders: dict[int, Row]) -> None:
        for row in self.rows:
            orders[row[0]] = row
        for id in self.ids:
            if self.kind == "DELETE":
                del orders[id]
            else:
                orders[id] = (id, orders[id][1], self.price, self.qty)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "rows": [row_to_json(row) for row in self.rows],
            "ids": self.ids,
            "price": str(self.price),
            "qty": self.qty,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Change:
        return Change(
            kind=data["kind"],
            rows=tuple(map(row_from_json, data["rows"])),
            ids=tuple(data["ids"]),
            price=Decimal(data["price"]),
            qty=data["qty"],
        )


def row_to_json(row: Row) -> list[Any]:
    return [row[0], row[1], str(row[2]), row[3]]


def row_from_json(data: Sequence[Any]) -> Row:
    return data[0], data[1], Decimal(data[2]), data[3]


class Customer:
    """Decides what one writer does next. It knows its own orders, because nobody else touches them."""

    def __init__(self, writer: int, *, seed: int):
        self._writer = writer
        self._random = random.Random(f"{seed}/{writer}")
        self._orders = {row[0]: row for row in history() if row[0] % WRITERS == writer}
        self._next = HISTORY + (writer - HISTORY) % WRITERS

    def next(self) -> Change:
        """Assumed to happen: a writer sends its next statement only after this one was acknowledged."""
        kind = self._random.choices(("INSERT", "UPDATE", "DELETE"), weights=(7, 2, 1))[0]
        if kind == "INSERT":
            change = Change(kind=kind, rows=tuple(self._order() for _ in range(self._random.randint(1, 400))))
        else:
            count = min(len(self._orders), self._random.randint(1, 60))
            change = Change(
                kind=kind,
                ids=tuple(self._random.sample(sorted(self._orders), count)),
                price=self._price(),
                qty=self._random.randint(0, 20),
            )
        change.apply(self._orders)
        return change

    def _order(self) -> Row:
        id, self._next = self._next, self._next + WRITERS
        return id, self._random.choice(ITEMS), self._price(), self._random.randint(0, 12)

    def _price(self) -> Decimal:
        return Decimal(self._random.randint(100, 20_000)) / 100
