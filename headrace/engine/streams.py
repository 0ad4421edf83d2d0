"""A query's rows, a part at a time: what is not asked for is not computed, and what was read is let go.

``toArrow`` holds the whole result, in the JVM and here. A stream runs one partition ahead of its reader, and what a
partition has to say is bounded (:mod:`headrace.state.cuts`): more of it waits in scratch files of the warehouse until
it is read. Between two reads no executor waits, however slow the reader is.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from headrace.engine.spark import spark_errors
from headrace.errors import StorageError
from headrace.state.cuts import ANSWER, CUT_BYTES, RESULTS, CutPartition, parts_of, stream_of
from headrace.state.storage import Storage

KILLED_AFTER = 5.0
"""Seconds after which a task that was cancelled writes nothing more: Spark lets its worker go on for two."""
_LOCAL = "org.apache.spark.sql.execution.LocalTableScanExec"


class Streams:
    """The results that are being read, and where they wait."""

    def __init__(self, storage: Storage, *, cut_bytes: int = CUT_BYTES):
        self._storage = storage
        self.cut_bytes = cut_bytes
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._open: set[str] = set()
        storage.make_dirs(RESULTS)

    def waits(self, path: str) -> bool:
        """Whether somebody may still want this scratch file."""
        return stream_of(path) in self._open

    def record_batches(self, frame: DataFrame, *, given: bool = False) -> Iterator[pa.RecordBatch]:
        """``given``: it reads nothing that is stored, so that the planner may have worked out its rows already."""
        with spark_errors("the query"):
            schema = to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")
            if given and frame._jdf.queryExecution().executedPlan().getClass().getName() == _LOCAL:
                # SELECT 1: a job would only carry the rows around. Not so of dates that Python does not have.
                with contextlib.suppress(ValueError, OverflowError):
                    columns = list(zip(*map(tuple, frame.collect()), strict=True)) or [()] * len(schema)
                    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                    return
            for part in self._parts(frame):
                yield pa.ipc.read_record_batch(pa.py_buffer(part), schema)

    def _parts(self, frame: DataFrame) -> Iterator[bytes]:
        context = frame.sparkSession.sparkContext
        stream = str(next(self._numbers))
        if len(set(frame.columns)) < len(frame.columns):  # which a query's columns may be called as they like
            frame = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
        cut = CutPartition(files=self._storage.files, stream=stream, cut_bytes=self.cut_bytes)
        cuts = frame.mapInArrow(cut, f"{ANSWER} BINARY")
        tag = f"headrace-stream-{stream}"
        with self._lock:
            self._open.add(stream)
        finished = False
        try:
            context.addJobTag(tag)
            try:
                answers = cuts.toLocalIterator(prefetchPartitions=True)
            finally:
                context.removeJobTag(tag)
            for (answer,) in answers:
                yield from parts_of(answer, self._storage)
            finished = True
        finally:
            with self._lock:
                self._open.discard(stream)
            if not finished:
                with contextlib.suppress(Exception):  # the engine may be gone as well
                    cancel_tagged(frame.sparkSession, tag)
                self._forget(stream)
                again = threading.Timer(KILLED_AFTER, self._forget, [stream])
                again.daemon = True
                again.start()

    def _forget(self, stream: str) -> None:
        """Deletes what is left of a stream that nobody reads; what this misses, VACUUM finds."""
        with contextlib.suppress(StorageError, FileNotFoundError):
            left = (f"{RESULTS}/{entry.name}" for entry in self._storage.list(RESULTS))
            self._storage.delete([path for path in left if stream_of(path) == stream])


def tag_thread(spark: SparkSession, tag: str) -> None:
    """Gives a name to all jobs that this thread starts from now on."""
    spark.sparkContext.addJobTag(tag)


def cancel_tagged(spark: SparkSession, tag: str) -> None:
    spark.sparkContext.cancelJobsWithTag(tag)
