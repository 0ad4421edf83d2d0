"""Views on a live topic: created before, during and after, through a kill -9, and every offset counted.

The *story* starts a private broker and produces without a pause. The *engine* is another process, which has the views;
it is killed in the middle, and started again.
"""

from __future__ import annotations

from headrace.demo.kafka.story import run

__all__ = ["run"]
