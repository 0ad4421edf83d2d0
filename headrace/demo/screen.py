"""What the person sees: one live screen in a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from headrace.demo.books import Books
from headrace.serving.progress import Progress, bars, describe

_BARS = "▁▂▃▄▅▆▇█"
_PLAIN_EVERY = 3.0  # seconds between two lines when there is no terminal


def sparkline(values: list[float]) -> str:
    """
    >>> sparkline([1, 2, 8])
    '▁▂█'
    """
    top = max(values, default=0) or 1
    return "".join(_BARS[min(7, int(value / top * 8 - 0.001))] if value > 0 else _BARS[0] for value in values)


class Screen:
    """Lines that stay (:meth:`say`), and below them, while an engine runs, how far every job is."""

    def __init__(self, console: Console, books: Books):
        self._console = console
        self._books = books
        self._live: Live | None = None
        self._status: dict[str, Any] = {}
        self._epoch_ms: deque[float] = deque(maxlen=48)
        self._recent: deque[str] = deque(maxlen=4)
        self._printed = 0.0

    def say(self, text: str, *, style: str = "") -> None:
        (self._live.console if self._live else self._console).print(Text(text, style=style), soft_wrap=True)

    def start_live(self) -> None:
        if self._console.is_terminal and self._live is None:
            self._live = Live(self._panel(), console=self._console, refresh_per_second=8, transient=True)
            self._live.start()

    def stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def status(self, status: dict[str, Any]) -> None:
        if status["epoch"] != self._status.get("epoch") and status["last_epoch_ms"] is not None:
            self._epoch_ms.append(float(status["last_epoch_ms"]))
        self._status = status
        if self._live is not None:
            self._live.update(self._panel())
        elif time.monotonic() - self._printed >= _PLAIN_EVERY:
            self._printed = time.monotonic()
            lines = [f"{name} {describe(progress)}" for name, progress in self._looks()]
            self.say("   " + " | ".join([self._summary(), *lines]))

    def change(self, text: str) -> None:
        self._recent.append(text)
        if self._live is not None:
            self._live.update(self._panel())

    def _looks(self) -> list[tuple[str, Progress]]:
        return list(self._books.looks.items())

    def _summary(self) -> str:
        epoch_ms = f"{self._epoch_ms[-1]:.0f} ms" if self._epoch_ms else "…"
        return (
            f"epoch {self._status.get('epoch', '…')} in {epoch_ms}, "
            f"{self._books.ledger.statements:,} statements acknowledged"
        )

    def _panel(self) -> Panel:
        times = Text.assemble(("epoch time  ", "bold"), (sparkline(list(self._epoch_ms)), "cyan"))
        recent = Text("\n".join(self._recent), style="dim", no_wrap=True, overflow="ellipsis")
        parts = Group(bars(self._looks()), "", times, "", recent)
        return Panel(parts, title=self._summary(), title_align="left", border_style="cyan")
