"""The ten-minute story in one screen: views follow writes, the engine is killed, and nothing is lost.

Three processes play it. The *story* shows the screen and keeps the books; it runs no Spark. The *engine* writes to a
warehouse and reports every statement before it is sent and after it was acknowledged, until it is killed. The
*verifier* opens what is left, and compares it with the books and each view with its query.
"""

from __future__ import annotations

from headrace.demo.story import run

__all__ = ["run"]
