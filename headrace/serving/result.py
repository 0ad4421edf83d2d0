"""What a statement answers: a command tag, and rows where it has any.

Rows of a SELECT stay in Spark until they are asked for; they are of the epoch that was committed when it was run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.engine.spark import spark_errors
from headrace.engine.streams import KeptRows, Streams
from headrace.serving.output import write_table
from headrace.serving.render import plain, presented_columns
from headrace.types import SHOWN_VALUE, SqlType, from_spark_json, quote_spark

if TYPE_CHECKING:
    import pandas
    from pyspark.sql import DataFrame, SparkSession


class Result:
    def __init__(
        self,
        tag: str,
        *,
        columns: Sequence[str] = (),
        types: Sequence[SqlType] = (),
        table: pa.Table | KeptRows | None = None,
        frame: DataFrame | None = None,
        spark: SparkSession | None = None,
        streams: Streams | None = None,
        given: bool = False,
        while_waiting: Callable[[], None] = lambda: None,
        later: Callable[[], DataFrame] | None = None,
    ):
        """``while_waiting``: raises if nobody wants it any more; ``later``: makes the frame of a query that was
        answered without one."""
        self._tag = tag
        self.notice: str | None = None
        self.zone = "UTC"
        """In which its instants are printed, as Spark spells it"""
        self.columns = list(columns)
        self.types = list(types)
        self._kept = table if isinstance(table, KeptRows) else None
        self._table = None if isinstance(table, KeptRows) else table
        self._frame = frame
        self._spark = spark
        self._streams = streams
        self._given = given
        self._while_waiting = while_waiting
        self._later = later

    @staticmethod
    def of_frame(
        frame: DataFrame,
        types: Sequence[SqlType] | None = None,
        *,
        streams: Streams | None = None,
        given: bool = False,
        while_waiting: Callable[[], None] = lambda: None,
    ) -> Result:
        """``given``: the query reads nothing that is stored."""
        fields = frame.schema.fields
        if types is None:
            types = [from_spark_json(field.dataType.jsonValue(), field.metadata) for field in fields]
        names = [field.name for field in fields]
        return Result(
            "SELECT",
            columns=names,
            types=types,
            frame=frame,
            streams=streams,
            given=given,
            while_waiting=while_waiting,
        )

    @staticmethod
    def of_rows(
        tag: str, columns: Sequence[tuple[str, SqlType]], rows: Sequence[Sequence[Any]], spark: SparkSession
    ) -> Result:
        arrays = [pa.array([row[index] for row in rows], kind.arrow) for index, (_, kind) in enumerate(columns)]
        names = [name for name, _ in columns]
        table = pa.Table.from_arrays(arrays, names=names)
        return Result(tag, columns=names, types=[kind for _, kind in columns], table=table, spark=spark)

    @property
    def tag(self) -> str:
        """PostgreSQL's command tag; a SELECT's holds its row count."""
        if self._tag == "SELECT":
            return f"SELECT {self.arrow().num_rows}"
        return self._tag

    @property
    def command(self) -> str:
        """The tag without a SELECT's row count, for whoever counts the rows as they pass."""
        return self._tag

    def batches(self) -> Generator[pa.RecordBatch]:
        """The rows part by part, to be printed: a large result is never held as a whole."""
        if self._table is None and self._frame is not None and self._streams is not None:
            yield from self._streams.record_batches(self._frame, given=self._given, while_waiting=self._while_waiting)
        elif self._table is None and self._kept is not None:
            yield from self._kept.batches()
        else:
            yield from self._whole().to_batches()

    def arrow(self) -> pa.Table:
        return plain(self._whole(), self.types)

    def _whole(self) -> pa.Table:
        """All rows, with what says how they are printed."""
        if self._table is None and self._kept is not None:
            self._table = self._kept.table()
        if self._table is None:
            if self._frame is None:
                return pa.table({})
            turn = self._streams.turn(self._while_waiting) if self._streams is not None else nullcontext()
            with spark_errors("the query"), turn:
                self._table = self._frame.toArrow()
        return self._table

    def rows(self) -> list[tuple]:
        columns = presented_columns(self._whole(), self.types)
        return list(zip(*columns, strict=True)) if columns else []

    def stream(self) -> Iterator[tuple]:
        """The rows once, part by part, to be printed: a large result is never held as a whole."""
        for batch in self.batches():
            yield from zip(*presented_columns(batch, self.types), strict=True)

    def pandas(self) -> pandas.DataFrame:
        return self.arrow().to_pandas()

    def spark(self) -> DataFrame:
        if self._frame is None and self._later is not None:
            self._frame = self._later()
        if self._frame is not None:
            return _plain_frame(self._frame)
        if self._spark is None or not self.columns:
            raise ValueError(f"{self._tag} answers no rows")
        return self._spark.createDataFrame(plain(self._whole()))

    def show(self, limit: int | None = 100) -> None:
        write_table(self if limit is None else _Head(self, limit), sys.stdout)

    def __iter__(self) -> Iterator[tuple]:
        return iter(self.rows())

    def __len__(self) -> int:
        return self.arrow().num_rows

    def __repr__(self) -> str:
        return f"<Result {self._tag}: {', '.join(self.columns)}>" if self.columns else f"<Result {self._tag}>"


def _plain_frame(frame: DataFrame) -> DataFrame:
    fields = frame.schema.fields
    if not any(field.dataType.simpleString().startswith(f"struct<{SHOWN_VALUE}:") for field in fields):
        return frame
    columns = [
        frame[quote_spark(name)][SHOWN_VALUE].alias(name)
        if f"struct<{SHOWN_VALUE}:" in kind
        else frame[quote_spark(name)]
        for name, kind in ((field.name, field.dataType.simpleString()) for field in fields)
    ]
    return frame.select(*columns)


class _Head:
    def __init__(self, result: Result, limit: int):
        self.tag, self.columns, self.types, self.zone = result._tag, result.columns, result.types, result.zone
        self._result, self._limit = result, limit

    def rows(self) -> list[tuple]:
        if self._result._table is None and self._result._frame is not None:
            with spark_errors("the query"):
                table = self._result._frame.limit(self._limit).toArrow()
            return list(zip(*presented_columns(table, self.types), strict=True))
        if self._result._table is None and self._result._kept is not None:
            return list(zip(*presented_columns(self._result._kept.table(self._limit), self.types), strict=True))
        return self._result.rows()[: self._limit]
