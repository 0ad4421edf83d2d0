"""How the demo's processes talk: one JSON object per line, each with its kind under ``is``."""

from __future__ import annotations

import json
import sys
import threading
from typing import Any

_lock = threading.Lock()


def say(kind: str, **fields: Any) -> None:
    """Out at once: a report that sits in a buffer when the process is killed was never made."""
    line = json.dumps({"is": kind} | fields) + "\n"
    with _lock:
        sys.stdout.write(line)
        sys.stdout.flush()


def hear(line: str) -> dict[str, Any] | None:
    """None for half a line, which is the last one of a process that was killed."""
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) and "is" in message else None
