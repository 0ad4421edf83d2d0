"""Tables that follow a real PostgreSQL server, from CREATE to DROP: rows, values, keys."""

from __future__ import annotations

import datetime
import re
import threading
from decimal import Decimal

import pytest

from headrace.cdc.postgres import stream
from headrace.engine import splits
from headrace.errors import DependentObjects, WrongObjectKind
from headrace.intervals import Interval
from tests.engine.cdc_postgres.conftest import NEEDS_POSTGRES, ROOT, caught_up, rows, theirs
from tests.engine.conftest import eventually
from tests.support.postgres import PASSWORD

pytestmark = NEEDS_POSTGRES


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
    assert postgres.run("SELECT count(*) FROM pg_stat_replication") == [(1,)]  # for both tables

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
CREATE TYPE mood AS ENUM ('sad', 'Happy'); CREATE DOMAIN money_like AS numeric(6, 2);
CREATE DOMAIN positive AS money_like CHECK (VALUE > 0);
CREATE TABLE "Odd ""T.äble" (
  "Id" int PRIMARY KEY, b bool, i2 int2, i8 int8, f4 float4, f8 float8, n numeric, p positive, t text, c char(5),
  y bytea, d date, ts timestamp, tz timestamptz, u uuid, j json, jb jsonb, m mood, ip inet, bits bit(3), "select" text,
  iv interval, tm time, cash money, ints int[], words text[], days timestamptz[], span int4range
)
"""
VALUES = r"""
(1 + {base}, true, -32768, 9223372036854775807, 'NaN', '-Infinity', 0.0000000001, 9999.99, E'a"b,\n\\.\t''é𝄞', 'ab', '\x00ff5c',
 '0001-01-01', '9999-12-31 23:59:59.999999', '2024-03-10 02:30:00+01', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11',
 '{{"b": 1,  "a":[ 2]}}', '{{"b": 1,  "a":[ 2]}}', 'Happy', '10.0.0.1', B'101', 'NULL',
 '-1 day 02:03:04.000005', '23:59:59.5', 1234.5, '{{1,NULL,-3}}', E'{{"a,b","","NULL",NULL,"q\\"{{}}"}}', '{{2024-03-10 02:30:00+01}}', '[1,5)'),
(2 + {base}, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
 NULL, NULL, NULL, NULL, NULL, NULL, NULL),
(3 + {base}, false, 0, 0, '-0', 1e-300, 12345678901234567890, 0.01, '', '', '', '1970-01-01', '2000-01-01', 'epoch',
 '00000000-0000-0000-0000-000000000000', '1', '"x"', 'sad', '::1/64', B'000', '\N', '0', '00:00', 0, '{{}}', '{{}}', '{{}}', 'empty')
"""  # noqa: E501


def test_values_are_the_same_from_the_snapshot_and_from_the_log(db, postgres, source):
    postgres.run(TYPES)
    postgres.run('INSERT INTO "Odd ""T.äble" VALUES ' + VALUES.format(base=0))
    db.sql("""CREATE TABLE odd (*) FROM pg TABLE 'public."Odd ""T.äble"'; WAIT odd""")
    postgres.run('INSERT INTO "Odd ""T.äble" VALUES ' + VALUES.format(base=10))
    caught_up(db, postgres)
    found = sorted(db.sql('SELECT * FROM odd ORDER BY "Id"').rows())
    snapshot, log = [row[1:] for row in found[:3]], [row[1:] for row in found[3:]]
    assert [row[0] for row in found] == [1, 2, 3, 11, 12, 13]
    assert repr(snapshot) == repr(log)
    first = dict(zip(db.sql("SELECT * FROM odd").columns, found[0], strict=True))
    assert first["t"] == "a\"b,\n\\.\t'é𝄞" and first["c"] == "ab   " and first["y"] == b"\x00\xff\\"
    assert (first["ip"], first["bits"], first["m"], first["jb"]) == ("10.0.0.1", "101", "Happy", '{"a": [2], "b": 1}')
    assert first["select"] == "NULL" and found[2][20] == "\\N" and found[1][20] is None and found[2][8] == ""
    assert first["iv"] == Interval(0, -1, 7_384_000_005) and first["tm"] == "23:59:59.5"
    assert (first["cash"], first["span"], first["ints"]) == ("$1,234.50", "[1,5)", [1, None, -3])
    assert first["words"] == ["a,b", "", "NULL", None, 'q"{}'] and found[2][24:27] == ([], [], [])


def test_uuids_and_times_that_are_declared(db, postgres, source):
    """As what they are, keys too; without a word about it they are texts, as they were before there was the type."""
    postgres.run(
        """CREATE TABLE t (id uuid PRIMARY KEY, u uuid, us uuid[], at time, ats time[]);
        INSERT INTO t SELECT gen_random_uuid(), gen_random_uuid(), ARRAY[gen_random_uuid(), NULL],
        time '24:00' - g * interval '1 hour', ARRAY[time '24:00', NULL, '04:05:06.000789']
        FROM generate_series(0, 29) AS g"""
    )
    columns = "id uuid PRIMARY KEY, u uuid, us uuid[], at time, ats time[]"
    wanted = "backfill.num_rows_per_split = 4, backfill.parallelism = 2"
    db.sql(f"CREATE TABLE t ({columns}) FROM pg TABLE 't' WITH ({wanted}); CREATE TABLE texts (*) FROM pg TABLE 't'")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT u, count(*) AS c FROM t GROUP BY u; WAIT t; WAIT texts")
    assert [str(db.engine.committed.catalog.get(name).column("us").type) for name in ("t", "texts")] == [
        "uuid[]", "varchar[]",
    ]  # fmt: skip
    postgres.run(
        """UPDATE t SET u = id WHERE u > '80000000-0000-0000-0000-000000000000'; DELETE FROM t WHERE u < us[1];
        UPDATE t SET id = gen_random_uuid() WHERE u = id;
        UPDATE t SET at = at + interval '90 min' WHERE at > '12:00';
        INSERT INTO t VALUES ('A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11', NULL, '{}', '24:00', '{}')"""
    )
    caught_up(db, postgres)
    for name in ("t", "texts"):
        asked = "SELECT id::varchar, u::varchar, us::varchar[], at::varchar, ats::varchar[] FROM"
        assert rows(db, f"{asked} {name}") == theirs(postgres, f"{asked} t")
    assert db.sql("SELECT us FROM t WHERE id = 'A0EEBC999C0B4EF8BB6D6BB9BD380A11'").rows() == [([],)]
    assert db.sql("CHECK MATERIALIZED VIEW v").rows()[0][0].startswith("equal")
    db.sql("RESNAPSHOT TABLE t; RESNAPSHOT TABLE texts; WAIT t; WAIT texts")
    assert rows(db, "SELECT id FROM t") == rows(db, "SELECT id FROM texts")


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


def test_large_values_of_rows_that_are_not_there(db, postgres, source, monkeypatch):
    """A row is moved from what has not been read to what has, or was never read: the log does not have all of it."""
    postgres.run(
        """CREATE TABLE t (id int PRIMARY KEY, v int, large text); ALTER TABLE t ALTER large SET STORAGE EXTERNAL;
        INSERT INTO t SELECT g, 0, repeat(g::text, 5000) FROM generate_series(1, 40) g"""
    )
    gate, read = threading.Semaphore(1), splits.read_chunk

    def one_by_one(*arguments):
        assert gate.acquire(timeout=60)
        return read(*arguments)

    monkeypatch.setattr("headrace.engine.chunk_reads.read_chunk", one_by_one)
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.num_rows_per_split = 20, backfill.parallelism = 1)")
    db.sql("CREATE TABLE late (*) FROM pg TABLE 't' WITH (snapshot = 'false')")
    eventually(lambda: db.job("t").progress().rows_read == 20)
    postgres.run("UPDATE t SET id = -39 WHERE id = 39; UPDATE t SET v = 1 WHERE id = -39")
    postgres.run("BEGIN; UPDATE t SET id = -38, v = 2 WHERE id = 38; UPDATE t SET id = -37 WHERE id = -38; COMMIT")
    postgres.run("UPDATE t SET id = -36 WHERE id = 36; UPDATE t SET large = 'short' WHERE id = -36")
    postgres.run("UPDATE t SET id = -35 WHERE id = 35; DELETE FROM t WHERE id = -35; UPDATE t SET v = 3 WHERE id < 3")
    caught_up(db, postgres)
    read_so_far = "SELECT * FROM t WHERE id <= 20"
    assert rows(db, read_so_far) == theirs(postgres, read_so_far)
    changed = "SELECT * FROM t WHERE id < 3"
    assert rows(db, changed.replace("t WHERE", "late WHERE")) == theirs(postgres, changed)
    for _ in range(9):
        gate.release()
    db.sql("WAIT t")
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t")


IGNORES_CASE = "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)"

KEYS = {
    "uuid": "gen_random_uuid()",
    "numeric": "(random() * 1000)::numeric(20, 6)",
    "timestamptz": "now() + random() * interval '9 days'",
    "bytea": "decode(md5(random()::text), 'hex')",
    "char(7)": "left(md5(random()::text), 1 + (random() * 6)::int)",
    "float8": "CASE WHEN g = 1 THEN 'NaN' WHEN g = 2 THEN '-Infinity' ELSE random() - 0.5 END",
    'text COLLATE "und-x-icu"': r"""E'\u00e4\\,"' || left(md5(random()::text), 3)""",
    "text COLLATE ci": "CASE g % 2 WHEN 0 THEN upper(md5(random()::text)) ELSE md5(random()::text) END",
}


def test_keys_of_any_type_in_splits_of_one_row(db, postgres, source):
    postgres.run(IGNORES_CASE)
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


def test_keys_that_are_written_in_two_ways_are_one_key(db, postgres, source):
    """A row goes from one way to the other, and has not moved: it must not go when "the old one" does."""
    kinds = {"float8": ("0", "-0"), "numeric": ("1.5", "1.500"), "interval": ("1 day", "24:00:00")}
    kinds["text COLLATE ci"] = ("a", "A")
    postgres.run(IGNORES_CASE)
    for number, (kind, (one, _)) in enumerate(kinds.items()):
        postgres.run(f"CREATE TABLE k{number} (k {kind} PRIMARY KEY, v int, large text)")
        postgres.run(f"ALTER TABLE k{number} ALTER large SET STORAGE EXTERNAL")
        postgres.run(f"INSERT INTO k{number} VALUES ('{one}', 1, repeat('x', 5000))")
        db.sql(f"CREATE TABLE k{number} (*) FROM pg TABLE 'k{number}'; WAIT k{number}")

    def equal() -> None:
        caught_up(db, postgres)
        for number, kind in enumerate(kinds):
            query = f"SELECT v, large FROM k{number}"
            assert rows(db, query) == theirs(postgres, query), kind

    for number, (one, other) in enumerate(kinds.values()):
        postgres.run(f"UPDATE k{number} SET k = '{other}', v = 2 WHERE k = '{one}'")
    equal()
    for number, (one, other) in enumerate(kinds.values()):
        postgres.run(
            f"BEGIN; UPDATE k{number} SET k = '{one}', v = 3; DELETE FROM k{number};"
            f"INSERT INTO k{number} VALUES ('{other}', 4, 'y'); COMMIT"
        )
    equal()
    for number, (one, _) in enumerate(kinds.values()):
        postgres.run(f"DELETE FROM k{number} WHERE k = '{one}'")
    equal()


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


@pytest.mark.parametrize(("bound", "value"), [("PIECE_EVENTS", 10), ("PIECE_BYTES", 200)])
def test_a_transaction_that_is_too_large_for_an_epoch_comes_in_pieces(db, postgres, source, monkeypatch, bound, value):
    monkeypatch.setattr(stream, bound, value)
    pieces = []
    arrived = stream.LogStream._arrived
    monkeypatch.setattr(stream.LogStream, "_arrived", lambda *one: pieces.append(len(one[1].events)) or arrived(*one))
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v int)")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't'; WAIT t")
    postgres.run(
        "BEGIN; INSERT INTO t SELECT g, 0 FROM generate_series(1, 95) g; UPDATE t SET v = 1 WHERE id % 2 = 0; COMMIT"
    )
    caught_up(db, postgres)
    assert rows(db, "SELECT * FROM t") == theirs(postgres, "SELECT * FROM t") and max(pieces) <= 20


def test_rows_that_are_larger_than_a_block(db, postgres, source, monkeypatch):
    """By default, 16 MiB; of a value's text, the server allows a gigabyte."""
    postgres.run("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (LIKE t INCLUDING ALL)")
    wide = "repeat('x', CASE WHEN g % 7 = 0 THEN 20000000 ELSE g END)"
    postgres.run(f"INSERT INTO t SELECT g, {wide} FROM generate_series(1, 16) g")
    db.sql("CREATE TABLE t (*) FROM pg TABLE 't' WITH (backfill.parallelism = 1); WAIT t")
    assert rows(db, "SELECT id, length(v) FROM t") == theirs(postgres, "SELECT id, length(v) FROM t")
