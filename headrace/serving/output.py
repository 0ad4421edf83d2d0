"""A statement's result, written for people (a table) or for programs (CSV, JSON).

The formats for programs hold rows only: a command tag in the middle of a CSV file would help nobody.
"""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TextIO

from headrace.serving.render import is_deeper, render
from headrace.serving.table import expanded, footer, layout, texts
from headrace.types import SqlType


class Rows(Protocol):
    """What is needed of a result."""

    tag: str
    columns: Sequence[str]
    types: Sequence[SqlType]
    zone: str
    """In which its instants are printed"""

    def rows(self) -> Iterable[Sequence[Any]]: ...

    def stream(self) -> Iterable[Sequence[Any]]:
        """The same once, as they come: not all of them are held"""
        ...


class Listing:
    """Rows that no statement made."""

    tag = "LIST"
    zone = "UTC"

    def __init__(self, kinds: Mapping[str, str], rows: Sequence[Sequence[Any]]):
        self.columns = list(kinds)
        self.types = [SqlType(kind) for kind in kinds.values()]
        self._rows = rows

    def rows(self) -> Sequence[Sequence[Any]]:
        return self._rows

    def stream(self) -> Sequence[Sequence[Any]]:
        return self._rows


def write_table(result: Rows, out: TextIO, *, expand: bool = False, emphasis: Callable[[str], str] = str) -> None:
    if not result.columns:
        out.write(f"{result.tag}\n")
        return
    rows = list(result.rows())
    lines = (expanded if expand else layout)(result.columns, result.types, rows, zone=result.zone)
    for number, line in enumerate(lines):
        out.write((emphasis(line) if number == 0 and not expand else line) + "\n")
    out.write(f"{footer(len(rows))}\n\n")


def write_csv(result: Rows, out: TextIO) -> None:
    if result.columns:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(texts(result.types, result.stream(), zone=result.zone))


def write_json(result: Rows, out: TextIO) -> None:
    """One object per row and line, which is what jq and every loader of JSON read."""
    for row in result.stream() if result.columns else ():
        out.write(_object(result.columns, result.types, row, result.zone) + "\n")


FORMATS: dict[str, Callable[[Rows, TextIO], None]] = {"table": write_table, "csv": write_csv, "json": write_json}


def _object(names: Iterable[str], kinds: Iterable[SqlType], values: Iterable[Any], zone: str) -> str:
    pairs = zip(names, kinds, values, strict=True)
    return "{" + ", ".join(f"{_string(name)}: {to_json(value, kind, zone)}" for name, kind, value in pairs) + "}"


def to_json(value: Any, kind: SqlType, zone: str = "UTC") -> str:
    """JSON text, with numbers in full: a reader that wants more digits than a double can have them.

    >>> from decimal import Decimal
    >>> to_json(Decimal("12345678901234567890.10"), SqlType("numeric", precision=30, scale=2))
    '12345678901234567890.10'
    """
    if value is None:
        return "null"
    if kind.name == "boolean":
        return "true" if value else "false"
    if kind.name == "array":
        kinds = (kind if is_deeper(item, kind.element) else kind.element for item in value)
        return "[" + ", ".join(to_json(item, inner, zone) for item, inner in zip(value, kinds, strict=True)) + "]"
    if kind.name == "struct":
        names, kinds = zip(*kind.fields, strict=True) if kind.fields else ((), ())
        values = [value.get(name) for name in names] if isinstance(value, Mapping) else value
        return _object(names, kinds, values, zone)
    text = render(value, kind, zone)
    if kind.name in ("smallint", "integer", "bigint", "numeric", "jsonb"):
        return text
    if kind.name in ("real", "double precision") and math.isfinite(value):
        return text
    if kind.name in ("timestamp", "timestamptz"):
        return _string(re.sub(r"([+-]\d\d)$", r"\1:00", text.replace(" ", "T")))
    return _string(text)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
