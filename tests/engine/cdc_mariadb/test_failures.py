"""What goes wrong on the server, or on the way to it: each has a state that says so, and nothing is lost silently."""

from __future__ import annotations

import threading

import pytest

from headrace.cdc.mysql import session, stream
from headrace.cdc.mysql.positions import Place
from headrace.cdc.mysql.session import Address
from headrace.cdc.mysql.stream import begin_dump
from tests.engine.cdc.followed import source_state
from tests.engine.cdc_mariadb.conftest import (
    BOTH,
    KINDS,
    caught_up,
    create_source,
    follower,
    log_end,
    rows,
    servers,
    stopped,
    theirs,
)
from tests.engine.conftest import eventually
from tests.support.mariadb import PASSWORD, USER

SERVERS = BOTH


def test_a_table_that_cannot_go_on_stops_alone_and_says_why(db, mariadb, source):
    names = ("dropped", "renamed", "modified", "dropcol", "swapped", "parted", "child", "fine")
    for name in names:
        mariadb.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT, w INT)", f"INSERT INTO {name} VALUES (1, 1, 1)")
    mariadb.run("ALTER TABLE parted PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (5))")
    for name in names:
        db.sql(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT) FROM my TABLE '{name}'")
    db.sql("WAIT")
    mariadb.run("DROP TABLE dropped")
    mariadb.run("RENAME TABLE renamed TO elsewhere")
    mariadb.run("ALTER TABLE modified MODIFY v BIGINT")
    mariadb.run("ALTER TABLE dropcol DROP COLUMN v, ADD COLUMN v INT DEFAULT 7")
    mariadb.run("ALTER TABLE swapped DROP PRIMARY KEY, ADD PRIMARY KEY (v)")
    mariadb.run("CREATE TABLE parent (id INT PRIMARY KEY)", "INSERT INTO parent VALUES (1)")
    mariadb.run("ALTER TABLE child ADD FOREIGN KEY (v) REFERENCES parent (id) ON DELETE CASCADE")
    mariadb.run("ALTER TABLE parted TRUNCATE PARTITION a")
    mariadb.run(
        "ALTER TABLE fine ADD COLUMN x INT DEFAULT 3 AFTER id, ADD INDEX (v), DROP COLUMN w", "OPTIMIZE TABLE fine",
        "CREATE INDEX more ON fine (x)", "INSERT INTO fine (id, x, v) VALUES (2, 5, 2)",
    )  # fmt: skip
    caught_up(db, mariadb)
    errors = stopped(db)
    logs_cascades = mariadb.name == "MySQL"
    assert set(errors) == {*names} - ({"fine", "child"} if logs_cascades else {"fine"})
    assert all(state == "failed" for state, _ in errors.values())
    for name, reason in (
        ("dropped", "it was dropped"), ("renamed", "renamed"), ("modified", 'column "v"'), ("dropcol", 'column "v"'),
        ("swapped", "PRIMARY"), ("parted", "TRUNCATE PARTITION"), ("child", "foreign key"),
    ):  # fmt: skip
        assert (logs_cascades and name == "child") or reason in errors[name][1]
    assert rows(db, "SELECT * FROM fine") == [(1, 1), (2, 2)]


def test_what_a_session_logs_in_another_way_stops_the_table(db, mariadb, source):
    for name in ("part", "xa", "other"):
        mariadb.run(f"CREATE TABLE {name} (id INT PRIMARY KEY, v INT)", f"INSERT INTO {name} VALUES (1, 1)")
        db.sql(f"CREATE TABLE {name} (*) FROM my TABLE '{name}'; WAIT {name}")
    mariadb.run("SET SESSION binlog_row_image = MINIMAL", "UPDATE part SET v = 2")
    mariadb.run("XA START 'a'", "INSERT INTO xa VALUES (2, 2)", "XA END 'a'", "XA PREPARE 'a'", "XA COMMIT 'a'")
    mariadb.run("XA START 'b'", "INSERT INTO other VALUES (2, 2)", "XA END 'b'", "XA COMMIT 'b' ONE PHASE")
    caught_up(db, mariadb)
    errors = stopped(db)
    assert "binlog_row_image" in errors["part"][1] and "XA" in errors["xa"][1] and set(errors) == {"part", "xa"}
    assert rows(db, "SELECT * FROM other") == [(1, 1), (2, 2)]
    mariadb.run("SET SESSION binlog_format = STATEMENT", "INSERT INTO other VALUES (3, 3)")
    caught_up(db, mariadb)
    assert "binlog_format" in stopped(db)["other"][1]


def test_a_distributed_transaction_that_was_prepared_before_a_table_was_read(db, mariadb, source):
    """Its rows are in the log before the table is read, and can be seen afterwards."""
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)")
    other = mariadb.connect()
    with other.cursor() as cursor:
        for statement in ("XA START 'late'", "INSERT INTO t VALUES (1)", "XA END 'late'", "XA PREPARE 'late'"):
            cursor.execute(statement)
        db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
        cursor.execute("XA COMMIT 'late'")
    other.close()
    caught_up(db, mariadb)
    assert "XA" in stopped(db)["t"][1]
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    assert rows(db, "SELECT * FROM t") == [(1,)]


@servers("mariadb")
def test_what_is_loaded_as_a_statement_stops_tables_and_not_the_source(db, mariadb, source):
    mariadb.run("CREATE TABLE loaded (id INT PRIMARY KEY)", "CREATE TABLE late (id INT PRIMARY KEY)")
    db.sql("CREATE TABLE loaded (*) FROM my TABLE 'loaded'; WAIT loaded")
    path = mariadb.give("rows.csv", b"1\n2\n")
    mariadb.run("SET SESSION binlog_format = STATEMENT", f"LOAD DATA INFILE '{path}' INTO TABLE loaded")
    caught_up(db, mariadb)
    assert "LOAD was logged as text" in stopped(db)["loaded"][1]
    db.sql("CREATE TABLE late (*) FROM my TABLE 'late'; WAIT late")
    mariadb.run("INSERT INTO late VALUES (1)")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM late") == [(1,)]


@servers("mariadb")  # MySQL refuses such transactions, if it numbers them
def test_what_is_undone_in_the_log_itself(db, mariadb, source, monkeypatch):
    """A transaction that also wrote to a table without transactions is logged with what it has taken back."""
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE isam (id INT) ENGINE = MyISAM")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    mariadb.run(
        "SET SESSION binlog_direct_non_transactional_updates = 0", "BEGIN", "INSERT INTO t VALUES (1)", "SAVEPOINT a",
        "INSERT INTO isam VALUES (1)", "INSERT INTO t VALUES (2)", "ROLLBACK TO a", "INSERT INTO t VALUES (3)",
        "COMMIT",
        "BEGIN", "INSERT INTO t VALUES (4)", "INSERT INTO isam VALUES (1)", "ROLLBACK",
    )  # fmt: skip
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t") == [(1,), (3,)]


def test_a_transaction_that_is_too_large_for_an_epoch_comes_in_pieces(db, mariadb, source, monkeypatch):
    monkeypatch.setattr(stream, "PIECE_BYTES", 100)
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, v INT)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    statements = [f"INSERT INTO t SELECT seq, 0 FROM seq_{first}_to_{first + 40}" for first in range(1, 400, 41)]
    mariadb.run("BEGIN", *statements, "UPDATE t SET v = 1 WHERE id % 2 = 0", "COMMIT")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")


@servers("mariadb")
def test_a_log_that_waits_is_bounded(db, mariadb, source, monkeypatch):
    """While nothing is applied, nothing more is read than the bound; then all of it comes."""
    monkeypatch.setattr(stream, "BUFFER_BYTES", 2_000)
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    following = follower(db)
    take, following._take = following._take, lambda: False
    mariadb.run(*(f"INSERT INTO t VALUES ({id}, REPEAT('x', 500))" for id in range(50)))
    eventually(lambda: following._stream._bytes > 2_000)
    assert following._stream._bytes < 4_000 and following._stream._reached < log_end(mariadb)
    following._take = take
    caught_up(db, mariadb)
    assert len(rows(db, "SELECT id FROM t")) == 50


@servers("mariadb")
def test_a_table_that_somebody_keeps_holds_up_no_other(db, mariadb, source, monkeypatch):
    """Somebody waits to change its columns, for somebody who reads it; so nobody else can read it."""
    monkeypatch.setattr(session, "LOCK_SECONDS", 1)
    for name in ("kept", "other"):
        mariadb.run(f"CREATE TABLE {name} (id INT PRIMARY KEY)", f"INSERT INTO {name} SELECT seq FROM seq_1_to_9")
    db.sql("CREATE TABLE other (*) FROM my TABLE 'other'; WAIT other")
    create = "CREATE TABLE kept (*) FROM my TABLE 'kept' WITH (backfill.num_rows_per_split = 2)"
    db.sql(f"PAUSE; {create}")
    reads, changes = mariadb.connect(), mariadb.connect()
    with reads.cursor() as cursor:
        cursor.execute("BEGIN")
        cursor.execute("SELECT * FROM kept")
        altered = threading.Thread(target=changes.cursor().execute, args=("ALTER TABLE kept ADD x INT",), daemon=True)
        altered.start()
        eventually(
            lambda: mariadb.run("SELECT 1 FROM information_schema.processlist WHERE state LIKE '%metadata lock'")
        )
        db.sql("RESUME")
        eventually(lambda: "Lock wait timeout" in (stopped(db).get("kept", ("", ""))[1] or ""))
        mariadb.run("INSERT INTO other VALUES (10)")
        caught_up(db, mariadb)
        assert len(rows(db, "SELECT * FROM other")) == 10 and stopped(db)["kept"][0] == "retrying"
        cursor.execute("COMMIT")
    altered.join(60)
    db.sql("WAIT kept")
    assert len(rows(db, "SELECT * FROM kept")) == 9
    reads.close()
    changes.close()


def test_the_log_goes_on_in_another_file(db, mariadb, source):
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_20")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (backfill.num_rows_per_split = 2)")
    for id in range(21, 26):
        mariadb.run("FLUSH BINARY LOGS", f"INSERT INTO t VALUES ({id})", f"DELETE FROM t WHERE id = {id - 20}")
    mariadb.run("FLUSH BINARY LOGS")
    db.sql("WAIT t")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")
    db.engine.sources.stop()
    mariadb.run("INSERT INTO t VALUES (99)", "FLUSH BINARY LOGS")
    db.engine.sources.start()
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")


@servers("mysql")
def test_numbers_of_transactions_that_somebody_chooses(db, mariadb, source):
    """Out of order, of other servers, with tags, and of nothing at all; the log is still the same."""
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    other = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
    chosen = (f"{other}:100", f"{other}:7", "AUTOMATIC:tag", f"{other}:tag:2000000000")
    for id, number in enumerate(chosen, start=2):
        mariadb.run(f"SET gtid_next = '{number}'", f"INSERT INTO t VALUES ({id})", "SET gtid_next = 'AUTOMATIC'")
        mariadb.run(f"SET gtid_next = '{other}:{id + 1000}'", "COMMIT", "SET gtid_next = 'AUTOMATIC'")
        caught_up(db, mariadb)
        db.engine.sources.stop()
        mariadb.run("SET SESSION sql_log_bin = 0", "CREATE TABLE unlogged (id INT PRIMARY KEY)", "DROP TABLE unlogged")
        if id % 2:
            mariadb.run("FLUSH BINARY LOGS")
        db.engine.sources.start()
        caught_up(db, mariadb)
        assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")
    assert source_state(db) == ("running", None)


@servers("mysql")
def test_transactions_that_are_compressed(db, mariadb, source, monkeypatch):
    monkeypatch.setattr(stream, "PIECE_BYTES", 1_000)
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, v TEXT)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    inserts = [f"INSERT INTO t SELECT seq, REPEAT('x', seq) FROM seq_{first}_to_{first + 40}" for first in (1, 42, 83)]
    mariadb.run("SET SESSION binlog_transaction_compression = ON", "BEGIN", *inserts, "DELETE FROM t WHERE id < 9",
                "COMMIT", "UPDATE t SET v = NULL WHERE id = 9")  # fmt: skip
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")


@servers("mysql")
def test_what_foreign_keys_do_to_rows_is_in_the_log_of_newer_servers(db, mariadb, source, monkeypatch):
    mariadb.run(
        "CREATE TABLE parent (id INT PRIMARY KEY)", "INSERT INTO parent VALUES (1), (2), (3)",
        "CREATE TABLE child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id)"
        " ON DELETE CASCADE ON UPDATE CASCADE)",
        "INSERT INTO child VALUES (1, 1), (2, 2), (3, 3)",
    )  # fmt: skip
    db.sql("CREATE TABLE child (*) FROM my TABLE 'child'; WAIT child")
    mariadb.run("DELETE FROM parent WHERE id = 1", "UPDATE parent SET id = 20 WHERE id = 2")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM child") == theirs(mariadb, "SELECT * FROM child") == [(2, 20), (3, 3)]
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    monkeypatch.setattr("headrace.cdc.mysql.flavors.Mysql.logs_cascades", lambda flavor, ask: False)
    eventually(lambda: "foreign keys" in (stopped(db).get("child", ("", ""))[1] or ""))


@servers("mariadb")
def test_numbers_of_transactions_that_have_gaps(db, mariadb, source):
    """They may jump, be those of another domain or server, and be of what is not logged; the log is still the same."""
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    settings = ("gtid_seq_no = 1000000", "gtid_domain_id = 5", "server_id = 77", "gtid_seq_no = 2000000")
    for id, setting in enumerate(settings, start=2):
        mariadb.run(f"SET SESSION {setting}", f"INSERT INTO t VALUES ({id})")
        caught_up(db, mariadb)
        db.engine.sources.stop()
        mariadb.run("SET SESSION sql_log_bin = 0", "CREATE OR REPLACE TABLE unlogged (id INT PRIMARY KEY)")
        db.engine.sources.start()
        caught_up(db, mariadb)
        assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t")
    assert source_state(db) == ("running", None)


def test_another_replica_with_the_same_number(db, mariadb, source):
    """It throws us out; we come back, and throw it out. Nothing is lost, and the server's reason is shown."""
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    following = follower(db)
    address = Address(host="127.0.0.1", port=mariadb.port, user=USER, database="shop", password=PASSWORD)
    other = address.session()
    begin_dump(other, Place.of("mysql-bin", log_end(mariadb)), following._stream._server_id)
    mariadb.run("INSERT INTO t VALUES (1)")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == [(1,)]
    other.close()


def trouble(db, words: str) -> None:
    eventually(lambda: [row for row in db.sql("SHOW JOBS").rows() if row[9] and words in row[9]])
    assert [row[4] for row in db.sql("SHOW JOBS").rows()] == ["retrying"]


@pytest.fixture
def own(db, server):
    """A server that is not needed afterwards, with a table that has been filled and is not followed now."""
    server = KINDS[server.name.lower()]()
    create_source(db, server)
    server.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t SELECT seq FROM seq_1_to_30")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    yield server
    server.remove()


def test_a_log_that_was_removed_is_noticed(db, own):
    caught_up(db, own)
    db.engine.sources.stop()
    own.run("INSERT INTO t VALUES (31)", "FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "SET GLOBAL binlog_checksum = NONE")
    last = own.run("SHOW BINARY LOGS")[-1][0]
    eventually(lambda: own.run(f"PURGE BINARY LOGS TO '{last}'", "SHOW BINARY LOGS")[0][0] == last)
    db.engine.sources.start()
    trouble(db, "has removed mysql-bin.0")
    assert len(rows(db, "SELECT * FROM t")) == 30
    db.sql("DROP SOURCE my CASCADE")


def test_a_log_that_was_begun_anew_is_noticed(db, own):
    """Though a file of the same name is there, with more in it than was read."""
    caught_up(db, own)
    db.engine.sources.stop()
    own.run(own.reset, *(f"INSERT INTO t VALUES ({id})" for id in range(100, 150)))
    db.engine.sources.start()
    trouble(db, "another than the one that was read")
    assert len(rows(db, "SELECT * FROM t")) == 30
    db.sql("DROP SOURCE my CASCADE")


def test_a_server_that_restarts_is_followed_on(db, own):
    own.run("CREATE TABLE u (id INT PRIMARY KEY)", "INSERT INTO u SELECT seq FROM seq_1_to_30")
    db.sql("CREATE TABLE u (*) FROM my TABLE 'u' WITH (backfill.num_rows_per_split = 2)")
    own.stop()
    eventually(lambda: [row for row in db.sql("SHOW JOBS").rows() if row[4] == "retrying"])
    own.start()
    own.run("INSERT INTO u VALUES (31)", "INSERT INTO t VALUES (31)")
    db.sql("WAIT u")
    caught_up(db, own)
    for name in "tu":
        assert rows(db, f"SELECT * FROM {name}") == theirs(own, f"SELECT * FROM {name}")
    own.stop(immediate=True)
    own.start()
    own.run("INSERT INTO u VALUES (32)")
    caught_up(db, own)
    assert rows(db, "SELECT * FROM u") == theirs(own, "SELECT * FROM u")
    db.sql("DROP SOURCE my CASCADE")
