"""The process that Spark forks its Python workers from, with everything imported that our tasks need.

Spark's own imports next to nothing, so every worker spends its first second on importing Arrow, and keeps a copy of its
own in memory. This one is for local masters, where Headrace can be imported before the first task brings it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os

# Threads do not survive a fork, and a task is one thread's work.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
os.environ["ARROW_DEFAULT_MEMORY_POOL"] = "system"  # see _keep_memory

import numpy  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pyarrow.compute  # noqa: E402
import pyarrow.parquet  # noqa: E402, F401
import pyspark.sql.pandas.serializers  # noqa: E402
import pyspark.worker  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

import headrace.cdc.mysql.reading  # noqa: E402
import headrace.cdc.postgres.reading  # noqa: E402
import headrace.engine.ingest  # noqa: E402
import headrace.engine.splits  # noqa: E402
import headrace.sources.connectors  # noqa: E402
import headrace.state.lookup  # noqa: E402
import headrace.state.native  # noqa: E402
import headrace.state.ranges  # noqa: E402, F401

with contextlib.suppress(ImportError):  # for topics only
    import confluent_kafka  # noqa: F401

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8


def _keep_memory() -> None:
    """Columns of a few megabytes come and go with every piece of a task. If they are given back to the system each
    time, their pages are faulted in again and filled with zeros: a tenth of the time that it takes to read a split.
    A worker that has nothing to do is ended by Spark after a minute, and gives back all of it."""
    with contextlib.suppress(OSError, AttributeError):  # another C library
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_THRESHOLD, 32 << 20)  # the most that it takes
        libc.mallopt(_M_TRIM_THRESHOLD, 256 << 20)
        libc.mallopt(_M_ARENA_MAX, 1)  # a task is one thread's work, but each has another


if __name__ == "__main__":
    _keep_memory()
    gc.collect()
    gc.freeze()  # what never goes is not looked at when garbage is collected, so its pages stay shared
    daemon.manager()
