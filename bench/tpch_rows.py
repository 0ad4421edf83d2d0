"""Rows of TPC-H, as many as one likes, worked out on executors from their numbers.

Tables and queries are those of :mod:`tests.support.tpch`. A scale factor of 1 is 1,500,000 orders and four lines of
each.
"""

from __future__ import annotations

from headrace.database import Database
from tests.support.tpch import MODES, NATIONS, PRIORITIES, REGIONS, SEGMENTS, TABLES, TYPES

LINES = 4


def drawn(salt: int, most: int) -> str:
    """A number below ``most`` that follows from g."""
    return f"((g::bigint * {7919 + 2 * salt} + g / {13 + salt % 7} + {salt * 104729}) % {most})"


def chosen(salt: int, texts: list[str]) -> str:
    listed = ", ".join(f"'{text}'" for text in texts)
    return f"(ARRAY[{listed}])[{drawn(salt, len(texts))}::int + 1]"


def money(salt: int, most: int) -> str:
    return f"({drawn(salt, most * 100)} / 100.0)::numeric(12, 2)"


def columns_of(table: str, orders: int, variant: int = 0) -> str:
    """The columns of a table's rows, for numbers g, in SQL. What can change in place is another in each variant."""
    customers, parts, suppliers = orders // 10, orders // 8, max(8, orders // 150)
    more = 50 * variant
    shipped = f"DATE '1993-01-01' + {drawn(40 + more, 1400)}::int"
    return {
        "supplier": f"g, 'Supplier ' || g, 'street ' || g, {drawn(1, len(NATIONS))}, (10 + {drawn(2, 8)}) || '-555',"
        f" {money(3, 9000)}, {chosen(4, ['ok', 'Customer stuff Complaints', 'fine', 'well'])}",
        "customer": f"g, 'Customer ' || g, 'lane ' || g, {drawn(5, len(NATIONS))}, (10 + {drawn(6, 25)}) || '-777',"
        f" {money(7, 9000)}, {chosen(8, SEGMENTS)}, 'nothing'",
        "part": f"g, {chosen(9, ['green almond', 'forest lace', 'blue lace'])}, 'Manufacturer#' || {drawn(10, 3)},"
        f" {chosen(11 + more, ['Brand#12', 'Brand#23', 'Brand#34'])}, {chosen(12 + more, TYPES)},"
        f" 1 + {drawn(13 + more, 15)}, {chosen(14, ['MED BOX', 'SM CASE', 'LG CASE'])}, {money(15 + more, 2000)}",
        "partsupp": f"g / 3, (g / 3 + (g % 3) * {suppliers // 3}) % {suppliers}, 1 + {drawn(16 + more, 200)},"
        f" {money(17 + more, 100)}",
        "orders": f"g, {drawn(18 + more, customers)}, {chosen(19, ['F', 'O', 'P'])},"
        f" {money(20 + more, 90000)}, DATE '1993-01-01' + {drawn(21 + more, 1400)}::int,"
        f" {chosen(22, PRIORITIES)}, 0, {chosen(23, ['plain', 'special packed requests'])}",
        "lineitem": f"g / {LINES}, g % {LINES} + 1, {drawn(30 + more, parts)}, {drawn(31 + more, suppliers)},"
        f" 1 + {drawn(32 + more, 50)}, {money(33 + more, 50000)}, 0.04 + {drawn(34 + more, 4)} / 100.0, 0.02,"
        f" {chosen(35, ['A', 'N', 'R'])}, {chosen(36, ['O', 'F'])}, {shipped}, {shipped} + 30, {shipped} +"
        f" {drawn(37 + more, 60)}::int, {chosen(38, ['DELIVER IN PERSON', 'NONE'])}, {chosen(39, MODES)}",
    }[table]


COUNTS = {"supplier": 150, "customer": 10, "part": 8, "partsupp": 8 / 3, "orders": 1, "lineitem": 1 / LINES}
"""Orders for each row."""


def count(table: str, orders: int) -> int:
    return max(8, int(orders / COUNTS[table]))


def create(db: Database) -> None:
    """The tables, and the rows of those that are small and the same for every number of orders."""
    for name, columns in TABLES.items():
        db.sql(f"CREATE TABLE {name} ({columns})")
    for name, texts in (("region", REGIONS), ("nation", NATIONS)):
        more = [f", {at % len(REGIONS)}" if name == "nation" else "" for at in range(len(texts))]
        values = ", ".join(f"({at}, '{text}'{more[at]})" for at, text in enumerate(texts))
        db.sql(f"INSERT INTO {name} VALUES {values}")


def fill(db: Database, table: str, orders: int, first: int = 0, last: int | None = None) -> None:
    """Rows of some numbers, or all."""
    last = count(table, orders) if last is None else last
    db.sql(f"INSERT INTO {table} SELECT {columns_of(table, orders)} FROM generate_series({first}, {last - 1}) AS g")


def load(db: Database, orders: int) -> None:
    create(db)
    for name in COUNTS:
        fill(db, name, orders)
