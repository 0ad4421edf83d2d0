"""What does a change cost a view, against computing the view anew? 0.1 %, 1 % and 10 % of a table changed, in TPC-H.

Each of the 22 queries is a materialized view by itself, over 600,000 rows of lineitem and what belongs to them. Rows
of the largest table that the query reads are changed in place: in lineitem another quantity, price, discount, part,
supplier and date. (Of partsupp q16 reads the key alone, so rows of part are changed there.) No row is ever given the
values that it has. The time of the epoch is compared with that of the query, run once by Spark over the same rows. At
0.1 % it should be under a tenth for at least 18 of them. ``python -m bench.incremental_vs_full 0.1% 3 18`` measures
some.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence

import pyarrow as pa

from bench.common import database, median, report, seconds
from headrace.database import Database
from tests.support.tpch import MODES, NATIONS, PRIORITIES, QUERIES, REGIONS, SEGMENTS, TABLES, TYPES

ORDERS, LINES = 150_000, 4
SHARES = (0.001, 0.01, 0.1)
ROUNDS = 3
CHANGED = {2: "partsupp", 11: "partsupp", 13: "orders", 16: "part", 22: "orders"}
"""The largest table of whose changes a query sees something, where it is not lineitem."""


def drawn(salt: int, most: int) -> str:
    """A number below ``most`` that follows from g."""
    return f"((g::bigint * {7919 + 2 * salt} + g / {13 + salt % 7} + {salt * 104729}) % {most})"


def chosen(salt: int, texts: list[str]) -> str:
    listed = ", ".join(f"'{text}'" for text in texts)
    return f"(ARRAY[{listed}])[{drawn(salt, len(texts))}::int + 1]"


def money(salt: int, most: int) -> str:
    return f"({drawn(salt, most * 100)} / 100.0)::numeric(12, 2)"


def rows(table: str, variant: int = 0) -> str:
    """The columns of a table's rows, for numbers g. What can change in place is another value in each variant."""
    customers, parts, suppliers = ORDERS // 10, ORDERS // 8, max(8, ORDERS // 150)
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


def load(db: Database) -> None:
    for name, columns in TABLES.items():
        db.sql(f"CREATE TABLE {name} ({columns})")
    for name, texts in (("region", REGIONS), ("nation", NATIONS)):
        more = [f", {at % len(REGIONS)}" if name == "nation" else "" for at in range(len(texts))]
        values = ", ".join(f"({at}, '{text}'{more[at]})" for at, text in enumerate(texts))
        db.sql(f"INSERT INTO {name} VALUES {values}")
    for name, each in COUNTS.items():
        count = max(8, int(ORDERS / each))
        db.sql(f"INSERT INTO {name} SELECT {rows(name)} FROM generate_series(0, {count - 1}) AS g")


def changes(db: Database, table: str, share: float, at: int, variant: int) -> pa.Table:
    """Rows from number ``at`` on, as far apart as the share wants."""
    step, last = int(1 / share), int(ORDERS / COUNTS[table]) - 1
    described = db.sql(f"DESCRIBE {table}").rows()
    kinds = {name: kind for name, kind, *_ in described if re.match("[a-z]+_", name)}
    query = f"SELECT {rows(table, variant)} FROM generate_series({at}, {last}, {step}) AS g"
    items = ", ".join(f"{name}::{kind} AS {name}" for name, kind in kinds.items())
    return db.sql(f"SELECT {items} FROM ({query}) AS q ({', '.join(kinds)})").arrow()


def all_changes(db: Database, table: str, shares: Sequence[float]) -> Iterator[dict[float, list[pa.Table]]]:
    """For one query after the other: a batch to warm up, and one for each round. What one query writes, none of the
    next two does again."""
    made = []
    for turn in range(3):
        variants = itertools.count(1 + turn * len(shares) * (1 + ROUNDS))
        made.append({
            share: [changes(db, table, share, at, next(variants)) for at in range(1 + ROUNDS)] for share in shares
        })  # fmt: skip
    return itertools.cycle(made)


def main() -> None:
    numbers = [int(each) for each in sys.argv[1:] if not each.endswith("%")] or [*QUERIES]
    shares = [float(each[:-1]) / 100 for each in sys.argv[1:] if each.endswith("%")] or SHARES
    good = 0
    with database() as db:
        load(db)
        tables = {CHANGED.get(number, "lineitem") for number in numbers}
        every = {table: all_changes(db, table, shares) for table in tables}
        for number in numbers:
            query, table = QUERIES[number], CHANGED.get(number, "lineitem")
            batches = next(every[table])
            full = median([seconds(lambda: db.sql(query).arrow()) for _ in range(3)])  # noqa: B023
            built = seconds(lambda: db.sql(f"CREATE MATERIALIZED VIEW v AS {query}"))  # noqa: B023
            ratios = {}
            for share, (first, *others) in batches.items():
                db.insert(table, first)  # what is planned once is planned now
                times = [seconds(lambda: db.insert(table, rows)) for rows in others]  # noqa: B023
                ratios[f"{share:.1%}"] = round(median(times) / full, 3)
            db.sql("DROP MATERIALIZED VIEW v")
            good += ratios[f"{shares[0]:.1%}"] < 0.1
            report(
                "incremental_vs_full",
                f"q{number}: the query takes {full:.2f} s, building the view {built:.2f} s; an epoch that changes "
                + ", ".join(f"{share} of {table} {ratio:.3f} of the query" for share, ratio in ratios.items()),
                query=number, table=table, full_s=round(full, 2), built_s=round(built, 2), ratios=ratios,
            )  # fmt: skip
    report(
        "incremental_vs_full",
        f"a change of {shares[0]:.1%} costs less than a tenth of the query for {good} of {len(numbers)}"
        " (18 of 22 wanted)",
        good=good, of=len(numbers), limit=18,
    )  # fmt: skip


if __name__ == "__main__":
    main()
