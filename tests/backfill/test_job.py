from __future__ import annotations

import json

import pytest

from headrace.backfill.job import ALMOST, Input, Job, replica_needed_after
from headrace.backfill.positions import DONE, Chunk, Positions
from headrace.errors import HeadraceError


def job(**changes) -> Job:
    inputs = {
        1: Input(name="a", positions=Positions.start(2), rows_total=100),
        2: Input(name="b", positions=Positions.start(2), rows_total=100),
    }
    return Job(**{"id": 9, "name": "v", "statement": "CREATE …", "inputs": inputs, "created_epoch": 5} | changes)


def whole(vnode: int, rows: int = 50) -> Chunk:
    return Chunk(first_vnode=vnode, after=None, last_vnode=vnode, upto=None, rows=rows)


def test_everything_durable_survives_the_manifest():
    full = job(
        strategy="no_shuffle",
        parallelism=7,
        rate_limit=0,
        pacing="5000",
        paused=True,
        error="disk full",
        order=((1, 2),),
        started_at=12.5,
        background=True,
    ).land(1, Chunk(first_vnode=0, after=None, last_vnode=1, upto=b"\0k", rows=3), 3)
    copy = Job.from_json(json.loads(json.dumps(full.to_json())))
    assert copy == full
    assert copy.inputs[1].positions.vnodes == (DONE, b"\0k")


def test_a_job_of_an_older_version_does_not_know_whether_somebody_waited():
    data = job(background=False).to_json()
    del data["background"]
    assert Job.from_json(data).background is None


def test_landing_moves_one_input():
    after = job().land(1, whole(0), 50)
    assert after.inputs[1].rows_read == 50 and after.inputs[2].rows_read == 0
    assert (after.rows_read, after.rows_total) == (50, 200)
    with pytest.raises(HeadraceError, match="does not continue"):
        after.land(1, whole(0), 50)


def test_progress_is_never_100_percent_before_the_end():
    one = job(inputs={1: Input(positions=Positions.start(2), rows_total=100)})
    assert one.fraction == 0.0
    half = one.land(1, whole(0), 50)
    assert half.fraction == half.inputs[1].fraction == 0.5
    more_than_expected = one.land(1, whole(0), 500)
    assert more_than_expected.fraction == more_than_expected.inputs[1].fraction == ALMOST
    assert f"{more_than_expected.fraction:.0%}" == "99%"
    assert more_than_expected.land(1, whole(1), 0).fraction == 1.0


def test_progress_of_an_empty_upstream():
    empty = job(inputs={1: Input(positions=Positions.start(2))})
    assert (empty.fraction, empty.done) == (0.0, False)
    landed = empty.land(1, Chunk(first_vnode=0, after=None, last_vnode=1, upto=None, rows=0), 0)
    assert (landed.fraction, landed.done) == (1.0, True)


def test_the_total_follows_the_estimate():
    grown = job().land(1, whole(0), 50).estimate(1, 150)
    assert grown.inputs[1].rows_total == 200 and grown.inputs[1].fraction == 0.25


def test_progress_is_never_taken_back():
    one = job(inputs={1: Input(positions=Positions.start(2), rows_total=100)})
    half = one.land(1, whole(0), 50).estimate(1, 50)
    assert half.fraction == 0.5
    # As much again was written to what is still unread.
    grown = half.estimate(1, 150)
    assert (grown.rows_read, grown.rows_total, grown.fraction) == (50, 200, 0.5)
    assert Job.from_json(json.loads(json.dumps(grown.to_json()))).fraction == 0.5
    # What was there has been read at last, and there is still something to do.
    assert grown.estimate(1, 0).fraction == grown.estimate(1, 0).estimate(1, 50).fraction == ALMOST
    assert grown.land(1, whole(1), 150).fraction == 1.0


def test_states():
    assert job().state(committed_epoch=4) == "waiting for the first checkpoint"
    assert job(strategy="no_shuffle").state(committed_epoch=4) == "running"
    assert job().state(committed_epoch=5) == "running"
    assert job(paused=True).state(committed_epoch=4) == "paused"
    assert job(rate_limit=0).state(committed_epoch=5) == "paused"
    assert job(error="x", paused=True).state(committed_epoch=5) == "failed"
    done = {1: Input(positions=Positions((DONE,)))}
    assert job(inputs=done, paused=True).state(committed_epoch=5) == "done"


def test_an_input_waits_for_those_before_it():
    ordered = job(order=((1, 2),))
    assert ordered.open_inputs == [1]
    assert ordered.input_state(1, committed_epoch=5) == "running"
    assert ordered.input_state(2, committed_epoch=5) == "waiting for a"
    assert ordered.input_state(2, committed_epoch=4) == "waiting for the first checkpoint"
    ready = ordered.land(1, whole(0), 1).land(1, whole(1), 1)
    assert ready.open_inputs == [2]
    assert [ready.input_state(id, committed_epoch=5) for id in (1, 2)] == ["done", "running"]


def test_an_arrangement_reads_what_is_committed():
    assert job().snapshot(committed_epoch=4, last_epoch=7) is None
    assert job().snapshot(committed_epoch=5, last_epoch=7) == 5
    direct = job(strategy="no_shuffle")
    assert direct.snapshot(committed_epoch=4, last_epoch=4) is None
    assert direct.snapshot(committed_epoch=4, last_epoch=7) == 7


def test_the_replica_is_kept_for_the_oldest_chunk_in_flight():
    assert replica_needed_after(8, []) == 8
    assert replica_needed_after(8, [6, 7]) == 6
    assert replica_needed_after(8, [9]) == 8
