"""Which jobs read an upstream together."""

from __future__ import annotations

import pytest

from headrace.backfill.job import Input, Job
from headrace.backfill.positions import DONE, Chunk, Positions
from headrace.backfill.sharing import companions, follows, shares

T, U = 1, 2


def job(id: int, *vnodes, **options) -> Job:
    inputs = {T: Input(name="t", positions=Positions(vnodes or (None,) * 4))}
    return Job(id=id, name=f"v{id}", statement="", inputs=inputs, created_epoch=1, **options)


def planned(each: Job) -> Positions:
    return each.inputs[T].positions


def chunk(first: int, last: int, after: bytes | None = None, upto: bytes | None = None) -> Chunk:
    return Chunk(first_vnode=first, after=after, last_vnode=last, upto=upto, rows=100)


def test_a_job_joins_where_another_is():
    leader, late = job(5, DONE, DONE, None, None), job(6)
    assert companions(leader, [leader, late], T, chunk(2, 3), planned) == [late]


@pytest.mark.parametrize(
    ("positions", "of"),
    [
        ((None, None, None, None), chunk(1, 2, after=b"m")),  # its first vnode would lack what is before
        ((DONE, DONE, DONE, None), chunk(2, 3)),  # it would have rows twice
        ((DONE, None, b"k", None), chunk(1, 3)),
    ],
)
def test_a_job_takes_no_chunk_that_does_not_continue_from_where_it_is(positions, of):
    assert companions(job(5), [job(6, *positions)], T, of, planned) == []


@pytest.mark.parametrize(
    "options",
    [
        {"rate_limit": 100},
        {"paused": True},
        {"error": "no"},
        {"strategy": "no_shuffle"},
        {"pacing": "100"},
        {"parallelism": 2},
    ],
)
def test_jobs_that_differ_read_alone(options):
    assert shares(job(5), job(6), T)
    assert not shares(job(5), job(6, **options), T)
    assert not shares(job(5, **options), job(6), T)
    assert not follows(job(6, **options), [job(5)], T, planned)


def test_the_oldest_leads_as_long_as_it_has_what_others_want():
    assert not follows(job(5), [job(6)], T, planned)
    assert follows(job(6), [job(5)], T, planned)
    assert follows(job(6), [job(5, DONE, DONE, b"k", None)], T, planned)
    assert not follows(job(6), [job(5, DONE, DONE, DONE, b"k")], T, planned), "it is ahead of all that is left"
    assert not follows(job(6, None, None, DONE, DONE), [job(5, DONE, DONE, None, None)], T, planned)


def test_nobody_waits_for_a_job_that_reads_something_else_first():
    both = {U: Input(name="u", positions=Positions((None,) * 4)), **job(5).inputs}
    leader = job(5).replace(inputs=both)
    assert shares(leader, job(6), T) and not follows(job(6), [leader], T, planned)


def test_an_upstream_that_is_done_or_another_one():
    assert not shares(job(5, DONE, DONE, DONE, DONE), job(6), T)
    assert not shares(job(5), job(6), U)


def test_chunks_end_with_a_vnode_where_that_costs_little():
    assert chunk(0, 9, upto=b"m").to_vnode_end() == Chunk(first_vnode=0, after=None, last_vnode=8, upto=None, rows=90)
    assert chunk(0, 3, upto=b"m").to_vnode_end() == chunk(0, 3, upto=b"m")
    assert chunk(0, 9).to_vnode_end() == chunk(0, 9)
