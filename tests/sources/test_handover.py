"""The hand-over from history to the shared stream: traces that a person can read, many random histories, and mistakes
that must be noticed."""

from __future__ import annotations

import dataclasses

import pytest

from headrace.sources.handover import CutBack, Extent, Gap, Handover, OutOfPlace, Range, Stage, Stream, bounded, pieces
from tests.sources.world import Rules, Violation, World, history

HISTORIES = 20_000


def test_a_split_that_stays_shorter_than_what_was_taken_of_it_is_told_once():
    cut, stream = CutBack(), Stream(next={0: 9, 1: 9})
    short, whole = {0: Extent(0, 7), 1: Extent(0, 9)}, {0: Extent(0, 9), 1: Extent(0, 12)}
    assert [cut.lasting(stream, short, now=now) for now in (0, 20)] == [[], []]
    assert cut.lasting(stream, whole, now=25) == [], "a broker that has just been started"
    assert cut.lasting(stream, short, now=40) == []
    ((text, first),) = cut.lasting(stream, short, now=70)
    assert first and "partition 0 ends at offset 7, and was read up to 9" in text
    assert cut.lasting(stream, short, now=80) == [(text, False)]
    assert cut.lasting(stream, whole, now=90) == [] and cut.lasting(stream, short, now=100) == []
    assert cut.lasting(stream, short, now=130) == [(text, True)]


def test_a_trace_of_a_view_that_comes_while_events_flow():
    world = World(splits=2)
    world.produce(0, 5)
    world.epoch(4)
    world.create("v")
    world.commit()
    world.produce(0, 3)
    world.launch("v", 2)
    world.epoch(10)
    world.land()
    world.commit()
    world.crash()
    world.launch("v", 10)
    world.land()
    world.commit()
    assert world.trace == [
        "stream 0: 0..3",
        "create v: 0@0/4, 1@0/0",
        "stream 0: 4..7",
        "land v 0: 0..1 0@2/4, 1@0/0",
        "crash",
        "land v 0: 2..3 0@4/4, 1@0/0",
    ]
    assert sorted(world.now.views["v"].rows.elements()) == [(0, offset) for offset in range(8)]


def test_a_trace_of_a_crash_between_reading_and_the_commit():
    """What was read is read again: neither the rows nor the position were committed."""
    world = World(splits=1)
    world.produce(0, 4)
    world.epoch(4)
    world.create("v")
    world.commit()
    world.launch("v", 4)
    world.land()
    world.crash()
    assert not world.now.views["v"].rows
    world.launch("v", 4)
    world.land()
    world.commit()
    assert world.trace[1:] == ["create v: 0@0/4", "land v 0: 0..3 0@4/4", "crash", "land v 0: 0..3 0@4/4"]


def test_a_trace_of_a_partition_that_comes_later():
    """All of it comes by the stream: to views that are being filled, too."""
    world = World(splits=1)
    world.produce(0, 2)
    world.epoch(2)
    world.create("v")
    world.add_split()
    world.produce(1, 2)
    world.epoch(2)
    world.create("w")
    world.commit()
    assert world.trace == ["stream 0: 0..1", "create v: 0@0/2", "stream 1: 0..1", "create w: 0@0/2, 1@0/2"]
    assert sorted(world.now.views["v"].rows) == [(1, 0), (1, 1)]
    world.finish()


@pytest.mark.parametrize("seed", range(0, HISTORIES, HISTORIES // 20))
def test_every_event_comes_once_whatever_happens(seed):
    for each in range(seed, seed + HISTORIES // 20):
        history(each)


# --- mistakes ----------------------------------------------------------------------------------------------------


class BoundaryTwice(Rules):
    """The pseudo-code of the RFC: the event at which history and stream meet is taken from both."""

    def begin(self, starts, stream):
        handover = Handover.begin(starts, stream)
        one_more = {
            split: dataclasses.replace(stage, until=stage.until + 1) if stage.until > stage.start else stage
            for split, stage in handover.stages.items()
        }
        return Handover(stages=one_more)


class BoundaryNever(Rules):
    """The other way round: the last event of the history is left to a stream that is past it."""

    def begin(self, starts, stream):
        handover = Handover.begin(starts, stream)
        return Handover(
            stages={
                split: Stage(stage.start, stage.start, max(stage.start, stage.until - 1))
                for split, stage in handover.stages.items()
            }
        )


class StreamWaitsForHistory(Rules):
    """The stream is dropped until the history has been read up to where it began."""

    def of_stream(self, view, taken, events):
        stage = view.handover.stages.get(taken.split)
        return events if stage is None or stage.done else []


class LandsAnywhere(Rules):
    """A chunk moves the position, wherever it was: also one from before a crash."""

    def land(self, view, landed):
        stages = dict(view.handover.stages)
        if landed.split not in stages:
            raise OutOfPlace("no such split")
        stages[landed.split] = dataclasses.replace(stages[landed.split], at=landed.end)
        return Handover(stages=stages)

    def after_crash(self, world):
        """Chunks in flight land all the same."""


@pytest.mark.parametrize("rules", [BoundaryTwice, BoundaryNever, StreamWaitsForHistory, LandsAnywhere])
def test_mistakes_are_noticed(rules):
    caught = 0
    for seed in range(500):
        try:
            history(seed, rules())
        except (Violation, OutOfPlace):
            caught += 1
    assert caught


# --- parts -------------------------------------------------------------------------------------------------------


def test_ranges_must_continue_where_their_reader_is():
    stream = Stream(next={0: 5})
    for wrong in (Range(0, 4, 6), Range(0, 6, 7), Range(1, 0, 1)):
        with pytest.raises(OutOfPlace):
            stream.took(wrong)
    view = Handover.begin({0: 2}, stream)
    for wrong in (Range(0, 1, 3), Range(0, 3, 4), Range(0, 2, 6), Range(1, 0, 0)):
        with pytest.raises(OutOfPlace):
            view.landed(wrong)


def test_what_was_removed_is_a_gap_of_the_one_who_had_not_read_it():
    stream = Stream(next={0: 5, 1: 3})
    view = Handover.begin({0: 0, 1: 0}, stream)
    extents = {0: Extent(7, 9), 1: Extent(1, 3)}
    after, gaps = view.skip(extents)
    assert gaps == [Gap(0, 0, 5), Gap(1, 0, 1)] and after.lost == 6
    assert after.open_ranges() == [Range(1, 1, 3)]
    moved, gaps = stream.skip(extents)
    assert gaps == [Gap(0, 5, 7)] and moved.next == {0: 7, 1: 3}
    assert "2 offsets of partition 0 (5 to 6)" in str(gaps[0])


def test_what_is_durable_comes_back():
    view = Handover.begin({0: 1, 2: 0}, Stream(next={0: 5, 2: 0})).landed(Range(0, 1, 3))
    assert Handover.from_json(view.to_json()) == view
    assert (view.read, view.total, view.done) == (2, 4, False)


def test_a_start_behind_the_stream_is_an_empty_history():
    assert Handover.begin({0: 9}, Stream(next={0: 5})).done


def test_portions_are_shared_out():
    assert bounded([Range(0, 0, 3), Range(1, 0, 3)], 1) == [Range(0, 0, 1)]
    assert bounded([], 5) == []
    assert sum(each.size for each in bounded([Range(0, 0, 99), Range(1, 0, 2), Range(2, 0, 99)], 50)) == 50
    assert pieces([], 3) == []
