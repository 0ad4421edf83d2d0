"""How much of a table is read at once, and when: what its user asks for, as numbers of splits and rows.

>>> shape(parallelism=4, split_rows=1000), shape(parallelism=4, split_rows=1000, batch_rows=600)
((4, 1000), (4, 150))
>>> shape(parallelism=4, split_rows=1000, rate_limit=3)
(3, 1)
"""

from __future__ import annotations


def shape(
    *, parallelism: int, split_rows: int, batch_rows: int | None = None, rate_limit: int | None = None
) -> tuple[int, int]:
    """(splits, rows of each) of the next chunk. With a rate limit it has the rows of one second at most."""
    most = min((each for each in (batch_rows, rate_limit) if each), default=parallelism * split_rows)
    splits = max(1, min(parallelism, most))
    return splits, max(1, min(split_rows, most // splits))


def pause_after(rows: int, rate_limit: int | None) -> float:
    """Seconds from the start of a chunk to that of the next. A larger one was read before there was the limit."""
    return min(1.0, rows / rate_limit) if rate_limit else 0.0
