"""Columns of text to columns of values, as COPY brings them: as PostgreSQL reads a constant of the type.

Most texts are read here. What only Spark can say (how a number is rounded to its column, what JSON looks like in its
normal form) is collected and asked at once, a column at a time. Arrays and structs are taken apart, their parts read as
columns of their own, and put together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace import uuids
from headrace.engine.spark import spark_errors
from headrace.errors import DataError, HeadraceError
from headrace.sql.casts import cast
from headrace.sql.composites import array_items, struct_items
from headrace.sql.literals import NOT_CONSTANT, from_text
from headrace.sql.typed import TEXT, Typed, digits, is_time
from headrace.types import SqlType

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

Texts = Sequence[str | None]
_COLUMN = "_hr_text"


def array_from_texts(engine: Engine, name: str, texts: Texts, kind: SqlType, *, first_line: int = 1) -> pa.Array:
    """The column of that name; errors say in which line of the COPY its value was."""
    if (found := plain_values(texts, kind)) is not None:
        return found
    lines = range(first_line, first_line + len(texts))
    return pa.array(_Reader(engine, name).values(texts, lines, kind), kind.arrow)


_PLAIN = {
    "smallint": r"^-?[0-9]{1,4}$",
    "integer": r"^-?[0-9]{1,9}$",
    "bigint": r"^-?[0-9]{1,18}$",
    "double precision": r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$",
    "uuid": uuids.PLAIN,
    "time": r"^([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?$",
    "date": r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2}$",
    "timestamp": r"^[12][0-9]{3}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$",
}
"""Texts of which Arrow makes what PostgreSQL does, many at a time"""


def plain_values(texts: Texts, kind: SqlType) -> pa.Array | None:
    """All of them, if they are written in the plainest way, as most are.

    >>> plain_values(["7", None], SqlType("integer")).to_pylist(), plain_values(["+7"], SqlType("integer"))
    ([7, None], None)
    """
    if kind.name == "varchar":
        return pa.array(texts, pa.string())
    if kind.name == "numeric":
        precision, scale = digits(kind)
        fraction = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
        pattern = rf"^-?[0-9]{{1,{precision - scale}}}{fraction}$" if precision > scale else None
    else:
        pattern = None if is_time(kind) and kind.precision is not None else _PLAIN.get(kind.name)
    if pattern is None:
        return None
    written = pa.array(texts, pa.string())
    if pc.any(pc.invert(pc.match_substring_regex(written, pattern))).as_py():
        return None
    try:
        if is_time(kind):  # which Arrow reads behind a day only
            return pc.binary_join_element_wise("1970-01-01", written, " ").cast(pa.timestamp("us")).cast(kind.arrow)
        return written.cast(kind.arrow)
    except pa.ArrowInvalid:
        return None  # the 30th of February: what is wrong is said where it is looked at one by one


class _Reader:
    def __init__(self, engine: Engine, name: str):
        self._engine, self._name = engine, name

    def values(self, texts: Texts, lines: Sequence[int], kind: SqlType) -> list[Any]:
        if kind.name == "array":
            return self._arrays(texts, lines, kind.element)
        if kind.name == "struct":
            return self._structs(texts, lines, kind)
        values = [self._read(from_text, text, line, kind) for text, line in zip(texts, lines, strict=True)]
        asked = [at for at, value in enumerate(values) if value is NOT_CONSTANT]
        if asked:
            for at, value in zip(asked, self._by_spark([texts[at] for at in asked], kind), strict=True):
                values[at] = value
        return values

    def _read(self, read, text: str | None, line: int, *more: Any) -> Any:
        try:
            return None if text is None else read(text, *more)
        except HeadraceError as error:
            raise self._told(error, f"COPY, line {line}, column {self._name}") from None

    def _by_spark(self, texts: Texts, kind: SqlType) -> list[Any]:
        frame = self._engine.spark.createDataFrame(pa.table({_COLUMN: pa.array(texts, pa.string())}))
        try:
            with spark_errors("COPY"):
                return frame.selectExpr(cast(Typed(_COLUMN, TEXT), kind).sql).toArrow().column(0).to_pylist()
        except HeadraceError as error:
            raise self._told(error, f"COPY, column {self._name}") from None

    def _arrays(self, texts: Texts, lines: Sequence[int], element: SqlType) -> list[Any]:
        taken = [self._read(array_items, text, line) for text, line in zip(texts, lines, strict=True)]
        flat = [(item, line) for items, line in zip(taken, lines, strict=True) for item in items or ()]
        values = iter(self.values([item for item, _ in flat], [line for _, line in flat], element))
        return [None if items is None else [next(values) for _ in items] for items in taken]

    def _structs(self, texts: Texts, lines: Sequence[int], kind: SqlType) -> list[Any]:
        taken = [self._read(_fields, text, line, len(kind.fields)) for text, line in zip(texts, lines, strict=True)]
        columns = [
            self.values([None if items is None else items[at] for items in taken], lines, inner)
            for at, (_, inner) in enumerate(kind.fields)
        ]
        names = [name for name, _ in kind.fields]
        rows = zip(*columns, strict=True)
        return [
            None if items is None else dict(zip(names, row, strict=True))
            for items, row in zip(taken, rows, strict=True)
        ]

    @staticmethod
    def _told(error: HeadraceError, where: str) -> DataError:
        return DataError(f"{error.message} ({where})", hint=error.hint, sqlstate=error.sqlstate)


def _fields(text: str, wanted: int) -> list[str | None]:
    items = struct_items(text)
    if len(items) != wanted:
        raise DataError(f'malformed record literal: "{text}" has {len(items)} fields, not {wanted}', sqlstate="22P02")
    return items
