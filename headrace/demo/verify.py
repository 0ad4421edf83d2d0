"""The process that opens what the killed one left, and says whether it is right.

python -m headrace.demo.verify WAREHOUSE LEDGER
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import headrace
from headrace.demo import shop
from headrace.demo.ledger import Ledger
from headrace.demo.wire import say
from headrace.errors import HeadraceError


def main(warehouse: str, ledger_path: str) -> bool:
    ledger = Ledger.from_json(json.loads(Path(ledger_path).read_text()))
    started = time.perf_counter()
    # The dead engine could not say that it is gone.
    with headrace.connect(warehouse, takeover=True) as database:
        say("open", epoch=database.status()["epoch"], seconds=round(time.perf_counter() - started, 1))
        rows = [tuple(row) for row in database.sql("SELECT * FROM orders").rows()]
        problems = ledger.compare(rows)
        say("table", name="orders", rows=len(rows), expected=ledger.rows, problems=problems)
        good = not problems
        # Side by side, because most of the time goes into planning small queries for the first time.
        with ThreadPoolExecutor(max_workers=3) as threads:
            for report in threads.map(lambda name: _compare(database, warehouse, name), shop.VIEWS):
                say("view", **report)
                good = good and report["equal"] and report["read"]
        # It must not only be right but alive.
        database.sql("INSERT INTO orders VALUES (-1, 'proof', 1, 1)")
        alive = len(database.sql("SELECT id FROM cheap WHERE id = -1").rows()) == 1
        say("alive", good=alive)
    return good and alive


def _compare(database: Any, warehouse: str, name: str) -> dict[str, Any]:
    stored = Counter(database.sql(f"SELECT * FROM {name}").rows())
    asked = Counter(database.sql(shop.VIEWS[name]).rows())
    spark = Counter(tuple(row) for row in headrace.read(warehouse, name).collect())
    return {
        "name": name,
        "rows": stored.total(),
        "asked": asked.total(),
        "spark": spark.total(),
        "equal": stored == asked,
        "read": spark == stored,
    }


if __name__ == "__main__":
    try:
        sys.exit(0 if main(*sys.argv[1:]) else 1)
    except HeadraceError as error:
        say("failed", why=str(error), sql="")
        sys.exit(1)
