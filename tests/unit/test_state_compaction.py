"""The choice of merges, on simulated runs: few runs to read, few rows rewritten, never a gap."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.state.compaction import SMALL_FILE, Choice, _settled, choose, tier, whole
from headrace.state.runs import Run, RunFile


def run(epoch: int, rows: int, *, last: int | None = None, low: bytes = b"a", high: bytes = b"z", **file) -> Run:
    content = RunFile(**({"path": f"{epoch}", "rows": rows, "bytes": rows * 20, "low": low, "high": high} | file))
    last = epoch if last is None else last
    return Run(id=f"{epoch}-{last}", first_epoch=epoch, last_epoch=last, files=(content,))


def merge(runs: list[Run], choice: Choice, *, keys: int | None = None) -> tuple[list[Run], int]:
    """The runs after a merge that keeps all rows, or of a table whose ``keys`` are updated; and the rows rewritten."""
    inputs = [each for each in runs if each.id in choice.inputs]
    at = runs.index(inputs[0])
    assert runs[at : at + len(inputs)] == inputs, "the inputs are not neighbours"
    assert [each.id for each in inputs] == list(choice.inputs)
    total = sum(each.rows for each in inputs)
    rows, retractions = total - sum(each.retractions for each in inputs), 0
    if keys is not None:
        puts = min(keys, rows)
        retractions = 0 if choice.bottom else min(puts, sum(each.retractions for each in inputs))
        rows = puts + retractions
    elif choice.bottom:
        rows -= sum(each.retractions for each in inputs)
    merged = run(inputs[0].first_epoch, rows, last=inputs[-1].last_epoch, retractions=retractions)
    merged = dataclasses.replace(merged, level=choice.level)
    return [*runs[:at], merged, *runs[at + len(inputs) :]], total


def settle(runs: list[Run], **more) -> tuple[list[Run], int]:
    """Merges until there is nothing to do; the runs and the rows rewritten."""
    rewritten = 0
    for _ in range(100):
        if (choice := choose(runs)) is None:
            return runs, rewritten
        runs, cost = merge(runs, choice, **more)
        rewritten += cost
    raise AssertionError("it never ends")


def test_what_merging_leaves_out_does_not_pile_up():
    """2,000 epochs of 1,000 rows, each of which is needed for ten epochs; keys grow, so that no run touches another."""
    runs: list[Run] = []
    rewritten, most = 0, 0
    for epoch in range(1, 2001):
        runs = [*runs, run(epoch, 1000, low=b"%05d" % epoch, high=b"%05d" % epoch, bytes=SMALL_FILE)]
        while (choice := choose(runs, shrinks=True)) is not None:
            assert choice.bottom == (choice.inputs[0] == runs[0].id)
            inputs = [each for each in runs if each.id in choice.inputs]
            rewritten += sum(each.rows for each in inputs)
            needed = min(10, epoch) * 1000 if choice.bottom else sum(each.rows for each in inputs)
            merged = run(inputs[0].first_epoch, needed, last=epoch, low=inputs[0].low, high=inputs[-1].high)
            runs = [merged, *runs[len(inputs) :]] if choice.bottom else [runs[0], merged]
        most = max(most, sum(each.rows for each in runs))
    assert most <= 2 * 10_000 + 8_000
    assert rewritten <= 3 * 2000 * 1000


def test_ten_thousand_epochs_of_inserts():
    runs: list[Run] = []
    rewritten, most = 0, 0
    for epoch in range(1, 10_001):
        runs, cost = settle([*runs, run(epoch, 1000)])
        rewritten += cost
        most = max(most, len(runs))
    total = 10_000 * 1000
    assert sum(each.rows for each in runs) == total
    tiers = math.log(10_000, 8)
    assert most <= 8 * math.ceil(tiers)
    assert rewritten <= total * (tiers + 1)


def test_ten_thousand_epochs_of_updates_of_a_small_table():
    """The table has 5,000 rows, each epoch updates 1,000 of them."""
    runs = [run(0, 5000)]
    rewritten, most = 0, 0
    for epoch in range(1, 10_001):
        runs, cost = settle([*runs, run(epoch, 2000, retractions=1000)], keys=5000)
        rewritten += cost
        most = max(most, len(runs))
    assert most <= 8
    assert rewritten <= 3 * 10_000 * 2000


def test_updates_of_a_large_table_leave_its_bulk_alone_for_long():
    runs = [run(0, 1_000_000)]
    bulk_rewritten, written = 0, 0
    for epoch in range(1, 3001):
        runs = [*runs, run(epoch, 2000, retractions=1000)]
        written += 2000
        for _ in range(20):
            if (choice := choose(runs)) is None:
                break
            if choice.bottom:
                overlay = sum(each.rows for each in runs[1:])
                assert overlay >= 0.25 * runs[0].rows
                bulk_rewritten += 1
            runs, _ = merge(runs, choice, keys=1_000_000)
        assert len(runs) <= 32
    assert bulk_rewritten <= written / 250_000 + 1


def test_a_backfill_is_not_merged_with_the_first_small_epochs():
    runs = [run(1, 50_000_000)]
    for epoch in range(2, 300):
        runs = [*runs, run(epoch, 100)]
        while (choice := choose(runs)) is not None:
            assert runs[0].id not in choice.inputs
            runs, _ = merge(runs, choice)
    assert len(runs) < 20


def test_large_and_small_epochs_in_turn():
    generator = random.Random(3)
    runs: list[Run] = []
    rewritten, written = 0, 0
    for epoch in range(1, 3001):
        rows = generator.choice([10, 100, 1000, 1000, 100_000])
        written += rows
        runs, cost = settle([*runs, run(epoch, rows)])
        rewritten += cost
        assert len(runs) <= 8 * (tier(written) + 1)
    assert rewritten <= written * 2 * (tier(written) + 1)


sizes = st.sampled_from([0, 1, 10, 999, 8000, 8001, 70_000, 600_000, 5_000_000])


@st.composite
def histories(draw) -> list[Run]:
    runs = []
    for epoch, rows in enumerate(draw(st.lists(sizes, max_size=40)), 1):
        low, high = sorted(draw(st.tuples(st.binary(max_size=1), st.binary(max_size=1))))
        share = draw(st.sampled_from([0, 0, 2, 1]))
        runs.append(run(epoch, rows, retractions=rows // share if share else 0, low=low, high=high))
    return runs


@given(histories(), st.randoms(use_true_random=False), st.integers(2, 10))
def test_a_choice_is_always_of_neighbours(runs, generator, fanout):
    for _ in range(50):
        shuffled = generator.sample(runs, len(runs))
        choice = choose(shuffled, fanout=fanout)
        assert choice == choose(runs, fanout=fanout)
        if choice is None:
            break
        assert len(choice.inputs) >= 2
        assert len(set(choice.inputs)) == len(choice.inputs)
        first = next(number for number, each in enumerate(runs) if each.id == choice.inputs[0])
        inputs = runs[first : first + len(choice.inputs)]
        nothing_below = all(not older.overlaps(each) for older in runs[:first] for each in inputs)
        assert nothing_below if choice.bottom else first > 0
        runs, _ = merge(runs, choice)
    else:
        raise AssertionError("it never ends")
    active = runs[_settled(runs) :]
    assert len(active) <= (fanout - 1) * (max([tier(each.rows, fanout) for each in active], default=0) + 1)


def large(epoch: int, low: bytes, high: bytes, **more) -> Run:
    return run(epoch, 1_000_000, low=low, high=high, bytes=SMALL_FILE, **more)


def test_large_files_with_ranges_of_their_own_are_left_alone():
    apart = [large(epoch, bytes([epoch]), bytes([epoch])) for epoch in range(1, 101)]
    assert choose(apart) is None
    small = [run(epoch, 1000, low=b"\xff", high=b"\xff") for epoch in range(101, 109)]
    choice = choose([*apart, *small])
    assert choice.inputs == tuple(each.id for each in small)
    assert choice.bottom


def test_small_files_are_merged_even_if_nothing_overlaps_them():
    apart = [run(epoch, 1000, low=bytes([epoch]), high=bytes([epoch])) for epoch in range(1, 9)]
    assert len(choose(apart).inputs) == 8


@pytest.mark.parametrize("change", [{"high": bytes([2])}, {"retractions": 5}])
def test_overlapping_or_retracting_runs_are_merged_however_large(change):
    runs = [large(epoch, bytes([epoch]), bytes([epoch])) for epoch in range(1, 9)]
    runs[0] = large(1, **({"low": bytes([1]), "high": bytes([1])} | change))
    assert len(choose(runs).inputs) == 8


def test_many_retractions_merge_everything():
    runs = [run(1, 100_000), *(run(epoch, 50_000, retractions=25_001) for epoch in range(2, 5))]
    assert choose(runs) == Choice(inputs=tuple(each.id for each in runs), level=2, bottom=True)
    assert choose(runs[:3]) is None, "two or three runs are no burden"


def test_a_small_overlay_does_not_rewrite_a_large_bottom_however_much_it_retracts():
    runs = [run(1, 1_000_000), *(run(epoch, 50_000, retractions=50_000) for epoch in range(2, 6))]
    assert choose(runs) is None


def test_whole_is_everything_unless_there_is_nothing_to_do():
    assert whole([]) is None
    assert whole([run(1, 10)]) is None
    assert whole([run(2, 10), run(1, 10)]).inputs == ("1-1", "2-2")
    assert whole([run(1, 10, retractions=1)]).bottom


def test_runs_without_files_do_no_harm():
    empty = [Run(id=f"{epoch}", first_epoch=epoch, last_epoch=epoch) for epoch in range(1, 20)]
    assert len(choose(empty).inputs) == 19


def test_a_run_of_overlapping_files_is_merged_with_itself():
    """An index is filled in the order of its table: each chunk's file reaches over all of the index."""
    files = tuple(RunFile(path=f"f{n}", rows=1000, bytes=SMALL_FILE, low=b"a", high=b"z") for n in range(9))
    tangled = Run(id="tangled", first_epoch=3, last_epoch=3, files=files)
    assert tangled.depth == 9
    assert choose([tangled]) == Choice(inputs=("tangled",), level=1, bottom=True)
    assert choose([run(1, 10), tangled]).bottom is False
    assert whole([tangled]) is not None
    ranges = tuple(
        dataclasses.replace(file, low=bytes([97 + n]), high=bytes([97 + n, 1])) for n, file in enumerate(files)
    )
    untangled = dataclasses.replace(tangled, files=ranges)
    assert untangled.depth == 1 and choose([untangled]) is None and whole([untangled]) is None
