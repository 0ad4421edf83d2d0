"""Tables whose columns change on a MariaDB server."""

from __future__ import annotations

from tests.engine.cdc import stories
from tests.engine.cdc_mariadb.conftest import BOTH, caught_up, create_source, rows, stopped
from tests.engine.conftest import eventually

SERVERS = BOTH


def test_columns_that_come_go_and_grow_are_followed(db, mariadb, monkeypatch):
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.0)
    create_source(db, mariadb, **{"auto.schema.change": "true"})
    mariadb.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, twice INT AS (id * 2) VIRTUAL)",
        "INSERT INTO t (id, a, b) VALUES (1, 1, 1)",
    )
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    mariadb.run("ALTER TABLE t ADD COLUMN c VARCHAR(9) DEFAULT 'new'", "INSERT INTO t (id, c) VALUES (2, 'x')")
    eventually(lambda: db.sql("SELECT * FROM t").columns == ["id", "a", "b", "c"])
    assert rows(db, "SELECT id, c FROM t") == [(1, "new"), (2, "x")]
    mariadb.run("ALTER TABLE t DROP COLUMN a, MODIFY b BIGINT", "INSERT INTO t (id, b) VALUES (3, 5000000000)")
    eventually(lambda: db.sql("SELECT * FROM t").columns == ["id", "b", "c"])
    caught_up(db, mariadb)
    eventually(lambda: (3, 5000000000) in rows(db, "SELECT id, b FROM t"))
    assert stopped(db) == {}


def test_columns_change_in_the_middle_of_a_snapshot(db, followed, monkeypatch):
    stories.columns_change_in_the_middle_of_a_snapshot(db, followed, monkeypatch)


def test_a_table_that_has_stopped_is_read_anew(db, mariadb, source):
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    mariadb.run("DROP TABLE t", "CREATE TABLE t (id INT PRIMARY KEY, a INT, z INT)", "INSERT INTO t VALUES (2, 2, 2)")
    eventually(lambda: "it was dropped" in stopped(db).get("t", ("", ""))[1])
    assert rows(db, "SELECT * FROM t") == [(1, 1)]
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    mariadb.run("INSERT INTO t VALUES (3, 3, 3)")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == [(2, 2, 2), (3, 3, 3)] and stopped(db) == {}


def test_what_the_log_says_of_a_table_before_it_was_created_is_no_matter(db, mariadb, source):
    """Its first chunk shows it."""
    following = db.engine.sources._followers
    (one,) = following.values()
    take, one._take = one._take, lambda: False  # the log is read and waits
    mariadb.run(
        "CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1)", "DROP TABLE t",
        "CREATE TABLE t (k INT PRIMARY KEY, a INT, b INT)", "INSERT INTO t VALUES (1, 2, 3)",
        "ALTER TABLE t MODIFY b BIGINT, DROP COLUMN a",
    )  # fmt: skip
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'")
    eventually(lambda: [each for each in one._tables.values() if each.relation.name == "t"])
    one._take = take
    db.sql("WAIT t")
    mariadb.run("INSERT INTO t VALUES (2, 5000000000)")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == [(1, 3), (2, 5000000000)] and stopped(db) == {}


def test_only_what_is_changed_from_now_on(db, mariadb, source):
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, a INT)", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    caught_up(db, mariadb)
    db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (snapshot = 'false')")
    mariadb.run("UPDATE t SET a = 5 WHERE id = 1", "DELETE FROM t WHERE id = 2", "INSERT INTO t VALUES (4, 4)")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == [(1, 5), (4, 4)]
