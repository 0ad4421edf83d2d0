"""A process that fills tables from a source until it is killed: python -m tests.engine.cdc_child <warehouse> <SQL>

It borrows the JVM of the test that started it, like tests/engine/crash_child.py.
"""

from __future__ import annotations

import sys
import threading

from tests.engine.crash_child import borrowed_spark


def main(warehouse: str, statements: str) -> None:
    import headrace

    db = headrace.connect(warehouse, spark=borrowed_spark())
    db.sql(statements)
    threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
