"""How many events per second does a live Nexmark query take, and how soon are they in its view?

For each query a database of its own: three tables with the events of ``HISTORY``, which the connector `nexmark` works
out on executors, a materialized view of the query, and then ``EPOCHS`` times ``PER_EPOCH`` events more, each written
when the one before is acknowledged. An insert is acknowledged when it is committed and in the view, so the time that it
takes is how fresh the view is. Against it: the same query over the same tables, run anew by Spark; and Flink SQL, if
there is one (:mod:`bench.nexmark_flink`), for the queries that both can run. Flink gets all events at once, as a view
does that is created when they are there; so that is measured, too.
"""

from __future__ import annotations

import sys

import pyarrow as pa

from bench.common import database, median, report, seconds
from bench.nexmark_flink import events_per_second, flinks_python
from headrace.database import Database
from tests.support.nexmark import QUERIES

HISTORY, PER_EPOCH, EPOCHS, WARM_UP = 500_000, 10_000, 20, 3
COLUMNS = {
    "person": "id BIGINT PRIMARY KEY, name VARCHAR, city VARCHAR, state VARCHAR, date_time TIMESTAMP",
    "auction": "id BIGINT PRIMARY KEY, item_name VARCHAR, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP,"
    " expires TIMESTAMP, seller BIGINT, category BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel VARCHAR, url VARCHAR, date_time TIMESTAMP",
}


def p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def events(db: Database) -> dict[str, pa.Table]:
    """All rows of all tables, in the order of their events."""
    found = {}
    total = HISTORY + PER_EPOCH * (EPOCHS + WARM_UP)
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


def part(rows: pa.Table, first: int, last: int) -> pa.Table:
    """What belongs to some of the events, of which each table has a fixed share."""
    total = HISTORY + PER_EPOCH * (EPOCHS + WARM_UP)
    start, stop = (rows.num_rows * edge // total for edge in (first, last))
    return rows.slice(start, stop - start)


def measure(name: str, query: str, rows: dict[str, pa.Table]) -> tuple[float, float]:
    """Events per second, live and of history."""
    with database(barrier_interval="100ms") as db:
        for table, columns in COLUMNS.items():
            db.sql(f"CREATE TABLE {table} ({columns})")
            db.insert(table, part(rows[table], 0, HISTORY))
        built = HISTORY / seconds(lambda: db.sql(f"CREATE MATERIALIZED VIEW v AS {query}"))
        times = []
        for number in range(EPOCHS + WARM_UP):
            first = HISTORY + number * PER_EPOCH

            def write(first: int = first) -> None:
                for table, every in rows.items():
                    db.insert(table, part(every, first, first + PER_EPOCH))

            times.append(seconds(write))
        times = times[WARM_UP:]
        full = median([seconds(lambda: db.sql(query).arrow()) for _ in range(3)])
    rate = PER_EPOCH * len(times) / sum(times)
    report(
        "nexmark",
        f"{name}: {rate:,.0f} events/s, in the view after {median(times) * 1000:.0f} ms (p99 {p99(times) * 1000:.0f}), "
        f"and {built:,.0f} events/s of history; its query takes {full:.2f} s, "
        f"so keeping it costs {median(times) / full:.2f} of computing it anew",
        query=name, events_per_s=round(rate), history_events_per_s=round(built), fresh_ms=round(median(times) * 1000),
        fresh_p99_ms=round(p99(times) * 1000), full_s=round(full, 2), ratio=round(median(times) / full, 3),
    )  # fmt: skip
    return rate, built


def main() -> None:
    with database() as db:
        rows = events(db)
    names = sys.argv[1:] or list(QUERIES)
    rates = {name: measure(name, QUERIES[name], rows) for name in names}
    if (python := flinks_python()) is None:
        return
    for name, flink in events_per_second(python, rows, names).items():
        live, history = (rate / flink for rate in rates[name])
        report(
            "nexmark",
            f"{name}: Flink SQL takes {flink:,.0f} events/s, which are neither committed nor readable; Headrace takes "
            f"history, which is there at once, at {history:.2f} of that, and live batches at {live:.2f}",
            query=name, flink_events_per_s=round(flink), history_ratio=round(history, 3), live_ratio=round(live, 3),
        )  # fmt: skip


if __name__ == "__main__":
    main()
