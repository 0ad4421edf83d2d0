"""Jobs that read the same upstream at the same time read it once.

A position for each vnode means that a job may begin anywhere. So one that is created while another is half way through
the same upstream joins it there: it takes part in the other's chunks as long as they begin where it could begin itself,
which is at the start of a vnode that it has not begun, and comes back for the vnodes that it missed.

Of the jobs that could share, the oldest leads and chooses the chunks. The others wait for it, unless there is nothing
ahead of it that they want. Nobody waits for a job that does not go on by itself: one that is paused, has failed, or has
a rate limit, which others would have to keep as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.backfill.job import Job
from headrace.backfill.positions import Chunk, Positions
from headrace.errors import HeadraceError

Planned = Callable[[Job], Positions]
"""The positions that a job has in the upstream when all that is in flight has landed."""


def shares(one: Job, other: Job, upstream_id: int) -> bool:
    """Whether chunks of one job suit the other."""
    alike = (one.strategy, one.pacing, one.parallelism) == (other.strategy, other.pacing, other.parallelism)
    return alike and all(
        job.error is None and not job.paused and job.rate_limit is None and upstream_id in job.open_inputs
        for job in (one, other)
    )


def companions(leader: Job, jobs: Iterable[Job], upstream_id: int, chunk: Chunk, planned: Planned) -> list[Job]:
    """The jobs that this chunk of the leader's may land in, too."""
    return [
        job
        for job in jobs
        if job.id != leader.id and shares(leader, job, upstream_id) and _continues(planned(job), chunk)
    ]


def _continues(positions: Positions, chunk: Chunk) -> bool:
    try:
        positions.advance(chunk)
    except HeadraceError:
        return False
    return True


def follows(job: Job, jobs: Iterable[Job], upstream_id: int, planned: Planned) -> bool:
    """Whether a job should wait for the chunks of an older one: that has vnodes ahead which this one wants, too."""
    mine = planned(job)
    return any(
        shares(job, other, upstream_id)
        and other.open_inputs[0] == upstream_id  # else it reads another one first
        and any(own is None and its is None for own, its in zip(mine.vnodes, planned(other).vnodes, strict=True))
        for other in jobs
        if other.id < job.id
    )
