"""Spark's Java process dies under a living engine: it says so, closes, and the warehouse can be opened again."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, signal, sys
import headrace
from headrace.errors import SparkGone
from pyspark import SparkContext

warehouse = sys.argv[1]
db = headrace.connect(warehouse)
db.sql("CREATE TABLE t (id INT PRIMARY KEY)")
db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM t")
db.sql("INSERT INTO t VALUES (1)")
java = SparkContext._gateway.proc
os.kill(java.pid, signal.SIGKILL)
java.wait()
for statement in ("SELECT * FROM t", "INSERT INTO t SELECT id + 1 FROM t", "UPDATE t SET id = 3"):
    try:
        db.sql(statement).rows()
        print("no error:", statement)
    except SparkGone as error:
        assert "open the warehouse again" in error.hint
db.sql("INSERT INTO t VALUES (2)")  # for which nobody needs Spark
db.close()
with headrace.connect(warehouse) as again:
    again.sql("INSERT INTO t VALUES (4)")
    print(sorted(again.sql("SELECT id FROM m").rows()))
"""


@pytest.mark.slow
def test_the_warehouse_can_be_opened_again(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "w")], cwd=ROOT, capture_output=True, text=True, timeout=250
    )
    assert done.stdout == "[(1,), (2,), (4,)]\n", done.stderr[-3000:]
