"""Work that nobody waits for pauses while an epoch runs, but not for ever."""

from __future__ import annotations

import subprocess
import sys

from headrace.state.precedence import CREDIT_SECONDS, GivesWay, Precedence, gives_way, precedence


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self.slept = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept += seconds


def test_it_waits_while_an_epoch_runs_and_goes_on_when_that_is_over():
    clock = Clock()
    work = GivesWay(lambda: 1.0 <= clock.now < 1.1, clock=clock, sleep=clock.sleep)
    clock.now = 0.5
    work()
    assert clock.slept == 0
    clock.now = 1.02
    work()
    assert 1.1 <= clock.now < 1.11


def test_under_epochs_without_end_half_of_the_time_is_left():
    clock = Clock()
    work = GivesWay(lambda: True, clock=clock, sleep=clock.sleep)
    worked = 0.0
    while clock.now < 100:
        clock.now += 0.01
        worked += 0.01
        work()
    assert 0.49 < worked / clock.now < 0.52


def test_what_was_no_work_gives_no_right_to_wait():
    clock = Clock()
    work = GivesWay(lambda: True, clock=clock, sleep=clock.sleep)
    work()
    spent = clock.slept
    assert CREDIT_SECONDS <= spent < CREDIT_SECONDS + 0.01
    clock.now += 1000  # until the worker's next task
    work.begin()
    work()
    assert clock.slept < spent + 0.01


def test_another_process_sees_it():
    mine = Precedence()
    code = (
        "import sys; from headrace.state.precedence import gives_way\n"
        "wanted = gives_way(sys.argv[1])._wanted\n"
        "for line in sys.stdin: print(wanted(), flush=True)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code, mine.path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )

    def asked() -> str:
        child.stdin.write("?\n")
        child.stdin.flush()
        return child.stdout.readline().strip()

    try:
        assert asked() == "False"
        with mine:
            assert asked() == "True"
            with mine:  # a second engine of the process
                pass
            assert asked() == "True"
        assert asked() == "False"
    finally:
        child.stdin.close()
        child.wait()


def test_a_driver_that_is_gone_is_not_waited_for():
    assert gives_way("/proc/1/fd/no-such")._wanted() is False
    assert gives_way(None)._wanted() is False


def test_a_process_has_one():
    assert precedence() is precedence()
