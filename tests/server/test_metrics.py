"""What /metrics and /healthz say, while something is going on."""

from __future__ import annotations

from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

import headrace
from headrace.serving.server.http import MonitoringServer
from headrace.serving.server.metrics import metrics
from headrace.serving.server.server import bind


def figures(text: str) -> dict[tuple, float]:
    """By name and labels."""
    return {
        (sample.name.removeprefix("headrace_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_figures(database, server, connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)")
    connection.execute(f"INSERT INTO {table} SELECT x, x FROM generate_series(1, 30) s(x)")
    connection.execute("SET background_ddl = true")
    connection.execute("SET backfill_rate_limit = 0")
    connection.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id FROM {table}")
    before = figures(metrics(database.engine, server))
    connection.execute(f"UPDATE {table} SET n = 0 WHERE id <= 5")
    connection.execute(f"COMPACT {table}")
    text = metrics(database.engine, server)
    after = figures(text)

    def more(name: str) -> float:
        return after[name,] - before[name,]

    job = (f"{table}_v", "paused")
    assert [after[name, *job] for name in ("backfill_rows_read", "backfill_rows_total", "backfill_rows_left")] == [
        0, 30, 30
    ]  # fmt: skip
    assert after["jobs",] >= 1
    assert more("rows_written_total") == 5
    assert more("commits_total") >= 2, "the update, and the merge"
    assert more("epoch_seconds_count") == more("epochs_total") >= 2 and more("epoch_seconds_sum") > 0
    assert after["epoch_seconds", "0.5"] <= after["epoch_seconds", "0.99"]
    assert more("statement_seconds_count") >= 2 and more("statement_seconds_sum") >= more("epoch_seconds_sum") / 2
    assert more("compactions_total") >= 1
    assert more("compaction_seconds_total") > 0 and more("compaction_bytes_total") > 0
    assert ("compaction_running",) in after
    assert 0 < after["java_heap_used_bytes",] < after["java_heap_max_bytes",]
    assert after["java_resident_bytes",] > 10 << 20 and after["resident_bytes",] > 10 << 20

    heads = Counter(" ".join(line.split(" ")[:3]) for line in text.splitlines() if line.startswith("#"))
    assert max(heads.values()) == 1, "each name is explained once"
    assert all(f.documentation and f.type != "unknown" for f in text_string_to_metric_families(text)), text
    connection.execute(f"DROP TABLE {table} CASCADE")


def test_an_engine_that_has_stopped_is_not_well(spark, server, tmp_path):
    database = headrace.connect(str(tmp_path / "warehouse"), spark=spark)
    monitoring = MonitoringServer(database.engine, server, bound=bind("127.0.0.1", 0))
    monitoring.start()
    try:
        assert monitoring.health(database.engine) == (200, "ok\n")
        database.abandon()
        assert monitoring.health(database.engine) == (503, "the engine was abandoned\n")
        monitoring.stopping = True
        assert monitoring.health(database.engine) == (503, "stopping\n")
    finally:
        monitoring.stop()
