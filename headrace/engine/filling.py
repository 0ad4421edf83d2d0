"""Jobs in the manifest: the views that are being filled, and what becomes of them."""

from __future__ import annotations

import dataclasses
import logging
import uuid
from collections.abc import Iterable, Sequence

from headrace.backfill.job import Job
from headrace.backfill.positions import Positions
from headrace.errors import HeadraceError
from headrace.state.manifest import Manifest
from headrace.state.runs import Run, RunFile

log = logging.getLogger("headrace")


def jobs_of(state: Manifest) -> dict[int, Job]:
    return {int(id): Job.from_json(data) for id, data in state.positions.items()}


def with_job(state: Manifest, job: Job) -> Manifest:
    return dataclasses.replace(state, positions=state.positions | {str(job.id): job.to_json()})


def without_job(state: Manifest, id: int) -> Manifest:
    positions = {key: data for key, data in state.positions.items() if key != str(id)}
    return dataclasses.replace(state, positions=positions)


def with_names(state: Manifest) -> Manifest:
    """Every job called what the catalog calls the relations now, after one of them was renamed."""
    relations = state.catalog.relations
    for job in jobs_of(state).values():
        inputs = {id: dataclasses.replace(each, name=relations[id].name) for id, each in job.inputs.items()}
        view = relations[job.id]
        state = with_job(state, job.replace(name=view.name, statement=view.definition, inputs=inputs))
    return state


def finished(state: Manifest, job: Job) -> Manifest:
    """The view as complete."""
    relation = state.catalog.relations[job.id].replace(creating=False)
    state = dataclasses.replace(with_chunks_joined(state, job.id), catalog=state.catalog.update(relation))
    return without_job(state, job.id)


def with_chunks_joined(state: Manifest, id: int) -> Manifest:
    """A relation is filled: its chunks are one run from now on, because no two of them share a key."""
    runs = state.runs.get(id, ())
    chunks = [run for run in runs if run.base]
    rest = tuple(run for run in runs if not run.base)
    if not chunks:
        return state
    first = min(run.first_epoch for run in chunks)
    files = tuple(file for run in chunks for file in run.files)
    whole = Run(id=uuid.uuid4().hex, first_epoch=first, last_epoch=first, level=1, files=files)
    return dataclasses.replace(state, runs=state.runs | {id: (whole, *rest)})


def failed(state: Manifest, id: int, error: HeadraceError) -> Manifest:
    """The job stopped, and its view empty: what is missing from now on could not be told from what is there.

    So do those of all that stand on it and are being made."""
    jobs = jobs_of(state)
    if id not in jobs:
        return state
    log.error('job %d of "%s" has failed, SHOW JOBS says why: %s', id, jobs[id].name, error.for_log)
    for each in (id, *(other.id for other in state.catalog.dependents(id))):
        if each in jobs:
            state = restarted(state, jobs[each].replace(error=error.message))
    return state


def restarted(state: Manifest, job: Job) -> Manifest:
    inputs = {
        key: dataclasses.replace(each, positions=Positions.start(), rows_read=0) for key, each in job.inputs.items()
    }
    runs = {key: each for key, each in state.runs.items() if key != job.id}
    return with_job(dataclasses.replace(state, runs=runs), job.replace(inputs=inputs, reached=0.0, built=0))


def new_runs(runs: Iterable[Run], files: Sequence[RunFile], epoch: int, *, base: bool = False) -> tuple[Run, ...]:
    """The runs with another one, if it has rows."""
    if not files:
        return tuple(runs)
    return (*runs, Run(id=uuid.uuid4().hex, first_epoch=epoch, last_epoch=epoch, files=tuple(files), base=base))
