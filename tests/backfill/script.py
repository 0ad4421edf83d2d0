"""Traces: histories that a person writes and reads. What follows a command is what the simulation answers.

    python -m tests.backfill.script              checks tests/backfill/traces/*.trace
    python -m tests.backfill.script --update     rewrites what they expect; read the diff

    # anything                                   a comment
    !table t                                     rows are: key, value
    !table t key=integer desc,varchar            the key's columns; values with commas: 1,x
    + 1 a        - 1 a        + 1 a @2           a change in the epoch that is open; @2 is the vnode
    u + 1 a                                      the same in another table than the first
    !create v on t                               also: on t,u; no_shuffle; parallelism=2; limit=5; order=t->u;
                                                 select=value; where=b (only that value)
    !chunk v 1                                   v starts to read chunks of one row, one in each idle partition
    !land v        !land v 0                     they land in the epoch that is open; only that of partition 0
    !barrier 5        !barrier 5 checkpoint      ends the epoch, whose number it is
    !crash   !pause v   !resume v   !throttle v 3   !rescale v 2   !drop v   !compact t

Before the first !table, ``!vnodes 4``, ``!groups 1`` (rows in a row group) and ``!epoch 3`` (to start after it) say how
the world is. Under a barrier: what a view got (*chunk*: a row read; *late*: a change between the chunk's epoch and this
one; *live*: a change of this epoch), what it did not get (*drop*), what it *keeps* in its replica, what it *has*, and
where it *is*.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from headrace.backfill.positions import DONE
from headrace.catalog import KeyColumn
from headrace.state.keys import KeyCodec
from headrace.types import SqlType
from tests.backfill.relation import Change, Relation, Row
from tests.backfill.simulation import Query, View, World

TRACES = Path(__file__).parent / "traces"


@dataclass
class Script:
    world: World = field(default_factory=lambda: World(estimates=True))
    names: dict[str, int] = field(default_factory=dict)
    codecs: dict[int, KeyCodec] = field(default_factory=dict)
    changes: dict[int, list[Change]] = field(default_factory=dict)

    def relation(self, name: str) -> Relation:
        return self.world.relations[self.names[name]]

    def view(self, name: str) -> View:
        found = self.relation(name)
        assert isinstance(found, View), f"{name} is not a view"
        return found

    def run(self, line: str) -> list[str]:
        if match := re.fullmatch(r"(?:(\w+) )?([+-]) (\S+) (\S+)(?: @(\d+))?", line):
            return self.change(*match.groups())
        match = re.fullmatch(r"!(\w+)(?: (.*))?", line)
        command = match and getattr(self, f"do_{match[1]}", None)
        assert command, f"what is this: {line}"
        return command(*(match[2] or "").split()) or []

    def change(self, table: str | None, sign: str, key: str, value: str, vnode: str | None) -> list[str]:
        relation = self.relation(table) if table else next(iter(self.world.relations.values()))
        values = _values(key)
        ident = int(vnode or 0), self.codecs[relation.id].encode(values)
        self.changes.setdefault(relation.id, []).append((ident, (values, value), 1 if sign == "+" else -1))
        return []

    # --- the world ----------------------------------------------------------------------------------------------

    def do_vnodes(self, count: str) -> None:
        self.world.vnodes = int(count)

    def do_groups(self, rows: str) -> None:
        self.world.group_rows = int(rows)

    def do_epoch(self, epoch: str) -> None:
        self.world.epoch = self.world.committed = int(epoch)

    def do_table(self, name: str, *options: str) -> None:
        table = self.world.create_table(name)
        self.names[name] = table.id
        key = " ".join(options).partition("key=")[2] or ("" if options else "integer")
        self.codecs[table.id] = KeyCodec([_key_column(each, n) for n, each in enumerate(filter(None, key.split(",")))])

    def do_create(self, name: str, _on: str, upstreams: str, *options: str) -> None:
        sources = [self.relation(each) for each in upstreams.split(",")]
        given = dict(each.partition("=")[::2] for each in options)
        pairs = re.findall(r"(\w+)->(\w+)", given.get("order", ""))
        view = self.world.create_view(
            name,
            sources,
            _query(given.get("select"), given.get("where")),
            strategy="no_shuffle" if "no_shuffle" in given else "arrangement",
            parallelism=int(given.get("parallelism", 1)),
            rate_limit=int(given["limit"]) if "limit" in given else None,
            order=tuple((self.names[first], self.names[then]) for first, then in pairs),
        )
        self.names[name] = view.id
        self.codecs[view.id] = self.codecs[sources[0].id]

    def do_drop(self, name: str) -> None:
        self.world.drop(self.view(name))

    def do_pause(self, name: str) -> None:
        self.view(name).job = self.view(name).job.replace(paused=True)

    def do_resume(self, name: str) -> None:
        self.view(name).job = self.view(name).job.replace(paused=False)

    def do_throttle(self, name: str, rate: str) -> None:
        self.world.throttle(self.view(name), None if rate == "none" else int(rate))

    def do_rescale(self, name: str, parallelism: str) -> None:
        self.world.rescale(self.view(name), int(parallelism))

    def do_compact(self, name: str) -> None:
        self.relation(name).compact(self.world.committed)

    def do_crash(self) -> list[str]:
        self.world.crash()
        self.changes = {}
        return [f"  back to epoch {self.world.committed}", *self.states()]

    # --- chunks and barriers ------------------------------------------------------------------------------------

    def do_chunk(self, name: str, budget: str) -> list[str]:
        view = self.view(name)
        lines = []
        for flight in self.world.plan(view, int(budget)):
            rows = "; ".join(_show(row) for _, row in flight.rows) or "no rows"
            where = self.where(view, flight.upstream, flight.chunk)
            lines.append(f"  {name} reads {where} as of epoch {flight.snapshot}: {rows}")
        return lines or [f"  {name} reads nothing"]

    def where(self, view: View, upstream: int, chunk) -> str:
        codec = self.codecs[upstream]
        start = "start" if chunk.after is None else f"after {_key(codec.decode(chunk.after))}"
        end = "end" if chunk.upto is None else _key(codec.decode(chunk.upto))
        if self.world.vnodes > 1:
            start = f"vnode {chunk.first_vnode} {start}"
            end = end if chunk.first_vnode == chunk.last_vnode else f"vnode {chunk.last_vnode} {end}"
        source = f"{self.world.relations[upstream].name}, " if len(view.job.inputs) > 1 else ""
        return f"{source}{start} to {end},"

    def do_land(self, name: str, *numbers: str) -> None:
        for flight in self.view(name).flights:
            flight.ready = flight.ready or not numbers or str(flight.partition) in numbers

    def do_barrier(self, number: str, checkpoint: str = "") -> list[str]:
        assert int(number) == self.world.epoch + 1, f"the epoch that is open is {self.world.epoch + 1}"
        self.world.barrier(self.changes, checkpoint=checkpoint == "checkpoint")
        self.changes = {}
        return self.states(emitted=True)

    def states(self, *, emitted: bool = False) -> list[str]:
        lines = []
        for view in self.world.views:
            if emitted:
                for each in view.emitted:
                    since = f" (epoch {each.epoch})" if each.why in ("chunk", "late") else ""
                    lines.append(
                        f"  {view.name} {each.why:5} {'+' if each.weight > 0 else '-'} {_show(each.row)}{since}"
                    )
            kept = sorted({epoch for deltas in view.replica.values() for epoch in deltas})
            if view.job.strategy == "arrangement" and kept and not view.finished:
                lines.append(f"  {view.name} keeps the deltas of {', '.join(map(str, kept))}")
            rows = [_show(row) for _, row in sorted(view.rows.items())]
            lines.append(f"  {view.name} has   {'; '.join(rows) or 'nothing'}")
            lines.append(f"  {view.name} is    {self.position(view)}")
        return lines

    def position(self, view: View) -> str:
        job = view.job
        if job.done:
            return "finished" if view.finished else "done, not committed"
        state = job.state(committed_epoch=self.world.committed)
        at = []
        for id, each in job.inputs.items():
            described = each.positions.describe(self.codecs[id])
            if self.world.vnodes == 1:
                text = f"at {described[0][1]}" if isinstance(each.positions.of(0), bytes) else described[0][1]
            else:
                text = ", ".join(
                    str(number) + ": " + ("-" if at is None else "done" if at is DONE else described[number][1])
                    for number, at in enumerate(each.positions.vnodes)
                )
            if len(job.inputs) > 1:
                own = job.input_state(id, committed_epoch=self.world.committed)
                text = f"{each.name} {text if own in (state, 'done') else own}"
            at.append(text)
        return f"{'; '.join(at)} ({state}, {job.fraction:.0%})"


def _values(text: str) -> tuple:
    if text == "()":
        return ()
    return tuple(
        None if each == "NULL" else int(each) if each.lstrip("-").isdigit() else each for each in text.split(",")
    )


def _key(values: tuple) -> str:
    return ",".join("NULL" if value is None else str(value) for value in values) or "()"


def _show(row: Row) -> str:
    """A row of a table is (key, value); of a view that selects only the value, (value,)."""
    return " ".join(_key(each) if isinstance(each, tuple) else each for each in row)


def _key_column(text: str, number: int) -> tuple[SqlType, KeyColumn]:
    kind, *words = text.split()
    return SqlType(kind), KeyColumn(name=f"k{number}", descending="desc" in words, nulls_first="nulls_first" in words)


def _query(select: str | None, where: str | None) -> Query:
    def query(row: Row) -> Row | None:
        if where is not None and row[-1] != where:
            return None
        return row[-1:] if select == "value" else row

    return query


def run(text: str) -> str:
    """The trace with its answers as they are."""
    script, lines = Script(), []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("  "):
            continue
        lines.append(line)
        if line and not line.startswith("#"):
            try:
                lines += script.run(line)
            except Exception as problem:
                raise AssertionError(f"line {number}, {line}: {problem}") from problem
    return "\n".join(lines) + "\n"


def main(update: bool, write: Callable[[str], object] = sys.stdout.write) -> int:
    wrong = 0
    for path in sorted(TRACES.glob("*.trace")):
        text = path.read_text(encoding="utf-8")
        answer = run(text)
        if answer != text:
            wrong += 1
            write(f"{path.name} {'rewritten' if update else 'differs'}\n")
            if update:
                path.write_text(answer, encoding="utf-8")
    return 0 if update else wrong


if __name__ == "__main__":
    sys.exit(main("--update" in sys.argv[1:]))
