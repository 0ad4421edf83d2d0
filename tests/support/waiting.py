"""How tests wait for what other threads and processes do: for a state, never for a time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60
"""Seconds until a state that does not come is a failure; no test depends on how long it takes."""


def eventually(state: Callable[[], Any]) -> Any:
    """Waits for a state of another thread."""
    deadline = time.monotonic() + PATIENCE
    while not (found := state()):
        assert time.monotonic() < deadline, "the awaited state did not come"
        time.sleep(0.002)
    return found
