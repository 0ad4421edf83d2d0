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
db.sql("CREATE TABLE history (id INT PRIMARY KEY)")
db.sql("INSERT INTO history SELECT g FROM generate_series(1, 500) AS s(g)")
db.sql("SET background_ddl = true; SET backfill_pacing = 5")
db.sql("CREATE MATERIALIZED VIEW filled AS SELECT md5(id::varchar) AS hash FROM history")
while not db.job("filled").progress().rows_read:
    pass
java = SparkContext._gateway.proc
os.kill(java.pid, signal.SIGKILL)
java.wait()
assert db.sql("SELECT * FROM t").rows() == [(1,)]  # so few rows the engine answers itself
db.sql("SET query_mode = distributed")
for statement in ("SELECT * FROM t", "INSERT INTO t SELECT id + 1 FROM t", "UPDATE t SET id = 3"):
    try:
        db.sql(statement).rows()
        print("no error:", statement)
    except SparkGone as error:
        assert "open the warehouse again" in error.hint
db.sql("INSERT INTO t VALUES (2)")  # for which nobody needs Spark
try:
    db.sql("WAIT filled")
    print("nobody said that it is not filled")
except SparkGone:
    pass
db.close()
with headrace.connect(warehouse) as again:
    assert again.job("filled").error is None  # it is no fault of the view's
    again.sql("WAIT filled")
    assert again.sql("SELECT count(*) FROM filled").rows() == [(500,)]
    again.sql("INSERT INTO t VALUES (4)")
    print(sorted(again.sql("SELECT id FROM m").rows()))
"""


@pytest.mark.slow
def test_the_warehouse_can_be_opened_again(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "w")], cwd=ROOT, capture_output=True, text=True, timeout=250
    )
    assert done.stdout == "[(1,), (2,), (4,)]\n", done.stderr[-3000:]
