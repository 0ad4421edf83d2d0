"""Tables that follow a real MariaDB server: what they hold."""

from __future__ import annotations

import re

import pytest

from headrace.errors import DependentObjects, WrongObjectKind
from tests.engine.cdc_mariadb.conftest import BOTH, ROOT, caught_up, rows, theirs
from tests.engine.cdc_mariadb.keys import changes, fill
from tests.support.mariadb import PASSWORD

SERVERS = BOTH


def test_from_create_to_drop(db, mariadb, source):
    mariadb.run(
        """CREATE TABLE items (id BIGINT PRIMARY KEY, name VARCHAR(20), price DECIMAL(10, 2),
        twice INT AS (id * 2) VIRTUAL, half INT AS (id DIV 2) STORED)""",
        "INSERT INTO items (id, name, price) SELECT seq, CONCAT('n', seq), seq * 1.5 FROM seq_1_to_50",
    )
    made = db.sql("CREATE TABLE items (*) FROM my TABLE 'shop.items' WITH (backfill.num_rows_per_split = 7)")
    assert "twice" in made.notice and "half" not in made.notice
    db.sql("CREATE TABLE few (price NUMERIC(12, 4), id VARCHAR) FROM my TABLE 'items'")
    db.sql("CREATE MATERIALIZED VIEW dear AS SELECT id, price FROM items WHERE price > 60")
    db.sql("WAIT items; WAIT few; WAIT")
    every = "SELECT id, name, price, half FROM items"
    assert rows(db, "SELECT * FROM items") == theirs(mariadb, every)
    assert db.sql("SHOW JOBS").rows() == []
    reading = "SELECT count(*) FROM information_schema.processlist WHERE command LIKE 'Binlog Dump%'"
    assert mariadb.run(reading) == [(1,)]  # for both tables

    mariadb.run(
        "BEGIN", "UPDATE items SET name = NULL WHERE id < 5", "UPDATE items SET id = id + 1000 WHERE id IN (40, 41)",
        "DELETE FROM items WHERE id % 10 = 3",
        "INSERT INTO items (id, name, price) VALUES (-1, '', 0.01), (77, 'x', 99.99)",
        "SAVEPOINT a", "INSERT INTO items (id) VALUES (79)", "ROLLBACK TO a", "COMMIT",
        "BEGIN", "INSERT INTO items (id, name, price) VALUES (78, 'never', 0)", "ROLLBACK",
    )  # fmt: skip
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM items") == theirs(mariadb, every)
    assert rows(db, "SELECT * FROM few") == theirs(mariadb, "SELECT price, CAST(id AS CHAR) FROM items")
    assert rows(db, "SELECT * FROM dear") == theirs(mariadb, "SELECT id, price FROM items WHERE price > 60")
    assert db.sql("CHECK MATERIALIZED VIEW dear").rows()[0] is not None

    mariadb.run("INSERT INTO items (id) VALUES (500)", "TRUNCATE items", "INSERT INTO items (id, price) VALUES (7, 70)")
    caught_up(db, mariadb)
    assert rows(db, "SELECT id, price FROM items") == theirs(mariadb, "SELECT id, price FROM items")
    assert [id for id, _ in rows(db, "SELECT * FROM dear")] == [7]

    for statement in ("INSERT INTO items (id) VALUES (1)", "DELETE FROM items", "UPDATE items SET name = 'b'"):
        with pytest.raises(WrongObjectKind, match='table "items"'):
            db.sql(statement)
    with pytest.raises(DependentObjects):
        db.sql("DROP SOURCE my")
    db.sql("DROP TABLE few; DROP TABLE items CASCADE; DROP SOURCE my; DROP SECRET pw")


def test_a_temporary_table_of_the_same_name_is_another(db, mariadb, source):
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    mariadb.run(
        "CREATE TEMPORARY TABLE t (x INT)", "INSERT INTO t VALUES (1)",
        "ALTER TABLE t DROP COLUMN x, ADD COLUMN id INT", "TRUNCATE t", "DROP TABLE t", "INSERT INTO t VALUES (2)",
    )  # fmt: skip
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == [(1,), (2,)]


FEW = ("BIGINT UNSIGNED", "CHAR(9) CHARACTER SET latin1 COLLATE latin1_german2_ci", "BINARY(4)", "TIME(2)", "UUID")


def test_keys_that_only_the_database_can_order(db, mariadb, source):
    """All kinds of keys, in splits of one row, are in test_merge.py."""
    few = FEW if mariadb.name == "MariaDB" else FEW[:-1]
    for number, kind in enumerate(few):
        fill(mariadb, f"k{number}", kind)
        columns = "k VARCHAR, n INT, v INT" if kind.startswith("TIME(") else "*"
        wanted = "backfill.num_rows_per_split = 2, backfill.parallelism = 2"
        db.sql(f"CREATE TABLE k{number} ({columns}) FROM my TABLE 'k{number}' WITH ({wanted})")
    for number, kind in enumerate(few):
        mariadb.run(*changes(f"k{number}", kind))
    db.sql("WAIT")
    caught_up(db, mariadb)
    for number, kind in enumerate(few):
        assert rows(db, f"SELECT n, v FROM k{number}") == theirs(mariadb, f"SELECT n, v FROM k{number}"), kind


def test_keys_that_are_equal_under_a_collation_are_one_key(db, mariadb, source):
    mariadb.run(
        "CREATE TABLE t (k VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY, v INT)",
        "INSERT INTO t VALUES ('a', 1), ('b', 2), ('c', 3), ('d ', 4)",
    )
    db.sql("CREATE TABLE t (*) FROM my TABLE 't' WITH (backfill.num_rows_per_split = 1); WAIT t")
    mariadb.run(
        "UPDATE t SET k = 'A' WHERE k = 'a'", "UPDATE t SET v = 20 WHERE k = 'B'", "DELETE FROM t WHERE k = 'C'",
        "REPLACE INTO t VALUES ('D', 40)", "INSERT INTO t VALUES ('B', 5) ON DUPLICATE KEY UPDATE k = 'B', v = 21",
    )  # fmt: skip
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM t") == theirs(mariadb, "SELECT * FROM t") == [("A", 1), ("B", 21), ("D", 40)]


def test_zero_and_minus_zero_are_one_key(db, mariadb, source):
    mariadb.run("CREATE TABLE t (k DOUBLE PRIMARY KEY, v INT)", "INSERT INTO t VALUES (0, 1), (1, 1)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    mariadb.run("UPDATE t SET k = -0e0, v = 2 WHERE k = 0")
    caught_up(db, mariadb)
    assert rows(db, "SELECT v FROM t") == [(1,), (2,)]
    mariadb.run("DELETE FROM t WHERE k = 0")
    caught_up(db, mariadb)
    assert rows(db, "SELECT v FROM t") == [(1,)]


def test_odd_names(db, mariadb, source):
    mariadb.run(
        """CREATE TABLE `Odd ``T."able` (`Id` INT PRIMARY KEY, `select` INT, `ä €` INT)""",
        """CREATE TABLE `odd ``t."able` (`Id` INT PRIMARY KEY)""",
        """INSERT INTO `Odd ``T."able` VALUES (1, 2, 3)""",
    )
    db.sql("""CREATE TABLE odd (*) FROM my TABLE 'shop."Odd `T.""able"'; WAIT odd""")
    mariadb.run("""INSERT INTO `Odd ``T."able` VALUES (4, 5, 6)""", """INSERT INTO `odd ``t."able` VALUES (9)""")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM odd") == [(1, 2, 3), (4, 5, 6)]


def test_a_partitioned_table_is_one_table(db, mariadb, source):
    mariadb.run(
        """CREATE TABLE p (id INT, v INT, PRIMARY KEY (id)) PARTITION BY RANGE (id)
        (PARTITION a VALUES LESS THAN (10), PARTITION b VALUES LESS THAN MAXVALUE)""",
        "INSERT INTO p SELECT seq, seq FROM seq_1_to_20",
    )
    db.sql("CREATE TABLE p (*) FROM my TABLE 'p' WITH (backfill.num_rows_per_split = 4)")
    mariadb.run("UPDATE p SET id = 25 WHERE id = 2", "DELETE FROM p WHERE id = 15")
    db.sql("WAIT p")
    mariadb.run("UPDATE p SET id = 2 WHERE id = 25", "INSERT INTO p VALUES (30, 0)")
    caught_up(db, mariadb)
    assert rows(db, "SELECT * FROM p") == theirs(mariadb, "SELECT * FROM p")


def test_the_guide(db, mariadb):
    """docs/mysql.md, against this server."""
    (text,) = re.findall(
        r"^```sql\n(.*?)^```$", (ROOT / "docs" / "mysql.md").read_text(), flags=re.MULTILINE | re.DOTALL
    )
    text = text.replace("localhost", "127.0.0.1").replace("3306", str(mariadb.port))
    text = text.replace("the password", PASSWORD.replace("'", "''"))
    mariadb.run(
        "CREATE TABLE orders (id INT PRIMARY KEY, amount INT)", "INSERT INTO orders VALUES (1, 999), (2, 1001)",
        "CREATE TABLE items (qty INT, id BIGINT PRIMARY KEY, note TEXT)", "INSERT INTO items VALUES (5, 7, 'x')",
    )  # fmt: skip
    assert db.sql(text).rows() == [(2,)]
    db.job("items").wait(60)
    db.sql("WAIT")
    assert db.sql("SELECT * FROM large").rows() == [(2, 1001)] and db.sql("SELECT * FROM items").rows() == [(7, 5)]
