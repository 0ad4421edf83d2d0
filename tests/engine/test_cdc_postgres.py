"""Tables that follow a real PostgreSQL server."""

from __future__ import annotations

import datetime
import itertools
import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

import headrace
from headrace.cdc.postgres import stream
from headrace.cdc.postgres.server import parse_lsn
from headrace.engine import splits
from headrace.errors import (
    DependentObjects,
    HeadraceError,
    InvalidDefinition,
    InvalidParameterValue,
    JobFailed,
    UndefinedRelation,
    Unsupported,
    WrongObjectKind,
)
from tests.engine.conftest import eventually
from tests.support.postgres import PASSWORD, Postgres, binaries

pytestmark = [
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL's server is not installed"),
    pytest.mark.xdist_group("postgres"),
]

ROOT = Path(__file__).parents[2]
_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    postgres = Postgres()
    yield postgres
    postgres.remove()


@pytest.fixture
def postgres(server) -> Iterator[Postgres]:
    """The server, with an empty schema "public"."""
    yield server
    server.run("ALTER SYSTEM RESET ALL")
    server.run("SELECT pg_reload_conf()")
    server.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    for (name,) in server.run("SELECT pubname FROM pg_publication"):
        server.run(f'DROP PUBLICATION "{name}"')
    server.run("SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active_pid IS NOT NULL")
    for (name,) in server.run("SELECT slot_name FROM pg_replication_slots"):
        eventually(lambda slot=name: not _active(server, slot))
        server.run(f"SELECT pg_drop_replication_slot('{name}')")


@pytest.fixture
def db(postgres, spark, warehouse) -> Iterator:
    """Closed before the server is cleaned up."""
    with headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"}) as database:
        yield database


def _active(postgres: Postgres, slot: str) -> bool:
    return postgres.run(f"SELECT active FROM pg_replication_slots WHERE slot_name = '{slot}'")[0][0]


def options(postgres: Postgres, **changed: str) -> str:
    found = {
        "connector": "postgres-cdc", "hostname": "127.0.0.1", "port": str(postgres.port), "username": postgres.owner,
        "database.name": "postgres",
    } | changed  # fmt: skip
    return ", ".join(f"{name} = '{value}'" for name, value in found.items())


def create_source(db, postgres: Postgres, **changed: str) -> None:
    db.sql("CREATE SECRET IF NOT EXISTS pw AS '" + PASSWORD.replace("'", "''") + "'")
    db.sql(f"CREATE SOURCE pg WITH ({options(postgres, **changed)}, password = SECRET pw)")


@pytest.fixture
def source(db, postgres) -> None:
    create_source(db, postgres)


def test_the_guide(db, postgres):
    """docs/cdc.md, against this server."""
    (text,) = re.findall(r"^```sql\n(.*?)^```$", (ROOT / "docs" / "cdc.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    text = text.replace("localhost", "127.0.0.1").replace("5432", str(postgres.port))
    text = text.replace("'headrace'", f"'{postgres.owner}'").replace("the password", PASSWORD.replace("'", "''"))
    text = text.replace("database.name = 'shop'", "database.name = 'postgres'")
    postgres.run("CREATE TABLE orders (id int PRIMARY KEY, amount int); INSERT INTO orders VALUES (1, 999), (2, 1001)")
    postgres.run("CREATE TABLE items (qty int, id bigint PRIMARY KEY, note text); INSERT INTO items VALUES (5, 7, 'x')")
    assert db.sql(text).rows() == [(2,)]
    db.job("items").wait(60)
    db.sql("WAIT")
    assert db.sql("SELECT * FROM large").rows() == [(2, 1001)] and db.sql("SELECT * FROM items").rows() == [(7, 5)]


def follower(db):
    (found,) = db.engine.sources._followers.values()
    return found


def caught_up(db, postgres: Postgres) -> None:
    """Waits until all that the server has committed is committed here."""
    lsn, block = postgres.run("SELECT pg_current_wal_insert_lsn()::text, current_setting('wal_block_size')::int")[0]
    wanted = splits.before_header(parse_lsn(lsn), block)
    following = follower(db)

    def reached() -> bool:
        following._stream.nudge()
        return following._stream.position >= wanted

    eventually(reached)


def rows(db, query: str) -> list[tuple]:
    return sorted((tuple(row) for row in db.sql(query).rows()), key=repr)


def theirs(postgres: Postgres, query: str) -> list[tuple]:
    return sorted(postgres.run(query), key=repr)


def test_from_create_to_drop(db, postgres, source):
    postgres.run(
        """CREATE TABLE items (id bigint PRIMARY KEY, name text, price numeric(10, 2),
        twice int GENERATED ALWAYS AS (2) STORED)"""
    )
    postgres.run("INSERT INTO items SELECT g, 'n' || g, g * 1.5 FROM generate_series(1, 50) g")
    made = db.sql("CREATE TABLE items (*) FROM pg TABLE 'public.items' WITH (backfill.num_rows_per_split = 7)")
    assert "twice" in made.notice
    db.sql("CREATE TABLE few (price NUMERIC(12, 4), id VARCHAR) FROM pg TABLE 'items'")
    db.sql("CREATE MATERIALIZED VIEW dear AS SELECT id, price FROM items WHERE price > 60")
    db.sql("WAIT items; WAIT few; WAIT")
    assert rows(db, "SELECT * FROM items") == theirs(postgres, "SELECT id, name, price FROM items")
    assert db.sql("SHOW JOBS").rows() == []

    postgres.run(
        """BEGIN; UPDATE items SET name = NULL WHERE id < 5; UPDATE items SET id = id + 1000 WHERE id IN (40, 41);
        DELETE FROM items WHERE id % 10 = 3; INSERT INTO items VALUES (-1, '', 0.01), (77, 'x', 99.99); COMMIT;
        BEGIN; INSERT INTO items VALUES (78, 'never', 0); ROLLBACK"""
    )
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM items") == theirs(postgres, "SELECT id, name, price FROM items")
    assert rows(db, "SELECT * FROM few") == theirs(postgres, "SELECT price, id::text FROM items")
    assert rows(db, "SELECT * FROM dear") == theirs(postgres, "SELECT id, price FROM items WHERE price > 60")
    assert db.sql("CHECK MATERIALIZED VIEW dear").rows()[0] is not None

    postgres.run(
        "BEGIN; INSERT INTO items VALUES (500, '-', 1); TRUNCATE items; INSERT INTO items VALUES (7, 'z', 70); COMMIT"
    )
    caught_up(db, postgres)
    assert rows(db, "SELECT id, name FROM items") == [(7, "z")]
    assert [id for id, _ in rows(db, "SELECT * FROM dear")] == [7]

    for statement in ("INSERT INTO items VALUES (1, 'a', 1)", "DELETE FROM items", "UPDATE items SET name = 'b'"):
        with pytest.raises(WrongObjectKind, match='table "items"'):
            db.sql(statement)
    with pytest.raises(DependentObjects):
        db.sql("DROP SOURCE pg")
    with pytest.raises(DependentObjects, match='source "pg" uses it'):
        db.sql("DROP SECRET pw")
    db.sql("DROP TABLE few")
    assert len(postgres.run("SELECT * FROM pg_publication_tables")) == 1
    db.sql("DROP TABLE items CASCADE")
    assert postgres.run("SELECT * FROM pg_publication_tables") == []
    db.sql("DROP SOURCE pg; DROP SECRET pw")
    assert (
        postgres.run("SELECT slot_name FROM pg_replication_slots") == postgres.run("SELECT 1 FROM pg_publication") == []
    )


TYPES = """
CREATE TYPE mood AS ENUM ('sad', 'Happy'); CREATE DOMAIN positive AS numeric(6, 2) CHECK (VALUE > 0);
CREATE TABLE "Odd ""T.able" (
  "Id" int PRIMARY KEY, b bool, i2 int2, i8 int8, f4 float4, f8 float8, n numeric, p positive, t text, c char(5),
  y bytea, d date, ts timestamp, tz timestamptz, u uuid, j json, jb jsonb, m mood, ip inet, bits bit(3), "select" text
)
"""
VALUES = r"""
(1 + {base}, true, -32768, 9223372036854775807, 'NaN', '-Infinity', 0.0000000001, 9999.99, E'a"b,\n\\.\t''é𝄞', 'ab', '\x00ff5c',
 '0001-01-01', '9999-12-31 23:59:59.999999', '2024-03-10 02:30:00+01', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11',
 '{{"b": 1,  "a":[ 2]}}', '{{"b": 1,  "a":[ 2]}}', 'Happy', '10.0.0.1', B'101', 'NULL'),
(2 + {base}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(3 + {base}, false, 0, 0, '-0', 1e-300, 12345678901234567890, 0.01, '', '', '', '1970-01-01', '2000-01-01', 'epoch',
 '00000000-0000-0000-0000-000000000000', '1', '"x"', 'sad', '::1/64', B'000', '\N')
"""  # noqa: E501


def test_values_are_the_same_from_the_snapshot_and_from_the_log(db, postgres, source):
    postgres.run(TYPES)
    postgres.run('INSERT INTO "Odd ""T.able" VALUES ' + VALUES.format(base=0))
    db.sql("""CREATE TABLE odd (*) FROM pg TABLE 'public."Odd ""T.able"'; WAIT odd""")
    postgres.run('INSERT INTO "Odd ""T.able" VALUES ' + VALUES.format(base=10))
    caught_up(db, postgres)
    found = sorted(db.sql('SELECT * FROM odd ORDER BY "Id"').rows())
    snapshot, log = [row[1:] for row in found[:3]], [row[1:] for row in found[3:]]
    assert [row[0] for row in found] == [1, 2, 3, 11, 12, 13]
    assert repr(snapshot) == repr(log)
    first = dict(zip(db.sql("SELECT * FROM odd").columns, found[0], strict=True))
    assert first["t"] == "a\"b,\n\\.\t'é𝄞" and first["c"] == "ab   " and first["y"] == b"\x00\xff\\"
    assert (first["ip"], first["bits"], first["m"], first["jb"]) == ("10.0.0.1", "101", "Happy", '{"a": [2], "b": 1}')
    assert found[2][-1] == "\\N" and found[0][-1] == "NULL" and found[1][-1] is None and found[2][8] == ""


def test_what_cannot_be_followed_is_refused_by_name(db, postgres, source, tmp_path):
    postgres.run(
        """CREATE TABLE keyless (a int); CREATE UNLOGGED TABLE unlogged (a int PRIMARY KEY);
        CREATE TABLE times (a int PRIMARY KEY, at time, gen int GENERATED ALWAYS AS (1) STORED);
        CREATE TABLE nothing (a int PRIMARY KEY); ALTER TABLE nothing REPLICA IDENTITY NOTHING;
        CREATE VIEW seen AS SELECT 1 AS a"""
    )
    for statement, error, message in (
        ("CREATE TABLE t (*) FROM pg TABLE 'keyless'", InvalidDefinition, "no primary key"),
        ("CREATE TABLE t (*) FROM pg TABLE 'unlogged'", InvalidDefinition, "unlogged"),
        ("CREATE TABLE t (*) FROM pg TABLE 'nothing'", InvalidDefinition, "REPLICA IDENTITY"),
        ("CREATE TABLE t (*) FROM pg TABLE 'seen'", InvalidDefinition, "not a table"),
        ("CREATE TABLE t (*) FROM pg TABLE 'absent'", UndefinedRelation, '"public.absent"'),
        ("CREATE TABLE t (*) FROM pg TABLE 'times'", Unsupported, 'column "at" is of type time'),
        ("CREATE TABLE t (a INT, gen INT) FROM pg TABLE 'times'", InvalidDefinition, '"gen" is generated'),
        ("CREATE TABLE t (at VARCHAR) FROM pg TABLE 'times'", InvalidDefinition, '"a" is part of the primary key'),
        ("CREATE TABLE t (a DATE) FROM pg TABLE 'times'", InvalidDefinition, "cannot be had as date"),
        ("CREATE TABLE t (*) FROM pg TABLE 'times' WITH (snapshot = 'false')", InvalidParameterValue, "snapshot"),
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


def test_a_commit_that_is_logged_and_not_visible_is_not_lost(db, postgres, source):
    """The log has it, no SELECT sees it: for as long as a standby does not answer."""
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'old' FROM generate_series(1, 20) g"
    )
    postgres.run("CREATE TABLE other (id int PRIMARY KEY)")
    db.sql("CREATE TABLE other (*) FROM pg TABLE 'other'; WAIT other")
    postgres.run("ALTER SYSTEM SET synchronous_standby_names = 'nonexistent'")
    postgres.run("SELECT pg_reload_conf()")
    eventually(lambda: postgres.run("SHOW synchronous_standby_names")[0][0] == "nonexistent")
    held = postgres.connect()
    change = "UPDATE t SET v = 'new' WHERE id = 5; DELETE FROM t WHERE id = 6; INSERT INTO t VALUES (21, 'new')"
    change = f"SET synchronous_commit = on; BEGIN; {change}; COMMIT"
    writer = threading.Thread(target=lambda: held.cursor().execute(change), daemon=True)
    writer.start()
    eventually(lambda: postgres.run("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
    assert postgres.run("SELECT v FROM t WHERE id = 5") == [("old",)]
    made = threading.Thread(
        target=lambda: db.session().sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 3)"),
        daemon=True,
    )
    made.start()
    eventually(lambda: db.engine.committed.catalog.find("t") is not None)
    # It waits, because a transaction runs that may have written to the table before it was published.
    eventually(lambda: follower(db).waits_for_others(db.engine.committed.catalog.find("t").id))
    assert rows(db, "SELECT * FROM t") == []
    postgres.run("ALTER SYSTEM RESET synchronous_standby_names")
    postgres.run("SELECT pg_reload_conf()")
    writer.join(60)
    held.close()
    made.join(60)
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


def test_a_commit_that_is_held_while_chunks_are_read(db, postgres, source, monkeypatch):
    """The same race in the middle of a snapshot: what was logged is taken only when everybody can see it."""
    postgres.run(
        "CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t SELECT g, 'old' FROM generate_series(1, 40) g"
    )
    gate, reached = threading.Event(), threading.Event()
    read = splits.read_chunk

    def slow(*arguments):
        staged = read(*arguments)
        reached.set()
        assert gate.wait(60)
        return staged

    monkeypatch.setattr("headrace.engine.follower.read_chunk", slow)
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 5, backfill.parallelism = 2)")
    assert reached.wait(60)
    postgres.run("ALTER SYSTEM SET synchronous_standby_names = 'nonexistent'")
    postgres.run("SELECT pg_reload_conf()")
    eventually(lambda: postgres.run("SHOW synchronous_standby_names")[0][0] == "nonexistent")
    held = postgres.connect()
    change = "UPDATE t SET v = 'new' WHERE id IN (5, 25); DELETE FROM t WHERE id IN (6, 26)"
    change = f"SET synchronous_commit = on; BEGIN; {change}; COMMIT"
    writer = threading.Thread(target=lambda: held.cursor().execute(change), daemon=True)
    writer.start()
    eventually(lambda: postgres.run("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'"))
    eventually(lambda: follower(db)._stream.peek(1))
    gate.set()
    eventually(lambda: rows(db, "SELECT v FROM t"))  # the chunk that was read lands all the same
    assert follower(db)._stream.peek(1), "a transaction that nobody can see was taken"
    assert ("new",) not in rows(db, "SELECT v FROM t")
    postgres.run("ALTER SYSTEM RESET synchronous_standby_names")
    postgres.run("SELECT pg_reload_conf()")
    writer.join(60)
    held.close()
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


def test_a_transaction_that_wrote_before_the_table_was_published(db, postgres, source):
    """Its changes are only partly in the log; so the snapshot waits for it."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text); INSERT INTO t VALUES (1, 'a')")
    writer = postgres.connect()
    writer.autocommit = False
    cursor = writer.cursor()
    cursor.execute("INSERT INTO t VALUES (2, 'early'); UPDATE t SET v = 'b' WHERE id = 1")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'")
    id = db.engine.committed.catalog.find("t").id
    eventually(lambda: follower(db).waits_for_others(id))
    assert [row[2] for row in db.sql("SHOW JOBS").rows()] == ["waiting"]
    cursor.execute("INSERT INTO t VALUES (3, 'late')")
    writer.commit()
    writer.close()
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == [(1, "b"), (2, "early"), (3, "late")]


def test_large_values_that_an_update_leaves_alone(db, postgres, source):
    postgres.run(
        """CREATE TABLE t (id int PRIMARY KEY, v int, large text); ALTER TABLE t ALTER large SET STORAGE EXTERNAL;
        CREATE TABLE f (LIKE t INCLUDING ALL); ALTER TABLE f REPLICA IDENTITY FULL;
        INSERT INTO t SELECT g, 0, repeat(g::text, 5000) FROM generate_series(1, 6) g; INSERT INTO f SELECT * FROM t"""
    )
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; CREATE TABLE f (*) FROM pg TABLE 'f'; WAIT t; WAIT f")
    postgres.run("UPDATE t SET v = 1 WHERE id = 1")
    for table in ("t", "f"):
        postgres.run(
            f"""BEGIN; UPDATE {table} SET v = 2 WHERE id < 4; UPDATE {table} SET id = 12, v = 3 WHERE id = 2;
            UPDATE {table} SET v = 4 WHERE id = 12; DELETE FROM {table} WHERE id = 3;
            UPDATE {table} SET large = NULL WHERE id = 4; UPDATE {table} SET v = 9 WHERE id = 4; COMMIT"""
        )
    caught_up(db, postgres)
    for table in ("t", "f"):
        assert rows(db, f"SELECT * FROM {table}") == theirs(postgres, f"SELECT * FROM {table}")


def stopped(db) -> dict[str, tuple[str, str]]:
    return {row[1].split()[2]: (row[2], row[8]) for row in db.sql("SHOW JOBS").rows()}


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


KEYS = {
    "uuid": "gen_random_uuid()",
    "numeric": "(random() * 1000)::numeric(20, 6)",
    "timestamptz": "now() + random() * interval '9 days'",
    "bytea": "decode(md5(random()::text), 'hex')",
    "char(7)": "left(md5(random()::text), 1 + (random() * 6)::int)",
    "float8": "CASE WHEN g = 1 THEN 'NaN' WHEN g = 2 THEN '-Infinity' ELSE random() - 0.5 END",
    'text COLLATE "und-x-icu"': r"""E'\u00e4\\,"' || left(md5(random()::text), 3)""",
}


def test_keys_of_any_type_in_splits_of_one_row(db, postgres, source):
    for number, (kind, value) in enumerate(KEYS.items()):
        postgres.run(f"CREATE TABLE k{number} (k {kind}, v int, PRIMARY KEY (k))")
        postgres.run(f"INSERT INTO k{number} SELECT {value}, g FROM generate_series(1, 9) g ON CONFLICT DO NOTHING")
        wanted = "backfill.num_rows_per_split = 1, backfill.parallelism = 3"
        db.sql(f"CREATE TABLE k{number} (*) FROM pg TABLE 'k{number}' WITH ({wanted})")
    for number, value in enumerate(KEYS.values()):
        postgres.run(f"UPDATE k{number} SET v = v + 100 WHERE v % 3 = 0; DELETE FROM k{number} WHERE v = 2")
        postgres.run(f"UPDATE k{number} SET k = (SELECT {value} FROM (SELECT 9 AS g) AS x) WHERE v = 5")
    db.sql("WAIT")
    caught_up(db, postgres)
    for number, kind in enumerate(KEYS):
        shown = {"bytea": "encode(k, 'hex')", "uuid": "k::text", "timestamptz": "extract(epoch FROM k)"}.get(kind, "k")
        wanted = {(_plain(k), v) for k, v in postgres.run(f"SELECT {shown}, v FROM k{number}")}
        found = [(_plain(k), v) for k, v in rows(db, f"SELECT k, v FROM k{number}")]
        assert set(found) == wanted and len(found) == len(wanted), kind


def _plain(value):
    """The same for both sides; NaN equals itself."""
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, datetime.datetime):
        return Decimal(repr(value.timestamp())).quantize(Decimal("1E-6")).normalize()
    return value.hex() if isinstance(value, bytes | float) else value


def test_a_partitioned_table_is_one_table(db, postgres, source):
    postgres.run(
        """CREATE TABLE p (id int, region text, v int, PRIMARY KEY (id, region)) PARTITION BY LIST (region);
        CREATE TABLE p_eu PARTITION OF p FOR VALUES IN ('eu'); CREATE TABLE p_us PARTITION OF p FOR VALUES IN ('us');
        INSERT INTO p SELECT g, CASE g % 2 WHEN 0 THEN 'eu' ELSE 'us' END, g FROM generate_series(1, 20) g"""
    )
    db.sql("CREATE TABLE p (*) FROM pg TABLE 'p' WITH (backfill.num_rows_per_split = 4)")
    postgres.run("UPDATE p SET region = 'us' WHERE id IN (2, 18); DELETE FROM p_us WHERE id = 3")
    db.sql("WAIT p")
    postgres.run(
        "UPDATE p SET region = 'eu' WHERE id IN (5, 17); CREATE TABLE p_as PARTITION OF p FOR VALUES IN ('as')"
    )
    postgres.run("INSERT INTO p VALUES (31, 'as', 0), (30, 'eu', 0)")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM p") == theirs(postgres, "SELECT * FROM p")


def test_a_server_without_a_logical_log_is_refused(db, postgres):
    other = Postgres(wal_level="replica", max_wal_senders="0")
    try:
        with pytest.raises(HeadraceError, match="wal_level of PostgreSQL at .* is replica"):
            create_source(db, other)
        assert db.sql("SHOW SOURCES").rows() == []
    finally:
        other.remove()


def test_a_slot_that_was_moved_is_noticed(db, postgres):
    create_source(db, postgres, **{"slot.name": "mine"})
    postgres.run("CREATE TABLE t (id int PRIMARY KEY)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    with pytest.raises(InvalidParameterValue, match='"mine" is there already'):
        db.sql(f"CREATE SOURCE again WITH ({options(postgres, **{'slot.name': 'mine'})}, password = SECRET pw)")
    db.engine.sources.stop()
    postgres.run("INSERT INTO t VALUES (1)")
    eventually(lambda: not _active(postgres, "mine"))
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


def test_a_transaction_that_is_too_large_for_an_epoch_comes_in_pieces(db, postgres, source, monkeypatch):
    monkeypatch.setattr(stream, "PIECE_EVENTS", 10)
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run(
        "BEGIN; INSERT INTO t SELECT g, 0 FROM generate_series(1, 95) g; UPDATE t SET v = 1 WHERE id % 2 = 0; COMMIT"
    )
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


# --- under load ---------------------------------------------------------------------------------------------------

LOAD = {
    "plain": "id bigint PRIMARY KEY, v text",
    "words": 'id text COLLATE "en-x-icu" PRIMARY KEY, v text',
    "pairs": 'a int, id text COLLATE "de-x-icu", v text, PRIMARY KEY (id, a)',
    "moods": "id tempers PRIMARY KEY, v text",
}
COLUMNS = {name: "a, id, v" if name == "pairs" else "id, v" for name in LOAD}
TEMPERS = ["zest", "Awe", "calm", "Bliss", "dread", "ardor", "Zeal", "envy"]
WORDS = [
    "a",
    "A",
    "ä",
    "b",
    "B",
    "z",
    "Z",
    "Zebra",
    "éa",
    "e",
    "f-g",
    "fg",
    "f_g",
    "10",
    "9",
    "",
    " x",
    "ß",
    "ss",
    "co-op",
    "coop",
]


def prepare(postgres: Postgres, chance: random.Random) -> None:
    postgres.run(f"CREATE TYPE tempers AS ENUM ({', '.join(map(repr, TEMPERS))})")
    for name, columns in LOAD.items():
        postgres.run(f"CREATE TABLE {name} ({columns})")
        for _ in range(40):
            postgres.run(f"INSERT INTO {name} ({COLUMNS[name]}) VALUES {values(name, chance)} ON CONFLICT DO NOTHING")


def key(name: str, chance: random.Random) -> str:
    if name == "plain":
        return str(chance.randrange(60))
    word = chance.choice(TEMPERS if name == "moods" else WORDS)
    return f"'{word}'"


def values(name: str, chance: random.Random) -> str:
    first = f"{chance.randrange(3)}, " if name == "pairs" else ""
    return f"({first}{key(name, chance)}, 'v{next(_numbers)}')"


def transaction(chance: random.Random) -> str:
    parts = []
    for _ in range(chance.randrange(1, 5)):
        name = chance.choice(list(LOAD))
        kind = chance.randrange(5)
        if kind == 0:
            parts.append(f"DELETE FROM {name} WHERE id = {key(name, chance)}")
        elif kind == 1:
            parts.append(f"UPDATE {name} SET v = 'u{next(_numbers)}' WHERE id <= {key(name, chance)}")
        elif kind == 2 and name != "pairs":
            new = key(name, chance)
            parts.append(
                f"UPDATE {name} SET id = {new} WHERE id = {key(name, chance)}"
                f" AND NOT EXISTS (SELECT 1 FROM {name} WHERE id = {new})"
            )
        else:
            parts.append(f"INSERT INTO {name} ({COLUMNS[name]}) VALUES {values(name, chance)} ON CONFLICT DO NOTHING")
    if chance.random() < 0.003:
        parts.append(f"TRUNCATE {chance.choice(list(LOAD))}")
    return f"BEGIN; {'; '.join(parts)}; {'ROLLBACK' if chance.random() < 0.1 else 'COMMIT'}"


class Writer:
    """Random transactions, one after the other, until it is told to stop."""

    def __init__(self, postgres: Postgres, seed: int):
        self._connection = postgres.connect()
        self._stop = threading.Event()
        self._chance = random.Random(seed)
        self.done = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        cursor = self._connection.cursor()
        while not self._stop.is_set():
            cursor.execute(transaction(self._chance))
            self.done += 1
            self._stop.wait(0.01)  # a load, not a flood: others work on this machine, too

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._connection.close()


def check_equal(db, postgres: Postgres, seed: int) -> None:
    for name in LOAD:
        query = f"SELECT {COLUMNS[name]} FROM {name}"
        found, wanted = rows(db, query), theirs(postgres, query)
        assert found == wanted, f"seed {seed}: {name} differs"
        assert rows(db, f"SELECT * FROM of_{name}") == sorted(
            ((*row[:-1],) for row in wanted if row[-1] is not None), key=repr
        )


@pytest.mark.slow
def test_random_transactions_while_the_snapshot_is_read_and_the_engine_dies(spark, warehouse, postgres):
    """The engine is abandoned, as by a crash, again and again; nothing is lost, and nothing is there twice."""
    seed = random.randrange(10**6)
    chance = random.Random(seed)
    prepare(postgres, chance)

    def work() -> None:
        epoch = db.engine.committed.epoch
        eventually(lambda: db.engine.committed.epoch > epoch + 4)

    db = headrace.connect(warehouse, spark=spark, parameters={"barrier_interval": "100ms"})
    create_source(db, postgres)
    for name in LOAD:
        db.sql(
            f"CREATE TABLE {name} (*) FROM pg TABLE '{name}'"
            f" WITH (backfill.num_rows_per_split = {chance.randrange(1, 4)},"
            f" backfill.parallelism = {chance.randrange(1, 4)})"
        )
        columns = COLUMNS[name].removesuffix(", v")
        db.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT {columns} FROM {name} WHERE v IS NOT NULL")
    writer = Writer(postgres, seed)
    try:
        for _ in range(3):
            work()
            db.engine.abandon()
            db = headrace.connect(warehouse, spark=spark)
        db.sql("WAIT")
    finally:
        writer.stop()
    assert writer.done > 20
    caught_up(db, postgres)
    check_equal(db, postgres, seed)
    db.sql("DROP SOURCE pg CASCADE")
    db.close()


PLACES = (
    "after_split:2",  # a chunk is read and has not landed
    "after_write:2",  # its rows are written
    "before_commit:3",  # all is in the manifest that is not there yet
    "after_commit:3",  # … that is there, and the server does not know
)


@pytest.mark.slow
def test_a_process_killed_anywhere_goes_on(spark, warehouse, postgres):
    seed = random.randrange(10**6)
    prepare(postgres, random.Random(seed))
    db = headrace.connect(warehouse, spark=spark)
    create_source(db, postgres)
    db.engine.sources.stop()
    db.close()
    gateway = spark.sparkContext._gateway.gateway_parameters
    borrowed = {"PYSPARK_GATEWAY_PORT": str(gateway.port), "PYSPARK_GATEWAY_SECRET": gateway.auth_token}
    writer = Writer(postgres, seed)
    try:
        for place in PLACES:
            process = subprocess.run(
                [sys.executable, "-m", "tests.engine.cdc_child", warehouse], cwd=ROOT, timeout=200, text=True,
                capture_output=True, env=os.environ | borrowed | {"HEADRACE_FAILPOINT": place},
            )  # fmt: skip
            assert process.returncode == -signal.SIGKILL, f"{place} was not reached: {process.stderr[-2000:]}"
            eventually(lambda: not postgres.run("SELECT 1 FROM pg_replication_slots WHERE active"))
    finally:
        writer.stop()
    with headrace.connect(warehouse, spark=spark) as db:
        for name in LOAD:
            columns = COLUMNS[name].removesuffix(", v")
            db.sql(f"CREATE TABLE IF NOT EXISTS {name} (*) FROM pg TABLE '{name}'")
            db.sql(f"CREATE MATERIALIZED VIEW of_{name} AS SELECT {columns} FROM {name} WHERE v IS NOT NULL")
        db.sql("WAIT")
        caught_up(db, postgres)
        check_equal(db, postgres, seed)
        db.sql("DROP SOURCE pg CASCADE")
