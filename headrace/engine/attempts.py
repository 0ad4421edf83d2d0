"""Stopping what the epoch loop computes for somebody who does not want it any more.

What may take long is computed under a name for its Spark jobs, a new one for each attempt: what is cancelled a moment
too late meets nothing that comes after. An attempt that was stopped has failed like any other, and nothing of it is
visible; if others had a part in it, they are tried again without the one that nobody wants.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from headrace.engine.loops import interrupting
from headrace.engine.spark import java_has_ended
from headrace.engine.streams import cancel_tagged, tagged
from headrace.errors import DiskFull, Fenced, QueryCancelled, SparkGone

if TYPE_CHECKING:
    from headrace.engine.coordinator import Request


class Attempts:
    def __init__(self, spark: SparkSession):
        self._spark = spark
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._requests: Sequence[Request] = ()
        self._tag = ""

    @contextmanager
    def of(self, *requests: Request) -> Iterator[None]:
        """What is computed meanwhile is for these, and fails with QueryCancelled if one of them is not wanted."""
        _refuse_unwanted(requests)
        if not any(each.cancellable for each in requests):
            yield
            return
        tag = f"headrace-epoch-{next(self._numbers)}"
        with tagged(self._spark, tag), interrupting(self._spark):
            with self._lock:
                self._requests, self._tag = requests, tag
            try:
                yield
            except (Fenced, SparkGone, DiskFull):
                raise
            except Exception as error:
                if not java_has_ended():
                    _refuse_unwanted(requests, error)
                raise
            finally:
                with self._lock:
                    self._requests = ()

    def stop(self, request: Request) -> None:
        """Ends the jobs that run for it now; it may be about to start others, so this is called again."""
        with self._lock:
            tag = self._tag if request in self._requests else None
        if tag is not None:
            cancel_tagged(self._spark, tag)


def not_wanted() -> QueryCancelled:
    error = QueryCancelled("canceling statement due to user request")
    error.of_statement = True
    return error


def _refuse_unwanted(requests: Sequence[Request], error: Exception | None = None) -> None:
    if any(each.unwanted for each in requests):
        raise not_wanted() from error
