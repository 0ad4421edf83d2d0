"""Jobs of a server for Python: what is asked of them is SQL, and what is answered is read by the columns' names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.catalog import INDEX, MATERIALIZED_VIEW
from headrace.errors import JobCancelled, QueryCancelled, UndefinedJob
from headrace.serving.progress import CANCELLED, DONE, Progress
from headrace.sql.text import quoted_string
from headrace.types import quote_sql

if TYPE_CHECKING:
    from headrace.remote.session import RemoteSession

Open = Callable[[], "RemoteSession"]
"""Another connection, for what waits"""


class RemoteJob:
    """As :class:`headrace.serving.jobs.JobHandle`: what is being filled, or was."""

    def __init__(self, asking: RemoteSession, open: Open, id: int, name: str, statement: str):
        self._asking, self._open = asking, open
        self.id = id
        self.name = name
        self.statement = statement
        self._last = Progress(state=DONE)
        self.progress()

    def progress(self) -> Progress:
        """One look, which asks the server. A job that is over keeps the row counts of the last look."""
        found = self._line()
        if found is not None:
            self._last = _progress(found)
        else:
            done = name_of(self._asking, self.id) is not None
            self._last = Progress(
                state=DONE if done else CANCELLED,
                fraction=1.0 if done else self._last.fraction,
                rows_read=self._last.rows_total if done else self._last.rows_read,
                rows_total=self._last.rows_total,
            )
        return self._last

    @property
    def error(self) -> str | None:
        """Why it failed, if it did."""
        found = self._line()
        return None if found is None else found["Error"]

    def _line(self) -> Mapping[str, Any] | None:
        try:
            return by_name(self._asking, f"SHOW JOB {self.id}")[0]
        except UndefinedJob:
            return None

    def wait(self, timeout: float | None = None) -> None:
        """Until it is done and committed; the job's error if it failed or was cancelled, TimeoutError after so many
        seconds. The job goes on after a timeout."""
        name = name_of(self._asking, self.id)
        if name is None:
            raise JobCancelled(f"job {self.id} was cancelled")
        waiting = self._open()
        try:
            if timeout is not None:
                waiting.ask(f"SET statement_timeout = {max(1, round(timeout * 1000))}")
            waiting.ask(f"WAIT {quote_sql(name)}")
        except QueryCancelled:
            raise TimeoutError(f'"{self.name}" is not filled after {timeout} s') from None
        finally:
            waiting.close()

    def cancel(self) -> bool:
        """Gives the job up and drops what it was filling; False if it was over already."""
        return (self.id,) in self._asking.ask(f"CANCEL JOB {self.id}").rows()

    def pause(self) -> None:
        self._asking.ask(f"PAUSE JOB {self.id}")

    def resume(self) -> None:
        """After a pause from where it was; after a failure from the beginning."""
        self._asking.ask(f"RESUME JOB {self.id}")

    def __repr__(self) -> str:
        return f"<job {self.id}: {self.name}, {self._last.state}, {self._last.fraction:.0%}>"


def running_jobs(asking: RemoteSession, open: Open) -> list[RemoteJob]:
    jobs = by_name(asking, "SHOW JOBS")
    names = _names(asking, [job["Id"] for job in jobs])
    # One that ended between the two questions is not running any more.
    return [
        RemoteJob(asking, open, job["Id"], names[job["Id"]], job["Statement"]) for job in jobs if job["Id"] in names
    ]


def find_job(asking: RemoteSession, open: Open, name_or_id: str | int) -> RemoteJob:
    by_id = isinstance(name_or_id, int)
    which = f"id = {name_or_id}" if by_id else f"name = {quoted_string(name_or_id)}"
    query = f"SELECT id, name, relation_type, definition FROM rw_catalog.rw_relations WHERE {which}"
    running = {job["Id"] for job in by_name(asking, "SHOW JOBS")}
    for id, name, kind, definition in asking.ask(query).rows():
        if kind not in (MATERIALIZED_VIEW, INDEX) and id not in running:
            asking.ask(f"WAIT {quote_sql(name)}")  # for nothing; the server says so if it is none that is ever filled
        return RemoteJob(asking, open, id, name, definition or "")
    if not by_id:
        asking.ask(f"DESCRIBE {quote_sql(name_or_id)}")  # the server says what it says of names that there are not
    raise UndefinedJob(f"there is no job {name_or_id}", hint="SHOW JOBS lists them")


def name_of(asking: RemoteSession, id: int) -> str | None:
    return _names(asking, [id]).get(id)


def _names(asking: RemoteSession, ids: list[int]) -> dict[int, str]:
    if not ids:
        return {}
    listed = ", ".join(map(str, ids))
    return dict(asking.ask(f"SELECT id, name FROM rw_catalog.rw_relations WHERE id IN ({listed})").rows())


def by_name(asking: RemoteSession, statement: str) -> list[dict[str, Any]]:
    """Rows with their columns' names, of which there may be more some day, in another order."""
    result = asking.ask(statement)
    return [dict(zip(result.columns, row, strict=True)) for row in result.rows()]


def _progress(line: Mapping[str, Any]) -> Progress:
    done, _, total = (line["Splits"] or "").partition("/")
    return Progress(
        state=line["State"],
        fraction=float(line["Progress"].rstrip("%")) / 100,
        rows_read=line["Rows"] or 0,
        rows_total=line["Total Rows"] or 0,
        rows_per_second=line["Rows/s"],
        seconds_left=None if line["Time Left"] is None else _seconds(line["Time Left"]),
        splits_done=int(done) if done else None,
        splits_total=int(total) if total else None,
        lag_bytes=line["Lag Bytes"],
        lag_seconds=None if line["Lag"] is None else float(line["Lag"].removesuffix(" s")),
    )


def _seconds(text: str) -> float:
    """
    >>> _seconds("0:01:15"), _seconds("2 days, 1:00:00")
    (75.0, 176400.0)
    """
    days, hours, minutes, seconds = re.fullmatch(r"(?:(\d+) days?, )?(\d+):(\d+):(\d+)", text).groups()
    return float(int(days or 0) * 86_400 + int(hours) * 3600 + int(minutes) * 60 + int(seconds))
