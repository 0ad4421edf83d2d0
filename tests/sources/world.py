"""A source, its shared reader and the views on it, simulated: what each view holds is checked at every commit.

A split is a list of offsets, of which some have no event (compacted away, marks of transactions) and the oldest may
have been removed. ``Rules`` is what the engine does; mistakes are made by overriding it.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

from headrace.sources.handover import Extent, Handover, OutOfPlace, Range, Stream, bounded


class Violation(AssertionError):
    pass


@dataclass
class Split:
    events: set[int] = field(default_factory=set)
    begin: int = 0
    end: int = 0

    @property
    def extent(self) -> Extent:
        return Extent(self.begin, self.end)

    def read(self, wanted: Range) -> list[tuple[int, int]]:
        return [(wanted.split, at) for at in range(wanted.start, wanted.end) if at in self.events and at >= self.begin]


@dataclass
class View:
    handover: Handover
    rows: Counter = field(default_factory=Counter)
    starts: dict[int, int] = field(default_factory=dict)


@dataclass
class Committed:
    """What a crash leaves."""

    stream: Stream = field(default_factory=Stream)
    views: dict[str, View] = field(default_factory=dict)

    def copy(self) -> Committed:
        views = {
            name: View(handover=view.handover, rows=view.rows.copy(), starts=view.starts)
            for name, view in self.views.items()
        }
        return Committed(stream=self.stream, views=views)


class Rules:
    def begin(self, starts: dict[int, int], stream: Stream) -> Handover:
        return Handover.begin(starts, stream)

    def of_stream(self, view: View, taken: Range, events: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Which of the events that the stream has taken are the view's."""
        return events

    def land(self, view: View, landed: Range) -> Handover:
        return view.handover.landed(landed)

    def history(self, view: View) -> list[Range]:
        return view.handover.open_ranges()

    def after_crash(self, world: World) -> None:
        """Chunks in flight are gone."""
        world.flights.clear()


class World:
    def __init__(self, rules: Rules | None = None, splits: int = 2):
        self.rules = rules or Rules()
        self.splits = {number: Split() for number in range(splits)}
        self.starts = dict.fromkeys(self.splits, 0)
        self.now = Committed(stream=Stream(next=dict.fromkeys(self.splits, 0)))
        self.committed = self.now.copy()
        self.flights: list[tuple[str, Range, list[tuple[int, int]]]] = []
        self.everything: set[tuple[int, int]] = set()
        self.removed: set[tuple[int, int]] = set()
        self.trace: list[str] = []

    @property
    def extents(self) -> dict[int, Extent]:
        return {number: split.extent for number, split in self.splits.items()}

    # --- the outside -------------------------------------------------------------------------------------------

    def produce(self, split: int, events: int, marks: int = 0) -> None:
        of = self.splits[split]
        for offset in range(of.end, of.end + events):
            of.events.add(offset)
            self.everything.add((split, offset))
        of.end += events + marks

    def compact(self, split: int, offset: int) -> None:
        """Only what nobody needs any more may go from the comparison: a view that read it before has it."""
        if offset in self.splits[split].events:
            self.splits[split].events.discard(offset)
            self.removed.add((split, offset))

    def retain(self, split: int, begin: int) -> None:
        of = self.splits[split]
        for offset in range(of.begin, min(begin, of.end)):
            if offset in of.events:
                self.removed.add((split, offset))
        of.begin = max(of.begin, min(begin, of.end))

    def add_split(self) -> None:
        self.splits[len(self.splits)] = Split()

    # --- the engine --------------------------------------------------------------------------------------------

    def create(self, name: str) -> None:
        handover = self.rules.begin(self.starts, self.now.stream)
        self.now.views[name] = View(handover=handover, starts=dict(self.starts))
        self.note(f"create {name}: {_said(handover)}")

    def drop(self, name: str) -> None:
        self.now.views.pop(name, None)

    def epoch(self, budget: int) -> None:
        met = self.now.stream.meets({number: split.begin for number, split in self.splits.items()})
        for number in met.next.keys() - self.now.stream.next.keys():
            self.starts[number] = met.next[number]
        stream, _ = met.skip(self.extents)
        for taken in bounded(stream.ahead(self.extents), budget):
            events = self.splits[taken.split].read(taken)
            stream = stream.took(taken)
            for view in self.now.views.values():
                view.rows.update(self.rules.of_stream(view, taken, events))
            self.note(f"stream {taken.split}: {taken.start}..{taken.end - 1}")
        self.now.stream = stream

    def launch(self, name: str, budget: int) -> None:
        view = self.committed.views.get(name)
        if view is None or name not in self.now.views or any(each[0] == name for each in self.flights):
            return
        handover, gaps = self.now.views[name].handover.skip(self.extents)
        if gaps:
            self.now.views[name].handover = handover
        for wanted in bounded(self.rules.history(self.now.views[name]), budget):
            self.flights.append((name, wanted, self.splits[wanted.split].read(wanted)))

    def land(self, number: int = 0) -> None:
        if number >= len(self.flights):
            return
        name, landed, events = self.flights.pop(number)
        view = self.now.views.get(name)
        if view is None:
            return
        try:
            after = self.rules.land(view, landed)
        except OutOfPlace:
            return  # of a view of this name that was dropped, say
        view.handover = after
        view.rows.update(events)
        self.note(f"land {name} {landed.split}: {landed.start}..{landed.end - 1} {_said(after)}")

    def commit(self) -> None:
        self.check()
        self.committed = self.now.copy()

    def crash(self) -> None:
        self.now = self.committed.copy()
        self.rules.after_crash(self)
        self.note("crash")

    def note(self, line: str) -> None:
        self.trace.append(line)

    # --- the invariant -----------------------------------------------------------------------------------------

    def check(self) -> None:
        """A view holds what it has read of its history, and all that the stream has taken since it was created."""
        for name, view in self.now.views.items():
            for event, count in view.rows.items():
                if count != 1:
                    raise Violation(f"{name} has {event} {count} times")
            for split, offset in self.everything - self.removed:
                if split not in self.now.stream.next:
                    continue
                stage = view.handover.stages.get(split)
                read = stage is None or offset >= stage.until or stage.start <= offset < stage.at
                wanted = read and offset < self.now.stream.next[split] and offset >= view.starts.get(split, 0)
                if wanted != ((split, offset) in view.rows):
                    raise Violation(f"{name} {'lacks' if wanted else 'should not have'} {(split, offset)}")

    def finish(self) -> None:
        """Everybody reads to the end; then nothing may be missing."""
        for _ in range(10_000):
            self.epoch(40)
            self.commit()
            for name in self.now.views:
                self.launch(name, 30)
            while self.flights:
                self.land()
            self.commit()
            if all(view.handover.done for view in self.now.views.values()) and not self.now.stream.behind(self.extents):
                break
        else:
            raise Violation("it does not come to an end")
        for name, view in self.now.views.items():
            missing = {
                event
                for event in self.everything - self.removed
                if event[1] >= view.starts.get(event[0], 0) and event not in view.rows
            }
            if missing:
                raise Violation(f"{name} lacks {sorted(missing)[:3]}")


def _said(handover: Handover) -> str:
    return ", ".join(f"{split}@{stage.at}/{stage.until}" for split, stage in sorted(handover.stages.items()))


def history(seed: int, rules: Rules | None = None, steps: int = 40) -> World:
    """A random interleaving, to its end."""
    dice = random.Random(seed)
    world = World(rules, splits=dice.randint(1, 3))
    created = 0
    for _ in range(steps):
        split = dice.choice(list(world.splits))
        match dice.randrange(13):
            case 0 | 1 | 2:
                world.produce(split, dice.randint(0, 5), marks=dice.choice((0, 0, 1, 2)))
            case 3 | 4:
                world.epoch(dice.randint(1, 8))
            case 5:
                world.create(f"v{created}")
                created += 1
            case 6 | 7 if world.now.views:
                world.launch(dice.choice(list(world.now.views)), dice.randint(1, 6))
            case 8 | 9 if world.flights:
                # Chunks of different splits land in any order, those of one in theirs.
                world.land(dice.randrange(len(world.flights)))
            case 10:
                world.commit()
            case 11:
                world.crash()
            case 12:
                extra = dice.randrange(5)
                if extra == 0 and len(world.splits) < 5:
                    world.add_split()
                elif extra == 1 and world.now.views:
                    world.drop(dice.choice(list(world.now.views)))
                elif extra == 2 and world.splits[split].events:
                    world.compact(split, dice.choice(sorted(world.splits[split].events)))
                elif extra == 3:
                    world.retain(split, world.splits[split].begin + dice.randint(0, 3))
    world.commit()
    world.finish()
    return world
