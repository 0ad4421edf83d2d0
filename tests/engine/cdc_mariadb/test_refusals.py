"""What is checked before anything is made, and that passwords show up nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError, InvalidDefinition, InvalidParameterValue, UndefinedRelation, Unsupported
from tests.engine.cdc_mariadb.conftest import BOTH, KINDS, create_source, options, servers
from tests.support.mariadb import USER

SERVERS = BOTH


def test_what_cannot_be_followed_is_refused_by_name(db, mariadb, source):
    mariadb.run(
        "CREATE TABLE keyless (a INT)", "CREATE TABLE isam (a INT PRIMARY KEY) ENGINE = MyISAM",
        "CREATE VIEW seen AS SELECT 1 AS a",
        "CREATE TABLE part (a TEXT, PRIMARY KEY (a(10)))", "CREATE TABLE parent (a INT PRIMARY KEY)",
        "CREATE TABLE fine (a INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES parent (a))",
    )  # fmt: skip
    for statement, error, message in (
        ("CREATE TABLE t (*) FROM my TABLE 'keyless'", InvalidDefinition, "no primary key"),
        ("CREATE TABLE t (*) FROM my TABLE 'isam'", InvalidDefinition, "engine MyISAM"),
        ("CREATE TABLE t (*) FROM my TABLE 'seen'", InvalidDefinition, "not a table"),
        ("CREATE TABLE t (*) FROM my TABLE 'part'", Unsupported, "beginning of a column"),
        ("CREATE TABLE t (*) FROM my TABLE 'absent'", UndefinedRelation, '"shop.absent"'),
        ("CREATE TABLE t (*) FROM my TABLE 'FINE'", UndefinedRelation, '"shop.FINE"'),
        ("CREATE TABLE t (*) FROM my TABLE 'mysql.user'", HeadraceError, "mysql.user"),
        ("CREATE TABLE t (b INT) FROM my TABLE 'fine'", InvalidDefinition, '"a" is part of the primary key'),
        (f"CREATE SOURCE s WITH ({options(mariadb)}, password = 'clear')", InvalidParameterValue, "must be a secret"),
        (f"CREATE SOURCE s WITH ({options(mariadb)}, password = SECRET absent)", UndefinedRelation, "absent"),
        (f"CREATE SOURCE s WITH ({options(mariadb, port='1')}, password = SECRET pw)", HeadraceError, "cannot connect"),
        (f"CREATE SOURCE s WITH ({options(mariadb)}, odd = 'x', password = SECRET pw)", HeadraceError, "odd"),
        (
            f"CREATE SOURCE s WITH ({options(mariadb, **{'server.id': '1'})}, password = SECRET pw)",
            InvalidParameterValue, "that of the server itself",
        ),
        (
            f"CREATE SOURCE s WITH ({options(mariadb, **{'ssl.mode': 'verify_ca'})}, password = SECRET pw)",
            HeadraceError, "cannot connect",
        ),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            db.sql(statement)
    assert db.sql("SHOW TABLES").rows() == [] and len(db.sql("SHOW SOURCES").rows()) == 1


@servers("mariadb")
def test_what_only_mariadb_has_is_refused_by_name(db, mariadb, source):
    mariadb.run(
        "CREATE SEQUENCE numbers", "CREATE TABLE versioned (a INT PRIMARY KEY) WITH SYSTEM VERSIONING",
        "CREATE TABLE parent (a INT PRIMARY KEY)",
        "CREATE TABLE child (a INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (a) ON DELETE CASCADE)",
    )  # fmt: skip
    for name, error, message in (
        ("numbers", InvalidDefinition, "not a table"), ("versioned", Unsupported, "system-versioned"),
        ("child", Unsupported, "ON DELETE CASCADE"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            db.sql(f"CREATE TABLE t (*) FROM my TABLE '{name}'")


def test_a_password_that_is_wrong_is_not_printed(db, mariadb):
    db.sql("CREATE SECRET wrong AS 'not the p4ssword'")
    with pytest.raises(HeadraceError, match="Access denied") as caught:
        db.sql(f"CREATE SOURCE s WITH ({options(mariadb)}, password = SECRET wrong)")
    assert "p4ssword" not in str(caught.value) and db.sql("SHOW SOURCES").rows() == []


def test_rights_that_are_missing_are_named(db, mariadb):
    mariadb.run("CREATE USER weak@'%' IDENTIFIED BY 'weak'", "CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("CREATE SECRET weak AS 'weak'")
    create = f"CREATE SOURCE s WITH ({options(mariadb, username='weak')}, password = SECRET weak)"
    try:
        for right, grant in (
            ("may not see the binary log", f"GRANT {mariadb.rights.split(', ')[1]} ON *.* TO weak@'%'"),
            ("may not replicate", "GRANT REPLICATION SLAVE ON *.* TO weak@'%'"),
        ):
            with pytest.raises(HeadraceError, match=right):
                db.sql(create)
            mariadb.run(grant)
        db.sql(create)
        with pytest.raises(UndefinedRelation, match="may not see it"):
            db.sql("CREATE TABLE t (*) FROM s TABLE 't'")
        mariadb.run("GRANT INSERT ON shop.t TO weak@'%'")
        with pytest.raises(HeadraceError, match='"weak" may not read "shop.t"'):
            db.sql("CREATE TABLE t (*) FROM s TABLE 't'")
        mariadb.run("GRANT SELECT ON shop.t TO weak@'%'")
        db.sql("CREATE TABLE t (*) FROM s TABLE 't'; WAIT t")
        db.sql("DROP SOURCE s CASCADE")
    finally:
        mariadb.run("DROP USER weak@'%'")


def test_settings_of_the_log_that_do_not_do_are_refused(db, mariadb):
    minimal = "NO_LOG" if mariadb.name == "MariaDB" else "MINIMAL"
    settings = [
        ("binlog_format", "MIXED", "ROW"), ("binlog_row_image", "MINIMAL", "FULL"),
        ("binlog_row_metadata", minimal, "FULL"),
    ]  # fmt: skip
    if mariadb.name == "MySQL":
        settings += [("gtid_mode", "ON_PERMISSIVE", "ON"), ("binlog_row_value_options", "PARTIAL_JSON", "''")]
    for name, wrong, right in settings:
        mariadb.run(f"SET GLOBAL {name} = {wrong}")
        try:
            with pytest.raises(HeadraceError, match=f"{name} of {mariadb.name} at .* is {wrong}"):
                create_source(db, mariadb)
        finally:
            mariadb.run(f"SET GLOBAL {name} = {right}")
    assert db.sql("SHOW SOURCES").rows() == []


def test_a_server_without_a_log_or_of_which_a_part_is_not_logged_is_refused(db, mariadb):
    other = KINDS[mariadb.name.lower()](**{"skip-log-bin": "1"})
    try:
        with pytest.raises(HeadraceError, match="writes no binary log"):
            create_source(db, other)
        other.stop()
        other.start(**{"log-bin": "mysql-bin", "skip-log-bin": "0", "binlog-ignore-db": "shop"})
        other.run("CREATE TABLE t (id INT PRIMARY KEY)")
        create_source(db, other)
        with pytest.raises(HeadraceError, match='changes of "shop" are not in the binary log'):
            db.sql("CREATE TABLE t (*) FROM my TABLE 't'")
        db.sql("DROP SOURCE my")
        if other.name == "MySQL":
            other.stop()
            other.start(**{"skip-log-bin": "0", "log-replica-updates": "OFF"})
            other.run("CHANGE REPLICATION SOURCE TO source_host = '127.0.0.1', source_port = 1, source_user = 'u'")
        else:
            other.run("CHANGE MASTER TO master_host = '127.0.0.1', master_port = 1, master_user = 'u'")
            other.run("SET GLOBAL gtid_slave_pos = '7-7-7'")
        more = "SELECT ON shop.*" if other.name == "MySQL" else "SLAVE MONITOR ON *.*"
        for right in ("SELECT ON shop.*", more):
            other.run(f"GRANT {right} TO {USER}@'%'")
            with pytest.raises(HeadraceError, match="is a replica that does not log"):
                create_source(db, other)
        other.run("RESET REPLICA ALL" if other.name == "MySQL" else "RESET SLAVE ALL")
        create_source(db, other)
        db.sql("DROP SOURCE my")
    finally:
        other.remove()


def test_an_old_server_is_refused(db, mariadb, monkeypatch):
    for flavor in ("MariaDb", "Mysql"):
        monkeypatch.setattr(f"headrace.cdc.mysql.flavors.{flavor}.oldest", (99, 1))
    with pytest.raises(Unsupported, match=f"is {mariadb.name} [0-9.]+") as caught:
        create_source(db, mariadb)
    assert "99.1 or newer" in caught.value.hint and db.sql("SHOW SOURCES").rows() == []


def test_secrets_show_up_nowhere(db, mariadb, source, warehouse, caplog):
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM my TABLE 't'; WAIT t")
    shown = [str(db.sql(statement).rows()) for statement in ("SHOW CREATE SOURCE my", "SHOW JOBS", "SHOW SECRETS")]
    manifests = [path.read_text() for path in Path(warehouse, "manifest").iterdir()]
    assert all("s3cret" not in text for text in [*shown, caplog.text, *manifests])
    assert "s3cret" not in repr(db.engine.sources._followers)
