"""The process that Spark forks its Python workers from, with everything imported that our tasks need.

Spark's own imports next to nothing, so every worker spends its first second on importing Arrow, and keeps a copy of its
own in memory. This one is for local masters, where Headrace can be imported before the first task brings it.
"""

from __future__ import annotations

import gc
import os

# Threads do not survive a fork, and a task is one thread's work.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import numpy  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pyarrow.compute  # noqa: E402
import pyarrow.parquet  # noqa: E402, F401
import pyspark.sql.pandas.serializers  # noqa: E402
import pyspark.worker  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

import headrace.cdc.mysql.reading  # noqa: E402
import headrace.cdc.postgres.reading  # noqa: E402
import headrace.engine.splits  # noqa: E402
import headrace.state.lookup  # noqa: E402
import headrace.state.native  # noqa: E402
import headrace.state.ranges  # noqa: E402, F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()  # what never goes is not looked at when garbage is collected, so its pages stay shared
    daemon.manager()
