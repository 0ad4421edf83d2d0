"""How fast do rows come over the wire? 1 M rows fetched by psycopg, against `toArrow` in the server's process.

psycopg is asked in three ways: all rows as text, all rows in binary, and by a server-side cursor. There is no limit to
hold, only figures: a client gets rows one by one, which `toArrow` never makes.
"""

from __future__ import annotations

import psycopg

from bench.common import PeakMemory, database, filled_table, interleaved, median, report
from headrace.serving.server.server import Server

ROWS = 1_000_000


def main() -> None:
    with PeakMemory() as memory, database(compaction="false") as db:
        filled_table(db, "t", ROWS)
        server = Server(db.engine, port=0)
        server.start()
        with psycopg.connect(f"host=127.0.0.1 port={server.port} user=root dbname=dev") as connection:
            session = db.session()

            def fetch(*, binary: bool) -> None:
                rows = connection.execute("SELECT * FROM t", binary=binary).fetchall()
                assert len(rows) == ROWS

            def cursor() -> None:
                with connection.cursor("rows") as rows:
                    rows.itersize = 10_000
                    assert sum(1 for _ in rows.execute("SELECT * FROM t")) == ROWS

            times = interleaved(
                {
                    "arrow": lambda: session.sql("SELECT * FROM t").arrow(),
                    "text": lambda: fetch(binary=False),
                    "binary": lambda: fetch(binary=True),
                    "cursor": cursor,
                },
                rounds=3,
                warm_up=1,
            )
        server.stop()
    medians = {name: median(taken) for name, taken in times.items()}
    report(
        "wire_fetch",
        f"1 M rows took {medians['arrow']:.1f} s by toArrow, {medians['text']:.1f} s by psycopg, "
        f"{medians['binary']:.1f} s in binary, {medians['cursor']:.1f} s by a cursor: ratio "
        f"{medians['text'] / medians['arrow']:.1f}; peak memory {memory.megabytes} MB",
        ratio=round(medians["text"] / medians["arrow"], 2),
        seconds={name: round(taken, 2) for name, taken in medians.items()},
        rows_per_second={name: round(ROWS / taken) for name, taken in medians.items()},
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
