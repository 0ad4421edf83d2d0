"""Bars while something is filled: in a terminal and nowhere else."""

from __future__ import annotations

import io
import re
import threading

import pytest
from rich.console import Console

from headrace import cli
from headrace.serving.progress import Progress, bars, watching
from headrace.shell import Interrupted, Shell, interact
from tests.support.fake_database import FakeDatabase, FakeResult

RUNNING = Progress(
    state="running", fraction=0.25, rows_read=500, rows_total=2000, rows_per_second=99.6, seconds_left=15.06
)
CREATE = "CREATE MATERIALIZED VIEW m AS SELECT id FROM t"


class FakeJob:
    def __init__(self, name: str, progress: Progress = RUNNING):
        self.name, self._progress = name, progress

    def progress(self) -> Progress:
        return self._progress


class Slow(FakeDatabase):
    """A statement takes until somebody has looked at the jobs three times, and may be interrupted then."""

    def __init__(self, *jobs: FakeJob, interrupted: bool = False, **options):
        super().__init__(**options)
        self._jobs, self._interrupted = jobs, interrupted
        self.looks = 0
        self.looked = threading.Event()

    def jobs(self) -> list[FakeJob]:
        self.looks += 1
        if self.looks == 3:
            self.looked.set()
        return list(self._jobs)

    def sql(self, text: str) -> FakeResult:
        if text != "FLUSH" and self._jobs:
            self.looked.wait(10)
        if self._interrupted:
            raise KeyboardInterrupt
        return super().sql(text)


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def drawn(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


def in_terminal(database: FakeDatabase, **options) -> tuple[Shell, Tty]:
    out = Tty()
    return Shell(database, out=out, err=io.StringIO(), **options), out


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)


def test_a_bar_says_rows_rate_time_and_percent():
    console = Console(file=io.StringIO(), width=120, record=True)
    console.print(bars([("m", RUNNING), ("other", Progress(state="paused", rows_total=9))]))
    first, second = console.export_text().splitlines()
    for part in ("m", "25%", "500/2,000 rows", "100 rows/s", "15 s left"):
        assert part in first
    assert "paused" in second and "0/9 rows" in second


@pytest.mark.parametrize("statement", [CREATE, "CREATE INDEX m ON t (id)", "WAIT m", "WAIT"])
def test_a_terminal_shows_the_job_while_it_waits_and_nothing_of_it_afterwards(statement):
    shell, out = in_terminal(Slow(FakeJob("m"), FakeJob("another")))
    shell.run(statement)
    assert "500/2,000 rows" in drawn(out.getvalue())
    assert ("another" in out.getvalue()) == (statement == "WAIT")
    assert out.getvalue().endswith("OK\n")
    assert "\x1b[2K" in out.getvalue(), "the bar was erased"


def test_a_pipe_gets_none_of_it():
    database, out = Slow(FakeJob("m")), io.StringIO()
    database.looked.set()
    Shell(database, out=out, err=io.StringIO()).run(CREATE)
    assert (out.getvalue(), database.looks) == ("OK\n", 0)


def test_other_statements_and_quick_ones_draw_nothing():
    shell, out = in_terminal(Slow())
    for statement in ("FLUSH", CREATE, "CREATE TABLE t (id INT)", "CREATE nonsense"):
        shell.run(statement)
    assert out.getvalue() == "OK\n" * 4


def test_a_job_that_cannot_be_looked_at_does_not_stop_the_statement():
    class Broken(FakeJob):
        def progress(self) -> Progress:
            raise RuntimeError("closed")

    out = io.StringIO()
    with watching(lambda: [Broken("m")], Console(file=out), every=0.001):
        pass
    assert out.getvalue() == ""


def test_ctrl_c_says_what_became_of_it():
    shell, _ = in_terminal(Slow(FakeJob("m"), interrupted=True))
    with pytest.raises(Interrupted, match='cancelled: materialized view "m" was not created'):
        shell.run(CREATE)
    with pytest.raises(Interrupted, match="goes on"):
        shell.run("WAIT m")
    made = Slow(FakeJob("m"), interrupted=True, relations=({"name": "m", "kind": "materialized view", "rows": 3},))
    with pytest.raises(Interrupted, match="too late"):
        in_terminal(made)[0].run(CREATE)


def test_the_prompt_goes_on_after_ctrl_c(monkeypatch):
    shell, out = in_terminal(Slow(interrupted=True), interactive=True)
    lines = iter([CREATE + ";", "\\timing", "\\q"])

    class Prompt:
        def prompt(self) -> str:
            return next(lines)

    monkeypatch.setattr("headrace.shell._prompt_session", lambda _: Prompt())
    interact(shell)
    assert shell.err.getvalue() == 'cancelled: materialized view "m" was not created\n'
    assert out.getvalue() == "Timing is on.\n"


def test_a_script_ends_after_ctrl_c_and_says_so(monkeypatch, capsys):
    import headrace

    monkeypatch.setattr(headrace, "connect", lambda *_, **__: Slow(interrupted=True), raising=False)
    monkeypatch.setattr("signal.signal", lambda *_: None)
    assert cli.main(["sql", "-c", CREATE]) == 130
    assert capsys.readouterr().err == 'cancelled: materialized view "m" was not created\n'
