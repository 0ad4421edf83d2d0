"""What cannot be followed is refused by CREATE, before anything is made."""

from __future__ import annotations

from pathlib import Path

import psycopg2.extras
import pytest

from headrace.errors import HeadraceError, InvalidDefinition, InvalidParameterValue, UndefinedRelation, Unsupported
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, create_source, options
from tests.support.postgres import Postgres

pytestmark = NEEDS_POSTGRES


def test_what_cannot_be_followed_is_refused_by_name(db, postgres, source, tmp_path):
    postgres.run(
        """CREATE TABLE keyless (a int); CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY);
        CREATE TYPE pair AS (x int, y int);
        CREATE TABLE times (a int PRIMARY KEY, at pair, gen int GENERATED ALWAYS AS (1) STORED);
        CREATE TABLE nothing (a int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING;
        CREATE TABLE indexed (a int PRIMARY KEY, b int NOT NULL UNIQUE);
        ALTER TABLE indexed REPLICA IDENTITY USING INDEX indexed_b_key; CREATE VIEW seen AS SELECT 1 AS a;
        CREATE TABLE parent (a int PRIMARY KEY); CREATE TABLE child () INHERITS (parent)"""
    )
    for statement, error, message in (
        ("CREATE TABLE t (*) FROM pg TABLE 'keyless'", InvalidDefinition, "no primary key"),
        ("CREATE TABLE t (*) FROM pg TABLE 'unlogged'", InvalidDefinition, "unlogged"),
        ("CREATE TABLE t (*) FROM pg TABLE 'nothing'", InvalidDefinition, "REPLICA IDENTITY"),
        ("CREATE TABLE t (*) FROM pg TABLE 'indexed'", InvalidDefinition, "REPLICA IDENTITY"),
        ("CREATE TABLE t (*) FROM pg TABLE 'parent'", InvalidDefinition, "other tables inherit"),
        ("CREATE TABLE t (*) FROM pg TABLE 'seen'", InvalidDefinition, "not a table"),
        ("CREATE TABLE t (*) FROM pg TABLE 'absent'", UndefinedRelation, '"public.absent"'),
        ("CREATE TABLE t (*) FROM pg TABLE 'times'", Unsupported, 'column "at" is of type public.pair'),
        ("CREATE TABLE t (a INT, gen INT) FROM pg TABLE 'times'", InvalidDefinition, '"gen" is generated'),
        ("CREATE TABLE t (at VARCHAR) FROM pg TABLE 'times'", InvalidDefinition, '"a" is part of the primary key'),
        ("CREATE TABLE t (a DATE) FROM pg TABLE 'times'", InvalidDefinition, "cannot be had as date"),
        ("CREATE TABLE t (*) FROM pg TABLE 'times' WITH (snapshot = 'no')", InvalidParameterValue, '"snapshot" cannot'),
        ("CREATE TABLE t (*) FROM pg TABLE 'times' WITH (snapshot.batch_size = 0)", InvalidParameterValue, "from 1 to"),
        (
            "CREATE TABLE t (*) FROM pg TABLE 'times' WITH (scan.startup.mode = 'initial')",
            InvalidParameterValue,
            "scan.startup.mode cannot be 'initial'",
        ),
        (
            "CREATE TABLE t (*) FROM pg TABLE 'times' WITH (snapshot = 'true', scan.startup.mode = 'latest')",
            InvalidParameterValue,
            "exclude each other",
        ),
        (
            f"CREATE SOURCE s WITH ({options(postgres)}, scan.startup.mode = 'x', password = SECRET pw)",
            InvalidParameterValue,
            "scan.startup.mode cannot be 'x'",
        ),
        (
            f"CREATE SOURCE s WITH ({options(postgres)}, ssl.key = '/nowhere', password = SECRET pw)",
            InvalidParameterValue,
            "ssl.cert and ssl.key",
        ),
        (
            f"CREATE SOURCE s WITH ({options(postgres, **{'ssl.mode': 'verify'})}, password = SECRET pw)",
            InvalidParameterValue,
            "ssl.mode cannot be 'verify'",
        ),
        ("CREATE TABLE t (*) FROM nowhere TABLE 'times'", UndefinedRelation, "nowhere"),
        (f"CREATE SOURCE s WITH ({options(postgres)}, password = 'clear')", InvalidParameterValue, "must be a secret"),
        (f"CREATE SOURCE s WITH ({options(postgres)}, password = SECRET absent)", UndefinedRelation, "absent"),
        (
            f"CREATE SOURCE s WITH ({options(postgres, port='1')}, password = SECRET pw)",
            HeadraceError,
            "cannot connect",
        ),
        (f"CREATE SOURCE s WITH ({options(postgres)}, odd = '1', password = SECRET pw)", InvalidParameterValue, "odd"),
    ):
        with pytest.raises(error, match=message):
            db.sql(statement)
    db.sql("CREATE SECRET wrong AS 'not the p4ssword'")
    with pytest.raises(HeadraceError, match="authentication failed") as caught:
        db.sql(f"CREATE SOURCE s WITH ({options(postgres)}, password = SECRET wrong)")
    assert "p4ssword" not in str(caught.value)
    db.sql("DROP SECRET wrong")
    postgres.run("CREATE ROLE weak LOGIN PASSWORD 'weak'; GRANT SELECT ON times TO weak")
    db.sql("CREATE SECRET weak AS 'weak'")
    with pytest.raises(HeadraceError, match='"weak" may not replicate'):
        db.sql(f"CREATE SOURCE s WITH ({options(postgres, username='weak')}, password = SECRET weak)")
    postgres.run("ALTER ROLE weak REPLICATION")
    with pytest.raises(HeadraceError, match='"weak" may not create a publication'):
        db.sql(f"CREATE SOURCE s WITH ({options(postgres, username='weak')}, password = SECRET weak)")
    postgres.run("DROP OWNED BY weak; DROP ROLE weak")
    assert len(postgres.run("SELECT 1 FROM pg_replication_slots")) == 1
    assert len(postgres.run("SELECT 1 FROM pg_publication")) == 1
    assert db.sql("SHOW SECRETS").rows() == [("pw",), ("weak",)]


def test_secrets_show_up_nowhere(db, postgres, source, warehouse, caplog):
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    shown = [str(db.sql(statement).rows()) for statement in ("SHOW CREATE SOURCE pg", "SHOW JOBS", "SHOW SECRETS")]
    with pytest.raises(HeadraceError) as caught:
        db.sql("CREATE SECRET pw AS 'an0ther'")
    shown += [str(caught.value), caplog.text]
    manifests = [path.read_text() for path in Path(warehouse, "manifest").iterdir()]
    assert all("s3cret" not in text and "an0ther" not in text for text in [*shown, *manifests])
    folder = Path(warehouse, "secrets")
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_server_without_a_logical_log_is_refused(db, postgres):
    other = Postgres(wal_level="replica", max_wal_senders="0")
    try:
        with pytest.raises(HeadraceError, match="wal_level of PostgreSQL at .* is replica"):
            create_source(db, other)
        other.stop()
        other.set(wal_level="logical", max_wal_senders="1", max_replication_slots="1")
        other.start()
        other.run("SELECT pg_create_physical_replication_slot('taken')")
        with pytest.raises(HeadraceError, match="all 1 replication slots of PostgreSQL at .* are in use"):
            create_source(db, other)
        other.stop()
        other.set(max_replication_slots="2")
        other.start()
        reader = other.connect(connection_factory=psycopg2.extras.PhysicalReplicationConnection)
        reader.cursor().start_replication(slot_name="taken")
        with pytest.raises(HeadraceError, match="all 1 walsenders of PostgreSQL at .* are in use"):
            create_source(db, other)
        reader.close()
        assert db.sql("SHOW SOURCES").rows() == []
    finally:
        other.remove()
