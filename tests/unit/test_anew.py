"""When a relation is computed anew instead of following what changed."""

from __future__ import annotations

import dataclasses

import pytest

from headrace.engine.anew import Figures, cost_anew, cost_followed, is_cheaper_anew

GROUPS = Figures(
    rule="changes", changed=0, changed_inputs=10_000_000, inputs=10_000_000, held=10_000, one_row_per_key=True,
    by_driver=False,
)  # fmt: skip
JOIN = Figures(rule="pairs", changed=0, changed_inputs=10_000_000, inputs=12_000_000, held=10_000_000, by_driver=False)
MAXIMA = dataclasses.replace(GROUPS, rule="keys")
ALL = (GROUPS, JOIN, MAXIMA)


def anew(figures: Figures, changed: int, **more: object) -> bool:
    figures = dataclasses.replace(figures, changed=changed, **more)
    return is_cheaper_anew([figures], [figures])


@pytest.mark.parametrize("figures", ALL, ids=lambda each: each.rule)
def test_a_small_change_is_followed(figures):
    assert not anew(figures, 100, by_driver=True)
    assert not anew(dataclasses.replace(figures, held=10_000_000), 100_000, by_driver=True)


@pytest.mark.parametrize("figures", ALL, ids=lambda each: each.rule)
def test_if_all_has_changed_all_is_computed(figures):
    assert anew(figures, 2 * figures.changed_inputs)


@pytest.mark.parametrize("figures", ALL, ids=lambda each: each.rule)
def test_the_more_has_changed_the_more_it_costs_to_follow(figures):
    costs = [cost_followed(dataclasses.replace(figures, changed=10**power)) for power in range(9)]
    assert costs == sorted(costs)
    assert len({cost_anew(dataclasses.replace(figures, changed=10**power)) for power in range(9)}) == 1


def test_what_adds_up_follows_more_than_what_is_read_by_key():
    """A tenth of the rows is in nearly all groups: their maxima need all rows, their sums only those that changed."""
    assert not anew(GROUPS, 2_000_000)
    assert anew(MAXIMA, 2_000_000)
    assert not anew(dataclasses.replace(MAXIMA, held=10_000_000), 2_000_000)


def test_the_first_rows_of_a_table_are_computed_at_once():
    assert anew(GROUPS, 1_000_000, changed_inputs=1_000_000, inputs=1_000_000, held=0)


def test_a_few_rows_are_the_drivers():
    """A query of Spark's costs more to start, even if all of them changed."""
    few = {"changed_inputs": 20_000, "inputs": 20_000, "held": 20_000, "by_driver": True}
    assert not any(anew(each, 40_000, **few) for each in ALL)


def test_what_is_not_needed_then_is_not_paid_for():
    """Sums over a join that is not stored: if they are computed anew, nobody needs the changes of the join."""
    joined = dataclasses.replace(JOIN, changed=5_000_000)
    sums = dataclasses.replace(GROUPS, changed=5_000_000, inputs=12_000_000)
    assert not is_cheaper_anew([sums], [sums])
    assert is_cheaper_anew([joined, sums], [sums])
