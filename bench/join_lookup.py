"""Does a join cost what changes, and not what it is joined with? 1,000 changes against 1 M and against 20 M rows.

Each change is a new row of a small table that finds one row of the large one, by the large one's key. The ratio should
be at most 2. ``python -m bench.join_lookup 1 5`` measures with other millions of rows.
"""

from __future__ import annotations

import random
import sys

import pyarrow as pa

from bench.common import PeakMemory, database, filled_table, interleaved, median, report

MILLIONS = (1, 20)
CHANGES = 1_000


class Visits:
    """Rows that refer to rows of the large table, anywhere in it."""

    def __init__(self, table: str, others: int):
        self.table, self._others, self._next = table, others, 1
        self._random = random.Random(1)

    def batch(self) -> pa.Table:
        ids = range(self._next, self._next + CHANGES)
        self._next += CHANGES
        other = [self._random.randint(1, self._others) for _ in ids]
        return pa.table({"id": pa.array(ids, pa.int64()), "other": pa.array(other, pa.int64())})


def main() -> None:
    few, many = [int(each) for each in sys.argv[1:]] or MILLIONS
    with PeakMemory() as memory, database() as db:
        actions = {}
        for name, rows in (("small", few * 1_000_000), ("large", many * 1_000_000)):
            filled_table(db, f"t{name}", rows)
            db.sql(f"CREATE TABLE v{name} (id BIGINT PRIMARY KEY, other BIGINT)")
            db.sql(
                f"CREATE MATERIALIZED VIEW j{name} WITH (refresh = 'incremental') AS"
                f" SELECT v.id, t.product, t.price FROM v{name} AS v JOIN t{name} AS t ON v.other = t.id"
            )
            visits = Visits(f"v{name}", rows)
            actions[name] = lambda visits=visits: db.insert(visits.table, visits.batch())
        times = interleaved(actions, rounds=15, warm_up=4)
    small, large = median(times["small"]), median(times["large"])
    report(
        "join_lookup",
        f"an epoch of {CHANGES:,} changes took {small * 1000:.0f} ms against {few} M rows, {large * 1000:.0f} ms"
        f" against {many} M rows: ratio {large / small:.2f} (at most 2); peak memory {memory.megabytes} MB",
        ratio=round(large / small, 3), limit=2.0, small_ms=round(small * 1000), large_ms=round(large * 1000),
        peak_memory_mb=memory.megabytes,
    )  # fmt: skip


if __name__ == "__main__":
    main()
