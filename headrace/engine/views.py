"""New materialized views: what is stored for one, and the jobs that fill it.

A linear view is one relation. Any other is cut into pieces (:mod:`headrace.plan.cut`): internal tables, and the view
itself, which is the last piece.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from headrace.backfill.job import Job
from headrace.backfill.order import check_order
from headrace.catalog import INTERNAL, MATERIALIZED_VIEW, SOURCE, Catalog, Relation
from headrace.engine import moments
from headrace.engine.feeds import Extents, events_for, restarted_view, sources_of
from headrace.engine.filling import restarted, with_job
from headrace.engine.jobs import jobs_for, new_job
from headrace.engine.moments import CLOCK, timed
from headrace.engine.plans import describe_view, refuse_unfinished
from headrace.errors import Unsupported
from headrace.plan.cut import cut
from headrace.plan.finished import finished
from headrace.plan.keys import StreamKey
from headrace.plan.pieces import Keyed
from headrace.plan.top import has_order
from headrace.sql import statements as ast
from headrace.sql.bind import BoundQuery, bind_query
from headrace.sql.dialect import parse_query, print_sql
from headrace.state.keys import KeyCodec
from headrace.state.manifest import Manifest

if TYPE_CHECKING:
    from headrace.engine.engine import Engine


@dataclass(frozen=True, kw_only=True)
class NewView:
    relation: Relation
    made: tuple[Relation, ...] = ()
    """The internal tables that are not there yet, upstream before downstream."""
    key: StreamKey | None = None
    """The plan of a linear one."""
    catalog: Catalog
    """With the internal tables."""


def new_view(
    engine: Engine, statement: ast.CreateMaterializedView, state: Manifest, names: tuple[str, ...], epoch: int
) -> NewView:
    """What the statement would make."""
    catalog = state.catalog
    bound = bind_query(statement.query, catalog, functions=engine.functions, zone=statement.zone, definition=True)
    refuse_unfinished(catalog, bound)
    _refuse_finished(catalog, bound)
    try:
        _, key, columns = describe_view(_copied(bound), catalog, names)
    except Unsupported:
        if bound.as_of is not None:
            raise
        return _cut_view(statement, bound, catalog, names, epoch)
    if len({catalog.relations[id].kind == SOURCE for id in bound.relations}) > 1:
        # Sources and stored relations are filled in two ways: what comes of the sources is stored first.
        return _cut_view(statement, bound, catalog, names, epoch)
    relation = Relation(
        id=catalog.next_id,
        columns=columns,
        pk=key.pk,
        distribution=key.distribution,
        **_as_asked(statement, bound, epoch),
    )
    return NewView(relation=relation, key=key, catalog=catalog)


def _copied(bound: BoundQuery) -> BoundQuery:
    """For a plan that may not work out: making it changes the tree."""
    return dataclasses.replace(bound, expression=bound.expression.copy())


def _as_asked(statement: ast.CreateMaterializedView, bound: BoundQuery, epoch: int) -> dict[str, Any]:
    return {
        "name": statement.name,
        "kind": MATERIALIZED_VIEW,
        "definition": statement.sql,
        "query": bound.text(),
        "depends_on": tuple(dict.fromkeys((*bound.depends_on, *bound.relations))),
        "options": statement.options,
        "created_epoch": epoch,
    }


def _cut_view(
    statement: ast.CreateMaterializedView, bound: BoundQuery, catalog: Catalog, names: tuple[str, ...], epoch: int
) -> NewView:
    piece, arrangements = cut(bound, catalog, statement.name, names)
    asked = _as_asked(statement, bound, epoch)
    made = tuple(each.replace(created_epoch=epoch, definition=each.query) for each in arrangements.made)
    with_made = Catalog(arrangements.catalog.relations | {each.id: each for each in made}, arrangements.catalog.next_id)
    key = None
    if isinstance(piece, Keyed):
        relation = arrangements.keyed(piece)
    else:
        last, key, columns = describe_view(parse_query(print_sql(piece)), with_made, names)
        relation = Relation(
            id=with_made.next_id,
            name="",
            kind=MATERIALIZED_VIEW,
            columns=columns,
            pk=key.pk,
            distribution=key.distribution,
            maintained=last.text(),
            reads=last.relations,
        )
    depends_on = tuple(dict.fromkeys((*asked["depends_on"], *relation.reads)))
    relation = relation.replace(**(asked | {"depends_on": depends_on}))
    if dict(statement.options).get("refresh") == "incremental":
        _refuse_recomputing(with_made, (*made, relation))
    for each in (*made, relation):
        _refuse_without_order(each)
        KeyCodec.of(each)
    return NewView(relation=relation, made=made, key=key, catalog=with_made)


def _refuse_without_order(relation: Relation) -> None:
    """The columns of such a key may have names that nobody has given them."""
    for key in relation.pk:
        kind = relation.column(key.name).type
        if not has_order(kind):
            raise Unsupported(
                f"telling rows apart by a value of type {kind} is not supported in a materialized view yet",
                hint="group, join, sort or compare by another one: it can be cast to varchar",
            )


def _refuse_finished(catalog: Catalog, bound: BoundQuery) -> None:
    """An internal table can be read like any other, but one without history cannot fill a view."""
    for relation in (catalog.relations[id] for id in bound.relations):
        if finished(relation, catalog) is not None:
            raise Unsupported(
                f'a materialized view on "{relation.name}", which loses the rows of windows that have closed',
                hint=f'create it on what "{catalog.owner(relation).name}" reads',
            )


def _refuse_recomputing(catalog: Catalog, relations: tuple[Relation, ...]) -> None:
    for each in relations:
        if each.operator is None:
            continue
        # One row that is joined with all others is as good as a constant.
        if each.operator.recomputes or any(catalog.relations[id].pk for id in each.operator.whole):
            raise Unsupported(
                "a part of the query can only be computed anew as a whole when its inputs change",
                hint="EXPLAIN says which; leave out refresh = 'incremental' to have it so",
            )


def add_view(
    engine: Engine,
    view: NewView,
    state: Manifest,
    options: dict[str, Any],
    epoch: int,
    extents: Extents | None = None,
) -> tuple[Manifest, Relation | None]:
    """The state with the view, and with a job for each of its relations that has something to be filled with.
    ``extents``: what there is now of the sources that it reads.

    Answers the view, if it is one of them.
    """
    order: tuple[tuple[str, str], ...] = options["backfill_order"]
    cut_in_pieces = view.relation.maintained is not None
    if cut_in_pieces:
        read = [view.catalog.relations[id] for id in view.relation.depends_on if id in state.catalog.relations]
        check_order(order, [each.name for each in read if each.stored and each.kind != INTERNAL])
        options = options | {"backfill_order": ()}
    parallelism = options["streaming_parallelism"] or 0
    if CLOCK not in state.offsets and timed(view.catalog.update(view.relation)):
        state = dataclasses.replace(state, offsets=state.offsets | {CLOCK: moments.read_clock()})
    for each in (*view.made, view.relation):
        if sources_of(state.catalog, each):
            state = engine.event_sources.attach(state, each, extents or {}, options, epoch)
            continue
        each = each.replace(parallelism=parallelism)
        inputs = [state.catalog.relations[id] for id in state.catalog.inputs_of(each)]
        rows = {id: sum(run.rows for run in runs) for id, runs in state.runs.items()}
        job = _job(engine, state.catalog.add(each), each, options, rows, epoch)
        # Nothing comes of nothing, but for an aggregate of it.
        stored = state.catalog.stored_inputs(input.id for input in inputs)
        empty = not any(input.creating for input in inputs) and not any(state.runs.get(id) for id in stored)
        complete = empty and (each.operator is None or bool(each.operator.key))
        relation = each.replace(creating=not complete)
        state = dataclasses.replace(state, catalog=state.catalog.add(relation))
        if not complete:
            after = _after(view, each, order) if cut_in_pieces else ()
            state = with_job(state, job.replace(after=after))
    relation = state.catalog.relations[view.relation.id]
    if not relation.creating:
        return state, None
    for job in jobs_for(state, relation.id):
        if job.error is not None:  # an internal table that it shares, which failed for another view
            state = restarted(state, job.replace(error=None, created_epoch=epoch))
    for id, events in events_for(state, relation.id).items():
        if events.error is not None:
            state = restarted_view(state, id, events, epoch)
    return state, relation


def _after(view: NewView, relation: Relation, order: tuple[tuple[str, str], ...]) -> tuple[int, ...]:
    """The internal tables of the view that are to be filled before this one, because they read what comes first.

    Only those that read one relation wait, and are waited for: so nobody waits for whom waits for him.
    """
    own = _only_input(view, relation)
    firsts = [first for first, then in order if then == own]
    return tuple(each.id for each in view.made if _only_input(view, each) in firsts)


def _only_input(view: NewView, relation: Relation) -> str | None:
    ids = relation.reads or relation.depends_on
    found = view.catalog.relations[ids[0]] if len(ids) == 1 else None
    return found.name if found is not None and found.kind != INTERNAL else None


def _job(
    engine: Engine, catalog: Catalog, relation: Relation, options: dict[str, Any], rows: dict[int, int], epoch: int
) -> Job:
    if relation.operator is None:
        return new_job(engine, catalog, relation, options, rows=rows, epoch=epoch)
    return Job(
        id=relation.id,
        name=relation.name,
        statement=relation.definition,
        rate_limit=options["backfill_rate_limit"],
        created_epoch=epoch,
        started_at=time.time(),
        background=options["background_ddl"],
        builds=True,
    )
