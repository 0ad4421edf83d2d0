"""A process of the demo's: what it reports, and how it is killed."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from headrace.demo.wire import hear


class DemoFailed(Exception):
    pass


class Process:
    """A child and what it reports. It leads a process group of its own, so that its JVM dies with it."""

    def __init__(self, module: str, *arguments: str, scratch: Path):
        self._log = scratch / f"{module}.log"
        environment = os.environ | {
            # Everything that a killed JVM leaves behind goes into the demo's own folder.
            "SPARK_LOCAL_DIRS": str(scratch),
            # And a JVM that lives for half a minute does not earn back what its optimizing compiler costs.
            "SPARK_SUBMIT_OPTS": f"-Djava.io.tmpdir={scratch} -XX:-UsePerfData -XX:TieredStopAtLevel=1",
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

    @property
    def status(self) -> int:
        return self._child.returncode

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
