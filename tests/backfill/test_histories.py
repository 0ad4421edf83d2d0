"""Many random histories, the invariant checked at every barrier of each.

Half of the seeds are the same in every run, half are new. ``BACKFILL_HISTORIES=1000000`` looks further.
"""

from __future__ import annotations

import os
from random import SystemRandom

import pytest

from tests.backfill.histories import History, check

COUNT = int(os.environ.get("BACKFILL_HISTORIES", "16000"))
PARTS = 8
NEW = SystemRandom().randrange(10**6, 10**9)


@pytest.mark.timeout(max(300, COUNT))
@pytest.mark.parametrize("part", range(PARTS))
def test_the_invariant_holds_at_every_barrier(part):
    for start in (0, NEW):
        for seed in range(start + part, start + COUNT // 2, PARTS):
            check(seed)


def test_histories_come_to_where_it_is_interesting():
    """A generator that never reaches a case does not test it."""
    seen = dict.fromkeys(
        ("late", "drop", "late retraction", "several landings", "cut", "in flight over a checkpoint", "on a view",
         "two inputs", "some done, some partial, some not started", "finished in an epoch with writes", "no pk"), 0
    )  # fmt: skip
    for seed in range(400):
        history = History(seed)
        world = history.world
        derive, plan = world._derive, world.plan

        def watch_derive(view, epoch, history=history, world=world, derive=derive):
            landing = [flight for flight in view.flights if flight.ready]
            was_done = view.job.done
            delta = derive(view, epoch)
            whys = {each.why for each in view.emitted}
            states = {type(p) for each in view.job.inputs.values() for p in each.positions.vnodes}
            seen["late"] += "late" in whys
            seen["drop"] += "drop" in whys
            seen["late retraction"] += any(each.why == "late" and each.weight < 0 for each in view.emitted)
            seen["several landings"] += len(landing) > 1
            seen["in flight over a checkpoint"] += any(flight.snapshot < world.committed for flight in landing)
            seen["on a view"] += any(id > len(history.tables) for id in view.job.inputs)
            seen["two inputs"] += len(view.job.inputs) > 1
            seen["some done, some partial, some not started"] += len(states) == 3
            seen["finished in an epoch with writes"] += view.job.done and not was_done and "live" in whys
            return delta

        def watch_plan(view, budget, *, far, plan=plan):
            started = plan(view, budget, far=far)
            seen["cut"] += any(len(flight.rows) == budget and flight.chunk.upto is not None for flight in started)
            return started

        world._derive, world.plan = watch_derive, watch_plan
        seen["no pk"] += history.idents[0][1] == b""
        history.run(epochs=6 + seed % 9)
    assert min(seen.values()) >= 20, seen
