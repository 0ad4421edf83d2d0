from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.backfill.pacing import (
    FLOOR,
    LARGEST,
    START,
    UNLIMITED,
    Adaptive,
    Fixed,
    RateLimit,
    Reach,
    UntilBarrier,
    parse_policy,
)
from headrace.errors import InvalidParameterValue


def settled(policy, cost, chunks: int = 60) -> list[int]:
    """The budgets of a policy where a chunk of n rows takes ``cost(n)`` seconds; the last ten."""
    budgets = []
    for _ in range(chunks):
        rows = policy.budget()
        budgets.append(rows)
        policy.landed(rows, cost(rows), cost(rows) / 2)
    return budgets[-10:]


measuring = pytest.mark.parametrize("kind", [Adaptive, UntilBarrier])


def test_fixed_stays():
    policy = Fixed(7)
    policy.landed(7, 100.0, 100.0)
    assert policy.budget() == 7


def test_chunks_grow_to_the_barrier_interval():
    """1 µs per row and 0.2 s for the job: 800,000 rows fill a second."""
    budgets = settled(UntilBarrier(barrier_interval=1.0), lambda rows: 0.2 + rows * 1e-6)
    assert 400_000 <= min(budgets) and max(budgets) <= 1_000_000


def test_adaptive_chunks_grow_until_epochs_are_as_long_as_the_barrier_interval():
    """Epochs take half as long as the chunks beside them."""
    budgets = settled(Adaptive(barrier_interval=1.0), lambda rows: 0.2 + rows * 1e-6)
    assert 800_000 <= min(budgets) and max(budgets) <= 3_600_000


@pytest.mark.parametrize(("kind", "most"), [(Adaptive, 41), (UntilBarrier, 11)])
def test_wide_rows_make_chunks_small(kind, most):
    """A megabyte each: ten rows a second."""
    budgets = settled(kind(barrier_interval=1.0), lambda rows: 0.01 + rows * 0.1)
    assert 1 <= min(budgets) and max(budgets) <= most


@measuring
def test_chunks_do_not_grow_without_end(kind):
    assert settled(kind(barrier_interval=60.0), lambda rows: 0.001)[-1] == LARGEST
    assert settled(kind(barrier_interval=1.0), lambda rows: 0.0)[-1] in (LARGEST, START)


@measuring
def test_the_fixed_cost_of_a_job_does_not_starve_the_backfill(kind):
    """Barriers every 100 ms, but each job takes 0.3 s whatever it reads: at least half the time must go into rows."""
    budgets = settled(kind(barrier_interval=0.1), lambda rows: 0.3 + rows * 1e-6)
    assert min(budgets) >= 100_000
    speeds = [rows / (0.3 + rows * 1e-6) for rows in budgets]
    assert min(speeds) >= 0.25 * 1e6


def test_a_busy_upstream_does_not_starve_the_backfill():
    """Epochs take three seconds whatever the chunks do: smaller chunks would not make them shorter."""
    policy = Adaptive(barrier_interval=1.0)
    for _ in range(50):
        policy.landed(policy.budget(), 0.2 + policy.budget() * 1e-6, 3.0)
        assert policy.budget() >= FLOOR


@measuring
def test_noise_does_not_starve_the_backfill(kind):
    random = Random(1)
    budgets = settled(
        kind(barrier_interval=0.1), lambda rows: (0.3 + rows * 1e-6) * random.uniform(0.7, 1.5), chunks=300
    )
    assert sum(budgets) / len(budgets) >= 20_000


@measuring
@given(times=st.lists(st.tuples(st.integers(0, 10**7), st.floats(0, 1e4), st.floats(0, 1e4)), max_size=30))
def test_whatever_is_measured_the_budget_is_possible(kind, times):
    policy = kind(barrier_interval=1.0)
    for rows, seconds, epoch_seconds in times:
        policy.landed(rows, seconds, epoch_seconds)
        assert 1 <= policy.budget() <= LARGEST


def test_adaptive_looks_at_epochs_too():
    """Reading is quick, but the epoch that writes the rows is not."""
    policy = Adaptive(barrier_interval=1.0)
    policy.landed(START, 0.1, 5.0)
    assert policy.budget() == START // 2


@measuring
def test_small_chunks_prove_nothing_about_large_ones(kind):
    policy = kind(barrier_interval=1.0)
    for _ in range(20):
        policy.landed(100, 0.05, 0.05)
    assert policy.budget() == START


def test_one_slow_chunk_does_not_allow_slow_ones():
    """A pause of the machine is not the fixed cost of a job."""
    policy = Adaptive(barrier_interval=1.0)
    settled(policy, lambda rows: 0.2 + rows * 1e-6)
    policy.landed(policy.budget(), 30.0, 30.0)
    budgets = settled(policy, lambda rows: 0.2 + rows * 1e-6, chunks=10)
    assert max(budgets) <= 3_600_000


def test_adaptive_recovers_after_a_slow_time():
    policy = Adaptive(barrier_interval=1.0)
    settled(policy, lambda rows: 5.0 + rows * 1e-4)
    slow = policy.budget()
    assert max(settled(policy, lambda rows: 0.1 + rows * 1e-6)) >= max(400_000, slow)


@pytest.mark.parametrize(
    ("text", "kind"), [("adaptive", Adaptive), (" Until_Barrier ", UntilBarrier), ("1", Fixed), ("5000", Fixed)]
)
def test_policies_by_name(text, kind):
    assert isinstance(parse_policy(text), kind)


@pytest.mark.parametrize("text", ["", "0", "-1", "1.5", "fast", "１"])
def test_other_policies_are_refused(text):
    with pytest.raises(InvalidParameterValue, match="adaptive, until_barrier, or a whole number"):
        parse_policy(text)


# --- rate limits ------------------------------------------------------------------------------------------------


def test_no_limit_and_pause():
    unlimited, paused = RateLimit(None, now=0.0), RateLimit(0, now=0.0)
    unlimited.take(10**9, 0.0)
    paused.take(5, 0.0)
    assert (unlimited.allowance(1.0), unlimited.ready_at(1.0)) == (UNLIMITED, 1.0)
    assert (paused.allowance(1e9), paused.ready_at(1.0)) == (0, math.inf)
    with pytest.raises(InvalidParameterValue, match="-1 rows per second"):
        RateLimit(-1, now=0.0)


def test_one_row_per_second_is_one_row_per_barrier():
    """Also when a barrier is a little early, as barriers are."""
    limit = RateLimit(1, now=0.0)
    for barrier in range(1, 20):
        now = barrier * 0.999
        assert limit.allowance(now) == 1 or limit.ready_at(now) - now < 1.0
        if limit.allowance(now):
            limit.take(1, now)
    assert limit.allowance(21.0) == 1


@given(
    rate=st.integers(1, 1000),
    steps=st.lists(st.tuples(st.floats(0, 3), st.integers(0, 50)), min_size=1, max_size=40),
)
def test_the_rate_holds_in_the_long_run(rate, steps):
    """Taking what is allowed, or a little more, gives at most the rate, one second's burst and the last excess."""
    limit, now, taken, largest_excess = RateLimit(rate, now=0.0), 0.0, 0, 0
    for pause, excess in steps:
        now += pause
        if allowed := limit.allowance(now):
            assert allowed <= rate
            limit.take(allowed + excess, now)
            taken += allowed + excess
            largest_excess = max(largest_excess, excess + 1)
        assert taken <= rate * (now + 1) + largest_excess + 1e-6


@given(rate=st.integers(1, 1000), excess=st.integers(0, 10_000), now=st.floats(0, 1e6))
def test_it_is_ready_when_it_says(rate, excess, now):
    """A caller that sleeps until then finds a row to read; otherwise it would spin."""
    limit = RateLimit(rate, now=now)
    limit.take(rate + excess, now)
    ready = limit.ready_at(now)
    assert now <= ready <= now + excess / rate + 1e-6
    assert limit.allowance(math.nextafter(ready, math.inf)) >= 1 or limit.ready_at(ready) > ready


@given(
    rate=st.integers(1, 10**9),
    portion=st.floats(0, 3),
    excess=st.integers(0, 10_000),
    steps=st.lists(st.floats(0, 2), min_size=1, max_size=20),
)
def test_a_portion_comes_together_before_anything_is_read(rate, portion, excess, steps):
    """Nothing less is read, whoever waits until it is ready can read, and the rate is not lower for it."""
    limit, now, taken = RateLimit(rate, now=0.0, portion=portion), 0.0, 0
    for late in steps:
        now = limit.ready_at(now) + late * 1e-3 + 1e-6
        allowed = limit.allowance(now)
        assert allowed >= max(1, math.floor(rate * min(portion, 1.0) * (1 - 1e-6)))
        limit.take(allowed + excess, now)
        taken += allowed + excess
        assert taken >= rate * (now - (len(steps) * 3e-3)) - 1


def test_a_clock_that_goes_back_takes_nothing_away():
    limit = RateLimit(10, now=100.0)
    limit.take(4, 100.0)
    assert limit.allowance(50.0) == 6
    limit.take(1, 50.0)
    assert limit.allowance(100.0) == 5


def test_reach_has_an_end():
    reach = Reach()
    for _ in range(100):
        reach.landed(live=0, stored=0)
    assert reach.rows == LARGEST
