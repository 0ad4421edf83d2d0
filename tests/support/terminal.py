"""A program at a terminal, and what it shows there."""

from __future__ import annotations

import os
import select
import time


def read_until(terminal: int, wanted: bytes, seconds: float, seen: bytes = b"") -> bytes:
    """What is shown, with what was ``seen`` of it before."""
    deadline = time.monotonic() + seconds
    while wanted not in seen and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            seen += os.read(terminal, 65_536)
    return seen
