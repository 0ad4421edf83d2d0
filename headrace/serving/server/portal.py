"""A result on its way to a client: rows as messages, as many as are asked for, made when they are asked for."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

import pyarrow as pa

from headrace.serving.render import python_columns
from headrace.serving.result import Result
from headrace.serving.wire.rows import data_rows, spread
from headrace.types import SqlType

BLOCK_ROWS = 2_048
"""Rows that are turned into messages at once."""


class Portal:
    def __init__(self, result: Result, formats: Sequence[int] = (), types: Sequence[SqlType] | None = None):
        self.zone = result.zone
        self.columns, self.types = result.columns, list(types or result.types)
        self.formats = spread(formats, len(self.columns))
        self.rows = 0
        """Sent so far, since the last count"""
        self._result = result
        self._blocks: Generator[pa.RecordBatch] | None = None
        self._rest: pa.RecordBatch | None = None
        self.done = not self.columns

    def fetch(self, limit: int | None = None) -> Iterator[bytes]:
        """Messages of the next rows. Afterwards :attr:`done` says whether there are no more."""
        self.rows = 0
        while not self.done and (limit is None or self.rows < limit):
            block = self._next_block(BLOCK_ROWS if limit is None else min(BLOCK_ROWS, limit - self.rows))
            if block is None:
                self.done = True
                return
            self.rows += block.num_rows
            yield data_rows(python_columns(block), self.types, self.formats, self.zone)

    def _next_block(self, size: int) -> pa.RecordBatch | None:
        if self._blocks is None:
            self._blocks = self._result.batches()
        while self._rest is None or self._rest.num_rows == 0:
            self._rest = next(self._blocks, None)
            if self._rest is None:
                return None
        block, self._rest = self._rest.slice(0, size), self._rest.slice(size)
        return block

    @property
    def is_query(self) -> bool:
        """Whether its rows are all that there is to it; else they tell of something that was done."""
        return self._result.command == "SELECT"

    def close(self) -> None:
        """What was not fetched is not wanted."""
        if self._blocks is not None:
            self._blocks.close()

    def tag(self, rows: int) -> str:
        return f"SELECT {rows}" if self.is_query else self._result.command
