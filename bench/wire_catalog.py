"""How long do clients wait who ask what there is? SQLAlchemy reflects 30 relations, and psql says \\d of one.

Two ways take turns: the interpreter, as always, and Spark, with the interpreter switched off. The first reflection of a
fresh server is measured by itself, once each, the interpreter's first.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy

from bench.common import database, interleaved, median, report, seconds
from headrace.database import Database
from headrace.serving import asked
from headrace.serving.server.server import Server

TABLES, ROUNDS = 10, 3
INTERPRETER = asked.evaluate


@contextmanager
def by_spark() -> Iterator[None]:
    asked.evaluate = lambda bound, tables: None
    try:
        yield
    finally:
        asked.evaluate = INTERPRETER


def fill(db: Database) -> None:
    """Ten tables, each with a view and an index."""
    for number in range(TABLES):
        db.sql(f"CREATE TABLE t{number} (id INT PRIMARY KEY, at TIMESTAMPTZ, n VARCHAR DEFAULT 'x', p NUMERIC(10,2))")
        db.sql(f"CREATE MATERIALIZED VIEW v{number} AS SELECT id, n FROM t{number} WHERE id > 0")
        db.sql(f"CREATE INDEX i{number} ON t{number} (n)")


def reflect(url: str) -> None:
    engine = sqlalchemy.create_engine(url)
    metadata = sqlalchemy.MetaData()
    metadata.reflect(engine, views=True)
    inspector = sqlalchemy.inspect(engine)
    found = {*metadata.tables, *inspector.get_materialized_view_names()}
    assert len(found) == 2 * TABLES, found
    assert sum(len(table.indexes) for table in metadata.tables.values()) == TABLES
    engine.dispose()


def describe(dsn: str) -> None:
    said = subprocess.run(["psql", "-X", dsn, "-c", r"\d t3"], capture_output=True, text=True, check=True).stdout
    assert '"t3_pkey" PRIMARY KEY, btree (id)' in said


def spark_way(action: Callable[[], None]) -> Callable[[], None]:
    def act() -> None:
        with by_spark():
            action()

    return act


def main() -> None:
    with database() as db:
        fill(db)
        server = Server(db.engine, port=0)
        server.start()
        url = f"postgresql+psycopg://root@127.0.0.1:{server.port}/dev"
        dsn = f"host=127.0.0.1 port={server.port} user=root dbname=dev"
        first = {"interpreter": seconds(lambda: reflect(url)), "spark": seconds(spark_way(lambda: reflect(url)))}
        ways = {"interpreter": lambda: reflect(url), "spark": spark_way(lambda: reflect(url))}
        reflected = {name: median(each) for name, each in interleaved(ways, rounds=ROUNDS, warm_up=0).items()}
        ways = {"interpreter": lambda: describe(dsn), "spark": spark_way(lambda: describe(dsn))}
        described = {name: median(each) for name, each in interleaved(ways, rounds=ROUNDS, warm_up=1).items()}
        server.stop()
    report(
        "wire_catalog",
        f"SQLAlchemy reflected {3 * TABLES} relations in {reflected['interpreter']:.2f} s "
        f"({first['interpreter']:.2f} s the first time), by Spark in {reflected['spark']:.1f} s "
        f"({first['spark']:.1f} s); psql's \\d took "
        f"{described['interpreter'] * 1000:.0f} ms, by Spark {described['spark'] * 1000:.0f} ms: ratios "
        f"{reflected['spark'] / reflected['interpreter']:.0f} and {described['spark'] / described['interpreter']:.0f}",
        ratio=round(reflected["interpreter"] / reflected["spark"], 3), first_s=first, reflected_s=reflected,
        described_s=described, relations=3 * TABLES,
    )  # fmt: skip


if __name__ == "__main__":
    main()
