"""The story: a live topic, views that come before, during and after, a plug that is pulled, every offset counted."""

from __future__ import annotations

import shutil
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headrace.demo.kafka.broker import PrivateBroker
from headrace.demo.kafka.engine import VIEWS
from headrace.demo.process import DemoFailed, Process
from headrace.engine.java import require_java

TOPIC, PARTITIONS = "clicks", 4
KILL_AT = 0.4
PER_SECOND = 5_000
_PATIENCE = 180.0
_SHOWN_EVERY = 2.0


def run(*, rows: int, keep: bool = False, console: Console | None = None) -> int:
    """Plays it; 0 if everything was verified."""
    console = console or Console(highlight=False)
    require_java()
    folder = Path(tempfile.mkdtemp(prefix="headrace-demo-"))
    scratch = folder / "scratch"
    scratch.mkdir()
    story = Story(console, folder, rows)
    try:
        good = story.play()
        if good and keep:
            console.print(f"The warehouse is kept: headrace sql -w {folder / 'warehouse'} (the broker is gone)")
        return 0 if good else 1
    except DemoFailed as failure:
        console.print(Text(f"✘ {failure}", style="red"))
        return 1
    finally:
        story.end()
        shutil.rmtree(scratch if keep else folder, ignore_errors=True)
        shutil.rmtree(folder / "broker", ignore_errors=True)


class Producer:
    """Sends events without a pause, in a thread of its own."""

    def __init__(self, broker: PrivateBroker):
        self._producer = broker.producer()
        self.sent = [0] * PARTITIONS
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, daemon=True)

    def send(self, count: int) -> None:
        for _ in range(count):
            number = sum(self.sent)
            value = f'{{"id": {number}, "url": "/shop/{number % 997}/cart"}}'.encode()
            while not self._stop.is_set():
                try:
                    self._producer.produce(TOPIC, value, partition=number % PARTITIONS)
                    break
                except BufferError:
                    self._producer.poll(0.1)
            else:
                return
            self.sent[number % PARTITIONS] += 1
        self._producer.poll(0)

    def start(self) -> None:
        if self._producer.flush(_PATIENCE) > 0:
            raise DemoFailed("the broker does not take what is sent to it")
        self._thread.start()

    def _produce(self) -> None:
        while not self._stop.wait(0.05):
            self.send(PER_SECOND // 20)

    def stop(self, patience: float = _PATIENCE) -> bool:
        """Whether the broker has all that was sent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        return self._producer.flush(patience) == 0


class Story:
    def __init__(self, console: Console, folder: Path, rows: int):
        self._console, self._folder, self._rows = console, folder, rows
        self._scratch = folder / "scratch"
        self._broker: PrivateBroker | None = None
        self._producer: Producer | None = None
        self._process: Process | None = None
        self._shown = 0.0
        self._fraction = 0.0
        self._marks: list[bool] = []

    def play(self) -> bool:
        self._say(f"1. A private broker, a topic of {self._rows:,} events, and a producer that never stops")
        self._broker = broker = PrivateBroker(self._folder / "broker")
        broker.create(TOPIC, PARTITIONS)
        self._producer = producer = Producer(broker)
        producer.send(self._rows)
        producer.start()
        self._say("2. A source, a view on it, and another one later, while events come (starting Spark …)")
        first = self._start(broker)
        self._follow(first, until=KILL_AT)
        first.kill()
        self._say(
            f"3. The plug is pulled: kill -9 {first.pid}, when the second view has {self._fraction:.0%} of its history."
            " The producer does not stop",
            style="bold red",
        )
        self._say("4. Another engine opens what is left, and goes on; a third view comes (starting Spark …)")
        second = self._start(broker)
        self._follow(second, until=None)
        if not producer.stop():
            raise DemoFailed("the broker has not taken all that was sent to it")
        (self._scratch / "ends").write_text(" ".join(map(str, producer.sent)))
        (self._scratch / "ends").rename(self._scratch / "stopped")
        self._say(
            f"5. All are filled; the producer stops after {sum(producer.sent):,} events. Is every offset there, once?"
        )
        while (message := second.next(_PATIENCE)) is not None:
            self._judge(message)
        good = all(self._marks) and len(self._marks) == 1 + len(VIEWS) and second.status == 0
        self._say(
            "No event is lost, and none is there twice." if good else "The verification FAILED.",
            style="bold green" if good else "bold red",
        )
        return good

    def _start(self, broker: PrivateBroker) -> Process:
        rate = max(1, self._rows // 8)
        self._process = Process(
            "kafka.engine", str(self._folder / "warehouse"), str(self._scratch), broker.servers, TOPIC, str(rate),
            scratch=self._scratch,
        )  # fmt: skip
        return self._process

    def _follow(self, process: Process, *, until: float | None) -> None:
        while (message := process.expect(_PATIENCE))["is"] != "filled":
            if self._broker is not None and not self._broker.alive:
                raise DemoFailed("the broker has ended")
            if message["is"] == "did":
                sql = message["sql"] if len(message["sql"]) <= 110 else message["sql"][:109] + "…"
                self._say(f"   {sql}  ({message['ms']} ms)", style="dim")
            elif message["is"] == "open" and message["again"]:
                said = (
                    f"open after {message['seconds']:.1f} s with Spark's start; {message['rows']:,} offsets were saved"
                )
                self._mark(message["rows"] > 0, said)
            elif message["is"] == "status":
                look = message["look"]
                self._fraction = look["fraction"]
                if time.monotonic() - self._shown >= _SHOWN_EVERY:
                    self._shown = time.monotonic()
                    done = f"{look['rows_read']:,} of {look['rows_total']:,} offsets of its history"
                    self._say(f"   epoch {message['epoch']}: during has {done}", style="dim")
                if until is not None and look["fraction"] >= until:
                    return
        if until is not None:
            raise DemoFailed("everything was filled before the plug could be pulled: try more --rows")

    def _judge(self, message: dict[str, Any]) -> None:
        if message["is"] == "view":
            self._mark(
                message["equal"],
                f"{message['name']}: {message['rows']:,} rows, {message['different']:,} different offsets, of"
                f" {message['wanted']:,} that were sent",
            )

    def _say(self, text: str, *, style: str = "") -> None:
        self._console.print(Text(text, style=style), soft_wrap=True)

    def _mark(self, good: bool, text: str) -> None:
        self._marks.append(good)
        self._say(f"   {'✔' if good else '✘'} {text}", style="green" if good else "bold red")

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
        if self._producer is not None:
            self._producer.stop(0.0)
        if self._broker is not None:
            self._broker.end()
