"""Jobs that run again and again are planned once.

Spark needs longer to plan a small job than to run it: a thousand rows through five views are 100 ms of analysis,
optimisation and code generation for 20 ms of work. What changes from one epoch to the next is only what goes in, so a
frame is built and planned once, and run with other *inputs*: bytes that come with the job as its local properties,
which Spark hands to each of its tasks. The frame's leaves are tasks that begin with the number of an input.

Properties travel with every task of a job, so inputs are for small jobs (INPUT_BYTES). They are people's data, and
Spark writes the properties of jobs to its event log: see ``_keep_out_of_logs``.
"""

from __future__ import annotations

import base64
import gc
import os
import pickle
import re
import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

INPUT_BYTES = 1 << 20
"""All inputs of a job together; beyond, planning costs little beside the work."""

GIVING_WAY = 10
"""The niceness of backfills and merges: beside them an epoch that wants a processor has nine tenths of it."""

KEPT = 128
"""Planned frames, the least recently used of which is forgotten first."""

_PROPERTY = "headrace.secret."
_ON_SESSION = "_headrace_prepared"

T = TypeVar("T")
TaskBody = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class PreparedJobs:
    """The planned frames of a session."""

    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._lock = Lock()
        self._frames: OrderedDict[Hashable, DataFrame] = OrderedDict()
        self._redacted: set[str] = set()

    @staticmethod
    def of(spark: SparkSession) -> PreparedJobs:
        found = getattr(spark, _ON_SESSION, None)
        if found is None:
            found = PreparedJobs(spark)
            setattr(spark, _ON_SESSION, found)
        return found

    @property
    def any_planned(self) -> bool:
        return bool(self._frames)

    def frame(self, key: Hashable, build: Callable[[], DataFrame]) -> DataFrame:
        """The frame of this key, built the first time. It must depend on nothing but the key and the inputs."""
        with self._lock:
            if key in self._frames:
                self._frames.move_to_end(key)
                return self._frames[key]
        built = build()
        with self._lock:
            self._frames[key] = built
            while len(self._frames) > KEPT:
                self._frames.popitem(last=False)
        return built

    def leaf(self, number: int, body: TaskBody, schema: str) -> DataFrame:
        """What a body makes of the number of an input, in one partition."""
        return self._spark.range(number, number + 1, 1, 1).mapInArrow(body, schema)

    @contextmanager
    def given(self, inputs: Mapping[str, bytes]) -> Iterator[None]:
        """Jobs that this thread starts meanwhile have these inputs."""
        context = self._spark.sparkContext
        self._keep_out_of_logs(inputs)
        try:
            for name, data in inputs.items():
                context.setLocalProperty(_PROPERTY + name, base64.b64encode(data).decode())
            yield
        finally:
            for name in inputs:
                context.setLocalProperty(_PROPERTY + name, None)

    def _keep_out_of_logs(self, names: Iterable[str]) -> None:
        """Spark redacts properties that are called a secret, but only if its settings name them, too."""
        for name in names:
            if name not in self._redacted:
                self._spark.sparkContext._jsc.sc().conf().set(_PROPERTY + name, "")
                self._redacted.add(name)


def in_one_process(master: str) -> bool:
    """Whether executors are threads of the driver's own JVM: what a small task would do, the driver may do as well."""
    return re.fullmatch(r"local(\[[^]]*\])?", master) is not None


def run_tasks(spark: SparkSession, body: TaskBody, tasks: Sequence[bytes], schema: str) -> pa.Table:
    """Runs a task body, which is told by a batch with one binary value what to do, once for each of the tasks."""
    if sum(map(len, tasks)) > INPUT_BYTES:
        frame = spark.createDataFrame(pa.table({"task": pa.array(tasks, pa.binary())}), schema="task BINARY")
        return frame.repartition(len(tasks)).mapInArrow(body, schema).toArrow()
    prepared = PreparedJobs.of(spark)
    count = len(tasks)
    frame = prepared.frame(
        ("tasks", pickle.dumps(body), schema, count),
        lambda: spark.range(0, count, 1, count).mapInArrow(OverInputs(body), schema),
    )
    with prepared.given({str(number): task for number, task in enumerate(tasks)}):
        return frame.toArrow()


@dataclass(frozen=True)
class OverInputs:
    """A task body for ``mapInArrow``: the number of an input in, what another body makes of the input out."""

    body: TaskBody

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_what_stays()
        return self.body(pa.record_batch({"task": pa.array([data], pa.binary())}) for data in job_inputs(batches))


@dataclass(frozen=True)
class RowsOfInput:
    """A task body for ``mapInArrow``: the number of an input in, its rows, as packed by :func:`packed_rows`, out."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        spare_what_stays()
        for data in job_inputs(batches):
            yield from pa.ipc.open_stream(data)


def packed_rows(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        stream.write_table(rows)
    return sink.getvalue().to_pybytes()


def spare_what_stays() -> None:
    """Inside a task: what the worker process has loaded is not looked at when it collects garbage.

    Spark's workers do that after every task. With Arrow and ours loaded it takes 50 ms, more than most small tasks.
    """
    if gc.get_freeze_count() == 0:
        gc.collect()
        gc.freeze()


def giving_way(work: Callable[[], T]) -> T:
    """Inside a task: runs what nobody waits for, so that epochs get a processor when they want one.

    In a thread, because on Linux each thread has a priority of its own: who is not root may lower one and never raise
    it again, and the worker's next task may be an epoch's.
    """
    with ThreadPoolExecutor(max_workers=1, initializer=_lower_priority) as thread:
        return thread.submit(work).result()


def _lower_priority() -> None:
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):
            # Never up: who runs with a lower priority already may not even ask for that.
            os.setpriority(os.PRIO_PROCESS, thread, max(GIVING_WAY, os.getpriority(os.PRIO_PROCESS, thread)))


def job_input(name: str) -> bytes:
    """Inside a task: an input of its job."""
    from pyspark import TaskContext

    context: Any = TaskContext.get()
    return base64.b64decode(context.getLocalProperty(_PROPERTY + name))


def job_inputs(batches: Iterator[pa.RecordBatch]) -> Iterator[bytes]:
    """Inside a task: the inputs whose numbers come in."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield job_input(str(number))
