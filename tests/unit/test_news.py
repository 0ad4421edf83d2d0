"""What the log says of a change of state."""

from __future__ import annotations

import dataclasses

from headrace.backfill.job import Job
from headrace.catalog import INTERNAL, MATERIALIZED_VIEW, TABLE, Catalog, Column, Relation
from headrace.engine.filling import with_job
from headrace.engine.news import news
from headrace.engine.secrets import PREFIX
from headrace.state.manifest import Manifest
from headrace.types import SqlType

TABLE_T = Relation(id=1, name="t", kind=TABLE, columns=(Column(name="id", type=SqlType("integer")),))
VIEW_V = Relation(id=2, name="v", kind=MATERIALIZED_VIEW, columns=TABLE_T.columns, depends_on=(1,), creating=True)
HIDDEN = (
    Relation(id=3, name="v 1", kind=INTERNAL, columns=TABLE_T.columns),
    Relation(id=4, name="mine\0007", kind=TABLE, columns=TABLE_T.columns, temporary=True),
)


def state(*relations: Relation, **more) -> Manifest:
    return Manifest(catalog=Catalog({each.id: each for each in relations}), **more)


def test_relations():
    assert news(state(), state(TABLE_T, VIEW_V, *HIDDEN), "session 7") == [
        'session 7: table "t" is made',
        'session 7: materialized view "v" is made, and being filled',
    ]
    assert news(state(VIEW_V), state(VIEW_V.replace(creating=False)), None) == ['materialized view "v" is filled']
    assert news(state(TABLE_T), state(TABLE_T.replace(name="u")), None) == ['table "t" is called "u" now']
    assert news(state(TABLE_T), state(TABLE_T.replace(comment="mine")), None) == ['table "t" is altered']
    assert news(state(VIEW_V), state(VIEW_V.replace(query="SELECT 2")), None) == [], "what it names was renamed"
    assert news(state(TABLE_T, *HIDDEN), state(), None) == ['table "t" is dropped']


def test_jobs():
    job = Job(id=2, name="v", statement="", created_epoch=1)
    empty, begun = state(VIEW_V), with_job(state(VIEW_V), job)
    assert news(empty, begun, None) == ['job 2 of "v" begins']
    changed = with_job(begun, job.replace(paused=True, rate_limit=5))
    assert news(begun, changed, "session 1") == [
        'session 1: job 2 of "v": paused is True now',
        'session 1: job 2 of "v": rate_limit is 5 now',
    ]
    failed = with_job(begun, job.replace(error='invalid input: "pr1vate"'))
    assert news(begun, failed, None) == [], "that is said where the error is known"
    assert news(failed, begun, None) == ['job 2 of "v" begins anew']


def test_the_rest():
    before = state(TABLE_T)
    secret = dataclasses.replace(before, offsets={f"{PREFIX}word": "secrets/1", "row_id": 7})
    assert news(before, secret, "session 1") == ['session 1: secret "word" is made']
    assert news(secret, before, "session 1") == ['session 1: secret "word" is dropped']
    held = dataclasses.replace(before, parameters={"paused": "true"})
    assert news(before, held, None) == ["parameter paused is true now"]
    assert news(held, before, None) == ["parameter paused is its default now"]
    assert news(before, before, "session 1") == []
