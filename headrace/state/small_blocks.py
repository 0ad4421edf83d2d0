"""A small file in the block cache (:mod:`headrace.state.blocks`): its rows as they are, for it would take longer to
take its columns apart. The files of the last epochs are such."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock

import numpy as np
import pyarrow as pa

from headrace.state.files import Files, open_parquet
from headrace.state.layout import Layout
from headrace.state.recent import RECENT, beside
from headrace.state.runs import EPOCH, VNODE, WEIGHT, RunFile

SMALL_FILE_ROWS = 4096
"""Of a file that is kept so; it has about one row group."""

KEY_BYTES = 256
"""Of a key that may be kept. If one of them is longer, its relation is not."""


class LongKeys(Exception):
    """A key of more than KEY_BYTES."""


def filled_up(layout: Layout, rows: pa.Table, width: int) -> np.ndarray:
    """The (vnode, pk) of each row, filled up to a width, or to that of the longest."""
    if layout.codec.width is not None:
        matrix = layout.codec.matrix(rows, vnodes=rows[VNODE].to_numpy())
        return np.ascontiguousarray(matrix).view(f"S{layout.codec.width}").ravel()
    encoded = layout.encode(rows)
    longest = max(map(len, encoded), default=0)
    if longest > KEY_BYTES:
        raise LongKeys
    return np.array(encoded, dtype=f"S{max(width, longest)}")


class SmallBlocks:
    """All rows of a small file, as one row group."""

    def __init__(self, file: RunFile, layout: Layout):
        self.file, self._layout, self.schema = file, layout, layout.stored_schema
        self.sizes = np.array([file.rows], dtype=np.int64)
        self.width = layout.codec.width or max(len(file.low), len(file.high))
        if self.width > KEY_BYTES:
            raise LongKeys
        self._low, self._high = (np.array([bound], dtype=f"S{self.width}") for bound in (file.low, file.high))
        self._keys: np.ndarray | None = None
        self._lock = Lock()
        self.bytes = beside(0)

    def groups_of(self, lows: np.ndarray, highs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inside = (highs >= self._low) & (lows <= self._high)
        return np.zeros(len(lows), dtype=np.int64), inside.astype(np.int64)

    def missing(self, groups: np.ndarray, names: Iterable[str]) -> dict[bytes, list[str]]:
        return {} if self._keys is not None else {groups.tobytes(): list(names)}

    def load(self, files: Files, groups: np.ndarray, names: Iterable[str]) -> None:
        with self._lock:
            if self._keys is not None:
                return
            rows = RECENT.get((files.root, self.file.path))
            if rows is None:
                with open_parquet(files, self.file.path) as parquet:
                    rows = parquet.read(use_threads=False)
            # A column may have come since they were written.
            self._rows = self._layout.stored(rows).combine_chunks()
            keys = filled_up(self._layout, self._rows, self.width)
            self.width = keys.itemsize
            self.bytes = beside(self._rows.num_columns) + keys.nbytes + self._rows.nbytes
            self._keys = keys  # at last: another thread may look

    def rows_in(self, lows: np.ndarray, highs: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
        begin, end = np.searchsorted(self._keys, lows, "left"), np.searchsorted(self._keys, highs, "right")
        counts = np.maximum(end - begin, 0)
        return np.repeat(begin - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())

    def take(self, rows: np.ndarray, names: Iterable[str]) -> tuple[np.ndarray, pa.Table]:
        """Keys and stored rows; what is neither in the key nor in ``names`` is NULL."""
        schema = self._layout.stored_schema
        wanted = {*self._layout.key_names, *names, VNODE, EPOCH, WEIGHT}
        found = self._rows.select([name for name in schema.names if name in wanted]).take(pa.array(rows))
        if found.num_columns < len(schema):
            columns = [
                found[field.name] if field.name in wanted else pa.nulls(found.num_rows, field.type) for field in schema
            ]
            found = pa.table(columns, schema=schema)
        return self._keys[rows], found
