"""The story itself: start, write, pull the plug, open again, verify."""

from __future__ import annotations

import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console

from headrace.demo.ledger import Ledger
from headrace.demo.screen import Screen
from headrace.demo.shop import VIEWS, WRITERS, Change
from headrace.demo.wire import hear
from headrace.engine.java import require_java

_START_PATIENCE = 120.0
_VERIFY_PATIENCE = 180.0


class DemoFailed(Exception):
    pass


class Process:
    """A child and what it reports. It leads a process group of its own, so that its JVM dies with it."""

    def __init__(self, module: str, *arguments: str, scratch: Path):
        self._log = scratch / f"{module}.log"
        environment = os.environ | {
            # Everything that a killed JVM leaves behind goes into the demo's own folder.
            "SPARK_LOCAL_DIRS": str(scratch),
            "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData",
            "PYTHONUNBUFFERED": "1",
        }
        with self._log.open("w") as log:
            self._child = subprocess.Popen(
                [sys.executable, "-m", f"headrace.demo.{module}", *arguments],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, env=environment,
                start_new_session=True,
            )  # fmt: skip
        self._messages: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        threading.Thread(target=self._listen, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._child.pid

    def _listen(self) -> None:
        for line in self._child.stdout:
            if (message := hear(line)) is not None:
                self._messages.put(message)
        self._messages.put(None)

    def next(self, patience: float) -> dict[str, Any] | None:
        """The next report; None when the process has ended, and all it said was heard."""
        try:
            message = self._messages.get(timeout=max(patience, 0.0))
        except queue.Empty:
            raise DemoFailed(f"nothing was heard for {patience:.0f} s\n{self._tail()}") from None
        if message is None:
            self._child.wait()
        elif message["is"] == "failed":
            raise DemoFailed(f"{message['why']}\n{message['sql']}".rstrip())
        return message

    def expect(self, patience: float) -> dict[str, Any]:
        message = self.next(patience)
        if message is None:
            raise DemoFailed(f"the process ended with status {self._child.returncode}\n{self._tail()}")
        return message

    def kill(self) -> None:
        try:
            os.killpg(self._child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._child.wait()

    def _tail(self) -> str:
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-15:])


def run(*, seconds: float = 15, keep: bool = False, seed: int | None = None, console: Console | None = None) -> int:
    """Plays the demo; 0 if everything was verified."""
    console = console or Console(highlight=False)
    require_java()
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    scratch = folder / "scratch"
    scratch.mkdir()
    ledger = Ledger()
    screen = Screen(console, ledger)
    try:
        if not _play(screen, ledger, folder, scratch, seconds, random.randrange(10**6) if seed is None else seed):
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


def _play(screen: Screen, ledger: Ledger, folder: Path, scratch: Path, seconds: float, seed: int) -> bool:
    warehouse = str(folder / "warehouse")
    screen.say(f"1. An embedded engine, {WRITERS} writers, {len(VIEWS)} materialized views (starting Spark …)")
    engine = Process("engine", warehouse, str(seed), scratch=scratch)
    try:
        _set_up(engine, screen)
        screen.say(f"2. {seconds:.0f} seconds of INSERT, UPDATE and DELETE; every view follows in the same epoch")
        screen.start_live()
        victim = _write(engine, ledger, screen, seconds)
    finally:
        engine.kill()
    _drain(engine, ledger)
    screen.stop_live()
    screen.say(
        f"   {ledger.statements:,} statements acknowledged, {ledger.changes:,} rows written, "
        f"{len(ledger.pending)} statements still on their way"
    )
    screen.say(f"3. The plug is pulled: kill -9 {engine.pid}, {victim}", style="bold red")
    return _verify(screen, ledger, folder, scratch, warehouse)


def _set_up(engine: Process, screen: Screen) -> None:
    while (message := engine.expect(_START_PATIENCE))["is"] != "ready":
        if message["is"] == "did":
            sql = message["sql"] if len(message["sql"]) <= 110 else message["sql"][:109] + "…"
            screen.say(f"   {sql}  ({message['ms']:.0f} ms)", style="dim")


def _write(engine: Process, ledger: Ledger, screen: Screen, seconds: float) -> str:
    """Keeps the books until the time is over and a statement is on its way; says which."""
    deadline = time.monotonic() + seconds
    while True:
        message = engine.expect(_START_PATIENCE)
        _record(message, ledger, screen)
        if message["is"] == "status":
            screen.status(message["status"])
        if message["is"] == "sent" and time.monotonic() >= deadline and ledger.statements:
            change = ledger.pending[message["writer"]]
            return f"in the middle of an {change.kind} of {change.size} rows".replace("an D", "a D")


def _drain(engine: Process, ledger: Ledger) -> None:
    """What was acknowledged before the plug was pulled counts, even if it was not read until now."""
    while (message := engine.next(10.0)) is not None:
        _record(message, ledger, None)


def _record(message: dict[str, Any], ledger: Ledger, screen: Screen | None) -> None:
    if message["is"] == "sent":
        ledger.sent(message["writer"], Change.from_json(message["change"]))
    elif message["is"] == "acknowledged":
        change = ledger.acknowledge(message["writer"])
        if screen is not None:
            sql = change.sql if len(change.sql) <= 70 else change.sql[:69] + "…"
            screen.change(f"{change.size:>4} rows  {message['ms']:>5.0f} ms  {sql}")


def _verify(screen: Screen, ledger: Ledger, folder: Path, scratch: Path, warehouse: str) -> bool:
    books = folder / "scratch" / "ledger.json"
    books.write_text(json.dumps(ledger.to_json()))
    screen.say("4. Another engine opens what is left (starting Spark …)")
    verifier = Process("verify", warehouse, str(books), scratch=scratch)
    marks = []
    try:
        while (message := verifier.next(_VERIFY_PATIENCE)) is not None:
            if (shown := _judge(message)) is not None:
                good, text = shown
                marks.append(good)
                screen.say(f"   {'✔' if good else '✘'} {text}", style="green" if good else "bold red")
    finally:
        verifier.kill()
    if all(marks) and len(marks) == len(VIEWS) + 3:
        screen.say("Nothing that was acknowledged is lost, and every view equals its query.", style="bold green")
        return True
    screen.say("The verification FAILED.", style="bold red")
    return False


def _judge(message: dict[str, Any]) -> tuple[bool, str] | None:
    """A report of the verifier as a mark and a line."""
    if message["is"] == "open":
        return True, f"reopened at epoch {message['epoch']}, {message['seconds']} s with Spark's start"
    if message["is"] == "table":
        good = not message["problems"]
        text = f"{message['name']:<8} {message['rows']:>8,} rows; acknowledged {message['expected']:,}"
        return good, text if good else f"{text}: {'; '.join(message['problems'])}"
    if message["is"] == "view":
        text = (
            f"{message['name']:<8} {message['rows']:>8,} rows; its query {message['asked']:,}; "
            f"headrace.read {message['spark']:,}"
        )
        if not message["equal"]:
            text += ": the view is not what its query answers"
        if not message["read"]:
            text += ": headrace.read gives other rows"
        return message["equal"] and message["read"], text
    if message["is"] == "alive":
        return message["good"], "and goes on: a new order is in its views"
    return None
