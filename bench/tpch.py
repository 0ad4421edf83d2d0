"""Is each of TPC-H's queries a live view, however it was made, and what do refresh streams cost it?

All 22 queries, each in four ways: made before there are rows, while half of the orders come, after them, and on views
in place of tables. Then the refresh streams: orders and their lines come, go and change, a thousandth of them each
time. At last every view is compared with its query, run by Spark over the same rows. The time of the streams is set
against that of all queries run once: someone without a live view runs each of them after each stream.

    python -m bench.tpch 0.01 0.1     these scale factors, 0.01 unless told otherwise
    python -m bench.tpch 1 above      one of the ways alone
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from bench import tpch_rows
from bench.common import PeakMemory, database, report, seconds
from headrace.database import Database
from tests.support.four_ways import WAYS
from tests.support.tpch import QUERIES, TABLES, on_views

ORDERS = 1_500_000
"""Of scale factor 1."""

STREAMS = 3
SHARE = 1000


class Views:
    def __init__(self, db: Database, ways: list[str]):
        self._db, self._ways = db, ways
        self.made: list[str] = []

    def create(self, way: str) -> None:
        if way not in self._ways:
            return
        for number, query in QUERIES.items():
            name = f"{way}_q{number}"
            self._db.sql(f"CREATE MATERIALIZED VIEW {name} AS {on_views(query) if way == 'above' else query}")
            self.made.append(name)

    def wrong(self) -> list[str]:
        """Those that are not what their query says."""
        return [
            name
            for name in self.made
            if not self._db.sql(f"CHECK MATERIALIZED VIEW {name}").rows()[0][0].startswith("equal")
        ]


def streams(orders: int) -> Iterator[list[str]]:
    """Statements: new orders with their lines, others that go, and others that change."""
    some = max(1, orders // SHARE)
    for turn in range(STREAMS):
        first, gone = orders + turn * some, 2 * turn * some
        changed = gone + some
        new = [
            f"INSERT INTO {table} SELECT {tpch_rows.columns_of(table, orders, turn + 1)}"
            f" FROM generate_series({first * lines}, {(first + some) * lines - 1}) AS g"
            for table, lines in (("orders", 1), ("lineitem", tpch_rows.LINES))
        ]
        yield [
            *new,
            f"DELETE FROM lineitem WHERE l_orderkey >= {gone} AND l_orderkey < {gone + some}",
            f"DELETE FROM orders WHERE o_orderkey >= {gone} AND o_orderkey < {gone + some}",
            "UPDATE lineitem SET l_quantity = l_quantity + 7, l_extendedprice = l_extendedprice * 2"
            f" WHERE l_orderkey >= {changed} AND l_orderkey < {changed + some}",
            f"UPDATE orders SET o_custkey = (o_custkey + 1) % {orders // 10}"
            f" WHERE o_orderkey >= {changed} AND o_orderkey < {changed + some}",
        ]


def measure(scale: float, ways: list[str]) -> None:
    orders = max(100, round(ORDERS * scale))
    with database(barrier_interval="100ms") as db, PeakMemory() as memory:
        views = Views(db, ways)
        tpch_rows.create(db)
        db.sql("SET background_ddl = true")
        for name in TABLES if "above" in ways else ():
            db.sql(f"CREATE MATERIALIZED VIEW v_{name} AS SELECT * FROM {name}")
        views.create("before")
        db.sql("WAIT")

        def load() -> None:
            for name in ("supplier", "customer", "part", "partsupp"):
                tpch_rows.fill(db, name, orders)
            for name in ("orders", "lineitem"):
                tpch_rows.fill(db, name, orders, 0, tpch_rows.count(name, orders) // 2)
            views.create("between")
            for name in ("orders", "lineitem"):
                tpch_rows.fill(db, name, orders, tpch_rows.count(name, orders) // 2)
            views.create("after")
            views.create("above")
            db.sql("WAIT")

        loaded = seconds(load)
        applied = [
            seconds(lambda: [db.sql(statement) for statement in statements])  # noqa: B023
            for statements in streams(orders)
        ]
        anew = seconds(lambda: [db.sql(query).arrow() for query in QUERIES.values()])
        wrong = views.wrong()
    report(
        "tpch",
        f"SF {scale:g}, {', '.join(ways)}: {len(views.made) - len(wrong)} of {len(views.made)} views are what their"
        f" query says{f' ({wrong} are not)' if wrong else ''}; loading {loaded:.1f} s, a refresh stream of six"
        f" statements {min(applied):.1f} to {max(applied):.1f} s for all of them, the 22 queries once {anew:.1f} s",
        scale=scale, ways=ways, views=len(views.made), wrong=wrong, load_s=round(loaded, 1),
        streams_s=[round(each, 1) for each in applied], anew_s=round(anew, 1),
        ratio=round(sum(applied) / len(applied) / (anew * len(ways)), 3), peak_mb=memory.megabytes,
    )  # fmt: skip
    if wrong:
        sys.exit(1)


def main() -> None:
    ways = [each for each in WAYS if each in sys.argv[1:]] or [*WAYS]
    for scale in [float(each) for each in sys.argv[1:] if each not in WAYS] or [0.01]:
        measure(scale, ways)


if __name__ == "__main__":
    main()
