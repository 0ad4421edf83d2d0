"""Views on sources that are not linear, or that read tables as well: what they need of a source is stored for them."""

from __future__ import annotations

import pytest

import headrace
from headrace.errors import HeadraceError
from tests.engine.conftest import eventually
from tests.engine.sources.test_datagen import ROWS, count, is_equal, rows, source
from tests.engine.sources.test_files import parquet
from tests.engine.sources.test_files import source as files


def internal(db) -> list[str]:
    return [name for (name, *_) in db.sql("SHOW INTERNAL TABLES").rows()]


def test_aggregates_joins_and_unions_of_a_source_and_a_table(db):
    db.sql("CREATE TABLE names (v INT PRIMARY KEY, name VARCHAR)")
    db.sql("INSERT INTO names SELECT n, 'name ' || n FROM generate_series(0, 49) AS s (n)")
    db.sql(source(rate=4000))
    db.sql(
        "CREATE MATERIALIZED VIEW counted AS SELECT v, count(*) AS n, max(id) AS most FROM g WHERE v < 30 GROUP BY v"
    )
    db.sql("CREATE MATERIALIZED VIEW total AS SELECT count(*) AS n, sum(id) AS ids FROM g")
    db.sql("CREATE MATERIALIZED VIEW named AS SELECT g.id, n.name FROM g JOIN names n ON g.v = n.v")
    db.sql(
        "CREATE MATERIALIZED VIEW together AS SELECT id, word FROM g WHERE v = 5 UNION ALL SELECT v, name FROM names"
    )
    db.sql("CREATE MATERIALIZED VIEW words AS SELECT DISTINCT substr(word, 1, 1) AS letter FROM g")
    db.sql("CREATE MATERIALIZED VIEW above AS SELECT n, count(*) AS groups FROM counted GROUP BY n")
    db.sql("UPDATE names SET name = 'changed' WHERE v = 7")
    eventually(lambda: rows(db, "SELECT n FROM total") == [(ROWS,)])
    everything = rows(db, "SELECT id, v, word FROM g")
    found = {v: [id for id, each, _ in everything if each == v] for v in range(30)}
    assert rows(db, "SELECT * FROM counted") == [(v, len(ids), max(ids)) for v, ids in found.items() if ids]
    assert rows(db, "SELECT ids FROM total") == [(sum(range(ROWS)),)]
    names = {v: "changed" if v == 7 else f"name {v}" for v in range(50)}
    assert rows(db, "SELECT * FROM named") == [(id, names[v]) for id, v, _ in everything if v < 50]
    for view in ("counted", "total", "named", "together", "words", "above"):
        is_equal(db, view)
    db.sql("DROP SOURCE g CASCADE")
    assert internal(db) == [] and not [key for key in db.engine.committed.offsets if key.startswith("source")]


def test_only_what_a_view_needs_of_a_source_is_stored_and_shared(db):
    db.sql(source())
    eventually(lambda: count(db, "g") == ROWS)
    db.sql("CREATE MATERIALIZED VIEW a AS SELECT v, count(*) AS n FROM g WHERE id < 100 GROUP BY v")
    (name,) = [each for each in internal(db) if each.endswith("events")]
    columns = [row[0] for row in db.sql(f'DESCRIBE "{name}"').rows() if row[2] == "false"]
    assert columns == ["v"] and count(db, f'"{name}"') == 100
    db.sql("CREATE MATERIALIZED VIEW b AS SELECT v, max(v) AS n FROM g WHERE id < 100 GROUP BY v")
    assert len([each for each in internal(db) if each.endswith("events")]) == 1
    db.sql("DROP MATERIALIZED VIEW a")
    is_equal(db, "b")
    plan = "\n".join(line for (line,) in db.sql("EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT max(v) FROM g").rows())
    assert "SourceBackfill" in plan


def test_their_jobs_can_be_limited_paused_and_cancelled(db):
    db.sql(source())
    eventually(lambda: count(db, "g") == ROWS)
    db.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT v, count(*) AS n FROM g GROUP BY v")
    db.sql("CREATE MATERIALIZED VIEW gone AS SELECT word, count(*) AS n FROM g GROUP BY word")
    jobs = {job.name: job for job in db.jobs()}
    assert jobs["m"].progress().rows_total == ROWS
    db.sql(f"CANCEL JOB {jobs['gone'].id}")
    assert not [name for name in internal(db) if "gone" in name]
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = 100")
    eventually(lambda: 0 < jobs["m"].progress().rows_read < ROWS)
    db.sql(f"PAUSE JOB {jobs['m'].id}")
    assert jobs["m"].progress().state == "paused"
    db.sql(f"RESUME JOB {jobs['m'].id}; ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT m")
    assert db.sql("SELECT sum(n) FROM m").rows() == [(ROWS,)]
    is_equal(db, "m")


def test_one_that_fails_is_told_and_leaves_nothing(db):
    db.sql(source())
    eventually(lambda: count(db, "g") == ROWS)
    with pytest.raises(HeadraceError, match="was not created: .*[Dd]ivision by zero"):
        db.sql("CREATE MATERIALIZED VIEW bad AS SELECT v, sum(1 / (id - 7)) AS x FROM g GROUP BY v")
    with pytest.raises(HeadraceError, match="was not created: .*[Dd]ivision by zero"):
        db.sql("CREATE MATERIALIZED VIEW bad AS SELECT v, count(*) AS x FROM g WHERE 1 / (id - 7) > 5 GROUP BY v")
    assert internal(db) == [] and not db.jobs()
    db.sql("CREATE MATERIALIZED VIEW good AS SELECT count(*) AS n FROM g")
    assert rows(db, "SELECT * FROM good") == [(ROWS,)]


def test_they_go_on_after_a_restart_and_over_files(spark, warehouse, tmp_path):
    for number in range(2):
        parquet(tmp_path, number)
    with headrace.connect(warehouse, spark=spark) as db:
        db.sql(files(tmp_path))
        db.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
        db.sql("CREATE MATERIALIZED VIEW most AS SELECT f, max(id) AS m, count(*) AS c FROM s GROUP BY f")
    parquet(tmp_path, 2)
    with headrace.connect(warehouse, spark=spark) as db:
        db.sql("ALTER MATERIALIZED VIEW most SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT most")
        eventually(lambda: rows(db, "SELECT m, c FROM most") == [(9, 10), (19, 10), (29, 10)])
        parquet(tmp_path, 3)
        eventually(lambda: count(db, "most") == 4)
        is_equal(db, "most")


def test_statements_that_write_read_what_there_is(db):
    db.sql(source())
    eventually(lambda: count(db, "g") == ROWS)
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY, word VARCHAR)")
    db.sql("INSERT INTO t SELECT id, word FROM g WHERE o < 10")
    assert rows(db, "SELECT id, word FROM t") == rows(db, "SELECT id, word FROM g WHERE o < 10")
    db.sql("CREATE TABLE u AS SELECT v, count(*) AS n FROM g GROUP BY v")
    assert db.sql("SELECT sum(n) FROM u").rows() == [(ROWS,)]
