"""A query's rows, a part at a time: what is not asked for is not computed, and what was read is let go.

``toArrow`` holds the whole result, in the JVM and here. A stream runs one partition ahead of its reader, and what a
partition has to say is bounded (:mod:`headrace.state.cuts`): more of it waits in scratch files of the warehouse until
it is read. Between two reads no executor waits, however slow the reader is.

Queries take turns, because each may need memory of Spark's for what it joins or sorts: no more are begun at once than
the heap has room for, and others wait, in the order in which they came. A turn ends when a part has come, so nobody
waits for a client that reads slowly. (What then runs on is one partition ahead of its reader, and what it broadcasts.)

Rows that must be known before anybody may read them (those of RETURNING, before the commit) are all computed at once,
and wait in such files for as long as there is somebody who may ask for them (:class:`KeptRows`).
"""

from __future__ import annotations

import contextlib
import itertools
import re
import threading
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

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


KEPT_BYTES = 64 << 10
"""Of one partition of computed rows that the driver holds; what is larger waits in files."""


QUERIES_PER_GIB = 4
"""Of the driver's heap, that may be computing at once: what 60 joined and sorted together did not fit into 2."""

FEWEST_AT_ONCE = 4

LOOKS_EVERY = 0.2
"""Seconds, whether one that waits for its turn was cancelled"""


def queries_at_once(spark: SparkSession) -> int:
    heap = spark.sparkContext._jvm.java.lang.Runtime.getRuntime().maxMemory()
    return max(FEWEST_AT_ONCE, round(QUERIES_PER_GIB * heap / (1 << 30)))


_tag: ContextVar[str | None] = ContextVar("tag", default=None)
_PLAIN = re.compile(r"\w+").fullmatch


class AtOnce:
    """So many at once; who has waited longest comes next."""

    def __init__(self, at_once: int):
        self._lock = threading.Lock()
        self._free = at_once
        self._waiting: deque[threading.Event] = deque()

    @contextlib.contextmanager
    def turn(self, while_waiting: Callable[[], None]) -> Iterator[None]:
        self._take(while_waiting)
        try:
            yield
        finally:
            with self._lock:
                self._give()

    def _take(self, while_waiting: Callable[[], None]) -> None:
        mine = threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                return
            self._waiting.append(mine)
        try:
            while not mine.wait(LOOKS_EVERY):
                while_waiting()
            while_waiting()  # who went away just before does not begin
        except BaseException:
            with self._lock:
                if mine.is_set():
                    self._give()
                else:
                    self._waiting.remove(mine)
            raise

    def _give(self) -> None:
        if self._waiting:
            self._waiting.popleft().set()
        else:
            self._free += 1


class KeptRows:
    """Rows that were computed, and stay until nobody refers to them."""

    def __init__(self, schema: pa.Schema, answers: Sequence[bytes], storage: Storage):
        self.schema = schema
        self._answers, self._storage = answers, storage

    def batches(self) -> Iterator[pa.RecordBatch]:
        for answer in self._answers:
            for part in parts_of(answer, self._storage, keep=True):
                yield pa.ipc.read_record_batch(pa.py_buffer(part), self.schema)

    def table(self, limit: int | None = None) -> pa.Table:
        held, rows = [], 0
        for batch in self.batches():
            held.append(batch)
            rows += batch.num_rows
            if limit is not None and rows >= limit:
                break
        return pa.Table.from_batches(held, self.schema).slice(0, limit)


def _schema(frame: DataFrame) -> pa.Schema:
    return to_arrow_schema(frame.schema, error_on_duplicated_field_names_in_struct=True, timezone="UTC")


class Streams:
    """The results that are being read, and where they wait."""

    def __init__(self, storage: Storage, *, cut_bytes: int = CUT_BYTES, at_once: int = FEWEST_AT_ONCE):
        self._storage = storage
        self._turns = AtOnce(at_once)
        self.cut_bytes = cut_bytes
        self._numbers = itertools.count(1)
        self._name = uuid.uuid4().hex[:12]
        """In front of the numbers: an engine that was fenced still answers queries, and has numbers of its own."""
        self._lock = threading.Lock()
        self._open: set[str] = set()
        self._unwanted: deque[str] = deque()
        storage.make_dirs(RESULTS)

    def waits(self, path: str) -> bool:
        """Whether somebody may still want this scratch file."""
        return stream_of(path) in self._open

    def turn(self, while_waiting: Callable[[], None] = lambda: None) -> contextlib.AbstractContextManager[None]:
        """For somebody who makes Spark work on a query. ``while_waiting``: raises if nobody wants it any more."""
        return self._turns.turn(while_waiting)

    def record_batches(
        self, frame: DataFrame, *, given: bool = False, while_waiting: Callable[[], None] = lambda: None
    ) -> Iterator[pa.RecordBatch]:
        """``given``: it reads nothing that is stored, so that the planner may have worked out its rows already."""
        with spark_errors("the query"):
            schema = _schema(frame)
            # The entries of a map come in another order that way.
            if (
                given
                and "map<" not in str(schema.types)
                and frame._jdf.queryExecution().executedPlan().getClass().getName() == _LOCAL
            ):
                # SELECT 1: a job would only carry the rows around. Not so of dates that Python does not have.
                with contextlib.suppress(ValueError, OverflowError):
                    columns = list(zip(*map(tuple, frame.collect()), strict=True)) or [()] * len(schema)
                    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
                    return
            for part in self._parts(frame, while_waiting):
                yield pa.ipc.read_record_batch(pa.py_buffer(part), schema)

    def computed(self, frame: DataFrame) -> KeptRows:
        """All rows, computed now and read later, from files; the driver holds little of them."""
        stream = self._begin()
        try:
            answers = [answer for (answer,) in self._cut(frame, stream, min(self.cut_bytes, KEPT_BYTES)).collect()]
        except BaseException:
            self._let_go(stream)
            self._remove_unwanted()
            raise
        kept = KeptRows(_schema(frame), answers, self._storage)
        weakref.finalize(kept, self._let_go, stream).atexit = False  # opening the warehouse removes what is left
        return kept

    def _begin(self) -> str:
        self._remove_unwanted()
        stream = f"{self._name}.{next(self._numbers)}"
        with self._lock:
            self._open.add(stream)
        return stream

    def _let_go(self, stream: str) -> None:
        """Nobody wants it any more. Only remembered: a garbage collector, which calls this, is no place for more."""
        self._unwanted.append(stream)
        self._open.discard(stream)

    def _remove_unwanted(self) -> None:
        while self._unwanted:
            with contextlib.suppress(IndexError):  # another thread was faster
                self._forget(self._unwanted.popleft())

    def _cut(self, frame: DataFrame, stream: str, cut_bytes: int) -> DataFrame:
        # A query's columns may be called as they like. mapInArrow looks them up by name, and takes dots, backticks and
        # names that differ in case only for something else. Where a part is read, only their order counts.
        if len({name.lower() for name in frame.columns}) < len(frame.columns) or not all(map(_PLAIN, frame.columns)):
            frame = frame.toDF(*(f"c{at}" for at in range(len(frame.columns))))
        cut = CutPartition(files=self._storage.files, stream=stream, cut_bytes=cut_bytes)
        return frame.mapInArrow(cut, f"{ANSWER} BINARY")

    def _parts(self, frame: DataFrame, while_waiting: Callable[[], None]) -> Iterator[bytes]:
        stream = self._begin()
        tag = f"headrace-stream-{stream}"
        finished = False
        try:
            with self.turn(while_waiting):
                with tagged(frame.sparkSession, tag):
                    answers = self._cut(frame, stream, self.cut_bytes).toLocalIterator(prefetchPartitions=True)
                found = next(answers, None)
            while found is not None:
                yield from parts_of(found[0], self._storage)
                with self.turn(while_waiting):
                    found = next(answers, None)
            finished = True
        finally:
            with self._lock:
                self._open.discard(stream)
            self._remove_unwanted()
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


@contextlib.contextmanager
def tagged(spark: SparkSession, tag: str) -> Iterator[None]:
    """Gives a name to all jobs that this thread starts meanwhile."""
    spark.sparkContext.addJobTag(tag)
    before = _tag.set(tag)
    try:
        yield
    finally:
        _tag.reset(before)
        spark.sparkContext.removeJobTag(tag)


def with_tag(spark: SparkSession, work: Callable[..., Any]) -> Callable[..., Any]:
    """For another thread: the work, whose jobs then have the name that this thread's have now."""
    if (tag := _tag.get()) is None:
        return work

    def run(*arguments: Any) -> Any:
        with tagged(spark, tag):
            return work(*arguments)

    return run


def cancel_tagged(spark: SparkSession, tag: str) -> None:
    spark.sparkContext.cancelJobsWithTag(tag)
