"""A job: one view that is being filled. What is here is durable: it is part of the manifest.

Rows of the view and its positions commit in one manifest, so after a crash a job goes on from where the view's rows
say it is. What is in flight (chunks, measured speeds, the replica of uncommitted deltas) is not part of it, and is not
missed.

>>> inputs = {7: Input(name="t", positions=Positions.start(2), rows_read=0, rows_total=10)}
>>> job = Job(id=9, name="v", statement="CREATE …", inputs=inputs, created_epoch=5)
>>> job.state(committed_epoch=4), job.state(committed_epoch=5)
('waiting for the first checkpoint', 'running')
>>> job = job.land(7, Chunk(first_vnode=0, after=None, last_vnode=0, upto=None, rows=4), rows=4)
>>> job.fraction, job.done
(0.4, False)
>>> job = job.land(7, Chunk(first_vnode=1, after=None, last_vnode=1, upto=None, rows=9), rows=9)
>>> job.fraction, job.done
(1.0, True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from headrace.backfill.order import waits_for
from headrace.backfill.positions import Chunk, Positions

Strategy = Literal["arrangement", "no_shuffle"]

ALMOST = 0.99
"""As much as progress says before the end: rounded to whole percents it is still not 100."""


@dataclass(frozen=True, kw_only=True)
class Input:
    """One upstream of the view."""

    name: str = ""
    """For people; the upstream's id is what counts."""
    positions: Positions
    rows_read: int = 0
    rows_total: int = 0
    """Read and still to read, as last estimated."""

    @property
    def done(self) -> bool:
        return self.positions.done

    @property
    def fraction(self) -> float:
        if self.done:
            return 1.0
        return min(self.rows_read / self.rows_total, ALMOST) if self.rows_total else 0.0

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "positions": self.positions.to_json(),
            "rows_read": self.rows_read,
            "rows_total": self.rows_total,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Input:
        return Input(**{**data, "positions": Positions.from_json(data["positions"])})


@dataclass(frozen=True, kw_only=True)
class Job:
    id: int
    """The view's."""
    name: str
    statement: str
    strategy: Strategy = "arrangement"
    parallelism: int = 1
    rate_limit: int | None = None
    """Rows per second; 0 is paused, None unlimited."""
    pacing: str = "adaptive"
    """As :func:`headrace.backfill.pacing.parse_policy` reads it."""
    paused: bool = False
    error: str | None = None
    """Why it stopped; it goes on when someone says so."""
    order: tuple[tuple[int, int], ...] = ()
    """Pairs of inputs: the first is done before the second starts."""
    inputs: Mapping[int, Input] = field(default_factory=dict)
    reached: float = 0.0
    """The largest fraction so far: while more is written than read, progress stands still, but is not taken back."""
    created_epoch: int
    started_at: float = 0.0
    """Seconds since 1970."""
    background: bool | None = None
    """Whether the CREATE did not wait for it; None: an older version began it, and has not kept that."""
    builds: bool = False
    """Whether it waits for its inputs to be complete, and is then computed: no chunks, and no positions."""
    built: int = 0
    """… and up to which vnode that has been done."""
    after: tuple[int, ...] = ()
    """Jobs that have to be done before this one starts."""

    @property
    def done(self) -> bool:
        return not self.builds and all(each.done for each in self.inputs.values())

    @property
    def rows_read(self) -> int:
        return sum(each.rows_read for each in self.inputs.values())

    @property
    def rows_total(self) -> int:
        return sum(each.rows_total for each in self.inputs.values())

    @property
    def fraction(self) -> float:
        """0 to 1, and 1 only if done; never less than before."""
        if self.done:
            return 1.0
        now = min(self.rows_read / self.rows_total, ALMOST) if self.rows_total else 0.0
        return max(now, self.reached)

    def snapshot(self, *, committed_epoch: int, last_epoch: int) -> int | None:
        """As of which epoch a chunk is read that starts now; None if the job has to wait.

        An arrangement reads committed runs only and replays later deltas from its own replica, which it keeps since
        its creation; so its first read waits for the checkpoint that contains the creation. Without shuffle the
        upstream's buffer is at hand, and the last epoch can be read whether it is committed or not.
        """
        if self.strategy == "no_shuffle":
            return last_epoch if last_epoch >= self.created_epoch else None
        return committed_epoch if committed_epoch >= self.created_epoch else None

    def blocked(self, upstream_id: int) -> list[int]:
        """The inputs that this one has to wait for."""
        finished = {id for id, each in self.inputs.items() if each.done}
        return waits_for(upstream_id, self.order, finished)

    @property
    def open_inputs(self) -> list[int]:
        """The inputs that chunks may be read of now, as far as the order is concerned."""
        return [id for id, each in self.inputs.items() if not each.done and not self.blocked(id)]

    def state(self, *, committed_epoch: int) -> str:
        if self.error is not None:
            return "failed"
        if self.done:
            return "done"
        if self.paused or self.rate_limit == 0:
            return "paused"
        if self.snapshot(committed_epoch=committed_epoch, last_epoch=max(committed_epoch, self.created_epoch)) is None:
            return "waiting for the first checkpoint"
        return "running"

    def input_state(self, upstream_id: int, *, committed_epoch: int) -> str:
        """As :meth:`state`, of one input; it may wait for another."""
        if self.inputs[upstream_id].done:
            return "done"
        state = self.state(committed_epoch=committed_epoch)
        if state == "running" and (waiting := self.blocked(upstream_id)):
            return f"waiting for {', '.join(self.inputs[id].name or str(id) for id in waiting)}"
        return state

    def land(self, upstream_id: int, chunk: Chunk, rows: int) -> Job:
        before = self.inputs[upstream_id]
        after = dataclasses.replace(
            before, positions=before.positions.advance(chunk), rows_read=before.rows_read + rows
        )
        return self.replace(inputs={**self.inputs, upstream_id: after})

    def estimate(self, upstream_id: int, remaining: int) -> Job:
        """With the rows that :func:`headrace.backfill.chunks.remaining` counts."""
        before = self.inputs[upstream_id]
        after = dataclasses.replace(before, rows_total=before.rows_read + remaining)
        job = self.replace(inputs={**self.inputs, upstream_id: after})
        return job.replace(reached=min(job.fraction, ALMOST))

    def replace(self, **changes: Any) -> Job:
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        data = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        data["order"] = [list(pair) for pair in self.order]
        data["after"] = list(self.after)
        data["inputs"] = {str(id): each.to_json() for id, each in self.inputs.items()}
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Job:
        inputs = {int(id): Input.from_json(each) for id, each in data["inputs"].items()}
        order = tuple((first, then) for first, then in data["order"])
        return Job(**{**data, "inputs": inputs, "order": order, "after": tuple(data.get("after", ()))})


def replica_needed_after(committed_epoch: int, snapshots: Iterable[int]) -> int:
    """Deltas up to and with this epoch may leave the replica: the checkpoint that contains them can be read, and no
    chunk in flight was read as of an older epoch.

    >>> replica_needed_after(8, []), replica_needed_after(8, [5, 8])
    (8, 5)
    """
    return min((committed_epoch, *snapshots))
