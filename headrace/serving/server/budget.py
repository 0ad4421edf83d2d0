"""What clients make the server hold: each of them has a bound, and so have all together.

A few large messages and COPYs are fine, a hundred at a time would be more memory than there is. Who comes when the
budget is spent is told so; small messages cost nothing.

>>> budget = Budget(100)
>>> budget.take(70), budget.take(40)
(True, False)
>>> budget.give(70)
>>> budget.take(40)
True
"""

from __future__ import annotations

import threading

from headrace.errors import HeadraceError

HELD_BYTES = 512 * 1024 * 1024
"""Of messages that have not come in full and of COPYs, all sessions together."""
FREE_BYTES = 1024 * 1024
"""Of each session that is not counted."""


class TooMuchHeld(HeadraceError):
    sqlstate = "53200"
    retryable = True


def too_much_held() -> TooMuchHeld:
    return TooMuchHeld(
        "clients are sending more at a time than the server holds", hint="try again, or send less at once"
    )


class Budget:
    def __init__(self, total: int = HELD_BYTES):
        self._free = total
        self._lock = threading.Lock()

    def take(self, count: int) -> bool:
        with self._lock:
            if count > self._free:
                return False
            self._free -= count
            return True

    def give(self, count: int) -> None:
        with self._lock:
            self._free += count
