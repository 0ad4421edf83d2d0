"""Who comes when queries take turns."""

from __future__ import annotations

import threading

import pytest

from headrace.engine import streams
from headrace.engine.streams import AtOnce


def waiting(turns: AtOnce, count: int) -> None:
    while len(turns._waiting) < count:
        threading.Event().wait(0.001)


def test_who_came_first_is_next(monkeypatch):
    monkeypatch.setattr(streams, "LOOKS_EVERY", 0.001)  # to look whether one was cancelled costs nobody the place
    turns, came = AtOnce(1), []

    def come(number: int) -> None:
        with turns.turn(lambda: None):
            came.append(number)

    threads = [threading.Thread(target=come, args=(number,)) for number in range(5)]
    with turns.turn(lambda: None):
        for number, thread in enumerate(threads):
            thread.start()
            waiting(turns, number + 1)
    for thread in threads:
        thread.join()
    assert came == [0, 1, 2, 3, 4]


def test_who_gives_up_stands_in_nobodys_way(monkeypatch):
    monkeypatch.setattr(streams, "LOOKS_EVERY", 0.001)
    turns, gone = AtOnce(2), threading.Event()

    def refuse_if_gone() -> None:
        if gone.is_set():
            raise InterruptedError

    def give_up() -> None:
        with pytest.raises(InterruptedError), turns.turn(refuse_if_gone):
            raise AssertionError("it began")

    with turns.turn(lambda: None), turns.turn(lambda: None):
        thread = threading.Thread(target=give_up)
        thread.start()
        waiting(turns, 1)
        gone.set()
        thread.join()
    with turns.turn(refuse_if_gone), turns.turn(refuse_if_gone):  # who need not wait is not asked
        assert not turns._free and not turns._waiting
    assert turns._free == 2


def test_an_error_gives_the_turn_back():
    turns = AtOnce(1)
    with pytest.raises(ValueError), turns.turn(lambda: None):
        raise ValueError
    assert turns._free == 1
