"""How long something takes, for monitoring: how often it happened, all of it together, and the last times.

>>> timings = Timings()
>>> with timings.one():
...     pass
>>> timings.count, len(timings.recent), timings.seconds < 60
(1, 1, True)
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

RECENT = 600


class Timings:
    """Of many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count, self.seconds = 0, 0.0
        self.recent: deque[float] = deque(maxlen=RECENT)

    @contextmanager
    def one(self) -> Iterator[None]:
        began = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - began
            with self._lock:
                self.count += 1
                self.seconds += took
                self.recent.append(took)
