"""What the person sees: one live screen in a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from headrace.demo.ledger import Ledger

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
    """Lines that stay (:meth:`say`), and below them, while the engine runs, the state of everything."""

    def __init__(self, console: Console, ledger: Ledger):
        self._console = console
        self._ledger = ledger
        self._live: Live | None = None
        self._status: dict[str, Any] = {}
        self._epoch_ms: deque[float] = deque(maxlen=48)
        self._recent: deque[str] = deque(maxlen=5)
        self._started = time.monotonic()
        self._printed = 0.0

    def say(self, text: str, *, style: str = "") -> None:
        (self._live.console if self._live else self._console).print(Text(text, style=style), soft_wrap=True)

    def start_live(self) -> None:
        self._started = time.monotonic()
        if self._console.is_terminal:
            self._live = Live(self._panel(), console=self._console, refresh_per_second=8, transient=True)
            self._live.start()

    def stop_live(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def status(self, status: dict[str, Any]) -> None:
        if status.get("epoch") != self._status.get("epoch") and status.get("last_epoch_ms") is not None:
            self._epoch_ms.append(float(status["last_epoch_ms"]))
        self._status = status
        self._refresh()

    def change(self, text: str) -> None:
        self._recent.append(text)
        self._refresh()

    def _refresh(self) -> None:
        if self._live is not None:
            self._live.update(self._panel())
        elif time.monotonic() - self._printed >= _PLAIN_EVERY and self._status:
            self._printed = time.monotonic()
            rows = ", ".join(f"{each['name']} {each['rows']:,}" for each in self._relations())
            self.say(f"  {self._summary()} | {rows}")

    def _relations(self) -> list[dict[str, Any]]:
        return [each for each in self._status.get("relations", []) if each.get("rows") is not None]

    def _elapsed(self) -> float:
        return max(time.monotonic() - self._started, 0.1)

    def _summary(self) -> str:
        rate = self._ledger.changes / self._elapsed()
        epoch_ms = f"{self._epoch_ms[-1]:.0f} ms" if self._epoch_ms else "…"
        return (
            f"epoch {self._status.get('epoch', '…')} in {epoch_ms}, {self._ledger.statements:,} statements "
            f"acknowledged, {rate:,.0f} rows/s"
        )

    def _panel(self) -> Panel:
        table = Table(box=None, padding=(0, 2), header_style="bold")
        for name, justify in (("relation", "left"), ("kind", "left"), ("rows", "right"), ("last epoch", "right")):
            table.add_column(name, justify=justify)
        for each in self._relations():
            delta = each.get("delta_rows") or 0
            table.add_row(
                each["name"],
                each["kind"],
                f"{each['rows']:,}",
                Text(f"{delta:,} changes" if delta else "", style="green"),
            )
        times = Text.assemble(("epoch time  ", "bold"), (sparkline(list(self._epoch_ms)), "cyan"))
        recent = Text("\n".join(self._recent), style="dim", no_wrap=True, overflow="ellipsis")
        title = f"{self._summary()}, {self._elapsed():.0f} s"
        return Panel(Group(table, "", times, "", recent), title=title, title_align="left", border_style="cyan")
