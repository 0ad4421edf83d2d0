"""Whether a relation follows a change, or is computed anew from all that its inputs hold and compared with its rows.

To follow a change costs what it touches; to compute all costs what there is. So where most of it is touched, or more
was written than is held, all of it is the cheaper way. The relation's rows are the same in both ways, because they are
what its query says; only how long the epoch takes is decided here, and therefore from figures that are known without
reading anything: what the epoch wrote, and what the manifest says is stored.

Costs are in rows that a query of Spark's reads. The factors are estimates from a few measurements on two cores
(docs/design/incremental.md); they need not be exact, because where both ways cost about the same either will do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

START = 300_000
"""What it costs that a query is planned and its tasks are started: so many rows are read in that time."""

CHANGE = 4
"""A change that executors follow: it is read when rows that came and rows that went are computed, and for its key."""

PICKED = 0.5
"""A stored row that is read only to see whether its key was touched, in addition to the reading."""

COMPARED = 4
"""A row of the relation that is staged, sorted, and compared with what is there."""

LOOKED_UP = 2
"""A row that the driver looks up by its key: it does so alone, where executors are several."""

Rule = Literal["changes", "pairs", "keys"]
"""What a change makes the relation read: nothing but its own old values; the rows that it is joined with; or all rows
of the keys that it touches."""


@dataclass(frozen=True, kw_only=True)
class Figures:
    rule: Rule
    changed: int
    """Rows that came to the inputs or went from them: two for a row that is another now."""
    changed_inputs: int
    """Rows that the inputs hold which have changed."""
    inputs: int
    """… and those that all of them hold. Of one that only passes changes on, what it is computed from."""
    held: int
    """Rows of the relation."""
    one_row_per_key: bool = False
    by_driver: bool
    """Whether the changes are few enough for the driver."""
    most_looked_up: int = 1 << 20
    """Rows of touched keys that are few enough for it."""

    @property
    def touched(self) -> float:
        """About which share of its keys, if rows change anywhere: many changes may be of one key."""
        keys = self.held if self.one_row_per_key else self.changed_inputs
        return 1 - math.exp(-self.changed / 2 / max(1, keys))


def is_cheaper_anew(followed: Sequence[Figures], anew: Sequence[Figures]) -> bool:
    """Some relations computed anew, instead of following what changed; in that case others are not needed at all."""
    return sum(map(cost_anew, anew)) < sum(map(cost_followed, followed))


def cost_anew(figures: Figures) -> float:
    """All inputs are read and computed with, and the relation's rows are compared with what comes out."""
    return START + 2 * figures.inputs + COMPARED * figures.held


def cost_followed(figures: Figures) -> float:
    changed, share = figures.changed, figures.touched
    if figures.rule == "changes":
        return changed if figures.by_driver else START + CHANGE * changed + figures.held
    read = figures.inputs - figures.changed_inputs if figures.rule == "pairs" else share * figures.inputs
    if figures.by_driver and read + share * figures.held <= figures.most_looked_up:
        return changed + LOOKED_UP * share * (figures.inputs + figures.held)
    if figures.rule == "pairs":
        # The other side is read for the rows that came, and once more for those that went.
        return START + CHANGE * changed + 2 * read + COMPARED * share * figures.held
    stored = figures.inputs + figures.held
    return START + CHANGE * changed + (1 + PICKED) * stored + read + COMPARED * share * figures.held
