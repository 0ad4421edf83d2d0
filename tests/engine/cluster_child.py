"""A warehouse on executors that are processes of their own, to which this folder and package are unknown.

python cluster_child.py <where headrace is> <warehouse>
"""

from __future__ import annotations

import sys
import time
from pathlib import Path


def where_tasks_find_us(spark) -> set[str]:
    def look(batches):
        import pyarrow as pa

        import headrace.state.writer

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [headrace.state.writer.__file__]})

    return {row.file for row in spark.range(4, numPartitions=4).mapInArrow(look, "file STRING").collect()}


def main(warehouse: str) -> None:
    import headrace
    from headrace.engine import writes
    from headrace.engine.spark import start_session

    spark = start_session(master="local-cluster[2,1,1024]", driver_memory="1g")

    def open_warehouse():
        return headrace.connect(warehouse, spark=spark)

    def rows(query: str) -> list[tuple]:
        return sorted(db.sql(query).rows())

    db = open_warehouse()
    found = where_tasks_find_us(spark)
    assert all("headrace_tasks.zip" in file for file in found), found
    executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
    assert executors >= 1, "there are no executors beside the driver"

    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("CREATE TABLE n (v INT)")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT v * 2 AS d FROM t WHERE v > 1 UNION ALL SELECT v FROM n")
    db.sql("INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    db.sql("INSERT INTO n VALUES (7)")
    writes.SMALL_ROWS = 10
    db.sql("INSERT INTO t SELECT g, g FROM generate_series(3, 1000) AS x(g)")
    db.sql("INSERT INTO n SELECT v FROM t WHERE v > 980")
    db.sql("UPDATE t SET v = v + 1 WHERE id = 2")
    db.sql("UPDATE t SET v = 0 WHERE id > 500")
    db.sql("DELETE FROM t WHERE id = 1")
    db.sql("CREATE MATERIALIZED VIEW later AS SELECT d FROM m WHERE d < 10")
    t = {2: 3} | {id: id if id <= 500 else 0 for id in range(3, 1001)}
    m = sorted([(2 * v,) for v in t.values() if v > 1] + [(v,) for v in (7, *range(981, 1001))])

    def check() -> None:
        assert rows("SELECT * FROM t") == sorted(t.items())
        assert rows("SELECT * FROM m") == m
        assert rows("SELECT * FROM later") == [row for row in m if row[0] < 10]

    db.sql("COMPACT; VACUUM")
    check()
    try:
        db.sql("INSERT INTO t SELECT g, 1 / (g - 500) FROM generate_series(1, 1000) AS x(g)")
        raise AssertionError("division by zero was not noticed")
    except headrace.errors.DataError:
        pass
    db.close()
    db = open_warehouse()
    check()
    db.sql("INSERT INTO t VALUES (1, 5)")
    assert rows("SELECT * FROM later") == [row for row in m if row[0] < 10]
    assert rows("SELECT v FROM t WHERE id = 1") == [(5,)]
    rescaled(db)
    events(db, Path(warehouse).with_name("events-in"))
    followed(db)
    db.close()
    spark.stop()
    print("all is well", flush=True)


def rescaled(db) -> None:
    """A view that is filled by 2, then 4, then 1 partitions while its table is written to."""
    session = db.session()
    session.sql("SET background_ddl = true; SET backfill_pacing = 120; SET streaming_parallelism = 2")
    session.sql("CREATE MATERIALIZED VIEW filled AS SELECT id, v + 1 AS w FROM t WHERE v % 3 <> 0")
    for number, parallelism in enumerate((2, 4, 1)):
        db.sql(f"ALTER MATERIALIZED VIEW filled SET PARALLELISM = {parallelism}")
        db.sql(f"UPDATE t SET v = v + 10 WHERE id % 4 = {number}")
        ((answer,),) = db.sql("CHECK MATERIALIZED VIEW filled").rows()
        assert answer.startswith("equal"), answer
    db.sql("WAIT filled")
    db.sql("INSERT INTO t SELECT g, g FROM generate_series(2000, 90000) AS x(g)")
    db.sql("CREATE MATERIALIZED VIEW large AS SELECT v, id FROM t WHERE v > 5")  # through Spark's own writer
    db.sql("CREATE INDEX by_v ON t (v DESC)")
    for kind, name in (("MATERIALIZED VIEW", "filled"), ("MATERIALIZED VIEW", "large"), ("INDEX", "by_v")):
        ((answer,),) = db.sql(f"CHECK {kind} {name}").rows()
        assert answer.startswith("equal"), answer


def events(db, folder: Path) -> None:
    """Read and decoded by executors, as history and as what comes later."""
    folder.mkdir()
    (folder / "a.json").write_text("".join(f'{{"id": {id}, "v": "{id % 3}"}}\n' for id in range(500)))
    db.sql(
        "CREATE SOURCE log (id BIGINT, v VARCHAR)"
        f" WITH (connector = 'file', path = '{folder}/*.json') FORMAT PLAIN ENCODE JSON"
    )
    db.sql("CREATE MATERIALIZED VIEW plain AS SELECT id, v FROM log WHERE v <> '1'")
    (folder / "b.json").write_text('{"id": 500, "v": "0"}\n')
    expected = sorted((id, str(id % 3)) for id in range(500) if id % 3 != 1) + [(500, "0")]
    deadline = time.monotonic() + 60
    while sorted(db.sql("SELECT * FROM plain").rows()) != expected:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    db.sql("DROP SOURCE log CASCADE")


def followed(db) -> None:
    """A table of PostgreSQL, of which executors read the splits, with a password that Spark is not to show."""
    from tests.support.postgres import PASSWORD, Postgres, binaries

    if binaries() is None:
        return
    server = Postgres()
    try:
        server.run('CREATE TABLE orders (id int PRIMARY KEY, v text COLLATE "und-x-icu")')
        server.run("INSERT INTO orders SELECT g, 'v' || g FROM generate_series(1, 1000) g")
        db.sql("CREATE SECRET pw AS '" + PASSWORD.replace("'", "''") + "'")
        db.sql(
            f"CREATE SOURCE pg WITH (connector = 'postgres-cdc', hostname = '127.0.0.1', port = '{server.port}',"
            f" username = '{server.owner}', password = SECRET pw, database.name = 'postgres', slot.name = 'cluster')"
        )
        db.sql("CREATE TABLE orders (*) FROM pg TABLE 'orders' WITH (backfill.num_rows_per_split = 100); WAIT orders")
        assert sorted(db.sql("SELECT * FROM orders").rows()) == sorted(server.run("SELECT * FROM orders"))
        db.sql("DROP SOURCE pg CASCADE")
    finally:
        server.remove()


if __name__ == "__main__":
    sys.path.insert(0, sys.argv[1])
    sys.path.remove(next(path for path in sys.path if path.endswith("tests/engine")))
    main(sys.argv[2])
