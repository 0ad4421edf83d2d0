"""How far tables are behind their source, in bytes of its log and in seconds.

The server is asked now and then where its log ends. Once all up to there is here, the tables are as new as the moment
at which it was asked: so seconds need no clock but ours, and go on counting while the server cannot be asked.

>>> looks = Looks().looked(100, now=1.0, behind=60).looked(160, now=2.0, behind=40)
>>> looks.reached(120).lag(120, now=5.0)
Lag(bytes=40, seconds=4.0)
>>> looks.reached(160).lag(160, now=2.5)
Lag(bytes=0, seconds=0.0)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

KEPT = 64
"""Looks that are remembered; of more, every second one is forgotten"""

FRESH_SECONDS = 5.0
"""Who has all that there was so short a time ago is not behind."""


@dataclass(frozen=True)
class Lag:
    bytes: int | None = None
    """None: the server has not been asked yet"""
    seconds: float | None = None
    """None: nothing that it was asked for is here yet"""


@dataclass(frozen=True, kw_only=True)
class Looks:
    end: int | None = None
    """Where the log ended when the server was asked last"""
    behind: int = 0
    """How many bytes that was behind where we were; positions need not be bytes"""
    waiting: tuple[tuple[int, float], ...] = ()
    """Ends that have not been reached, and when they were seen; the oldest first"""
    as_of: float | None = None
    """When the newest end was seen that has been reached"""

    def looked(self, end: int, *, now: float, behind: int) -> Looks:
        waiting = (*self.waiting, (end, now))
        if len(waiting) > KEPT:
            waiting = waiting[::2]
        return dataclasses.replace(self, end=end, behind=behind, waiting=waiting)

    def reached(self, position: int) -> Looks:
        """All that was committed before the position is here."""
        behind = [at for end, at in self.waiting if end <= position]
        if not behind:
            return self
        waiting = tuple((end, at) for end, at in self.waiting if end > position)
        return dataclasses.replace(self, waiting=waiting, as_of=behind[-1])

    def lag(self, position: int, *, now: float) -> Lag:
        if self.end is None:
            return Lag()
        age = None if self.as_of is None else now - self.as_of
        if age is not None and position >= self.end and age < FRESH_SECONDS:
            age = 0.0
        return Lag(0 if position >= self.end else self.behind, age)
