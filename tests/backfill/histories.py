"""Random histories of a :class:`tests.backfill.simulation.World`: one seed, one history.

    python -m tests.backfill.histories 4711          what happens in the history of this seed
    python -m tests.backfill.histories 0-1000000     checks many of them

Keys are few and positions many, so that almost every write is near some position. Writes prefer the row at a position
and its neighbours.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from decimal import Decimal
from random import Random

from headrace.catalog import KeyColumn
from headrace.state.keys import KeyCodec
from headrace.types import SqlType
from tests.backfill.relation import Change, Ident, Relation, Row
from tests.backfill.simulation import Query, Rules, View, Violation, World


def _keys(columns: list[tuple[SqlType, KeyColumn]], rows: list[tuple]) -> list[bytes]:
    codec = KeyCodec(columns)
    return sorted(codec.encode(row) for row in rows)


INT, TEXT = SqlType("integer"), SqlType("varchar")
MONEY, DOUBLE, BYTES = SqlType("numeric", precision=10, scale=2), SqlType("double precision"), SqlType("bytea")
KEYS = [
    [b""],  # no pk: at most one row in a vnode
    _keys([(INT, KeyColumn(name="a"))], [(n,) for n in range(-2, 4)]),
    _keys([(INT, KeyColumn(name="a", descending=True, nulls_first=True))], [(None,), *((n,) for n in range(5))]),
    _keys(
        [(TEXT, KeyColumn(name="a", descending=True)), (INT, KeyColumn(name="b"))],
        [(a, b) for a in ("", "a", "a\0", None) for b in (1, None)],
    ),
    _keys([(MONEY, KeyColumn(name="a"))], [(Decimal(n) / 4,) for n in range(-3, 3)]),
    _keys(
        [(DOUBLE, KeyColumn(name="a")), (BYTES, KeyColumn(name="b"))],
        [(a, b) for a in (-0.5, 7.0) for b in (b"", b"\0", b"\xff")],
    ),
]


def _everything(row: Row) -> Row:
    return row


def _odd(row: Row) -> Row | None:
    return row if row[0] % 2 else None


def _value(row: Row) -> Row:
    return (row[0] // 2,)


def _nothing(row: Row) -> Row | None:
    return () if row[0] % 3 else None


QUERIES: list[Query] = [_everything, _odd, _value, _nothing]
"""All rows; a filter; a projection that does not tell all changes; a filter and no column at all."""


class History:
    def __init__(self, seed: int, rules: Rules | None = None, *, verbose: bool = False):
        self.random = random = Random(seed)
        self.verbose = verbose
        self.world = World(
            vnodes=random.choice((1, 2, 3, 5)), group_rows=random.choice((1, 2, 3)), rules=rules or Rules()
        )
        keys = random.choice(KEYS)
        self.idents: list[Ident] = [(vnode, key) for vnode in range(self.world.vnodes) for key in keys]
        self.frequency = random.choice((1, 2, 3, 5))
        self.budget = random.choice((1, 2, 3, 6))
        self.readiness = random.choice((0.25, 0.6, 1.0))
        self.far = random.random() < 0.5
        self.world.estimates = random.random() < 0.2
        self.writes = random.choice((1, 3, 6))
        self.tables = [self._table(f"t{number}") for number in range(random.choice((1, 1, 2)))]
        self.say(f"{len(self.idents)} keys, checkpoint every {self.frequency}, budget {self.budget}")

    def say(self, text: str) -> None:
        if self.verbose:
            print(text)

    def _table(self, name: str) -> Relation:
        share = self.random.choice((0.0, 0.5, 1.0))
        rows = {ident: (self.random.randrange(9),) for ident in self.idents if self.random.random() < share}
        return self.world.create_table(name, rows)

    # --- what happens -------------------------------------------------------------------------------------------

    def run(self, epochs: int) -> None:
        self.create()
        for _ in range(epochs):
            self.maybe_statement()
            self.epoch()
        self.finish()

    def finish(self) -> None:
        """Whatever state things are in: without further trouble every view gets done, soon."""
        random, world = self.random, self.world
        for view in world.views:
            view.job = view.job.replace(paused=False)
            world.throttle(view, None)
        if random.random() < 0.7:
            self.budget = 100
        self.readiness = 1.0
        # An epoch lands a chunk of at least one key for each partition; ordered inputs take turns.
        patience = 10 + 2 * self.frequency + len(self.tables) * len(self.idents)
        while not all(view.finished for view in world.views):
            self.epoch()
            patience -= 1
            if patience < 0:
                raise Violation(f"{[view.name for view in world.views if not view.finished]} never finish")
        for view in world.views:
            world.check_storage(view)

    def epoch(self) -> None:
        random, world = self.random, self.world
        for view in world.views:
            if not view.finished:
                for flight in view.flights:
                    flight.ready = flight.ready or random.random() < self.readiness
                random.shuffle(view.flights)
        changes = {table.id: self.delta(table) for table in self.tables}
        checkpoint = (world.epoch + 1) % self.frequency == 0
        if self.verbose:
            self.say(f"epoch {world.epoch + 1}{' checkpoint' if checkpoint else ''}: {changes}")
        world.barrier(changes, checkpoint=checkpoint)
        if checkpoint and random.random() < 0.1:
            random.choice(self.tables).compact(world.committed)
        for view in world.views:
            if self.verbose:
                self.say(f"  {view.name} emits {view.emitted}")
                self.say(f"  {view.name} at {[each.positions.vnodes for each in view.job.inputs.values()]}")
            if not view.finished:
                started = world.plan(view, self.budget, far=self.far)
                if self.verbose and started:
                    self.say(f"  {view.name} reads {[(str(f.chunk), f.snapshot, f.rows) for f in started]}")
                if random.random() < 0.1:
                    world.check_remaining(view)

    def delta(self, table: Relation) -> list[Change]:
        """A few statements, consolidated."""
        random = self.random
        rows = table.rows
        touched: dict[Ident, Row | None] = {}
        for _ in range(random.randrange(self.writes + 1)):
            dice = random.random()
            ident = self.somewhere(table)
            if dice < 0.45:
                touched[ident] = (random.randrange(9),)
            elif dice < 0.75:
                touched[ident] = None
            elif dice < 0.98:  # a row moves to another key, perhaps across a position
                row = touched[ident] if ident in touched else rows.get(ident)
                touched[ident] = None
                if row is not None:
                    touched[self.somewhere(table)] = row
            else:
                touched.update(dict.fromkeys(rows))
        delta = []
        for ident, after in touched.items():
            before = rows.get(ident)
            if before != after:
                if before is not None:
                    delta.append((ident, before, -1))
                if after is not None:
                    delta.append((ident, after, 1))
        return delta

    def somewhere(self, table: Relation) -> Ident:
        """Any key, or one next to a position."""
        random = self.random
        if random.random() < 0.4:
            for view in self.world.views:
                if (
                    not view.finished
                    and table.id in view.job.inputs
                    and (partial := view.job.inputs[table.id].positions.partial)
                ):
                    at = bisect_left(self.idents, random.choice(list(partial.items()))) + random.choice((0, 0, 1, 1, 2))
                    return self.idents[min(at, len(self.idents) - 1)]
        return self.idents[int(random.random() * len(self.idents))]

    def create(self, name: str | None = None) -> None:
        random, world = self.random, self.world
        finished: list[Relation] = [view for view in world.views if view.finished and len(view.job.inputs) == 1]
        if finished and random.random() < 0.5:
            upstreams = [random.choice(finished)]
        else:
            upstreams = random.sample(self.tables, random.choice((1, len(self.tables))))
        order = ((upstreams[0].id, upstreams[1].id),) if len(upstreams) == 2 and random.random() < 0.5 else ()
        view = world.create_view(
            name or f"v{world.next_id}",
            upstreams,
            # The row of a view may have no column at all.
            _everything if isinstance(upstreams[0], View) else random.choice(QUERIES),
            strategy=random.choice(("arrangement", "no_shuffle")),
            parallelism=random.choice((1, 1, 2, 4, 8)),
            rate_limit=random.choice((None, None, None, 1, 3)),
            order=order,
        )
        self.say(f"create {view.name} on {[each.name for each in upstreams]}, {view.job}")

    def maybe_statement(self) -> None:
        random, world = self.random, self.world
        if random.random() < 0.6:
            return
        dice = random.random()
        views = world.views
        if dice < 0.25 and len(views) < 4:
            self.create()
        elif dice < 0.5:
            self.say("crash")
            world.crash()
        elif views:
            view = random.choice(views)
            if dice < 0.7:
                world.rescale(view, random.randrange(1, 9))
                self.say(f"rescale {view.name} to {view.job.parallelism}")
            elif dice < 0.8:
                view.job = view.job.replace(paused=not view.job.paused)
                self.say(f"pause {view.name}: {view.job.paused}")
            elif dice < 0.9:
                world.throttle(view, random.choice((0, 1, 2, None)))
                self.say(f"throttle {view.name} to {view.job.rate_limit}")
            elif not any(view.id in other.job.inputs for other in views):
                self.say(f"drop {view.name}, create it again")
                world.drop(view)
                self.create(view.name)


def check(seed: int, rules: Rules | None = None) -> None:
    """Raises a :class:`Violation` that says how to see the history again."""
    try:
        History(seed, rules).run(epochs=6 + seed % 9)
    except Exception as problem:
        raise Violation(f"{problem}\nsee it with: python -m tests.backfill.histories {seed}") from problem


def main(argument: str) -> None:
    first, dash, last = argument.partition("-")
    if dash:
        for seed in range(int(first), int(last) + 1):
            check(seed)
        print(f"{int(last) - int(first) + 1} histories hold")
    else:
        History(int(first), verbose=True).run(epochs=6 + int(first) % 9)


if __name__ == "__main__":
    main(sys.argv[1])
