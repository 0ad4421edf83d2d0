"""Epochs that clients wait for go first: chunks and merges pause while one runs on the same machine.

A low priority (:func:`headrace.state.prepared.giving_way`) decides who gets a processor, and not who gets the caches
and the memory behind it: beside two busy tasks the same epoch takes twice as long. So the driver says in one byte of
shared memory that an epoch is running, and tasks look at it between two pieces of work.

They wait for no longer than they have worked before (*credit*): under writes that never end a chunk is read at half
its speed, and not at none. Where tasks run on other machines than the driver there is nothing to see, and nothing to
wait for: Spark's pools share out the executors' slots.
"""

from __future__ import annotations

import mmap
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

CREDIT_SECONDS = 0.25
"""What a task can save up of its right to wait."""

LOOK_SECONDS = 0.001


class Precedence:
    """The driver's side; one for all engines of a process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running = 0
        self._byte: mmap.mmap | None = None
        self.path: str | None = None
        with suppress(AttributeError, OSError):  # not on Linux
            descriptor = os.memfd_create("headrace-precedence")
            os.ftruncate(descriptor, 1)
            self._byte = mmap.mmap(descriptor, 1)
            # Goes away with the process, however that ends.
            self.path = f"/proc/{os.getpid()}/fd/{descriptor}"

    def __enter__(self) -> None:
        self._count(1)

    def __exit__(self, *_: object) -> None:
        self._count(-1)

    def _count(self, change: int) -> None:
        with self._lock:
            self._running += change
            if self._byte is not None:
                self._byte[0] = min(self._running, 1)


_lock = threading.Lock()
_of_process: dict[int, Precedence] = {}


def precedence() -> Precedence:
    """This process's."""
    with _lock:
        pid = os.getpid()  # a forked child has its own
        if pid not in _of_process:
            _of_process[pid] = Precedence()
        return _of_process[pid]


class GivesWay:
    """A task's side: to be called between two pieces of work."""

    def __init__(
        self,
        wanted: Callable[[], bool],
        *,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._wanted, self._clock, self._sleep = wanted, clock, sleep
        self._credit = CREDIT_SECONDS
        self._since = clock()

    def begin(self) -> None:
        """Work begins: what passed since the last was no work."""
        self._since = self._clock()

    def __call__(self) -> None:
        now = self._clock()
        self._credit = min(CREDIT_SECONDS, self._credit + now - self._since)
        while self._credit > 0 and self._wanted():
            self._sleep(LOOK_SECONDS)
            before, now = now, self._clock()
            self._credit -= now - before
        self._since = now


_known: dict[str | None, GivesWay] = {}


def gives_way(path: str | None) -> GivesWay:
    """Inside a task: what it has to call, for the path of the driver's :class:`Precedence`."""
    if path not in _known:
        _known.clear()  # of a driver that is no more
        _known[path] = GivesWay(_look(path))
    found = _known[path]
    found.begin()
    return found


def _look(path: str | None) -> Callable[[], bool]:
    if path is not None:
        with suppress(OSError, ValueError):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                byte = mmap.mmap(descriptor, 1, prot=mmap.PROT_READ)
            finally:
                os.close(descriptor)
            return lambda: byte[0] != 0
    return lambda: False
