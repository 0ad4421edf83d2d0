"""Which transactions a snapshot of PostgreSQL sees.

A commit is in the log, and decoded from it, before a SELECT can see it: a server that waits for a standby may hold it
there for as long as it likes. So no position in the log says what a snapshot holds. The snapshot itself does:

>>> Snapshot.parse("100:105:101,103").sees(102), Snapshot.parse("100:105:101,103").sees(103)
(True, False)
"""

from __future__ import annotations

from dataclasses import dataclass

_WRAP = 1 << 32


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A ``pg_snapshot``: all before ``first`` have ended, none from ``end`` on has, nor have those that are running."""

    first: int
    end: int
    running: frozenset[int] = frozenset()

    @staticmethod
    def parse(text: str) -> Snapshot:
        first, end, running = text.split(":")
        return Snapshot(
            first=int(first), end=int(end), running=frozenset(map(int, running.split(",") if running else ()))
        )

    def sees(self, xid: int) -> bool:
        """Whether the effects of a transaction that the log has committed are in it.

        The log has the lower 32 bits of a transaction's number only. Two numbers that live at the same time are less
        than 2³¹ apart, so the snapshot's own 64 bits say which it is.
        """
        full = widened(xid, self.end)
        return full < self.end and full not in self.running

    def all_ended_by(self, later: Snapshot) -> bool:
        """Whether every transaction that ran when this one was taken had ended when the later one was."""
        return later.first >= self.end


def widened(xid: int, near: int) -> int:
    """
    >>> widened(5, near=(7 << 32) + 3) - (7 << 32), widened(0xFFFFFFF0, near=(7 << 32) + 3) - (6 << 32) == 0xFFFFFFF0
    (5, True)
    """
    full = (near & ~(_WRAP - 1)) | (xid & (_WRAP - 1))
    if full - near >= _WRAP // 2:
        return full - _WRAP
    if near - full > _WRAP // 2:
        return full + _WRAP
    return full
