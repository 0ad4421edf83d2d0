"""A table of a live PostgreSQL becomes one here: read under writes, through a kill -9, and compared row by row.

The *story* starts a private server, fills a table, keeps writing to it, and shows the screen. The *engine* is another
process, which follows the table; it is killed in the middle, and started again.
"""

from __future__ import annotations

from headrace.demo.cdc.story import run

__all__ = ["run"]
