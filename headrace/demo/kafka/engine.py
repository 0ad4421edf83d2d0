"""The process that has the views, and is killed.

python -m headrace.demo.kafka.engine WAREHOUSE SCRATCH SERVERS TOPIC RATE

When ``stopped`` appears in SCRATCH, nobody produces any more, and it says what each view holds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import headrace
from headrace.database import Database
from headrace.demo.wire import say
from headrace.errors import HeadraceError
from headrace.serving.progress import DONE, Progress

LOOK_EVERY = 0.1
PATIENCE = 60.0
VIEWS = ("before", "during", "after")


def main(warehouse: str, scratch: str, servers: str, topic: str, rate: str) -> bool:
    began = time.perf_counter()
    with headrace.connect(warehouse, takeover=True) as database:
        again = database.engine.committed.catalog.find("clicks") is not None
        if not again:
            _do(
                database,
                "CREATE SOURCE clicks (id BIGINT, url VARCHAR) INCLUDE partition AS p, offset AS o WITH (connector ="
                f" 'kafka', topic = '{topic}', properties.bootstrap.server = '{servers}') FORMAT PLAIN ENCODE JSON",
            )
            _do(database, _view("before"))
            database.sql(f"SET background_ddl = true; SET backfill_rate_limit = {rate}")
            _do(database, _view("during"))
        job = database.job("during")
        say("open", again=again, seconds=time.perf_counter() - began, rows=job.progress().rows_read)
        if again:
            database.sql("ALTER MATERIALIZED VIEW during SET BACKFILL_RATE_LIMIT = DEFAULT")
            _do(database, _view("after"))
        while (look := job.progress()).state != DONE:
            if look.state == "failed":
                job.wait()  # raises, with the reason
            _report(database, look)
            time.sleep(LOOK_EVERY)
        _report(database, look)
        say("filled")
        stopped = Path(scratch, "stopped")
        while not stopped.exists():
            time.sleep(0.05)
        ends = dict(enumerate(map(int, stopped.read_text().split())))
        return all([_count(database, view, ends) for view in VIEWS])


def _view(name: str) -> str:
    return f"CREATE MATERIALIZED VIEW {name} AS SELECT id, url, p, o FROM clicks"


def _do(database: Database, sql: str) -> None:
    began = time.perf_counter()
    database.sql(sql)
    say("did", sql=sql, ms=round((time.perf_counter() - began) * 1000))


def _report(database: Database, look: Progress) -> None:
    fields = {name: getattr(look, name) for name in Progress.__dataclass_fields__}
    say("status", epoch=database.status()["epoch"], look=fields)


def _count(database: Database, view: str, ends: dict[int, int]) -> bool:
    """Every offset once: as many rows as offsets, as many different ones, and none beyond the ends."""
    wanted = [(partition, end, end, 0, end - 1) for partition, end in ends.items()]
    deadline = time.monotonic() + PATIENCE
    while True:
        found = sorted(
            database.sql(f"SELECT p, count(*), count(DISTINCT o), min(o), max(o) FROM {view} GROUP BY p").rows()
        )
        if found == wanted or time.monotonic() > deadline:
            break
        time.sleep(0.1)  # it has not caught up
    rows, different = sum(each[1] for each in found), sum(each[2] for each in found)
    say("view", name=view, equal=found == wanted, rows=rows, different=different, wanted=sum(ends.values()))
    return found == wanted


if __name__ == "__main__":
    try:
        sys.exit(0 if main(*sys.argv[1:]) else 1)
    except HeadraceError as error:
        say("failed", why=str(error), sql="")
        sys.exit(1)
