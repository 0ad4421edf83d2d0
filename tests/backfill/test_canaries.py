"""The simulation notices what it is there to notice: each way to get it wrong is caught within a few hundred histories.

A checker that never fails proves nothing. Each class below is a mistake that some system has shipped, or nearly.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from headrace.backfill.positions import DONE
from tests.backfill.histories import History
from tests.backfill.simulation import Rules, Violation

SEEDS = 500


class StrictlyBefore(Rules):
    """`<` instead of `<=`: changes of the row at the position itself are lost."""

    def passes(self, before, after, ident):
        position = after.of(ident[0])
        return position is DONE or (position is not None and ident[1] < position)


class UpToAndBeyond(Rules):
    """A vnode that has been started lets everything through: rows ahead of the position come twice."""

    def passes(self, before, after, ident):
        return after.of(ident[0]) is not None


class OldPositionWhenDone(Rules):
    """In the epoch that finishes a vnode its delta is still filtered by where it was before."""

    def passes(self, before, after, ident):
        return (before if after.of(ident[0]) is DONE else after).covers(*ident)


class OldPosition(Rules):
    """The delta is filtered by the positions from before the landing, though the chunk is older than the epoch."""

    def passes(self, before, after, ident):
        return before.covers(*ident)


class NoLateDeltas(Rules):
    """What happened to a chunk's rows between its snapshot and its landing is forgotten."""

    def late(self, world, view, flight, epoch):
        return ()


class LateDeltasOfAllKeys(Rules):
    """Late deltas are not restricted to the chunk's range."""

    def late(self, world, view, flight, epoch) -> Iterable:
        kept = world.relations[flight.upstream].deltas
        return [(each, change) for each in range(flight.snapshot + 1, epoch) for change in kept.get(each, ())]


class LateDeltasFromTheSnapshotOn(Rules):
    """Off by one: the delta of the snapshot's own epoch is in the snapshot already."""

    def late(self, world, view, flight, epoch):
        own = world.relations[flight.upstream].deltas.get(flight.snapshot, ())
        yield from ((flight.snapshot, change) for change in own if flight.chunk.holds(*change[0]))
        yield from super().late(world, view, flight, epoch)


class NoReplica(Rules):
    """Committed data is read, and nothing is kept of what is not committed: the dropped update of epochs 4 and 5."""

    def late(self, world, view, flight, epoch):
        for each, change in super().late(world, view, flight, epoch):
            if each <= world.committed:
                yield each, change


class ReplicaDroppedAtTheCheckpoint(Rules):
    """The replica goes at the checkpoint, although a chunk in flight was read before it."""

    def replica_needed_after(self, world, view):
        return world.committed


class FirstReadTooEarly(Rules):
    """The first chunk is read before the checkpoint that contains the creation: what lies between is nowhere."""

    def snapshot(self, world, view):
        if view.job.strategy == "no_shuffle":
            return super().snapshot(world, view)
        return world.committed


class UncommittedRead(Rules):
    """An arrangement reads as of the last epoch, but late deltas are taken from the last checkpoint on."""

    def late(self, world, view, flight, epoch):
        upstream = world.relations[flight.upstream]
        for each in range(min(world.committed, flight.snapshot) + 1, epoch):
            for change in upstream.deltas.get(each, ()):
                if flight.chunk.holds(*change[0]):
                    yield each, change


class PositionsCommittedAlone(Rules):
    """After a crash the positions are further than the rows."""

    def recovered(self, committed, *, running):
        return running


@pytest.mark.parametrize(
    "mistake",
    [
        StrictlyBefore,
        UpToAndBeyond,
        OldPositionWhenDone,
        OldPosition,
        NoLateDeltas,
        LateDeltasOfAllKeys,
        LateDeltasFromTheSnapshotOn,
        NoReplica,
        ReplicaDroppedAtTheCheckpoint,
        FirstReadTooEarly,
        UncommittedRead,
        PositionsCommittedAlone,
    ],
)
def test_it_is_caught(mistake):
    for seed in range(SEEDS):
        try:
            History(seed, mistake()).run(epochs=6 + seed % 9)
        except Violation:
            return
    pytest.fail(f"{mistake.__name__}: {SEEDS} histories did not notice")
