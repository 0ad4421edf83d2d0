"""Rows as an aligned text table, laid out as psql does it.

>>> from headrace.types import SqlType
>>> print("\\n".join(layout(["id", "name"], [SqlType("integer"), SqlType("varchar")], [(1, "a"), (20, None)])))
 id | name
----+------
  1 | a
 20 |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len

from headrace.serving.render import renderer
from headrace.types import SqlType

_RIGHT = ("smallint", "integer", "bigint", "numeric", "real", "double precision")


def texts(
    types: Sequence[SqlType], rows: Iterable[Sequence[Any]], *, null: str = "", zone: str = "UTC"
) -> Iterator[list[str]]:
    """Each row's values as text; times are those of the zone."""
    renderers = [renderer(kind, zone) for kind in types]
    for row in rows:
        yield [null if value is None else render(value) for value, render in zip(row, renderers, strict=True)]


def layout(
    columns: Sequence[str],
    types: Sequence[SqlType],
    rows: Iterable[Sequence[Any]],
    *,
    null: str = "",
    zone: str = "UTC",
) -> Iterator[str]:
    headers = [_visible(name) for name in columns]
    cells = [[_visible(text).split("\n") for text in row] for row in texts(types, rows, null=null, zone=zone)]
    widths = [
        max([cell_len(header), *(cell_len(line) for row in cells for line in row[index])])
        for index, header in enumerate(headers)
    ]
    right = [kind.name in _RIGHT for kind in types]

    yield _join(_center(header, width) + " " for header, width in zip(headers, widths, strict=True))
    yield "+".join("-" * (width + 2) for width in widths)
    for row in cells:
        for line in range(max(map(len, row), default=1)):
            yield _join(
                _pad(cell[line] if line < len(cell) else "", width, to_right)
                # psql marks a value that goes on in the next line with a plus sign
                + ("+" if line + 1 < len(cell) else " ")
                for cell, width, to_right in zip(row, widths, right, strict=True)
            )


def expanded(
    columns: Sequence[str],
    types: Sequence[SqlType],
    rows: Iterable[Sequence[Any]],
    *,
    null: str = "",
    zone: str = "UTC",
) -> Iterator[str]:
    """One line per value, for rows that are too wide."""
    names = [_visible(name) for name in columns]
    width = max(map(cell_len, names), default=0)
    for number, row in enumerate(texts(types, rows, null=null, zone=zone), 1):
        yield f"-[ RECORD {number} ]".ljust(width + 1, "-") + "+" + "-" * 10
        for name, text in zip(names, row, strict=True):
            for index, line in enumerate(_visible(text).split("\n")):
                yield f"{_pad('' if index else name, width, False)} | {line}".rstrip()


def footer(count: int) -> str:
    return "(1 row)" if count == 1 else f"({count} rows)"


def _visible(text: str) -> str:
    # A terminal must not be driven by what is in a table, so control characters are shown instead of sent.
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in text)


def _center(text: str, width: int) -> str:
    blanks = width - cell_len(text)
    return " " * (blanks // 2) + text + " " * (blanks - blanks // 2)


def _pad(text: str, width: int, to_right: bool) -> str:
    blanks = " " * (width - cell_len(text))
    return blanks + text if to_right else text + blanks


def _join(cells: Iterable[str]) -> str:
    return (" " + "| ".join(cells)).rstrip()
