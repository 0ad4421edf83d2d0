"""Is INSERT … SELECT near Spark's own speed? 5 M rows into a table with a primary key against a plain Parquet write.

Ours also hashes, sorts by key, resolves duplicates and commits. At least 0.5 of the plain write's speed is wanted.
"""

from __future__ import annotations

from bench.common import ROWS, TABLE, PeakMemory, database, median, report, seconds
from headrace.engine.plans import query_frame
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query

COUNT = 5_000_000


def main() -> None:
    query = ROWS.format(first=1, last=COUNT)
    ours, plain = [], []
    with PeakMemory() as memory, database() as db:
        engine = db.engine
        for number in range(5):
            bound = bind_query(parse_query(query), engine.committed.catalog)
            frame, _ = query_frame(engine, engine.committed, bound)
            plain.append(seconds(lambda frame=frame, n=number: frame.write.parquet(engine.storage.uri(f"plain/{n}"))))
            db.sql(TABLE.format(name=f"t{number}"))
            ours.append(seconds(lambda n=number: db.sql(f"INSERT INTO t{n} {query}")))
            engine.storage.delete([f"plain/{number}"])
            db.sql(f"DROP TABLE t{number}")
    # The first round warms both up.
    mine, theirs = median(ours[1:]), median(plain[1:])
    report(
        "bulk_insert",
        f"INSERT … SELECT of 5 M rows took {mine:.1f} s, spark.write.parquet {theirs:.1f} s: {theirs / mine:.2f} of "
        f"its speed (at least 0.5); peak memory {memory.megabytes} MB",
        ratio=round(theirs / mine, 3), limit=0.5, ours_s=round(mine, 2), plain_s=round(theirs, 2),
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
