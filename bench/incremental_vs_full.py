"""What does a change cost a view, against computing the view anew? 0.1 %, 1 % and 10 % of 1 M rows changed.

Four views: sums by group, maxima by group, a join, and groups of a join. Against each the time of its query run once,
with Spark, over the same rows.
"""

from __future__ import annotations

import pyarrow as pa

from bench.common import database, filled_table, median, report, seconds

ROWS, OTHERS = 1_000_000, 100_000
SHARES = (0.001, 0.01, 0.1)
VIEWS = {
    "sums": "SELECT qty, count(*) AS c, sum(price) AS s FROM lines GROUP BY qty",
    "maxima": "SELECT customer, max(price) AS m FROM lines GROUP BY customer",
    "join": "SELECT l.id, l.qty, o.product FROM lines AS l JOIN orders AS o ON l.customer = o.id",
    "groups_of_join": "SELECT o.product, count(*) AS c, sum(l.price) AS s FROM lines AS l"
    " JOIN orders AS o ON l.customer = o.id GROUP BY o.product",
}


def changes(share: float, round: int) -> pa.Table:
    keys = range(1 + round, ROWS, int(1 / share))
    return pa.table(
        {
            "id": pa.array(keys, pa.int64()),
            "customer": pa.array([key % OTHERS + 1 for key in keys], pa.int64()),
            "product": ["changed"] * len(keys),
            "qty": pa.array([(key + round) % 77 for key in keys], pa.int32()),
        }
    )


def main() -> None:
    for name, query in VIEWS.items():
        with database() as db:
            filled_table(db, "lines", ROWS)
            filled_table(db, "orders", OTHERS)
            full = median([seconds(lambda: db.sql(query).arrow()) for _ in range(3)])  # noqa: B023
            db.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
            figures = {}
            for share in SHARES:
                times = [seconds(lambda: db.insert("lines", changes(share, round))) for round in range(3)]  # noqa: B023
                figures[f"{share:.1%}"] = round(median(times) / full, 3)
        report(
            "incremental_vs_full",
            f"{name}: its query takes {full:.2f} s; an epoch that changes "
            + ", ".join(f"{share} of the rows {ratio:.2f} of that" for share, ratio in figures.items()),
            view=name, full_s=round(full, 2), ratios=figures,
        )  # fmt: skip


if __name__ == "__main__":
    main()
