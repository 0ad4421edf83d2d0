"""Traces of operators: statements, and below each of them the changes that its epoch made to tables and views.

    CREATE TABLE t (id INT PRIMARY KEY, k INT)
    CREATE MATERIALIZED VIEW counts AS SELECT k, count(*) AS c FROM t GROUP BY k
    INSERT INTO t VALUES (1, 7)
      t      + 1 7
      counts + 7 1

A line that is indented is an answer: ``make traces-update`` rewrites it. One that begins with ``#`` is for the reader.
Each statement is a line; views are made together, before the first statement that is none. ``clock 00:05`` is none: it
is the time from then on, of 2026-01-01 at which every trace begins, and what it changes is seen below it.
"""

from __future__ import annotations

import datetime
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa

from headrace.catalog import MATERIALIZED_VIEW, TABLE
from headrace.engine import moments
from headrace.errors import HeadraceError
from headrace.state.files import open_parquet
from headrace.state.layout import Layout
from headrace.state.runs import WEIGHT
from tests.support.waiting import eventually

TRACES = Path(__file__).parent / "traces"
SIGNS = {1: "+", -1: "-"}
DAY = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Clock:
    """What ``now()`` is, for conditions that follow it."""

    def __init__(self) -> None:
        self.now = DAY

    def __call__(self) -> int:
        return int(self.now.timestamp() * 1_000_000)

    def set(self, database, time: str) -> None:
        """Waits until all views stand at that time: their epochs come by themselves."""
        hours, minutes = map(int, time.split(":"))
        self.now = DAY + datetime.timedelta(hours=hours, minutes=minutes)

        def has_followed() -> bool:
            database.sql("FLUSH")  # wakes the loop, which has slept by another clock
            return database.engine.evaluator.keyed.due_in(database.engine.committed) > 0

        eventually(has_followed)


def run(database, text: str) -> str:
    """The text with the answers that the database gives."""
    clock = Clock()
    with mock.patch.object(moments, "read_clock", clock):
        return _run(database, text, clock)


def _run(database, text: str, clock: Clock) -> str:
    found: list[str] = []
    shown: list[str] = []
    making = False
    database.sql("SET background_ddl = true")
    for line in (line for line in text.splitlines() if not line.startswith("  ")):
        found.append(line)
        if not line or line.startswith("#"):
            continue
        words = line.split()
        if words[0] == "CREATE":
            shown.append(words[words.index("TABLE" if words[1] == "TABLE" else "VIEW") + 1])
            database.sql(line)
            making = True
            continue
        if making:
            database.sql("WAIT")
            making = False
        before = database.engine.committed.epoch
        try:
            if words[0] == "clock":
                clock.set(database, words[1])
            else:
                database.sql(line)
        except HeadraceError as error:
            found.append(f"  {error.message}")
        width = max(map(len, shown))
        found += [f"  {name:{width}} {change}" for name in shown for change in _changes(database.engine, name, before)]
    catalog = database.engine.committed.catalog
    for name in [name for name in shown if catalog.get(name).kind == TABLE]:
        database.sql(f"DROP TABLE {name} CASCADE")
    return "\n".join(found) + "\n"


def _changes(engine, name: str, since: int) -> list[str]:
    """What was written to a relation after an epoch: what goes, then what comes, of each key."""
    manifest = engine.committed
    relation = manifest.catalog.get(name)
    assert relation.kind in (TABLE, MATERIALIZED_VIEW)
    layout = Layout.of(relation)
    lines = []
    for run in (run for run in manifest.runs.get(relation.id, ()) if run.first_epoch > since):
        tables = [layout.stored_schema.empty_table()]
        for file in run.files:
            with open_parquet(engine.storage.files, file.path) as parquet:
                tables.append(layout.stored(parquet.read()))
        rows = pa.concat_tables(tables)
        values = zip(*(rows[column.name].to_pylist() for column in relation.visible_columns), strict=True)
        for weight, row in zip(rows[WEIGHT].to_pylist(), values, strict=True):
            lines.append((" ".join(map(_text, row)), weight))
    return [f"{SIGNS[weight]} {row}" for row, weight in sorted(lines, key=lambda each: (each[1], each[0]))]


def _text(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, list):
        return f"{{{','.join(map(_text, value))}}}"
    if hasattr(value, "isoformat"):
        return value.isoformat(" ").replace("2026-01-01 ", "").removesuffix("+00:00")
    if hasattr(value, "as_tuple"):  # a number with many zeros
        return f"{value.normalize():f}"
    return str(value)


def main(*, update: bool, write: Callable[[str], object] = print) -> int:
    import headrace
    from tests.support.spark import start_spark

    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        spark = start_spark(Path(folder))
        with headrace.connect(f"{folder}/warehouse", spark=spark, parameters={"barrier_interval": "50ms"}) as database:
            for path in sorted(TRACES.glob("*.trace")):
                text = path.read_text(encoding="utf-8")
                answer = run(database, text)
                if answer != text:
                    wrong += 1
                    write(f"{path.name} {'rewritten' if update else 'differs'}")
                    if update:
                        path.write_text(answer, encoding="utf-8")
        spark.stop()
    return 0 if update or not wrong else 1


if __name__ == "__main__":
    sys.exit(main(update="--update" in sys.argv))
