"""What does the wire cost? One row of a view by its key, through psycopg, against the same in the server's process.

The view has 1 M rows. Three ways take turns: psycopg on a server with a prepared statement, `spark.sql` over the view's
rows as a DataFrame of Spark's, and Headrace's own `sql` in the process. The ratio is psycopg's median over that of
`spark.sql`; at most 1.3 is wanted. What Headrace adds by itself, and what the protocol adds to it, is in the figures.
"""

from __future__ import annotations

import random

import psycopg

from bench.common import PeakMemory, database, filled_table, interleaved, median, report
from headrace.database import Database
from headrace.serving.server.server import Server

ROWS, ROUNDS = 1_000_000, 300


def p99(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.99))]


def plain_spark(db: Database) -> None:
    """The view's live rows under a name of Spark's, as somebody without Headrace would read them."""
    state = db.engine.committed
    db.engine.frame(state, state.catalog.get("v").id).createOrReplaceTempView("plain")


def main() -> None:
    source = random.Random(1)
    with PeakMemory() as memory, database(compaction="false") as db:
        filled_table(db, "t", ROWS)
        db.sql("CREATE MATERIALIZED VIEW v AS SELECT id, customer, product, price FROM t WHERE qty >= 0")
        plain_spark(db)
        server = Server(db.engine, port=0)
        server.start()
        dsn = f"host=127.0.0.1 port={server.port} user=root dbname=dev"
        with psycopg.connect(dsn, autocommit=True, prepare_threshold=0) as connection:
            session = db.session()

            def key() -> int:
                return source.randrange(ROWS) + 1

            times = interleaved(
                {
                    "wire": lambda: connection.execute("SELECT * FROM v WHERE id = %s", (key(),)).fetchall(),
                    "spark": lambda: db.engine.spark.sql(f"SELECT * FROM plain WHERE id = {key()}").collect(),
                    "process": lambda: session.sql(f"SELECT * FROM v WHERE id = {key()}").rows(),
                },
                rounds=ROUNDS,
                warm_up=20,
            )
        server.stop()
    wire, spark, process = (median(times[name]) for name in ("wire", "spark", "process"))
    tails = {name: round(p99(times[name]) * 1000, 1) for name in times}
    report(
        "wire_point_select",
        f"one row of a view by its key took {wire * 1000:.0f} ms by psycopg (p99 {tails['wire']:.0f}), "
        f"{spark * 1000:.0f} ms by spark.sql (p99 {tails['spark']:.0f}), {process * 1000:.0f} ms by Headrace in the "
        f"process (p99 {tails['process']:.0f}): ratio to spark.sql {wire / spark:.2f} (at most 1.3), to the process "
        f"{wire / process:.2f}; peak memory {memory.megabytes} MB",
        ratio=round(wire / spark, 3), limit=1.3, ratio_to_process=round(wire / process, 3),
        p50_ms={name: round(median(times[name]) * 1000, 1) for name in times}, p99_ms=tails, rounds=ROUNDS,
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
