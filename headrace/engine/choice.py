"""Which relations an epoch computes anew instead of following what it changed (:mod:`headrace.engine.anew` decides).

A join that is not stored has no rows to be compared. But if all that reads it is computed anew, nobody needs its
changes, and it is left out of the epoch: what it is computed from is then read with its readers.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from headrace.catalog import Relation
from headrace.engine.anew import Figures, Rule, is_cheaper_anew
from headrace.engine.changed import Touched, are_few, changed_rows
from headrace.engine.evaluate import ARROW_ROWS
from headrace.plan.finished import can_be_computed_anew
from headrace.state.manifest import Manifest
from headrace.state.runs import live_rows

log = logging.getLogger("headrace")


class Choices:
    """Of one epoch. ``few_keys``: as many the driver looks up, of four times as many changes; ``landing``: what was
    built beside the epochs, lands in this one, and has something to catch up with."""

    def __init__(self, few_keys: int, landing: Collection[int]):
        self._few_keys, self._landing = few_keys, landing
        self._left_out: set[int] = set()
        self.anew = 0
        """How many relations were computed anew."""

    def concerns(self, relation: Relation) -> bool:
        """Whether it has to be computed because the changes of what it reads were not."""
        return not self._left_out.isdisjoint(relation.reads)

    def leaves_out(self, state: Manifest, relation: Relation, touched: Touched) -> bool:
        """Whether nobody needs the changes of a relation that only passes them on."""
        if not relation.operator.passing:
            return False
        if not self.concerns(relation):
            readers = _readers(state, relation)
            passed = {relation.id: [file for files in touched.values() for file in files]}
            above = [self._figures(state, each, passed) for each in readers]
            if not readers or not is_cheaper_anew([self._figures(state, relation, touched), *above], above):
                return False
            if not all(self._can_be(state, each) for each in readers):  # which takes longer to find out
                return False
        self._left_out.add(relation.id)
        return True

    def is_anew(self, state: Manifest, relation: Relation, touched: Touched) -> bool:
        """Whether all of a relation that stores its rows is computed. What it stands at must be the epoch before."""
        if not self.concerns(relation):
            if relation.operator.passing or not any(touched.values()) or not _has_a_rule(relation, touched):
                return False
            figures = self._figures(state, relation, touched)
            if not is_cheaper_anew([figures], [figures]) or not self._can_be(state, relation):
                return False
        self.anew += 1
        log.info(
            "%s is computed anew: %d rows of what it follows have changed",
            state.catalog.owner(relation).name,
            changed_rows(touched),
        )
        return True

    def _can_be(self, state: Manifest, relation: Relation) -> bool:
        stands = not relation.creating and relation.id not in self._landing
        return stands and can_be_computed_anew(relation, state.catalog)

    def _figures(self, state: Manifest, relation: Relation, touched: Touched) -> Figures:
        operator, stored = relation.operator, state.catalog.stored_inputs
        changed = {id for id, files in touched.items() if files}
        changed_inputs = _rows(state, stored(changed))
        return Figures(
            rule=_rule(relation, changed),
            changed=changed_rows(touched),
            changed_inputs=changed_inputs,
            inputs=_rows(state, stored(relation.reads)),
            held=changed_inputs if operator.passing else _rows(state, [relation.id]),
            one_row_per_key=len(operator.key) == len(relation.pk),
            by_driver=are_few(touched, 4 * self._few_keys),
            most_looked_up=ARROW_ROWS,
        )


def _rule(relation: Relation, changed: set[int]) -> Rule:
    if relation.operator.adds:
        return "changes"
    return "pairs" if relation.operator.passing or changed.issubset(relation.operator.linear) else "keys"


def _has_a_rule(relation: Relation, touched: Touched) -> bool:
    """Whether there are two ways: not if it needs a few first rows, and not if it needs all rows in any case."""
    operator = relation.operator
    return not (operator.first or operator.recomputes or any(touched.get(id) for id in operator.whole))


def _readers(state: Manifest, relation: Relation) -> list[Relation]:
    """Those that store their rows, of what reads one that does not."""
    found: list[Relation] = []
    for each in state.catalog:
        if relation.id in (each.reads or each.depends_on):
            passing = each.operator is not None and each.operator.passing
            found += _readers(state, each) if passing else [each]
    return found


def _rows(state: Manifest, ids: list[int]) -> int:
    return sum(live_rows(state.runs.get(id, ())) for id in ids)
