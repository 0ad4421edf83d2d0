"""What goes wrong while tables follow a server: who stops, who goes on, and what is said."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidParameterValue, JobFailed
from tests.engine.cdc_postgres.conftest import (
    NEEDS_POSTGRES,
    active,
    caught_up,
    create_source,
    options,
    rows,
    stopped,
    theirs,
)
from tests.engine.conftest import eventually

pytestmark = NEEDS_POSTGRES


def test_a_table_that_cannot_go_on_stops_alone_and_says_why(db, postgres, source, monkeypatch):
    postgres.run(
        """CREATE TABLE a (id int PRIMARY KEY, n numeric); CREATE TABLE b (id int PRIMARY KEY, gone int);
        CREATE TABLE c (id int PRIMARY KEY); CREATE TABLE e (id int PRIMARY KEY, v varchar(5), n int);
        CREATE TABLE g (id int PRIMARY KEY)"""
    )
    postgres.run("CREATE TABLE d (id int PRIMARY KEY, day date); INSERT INTO d VALUES (1, 'infinity')")
    for name in "abceg":
        db.sql(f"CREATE TABLE {name} (*) FROM pg TABLE '{name}'")
    db.sql("WAIT")
    db.sql("CREATE TABLE d (*) FROM pg TABLE 'd'")
    with pytest.raises(JobFailed, match='column "day": "infinity" is not a value of type date'):
        db.sql("WAIT d")
    postgres.run(
        "INSERT INTO a VALUES (1, 'NaN'); INSERT INTO c VALUES (1); ALTER TABLE b DROP gone; INSERT INTO b VALUES (1)"
    )
    postgres.run("ALTER TABLE c ADD more int; INSERT INTO c VALUES (2, 2)")
    caught_up(db, postgres)
    postgres.run("ALTER TABLE e ALTER v TYPE varchar(9); INSERT INTO e VALUES (1, 'w', 1)")
    postgres.run("ALTER TABLE e ALTER n TYPE bigint USING n * 2; INSERT INTO e VALUES (2, 'x', 1); DROP TABLE g")
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.0)
    caught_up(db, postgres)
    eventually(lambda: "g" in stopped(db))
    errors = stopped(db)
    assert 'column "n" of "public"."e" has another type now' in errors["e"][1]
    assert rows(db, "SELECT * FROM e") == [(1, "w", 1)]
    assert '"public"."g" was dropped' in errors["g"][1]
    assert errors["a"][0] == "failed" and 'column "n": "NaN"' in errors["a"][1]
    assert errors["b"][0] == "failed" and 'column "gone"' in errors["b"][1]
    assert rows(db, "SELECT * FROM c") == [(1,), (2,)] and "c" not in errors


def test_a_slot_that_was_moved_is_noticed(db, postgres):
    create_source(db, postgres, **{"slot.name": "mine"})
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    with pytest.raises(InvalidParameterValue, match='"mine" is there already'):
        db.sql(f"CREATE SOURCE again WITH ({options(postgres, **{'slot.name': 'mine'})}, password = SECRET pw)")
    db.engine.sources.stop()
    postgres.run("INSERT INTO t VALUES (1)")
    eventually(lambda: not active(postgres, "mine"))
    postgres.run("SELECT pg_replication_slot_advance('mine', pg_current_wal_lsn())")
    db.engine.sources.start()
    eventually(lambda: [row for row in db.sql("SHOW JOBS").rows() if row[8] and "somebody else" in row[8]])
    assert [row[2] for row in db.sql("SHOW JOBS").rows()] == ["retrying"]
    assert rows(db, "SELECT * FROM t") == []
    db.sql("DROP SOURCE pg CASCADE")


def test_a_server_that_restarts_is_followed_on(db, postgres, source):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 30)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 2)")
    postgres.stop(immediate=True)
    eventually(lambda: [row for row in db.sql("SHOW JOBS").rows() if row[2] == "retrying"])
    postgres.start()
    postgres.run("INSERT INTO t VALUES (31)")
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")
