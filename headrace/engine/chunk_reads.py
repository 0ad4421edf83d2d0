"""Chunks of a source's tables in flight: how their reading begins, and what becomes of the files of those that do not
land."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from headrace.cdc.chunks import shape
from headrace.cdc.database import Database
from headrace.cdc.intake import Flight, Intake
from headrace.engine.followed import AskedBounds, ChunkRead, Followed
from headrace.engine.splits import forget_files, read_chunk, split_bounds

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

READERS = 4
"""Chunks that are read at the same time, of all tables of a source"""


class ChunkReads:
    def __init__(self, engine: Engine, database: Database, address: Any, on_news: Callable[[], None]):
        self._engine, self._database, self._address = engine, database, address
        self._on_news = on_news
        # Where a chunk ends takes the database a tenth of a second and more to find: nobody waits for it.
        self._control = database.control(address)
        self._asking = ThreadPoolExecutor(max_workers=1, thread_name_prefix="headrace-bounds")
        self._numbers = itertools.count(1)
        self._pool = ThreadPoolExecutor(max_workers=READERS, thread_name_prefix="headrace-splits")

    def launch(self, table: Followed) -> bool:
        """Begins the next chunk of a table, if it is known where that ends; else there will be news."""
        asked = self._asked(table)
        if not asked.bounds.done():
            return False
        table.asked = None
        start, bounds = asked.start, asked.bounds.result()
        held, id, before = self._database.hold(self._address), next(self._numbers), table.intake
        try:
            table.intake = before.launched(Flight(id=id, end=bounds[-1], sees=held.sees))
            files = self._pool.submit(
                read_chunk, self._engine.spark, self._engine.storage, table.layout, table.state.table, held,
                [start, *bounds],
            )  # fmt: skip
        except BaseException:
            held.close()
            table.intake = before
            raise
        now = time.monotonic()
        table.chunks.append(ChunkRead(id=id, files=files, held=held, splits=len(bounds), launched_at=now))
        table.recent = table.recent or [(now, table.intake.progress.rows)]
        files.add_done_callback(lambda _: self._on_news())
        if not table.intake.all_launched:
            self._asked(table)  # by the time it can be launched, the answer is here
        return True

    def _asked(self, table: Followed) -> AskedBounds:
        """Where the next chunk ends, as the table is to be read now."""
        splits, rows = shape(
            parallelism=table.state.parallelism, split_rows=table.split_rows, batch_rows=table.state.batch_rows,
            rate_limit=table.state.rate_limit,
        )  # fmt: skip
        start, source = table.intake.next_start, table.state.table
        question = (source, start, splits, rows)
        if table.asked is None or table.asked.question != question:
            bounds = self._asking.submit(split_bounds, self._control, source, start, splits=splits, rows=rows)
            table.asked = AskedBounds(question=question, start=start, bounds=bounds)
            bounds.add_done_callback(lambda _: self._on_news())
        return table.asked

    def set_intake(self, table: Followed, intake: Intake) -> None:
        """What is not in flight any more is forgotten."""
        table.intake = intake
        flying = {flight.id for flight in intake.flights}
        for chunk in [chunk for chunk in table.chunks if chunk.id not in flying]:
            self._forget(table, chunk)

    def forget(self, table: Followed) -> None:
        for chunk in list(table.chunks):
            self._forget(table, chunk)

    def _forget(self, table: Followed, chunk: ChunkRead) -> None:
        """With what it has written, or will have."""
        table.chunks.remove(chunk)

        def delete(files: Future) -> None:
            with contextlib.suppress(BaseException):
                forget_files(self._engine.storage, files.result())

        chunk.files.add_done_callback(delete)

    def stop(self) -> None:
        self._control.interrupt()
        self._asking.shutdown(wait=True, cancel_futures=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._control.close()


def being_written(table: Followed) -> bool:
    """Whether tasks may be writing files of it that nobody knows yet."""
    return any(not chunk.files.done() for chunk in list(table.chunks))


def paths_needed(table: Followed) -> Iterator[str]:
    """Files that no manifest names and that must stay."""
    for chunk in list(table.chunks):
        if chunk.files.done() and not chunk.files.cancelled() and chunk.files.exception() is None:
            yield from (file.path for file in chunk.files.result())
