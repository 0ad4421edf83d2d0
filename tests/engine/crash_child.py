"""A process that works on a warehouse until it is killed. Every acknowledged statement is a line on its stdout.

    python -m tests.engine.crash_child steps <warehouse> <first step>
    python -m tests.engine.crash_child backfill <warehouse>
    python -m tests.engine.crash_child leave <warehouse>
    python -m tests.engine.crash_child windows <warehouse> <first batch>
    python -m tests.engine.crash_child swarm <warehouse>

All but ``swarm``, which is on its own, borrow the JVM of the test that started them (one of their own would cost more
than all that they do), so what dies is the process that the engine runs in, while Spark may go on with the job it was
given.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import dataclass, field

# --- what "steps" does: the same list in the child, which runs it, and in the test, which knows what it comes to


@dataclass
class Expected:
    t: dict[int, int] = field(default_factory=dict)
    n: list[int] = field(default_factory=list)

    def relation(self, name: str) -> list[tuple]:
        pairs = [(v, id) for id, v in self.t.items() for other in self.n if other == v]
        groups = {v: [id for each, id in pairs if each == v] for v, _ in pairs}
        return {
            "t": sorted(self.t.items()),
            "n": sorted((v,) for v in self.n),
            "picked": sorted((id, 2 * v) for id, v in self.t.items() if v % 3),
            "met": sorted((v, len(ids), sum(ids)) for v, ids in groups.items()),
            "largest": sorted(sorted(self.t.items(), key=lambda row: (-row[1], row[0]))[:3]),
        }[name]


DEFINITIONS = [
    "CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, v INT)",
    "CREATE TABLE IF NOT EXISTS n (v INT)",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS picked AS SELECT id, v * 2 AS d FROM t WHERE v % 3 <> 0",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS met AS SELECT t.v, count(*) AS c, sum(t.id) AS s FROM t JOIN n ON t.v = n.v"
    " GROUP BY t.v",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS largest AS SELECT id, v FROM t ORDER BY v DESC, id LIMIT 3",
]
RELATIONS = ("t", "n", "picked", "met", "largest")


def say(line: str) -> None:
    """Tells the test, by one write: several threads speak, and ``print`` writes its newline apart."""
    os.write(1, f"{line}\n".encode())


def step(number: int) -> str:
    """The statement of a step. Rows of an INSERT must be there all or none."""
    base = number // 8
    match number % 8:
        case 0:
            return f"INSERT INTO t VALUES ({base}, {number}), ({base + 1}, {number + 1}), (100 + {base}, 1)"
        case 1:
            return f"INSERT INTO n VALUES ({number}), ({number}), ({number + 1})"
        case 2:
            return "INSERT INTO t SELECT g, g * 5 FROM generate_series(2, 9) AS x(g)"
        case 3:
            return f"UPDATE t SET v = v + 7 WHERE id = {base}"
        case 4:
            return "COMPACT"
        case 5:
            return "UPDATE t SET v = v + 1 WHERE id > 3"
        case 6:
            return "VACUUM"
        case _:
            return f"DELETE FROM n WHERE v < {number - 8}"


def expected(steps: int) -> Expected:
    """What is there after that many steps."""
    result = Expected()
    for number in range(steps):
        base = number // 8
        match number % 8:
            case 0:
                result.t |= {base: number, base + 1: number + 1, 100 + base: 1}
            case 1:
                result.n += [number, number, number + 1]
            case 2:
                result.t |= {g: g * 5 for g in range(2, 10)}
            case 3:
                result.t[base] += 7
            case 5:
                result.t = {id: v + 1 if id > 3 else v for id, v in result.t.items()}
            case 7:
                result.n = [v for v in result.n if v >= number - 8]
    return result


# --- the child --------------------------------------------------------------------------------------------------


def borrowed_spark():
    """The session of the JVM that PYSPARK_GATEWAY_PORT leads to."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    gateway = launch_gateway()
    jsc = gateway.jvm.org.apache.spark.api.java.JavaSparkContext(
        gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    )
    context = SparkContext(gateway=gateway, jsc=jsc, conf=SparkConf(_jconf=jsc.getConf()))
    context._headrace_shipped = True  # the test's own engine has done so
    return SparkSession(context)


def run_steps(warehouse: str, first: int) -> None:
    import headrace
    from headrace.engine import maintenance, writes
    from headrace.state import store

    # Everything happens soon: bulk writes of a few rows, full manifests often, VACUUM at once.
    writes.SMALL_ROWS, store.FULL_EVERY, maintenance.GRACE_SECONDS = 5, 4, 0
    parameters = {"retention": "0s", "compaction": "false"}
    db = headrace.connect(warehouse, spark=borrowed_spark(), parameters=parameters)
    for definition in DEFINITIONS:
        db.sql(definition)
    say("ready")
    for number in range(first, first + 40):
        db.sql(step(number))
        say(f"ack {number}")
    os._exit(0)


def run_swarm(warehouse: str) -> None:
    import headrace

    db = headrace.connect(warehouse, parameters={"barrier_interval": "50ms"})
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, client INT, batch INT)")
    db.sql("CREATE TABLE counters (client INT PRIMARY KEY, batch INT)")
    db.sql("CREATE MATERIALIZED VIEW odd AS SELECT batch, client FROM t WHERE id % 2 = 1")

    def client(number: int) -> None:
        session = db.session()
        for batch in range(10_000):
            ids = [number * 1_000_000 + batch * 3 + offset for offset in range(3)]
            rows = ", ".join(f"({id}, {number}, {batch})" for id in ids)
            session.sql(f"INSERT INTO t VALUES {rows}")
            session.sql(f"INSERT INTO counters VALUES ({number}, {batch})")
            with printing:
                say(f"ack {number} {batch}")

    printing = threading.Lock()
    for number in range(4):
        threading.Thread(target=client, args=(number,)).start()


BACKFILL_ROWS, BACKFILL_CHUNK = 3000, 200


def run_backfill(warehouse: str) -> None:
    """Goes on with filling a view, and writes all the while; a chunk that was read or has landed is a line, too."""
    import headrace
    from headrace.engine.backfill import Backfills
    from headrace.engine.chunks import ChunkReader

    read_chunk, chunks_landed = ChunkReader.read, Backfills.landed

    def read(reader, *arguments, **options):
        found = read_chunk(reader, *arguments, **options)
        say(f"read {found.chunk.rows}")
        return found

    def landed(backfills, landings, **options):
        chunks_landed(backfills, landings, **options)
        say(f"landed {sum(landing.read.chunk.rows for landing in landings)}")

    ChunkReader.read, Backfills.landed = read, landed
    db = headrace.connect(warehouse, spark=borrowed_spark(), parameters={"compaction": "false"})
    if db.engine.committed.catalog.find("t") is None:
        db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql(
        f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {BACKFILL_ROWS}) AS x(g) WHERE (SELECT count(*) FROM t) = 0"
    )
    session = db.session()
    session.sql(f"SET background_ddl = true; SET backfill_pacing = {BACKFILL_CHUNK}")
    session.sql("CREATE MATERIALIZED VIEW IF NOT EXISTS m AS SELECT id, v FROM t WHERE v % 5 <> 4")
    say("ack create")
    number = 0
    while jobs := db.engine.jobs.list():
        say(f"progress {jobs[0]['rows_read']}")
        number += 1
        db.sql(f"UPDATE t SET v = v + 1 WHERE id % 50 = {number % 50}")
        say("ack update")
    os._exit(0)


def run_leave(warehouse: str) -> None:
    """Ends while views are being filled, without closing the warehouse, as scripts do. It does not end at once: a
    chunk takes as long as the engine goes on, so that this could go wrong if it did."""
    import headrace
    from headrace.engine.chunks import ChunkReader

    db = headrace.connect(warehouse, spark=borrowed_spark(), parameters={"compaction": "false"})
    read_chunk, deadline = ChunkReader.read, time.monotonic() + 30

    def engine_goes_on() -> bool:
        failed = any(job["error"] for job in db.engine.jobs.list())
        return not db.engine.backfills._stopping and not failed and time.monotonic() < deadline

    def read(reader, catalog, view, *arguments, **options):
        while view.name == "held" and engine_goes_on():
            time.sleep(0.01)
        return read_chunk(reader, catalog, view, *arguments, **options)

    ChunkReader.read = read
    db.sql("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql(f"INSERT INTO t SELECT g, 0 FROM generate_series(1, {BACKFILL_ROWS}) AS x(g)")
    session = db.session()
    session.sql("SET background_ddl = true; SET backfill_pacing = 5")
    for name in ("held", "m"):
        session.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT id, v FROM t WHERE v % 5 <> 4")
    while not db.job("m").progress().rows_read:
        time.sleep(0.01)


WINDOWS = [
    "CREATE TABLE IF NOT EXISTS e (minute INT, at TIMESTAMP, WATERMARK FOR at AS at - INTERVAL '1 minute') APPEND ONLY",
    "CREATE MATERIALIZED VIEW IF NOT EXISTS closed AS SELECT window_end, count(*) AS c, max(minute) AS m"
    " FROM TUMBLE(e, at, INTERVAL '5 minutes') GROUP BY window_end EMIT ON WINDOW CLOSE",
]


def minutes_of(batch: int) -> list[int]:
    """When the rows of a batch are from. The last is late, but for the first batch."""
    return [2 * batch, 2 * batch + 1, 2 * batch - 4]


def run_windows(warehouse: str, first: int) -> None:
    """Brings time forward, two minutes with each batch, and has merged what has closed."""
    import headrace

    db = headrace.connect(warehouse, spark=borrowed_spark(), parameters={"compaction": "false"})
    for definition in WINDOWS:
        db.sql(definition)
    say("ready")
    for batch in range(first, first + 40):
        rows = (
            f"({each}, TIMESTAMP '2026-01-01 01:00:00' + {each} * INTERVAL '1 minute')" for each in minutes_of(batch)
        )
        db.sql(f"INSERT INTO e VALUES {', '.join(rows)}")
        say(f"ack {batch}")
        if batch % 3 == 2:
            db.sql("COMPACT")
    os._exit(0)


if __name__ == "__main__":
    mode, warehouse, *rest = sys.argv[1:]
    if mode in ("steps", "windows"):
        {"steps": run_steps, "windows": run_windows}[mode](warehouse, int(rest[0]))
    else:
        {"swarm": run_swarm, "backfill": run_backfill, "leave": run_leave}[mode](warehouse)
