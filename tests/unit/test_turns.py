"""A thread that tries again, and who is told when something is filled."""

from __future__ import annotations

import copy
import json
import logging
import threading
from types import SimpleNamespace

import pytest

from headrace.engine.logged import told
from headrace.engine.turns import Turns
from headrace.engine.waiting import Waiting
from headrace.errors import DataError, EngineClosed, HeadraceError, JobCancelled, SparkJobCancelled


class Script:
    """Turns that go as written; after the last one nothing is left to do."""

    def __init__(self, *outcomes):
        self.outcomes, self.done = list(outcomes), threading.Event()
        self.errors = []
        self.turns = Turns(self.turn, thread="turns", subject=lambda: 'source "s"', idle_seconds=lambda: 60.0)

    def turn(self) -> bool:
        self.errors.append(self.turns.error and self.turns.error.message)
        if not self.outcomes:
            self.done.set()
            return False
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def run(self) -> None:
        self.turns.start()
        assert self.done.wait(60)
        self.turns.stop()


def test_a_failure_is_shown_until_a_turn_succeeds_and_both_are_logged_once(caplog):
    script = Script(HeadraceError("no route"), HeadraceError("no route"), True)
    with caplog.at_level(logging.INFO, "headrace"):
        script.run()
    assert script.errors == [None, "no route", "no route", None]
    assert [record.getMessage() for record in caplog.records] == ['source "s": no route', 'source "s": goes on']


def test_what_an_error_quotes_of_a_row_is_not_logged(caplog):
    script = Script(DataError('invalid input syntax for type integer: "s3cret"', sqlstate="22P02"), True)
    with caplog.at_level(logging.INFO, "headrace"):
        script.run()
    assert script.errors[1] == 'invalid input syntax for type integer: "s3cret"'
    assert [record.getMessage() for record in caplog.records] == ['source "s": DataError 22P02', 'source "s": goes on']


def test_a_cancelled_job_is_not_a_failure():
    script = Script(SparkJobCancelled("cancelled"), True)
    script.run()
    assert script.errors == [None, None, None]


def test_a_closed_engine_ends_it():
    script = Script(EngineClosed("closed"), True)
    script.turns.start()
    script.turns._thread.join(60)
    assert not script.turns._thread.is_alive() and len(script.outcomes) == 1


@pytest.mark.parametrize("failure", [HeadraceError("no route"), ValueError("ours")])
def test_stopping_does_not_wait_until_the_next_attempt(failure):
    stopped = threading.Event()

    def turn() -> bool:
        turns.stopping = True  # as if stop() came while the turn fails, before it begins to rest
        turns.news.set()
        stopped.set()
        raise failure

    turns = Turns(turn, thread="turns", subject=str, idle_seconds=lambda: 600.0)
    turns.start()
    assert stopped.wait(60)
    turns.stop()
    assert turns.error is None


def test_who_waits_is_told_at_the_commit_that_decides():
    waiting = Waiting(lambda state, id: state.outcomes.get(id))
    states = [SimpleNamespace(outcomes={1: True})]
    assert waiting.add(1, lambda: states[0]).result(0) is None
    second, third, fourth = (waiting.add(id, lambda: states[0]) for id in (2, 3, 4))
    waiting.committed(SimpleNamespace(outcomes={2: True, 3: JobCancelled("cancelled")}))
    assert second.result(0) is None
    with pytest.raises(JobCancelled):
        third.result(0)
    assert not fourth.done()
    waiting.give_up(lambda id: EngineClosed(f"job {id}"))
    with pytest.raises(EngineClosed, match="job 4"):
        fourth.result(0)


def test_why_a_table_has_stopped_can_be_copied():
    """As a manifest does, which stores the text."""
    reason = told(DataError('"s3cret" is not a value of type date', hint="look at it", sqlstate="22P02"))
    for each in (reason, copy.deepcopy(reason)):
        assert (each, each.for_log) == (
            '"s3cret" is not a value of type date (look at it)',
            "DataError 22P02 (look at it)",
        )
    assert json.dumps(reason) == json.dumps(str(reason))
