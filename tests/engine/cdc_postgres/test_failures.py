"""What goes wrong while tables follow a server: who stops, who goes on, and what is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import psycopg2.extras
import pytest

import headrace
from headrace.cdc.postgres import server
from headrace.cdc.problems import SourceUnreachable
from headrace.engine.chunk_reads import READERS
from headrace.errors import HeadraceError, InvalidDefinition, InvalidParameterValue, JobFailed, Unsupported
from tests.engine.cdc.followed import source_state
from tests.engine.cdc_postgres.conftest import (
    NEEDS_POSTGRES,
    ROOT,
    active,
    caught_up,
    create_source,
    options,
    rows,
    stopped,
    theirs,
)
from tests.engine.conftest import eventually
from tests.support.postgres import PASSWORD

pytestmark = NEEDS_POSTGRES


def test_a_table_that_cannot_go_on_stops_alone_and_says_why(db, postgres, source, monkeypatch, caplog):
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
    caught_up(db, postgres)  # a table may be stopped by a look at the server, which is ahead of the log
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
    assert 'table "a" has stopped: DataError 22P02' in caplog.text and 'column "gone"' in caplog.text
    assert "NaN" not in caplog.text and "infinity" not in caplog.text, "values are nobody's business who reads logs"


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
    eventually(lambda: [row for row in db.sql("SHOW JOBS").rows() if row[9] and "somebody else" in row[9]])
    assert [row[4] for row in db.sql("SHOW JOBS").rows()] == ["retrying"]
    assert rows(db, "SELECT * FROM t") == []
    db.sql("DROP SOURCE pg CASCADE")


@pytest.mark.parametrize("immediate", [False, True])
def test_a_server_that_restarts_is_followed_on(db, postgres, source, immediate):
    """A server that is stopped in order waits for who reads its log: it must not wait for us."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 30)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 2)")
    postgres.stop(immediate=immediate)
    eventually(lambda: [row for row in db.sql("SHOW JOBS").rows() if row[4] == "retrying"])
    postgres.start()
    postgres.run("INSERT INTO t VALUES (31)")
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


def test_a_process_killed_while_a_source_is_made(db, postgres, spark, warehouse):
    """What it has made on the server is known, and goes with the source."""
    db.sql("CREATE SECRET pw AS '" + PASSWORD.replace("'", "''") + "'")
    db.close()
    create = f"CREATE SOURCE pg WITH ({options(postgres)}, password = SECRET pw)"
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    process = subprocess.run(
        [sys.executable, "-m", "tests.engine.cdc_child", warehouse, create], cwd=ROOT, timeout=200, text=True,
        capture_output=True, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": "after_set_up:1"},
    )  # fmt: skip
    assert process.returncode == -signal.SIGKILL, process.stderr[-2000:]
    assert len(postgres.run("SELECT 1 FROM pg_replication_slots")) == 1
    with headrace.connect(warehouse, spark=spark) as again:
        state, why = source_state(again)
        assert (state, why) == ("failed", "it was not created completely: drop it, and create it again")
        again.sql("DROP SOURCE pg")
        assert postgres.run("SELECT 1 FROM pg_replication_slots") == postgres.run("SELECT 1 FROM pg_publication") == []
        again.sql(f"{create}; DROP SOURCE pg")


def test_a_server_that_goes_away_while_a_source_is_made(db, postgres, monkeypatch):
    """What there may be of it on the server is not forgotten, and it says why it is not followed."""
    db.sql("CREATE SECRET pw AS '" + PASSWORD.replace("'", "''") + "'")

    def gone(*_):
        raise SourceUnreachable("it is gone")

    with monkeypatch.context() as away:
        away.setattr(server.Control, "create_slot", gone)
        away.setattr(server.Control, "drop_slot", gone)
        away.setattr(server.Control, "drop_publication", gone)
        with pytest.raises(SourceUnreachable, match="it is gone"):
            db.sql(f"CREATE SOURCE pg WITH ({options(postgres)}, password = SECRET pw)")
    assert source_state(db) == ("failed", "it was not created completely: drop it, and create it again")
    assert len(postgres.run("SELECT 1 FROM pg_publication")) == 1
    db.sql("DROP SOURCE pg")
    assert postgres.run("SELECT 1 FROM pg_publication") == [] and db.sql("SHOW SOURCES").rows() == []


def test_an_engine_that_was_taken_over_lets_go_of_the_log(db, postgres, source, spark, warehouse):
    """Its process may live on, and what it has committed can be read there; but the slot is the other's."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    with headrace.connect(warehouse, spark=spark, takeover=True) as other:
        postgres.run("INSERT INTO t VALUES (2)")
        eventually(lambda: rows(other, "SELECT * FROM t") == [(1,), (2,)])
        assert rows(db, "SELECT * FROM t") == [(1,)]
        other.sql("DROP SOURCE pg CASCADE")


def test_a_slot_that_somebody_else_reads(db, postgres):
    create_source(db, postgres, **{"slot.name": "mine"})
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    db.engine.sources.stop()
    eventually(lambda: not active(postgres, "mine"))
    other = postgres.connect(connection_factory=psycopg2.extras.LogicalReplicationConnection)
    options = {"proto_version": "1", "publication_names": "mine"}
    other.cursor().start_replication(slot_name="mine", options=options)
    postgres.run("INSERT INTO t VALUES (1)")
    db.engine.sources.start()
    eventually(lambda: "is active for PID" in (stopped(db).get("t", ("", ""))[1] or ""))
    assert stopped(db)["t"][0] == "retrying"
    other.close()
    eventually(lambda: not stopped(db))
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == [(1,)]


def test_a_slot_whose_log_the_server_has_removed(db, postgres):
    create_source(db, postgres, **{"slot.name": "mine"})
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    db.engine.sources.stop()
    eventually(lambda: not active(postgres, "mine"))
    postgres.run("INSERT INTO t VALUES (1)")
    postgres.run("ALTER SYSTEM SET max_slot_wal_keep_size = '1MB'")
    postgres.run("SELECT pg_reload_conf()")

    def lost() -> bool:
        postgres.run("SELECT pg_switch_wal()")
        postgres.run("INSERT INTO t SELECT max(id) + 1 FROM t")
        postgres.run("CHECKPOINT")
        return postgres.run("SELECT wal_status FROM pg_replication_slots") == [("lost",)]

    eventually(lost)
    db.engine.sources.start()
    eventually(lambda: "is lost" in (stopped(db).get("t", ("", ""))[1] or ""))
    assert stopped(db)["t"][0] == "retrying" and rows(db, "SELECT * FROM t") == []
    db.sql("DROP SOURCE pg CASCADE")
    assert postgres.run("SELECT 1 FROM pg_replication_slots") == []


def test_a_publication_that_is_dropped(db, postgres):
    create_source(db, postgres, **{"slot.name": "mine"})
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run("DROP PUBLICATION mine; INSERT INTO t VALUES (1)")
    eventually(lambda: "publication" in (stopped(db).get("t", ("", ""))[1] or ""))
    assert rows(db, "SELECT * FROM t") == []
    db.sql("DROP SOURCE pg CASCADE")


def test_a_table_that_is_taken_out_of_the_publication_is_rescued(db, postgres, monkeypatch):
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    create_source(db, postgres, **{"slot.name": "mine"})
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (id int PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; CREATE TABLE u (*) FROM pg TABLE 'u'; WAIT")
    postgres.run("ALTER PUBLICATION mine DROP TABLE t; INSERT INTO t VALUES (1); INSERT INTO u VALUES (1)")
    eventually(lambda: "not published" in (stopped(db).get("t", ("", ""))[1] or ""))
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    postgres.run("INSERT INTO t VALUES (2)")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == [(1,), (2,)] and rows(db, "SELECT * FROM u") == [(1,)]


def test_rights_that_are_taken_away_hold_up_one_table(db, postgres):
    postgres.run("CREATE ROLE reader REPLICATION LOGIN PASSWORD 'r'; CREATE TABLE t (id int PRIMARY KEY)")
    postgres.run("CREATE TABLE u (LIKE t INCLUDING ALL); INSERT INTO t SELECT generate_series(1, 20)")
    postgres.run("CREATE PUBLICATION ours FOR TABLE t, u WITH (publish_via_partition_root = true)")
    postgres.run("GRANT USAGE ON SCHEMA public TO reader; GRANT SELECT ON t, u TO reader")
    try:
        db.sql("CREATE SECRET pw AS 'r'")
        asked = options(postgres, username="reader", **{"publication.name": "ours"})
        db.sql(f"CREATE SOURCE pg WITH ({asked}, password = SECRET pw)")
        db.sql("PAUSE; CREATE TABLE t (*) FROM pg TABLE 't'; CREATE TABLE u (*) FROM pg TABLE 'u'")
        postgres.run("REVOKE SELECT ON t FROM reader")
        db.sql("RESUME; WAIT u")
        eventually(lambda: stopped(db)["t"][0] == "retrying")
        assert "permission denied for table t" in stopped(db)["t"][1]
        postgres.run("INSERT INTO u VALUES (1)")
        caught_up(db, postgres)
        assert rows(db, "SELECT * FROM u") == [(1,)] and set(stopped(db)) == {"t"}
        postgres.run("GRANT SELECT ON t TO reader")
        db.sql("WAIT t")
        assert rows(db, "SELECT count(*) FROM t") == [(20,)]
        postgres.run("ALTER TABLE u ENABLE ROW LEVEL SECURITY; CREATE POLICY few ON u USING (id < 0)")
        with pytest.raises(HeadraceError, match="row level security"):
            db.sql("CREATE TABLE few (*) FROM pg TABLE 'u'")
        postgres.run("ALTER TABLE u DISABLE ROW LEVEL SECURITY")
        with pytest.raises(InvalidDefinition, match="does not have"):
            postgres.run("CREATE TABLE w (LIKE t INCLUDING ALL); GRANT SELECT ON w TO reader")
            db.sql("CREATE TABLE w (*) FROM pg TABLE 'w'")
        with pytest.raises(HeadraceError, match="may not read"):
            postgres.run("REVOKE SELECT ON w FROM reader")
            db.sql("CREATE TABLE w (*) FROM pg TABLE 'w'")
        db.sql("DROP SOURCE pg CASCADE")
        assert postgres.run("SELECT pubname FROM pg_publication") == [("ours",)]  # it was not ours
    finally:
        db.engine.sources.stop()
        postgres.run("DROP OWNED BY reader CASCADE; DROP ROLE reader")


def test_a_publication_of_a_part_is_refused(db, postgres):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE u (LIKE t INCLUDING ALL)")
    postgres.run("CREATE PUBLICATION ours FOR TABLE t, u WHERE (id > 5) WITH (publish_via_partition_root = true)")
    db.sql("CREATE SECRET pw AS '" + PASSWORD.replace("'", "''") + "'")
    asked = options(postgres, **{"publication.name": "ours"})
    db.sql(f"CREATE SOURCE pg WITH ({asked}, password = SECRET pw)")
    with pytest.raises(InvalidDefinition, match=r"only its rows with \(id > 5\)"):
        db.sql("CREATE TABLE u (*) FROM pg TABLE 'u'")
    postgres.run("CREATE TABLE w (id int PRIMARY KEY, a int, b int); ALTER PUBLICATION ours ADD TABLE w (id, a)")
    with pytest.raises(InvalidDefinition, match="only some columns"):
        db.sql("CREATE TABLE w (*) FROM pg TABLE 'w'")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run("ALTER PUBLICATION ours SET (publish = 'insert, delete')")
    eventually(lambda: "not all of INSERT, UPDATE" in (stopped(db).get("t", ("", ""))[1] or ""))
    with pytest.raises(InvalidDefinition, match="not all of INSERT"):
        db.sql("CREATE TABLE v (*) FROM pg TABLE 't'")


def test_a_table_that_somebody_keeps_holds_up_no_other(db, postgres, source, monkeypatch):
    monkeypatch.setitem(server._SETTINGS, "lock_timeout", "500ms")
    postgres.run("CREATE TABLE kept (id int PRIMARY KEY); INSERT INTO kept SELECT generate_series(1, 9)")
    postgres.run("CREATE TABLE other (LIKE kept INCLUDING ALL)")
    db.sql(
        "CREATE TABLE other (*) FROM pg TABLE 'other'; WAIT other; PAUSE; CREATE TABLE kept (*) FROM pg TABLE 'kept'"
    )
    keeps = postgres.connect()
    keeps.autocommit = False
    with keeps.cursor() as cursor:
        cursor.execute("LOCK TABLE kept")
        db.sql("RESUME")
        eventually(lambda: "locked by somebody else" in (stopped(db).get("kept", ("", ""))[1] or ""))
        postgres.run("INSERT INTO other VALUES (10)")
        caught_up(db, postgres)
        assert rows(db, "SELECT * FROM other") == [(10,)] and stopped(db)["kept"][0] == "retrying"
    keeps.rollback()
    db.sql("WAIT kept")
    assert rows(db, "SELECT count(*) FROM kept") == [(9,)]


def test_only_so_many_snapshots_are_open_at_once(db, postgres, source):
    names = [f"t{number}" for number in range(12)]
    for name in names:
        postgres.run(f"CREATE TABLE {name} (id int PRIMARY KEY); INSERT INTO {name} SELECT generate_series(1, 9)")
    looked, most = threading.Event(), []

    def look() -> None:
        while not looked.wait(0.01):
            found = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
            most.append(postgres.run(f"{found} AND application_name = 'headrace'")[0][0])

    watch = threading.Thread(target=look)
    watch.start()
    try:
        db.sql("PAUSE; " + "; ".join(f"CREATE TABLE {name} (*) FROM pg TABLE '{name}'" for name in names) + "; RESUME")
        db.sql("; ".join(f"WAIT {name}" for name in names))
    finally:
        looked.set()
        watch.join()
    assert 0 < max(most) <= 2 * READERS  # what the driver holds, and tasks between two statements
    assert [len(rows(db, f"SELECT * FROM {name}")) for name in names] == [9] * 12


def test_a_replica_identity_that_becomes_useless(db, postgres, source):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v int NOT NULL UNIQUE); INSERT INTO t VALUES (1, 1), (2, 2)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run("ALTER TABLE t REPLICA IDENTITY FULL; UPDATE t SET id = 3 WHERE id = 2")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == [(1, 1), (3, 2)]
    postgres.run("ALTER TABLE t REPLICA IDENTITY USING INDEX t_v_key; UPDATE t SET id = 4 WHERE id = 1")
    caught_up(db, postgres)
    assert "REPLICA IDENTITY" in stopped(db)["t"][1] and rows(db, "SELECT * FROM t") == [(1, 1), (3, 2)]
    postgres.run("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    assert rows(db, "SELECT * FROM t") == [(3, 2), (4, 1)]


def test_an_old_server_is_refused(db, postgres, monkeypatch):
    monkeypatch.setattr("headrace.cdc.postgres.server.OLDEST", 990000)
    with pytest.raises(Unsupported, match="is version"):
        create_source(db, postgres)
    assert db.sql("SHOW SOURCES").rows() == []
