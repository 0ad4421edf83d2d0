"""How much of a table is read at once, and when: what its user asks for, as numbers of splits and rows.

>>> shape(parallelism=4, split_rows=1000), shape(parallelism=4, split_rows=1000, batch_rows=600)
((4, 1000), (4, 150))
>>> shape(parallelism=4, split_rows=1000, rate_limit=3)
(3, 1)
"""

from __future__ import annotations

SPLIT_ROWS = 400_000
"""Of a split, which one task reads, unless the user wants others"""

SPLIT_BYTES = 256 << 20
"""And about so much of the server's: a task keeps the text of it on disk before it reads it"""

FEWEST_ROWS = 10_000
"""Of a split, however wide they seem"""


def shape(
    *, parallelism: int, split_rows: int, batch_rows: int | None = None, rate_limit: int | None = None
) -> tuple[int, int]:
    """(splits, rows of each) of the next chunk. With a rate limit it has the rows of one second at most."""
    most = min((each for each in (batch_rows, rate_limit) if each), default=parallelism * split_rows)
    splits = max(1, min(parallelism, most))
    return splits, max(1, min(split_rows, most // splits))


def usual_split(row_bytes: int) -> int:
    """Rows of a split.

    >>> usual_split(100), usual_split(10_000), usual_split(10_000_000), usual_split(0)
    (400000, 26843, 10000, 400000)
    """
    return max(FEWEST_ROWS, min(SPLIT_ROWS, SPLIT_BYTES // max(1, row_bytes)))


def pause_after(rows: int, rate_limit: int | None) -> float:
    """Seconds from the start of a chunk to that of the next. A larger one was read before there was the limit."""
    return min(1.0, rows / rate_limit) if rate_limit else 0.0
