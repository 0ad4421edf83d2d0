"""Jobs: views and indexes that are being filled. What is asked of one is a mutation and takes effect at a barrier."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from headrace.backfill.job import ALMOST, Input, Job
from headrace.backfill.order import check_order
from headrace.backfill.positions import Positions, partitions
from headrace.backfill.schemas import Schemas
from headrace.catalog import INDEX, INTERNAL, MATERIALIZED_VIEW, SOURCE, Catalog, Relation
from headrace.config import PARAMETERS
from headrace.engine.feeds import events_for, views_being_filled, with_view
from headrace.engine.filling import jobs_of, restarted, with_job
from headrace.engine.following import is_following, tables_of, with_following, without
from headrace.engine.held import views_behind
from headrace.errors import (
    HeadraceError,
    InvalidParameterValue,
    JobCancelled,
    JobFailed,
    QueryCancelled,
    UndefinedJob,
    Unsupported,
)
from headrace.plan.explain import name_list
from headrace.plan.nodes import Scan
from headrace.sql import statements as ast
from headrace.sql.jobs import backfill_order
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.vnode import VNODES

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

Patience = Callable[[Future], Any]
"""How to wait for something: a client may lose patience, and then it raises."""

OPTIONS = ("backfill_rate_limit", "backfill_pacing", "streaming_parallelism", "streaming_use_arrangement_backfill")
REFRESH = ("auto", "incremental")
"""Whether a view may have a part that is computed anew as a whole when its inputs change, or must not."""
_SHORT = {"parallelism": "streaming_parallelism", "rate_limit": "backfill_rate_limit"}


def job_options(options: tuple[tuple[str, str], ...], variables: Mapping[str, Any]) -> dict[str, Any]:
    """What a new job is asked for: in WITH (…), or else by the session's variables."""
    found = {name: variables[name] for name in (*OPTIONS, "background_ddl")} | {"backfill_order": ()}
    for given, text in options:
        name = _SHORT.get(given.lower(), given.lower())
        if name == "backfill_order":
            order = backfill_order(text)
            found[name] = () if isinstance(order, str) else order
        elif name == "refresh":
            if text not in REFRESH:
                raise InvalidParameterValue(f'invalid value for refresh: "{text}"', hint=f"use {' or '.join(REFRESH)}")
        elif name in OPTIONS:
            found[name] = PARAMETERS[name].parse(text)
        else:
            known = ", ".join(sorted((*OPTIONS, "backfill_order", "refresh", *_SHORT)))
            raise InvalidParameterValue(f'option "{given}" is not known', hint=f"these are: {known}")
    return found


def new_job(
    engine: Engine,
    catalog: Catalog,
    relation: Relation,
    options: dict[str, Any],
    *,
    rows: Mapping[int, int],
    epoch: int,
) -> Job:
    """``rows``: how many there are in each stored relation."""
    upstreams = inputs_of(catalog, relation)
    names = {each.name: each.id for each in upstreams}
    order = options["backfill_order"]
    check_order(order, names)
    arranged = options["streaming_use_arrangement_backfill"]
    parallelism = options["streaming_parallelism"] or engine.default_parallelism
    if not arranged:
        of_upstreams = {each.parallelism or engine.default_parallelism for each in upstreams}
        if options["streaming_parallelism"] not in (None, *of_upstreams) or len(of_upstreams) > 1:
            raise Unsupported(
                f'"{relation.name}" cannot have a parallelism of its own without arrangement backfill',
                hint="SET streaming_use_arrangement_backfill = true, or leave the parallelism out",
            )
        parallelism = of_upstreams.pop()
    partitions(parallelism)  # refuses what is not possible
    return Job(
        id=relation.id,
        name=relation.name,
        statement=relation.definition,
        strategy="arrangement" if arranged else "no_shuffle",
        parallelism=parallelism,
        rate_limit=options["backfill_rate_limit"],
        pacing=str(options["backfill_pacing"]),
        order=tuple((names[first], names[then]) for first, then in order),
        inputs={
            each.id: Input(name=each.name, positions=Positions.start(), rows_total=rows.get(each.id, 0))
            for each in upstreams
        },
        created_epoch=epoch,
        started_at=time.time(),
        background=options["background_ddl"],
    )


def scan_fields(upstream: Relation, scan: Scan, options: Mapping[str, Any]) -> dict[str, str]:
    """How a new view would be filled from one of its inputs, for EXPLAIN."""
    if upstream.kind == SOURCE:
        fields = {"stream_scan_type": "SourceBackfill", "backfill_sends": name_list(scan.columns)}
        limit = options["backfill_rate_limit"]
        return fields if limit is None else fields | {"rate_limit": f"{limit}/s"}
    schemas = Schemas.of_relation(upstream, scan.columns)
    arranged = options["streaming_use_arrangement_backfill"]
    parallelism = options["streaming_parallelism"] if arranged else upstream.parallelism
    fields = {
        "stream_scan_type": "ArrangementBackfill" if arranged else "NoShuffle",
        "upstream_sends": name_list(schemas.output),
        "backfill_sends": name_list(schemas.view),
        "pacing": str(options["backfill_pacing"]),
    }
    if options["backfill_rate_limit"] is not None:
        fields["rate_limit"] = f"{options['backfill_rate_limit']}/s"
    return fields | {"parallelism": str(parallelism or "adaptive")}


def inputs_of(catalog: Catalog, relation: Relation) -> list[Relation]:
    """The stored relations that a view reads, plain views between them left out."""
    return catalog.in_order(catalog.inputs_of(relation))


class Jobs:
    def __init__(self, engine: Engine):
        self._engine = engine

    # --- requests ----------------------------------------------------------------------------------------------

    def cancel(self, ids: tuple[int, ...]) -> list[int]:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, list[int]]:
            mine = (self._engine.source_jobs, self._engine.view_jobs)
            cancelled = [id for id in ids if str(id) in state.positions or any(jobs.has(state, id) for jobs in mine)]
            for id in cancelled:
                state = self._engine.source_jobs.given_up(state, id) or dropped(state, state.catalog.relations[id])
            return state, cancelled

        before = self._engine.committed
        cancelled = self._engine.coordinator.mutate(apply, "CANCEL JOBS")
        self._engine.sources.dropped(before)
        return cancelled

    def pause(self, id: int, *, paused: bool) -> None:
        if self._follows(id):
            return self._engine.source_jobs.pause(id, paused=paused)
        for each in events_for(self._engine.committed, id):
            self._engine.view_jobs.pause(each, paused=paused)
        if self._engine.view_jobs.has(self._engine.committed, id):
            return None

        def change(state: Manifest, job: Job, epoch: int) -> Manifest:
            if paused or job.error is None:
                return with_job(state, job.replace(paused=paused))
            # It failed: what it has read is gone, and it begins anew.
            return restarted(state, job.replace(paused=False, error=None, created_epoch=epoch))

        return self._change(id, change, "PAUSE" if paused else "RESUME")

    def _follows(self, id: int) -> bool:
        return is_following(self._engine.committed, id)

    def set_rate_limit(self, statement: ast.SetBackfillRateLimit) -> str | None:
        state = self._engine.committed
        relation = state.catalog.get(statement.name, statement.kind)
        of_source = list(tables_of(state, relation.id)) if relation.kind == SOURCE else [relation.id]
        if filling := [id for id in of_source if self._engine.source_jobs.has(state, id)]:
            for id in filling:
                with suppress(UndefinedJob):  # what has just ended needs no limit
                    self._engine.source_jobs.set_rate_limit(id, statement.limit)
            return None
        on_source = [id for id, view in views_being_filled(state).items() if relation.id in view.inputs]
        for id in (limited := [*on_source, *events_for(state, relation.id)]):
            with suppress(UndefinedJob):
                self._engine.view_jobs.set_rate_limit(id, statement.limit)
        complete = f'{relation.kind} "{relation.name}" is complete: there is nothing to limit'
        if str(relation.id) not in state.positions:
            return None if limited else complete
        try:
            self._change(
                relation.id, lambda state, job, _: with_job(state, job.replace(rate_limit=statement.limit)), "ALTER"
            )
        except UndefinedJob:  # it has just been filled, or dropped
            self._engine.committed.catalog.get(statement.name, statement.kind)
            return complete
        return None

    def set_parallelism(self, statement: ast.SetParallelism) -> None:
        wanted = statement.parallelism or 0
        if wanted:
            partitions(wanted)
        actual = wanted or self._engine.default_parallelism

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            relation = state.catalog.get(statement.name, statement.kind)
            jobs = jobs_of(state)
            job = jobs.get(relation.id)
            if job is not None and job.strategy == "no_shuffle" and actual != job.parallelism:
                upstream = ", ".join(f'"{each.name}"' for each in job.inputs.values())
                raise Unsupported(
                    f'"{relation.name}" is filled without shuffle: its parallelism is that of {upstream}',
                    hint=f"ALTER {upstream} SET PARALLELISM, which it follows, or create it with arrangement backfill",
                )
            catalog = state.catalog.update(relation.replace(parallelism=wanted))
            state = dataclasses.replace(state, catalog=catalog)
            # … and the internal tables that a view waits for, as far as they have one of their own
            for each in jobs_for(state, relation.id) if job is not None else ():
                if each.id == relation.id or each.strategy == "arrangement":
                    state = with_job(state, each.replace(parallelism=actual))
            for id, events in events_for(state, relation.id).items():
                state = with_view(state, id, dataclasses.replace(events, parallelism=actual))
            for id, following in tables_of(state, copies=True).items():
                if relation.id in (id, following.copy_of):
                    state = with_following(state, id, dataclasses.replace(following, parallelism=actual))
            for other in jobs.values():
                if other.strategy == "no_shuffle" and relation.id in other.inputs:
                    state = with_job(state, other.replace(parallelism=actual))
            return state, None

        self._engine.coordinator.mutate(apply, "ALTER")

    def _change(self, id: int, change: Callable[[Manifest, Job, int], Manifest], what: str) -> None:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, None]:
            if id not in jobs_of(state):
                raise _no_job(id)
            for job in jobs_for(state, id):
                state = change(state, job, epoch)
            return state, None

        self._engine.coordinator.mutate(apply, what)

    # --- waiting -----------------------------------------------------------------------------------------------

    def wait(self, name: str | None = None, *, patience: Patience = Future.result) -> None:
        """Until a job, or every job there is now, is done."""
        state = self._engine.committed
        if name is None:
            ids = [*map(int, state.positions), *tables_of(state), *views_being_filled(state)]
        else:
            relation = state.catalog.get(name)
            ids = [relation.id if relation.follows else state.catalog.get(name, MATERIALIZED_VIEW, INDEX).id]
        for id in ids:
            patience(self.finished(id))

    def finished(self, id: int) -> Future:
        if self._follows(id):
            return self._engine.source_jobs.finished(id)
        if self._engine.view_jobs.has(self._engine.committed, id):
            return self._engine.view_jobs.finished(id)
        return self._engine.backfills.wait(id, lambda: self._engine.committed)

    def wait_or_remove(self, relation: Relation, *, patience: Patience = Future.result) -> None:
        """For a CREATE that waits: whoever gives up, or is told that it failed, leaves nothing behind. If a client went
        away without a word, the job goes on."""
        future = self.finished(relation.id)
        try:
            patience(future)
        except JobCancelled:
            raise
        except JobFailed as error:
            reason = self._engine.backfills.reason(relation.id) or error
            self.cancel((relation.id,))
            told = type(reason)(f'{relation.kind} "{relation.name}" was not created: {error.message}')
            told.sqlstate = reason.sqlstate
            raise told from None
        except (KeyboardInterrupt, QueryCancelled):  # Ctrl-C, of the shell or of a client
            self.cancel((relation.id,))
            raise

    # --- looking -----------------------------------------------------------------------------------------------

    def list(self) -> list[dict[str, Any]]:
        """What there is to say about each job; cheap."""
        state = self._engine.committed
        mine = [self._progress(state, job) for job in jobs_of(state).values()]
        behind = [_behind(*each) for each in views_behind(state)]
        return [*mine, *self._engine.source_jobs.list(), *self._engine.view_jobs.list(), *behind]

    def progress(self, id: int) -> dict[str, Any]:
        for job in self.list():
            if job["id"] == id:
                return job
        raise UndefinedJob(f"there is no job {id}", hint="SHOW JOBS lists them")

    def positions(self, id: int) -> list[tuple[str, int | None, str]]:
        """Where every vnode is, of each input; of a source's table, which keys have been read."""
        state = self._engine.committed
        if self._follows(id):
            return self._engine.source_jobs.positions(id)
        if self._engine.view_jobs.has(state, id):
            return self._engine.view_jobs.positions(id)
        job = jobs_of(state).get(id)
        if job is None:
            raise _no_job(id)
        return [
            (each.name, vnode, text)
            for upstream_id, each in job.inputs.items()
            for vnode, text in each.positions.describe(Layout.of(state.catalog.relations[upstream_id]).codec)
        ]

    def _progress(self, state: Manifest, job: Job) -> dict[str, Any]:
        rate = self._engine.backfills.rate(job.id)
        together = jobs_for(state, job.id)
        rows_read, rows_total = sum(each.rows_read for each in together), sum(each.rows_total for each in together)
        for events in events_for(state, job.id).values():
            rows_read, rows_total = rows_read + events.read, rows_total + events.total
        left = max(0, rows_total - rows_read)
        described = job.state(committed_epoch=state.epoch)
        inputs = {each.name: job.input_state(id, committed_epoch=state.epoch) for id, each in job.inputs.items()}
        if job.builds:
            upstream = [state.catalog.relations[id] for id in state.catalog.relations[job.id].reads]
            inputs = {each.name: "waited for" if each.creating else "done" for each in upstream}
            if described == "running" and (waiting := [each.name for each in upstream if each.creating]):
                described = f"waiting for {', '.join(waiting)}"
        if described == "running" and (first := [each for each in jobs_of(state).values() if each.id in job.after]):
            described = f"waiting for {', '.join(each.name for each in first)}"
        if described == "running" and self._engine.parameter("paused"):
            described = "paused"
        fraction = job.fraction
        if job.builds:  # half of the way is to its inputs, and half from there
            read = rows_read / rows_total if rows_total else 0.0
            waited_for = any(state == "waited for" for state in inputs.values())
            fraction = min(0.5 * read if waited_for else 0.5 + 0.5 * job.built / VNODES, ALMOST)
        return {
            "id": job.id,
            "name": job.name,
            "statement": job.statement,
            "background": job.background,
            "state": described,
            "error": job.error,
            "strategy": job.strategy,
            "parallelism": job.parallelism,
            "rate_limit": job.rate_limit,
            "fraction": fraction,
            "rows_read": rows_read,
            "rows_total": rows_total,
            "rows_in_flight": self._engine.backfills.rows_in_flight(job.id),
            "rows_per_second": rate,
            "seconds_left": left / rate if rate and described == "running" else None,
            "started_at": job.started_at,
            "inputs": inputs,
            "splits_done": None,
            "splits_total": None,
            "lag_bytes": None,
            "lag_seconds": None,
        }


def _behind(view: Relation, error: str, since: float) -> dict[str, Any]:
    """A view that is complete, but cannot follow the clock."""
    nothing = ("rows_per_second", "seconds_left", "splits_done", "splits_total", "lag_bytes", "lag_seconds")
    return {
        "id": view.id,
        "name": view.name,
        "statement": view.definition,
        "background": None,
        "state": "behind the clock",
        "error": error,
        "strategy": None,
        "parallelism": view.parallelism,
        "rate_limit": None,
        "fraction": 1.0,
        "rows_read": 0,
        "rows_total": 0,
        "rows_in_flight": 0,
        "started_at": since,
        "inputs": {},
        **dict.fromkeys(nothing),
    }


def jobs_for(state: Manifest, id: int) -> list[Job]:
    """The job, and those of the internal tables that its view waits for."""
    jobs, relations = jobs_of(state), state.catalog.relations
    found, waiting = [jobs[id]] if id in jobs else [], [id]
    while waiting:
        below = [relations[each] for each in relations[waiting.pop()].depends_on if each in relations]
        for each in below:
            if each.kind == INTERNAL and each.id in jobs and jobs[each.id] not in found:
                found.append(jobs[each.id])
                waiting.append(each.id)
    return found


def _no_job(id: int) -> HeadraceError:
    return UndefinedJob(f"there is no job {id}", hint="SHOW JOBS lists them")


def dropped(state: Manifest, relation: Relation) -> Manifest:
    """Without a relation that nothing depends on, and all that is known of it."""
    catalog, gone = state.catalog.drop(relation)
    ids = {each.id for each in gone}
    for id in ids:
        state = without(state, id)
    positions = {key: data for key, data in state.positions.items() if int(key) not in ids}
    return dataclasses.replace(state, catalog=catalog, positions=positions)
