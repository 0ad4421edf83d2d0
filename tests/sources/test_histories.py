"""Chunks of a history in flight: whichever is read first, they land in order, and each offset once. No JVM."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any, cast

import pytest

from headrace.catalog import MATERIALIZED_VIEW, SOURCE, Catalog, Column, Relation
from headrace.cdc.problems import SourceUnreachable
from headrace.engine import histories
from headrace.engine.feeds import StreamState, ViewState, view_state, with_stream, with_view
from headrace.engine.histories import Histories, Read
from headrace.engine.ingest import Report
from headrace.engine.source_reader import SourceReader
from headrace.engine.view_jobs import ViewJobs
from headrace.errors import HeadraceError
from headrace.sources.connector import Feed, Resolved
from headrace.sources.definition import Definition
from headrace.sources.handover import Extent, Handover, Range, Stream
from headrace.state.manifest import Manifest
from headrace.types import SqlType

VIEW = 2
COLUMNS = (Column(name="id", type=SqlType("bigint")),)


class World:
    """A view with a history of 100 offsets in each of two splits, and somebody who decides which chunk is read when."""

    def __init__(self) -> None:
        catalog = Catalog().add(Relation(id=1, name="s", kind=SOURCE, columns=COLUMNS))
        view = Relation(id=VIEW, name="v", kind=MATERIALIZED_VIEW, columns=COLUMNS, depends_on=(1,), creating=True)
        definition = Definition(connector="kafka", columns=(("id", SqlType("bigint")),))
        stream = Stream(next={0: 100, 1: 100})
        state = Manifest(catalog=catalog.add(view))
        state = with_stream(state, 1, StreamState(definition=definition, resolved=Resolved(), stream=stream))
        filled = ViewState(
            inputs={1: Handover.begin({0: 0, 1: 0}, stream)}, parallelism=1, started_at=0.0, created_epoch=1
        )
        self.engine = SimpleNamespace(committed=with_view(state, VIEW, filled))
        self.name = "s"
        self.landed: list[Range] = []
        self.woken = threading.Event()
        self.histories = Histories(self, 1, Feed(definition=definition, reader=None), None)
        self.asked: list[tuple[Future, Any]] = []
        self.histories._pool = SimpleNamespace(submit=self._submit, shutdown=lambda **_: None)

    def _submit(
        self, _: Any, state: Manifest, source: Relation, view: Relation, ranges: Any, parallelism: int
    ) -> Future:
        future: Future = Future()
        self.asked.append((future, ranges))
        return future

    @property
    def view(self) -> ViewState:
        found = view_state(self.engine.committed, VIEW)
        assert found is not None
        return found

    def as_engine(self) -> SimpleNamespace:
        """As whoever describes jobs needs it, with a reader of which only this is asked."""
        reader = SourceReader.__new__(SourceReader)
        reader._histories, reader._turns = self.histories, SimpleNamespace(error=None)
        reader._reading = False
        sources = SimpleNamespace(reader=lambda id: reader)
        return SimpleNamespace(event_sources=sources, parameter=lambda name: False)

    # What histories need of the source's reader.

    def wake(self) -> None:
        self.woken.set()

    def confirm(self) -> None:
        pass

    def mutate(self, apply: Any) -> Any:
        self.engine.committed, answer = apply(self.engine.committed, 5)
        return answer

    def recorded(self, state: Manifest, report: Report, epoch: int) -> Manifest:
        self.landed += report.files[VIEW]
        return state

    # What the test does.

    def turn(self, *, paused: bool = False) -> None:
        self.histories.land()
        extents = {0: Extent(0, 200), 1: Extent(0, 200)}
        self.histories.launch(self.engine.committed, extents, paused=paused, interval=1.0)

    def answer(self, at: int, error: HeadraceError | None = None) -> None:
        future, ranges = self.asked.pop(at)
        if error is not None:
            future.set_exception(error)
        else:  # what was read is told by the report, and what it would write is nobody's business here
            future.set_result(Read(files=[], report=Report(files={VIEW: list(ranges)}), seconds=0.1))

    @property
    def complete(self) -> bool:
        return view_state(self.engine.committed, VIEW) is None


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(histories, "CHUNK_ROWS", 17)


def test_the_second_waits_for_the_first():
    world = World()
    world.turn()
    first, second = (ranges for _, ranges in world.asked)
    world.answer(1)
    world.turn()
    assert world.landed == [] and len(world.asked) == 1
    world.answer(0)
    world.turn()
    assert world.landed == [*first, *second]


def test_while_the_engine_is_paused_nothing_more_is_read_and_what_was_read_lands():
    world = World()
    world.turn(paused=True)
    assert not world.asked
    world.turn()
    first = world.asked[0][1]
    world.answer(0)
    world.answer(0)
    world.turn(paused=True)
    assert not world.asked and world.landed[: len(first)] == [*first]


def test_if_the_first_fails_both_are_read_again():
    world = World()
    world.turn()
    first, second = (ranges for _, ranges in world.asked)
    world.answer(1)
    world.answer(0, HeadraceError("lost the connection"))
    world.turn()
    assert world.landed == [] and not world.asked, "it is tried again after a while"
    world.histories._fillings[VIEW].retry_at = 0.0
    world.turn()
    assert [ranges for _, ranges in world.asked] == [first, second]


def test_why_a_history_does_not_go_on_is_told_and_it_is_tried_again_soon_for_as_long_as_it_takes():
    world = World()
    for _ in range(50):  # a registry that is down all night
        world.turn()
        world.answer(0, SourceUnreachable("nobody there"))
        world.asked.clear()
        world.histories.land()
        filling = world.histories._fillings[VIEW]
        assert filling.retry_at - time.monotonic() <= 30
        filling.retry_at = 0.0
    described = ViewJobs(cast(Any, world.as_engine()))._described(world.engine.committed, VIEW, world.view)
    assert (described["state"], described["error"]) == ("retrying", "nobody there")
    world.turn()
    world.answer(0)
    world.turn()
    described = ViewJobs(cast(Any, world.as_engine()))._described(world.engine.committed, VIEW, world.view)
    assert (described["state"], described["error"]) == ("running", None)


@pytest.mark.parametrize("seed", range(50))
def test_every_offset_lands_once_in_order(seed):
    world, dice = World(), random.Random(seed)
    while not world.complete:
        world.turn()
        if world.asked:
            failing = dice.random() < 0.2
            world.answer(dice.randrange(len(world.asked)), HeadraceError("so") if failing else None)
        for filling in world.histories._fillings.values():
            filling.retry_at, filling.failures = 0.0, 0
    for split in (0, 1):
        parts = [each for each in world.landed if each.split == split]
        assert [offset for each in parts for offset in range(each.start, each.end)] == list(range(100))
