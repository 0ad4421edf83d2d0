"""What all benchmarks share: a throw-away warehouse, timing, peak memory, and one way to report.

Each benchmark prints a readable line and a JSON line. The figure that counts is a *ratio taken in one run*: machines
are noisy, and both sides of a ratio meet the same noise.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

import headrace
from headrace.database import Database

ROWS = """
    SELECT g AS id, g::bigint * 7919 % 100003 AS customer, 'product number ' || (g % 5003) AS product,
           (g % 10000)::numeric(10,2) AS price, (g % 77)::int AS qty, 'note ' || g || ' about something' AS note
    FROM generate_series({first}, {last}) AS g
"""
TABLE = """
    CREATE TABLE {name}
      (id BIGINT PRIMARY KEY, customer BIGINT, product VARCHAR, price NUMERIC(10,2), qty INT, note VARCHAR)
"""


@contextmanager
def database(**parameters: str) -> Iterator[Database]:
    folder = tempfile.mkdtemp(prefix="headrace-bench-")
    try:
        with headrace.connect(f"{folder}/warehouse", driver_memory="4g", parameters=parameters) as db:
            yield db
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def filled_table(db: Database, name: str, rows: int) -> None:
    db.sql(TABLE.format(name=name))
    db.sql(f"INSERT INTO {name} {ROWS.format(first=1, last=rows)}")


def seconds(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def interleaved(actions: dict[str, Callable[[], Any]], *, rounds: int, warm_up: int = 2) -> dict[str, list[float]]:
    """Each action in turn, round after round, so that a slow moment of the machine hits all of them."""
    for _ in range(warm_up):
        for action in actions.values():
            action()
    times: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, action in actions.items():
            times[name].append(seconds(action))
    return times


def median(values: list[float]) -> float:
    return statistics.median(values)


class Writer:
    """1,000 changes each second to a table of :func:`filled_table`: 600 new keys, 300 of the newest overwritten, and
    100 anywhere."""

    def __init__(self, db: Database, table: str, rows: int, *, warm_up: int = 3):
        self._db, self._table, self._next = db, table, rows + 1
        self._random = random.Random(1)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.seconds: list[float] = []
        """From asking to acknowledged, of every batch."""
        for _ in range(warm_up):
            self._batch()

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stop.is_set():
            took = seconds(self._batch)
            self.seconds.append(took)
            self._stop.wait(max(0.0, 1 - took))

    def _batch(self) -> None:
        anywhere = {self._random.randrange(1, self._next - 300) for _ in range(100)}
        keys = [*anywhere, *range(self._next - 300, self._next + 600)]
        self._next += 600
        numbers = pa.array([key % 77 for key in keys], pa.int32())
        columns = {"id": pa.array(keys, pa.int64()), "qty": numbers, "product": ["changed"] * len(keys)}
        self._db.insert(self._table, pa.table(columns))


def p95(values: list[float]) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * 0.95))]


class PeakMemory:
    """The largest resident memory of this process and its children (the JVM, the Python workers), sampled."""

    peak = 0

    def __enter__(self) -> PeakMemory:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        pause = 0.2
        while not self._stop.wait(pause):
            begun = time.perf_counter()
            self.peak = max(self.peak, resident_bytes())
            # The kernel walks through all pages of all of them, which holds them up: a twentieth of the time at most.
            pause = max(0.2, 20 * (time.perf_counter() - begun))

    @property
    def megabytes(self) -> int:
        return self.peak >> 20


def resident_bytes(root: int | None = None, *, leave_out: str = "") -> int:
    """Of a process (this one) and its children; those of a name can be left out."""
    root = os.getpid() if root is None else root
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            children.setdefault(parent, []).append(int(entry.name))
    total, pending = 0, [root]
    while pending:
        process = pending.pop()
        pending += children.get(process, [])
        try:
            if leave_out and (Path("/proc") / str(process) / "comm").read_text().strip() == leave_out:
                continue
            # Shared pages count in proportion: Python workers are forked and share most of theirs.
            for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) << 10
        except OSError:
            continue
    return total


def report(name: str, sentence: str, **figures: Any) -> None:
    print(f"{name}: {sentence}", file=sys.stderr)
    print(json.dumps({"benchmark": name, **figures}))
    sys.stdout.flush()
