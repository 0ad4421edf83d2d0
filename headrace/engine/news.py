"""What the log says of a change of state: which relations, jobs and parameters are others now, and who asked for it.

Names, kinds and states only. What a statement says may be a secret, and what rows hold is nobody's business.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar

from headrace.catalog import INTERNAL, Catalog, Relation
from headrace.engine import secrets
from headrace.state.manifest import Manifest

asking: ContextVar[str | None] = ContextVar("asking", default=None)
"""For whom this thread works, as log lines say it"""

_OF_JOBS = ("paused", "rate_limit", "pacing")
"""What somebody may change of a job"""


def news(before: Manifest, after: Manifest, by: str | None) -> list[str]:
    """Lines for the log; ``by``: whose statement it was."""
    found = []
    if before.catalog is not after.catalog:
        found += _of_relations(before.catalog, after.catalog)
    if before.positions is not after.positions:
        found += _of_jobs(before, after)
    if before.parameters != after.parameters:
        found += _of_parameters(before, after)
    if by is not None and before.offsets is not after.offsets:
        known, now = secrets.names(before), secrets.names(after)
        found += [f'secret "{name}" is made' for name in now if name not in known]
        found += [f'secret "{name}" is dropped' for name in known if name not in now]
    return found if by is None else [f"{by}: {line}" for line in found]


def _of_relations(before: Catalog, after: Catalog) -> Iterator[str]:
    for relation in before.relations.values():
        if relation.id not in after.relations and _is_told(relation):
            yield f"{_called(relation)} is dropped"
    for relation in after.relations.values():
        old = before.relations.get(relation.id)
        if old is relation or not _is_told(relation):
            continue
        if old is None:
            yield f"{_called(relation)} is made{', and being filled' if relation.creating else ''}"
        elif old.name != relation.name:
            yield f'{_called(old)} is called "{relation.name}" now'
        elif old.creating and not relation.creating:
            yield f"{_called(relation)} is filled"
        elif (old.columns, old.comment, old.parallelism) != (relation.columns, relation.comment, relation.parallelism):
            yield f"{_called(relation)} is altered"


def _is_told(relation: Relation) -> bool:
    return relation.kind != INTERNAL and not relation.temporary


def _called(relation: Relation) -> str:
    return f'{relation.kind} "{relation.name}"'


def _of_jobs(before: Manifest, after: Manifest) -> Iterator[str]:
    for id, job in after.positions.items():
        relation = after.catalog.relations.get(int(id))
        if (old := before.positions.get(id)) is job or relation is None or not _is_told(relation):
            continue
        subject = f'job {id} of "{relation.name}"'
        if old is None:
            yield f"{subject} begins"
        elif old["error"] is not None and job["error"] is None:
            yield f"{subject} begins anew"
        else:
            changed = [name for name in _OF_JOBS if old.get(name) != job.get(name)]
            yield from (f"{subject}: {name} is {job[name]} now" for name in changed)


def _of_parameters(before: Manifest, after: Manifest) -> Iterator[str]:
    for name in sorted(before.parameters.keys() | after.parameters.keys()):
        if before.parameters.get(name) != (text := after.parameters.get(name)):
            yield f"parameter {name} is {'its default' if text is None else text} now"
