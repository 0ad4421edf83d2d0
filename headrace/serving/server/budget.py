"""What clients make the server hold: each of them has a bound, and so have all together.

A few large messages are fine, a hundred at a time would be more memory than there is. Who comes when the
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
from headrace.sql.text import pieces

HELD_BYTES = 512 * 1024 * 1024
"""Of messages that have not come in full, and of statements, all sessions together."""
TREE_BYTES = 100
"""What a character of SQL takes as a tree: rows of an INSERT took 90 bytes, plain queries 170, sums of digits 660."""
FREE_BYTES = 1024 * 1024
"""Of each session that is not counted."""
CODE_CHARACTERS = 4 * 1024 * 1024
"""The longest text of statements, without what is in quotes: a million takes ten seconds and more to be parsed."""
SHORT_TEXT = 10_000
"""Characters that are not looked at one by one."""


class TooMuchHeld(HeadraceError):
    sqlstate = "53200"
    retryable = True


class TooLongText(HeadraceError):
    sqlstate = "54000"


def tree_bytes(text: str) -> int:
    """What statements will take when they are parsed, about; an error if that is more than may be.

    >>> tree_bytes("SELECT 1"), tree_bytes(f"SELECT '{'x' * 50_000}'")
    (800, 51209)
    """
    if len(text) <= SHORT_TEXT:
        return len(text) * TREE_BYTES
    code = sum(each.end - each.start if each.kind == "code" else _QUOTED for each in pieces(text))
    if code > CODE_CHARACTERS:
        raise TooLongText(
            f"the text of statements may have at most {CODE_CHARACTERS:,} characters",
            hint="send many rows with COPY, or in several INSERTs",
        )
    return len(text) + code * TREE_BYTES


_QUOTED = 5
"""What a constant in quotes counts as, besides its own length."""


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
