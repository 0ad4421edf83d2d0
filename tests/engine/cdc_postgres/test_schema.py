"""auto.schema.change: columns that a table of the source gets, loses or widens, while it is followed, or read."""

from __future__ import annotations

import pytest

import headrace
from headrace.engine.follower import Follower
from headrace.engine.following import source_state
from headrace.errors import InvalidDefinition, JobFailed
from tests.engine.cdc import stories
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, caught_up, create_source, follower, rows, stopped, theirs
from tests.engine.conftest import eventually

pytestmark = NEEDS_POSTGRES


@pytest.fixture
def evolving(db, postgres, monkeypatch):
    """A source that follows columns, and looks for them all the time."""
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    create_source(db, postgres, **{"auto.schema.change": "true"})


def columns(db, name: str) -> list[tuple[str, str]]:
    return [tuple(row[:2]) for row in db.sql(f"DESCRIBE {name}").rows() if row[2] is not None]


def same(db, postgres, name: str = "t") -> bool:
    caught_up(db, postgres)
    names = ", ".join(column for column, _ in columns(db, name))
    return rows(db, f"SELECT {names} FROM {name}") == theirs(postgres, f"SELECT {names} FROM {name}")


def test_columns_come_go_and_grow(db, postgres, evolving):
    postgres.run(
        """CREATE TABLE t (id int PRIMARY KEY, old text, n int, v varchar(3), p numeric(6, 2));
        INSERT INTO t SELECT g, 'o', g, 'v', g FROM generate_series(1, 20) g; CREATE TABLE other (id int PRIMARY KEY)"""
    )
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 3)")
    db.sql("CREATE TABLE other (*) FROM pg TABLE 'other'; WAIT")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t WHERE id > 10")
    postgres.run("ALTER TABLE t ADD a int, ADD b text DEFAULT 'there', ADD c float8 DEFAULT random()")
    postgres.run("INSERT INTO t (id, a, v) VALUES (21, 5, 'w'); DELETE FROM t WHERE id = 1")
    eventually(lambda: ("c", "double precision") in columns(db, "t"))
    assert [name for name, _ in columns(db, "t")] == ["id", "old", "n", "v", "p", "a", "b", "c"] and same(db, postgres)
    # Nothing more is written to it, so the log says nothing.
    postgres.run(
        "ALTER TABLE t DROP old, DROP a, ALTER n TYPE bigint, ALTER v TYPE varchar(30), ALTER p TYPE numeric(9, 3)"
    )
    eventually(lambda: "old" not in dict(columns(db, "t")))
    assert dict(columns(db, "t")) == {
        "id": "integer", "n": "bigint", "v": "varchar", "p": "numeric(9,3)", "b": "varchar",
        "c": "double precision",
    }  # fmt: skip
    postgres.run(
        """UPDATE t SET n = 9223372036854775807, v = 'a longer text', p = 1.234 WHERE id > 15;
        INSERT INTO other VALUES (1)"""
    )
    assert same(db, postgres) and same(db, postgres, "other")
    assert rows(db, "SELECT * FROM m") == theirs(postgres, "SELECT id, v FROM t WHERE id > 10")
    assert db.sql("CHECK MATERIALIZED VIEW m").rows()[0][0].startswith("equal") and db.sql("SHOW JOBS").rows() == []
    postgres.run("ALTER TABLE t ALTER p TYPE numeric(12, 3); UPDATE t SET p = 123456789.123 WHERE id = 3")
    eventually(lambda: dict(columns(db, "t"))["p"] == "numeric(12,3)")
    assert same(db, postgres)
    postgres.run("ALTER TABLE t ADD old int DEFAULT 7")  # not the one that was there
    eventually(lambda: "old" in dict(columns(db, "t")))
    assert same(db, postgres)


def test_a_column_without_a_default_comes_at_its_place_in_the_log(db, postgres, evolving, monkeypatch):
    """Nothing has to be read for it: every row that was there has NULL in it."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE p (LIKE t INCLUDING ALL)")
    postgres.run("INSERT INTO t SELECT g, 'v' FROM generate_series(1, 10) g; INSERT INTO p SELECT * FROM t")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; CREATE TABLE p (*) FROM pg TABLE 'p'; WAIT")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, v FROM t WHERE id > 5")

    def refused(*_):
        raise AssertionError("a table was read anew")

    monkeypatch.setattr("headrace.engine.follower.beginning", refused)
    for statement in (
        "UPDATE t SET v = 'old' WHERE id = 1", "ALTER TABLE t ADD a int, ADD b text[]",
        "UPDATE t SET a = 2 WHERE id IN (2, 8)", "INSERT INTO t VALUES (11, 'new', 11, '{x}')",
        "DELETE FROM t WHERE id = 3", "ALTER TABLE p ADD a int",
    ):  # fmt: skip
        postgres.run(statement)
    eventually(lambda: ("b", "varchar[]") in columns(db, "t") and ("a", "integer") in columns(db, "p"))
    assert same(db, postgres) and same(db, postgres, "p")
    assert rows(db, "SELECT * FROM m") == theirs(postgres, "SELECT id, v FROM t WHERE id > 5")
    assert db.sql("CHECK MATERIALIZED VIEW m").rows()[0][0].startswith("equal") and db.sql("SHOW JOBS").rows() == []
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT id, a FROM t WHERE a IS NULL OR a > 5")
    db.sql("COMPACT t")
    postgres.run(
        "UPDATE t SET a = NULL WHERE id = 11; UPDATE t SET b = '{}' WHERE id = 4; INSERT INTO p VALUES (12, 'v', 1)"
    )
    assert same(db, postgres) and same(db, postgres, "p")
    assert rows(db, "SELECT * FROM n") == theirs(postgres, "SELECT id, a FROM t WHERE a IS NULL OR a > 5")
    monkeypatch.undo()
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    # One that was there, is gone, and is there again is another one; the log does not say so.
    postgres.run("ALTER TABLE t DROP a; ALTER TABLE t ADD a int; INSERT INTO t VALUES (13, 'v', NULL, 13)")
    eventually(lambda: same(db, postgres) and not db.jobs())
    # Rows of before and behind the change, in one transaction.
    postgres.run("UPDATE p SET v = 'w'; ALTER TABLE p ADD b int; INSERT INTO p VALUES (13, 'v', 1, 1)")
    eventually(lambda: "b" in dict(columns(db, "p")))
    assert same(db, postgres, "p") and db.sql("SHOW JOBS").rows() == []


def test_what_cannot_be_followed_stops_its_table_alone(db, postgres, evolving):
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1); CREATE TABLE u (LIKE t INCLUDING ALL)"
    )
    postgres.run("CREATE TABLE w (LIKE t INCLUDING ALL); CREATE TABLE k (LIKE t INCLUDING ALL)")
    for name in "tuw":
        db.sql(f"CREATE TABLE {name} (*) FROM pg TABLE '{name}'")
    db.sql("CREATE TABLE k (id INT PRIMARY KEY) FROM pg TABLE 'k'; WAIT")
    db.sql("CREATE MATERIALIZED VIEW m AS SELECT id, n FROM t")
    postgres.run("ALTER TABLE t DROP n; INSERT INTO t VALUES (2); ALTER TABLE u ALTER n TYPE text")
    postgres.run("ALTER TABLE k ADD more int; INSERT INTO k VALUES (5, 5, 5); INSERT INTO w VALUES (2, 2)")
    eventually(lambda: {"t", "u"} <= set(stopped(db)) and "needed" in stopped(db)["t"][1])
    eventually(lambda: "cannot become" in stopped(db)["u"][1])
    found = stopped(db)
    assert found["t"] == (
        "failed",
        'column "n" is gone from "public"."t", and is needed by materialized view "m"'
        " (drop what needs it, then RESNAPSHOT TABLE)",
    )
    assert 'column "n" of "public"."u" is of type text now' in found["u"][1]
    assert same(db, postgres, "w") and same(db, postgres, "k") and [name for name, _ in columns(db, "k")] == ["id"]
    assert rows(db, "SELECT * FROM m") == [(1, 1)]
    with pytest.raises(InvalidDefinition, match='needed by materialized view "m"'):
        db.sql("RESNAPSHOT TABLE t")
    db.sql("DROP MATERIALIZED VIEW m; RESNAPSHOT TABLE t; WAIT t")
    assert same(db, postgres) and columns(db, "t") == [("id", "integer")]


CHANGES_THAT_THE_LOG_HIDES = {
    "renamed": ("ALTER TABLE renamed RENAME TO other; INSERT INTO other VALUES (9, 9, 'sad')", "is called"),
    "idle": ("ALTER TABLE idle SET SCHEMA elsewhere", "is called"),
    "keyed": (
        "ALTER TABLE keyed DROP CONSTRAINT keyed_pkey, ADD PRIMARY KEY (id, n); INSERT INTO keyed VALUES (1, 2, 'sad')",
        "another primary key",
    ),
    "whole": ("ALTER TABLE whole DROP CONSTRAINT whole_pkey, ADD PRIMARY KEY (id, n)", "another primary key"),
    "doubled": ("ALTER TABLE doubled ALTER n TYPE int USING n * 2", "written anew"),
    "moody": ("ALTER TYPE feelings RENAME VALUE 'sad' TO 'blue'", "another name"),
    "dropped": ("DROP TABLE dropped_1", "partition"),
    "emptied": ("TRUNCATE emptied_1", "truncated by itself"),
    "reloaded": (
        "BEGIN; TRUNCATE reloaded_1; INSERT INTO reloaded VALUES (2, 2, 'sad'); COMMIT; ANALYZE reloaded",
        "truncated by itself",
    ),
    "cleared": ("TRUNCATE cleared_1; TRUNCATE cleared_2", "truncated by themselves"),
    "attached": (
        "CREATE TABLE loaded (LIKE attached); INSERT INTO loaded VALUES (11, 11, 'sad');;"
        "ALTER TABLE attached ATTACH PARTITION loaded FOR VALUES FROM (10) TO (20)",
        "attached with its rows",
    ),
}
PARTITIONED = ("dropped", "emptied", "reloaded", "cleared", "attached", "truncated")


def test_changes_that_the_log_does_not_have_are_noticed(db, postgres, source, monkeypatch):
    """They are not followed: the table stops, and says why, before it is silently something else than its source."""
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    postgres.run(
        "CREATE SCHEMA elsewhere; CREATE TYPE feelings AS ENUM ('sad', 'new'); CREATE TYPE moods AS ENUM ('sad')"
    )
    for name in (*CHANGES_THAT_THE_LOG_HIDES, "fine", "truncated"):
        kind = "feelings" if name == "moody" else "moods"
        parted = " PARTITION BY RANGE (id)" if name in PARTITIONED else ""
        postgres.run(f"CREATE TABLE {name} (id int, n int, m {kind}, PRIMARY KEY (id)){parted}")
        if parted:
            for number in (1, 2):
                bounds = f"FROM ({5 * number - 5}) TO ({5 * number})"
                postgres.run(f"CREATE TABLE {name}_{number} PARTITION OF {name} FOR VALUES {bounds}")
        postgres.run(f"INSERT INTO {name} VALUES (1, 1, 'sad'), (6, 6, 'sad')")
        db.sql(f"CREATE TABLE {name} (*) FROM pg TABLE '{name}'")
    postgres.run("ALTER TABLE whole REPLICA IDENTITY FULL")
    db.sql("WAIT")
    checked = follower(db)._database._partitions
    eventually(lambda: follower(db)._database._partitions is not checked)  # they have been looked at
    postgres.run("VACUUM FULL fine")
    postgres.run("ALTER TABLE fine ALTER n SET DEFAULT 7; ALTER TYPE moods ADD VALUE 'new'; TRUNCATE fine")
    postgres.run("ALTER TABLE fine ALTER n SET STATISTICS 10; INSERT INTO fine VALUES (2, 2, 'new')")
    for change, _ in CHANGES_THAT_THE_LOG_HIDES.values():
        for transaction in change.split(";;"):
            postgres.run(transaction)
    postgres.run("CREATE TABLE empty (LIKE truncated)")
    postgres.run("ALTER TABLE truncated ATTACH PARTITION empty FOR VALUES FROM (10) TO (20)")
    postgres.run("TRUNCATE truncated; INSERT INTO truncated VALUES (3, 3, 'new')")  # of that the log does say
    eventually(lambda: set(stopped(db)) >= set(CHANGES_THAT_THE_LOG_HIDES))
    for name, (_, said) in CHANGES_THAT_THE_LOG_HIDES.items():
        state, why = stopped(db)[name]
        assert state == "failed" and said in why, f"{name}: {why}"
    for name in ("fine", "truncated"):
        assert same(db, postgres, name) and name not in stopped(db)
    postgres.run("DROP SCHEMA elsewhere CASCADE")


def test_partitions_that_go_while_nobody_looks_are_missed_afterwards(db, postgres, source, monkeypatch):
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    for name in ("dropped", "emptied", "cleared", "fine", "truncated"):
        postgres.run(f"CREATE TABLE {name} (id int PRIMARY KEY) PARTITION BY RANGE (id)")
        postgres.run(f"CREATE TABLE {name}_1 PARTITION OF {name} FOR VALUES FROM (0) TO (5)")
        postgres.run(f"CREATE TABLE {name}_2 PARTITION OF {name} FOR VALUES FROM (5) TO (9)")
        postgres.run(f"INSERT INTO {name} VALUES (1), (6)")
        db.sql(f"CREATE TABLE {name} (*) FROM pg TABLE '{name}'; WAIT {name}")
    eventually(lambda: len(source_state(db.engine.committed, follower(db)._id).partitions) == 5)
    db.engine.sources.stop()
    postgres.run("DROP TABLE dropped_1; TRUNCATE emptied_1; CREATE TABLE fine_3 PARTITION OF fine DEFAULT")
    postgres.run("INSERT INTO emptied VALUES (2); ANALYZE emptied; INSERT INTO fine VALUES (2), (20)")
    postgres.run("TRUNCATE cleared_1; TRUNCATE cleared_2; TRUNCATE truncated; INSERT INTO truncated VALUES (3)")
    db.engine.sources.start()
    eventually(lambda: len(stopped(db)) >= 3)
    assert {name: state for name, (state, _) in stopped(db).items()} == dict.fromkeys(
        ("dropped", "emptied", "cleared"), "failed"
    )
    for name in ("fine", "truncated"):
        eventually(lambda name=name: same(db, postgres, name))
    # What the log has said by then is not asked again.
    postgres.run("TRUNCATE truncated; INSERT INTO truncated VALUES (4)")
    caught_up(db, postgres)
    db.engine.sources.stop()
    db.engine.sources.start()
    postgres.run("INSERT INTO truncated VALUES (5)")
    eventually(lambda: same(db, postgres, "truncated"))
    looked = follower(db)._database._partitions
    eventually(lambda: follower(db)._database._partitions is not looked)
    assert "truncated" not in stopped(db)


def test_columns_change_in_the_middle_of_a_snapshot(db, followed, monkeypatch):
    stories.columns_change_in_the_middle_of_a_snapshot(db, followed, monkeypatch)


def test_a_view_that_comes_while_the_table_is_read_anew(db, postgres, source):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, n int, o int); INSERT INTO t VALUES (1, 1, 1)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run("ALTER TABLE t DROP n, ALTER o TYPE bigint")
    db.sql("PAUSE; RESNAPSHOT TABLE t")
    db.sql("SET background_ddl = true; CREATE MATERIALIZED VIEW m AS SELECT id, n FROM t; RESUME; WAIT m")
    with pytest.raises(
        JobFailed, match='column "n" is gone or has another type, and is needed by materialized view "m"'
    ):
        db.sql("WAIT t")
    assert rows(db, "SELECT * FROM m") == [(1, 1)]
    db.sql("DROP MATERIALIZED VIEW m; CREATE VIEW v AS SELECT id, o FROM t")
    with pytest.raises(InvalidDefinition, match='needed by view "v"'):
        db.sql("RESNAPSHOT TABLE t")
    db.sql("DROP VIEW v; RESNAPSHOT TABLE t; WAIT t")
    assert columns(db, "t") == [("id", "integer"), ("o", "bigint")] and same(db, postgres)


def test_columns_that_change_while_nobody_looks(spark, warehouse, postgres, monkeypatch):
    """The engine is closed, or dies, before it knows what to do about them."""
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t SELECT g, g FROM generate_series(1, 9) g")
    with headrace.connect(warehouse, spark=spark) as db:
        create_source(db, postgres, **{"auto.schema.change": "true"})
        db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run(
        "UPDATE t SET n = 0 WHERE id = 1; ALTER TABLE t DROP n, ADD a int DEFAULT 1; INSERT INTO t VALUES (10, 5)"
    )
    with monkeypatch.context() as held:
        held.setattr(Follower, "_evolve", lambda self: None)
        db = headrace.connect(warehouse, spark=spark)
        eventually(lambda: "t" in stopped(db))
        db.engine.abandon()
    postgres.run("UPDATE t SET a = 6 WHERE id = 2")
    with headrace.connect(warehouse, spark=spark) as db:
        eventually(lambda: "a" in dict(columns(db, "t")))
        db.sql("WAIT t")
        assert columns(db, "t") == [("id", "integer"), ("a", "integer")] and same(db, postgres)
        db.sql("DROP SOURCE pg CASCADE")


def test_without_the_option_columns_that_come_are_left_out(db, postgres, source, monkeypatch):
    monkeypatch.setattr("headrace.engine.follower.IDLE_SECONDS", 0.2)
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 1)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run("ALTER TABLE t ADD more int DEFAULT 8; INSERT INTO t VALUES (2, 2, 2)")
    assert same(db, postgres) and columns(db, "t") == [("id", "integer"), ("n", "integer")]
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    assert same(db, postgres) and ("more", "integer") in columns(db, "t")
    postgres.run("ALTER TABLE t ALTER n TYPE bigint USING n * 2")  # the log does not say so
    eventually(lambda: "t" in stopped(db))
    assert 'column "n" of "public"."t" has another type now' in stopped(db)["t"][1]
    db.sql("RESNAPSHOT TABLE t; WAIT t")
    assert same(db, postgres) and ("n", "bigint") in columns(db, "t")
