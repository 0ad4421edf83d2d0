"""The process that follows the table, and is killed: python -m headrace.demo.cdc.engine WAREHOUSE SCRATCH PORT USER

Its password comes from the file ``password`` in SCRATCH. When ``stopped`` appears there, nobody writes any more, and it
compares.
"""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

import headrace
from headrace.cdc.postgres.server import driver
from headrace.database import Database
from headrace.demo.cdc.server import connect
from headrace.demo.wire import say
from headrace.errors import HeadraceError
from headrace.serving.progress import DONE, Progress

LOOK_EVERY = 0.1
PATIENCE = 60.0
COLUMNS = {
    "id": pa.int64(), "customer": pa.string(), "amount": pa.decimal128(10, 2), "placed": pa.timestamp("us", tz="UTC"),
}  # fmt: skip
VIEW = "CREATE MATERIALIZED VIEW large AS SELECT id, customer, amount FROM orders WHERE amount > 900"


def main(warehouse: str, scratch: str, port: str, user: str, split_rows: str) -> bool:
    password = Path(scratch, "password").read_text()
    began = time.perf_counter()
    with headrace.connect(warehouse, takeover=True) as database:
        again = database.engine.committed.catalog.find("orders") is not None
        if not again:
            _create(database, port, user, password, split_rows)
        job = database.job("orders")
        say("open", again=again, seconds=time.perf_counter() - began, rows=job.progress().rows_read)
        while (look := job.progress()).state != DONE:
            database.engine.coordinator.refuse_if_stopped()  # else nothing would ever change again
            _report(database, look)
            if job.error:
                say("failed", why=job.error, sql="")
                return False
            time.sleep(LOOK_EVERY)
        _report(database, look)
        say("filled")
        stopped = Path(scratch, "stopped")
        while not stopped.exists():
            database.engine.coordinator.refuse_if_stopped()
            time.sleep(0.05)
        return _compare(database, int(port), user, password)


def _create(database: Database, port: str, user: str, password: str, split_rows: str) -> None:
    quoted = password.replace("'", "''")
    database.sql(f"CREATE SECRET shop_password AS '{quoted}'")
    for sql in (
        f"CREATE SOURCE shop WITH (connector = 'postgres-cdc', hostname = '127.0.0.1', port = '{port}', "
        f"username = '{user}', password = SECRET shop_password, database.name = 'postgres')",
        f"CREATE TABLE orders (*) FROM shop TABLE 'public.orders' WITH (backfill.num_rows_per_split = {split_rows})",
        f"SET background_ddl = true; {VIEW}",
    ):
        began = time.perf_counter()
        database.sql(sql)
        say("did", sql=sql, ms=round((time.perf_counter() - began) * 1000))


def _report(database: Database, look: Progress) -> None:
    say(
        "status",
        epoch=database.status()["epoch"],
        look={name: getattr(look, name) for name in Progress.__dataclass_fields__},
    )


def _compare(database: Database, port: int, user: str, password: str) -> bool:
    """Every row, with the table as it is at the end of the server's log."""
    buffer = io.BytesIO()
    connection = connect(port, user, password)
    with connection.cursor() as cursor:
        cursor.execute("SET timezone = 'UTC'; SET datestyle = 'ISO'")
        cursor.copy_expert("COPY (SELECT * FROM orders ORDER BY id) TO STDOUT (FORMAT csv)", buffer)
    connection.close()
    buffer.seek(0)
    theirs = pa.csv.read_csv(
        buffer,
        read_options=pa.csv.ReadOptions(column_names=list(COLUMNS)),
        convert_options=pa.csv.ConvertOptions(column_types=COLUMNS),
    )
    deadline = time.monotonic() + PATIENCE
    while True:
        ours = database.sql("SELECT id, customer, amount, placed FROM orders").arrow().cast(theirs.schema).sort_by("id")
        equal = ours.equals(theirs)
        if equal or time.monotonic() > deadline:
            break
        time.sleep(0.1)  # it has not caught up
    say("table", equal=equal, rows=ours.num_rows, theirs=theirs.num_rows, total=str(pc.sum(ours["amount"])))
    database.sql("WAIT large")
    ((answer,), *_) = database.sql("CHECK MATERIALIZED VIEW large").rows()
    say("view", equal=answer.startswith("equal"), answer=answer)
    return equal and answer.startswith("equal")


if __name__ == "__main__":
    try:
        sys.exit(0 if main(*sys.argv[1:]) else 1)
    except (HeadraceError, driver().Error) as error:
        say("failed", why=str(error), sql="")
        sys.exit(1)
