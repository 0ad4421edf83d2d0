"""How many events per second do Nexmark queries take here, and in Flink SQL? Both in one run, one after the other.

Flink (``pip install apache-flink`` in an environment of its own, whose interpreter is the first argument) reads the
events of all tables from files of CSV, in streaming mode with parallelism 2, into a sink that keeps nothing; the time
of a job over no events is taken off. Headrace writes 10,000 events at a time to tables with the history in them, and
each batch is committed, and in the view, before the next (:mod:`bench.nexmark`). So Flink has less to do: nothing is
stored and nothing can be read. ``python -m bench.nexmark_flink /path/to/python q0 q4`` measures some.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from bench.common import database, report
from bench.nexmark import events, measure
from tests.support.nexmark import QUERIES

QUERIES_OF_FLINK = {
    name: QUERIES[name] for name in ("q0", "q1", "q2", "q3", "q4", "q9", "q18", "q19", "q20", "q101", "q103")
} | {
    "q17": """SELECT auction, DATE_FORMAT(date_time, 'yyyy-MM-dd') AS `day`, count(*) AS bids, min(price) AS low,
        max(price) AS high, avg(price) AS average, sum(price) AS total FROM bid
        GROUP BY auction, DATE_FORMAT(date_time, 'yyyy-MM-dd')""",
    "q22": "SELECT auction, SPLIT_INDEX(url, '/', 3) AS one, SPLIT_INDEX(url, '/', 4) AS two FROM bid",
}
"""In Flink's dialect, where that differs."""

CHILD = """
import json, sys, time
from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment

folder, tables, queries = json.loads(sys.stdin.read())
flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
flink.get_config().set("parallelism.default", "2")

def run(query, part):
    for name, columns in tables.items():
        options = f"'connector' = 'filesystem', 'path' = 'file://{folder}/{part}/{name}', 'format' = 'csv'"
        flink.execute_sql(f"CREATE TEMPORARY TABLE {name} ({columns}) WITH ({options})")
    started = time.perf_counter()
    flink.sql_query(query).execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
    took = time.perf_counter() - started
    for name in tables:
        flink.execute_sql(f"DROP TEMPORARY TABLE {name}")
    return took

run(next(iter(queries.values())), "none")
for name, query in queries.items():
    print(json.dumps([name, run(query, "none"), run(query, "all")]), flush=True)
"""

TABLES_OF_FLINK = {
    "person": "id BIGINT, name STRING, city STRING, state STRING, date_time TIMESTAMP(3)",
    "auction": "id BIGINT, item_name STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP(3),"
    " expires TIMESTAMP(3), seller BIGINT, category BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3)",
}


def write(folder: Path, rows: dict[str, pa.Table]) -> None:
    options = pyarrow.csv.WriteOptions(include_header=False)
    for part, share in (("all", 1), ("none", 0)):
        for name, table in rows.items():
            times = [at for at, field in enumerate(table.schema) if pa.types.is_timestamp(field.type)]
            for at in times:
                table = table.set_column(at, table.schema.field(at).name, table.column(at).cast(pa.timestamp("ms")))
            (folder / part / name).mkdir(parents=True)
            pyarrow.csv.write_csv(table.slice(0, table.num_rows * share), folder / part / name / "1.csv", options)


def by_flink(python: str, rows: dict[str, pa.Table], queries: dict[str, str]) -> dict[str, tuple[float, float]]:
    """For each query the seconds of a job over no events, and over all."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)
        asked = json.dumps([folder, TABLES_OF_FLINK, queries])
        done = subprocess.run([python, "-c", CHILD], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('["q')]
    return {name: (none, every) for name, none, every in lines}


def main() -> None:
    python, *names = sys.argv[1:]
    queries = {name: QUERIES_OF_FLINK[name] for name in names or QUERIES_OF_FLINK}
    with database() as db:
        rows = events(db)
    total = sum(table.num_rows for table in rows.values())
    flinks = by_flink(python, rows, queries)
    for name in queries:
        rate = measure(name, QUERIES[name], rows)
        none, every = flinks[name]
        flink = total / max(every - none, 0.001)
        report(
            "nexmark_flink",
            f"{name}: Flink takes {flink:,.0f} events/s ({every:.1f} s for {total:,} events, {none:.1f} s for none), "
            f"Headrace {rate:,.0f}, committed and readable: {rate / flink:.2f} of that",
            query=name, flink_events_per_s=round(flink), events_per_s=round(rate), ratio=round(rate / flink, 3),
        )  # fmt: skip


if __name__ == "__main__":
    main()
