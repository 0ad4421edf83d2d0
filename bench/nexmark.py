"""How many events per second does a live Nexmark query take, and how soon are they in its view?

For each query a database of its own: three tables with the events of ``HISTORY``, which the connector `nexmark` works
out on executors, a materialized view of the query, and then many times ``PER_EPOCH`` events more, each batch written
when the one before is acknowledged. An insert is acknowledged when it is committed and in the view, so the time that it
takes is how fresh the view is. Against it: the same query over the same tables, run anew by Spark; and Flink SQL, if
there is one (:mod:`bench.nexmark_flink`), for the queries that both can run. Flink gets all events at once, as a view
does that is created when they are there; so that is measured, too.

    python -m bench.nexmark                          all of them, and those that there are in layers, as views on views
    python -m bench.nexmark q5 q5_above              some of them
    python -m bench.nexmark q5 --batches 20          of fewer batches a p99 is the slowest
"""

from __future__ import annotations

import argparse
import math

import pyarrow as pa

from bench.common import database, median, report, seconds
from bench.nexmark_flink import events_per_second, flinks_python
from headrace.database import Database
from tests.support.nexmark import ABOVE, LOWER, QUERIES, WITH_MORE_COLUMNS, below

HISTORY, PER_EPOCH, BATCHES, WARM_UP = 500_000, 10_000, 100, 3
ALONE = QUERIES | WITH_MORE_COLUMNS
COLUMNS = {
    "person": "id BIGINT PRIMARY KEY, name VARCHAR, city VARCHAR, state VARCHAR, date_time TIMESTAMP",
    "auction": "id BIGINT PRIMARY KEY, item_name VARCHAR, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP,"
    " expires TIMESTAMP, seller BIGINT, category BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, date_time TIMESTAMP",
}
MORE = {"q12": "arrived TIMESTAMPTZ DEFAULT now()"}
"""Columns of bids that one of the queries needs, and no event has"""
SIDE_INPUT = pa.table({"key": pa.array(range(10), pa.int64()), "value": [f"value {key}" for key in range(10)]})


def p99(values: list[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def events(db: Database, total: int) -> dict[str, pa.Table]:
    """All rows of all tables, in the order of their events."""
    found = {}
    for name, columns in COLUMNS.items():
        plain = columns.replace(" PRIMARY KEY", "")
        db.sql(
            f"CREATE SOURCE {name}_events ({plain}) WITH (connector = 'nexmark', "
            f"nexmark.table.type = '{name.capitalize()}', nexmark.event.num = '{total}')"
        )
        names = ", ".join(column.split()[0] for column in columns.split(", "))
        order = "date_time, auction, bidder" if name == "bid" else "id"
        found[name] = db.sql(f"SELECT {names} FROM {name}_events ORDER BY {order}").arrow()
        db.sql(f"DROP SOURCE {name}_events")
    return found


def part(rows: pa.Table, share: tuple[float, float]) -> pa.Table:
    """What belongs to some of the events, of which each table has a fixed share."""
    start, stop = (round(rows.num_rows * edge) for edge in share)
    return rows.slice(start, stop - start)


def create_tables(db: Database, name: str) -> None:
    for table, columns in COLUMNS.items():
        more = f", {MORE[name]}" if table == "bid" and name in MORE else ""
        db.sql(f"CREATE TABLE {table} ({columns}{more})")
    if name == "q13":
        db.sql("CREATE TABLE side_input (key BIGINT PRIMARY KEY, value VARCHAR)")
        db.insert("side_input", SIDE_INPUT)


def measure(name: str, rows: dict[str, pa.Table], batches: int) -> tuple[float, float]:
    """Events per second, live and of history."""
    query, alone = (ALONE | ABOVE)[name], ALONE[name.removesuffix("_above")]
    total = events_in(batches)
    views = {view: LOWER[view] for view in below(query)} | {"v": query}
    with database(barrier_interval="100ms") as db:
        create_tables(db, name)
        for table, every in rows.items():
            db.insert(table, part(every, (0, HISTORY / total)))
        built = HISTORY / seconds(
            lambda: [db.sql(f"CREATE MATERIALIZED VIEW {view} AS {one}") for view, one in views.items()]
        )
        times = []
        for first in range(HISTORY, total, PER_EPOCH):

            def write(first: int = first) -> None:
                for table, every in rows.items():
                    db.insert(table, part(every, (first / total, (first + PER_EPOCH) / total)))

            times.append(seconds(write))
        times = times[WARM_UP:]
        full = median([seconds(lambda: db.sql(alone).arrow()) for _ in range(3)])
    rate = PER_EPOCH * len(times) / sum(times)
    report(
        "nexmark",
        f"{name}: {rate:,.0f} events/s, in the view after {median(times) * 1000:.0f} ms (p99 {p99(times) * 1000:.0f}), "
        f"and {built:,.0f} events/s of history; its query takes {full:.2f} s, "
        f"so keeping it costs {median(times) / full:.2f} of computing it anew",
        query=name, batches=len(times), events_per_s=round(rate), history_events_per_s=round(built),
        fresh_ms=round(median(times) * 1000),
        fresh_p99_ms=round(p99(times) * 1000), full_s=round(full, 2), ratio=round(median(times) / full, 3),
    )  # fmt: skip
    return rate, built


def events_in(batches: int) -> int:
    return HISTORY + PER_EPOCH * (batches + WARM_UP)


def main() -> None:
    asked = argparse.ArgumentParser(description="Events per second and freshness of Nexmark's queries as views")
    asked.add_argument("queries", nargs="*", help=f"of {', '.join(ALONE | ABOVE)}; all if none is named")
    asked.add_argument("--batches", type=int, default=BATCHES, help=f"of {PER_EPOCH:,} events; {BATCHES} if not given")
    given = asked.parse_args()
    names = given.queries or [*ALONE, *ABOVE]
    if unknown := [name for name in names if name not in ALONE | ABOVE]:
        asked.error(f"there is no {', '.join(unknown)}")
    with database() as db:
        rows = events(db, events_in(given.batches))
    rates = {name: measure(name, rows, given.batches) for name in names}
    if (python := flinks_python()) is None:
        return
    for name, flink in events_per_second(python, rows | {"side_input": SIDE_INPUT}, names).items():
        live, history = (rate / flink for rate in rates[name])
        report(
            "nexmark",
            f"{name}: Flink SQL takes {flink:,.0f} events/s, which are neither committed nor readable; Headrace takes "
            f"history, which is there at once, at {history:.2f} of that, and live batches at {live:.2f}",
            query=name, flink_events_per_s=round(flink), history_ratio=round(history, 3), live_ratio=round(live, 3),
        )  # fmt: skip


if __name__ == "__main__":
    main()
