"""Temporary tables that a crash left behind."""

from __future__ import annotations


def test_temporary_tables_do_not_outlive_the_engine(open_database):
    db = open_database()
    session = db.session()
    session.sql("CREATE TABLE t (id INT PRIMARY KEY)")
    session.sql("INSERT INTO t VALUES (1)")
    session.sql("CREATE TEMP TABLE t AS SELECT 2 AS id")
    assert session.sql("SELECT id FROM t").rows() == [(2,)]
    assert db.sql("SELECT id FROM t").rows() == [(1,)]
    assert db.sql("SHOW TABLES").rows() == [("t",)]
    assert [each["name"] for each in db.status()["relations"]] == ["t"]
    db.engine.abandon()
    db = open_database()
    assert [each.name for each in db.engine.committed.catalog] == ["t"]
    assert sorted(db.engine.committed.runs) == [each.id for each in db.engine.committed.catalog]
    assert db.session().sql("SELECT id FROM t").rows() == [(1,)]
