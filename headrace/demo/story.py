"""The story itself: write, create, pull the plug, open again, go on, verify."""

from __future__ import annotations

import json
import random
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.demo.books import Books, Filling, percentile
from headrace.demo.ledger import Ledger
from headrace.demo.process import DemoFailed, Process
from headrace.demo.screen import Screen
from headrace.demo.shop import CREATE, VIEWS, WRITERS
from headrace.engine.java import require_java
from headrace.serving.progress import DONE

CHUNKS = 6
"""So many make up the table. Left to itself the engine would take all of it at once, and there would be no middle."""

KILL_AT = 0.4

_PATIENCE = 180.0


def run(*, rows: int, keep: bool = False, seed: int | None = None, console: Console | None = None) -> int:
    """Plays the demo; 0 if everything was verified."""
    console = console or Console(highlight=False)
    require_java()
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    scratch = folder / "scratch"
    scratch.mkdir()
    books = Books(Ledger(rows))
    screen = Screen(console, books)
    story = Story(screen, books, folder, random.randrange(10**6) if seed is None else seed)
    try:
        if not story.play():
            return 1
        if keep:
            screen.say(f"The warehouse is kept. Look around: headrace sql -w {folder / 'warehouse'}")
        return 0
    except DemoFailed as failure:
        screen.stop_live()
        screen.say(f"✘ {failure}", style="red")
        return 1
    finally:
        screen.stop_live()
        shutil.rmtree(scratch if keep else folder, ignore_errors=True)


class Story:
    def __init__(self, screen: Screen, books: Books, folder: Path, seed: int):
        self._screen, self._books = screen, books
        self._warehouse, self._scratch = str(folder / "warehouse"), folder / "scratch"
        self._seed = seed
        self._marks: list[bool] = []
        self._checks: dict[str, dict[str, Any]] = {}
        self._copies: dict[str, float] = {}

    def play(self) -> bool:
        rows = self._books.ledger.history
        chunk = max(1, rows // CHUNKS)
        self._screen.say(f"1. An embedded engine, a table of {rows:,} rows, {WRITERS} writers (starting Spark …)")
        engine = Process("engine", self._warehouse, str(self._seed), str(rows), str(chunk), scratch=self._scratch)
        try:
            self._until(engine, "writing")
            self._screen.say(
                f"2. {len(VIEWS)} views and an index are created on it while the writers go on, "
                f"in chunks of {chunk:,} rows"
            )
            self._screen.start_live()
            victim = self._fill(engine)
        finally:
            engine.kill()
        while (message := engine.next(10.0)) is not None:  # what was acknowledged counts, even if it was not read yet
            self._books.record(message)
        self._books.killed()
        self._screen.stop_live()
        ledger = self._books.ledger
        self._screen.say(
            f"   {ledger.statements:,} statements acknowledged, {ledger.changes:,} rows written, "
            f"{len(ledger.pending)} statements still on their way; {self._books.fraction:.0%} is filled"
        )
        self._screen.say(f"3. The plug is pulled: kill -9 {engine.pid}, {victim}", style="bold red")
        return self._resume()

    def _until(self, process: Process, kind: str) -> None:
        while self._hear(process.expect(_PATIENCE))["is"] != kind:
            pass

    def _fill(self, engine: Process) -> str:
        """Until enough is filled and a statement is on its way; says which."""
        while True:
            message = self._hear(engine.expect(_PATIENCE))
            states = {each.look.state for each in self._books.fillings.values()}
            if "failed" in states:
                raise DemoFailed("a job failed: " + "; ".join(filter(None, (job["error"] for job in message["jobs"]))))
            if states == {DONE}:
                raise DemoFailed("everything was filled before the plug could be pulled: try more --rows")
            if message["is"] == "sent" and self._books.fraction >= KILL_AT:
                change = self._books.ledger.pending[message["writer"]]
                return f"in the middle of an {change.kind} of {change.size} rows".replace("an D", "a D")

    def _resume(self) -> bool:
        path = self._scratch / "ledger.json"
        path.write_text(json.dumps(self._books.ledger.to_json()))
        self._screen.say("4. Another engine opens what is left, and goes on (starting Spark …)")
        second = Process(
            "resume", self._warehouse, str(self._seed), str(path), str(self._scratch), scratch=self._scratch
        )
        self._books.ledger.pending.clear()  # whether they are there or not is for the second engine to say
        try:
            while (message := second.next(_PATIENCE)) is not None:
                self._hear(message)
        finally:
            second.kill()
            self._screen.stop_live()
        return self._judge(second.status)

    def _hear(self, message: dict[str, Any]) -> dict[str, Any]:
        change = self._books.record(message)
        if change is not None:
            sql = change.sql if len(change.sql) <= 70 else change.sql[:69] + "…"
            self._screen.change(f"{change.size:>4} rows  {message['ms']:>5.0f} ms  {sql}")
        kind = message["is"]
        if kind in ("did", "created"):
            sql = message["sql"] if len(message["sql"]) <= 110 else message["sql"][:109] + "…"
            self._screen.say(f"   {sql}  ({message['ms']:.0f} ms)", style="dim")
        elif kind == "status":
            self._screen.status(message)
        elif kind == "open" and "jobs" in message:
            self._reopened(message)
        elif kind == "resumed":
            self._screen.start_live()
        elif kind == "filled":
            self._books.filled()
            self._screen.stop_live()
            self._screen.say("5. Everything is filled and the writers stop. Is it right?")
        elif kind == "table":
            text = f"orders: {message['rows']:,} rows, what was acknowledged is there, once and whole"
            if message["problems"]:
                text = f"orders: {message['rows']:,} rows, {'; '.join(message['problems'])}"
            self._mark(not message["problems"], text)
        elif kind == "check":
            self._checks[message["name"]] = message
        elif kind == "copied":
            self._copies[message["name"]] = message["ms"] / 1000
        return message

    def _reopened(self, message: dict[str, Any]) -> None:
        self._books.reopened(message["jobs"])
        fillings = self._books.fillings.values()
        self._mark(True, f"open at epoch {message['epoch']}, {message['seconds']:.1f} s with Spark's start")
        self._screen.say(
            f"   {sum(each.saved for each in fillings):,} rows were read and their positions saved; "
            f"at least {sum(each.again for each in fillings):,} were on their way and are read again"
        )
        for name, each in self._books.fillings.items():
            self._screen.say(f"     {name:<8} {each.saved:>9,} saved {each.again:>9,} again", style="dim")

    def _mark(self, good: bool, text: str) -> None:
        self._marks.append(good)
        self._screen.say(f"   {'✔' if good else '✘'} {text}", style="green" if good else "bold red")

    def _judge(self, status: int) -> bool:
        for name, filling in self._books.fillings.items():
            check = self._checks.get(name)
            self._mark(*verdict(name, filling, check, self._copies.get(name)))
        self._screen.say(
            f"   rows/s: of the table, over both lives, {len(CREATE)} at once, in chunks small enough for a middle.\n"
            "   Offline: Spark copies the same queries, all at once, and nobody writes.\n"
            "   INSERT: from sending it until it is committed and visible in all views; before the first CREATE "
            f"p95 {percentile(self._books.before, 0.95):.2f} s.",
            style="dim",
        )
        if all(self._marks) and len(self._marks) == len(CREATE) + 3 and status == 0:
            self._screen.say("Nothing acknowledged is lost, and all that was filled is right.", style="bold green")
            return True
        self._screen.say("The verification FAILED.", style="bold red")
        return False


def verdict(name: str, filling: Filling, check: dict[str, Any] | None, copy_seconds: float | None) -> tuple[bool, str]:
    """A mark and a line for a view or an index."""
    if check is None:
        return False, f"{name}: was not checked"
    if not check["equal"]:
        return False, f"{name}: is not what its query answers: {'; '.join(check['lines'])}"
    if (said := re.fullmatch(r"equal, (\d+) rows at epoch (\d+)", check["lines"][0])) is None:
        return False, f"{name}: {check['lines'][0]}"
    text = f"{name:<8} equals its batch query at epoch {said[2]}, {int(said[1]):,} rows"
    rate = filling.rows_per_second
    text += f"; {rate:,.0f} rows/s"
    if copy_seconds and filling.look.rows_total:
        text += f", {rate * copy_seconds / filling.look.rows_total:.2f} of offline"
    return True, f"{text}; INSERT p95 {percentile(filling.waits, 0.95):.2f} s"
