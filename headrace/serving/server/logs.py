"""Log lines: for people, or as JSON for programs.

>>> record = logging.LogRecord("headrace", logging.INFO, "", 0, "session %d begins", (7,), None)
>>> record.created = 0
>>> format_text(record), format_json(record)
('1970-01-01 00:00:00.000 INFO    session 7 begins', '{"time": "1970-01-01T00:00:00.000Z", "level": "info", \
"message": "session 7 begins"}')
"""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.created % 1 * 1000):03d}"


def _trace(record: logging.LogRecord) -> str | None:
    return None if record.exc_info is None else "".join(traceback.format_exception(*record.exc_info)).rstrip()


def format_text(record: logging.LogRecord) -> str:
    """One line: what a client calls itself must not look like another record."""
    message = "".join(each if each.isprintable() else repr(each)[1:-1] for each in record.getMessage())
    line = f"{_time(record)} {record.levelname:7} {message}"
    return line if (trace := _trace(record)) is None else f"{line}\n{trace}"


def format_json(record: logging.LogRecord) -> str:
    fields = {
        "time": _time(record).replace(" ", "T") + "Z",
        "level": record.levelname.lower(),
        "message": record.getMessage(),
    }
    if (trace := _trace(record)) is not None:
        fields["trace"] = trace
    return json.dumps(fields, ensure_ascii=False)


class _Formatter(logging.Formatter):
    def __init__(self, write):
        super().__init__()
        self.format = write


def write_logs(form: str, level: str = "info") -> None:
    """From now on Headrace's log goes to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(format_json if form == "json" else format_text))
    log = logging.getLogger("headrace")
    log.handlers[:] = [handler]
    log.setLevel(level.upper())
    log.propagate = False
