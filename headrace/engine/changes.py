"""What clients ask an epoch to do to a table, and what became of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from headrace.engine.streams import KeptRows
from headrace.state.ranges import Staged
from headrace.state.runs import RunFile

SMALL_ROWS = 200_000
"""Up to this many rows the change of a query travels through the driver as Arrow; beyond, only executors touch them.

So many cost the driver less than a second for a table and each view on it, about as much as the Spark jobs that do the
same need to start, stage and merge (docs/design/incremental.md)."""

SMALL_BYTES = 16 << 20
"""… or fewer, if the table's rows are so large that as many would exceed this (as stored, compressed)."""


@dataclass(frozen=True, kw_only=True)
class InsertRows:
    """Rows that came through a client: all columns of the table but the hidden row id."""

    rows: pa.Table


@dataclass(frozen=True, kw_only=True)
class InsertFrame:
    """INSERT … SELECT. The frame is built inside the epoch, over the state that the epoch starts from."""

    build: Callable[[Any], DataFrame]
    returning: bool = False
    """Whether the rows will be asked for, also those that were there already."""


OLD_ROW, NEW_ROW = "_hr_old", "_hr_new"


@dataclass(frozen=True, kw_only=True)
class UpdateFrame:
    """UPDATE and DELETE: a frame with the struct column OLD_ROW and, for an update, NEW_ROW."""

    build: Callable[[Any], DataFrame]
    deletes: bool
    moves_key: bool = False
    returning: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplaceFrame:
    """A frame with the struct columns OLD_ROW and NEW_ROW, of one key. Either may be NULL: a row comes, or goes."""

    build: Callable[[Any], DataFrame]


@dataclass(frozen=True, kw_only=True)
class Fill:
    """A row of the log that leaves values out, because they did not change."""

    row: int
    key: tuple[str, ...]
    """Of the row, as the database writes it"""
    columns: tuple[str, ...]
    origin: int
    """The row of ``ChangelogRows.origins`` with the key of the stored row that has them"""


@dataclass(frozen=True, kw_only=True)
class ChangelogRows:
    """What a log says about a table, at most one change for each key."""

    rows: pa.Table
    deletes: pa.Table
    """Keys"""
    origins: pa.Table
    """Keys"""
    fills: tuple[Fill, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WrittenRows:
    """Many rows with keys that the table never had, in files that are already the table's."""

    files: tuple[RunFile, ...]


@dataclass(frozen=True, kw_only=True)
class StagedRows:
    """Many rows with a key, and their vnodes, in files: those of a later file came later, and so did later rows."""

    files: tuple[Staged, ...]


@dataclass(frozen=True, kw_only=True)
class StagedChanges:
    """Many changes of rows by their key, in files with a weight and a tag (:mod:`headrace.state.resolve`)."""

    files: tuple[Staged, ...]


Change = (
    InsertRows | InsertFrame | UpdateFrame | ReplaceFrame | ChangelogRows | WrittenRows | StagedRows | StagedChanges
)


@dataclass(kw_only=True)
class Outcome:
    """What a client is told once the epoch is committed."""

    count: int = 0
    rows: pa.Table | None = None
    """The rows as written (deleted, for DELETE), for RETURNING; None when they are many."""
    files: list[RunFile] = field(default_factory=list)
    """Where those rows are when they are many."""
    returned: pa.Table | KeptRows | None = None
    """What RETURNING makes of them."""
    epoch: int = 0
