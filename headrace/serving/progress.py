"""How far a job is, for people: as figures, as a line, as a bar."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

DONE, CANCELLED = "done", "cancelled"

LOOK_EVERY = 0.2
"""Seconds between two looks at the jobs behind a bar; a look reads what is in memory anyway."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """One look at a job."""

    state: str
    """running, paused, failed, waiting for the first checkpoint; done or cancelled when it is no more."""
    fraction: float = 0.0
    """0 to 1, and 1 only if it is done and committed."""
    rows_read: int = 0
    """Rows of its inputs that are in it, committed."""
    rows_total: int = 0
    """Those and what is still to be read, as last estimated."""
    rows_per_second: float | None = None
    """Over the last chunks; None before the second one."""
    seconds_left: float | None = None
    splits_done: int | None = None
    """Of a source's table: ranges of keys that were read; None for views and indexes, like all below"""
    splits_total: int | None = None
    """Those and what is still to be read, as last estimated"""
    lag_bytes: int | None = None
    """How much of its source's log is not in its tables yet"""
    lag_seconds: float | None = None
    """How old what is in them is"""

    @staticmethod
    def of(job: Mapping[str, Any]) -> Progress:
        """What is said about a job; whoever says it may leave out what is None for all that it knows."""
        return Progress(**{name: job[name] for name in Progress.__dataclass_fields__ if name in job})

    @property
    def over(self) -> bool:
        return self.state in (DONE, CANCELLED)


def create_type(job: Mapping[str, Any]) -> str | None:
    """Whether a client waits for the job, or did when it began, in RisingWave's words; None: nobody knows."""
    return {True: "BACKGROUND", False: "FOREGROUND", None: None}[job["background"]]


class Watched(Protocol):
    """A job as bars need it: :class:`headrace.serving.jobs.JobHandle` is one."""

    name: str

    def progress(self) -> Progress: ...


def describe(progress: Progress) -> str:
    """
    >>> describe(Progress(state="running", fraction=0.25, rows_read=500, rows_total=2000, rows_per_second=99.6,
    ...                   seconds_left=15.06))
    '25% 500/2,000 rows 100 rows/s 15 s left'
    >>> describe(Progress(state="paused", rows_total=2000))
    '0% 0/2,000 rows paused'
    """
    parts = [f"{int(progress.fraction * 100)}%", f"{progress.rows_read:,}/{progress.rows_total:,} rows"]
    if progress.state != "running":
        parts.append(progress.state)
    elif progress.rows_per_second is not None:
        parts.append(f"{progress.rows_per_second:,.0f} rows/s")
    if progress.seconds_left is not None:
        parts.append(f"{duration(progress.seconds_left)} left")
    return " ".join(parts)


def duration(seconds: float) -> str:
    """
    >>> duration(7.4), duration(75), duration(7322)
    ('7 s', '1:15', '2:02:02')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def bars(looks: Iterable[tuple[str, Progress]]) -> Table:
    """A bar for each job: name, bar, percent, rows, speed and time left."""
    from rich.progress_bar import ProgressBar
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(width=30)
    for _ in range(4):
        table.add_column(justify="right", no_wrap=True)
    for name, progress in looks:
        rate, left = progress.rows_per_second, progress.seconds_left
        speed = "" if rate is None else f"{rate:,.0f} rows/s"
        table.add_row(
            name,
            ProgressBar(total=1.0, completed=progress.fraction, width=30),
            f"{int(progress.fraction * 100)}%",
            f"{progress.rows_read:,}/{progress.rows_total:,} rows",
            speed if progress.state in ("running", DONE) else progress.state,
            "" if left is None else f"{duration(left)} left",
        )
    return table


@contextmanager
def watching(jobs: Callable[[], Iterable[Watched]], console: Console, *, every: float = LOOK_EVERY):
    """Bars of the jobs, for as long as the block runs; gone afterwards. Without jobs nothing is shown.

    The block keeps its thread, so that Ctrl-C reaches it: a thread of its own looks and draws.
    """
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(jobs, console, over, every), name="headrace-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _watch(jobs: Callable[[], Iterable[Watched]], console: Console, over: threading.Event, every: float) -> None:
    from rich.live import Live

    live: Any = None
    try:
        while not over.wait(every):
            looks = [(job.name, job.progress()) for job in jobs()]
            if live is None:
                if not looks:
                    continue  # what is over at once is not worth a flicker
                live = Live(console=console, transient=True, auto_refresh=False)
                live.start()
            live.update(bars(looks), refresh=True)
    except Exception:  # a bar that cannot be drawn must not be in the way of the statement
        pass
    finally:
        if live is not None:
            live.stop()
