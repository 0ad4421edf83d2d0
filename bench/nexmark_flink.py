"""The Nexmark queries of :mod:`bench.nexmark` in Flink SQL, from the same events, in a process of its own.

Flink is optional. ``HEADRACE_FLINK_PYTHON`` names the Python of an environment that has it:

    python3 -m venv flink && flink/bin/pip install apache-flink==2.3.0
    HEADRACE_FLINK_PYTHON=flink/bin/python python -m bench.nexmark q0 q3

It reads the events of all tables from files of CSV, in streaming mode, with parallelism 2, into a sink that keeps
nothing; the time of the same job over no events is taken off. What it has to do is less than what Headrace does: it
commits nothing, nothing can be read, and a window comes once, when it has closed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from tests.support.nexmark import QUERIES

PYTHON = "HEADRACE_FLINK_PYTHON"
_TUMBLE = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(date_time), INTERVAL '10' SECOND))"
_HOP = "TABLE(HOP(TABLE bid, DESCRIPTOR(date_time), INTERVAL '2' SECOND, INTERVAL '10' SECOND))"

_DAY = "DATE_FORMAT(date_time, 'yyyy-MM-dd')"

SAME = (
    "q0", "q1", "q2", "q3", "q4", "q9", "q18", "q19", "q20", "q101", "q102", "q103", "q104", "q105", "q106",
)  # fmt: skip
"""Those that are the same text."""

_CHANNEL_ID = "(regexp_match(url, '(&|^)channel_id=([^&]*)'))[2]"

FLINKS = {name: QUERIES[name] for name in SAME} | {
    "q5": f"""SELECT w.auction, w.num FROM (SELECT auction, count(*) AS num, window_start AS starts, window_end AS ends
        FROM {_HOP} GROUP BY window_start, window_end, auction) AS w JOIN (SELECT max(num) AS most, starts, ends
        FROM (SELECT count(*) AS num, window_start AS starts, window_end AS ends FROM {_HOP}
        GROUP BY auction, window_start, window_end) AS c GROUP BY starts, ends) AS m
        ON w.starts = m.starts AND w.ends = m.ends AND w.num >= m.most""",
    "q7": f"""SELECT b.auction, b.price, b.bidder, b.date_time FROM bid AS b JOIN (SELECT max(price) AS most,
        window_end AS ends FROM {_TUMBLE.format("bid")} GROUP BY window_start, window_end) AS w
        ON b.price = w.most WHERE b.date_time BETWEEN w.ends - INTERVAL '10' SECOND AND w.ends""",
    "q8": f"""SELECT p.id, p.name, p.starts FROM (SELECT id, name, window_start AS starts, window_end AS ends
        FROM {_TUMBLE.format("person")} GROUP BY id, name, window_start, window_end) AS p
        JOIN (SELECT seller, window_start AS starts, window_end AS ends FROM {_TUMBLE.format("auction")}
        GROUP BY seller, window_start, window_end) AS a
        ON p.id = a.seller AND p.starts = a.starts AND p.ends = a.ends""",
    "q10": f"""SELECT auction, bidder, price, date_time, {_DAY} AS `day`, DATE_FORMAT(date_time, 'HH:mm') AS `minute`
        FROM bid""",
    "q11": """SELECT bidder, count(*) AS bids, window_start, window_end
        FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(date_time), INTERVAL '2' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q12": """SELECT bidder, count(*) AS bids, window_start, window_end
        FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(arrived), INTERVAL '10' SECOND))
        GROUP BY bidder, window_start, window_end""",
    "q13": """SELECT b.auction, b.bidder, b.price, b.date_time, s.`value` FROM bid AS b JOIN side_input AS s
        ON b.auction % 10 = s.`key`""",
    "q14": QUERIES["q14"].replace("extract(hour FROM date_time)", "HOUR(date_time)").replace("length(", "CHAR_LENGTH("),
    "q15": QUERIES["q15"].replace("to_char(date_time, 'YYYY-MM-DD')", _DAY).replace("AS day", "AS `day`"),
    "q16": QUERIES["q16"].replace("to_char(date_time, 'YYYY-MM-DD')", _DAY).replace("AS day", "AS `day`"),
    "q17": QUERIES["q17"].replace("to_char(date_time, 'YYYY-MM-DD')", _DAY).replace("AS day", "AS `day`"),
    "q21": QUERIES["q21"].replace(_CHANNEL_ID, "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"),
    "q22": "SELECT auction, SPLIT_INDEX(url, '/', 3) AS one, SPLIT_INDEX(url, '/', 4) AS two FROM bid",
}
"""The queries that both can run, in Flink's words. Not q6: window functions of Flink's are only over rows that
never change, in the order of their time."""

TIMED = ("q5", "q7", "q8", "q11")
"""Those whose windows close."""

ARRIVED = "arrived AS PROCTIME()"
"""Of bids, for q12: its windows close by the clock, and what is open when the events end never comes."""

TABLES = {
    "person": "id BIGINT, name STRING, city STRING, state STRING, date_time TIMESTAMP(3)",
    "auction": "id BIGINT, item_name STRING, initial_bid BIGINT, reserve BIGINT, date_time TIMESTAMP(3),"
    " expires TIMESTAMP(3), seller BIGINT, category BIGINT",
    "bid": "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, date_time TIMESTAMP(3)",
    "side_input": "`key` BIGINT, `value` STRING",
}
WATERMARK = "WATERMARK FOR date_time AS date_time - INTERVAL '4' SECOND"

CHILD = """
import json, sys, time
from pyflink.table import EnvironmentSettings, TableDescriptor, TableEnvironment

folder, tables, queries = json.loads(sys.stdin.read())
flink = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
flink.get_config().set("parallelism.default", "2")

def run(name, query, part):
    for table, columns in tables[name].items():
        options = f"'connector' = 'filesystem', 'path' = 'file://{folder}/{part}/{table}', 'format' = 'csv'"
        flink.execute_sql(f"CREATE TEMPORARY TABLE {table} ({columns}) WITH ({options})")
    try:
        started = time.perf_counter()
        flink.sql_query(query).execute_insert(TableDescriptor.for_connector("blackhole").build()).wait()
        return time.perf_counter() - started
    finally:
        for table in tables[name]:
            flink.execute_sql(f"DROP TEMPORARY TABLE {table}")

for name, query in queries.items():
    try:
        run(name, query, "none")  # what is loaded once
        print(json.dumps([name, run(name, query, "none"), run(name, query, "all")]), flush=True)
    except Exception as error:
        print(json.dumps([name, str(error)]), flush=True)
"""


def flinks_python() -> str | None:
    """The Python that has Flink; None, and why, if there is none."""
    python = os.environ.get(PYTHON)
    if not python:
        print(f"Flink is left out: {PYTHON} does not name a Python that has apache-flink", file=sys.stderr)
        return None
    try:
        subprocess.run([python, "-c", "import pyflink.table"], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        print(f"Flink is left out: {python} cannot import pyflink; pip install apache-flink there", file=sys.stderr)
        return None
    return python


def write(folder: Path, rows: dict[str, pa.Table]) -> None:
    """The events, and none of them, as files of CSV."""
    options = pyarrow.csv.WriteOptions(include_header=False)
    for name, table in rows.items():
        for at, field in enumerate(table.schema):
            if pa.types.is_timestamp(field.type):
                table = table.set_column(at, field.name, table.column(at).cast(pa.timestamp("ms"), safe=False))
        for part, some in (("all", table), ("none", table.slice(0, 0))):
            (folder / part / name).mkdir(parents=True)
            pyarrow.csv.write_csv(some, folder / part / name / "1.csv", options)


def columns_of(table: str, query: str) -> str:
    more = [WATERMARK] if query in TIMED and table != "side_input" else []
    more += [ARRIVED] if query == "q12" and table == "bid" else []
    return ", ".join([TABLES[table], *more])


def events_per_second(python: str, rows: dict[str, pa.Table], names: Iterable[str]) -> dict[str, float]:
    """Of each query that Flink can run."""
    total, found = sum(table.num_rows for name, table in rows.items() if name != "side_input"), {}
    queries = {name: FLINKS[name] for name in names if name in FLINKS}
    tables = {name: {each: columns_of(each, name) for each in TABLES} for name in queries}
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), rows)
        asked = json.dumps([folder, tables, queries])
        done = subprocess.run([python, "-c", CHILD], input=asked, stdout=subprocess.PIPE, text=True, check=True)
    for name, *said in (json.loads(line) for line in done.stdout.splitlines() if line.startswith('["q')):
        if len(said) == 1:
            print(f"Flink cannot run {name}: {said[0][-2000:]}", file=sys.stderr)
        else:
            none, every = said
            found[name] = total / max(every - none, 0.001)
    return found
