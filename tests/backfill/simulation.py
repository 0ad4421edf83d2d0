"""Backfill without Spark: the real decisions around dictionaries, checked at every barrier.

A :class:`World` has tables and views; rows are named by (vnode, encoded pk). Whoever drives it says what happens
between two barriers: writes, chunks that become ready, crashes, rescales. :meth:`World.barrier` then does what an
epoch does and recomputes every view from scratch: *a view equals its query over the upstream's rows at or before the
positions, as of this epoch*. Drivers are :mod:`tests.backfill.histories` (random) and :mod:`tests.backfill.script`
(traces that a person can read).

What is decided by the code under test: positions, chunks, cuts, partitions, jobs, rate limits, the life of the
replica. What the simulation adds is what the engine adds: it carries out. :class:`Rules` are the few places where
carrying out can go wrong; the canaries break them one by one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from headrace.backfill.chunks import next_chunk, remaining
from headrace.backfill.job import Input, Job, replica_needed_after
from headrace.backfill.pacing import RateLimit, Reach
from headrace.backfill.positions import Chunk, Positions, partitions
from tests.backfill.relation import Change, Ident, Relation, Row

Query = Callable[[Row], Row | None]
"""A row of the view, or None if the filter drops it."""


class Violation(AssertionError):
    """The invariant does not hold."""


@dataclass
class Flight:
    """A chunk that has been read, or is being read: as of ``snapshot`` it does not matter when."""

    upstream: int
    partition: int
    snapshot: int
    chunk: Chunk
    rows: list[tuple[Ident, Row]]
    ready: bool = False


@dataclass
class Emission:
    """What a view got in an epoch, and why; for traces."""

    why: str
    epoch: int
    ident: Ident
    row: Row
    weight: int


class View(Relation):
    def __init__(self, job: Job, query: Query, *, epoch: int, group_rows: int):
        super().__init__(job.id, job.name, epoch, group_rows)
        self.job, self.query = job, query
        self.finished = False
        self.flights: list[Flight] = []
        self.replica: dict[int, dict[int, list[Change]]] = {id: {} for id in job.inputs}
        self.limit = RateLimit(job.rate_limit, now=float(epoch))
        self.reach: dict[tuple[int, int], Reach] = {}
        self.weights: dict[tuple[Ident, Row], int] = {}
        self.stored: list[tuple[int, Ident, int, int, Row]] = []
        """(epoch of the run, key, epoch of the row, weight, row)"""
        self.emitted: list[Emission] = []

    def own(self, upstream: int, ident: Ident) -> Ident:
        """The view's key: which input, and the key there. A view of one input keeps the key."""
        if len(self.job.inputs) == 1:
            return ident
        return ident[0], bytes([upstream]) + ident[1]


class Rules:
    """How the decisions are carried out."""

    def passes(self, before: Positions, after: Positions, ident: Ident) -> bool:
        """Whether a change of the epoch that moves the positions goes into the view."""
        return after.covers(*ident)

    def late(self, world: World, view: View, flight: Flight, epoch: int) -> Iterable[tuple[int, Change]]:
        """The deltas between the snapshot and this epoch that lie in the chunk."""
        upstream = world.relations[flight.upstream]
        kept = upstream.deltas if view.job.strategy == "no_shuffle" else view.replica[flight.upstream]
        for each in range(flight.snapshot + 1, epoch):
            for change in kept.get(each, ()):
                if flight.chunk.holds(*change[0]):
                    yield each, change

    def snapshot(self, world: World, view: View) -> int | None:
        return view.job.snapshot(committed_epoch=world.committed, last_epoch=world.epoch)

    def recovered(self, committed: Job, *, running: Job) -> Job:
        """The job after a crash."""
        return committed

    def replica_needed_after(self, world: World, view: View) -> int:
        return replica_needed_after(world.committed, [flight.snapshot for flight in view.flights])


@dataclass
class World:
    vnodes: int = 1
    group_rows: int = 2
    rules: Rules = field(default_factory=Rules)
    epoch: int = 0
    committed: int = 0
    relations: dict[int, Relation] = field(default_factory=dict)
    durable: dict[int, tuple[Relation, Job | None]] = field(default_factory=dict)
    """What the last manifest names."""
    next_id: int = 1
    estimates: bool = False
    """Whether jobs know how much is left."""

    @property
    def views(self) -> list[View]:
        return [relation for relation in self.relations.values() if isinstance(relation, View)]

    # --- statements ---------------------------------------------------------------------------------------------

    def create_table(self, name: str, rows: dict[Ident, Row] | None = None) -> Relation:
        table = Relation(self.next_id, name, self.epoch, self.group_rows)
        self.relations[table.id] = table
        self.next_id += 1
        if rows:
            table.end_epoch(self.epoch, [(ident, row, 1) for ident, row in rows.items()])
        self.durable[table.id] = (table, None)
        return table

    def create_view(
        self,
        name: str,
        upstreams: Sequence[Relation],
        query: Query,
        *,
        strategy: str = "arrangement",
        parallelism: int = 1,
        rate_limit: int | None = None,
        order: tuple[tuple[int, int], ...] = (),
    ) -> View:
        """Takes effect at the next barrier."""
        job = Job(
            id=self.next_id,
            name=name,
            statement=f"CREATE MATERIALIZED VIEW {name} …",
            strategy=strategy,
            parallelism=parallelism,
            rate_limit=rate_limit,
            order=order,
            inputs={each.id: Input(name=each.name, positions=Positions.start(self.vnodes)) for each in upstreams},
            created_epoch=self.epoch + 1,
        )
        view = View(job, query, epoch=self.epoch, group_rows=self.group_rows)
        self.relations[view.id] = view
        self.next_id += 1
        return view

    def drop(self, view: View) -> None:
        del self.relations[view.id]

    def rescale(self, view: View, parallelism: int) -> None:
        """Chunks in flight belong to the old partitions; nothing of them has landed, so they are just forgotten."""
        view.job = view.job.replace(parallelism=parallelism)
        view.flights, view.reach = [], {}

    def throttle(self, view: View, rate_limit: int | None) -> None:
        view.job = view.job.replace(rate_limit=rate_limit)
        view.limit = RateLimit(rate_limit, now=float(self.epoch))

    # --- chunks -------------------------------------------------------------------------------------------------

    def plan(self, view: View, budget: int, *, far: bool = True) -> list[Flight]:
        """Starts a chunk for each partition that has none in flight."""
        job = view.job
        snapshot = self.rules.snapshot(self, view)
        if job.paused or snapshot is None:
            return []
        busy = {(flight.upstream, flight.partition) for flight in view.flights}
        started = []
        for id in job.open_inputs:
            for number, share in enumerate(partitions(min(job.parallelism, self.vnodes), self.vnodes)):
                now = float(self.epoch)
                allowed = min(budget, view.limit.allowance(now))
                if (id, number) in busy or allowed < 1:
                    continue
                reach = view.reach.setdefault((id, number), Reach())
                flight = self._read(view, id, number, share, snapshot, allowed, reach.rows if far else 0)
                if flight is not None:
                    reach.landed(live=len(flight.rows), stored=flight.chunk.rows)
                    view.limit.take(len(flight.rows), now)
                    started.append(flight)
        view.flights += started
        return started

    def _read(
        self, view: View, id: int, number: int, share: range, snapshot: int, budget: int, reach: int
    ) -> Flight | None:
        upstream = self.relations[id]
        chunk = next_chunk(view.job.inputs[id].positions, share, upstream.sources(snapshot), budget, reach=reach)
        if chunk is None:
            return None
        rows = sorted((ident, row) for ident, row in upstream.versions[snapshot].items() if chunk.holds(*ident))
        if chunk.limit is not None and len(rows) > chunk.limit:
            rows = rows[: chunk.limit]
            chunk = chunk.cut(*rows[-1][0])
        return Flight(id, number, snapshot, chunk, rows)

    # --- the epoch ----------------------------------------------------------------------------------------------

    def barrier(self, changes: dict[int, list[Change]], *, checkpoint: bool) -> None:
        """Ends the next epoch, with the (consolidated) changes of tables by id."""
        epoch = self.epoch + 1
        for relation in self.relations.values():  # by id: upstream before downstream
            if isinstance(relation, View):
                relation.end_epoch(epoch, self._derive(relation, epoch))
            else:
                relation.end_epoch(epoch, changes.get(relation.id, []))
        self.epoch = epoch
        if self.estimates:
            self._estimate()
        if checkpoint:
            self._commit()
        for view in self.views:
            self._check(view)
            keep = self.rules.replica_needed_after(self, view)
            for kept in view.replica.values():
                for each in [each for each in kept if each <= keep]:
                    del kept[each]

    def _derive(self, view: View, epoch: int) -> list[Change]:
        """Landings, their late deltas, and what of this epoch's delta the new positions let through."""
        view.emitted = []
        if epoch <= view.job.created_epoch:  # the creation takes effect at the end of this epoch
            return []
        landing = [flight for flight in view.flights if flight.ready]
        before = {id: each.positions for id, each in view.job.inputs.items()}
        for flight in landing:
            view.flights.remove(flight)
            view.job = view.job.land(flight.upstream, flight.chunk, len(flight.rows))
            for ident, row in flight.rows:
                self._emit(view, "chunk", epoch, flight.upstream, flight.snapshot, (ident, row, 1))
            for each, change in self.rules.late(self, view, flight, epoch):
                self._emit(view, "late", epoch, flight.upstream, each, change)
        for id, each in view.job.inputs.items():
            delta = self.relations[id].deltas.get(epoch, [])
            for change in delta:
                passes = view.finished or self.rules.passes(before[id], each.positions, change[0])
                if passes:
                    self._emit(view, "live", epoch, id, epoch, change)
                else:
                    view.emitted.append(Emission("drop", epoch, *change))
            if each.done:
                view.replica[id] = {}
            elif delta:
                view.replica[id][epoch] = delta
        return self._consolidated(view)

    def _emit(self, view: View, why: str, epoch: int, upstream: int, row_epoch: int, change: Change) -> None:
        ident, row, weight = change
        out = view.query(row)
        if out is None:
            return
        own = view.own(upstream, ident)
        view.emitted.append(Emission(why, row_epoch, own, out, weight))
        view.stored.append((epoch, own, row_epoch, weight, out))
        total = view.weights.get((own, out), 0) + weight
        if total:
            view.weights[own, out] = total
        else:
            del view.weights[own, out]

    def _consolidated(self, view: View) -> list[Change]:
        net: dict[tuple[Ident, Row], int] = {}
        for each in view.emitted:
            if each.why != "drop":
                net[each.ident, each.row] = net.get((each.ident, each.row), 0) + each.weight
        return [(ident, row, weight) for (ident, row), weight in net.items() if weight]

    def _estimate(self) -> None:
        for view in self.views:
            for id, each in view.job.inputs.items():
                left = remaining(each.positions, self.relations[id].sources(self.epoch))
                view.job = view.job.estimate(id, left)

    def _commit(self) -> None:
        self.committed = self.epoch
        for view in self.views:
            view.finished = view.job.done
            _, before = self.durable.get(view.id, (view, None))
            if before is not None and view.job.fraction < before.fraction:
                raise Violation(f"{view.name} was filled to {before.fraction}, and now to {view.job.fraction}")
        self.durable = {
            id: (relation, relation.job if isinstance(relation, View) else None)
            for id, relation in self.relations.items()
        }

    def crash(self) -> None:
        """The process is gone and comes back: only what the last manifest names is left."""
        self.epoch = self.committed
        self.relations = {}
        for id, (relation, job) in self.durable.items():
            relation.forget(self.committed)
            self.relations[id] = relation
            if isinstance(relation, View):
                read = Job.from_json(json.loads(json.dumps(job.to_json())))
                if read != job:
                    raise Violation(f"{relation.name}: the job changed on its way through the manifest")
                relation.job = self.rules.recovered(read, running=relation.job)
                relation.finished = job.done
                relation.flights, relation.reach = [], {}
                relation.replica = {id: {} for id in job.inputs}
                relation.limit = RateLimit(job.rate_limit, now=float(self.epoch))
                relation.stored = [entry for entry in relation.stored if entry[0] <= self.committed]
                relation.weights = {(ident, row): 1 for ident, row in relation.rows.items()}

    # --- the invariant ------------------------------------------------------------------------------------------

    def _check(self, view: View) -> None:
        expected: dict[tuple[Ident, Row], int] = {}
        for id, each in view.job.inputs.items():
            covers = each.positions.covers
            for ident, row in self.relations[id].rows.items():
                if covers(*ident) and (out := view.query(row)) is not None:
                    expected[view.own(id, ident), out] = 1
        if view.weights != expected:
            wrong = {row: weight for row, weight in view.weights.items() if expected.get(row) != weight}
            lost = [row for row in expected if row not in view.weights]
            raise Violation(f"epoch {self.epoch}: {view.name} has {wrong} too much, and lost {lost}")
        job = view.job
        if job.done != (job.fraction == 1.0):
            raise Violation(f"epoch {self.epoch}: {view.name} says {job.fraction} and done is {job.done}")

    def check_storage(self, view: View) -> None:
        """The rule of stored rows gives the same: a put is dead iff a retraction of its key has a larger epoch."""
        killed: dict[Ident, int] = {}
        for _, ident, epoch, weight, _ in view.stored:
            if weight < 0:
                killed[ident] = max(epoch, killed.get(ident, 0))
        live = [
            (ident, row) for _, ident, epoch, weight, row in view.stored if weight > 0 and killed.get(ident, 0) <= epoch
        ]
        if sorted(live) != sorted(view.weights):
            raise Violation(f"{view.name} as stored is {live}, but should be {list(view.weights)}")

    def check_remaining(self, view: View) -> None:
        for id, each in view.job.inputs.items():
            sources = self.relations[id].sources(self.epoch)
            left = remaining(each.positions, sources)
            total = sum(rows for groups in sources for _, _, rows in groups)
            unread = sum(not each.positions.covers(*ident) for ident in self.relations[id].rows)
            if not unread <= left <= total or (each.done and left):
                raise Violation(f"{view.name}: {left} rows remain by estimate, {unread} in fact, of {total} stored")
