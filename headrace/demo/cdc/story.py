"""The story: a live PostgreSQL, a table that follows it, a plug that is pulled, and a comparison of every row."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from headrace.demo.books import percentile
from headrace.demo.cdc.server import PrivateServer
from headrace.demo.cdc.writers import HISTORY, TABLE, Writers
from headrace.demo.process import DemoFailed, Process
from headrace.engine.java import require_java
from headrace.serving.progress import Progress, bars, describe

KILL_AT = 0.4
SPLITS = 24
"""So many make up the table, so that there is a middle to be killed in."""

ALONE_SECONDS = 3.0
_PATIENCE = 180.0
_PLAIN_EVERY = 2.0


def run(*, rows: int, keep: bool = False, console: Console | None = None) -> int:
    """Plays it; 0 if everything was verified."""
    console = console or Console(highlight=False)
    require_java()
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    folder.chmod(0o755)  # the server may be run by another user than this one
    scratch = folder / "scratch"
    scratch.mkdir(mode=0o700)
    story = Story(console, folder, rows)
    try:
        good = story.play()
        if good and keep:
            console.print(f"The warehouse is kept: headrace sql -w {folder / 'warehouse'} (the server is gone)")
        return 0 if good else 1
    except DemoFailed as failure:
        story.hide()
        console.print(Text(f"✘ {failure}", style="red"))
        return 1
    finally:
        story.end()
        shutil.rmtree(scratch if keep else folder, ignore_errors=True)


class Story:
    def __init__(self, console: Console, folder: Path, rows: int):
        self._console, self._folder, self._rows = console, folder, rows
        self._scratch = folder / "scratch"
        self._server: PrivateServer | None = None
        self._writers: Writers | None = None
        self._process: Process | None = None
        self._live: Live | None = None
        self._look = Progress(state="waiting")
        self._printed = 0.0
        self._marks: list[bool] = []

    def play(self) -> bool:
        self._say(f"1. A private PostgreSQL with a table of {self._rows:,} rows, and writers that never stop")
        server, writers = self._prepare()
        time.sleep(ALONE_SECONDS)
        alone, writers.commits = writers.commits, []
        self._say("2. A table that follows it, and a view on that, while the writers go on (starting Spark …)")
        first = self._start(server)
        self._follow(first, until=KILL_AT)
        heard = self._look.rows_read
        first.kill()
        self.hide()
        self._say(
            f"3. The plug is pulled: kill -9 {first.pid}, at {self._look.fraction:.0%}, {heard:,} rows saved. "
            "The writers do not stop",
            style="bold red",
        )
        self._say("4. Another engine opens what is left, and goes on (starting Spark …)")
        second = self._start(server)
        self._follow(second, until=None)
        self.hide()
        during = list(writers.commits)
        writers.stop()
        self._check_writers()
        (self._scratch / "stopped").touch()
        self._say(f"5. It is filled; the writers stop after {writers.transactions:,} transactions. Is it right?")
        while (message := second.next(_PATIENCE)) is not None:
            self._judge(message)
        self._say(
            f"   A commit on the server took {percentile(alone, 0.99) * 1000:.1f} ms (p99) before, "
            f"{percentile(during, 0.99) * 1000:.1f} ms while all of this ran on the same machine.",
            style="dim",
        )
        good = all(self._marks) and len(self._marks) == 3 and second.status == 0
        self._say(
            "Nothing is lost, and nothing is there twice." if good else "The verification FAILED.",
            style="bold green" if good else "bold red",
        )
        return good

    def _prepare(self) -> tuple[PrivateServer, Writers]:
        self._server = server = PrivateServer(self._folder / "postgres")
        (self._scratch / "password").write_text(server.password)
        connection = server.connect()
        with connection.cursor() as cursor:
            cursor.execute(TABLE)
            cursor.execute(HISTORY.format(rows=self._rows))
            cursor.execute("ANALYZE orders")
        connection.close()
        self._writers = writers = Writers(server, self._rows)
        writers.start()
        return server, writers

    def _start(self, server: PrivateServer) -> Process:
        self._process = Process(
            "cdc.engine", str(self._folder / "warehouse"), str(self._scratch), str(server.port), server.owner,
            str(max(1, self._rows // SPLITS)), scratch=self._scratch,
        )  # fmt: skip
        return self._process

    def _follow(self, process: Process, *, until: float | None) -> None:
        """Until so much is filled, or all of it."""
        while (message := process.expect(_PATIENCE))["is"] != "filled":
            self._check_writers()
            if message["is"] == "did":
                sql = message["sql"] if len(message["sql"]) <= 110 else message["sql"][:109] + "…"
                self._say(f"   {sql}  ({message['ms']} ms)", style="dim")
            elif message["is"] == "open" and message["again"]:
                self._mark(
                    True,
                    f"open after {message['seconds']:.1f} s with Spark's start; {message['rows']:,} rows are there",
                )
            elif message["is"] == "status":
                self._look = Progress(**message["look"])
                self._show(message["epoch"])
                if until is not None and self._look.fraction >= until:
                    return
        if until is not None:
            raise DemoFailed("everything was filled before the plug could be pulled: try more --rows")

    def _check_writers(self) -> None:
        """The engine would wait for a server that is gone, and have no reason to end."""
        if self._writers is not None and self._writers.problem is not None:
            raise DemoFailed(f"PostgreSQL's clients cannot go on: {self._writers.problem}")

    def _judge(self, message: dict[str, Any]) -> None:
        if message["is"] == "table":
            text = f"orders: {message['rows']:,} rows, each as on the server, sum of amounts {message['total']}"
            if not message["equal"]:
                text = f"orders: {message['rows']:,} rows here, {message['theirs']:,} on the server, not the same"
            self._mark(message["equal"], text)
        elif message["is"] == "view":
            self._mark(message["equal"], f"large: {message['answer']}")

    # --- what the person sees ----------------------------------------------------------------------------------

    def _show(self, epoch: int) -> None:
        assert self._writers is not None
        writing = f"epoch {epoch}, {self._writers.transactions:,} transactions on the server"
        if not self._console.is_terminal:
            if time.monotonic() - self._printed >= _PLAIN_EVERY:
                self._printed = time.monotonic()
                self._say(f"   {writing} | orders {describe(self._look)}")
            return
        recent = [1000 * seconds for seconds in self._writers.commits[-200:]]
        commits = Text(
            f"commit on the server  p50 {percentile(recent, 0.5):.1f} ms  p99 {percentile(recent, 0.99):.1f} ms"
        )
        panel = Panel(
            Group(bars([("orders", self._look)]), commits), title=writing, title_align="left", border_style="cyan"
        )
        if self._live is None:
            self._live = Live(panel, console=self._console, refresh_per_second=8, transient=True)
            self._live.start()
        self._live.update(panel)

    def _say(self, text: str, *, style: str = "") -> None:
        (self._live.console if self._live else self._console).print(Text(text, style=style), soft_wrap=True)

    def _mark(self, good: bool, text: str) -> None:
        self._marks.append(good)
        self._say(f"   {'✔' if good else '✘'} {text}", style="green" if good else "bold red")

    def hide(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def end(self) -> None:
        self.hide()
        if self._process is not None:
            self._process.kill()
        if self._writers is not None:
            self._writers.stop()
        if self._server is not None:
            self._server.remove()
