"""The demo's shop: its table, views and index, and what customers do to it. Nothing here runs SQL.

Each writer owns the orders whose id it is congruent to, so that the outcome of a run does not depend on how the
writers' statements interleave, and the books can be kept without asking the engine. The history is a formula: books
name only the orders that somebody has touched.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

Row = tuple[int, str, Decimal, int]
"""id, item, price, qty"""

Touched = dict[int, Row | None]
"""Orders that are not, or no longer, what the history says; None for those that are gone."""

WRITERS = 3
ITEMS = ("tea", "lamp", "desk", "chair", "book", "pen", "rug")

TABLE = "CREATE TABLE orders (id INT PRIMARY KEY, item VARCHAR, price NUMERIC(10,2), qty INT)"

VIEWS = {
    "totals": "SELECT id, item, price * qty AS total FROM orders",
    "cheap": "SELECT id, upper(item) AS item, price FROM orders WHERE price < 20",
    "alerts": (
        "SELECT id, 'large order' AS why FROM orders WHERE price * qty >= 500 "
        "UNION ALL SELECT id, 'sold out' FROM orders WHERE qty = 0"
    ),
}
INDEX = "by_item"
INDEX_SQL = f"CREATE INDEX {INDEX} ON orders (item, price DESC) INCLUDE (qty)"

CREATE = {name: f"CREATE MATERIALIZED VIEW {name} AS {query}" for name, query in VIEWS.items()} | {INDEX: INDEX_SQL}
"""What is filled, in the order of creation."""

OFFLINE = VIEWS | {INDEX: "SELECT item, price, qty, id FROM orders ORDER BY item, price DESC, id"}
"""The same as batch queries, for a plain Spark copy."""


def check_sql(name: str) -> str:
    return f"CHECK {'INDEX' if name == INDEX else 'MATERIALIZED VIEW'} {name}"


def history_sql(rows: int) -> str:
    return f"INSERT INTO orders SELECT n, {_ITEM}, {_PRICE}, {_QTY} FROM generate_series(0, {rows - 1}) AS g (n)"


_CASES = " ".join(f"WHEN {number} THEN '{item}'" for number, item in enumerate(ITEMS))
_ITEM = f"CASE n % {len(ITEMS)} {_CASES} END"
_PRICE = "(n % 9000 * 37 % 9000) / 100.0"
_QTY = "n % 11"


def seeded(number: int) -> Row:
    """An order as the history has it."""
    return number, ITEMS[number % len(ITEMS)], Decimal(number * 37 % 9000) / 100, number % 11


def changed_sql(rows: int, touched: Sequence[int]) -> str:
    """Every order that is not as in the history, and those of the history that somebody touched."""
    asked = f" OR id IN ({', '.join(map(str, touched))})" if touched else ""
    columns = {"item": _ITEM, "price": _PRICE, "qty": _QTY}
    differs = " OR ".join(f"{name} IS DISTINCT FROM {sql.replace('n %', 'id %')}" for name, sql in columns.items())
    return f"SELECT * FROM orders WHERE id < 0 OR id >= {rows} OR {differs}{asked}"


@dataclass(frozen=True, kw_only=True)
class Change:
    """One statement: rows to insert, or ids to update or delete."""

    kind: str
    rows: tuple[Row, ...] = ()
    """For an update: the orders as they are afterwards."""
    ids: tuple[int, ...] = ()
    price: Decimal = Decimal(0)
    qty: int = 0

    @property
    def size(self) -> int:
        return len(self.ids) or len(self.rows)

    @property
    def sql(self) -> str:
        if self.kind == "INSERT":
            values = ", ".join(f"({id}, '{item}', {price}, {qty})" for id, item, price, qty in self.rows)
            return f"INSERT INTO orders VALUES {values}"
        where = f"WHERE id IN ({', '.join(map(str, self.ids))})"
        if self.kind == "UPDATE":
            return f"UPDATE orders SET price = {self.price}, qty = {self.qty} {where}"
        return f"DELETE FROM orders {where}"

    def apply(self, touched: Touched) -> None:
        touched.update((row[0], row) for row in self.rows)
        if self.kind == "DELETE":
            touched.update(dict.fromkeys(self.ids))

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

    def __init__(self, writer: int, *, seed: int, rows: int, touched: Mapping[int, Row | None] | None = None):
        self._writer, self._rows = writer, rows
        self._random = random.Random(f"{seed}/{writer}")
        self._touched: Touched = dict(touched or {})
        self._next = rows + (writer - rows) % WRITERS
        if new := [id for id in self._touched if id >= rows]:
            self._next = max(new) + WRITERS

    def next(self) -> Change:
        """Assumed to happen: a writer sends its next statement only after this one was acknowledged."""
        kind = self._random.choices(("INSERT", "UPDATE", "DELETE"), weights=(7, 2, 1))[0]
        found = [] if kind == "INSERT" else self._some()
        if not found:
            change = Change(kind="INSERT", rows=tuple(self._order() for _ in range(self._random.randint(1, 200))))
        elif kind == "DELETE":
            change = Change(kind=kind, ids=tuple(row[0] for row in found))
        else:
            price, qty = self._price(), self._random.randint(0, 20)
            rows = tuple((id, item, price, qty) for id, item, _, _ in found)
            change = Change(kind=kind, rows=rows, ids=tuple(row[0] for row in rows), price=price, qty=qty)
        change.apply(self._touched)
        return change

    def _some(self) -> list[Row]:
        """Orders of this writer, old ones and new ones, that are there: read into a view already or not."""
        places = range(self._writer, self._next, WRITERS)
        ids = self._random.sample(places, min(len(places), self._random.randint(1, 60)))
        found = [self._touched[id] if id in self._touched else seeded(id) for id in sorted(ids)]
        return [row for row in found if row is not None]

    def _order(self) -> Row:
        id, self._next = self._next, self._next + WRITERS
        return id, self._random.choice(ITEMS), self._price(), self._random.randint(0, 12)

    def _price(self) -> Decimal:
        return Decimal(self._random.randint(100, 20_000)) / 100
