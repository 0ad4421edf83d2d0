"""Places where a test can kill the process for real.

``HEADRACE_FAILPOINT=before_commit:3`` ends the process with SIGKILL the third time that place is reached. Without
the variable a place costs one comparison.
"""

from __future__ import annotations

import os
import signal

_armed, _, _count = os.environ.get("HEADRACE_FAILPOINT", "").partition(":")
_remaining = int(_count or 1)


def failpoint(name: str) -> None:
    global _remaining
    if name != _armed:
        return
    _remaining -= 1
    if _remaining == 0:
        os.kill(os.getpid(), signal.SIGKILL)
