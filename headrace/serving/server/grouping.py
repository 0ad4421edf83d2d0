"""INSERTs that a client sends without waiting for the answers: they are written together, in one commit.

Drivers send many rows as a pipeline of single INSERTs (``executemany``, ``executeBatch``). Each would wait for a commit
of its own. As long as messages are there already, plain INSERTs into one table are collected; before anything else is
done, and before the server waits for its client, they are written and then all answered. If the commit fails, nothing
of the group is written. One that is wrong by itself, a NULL where there must be none, say, fails alone: those that came
before it are written, as statements of their own would be, and those behind it are not begun.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

from headrace.catalog import Relation

GROUP_ROWS = 10_000
"""What is held back at most, of one session."""


class InsertGroup:
    def __init__(self, write: Callable[[Relation, pa.Table], None], send: Callable[[bytes], None]):
        self._write, self._send = write, send
        self._relation: Relation | None = None
        self._rows: list[pa.Table] = []
        self._count = 0
        self._answers: list[bytes] = []

    def __bool__(self) -> bool:
        return self._relation is not None

    def takes(self, relation: Relation) -> bool:
        return self._relation is None or (self._relation == relation and self._count < GROUP_ROWS)

    def add(self, relation: Relation, rows: pa.Table, answer: bytes) -> None:
        self._relation = relation
        self._rows.append(rows)
        self._count += rows.num_rows
        self._answers.append(answer)

    def send(self, answer: bytes) -> None:
        """In its turn: not before the answers to what is held back."""
        if self:
            self._answers.append(answer)
        else:
            self._send(answer)

    def settle(self) -> None:
        """Writes what is held back, waits for the commit, and answers."""
        if self._relation is None:
            return
        relation, rows, answers = self._relation, self._rows, self._answers
        self._relation, self._rows, self._count, self._answers = None, [], 0, []
        self._write(relation, pa.concat_tables(rows))
        for answer in answers:
            self._send(answer)
