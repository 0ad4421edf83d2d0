"""Views made on a live table in one screen: they fill while writes go on, the engine is killed, and nothing is lost.

Three processes play it. The *story* shows the screen and keeps the books; it runs no Spark. The *engine* has a table
with history, writers that never stop, and starts to fill three views and an index; it is killed in the middle. The
*second engine* opens what is left, compares the table with the books, goes on from the saved positions under the same
writers, and compares each view and the index with its batch query.
"""

from __future__ import annotations

from headrace.demo.story import run

__all__ = ["run"]
