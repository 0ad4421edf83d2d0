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
from bench.tpch_rows import columns_of, count, load
from headrace.database import Database
from tests.support.tpch import QUERIES

ORDERS = 150_000
SHARES = (0.001, 0.01, 0.1)
ROUNDS = 3
CHANGED = {2: "partsupp", 11: "partsupp", 13: "orders", 16: "part", 22: "orders"}
"""The largest table of whose changes a query sees something, where it is not lineitem."""


def changes(db: Database, table: str, share: float, at: int, variant: int) -> pa.Table:
    """Rows from number ``at`` on, as far apart as the share wants."""
    step, last = int(1 / share), count(table, ORDERS) - 1
    described = db.sql(f"DESCRIBE {table}").rows()
    kinds = {name: kind for name, kind, *_ in described if re.match("[a-z]+_", name)}
    query = f"SELECT {columns_of(table, ORDERS, variant)} FROM generate_series({at}, {last}, {step}) AS g"
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
        load(db, ORDERS)
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
