"""What a statement on a server answers: a command tag, and rows where it has any.

Rows are kept as the texts that came, which takes little more than they took on the wire, and become values when they
are asked for.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, NoReturn, Protocol

import pyarrow as pa

from headrace.errors import HeadraceError, Unsupported
from headrace.remote.values import arrow_array, python_values
from headrace.serving.output import write_table
from headrace.types import SqlType

if TYPE_CHECKING:
    import pandas

BLOCK_ROWS = 4_096
"""Rows that are kept together."""

Columns = list[list[bytes | None]]


class Coming(Protocol):
    """Rows on their way."""

    def __iter__(self) -> Iterator[Columns]: ...

    @property
    def tag(self) -> str:
        """Known when all rows have come"""
        ...


class RowsGone(HeadraceError):
    """They were on their way, and the session has gone on."""

    sqlstate = "55000"


class RemoteResult:
    def __init__(self, columns: Sequence[str], types: Sequence[SqlType], coming: Coming, notices: list[str], zone: str):
        self.columns, self.types, self.zone = list(columns), list(types), zone
        self.notices = notices
        self._coming: Coming | None = coming
        self._tag = ""
        self._kept: list[list[pa.Array]] = []
        self._passed = False

    @property
    def tag(self) -> str:
        """PostgreSQL's command tag; a SELECT's holds its row count."""
        self.keep()
        return self._tag

    @property
    def notice(self) -> str | None:
        return self.notices[0] if len(self.notices) == 1 else "; ".join(self.notices) or None

    def keep(self) -> None:
        """Takes in all rows that are still on their way, unless they have passed."""
        if self._coming is None:
            return
        try:
            self._take_in(iter(self._coming))
        except BaseException:
            self._passed = True  # those that have come so far are not the result
            raise
        self._end()

    def _take_in(self, pieces: Iterator[Columns]) -> None:
        while block := list(islice(pieces, 1)):
            count = len(block[0][0])
            while count < BLOCK_ROWS and (piece := next(pieces, None)) is not None:
                block.append(piece)
                count += len(piece[0])
            whole = (list(chain.from_iterable(parts)) for parts in zip(*block, strict=True))
            self._kept.append([pa.array(column, pa.binary()) for column in whole])

    def _end(self) -> None:
        if self._coming is not None:
            self._tag, self._coming = self._coming.tag, None

    def stream(self) -> Iterator[tuple]:
        """The rows once, as they come, to be printed: a large result is never held as a whole."""
        if self._coming is None:
            yield from self._rows()
            return
        self._passed = True
        for piece in self._coming:
            yield from self._tuples(piece)
        self._end()

    def rows(self) -> list[tuple]:
        return list(self._rows())

    def _rows(self) -> Iterator[tuple]:
        self._whole()
        for block in self._kept:
            yield from self._tuples([column.to_pylist() for column in block])

    def _tuples(self, columns: Columns) -> Iterator[tuple]:
        values = [python_values(column, kind) for column, kind in zip(columns, self.types, strict=True)]
        return zip(*values, strict=True)

    def _whole(self) -> None:
        if self._passed:
            raise RowsGone("the rows of this result have passed", hint="ask for them with sql()")
        self.keep()

    def arrow(self) -> pa.Table:
        self._whole()
        arrays = [arrow_array(self._texts(at), kind) for at, kind in enumerate(self.types)]
        return pa.Table.from_arrays(arrays, names=self.columns)

    def _texts(self, at: int) -> list[bytes | None]:
        return list(chain.from_iterable(block[at].to_pylist() for block in self._kept))

    def pandas(self) -> pandas.DataFrame:
        return self.arrow().to_pandas()

    def spark(self) -> NoReturn:
        raise Unsupported(
            "a result of a server is no DataFrame of Spark",
            hint="use arrow() or pandas(); headrace.read(warehouse, name) reads a relation into Spark",
        )

    def show(self, limit: int | None = 100) -> None:
        write_table(self if limit is None else _Head(self, limit), sys.stdout)

    def __iter__(self) -> Iterator[tuple]:
        return iter(self.rows())

    def __len__(self) -> int:
        self._whole()
        return sum(len(block[0]) for block in self._kept)

    def __repr__(self) -> str:
        tag = self._tag or "on its way"
        return f"<RemoteResult {tag}: {', '.join(self.columns)}>" if self.columns else f"<RemoteResult {tag}>"


class _Head:
    def __init__(self, result: RemoteResult, limit: int):
        self.tag, self.columns, self.types, self.zone = result.tag, result.columns, result.types, result.zone
        self._result, self._limit = result, limit

    def rows(self) -> list[tuple]:
        return list(islice(self._result._rows(), self._limit))
