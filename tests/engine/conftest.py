"""For tests that look into an engine at work: clients in threads, and an epoch loop that waits where it is told to."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

import headrace
from headrace.errors import HeadraceError
from tests.support.waiting import PATIENCE, eventually

PROMPT = {"barrier_interval": "100ms"}


class Gate:
    """Holds up the epoch loop: the next epochs with writes wait until they are let through."""

    def __init__(self, database: Any):
        self.coordinator = database.engine.coordinator
        self._evaluate = self.coordinator._evaluate
        self._open = threading.Event()
        self._open.set()
        self._remaining: int | None = None
        self.arrived = 0
        self.epochs: list[tuple[int, Sequence]] = []
        """(epoch, writes) of everything that was evaluated"""
        self.coordinator._evaluate = self

    def __call__(self, state: Any, writes: Sequence, epoch: int, landings: Sequence = ()) -> Any:
        self.arrived += 1
        assert self._open.wait(PATIENCE)
        self.epochs.append((epoch, list(writes)))
        answer = self._evaluate(state, writes, epoch, landings)
        if self._remaining is not None:
            self._remaining -= 1
            if self._remaining == 0:
                self._open.clear()
        return answer

    def shut(self) -> None:
        self._open.clear()

    def let(self, epochs: int) -> None:
        """Lets that many epochs through, then is shut again."""
        self._remaining = epochs
        self._open.set()

    def open(self) -> None:
        self._remaining = None
        self._open.set()

    def wait_for(self, arrived: int) -> None:
        eventually(lambda: self.arrived >= arrived)

    def queued(self, requests: int) -> None:
        """Waits until so many requests are in the queue."""
        eventually(lambda: len(self.coordinator._queue) == requests)


class Clients:
    """Statements from clients of their own. Threads are daemons: one that waits forever must not stop the tests."""

    def __init__(self, database: Any):
        self._database = database

    def sql(self, text: str) -> Future:
        return self.run(lambda: self._database.session().sql(text).tag)

    def run(self, call: Callable[[], Any]) -> Future:
        future: Future = Future()

        def body() -> None:
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=body, daemon=True).start()
        return future


@pytest.fixture
def gate(db) -> Iterator[Gate]:
    held = Gate(db)
    yield held
    held.open()


@pytest.fixture
def clients(db) -> Clients:
    return Clients(db)


@pytest.fixture
def open_database(spark, warehouse) -> Iterator[Callable]:
    """Opens the warehouse as often as a test likes; what it left open is closed, by whoever still can."""
    opened = []

    def connect(**options):
        opened.append(headrace.connect(warehouse, spark=spark, **({"parameters": PROMPT} | options)))
        return opened[-1]

    yield connect
    for db in opened:
        with contextlib.suppress(HeadraceError):
            db.close()
