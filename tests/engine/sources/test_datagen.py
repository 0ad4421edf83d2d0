"""Views on a source, on one that needs no server: generated rows, which are the same whoever reads them."""

from __future__ import annotations

import threading

import pytest

import headrace
from headrace.engine.feeds import stream_state
from headrace.engine.histories import Histories
from headrace.errors import (
    DependentObjects,
    HeadraceError,
    InvalidDefinition,
    InvalidParameterValue,
    ObjectNotReady,
    UndefinedColumn,
    Unsupported,
    WrongObjectKind,
)
from tests.engine.conftest import eventually
from tests.support.waiting import PATIENCE

ROWS = 3000


def source(name: str = "g", *, rate: int = 1_000_000, rows: int = ROWS, splits: int = 3, **options: str) -> str:
    more = "".join(f", {key.replace('_', '.')} = '{value}'" for key, value in options.items())
    return (
        f"CREATE SOURCE {name} (id BIGINT, v INT, word VARCHAR, at TIMESTAMPTZ) INCLUDE partition AS p, offset AS o"
        f" WITH (connector = 'datagen', fields.id.kind = 'sequence', fields.v.max = '99',"
        f" datagen.rows.per.second = '{rate}', datagen.rows = '{rows}', datagen.split.num = '{splits}'{more})"
    )


def rows(db, query: str) -> list:
    return sorted(db.sql(query).rows())


def count(db, name: str) -> int:
    return db.sql(f"SELECT count(*) FROM {name}").rows()[0][0]


def is_equal(db, view: str) -> str:
    ((found, *_),) = db.sql(f"CHECK MATERIALIZED VIEW {view}").rows()
    assert found.startswith("equal"), found
    return found


def test_views_that_come_before_during_and_after(db):
    """One of them only Spark can evaluate, one stands on another, one counts what is in another, one is a union."""
    db.sql(source(rate=4000))
    db.sql("CREATE MATERIALIZED VIEW early AS SELECT id, v FROM g WHERE v < 50")
    eventually(lambda: count(db, "early") > 50)
    db.sql("CREATE MATERIALIZED VIEW during AS SELECT id, upper(word) AS word, p, o, at FROM g")
    db.sql("CREATE MATERIALIZED VIEW above AS SELECT id FROM early WHERE v >= 10")
    db.sql("CREATE MATERIALIZED VIEW pair AS SELECT id FROM g WHERE v < 10 UNION ALL SELECT -id FROM g WHERE v > 89")
    db.sql("CREATE INDEX by_v ON early (v)")
    db.sql("CREATE MATERIALIZED VIEW grouped AS SELECT v, count(*) AS n, sum(id) AS total FROM early GROUP BY v")
    eventually(lambda: count(db, "during") == ROWS)
    db.sql("CREATE MATERIALIZED VIEW late AS SELECT * FROM g")
    everything = rows(db, "SELECT id, v, word, p, o FROM g")
    assert [row[0] for row in everything] == list(range(ROWS))
    assert rows(db, "SELECT id, v FROM early") == [(id, v) for id, v, *_ in everything if v < 50]
    assert rows(db, "SELECT id, word, p, o FROM during") == [
        (id, word.upper(), p, o) for id, _, word, p, o in everything
    ]
    assert rows(db, "SELECT id FROM above") == [(id,) for id, v, *_ in everything if 10 <= v < 50]
    assert rows(db, "SELECT id, v, word, p, o FROM late") == everything
    for view in ("early", "during", "above", "pair", "late"):
        is_equal(db, view)
    by_v = {v: [id for id, each, *_ in everything if each == v] for v in range(50)}
    assert rows(db, "SELECT v, n, total FROM grouped") == [(v, len(ids), sum(ids)) for v, ids in by_v.items() if ids]
    assert db.sql("CHECK INDEX by_v").rows()[0][0].startswith("equal")
    assert rows(db, "SELECT id FROM early WHERE v = 7") == [(id,) for id, v, *_ in everything if v == 7]
    db.sql("DROP MATERIALIZED VIEW early CASCADE; DROP MATERIALIZED VIEW late")
    with pytest.raises(DependentObjects):
        db.sql("DROP SOURCE g")
    assert "headrace-source" in {thread.name for thread in threading.enumerate()}
    db.sql("DROP SOURCE g CASCADE")
    assert "headrace-source" not in {thread.name for thread in threading.enumerate()}
    assert not db.sql("SHOW MATERIALIZED VIEWS").rows() and not db.sql("SHOW SOURCES").rows()
    assert not [key for key in db.engine.committed.offsets if key.startswith("source")]


def test_a_source_goes_on_after_it_was_closed(spark, warehouse):
    with headrace.connect(warehouse, spark=spark) as db:
        db.sql(source(rate=2000).replace("TIMESTAMPTZ)", "TIMESTAMPTZ, WATERMARK FOR at AS at - INTERVAL '5 seconds')"))
        db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, word FROM g")
        before = eventually(lambda: count(db, "m"))
    with headrace.connect(warehouse, spark=spark) as db:
        known = stream_state(db.engine.committed, db.engine.committed.catalog.get("g").id)
        assert known.definition.watermark.column == "at" and "5 seconds" in known.definition.watermark.expression
        assert count(db, "m") >= before
        eventually(lambda: count(db, "m") == ROWS)
        assert db.sql("SELECT count(DISTINCT id) FROM m").rows() == [(ROWS,)]
        is_equal(db, "m")


def test_jobs_can_be_watched_paused_limited_and_cancelled(db):
    db.sql(source())
    eventually(lambda: count(db, "g") == ROWS)
    db.sql("SET background_ddl = true; SET backfill_rate_limit = 0")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM g")
    (job,) = db.jobs()
    found = job.progress()
    assert (found.state, found.rows_total, found.rows_read) == ("paused", ROWS, 0)
    with pytest.raises(ObjectNotReady):
        db.sql("SELECT * FROM m")
    db.sql("ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = 100")
    eventually(lambda: 0 < job.progress().rows_read < ROWS)
    eventually(lambda: (job.progress().seconds_left or 0) > 0 and job.progress().rows_per_second > 0)
    found = is_equal(db, "m")
    assert "offsets of its history" in found
    assert [line[2].split()[0] for line in db.sql(f"SHOW JOB {job.id} POSITIONS").rows()] == ["at"] * 3
    db.sql("ALTER SOURCE g SET BACKFILL_RATE_LIMIT = 0")
    assert job.progress().state == "paused"
    db.sql("ALTER SOURCE g SET BACKFILL_RATE_LIMIT = 1000; PAUSE")
    assert job.progress().state == "paused"
    db.sql("RESUME")
    assert job.progress().state == "running"
    db.sql(f"PAUSE JOB {job.id}")
    assert job.progress().state == "paused"
    db.sql(f"RESUME JOB {job.id}; ALTER MATERIALIZED VIEW m SET BACKFILL_RATE_LIMIT = DEFAULT; WAIT m")
    assert count(db, "m") == ROWS and not db.jobs()
    db.sql("SET backfill_rate_limit = 10")
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT id FROM g")
    db.sql(f"CANCEL JOB {db.jobs()[0].id}")
    assert [row[0] for row in db.sql("SHOW MATERIALIZED VIEWS").rows()] == ["m"]
    is_equal(db, "m")


def test_a_history_that_takes_long_does_not_hold_up_the_stream(db, monkeypatch):
    db.sql(source(rate=300, rows=10_000_000))
    db.sql("CREATE MATERIALIZED VIEW live AS SELECT id FROM g")
    go_on, read = threading.Event(), Histories._read

    def slowly(self, *given):
        assert go_on.wait(PATIENCE)
        return read(self, *given)

    monkeypatch.setattr(Histories, "_read", slowly)
    db.sql("SET background_ddl = true")
    before = eventually(lambda: count(db, "live"))
    db.sql("CREATE MATERIALIZED VIEW slow AS SELECT id FROM g")
    eventually(lambda: count(db, "live") > before + 300)
    assert [job.progress().rows_read for job in db.jobs()] == [0]
    go_on.set()
    db.sql("WAIT slow")
    is_equal(db, "slow")


def test_a_view_whose_expression_fails_stops_alone(db):
    db.sql(source())
    eventually(lambda: count(db, "g") == ROWS)
    with pytest.raises(HeadraceError, match="was not created"):
        db.sql("CREATE MATERIALIZED VIEW bad AS SELECT id, 1 / (id - 7) AS x FROM g")
    db.sql("CREATE MATERIALIZED VIEW good AS SELECT id FROM g")
    assert count(db, "good") == ROWS


def test_sources_are_shown_and_described(db):
    db.sql(source())
    ((name, connector, state, *_),) = db.sql("SHOW SOURCES").rows()
    assert (name, connector, state) == ("g", "datagen", "idle")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id FROM g")
    assert db.sql("SHOW SOURCES").rows()[0][2] == "running"
    shown = [row[0] for row in db.sql("DESCRIBE g").rows() if row[2] == "false"]
    assert shown == ["id", "v", "word", "at", "p", "o"]
    plan = [line for (line,) in db.sql("EXPLAIN CREATE MATERIALIZED VIEW x AS SELECT id FROM g WHERE v < 5").rows()]
    assert any("SourceBackfill" in line for line in plan)
    db.sql("CREATE VIEW plain AS SELECT id, v FROM g WHERE v > 5")
    db.sql("CREATE MATERIALIZED VIEW through AS SELECT id FROM plain")
    eventually(lambda: count(db, "through") == db.sql("SELECT count(*) FROM plain").rows()[0][0])
    db.sql("DROP MATERIALIZED VIEW m; DROP MATERIALIZED VIEW through")
    eventually(lambda: db.sql("SHOW SOURCES").rows()[0][2] == "idle")


@pytest.mark.parametrize(
    ("statement", "error"),
    [
        ("CREATE SOURCE g (a INT) WITH (connector = 'datagen', datagen.rows.per.second = 'x')", InvalidParameterValue),
        ("CREATE SOURCE g (a INT) WITH (connector = 'datagen', fields.b.kind = 'random')", InvalidParameterValue),
        ("CREATE SOURCE g (a INT) WITH (connector = 'datagen', unknown = '1')", InvalidParameterValue),
        ("CREATE SOURCE g (a JSONB) WITH (connector = 'datagen')", InvalidDefinition),
        ("CREATE SOURCE g (a INT) WITH (connector = 'datagen') FORMAT PLAIN ENCODE JSON", InvalidDefinition),
        ("CREATE SOURCE g (a INT) INCLUDE key WITH (connector = 'datagen')", InvalidDefinition),
        ("CREATE SOURCE g (a INT PRIMARY KEY) WITH (connector = 'datagen')", Unsupported),
        ("CREATE SOURCE g (a INT, WATERMARK FOR a AS b - 5) WITH (connector = 'datagen')", UndefinedColumn),
        ("INSERT INTO base VALUES (1)", WrongObjectKind),
        ("DELETE FROM t WHERE id IN (SELECT id FROM base)", Unsupported),
        ("CREATE INDEX i ON base (id)", WrongObjectKind),
    ],
)
def test_what_is_refused(db, statement, error):
    db.sql(source("base"))
    db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
    with pytest.raises(error):
        db.sql(statement)
