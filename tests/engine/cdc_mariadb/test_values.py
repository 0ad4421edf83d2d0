"""Every type of MariaDB and MySQL: the same value from the snapshot and from the log, or a refusal."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal

import pytest

from headrace.errors import InvalidDefinition, JobFailed, Unsupported
from tests.engine.cdc_mariadb.conftest import BOTH, caught_up, servers, stopped

SERVERS = BOTH

COLUMNS = {
    # name: (type, three values: an extreme, an empty or zero one, another)
    "t1": ("TINYINT", "-128", "0", "127"),
    "tu": ("TINYINT UNSIGNED", "255", "0", "1"),
    "flag": ("TINYINT(1)", "2", "0", "1"),
    "su": ("SMALLINT UNSIGNED", "65535", "0", "1"),
    "m": ("MEDIUMINT", "-8388608", "0", "8388607"),
    "mu": ("MEDIUMINT UNSIGNED ZEROFILL", "16777215", "0", "42"),
    "iu": ("INT UNSIGNED", "4294967295", "0", "1"),
    "g": ("BIGINT", "-9223372036854775808", "0", "9223372036854775807"),
    "gu": ("BIGINT UNSIGNED", "18446744073709551615", "0", "1"),
    "f": ("FLOAT", "3.4028234e38", "-0e0", "0.1"),
    "fd": ("FLOAT(7, 2)", "12345.67", "0", "0.01"),
    "d": ("DOUBLE", "-1.7976931348623157e308", "5e-324", "0.1"),
    "dd": ("DOUBLE(10, 2)", "1.14", "0", "1.57"),
    "ez": ("ENUM('zerofill', 'a')", "'zerofill'", "'a'", "'a'"),
    "es": ("ENUM('signed', 'unsigned')", "'signed'", "'unsigned'", "'signed'"),
    "ec": ("SET('raw', 'compressed')", "'raw'", "'compressed'", "'raw,compressed'"),
    "n": ("DECIMAL(10, 2)", "-99999999.99", "0", "0.05"),
    "n38": ("DECIMAL(38, 10)", "-1234567890123456789012345678.0123456789", "0", "0.0000000001"),
    "n5": ("DECIMAL(5, 5)", "-0.00001", "0", "0.99999"),
    "b1": ("BIT(1)", "1", "0", "1"),
    "b10": ("BIT(10)", "1023", "0", "513"),
    "b64": ("BIT(64)", "18446744073709551615", "0", "1"),
    "y": ("YEAR", "2155", "0", "1901"),
    "da": ("DATE", "'9999-12-31'", "'0001-01-01'", "'2024-02-29'"),
    "dt": ("DATETIME", "'9999-12-31 23:59:59'", "'0001-01-01'", "'2024-02-29 12:00:00'"),
    "dt6": ("DATETIME(6)", "'9999-12-31 23:59:59.999999'", "'1970-01-01'", "'2024-02-29 12:00:00.000001'"),
    "ts": ("TIMESTAMP NULL", "'2038-01-19 03:14:07'", "'1970-01-01 00:00:01'", "'2024-03-31 02:30:00'"),
    "ts3": ("TIMESTAMP(3) NULL", "'2038-01-19 03:14:07.999'", "'1970-01-01 00:00:01'", "'2024-03-31 02:30:00.5'"),
    "c": ("CHAR(5)", "'ab  '", "''", "'é𝄞'"),
    "cl": ("CHAR(5) CHARACTER SET latin1", "'€ÿ'", "''", "'a '"),
    "v": ("VARCHAR(300)", "REPEAT('𝄞', 300)", "''", "'x  '"),
    "vl": ("VARCHAR(20) CHARACTER SET latin1", "CONVERT(X'81C280' USING latin1)", "''", "'ß'"),
    "v2": ("VARCHAR(20) CHARACTER SET latin2", "'łŁ'", "''", "'x'"),
    "u2": ("VARCHAR(20) CHARACTER SET ucs2", "'€é'", "''", "'x'"),
    "u16": ("TEXT CHARACTER SET utf16", "'𝄞é'", "''", "'x'"),
    "tx": ("TEXT", "REPEAT('é', 20000)", "''", "'''\"\\\\\n\t'"),
    "lt": ("LONGTEXT", "REPEAT('l', 70000)", "''", "'NULL'"),
    "bn": ("BINARY(4)", "X'41000000'", "X''", "X'00FF5C27'"),
    "vb": ("VARBINARY(300)", "REPEAT(X'00', 300)", "X''", "X'FF'"),
    "bl": ("BLOB", "X'00FF'", "X''", "REPEAT(X'FE', 20000)"),
    "lb": ("LONGBLOB", "REPEAT(X'FB', 70000)", "X''", "X'00'"),
    "e": ("ENUM('b', 'it''s', 'ä,\\\\') CHARACTER SET latin1", "'it''s'", "''", "'ä,\\\\'"),
    "eu": ("ENUM('x', '€')", "'€'", "'none of them'", "'x'"),
    "se": ("SET('p', 'q', 'é')", "'p,é'", "''", "'q'"),
    "j": ("JSON", "'{\"b\": 1,  \"a\":[ 2]}'", "'[]'", "'null'"),
    "u": ("UUID", "'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "'00000000-0000-0000-0000-000000000000'",
          "'017f22e2-79b0-7cc3-98c4-dc0c0c07398f'"),
    "i6": ("INET6", "'2001:db8::1:0:0:1'", "'::'", "'::ffff:192.0.2.128'"),
    "i4": ("INET4", "'255.255.255.255'", "'0.0.0.0'", "'10.0.0.0'"),
    "kept": ("INT AS (id + 1) STORED", None, None, None),
    "hidden": ("INT INVISIBLE DEFAULT 5", "1", "0", "7"),
}  # fmt: skip
ONLY_MARIADB = ("u", "i6", "i4")


def columns_of(mariadb) -> dict[str, tuple]:
    return {name: each for name, each in COLUMNS.items() if mariadb.name == "MariaDB" or name not in ONLY_MARIADB}


def insert(mariadb, first: int) -> None:
    given = {name: values for name, (_, *values) in columns_of(mariadb).items() if values[0] is not None}
    names = ", ".join(["id", *given])
    mariadb.run(
        f"INSERT INTO every (id, {', '.join(given)}) VALUES ({first}, {', '.join(['NULL'] * len(given))})",
        *(
            f"INSERT INTO every ({names}) VALUES ({first + place + 1}, {', '.join(v[place] for v in given.values())})"
            for place in range(3)
        ),
    )


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "compressed"])
def test_values_are_the_same_from_the_snapshot_and_from_the_log(db, mariadb, source, compressed):
    every = columns_of(mariadb)
    mariadb.run(f"CREATE TABLE every (id INT PRIMARY KEY, {', '.join(f'{n} {v[0]}' for n, v in every.items())})")
    insert(mariadb, 0)
    mariadb.compress_log(compressed)
    as_text = ", ".join(f"{name} VARCHAR" for name in ("id", *every))
    db.sql(f"CREATE TABLE every (*) FROM my TABLE 'every'; CREATE TABLE texts ({as_text}) FROM my TABLE 'every'")
    db.sql("WAIT every; WAIT texts")
    try:
        insert(mariadb, 10)
        mariadb.run("SET SESSION time_zone = '+03:00'", "UPDATE every SET hidden = hidden WHERE id > 10")
    finally:
        mariadb.compress_log(False)
    caught_up(db, mariadb)
    for table in ("every", "texts"):
        found = sorted(db.sql(f"SELECT * FROM {table}").rows(), key=lambda row: int(row[0]))
        columns = db.sql(f"SELECT * FROM {table}").columns
        assert [int(row[0]) for row in found] == [0, 1, 2, 3, 10, 11, 12, 13]
        for snapshot, log in zip(found[:4], found[4:], strict=True):
            for name, one, other in zip(columns, snapshot, log, strict=True):
                if name not in ("id", "kept"):
                    assert repr(one) == repr(other), (table, name)
    first, empty, other = (dict(zip(("id", *every), row, strict=True)) for row in _rows(db, 1, 2, 3))
    assert (first["gu"], first["b64"], first["b10"], first["flag"]) == (Decimal(2**64 - 1), Decimal(2**64 - 1), 1023, 2)
    assert (first["bn"], empty["bn"], empty["y"], empty["eu"], empty["se"]) == (b"A\0\0\0", b"\0\0\0\0", 0, "", "")
    assert (first["vl"], first["cl"], first["e"], other["mu"], first["v2"]) == ("\x81Â€", "€ÿ", "it's", 42, "łŁ")
    if mariadb.name == "MariaDB":
        assert (first["u"], other["i6"]) == ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "::ffff:192.0.2.128")
        assert first["j"] == '{"b": 1,  "a":[ 2]}'  # a text
    else:
        assert db.sql("SELECT j::jsonb -> 'a' FROM every WHERE id = 11").rows() == [("[2]",)]
    assert (first["kept"], other["hidden"]) == (2, 7)
    assert first["d"] == -1.7976931348623157e308
    assert other["ts3"] == datetime.datetime(2024, 3, 31, 2, 30, 0, 500000, tzinfo=datetime.UTC)
    texts = dict(zip(("id", *every), _rows(db, "'1'", table="texts")[0], strict=True))
    assert (texts["vb"][:6], texts["ts"], texts["n5"]) == ("\\x0000", "2038-01-19 03:14:07+00", "-0.00001")


DOCUMENTS = (
    "'{}'", "'[]'", "'null'", "'true'", "'\"\"'", "'-0.0'", "'1e100'", "'1.50'", "'1e-7'",
    "'123456789012345678901234567890'",
    "'[1, -1, 32767, -32769, 65536, 2147483648, -2147483649, 18446744073709551615, 0.1]'",
    "'[2.5e-308, 1.7976931348623157e308, 123456789012345680000.0]'",
    """'{"": 1, "long name": {"a": [[], {}, [null, false, {"b": "\\\\n\\\\u0001\\\\"€𝄞"}]]}, "b": "x.5e3"}'""",
    "CAST(1.10 AS JSON)", "CAST(-12345678901234567890.123456789 AS JSON)", "CAST(CAST('2024-02-29' AS DATE) AS JSON)",
    "CAST(CAST('-838:59:59.000001' AS TIME(6)) AS JSON)",
    "CAST(CAST('2024-02-29 12:34:56.789' AS DATETIME(3)) AS JSON)",
    "JSON_OBJECT('bytes', X'00FF', 'n', 10 / 4, 'at', TIMESTAMP '0001-01-01 00:00:00')",
    "JSON_ARRAY(REPEAT('x', 70000), 1, JSON_OBJECT('k', REPEAT('é', 200)), 70000, -70000)",
    "JSON_OBJECT(REPEAT('k', 300), 1.5e0, 'a', CAST(2 AS UNSIGNED))", "NULL",
)  # fmt: skip


@servers("mysql")
def test_documents_are_the_same_from_the_snapshot_and_from_the_log(db, mariadb, source):
    mariadb.run("CREATE TABLE d (id INT PRIMARY KEY, j JSON)")
    fill = [f"INSERT INTO d VALUES ({id}, {document})" for id, document in enumerate(DOCUMENTS)]
    mariadb.run(*fill)
    db.sql("CREATE TABLE d (*) FROM my TABLE 'd'; WAIT d")
    snapshot = db.sql("SELECT id, j FROM d ORDER BY id").rows()
    mariadb.run("DELETE FROM d", *fill)
    mariadb.run("UPDATE d SET j = JSON_SET(j, '$.b', 7) WHERE id = 0")  # a part of it changes, the log has all
    caught_up(db, mariadb)
    log = db.sql("SELECT id, j FROM d ORDER BY id").rows()
    assert log == [(0, '{"b": 7}'), *snapshot[1:]]
    for (_, ours), (theirs,) in zip(snapshot, mariadb.run("SELECT CAST(j AS CHAR) FROM d ORDER BY id"), strict=True):
        if ours is not None and ours != "{}":
            assert json.loads(ours, parse_int=Decimal, parse_float=Decimal) == json.loads(
                theirs, parse_int=Decimal, parse_float=Decimal
            )


def _rows(db, *ids, table: str = "every") -> list[tuple]:
    return [db.sql(f"SELECT * FROM {table} WHERE id = {id}").rows()[0] for id in ids]


def test_values_without_a_counterpart_stop_their_table_and_can_be_had_as_text(db, mariadb, source):
    mariadb.run(
        "CREATE TABLE zero (id INT PRIMARY KEY, d DATE)", "INSERT INTO zero VALUES (1, '0000-00-00')",
        "CREATE TABLE later (id INT PRIMARY KEY, d DATETIME(2), t TIMESTAMP(1) NULL)",
        "CREATE TABLE big (id BIGINT UNSIGNED PRIMARY KEY, b TINYINT(1))", "INSERT INTO big VALUES (1, 1)",
        "CREATE TABLE times (id INT PRIMARY KEY, a TIME, b TIME(3), n DECIMAL(65, 30))",
        "INSERT INTO times VALUES (1, '-838:59:59', '100:00:00.005', -1.5)",
    )  # fmt: skip
    db.sql("CREATE TABLE zero (*) FROM my TABLE 'zero'; CREATE TABLE later (*) FROM my TABLE 'later'; WAIT later")
    db.sql("CREATE TABLE big (id BIGINT, b BOOLEAN) FROM my TABLE 'big'; WAIT big")
    with pytest.raises(JobFailed, match='column "d": "0000-00-00" is not a value of type date'):
        db.sql("WAIT zero")
    text = "CREATE TABLE zero_text (id INT, d VARCHAR) FROM my TABLE 'zero';"
    text += "CREATE TABLE later_text (id INT, d VARCHAR, t VARCHAR) FROM my TABLE 'later';"
    db.sql(text + "CREATE TABLE times (id INT, a VARCHAR, b VARCHAR, n VARCHAR) FROM my TABLE 'times'")
    for name in ("zero_text", "later_text", "times"):
        db.sql(f"WAIT {name}")
    mariadb.run(
        "INSERT INTO later VALUES (1, '2024-00-10', '0000-00-00')", "INSERT INTO big VALUES (18446744073709551615, 1)",
        "INSERT INTO zero VALUES (2, '0000-00-00')",
        "INSERT INTO times VALUES (2, '-838:59:59', '100:00:00.005', -1.5)",
    )  # fmt: skip
    caught_up(db, mariadb)
    assert db.sql("SELECT * FROM zero_text ORDER BY id").rows() == [(1, "0000-00-00"), (2, "0000-00-00")]
    assert db.sql("SELECT * FROM later_text").rows() == [(1, "2024-00-10 00:00:00.00", "0000-00-00 00:00:00.0+00")]
    shown = ("-838:59:59", "100:00:00.005", "-1.500000000000000000000000000000")
    assert db.sql("SELECT * FROM times ORDER BY id").rows() == [(1, *shown), (2, *shown)]
    errors = stopped(db)
    assert '"2024-00-10 00:00:00.00" is not a value of type timestamp' in errors["later"][1]
    assert 'column "id"' in errors["big"][1] and set(errors) == {"zero", "later", "big"}


@servers("mysql")
def test_types_of_mysql_that_cannot_be_followed_are_passed_over_by_the_log(db, mariadb, source):
    mariadb.run("CREATE TABLE t (id INT PRIMARY KEY, g GEOMETRY, e VECTOR(3), v INT AS (id) VIRTUAL, n INT)")
    db.sql("CREATE TABLE t (id INT, n INT) FROM my TABLE 't'; WAIT t")
    for name in "ge":
        with pytest.raises(Unsupported, match=f'column "{name}" is of type'):
            db.sql(f"CREATE TABLE u (id INT, {name} VARCHAR) FROM my TABLE 't'")
    mariadb.run("INSERT INTO t (id, g, e, n) VALUES (1, POINT(1, 2), STRING_TO_VECTOR('[1,2,3]'), 7)")
    caught_up(db, mariadb)
    assert db.sql("SELECT * FROM t").rows() == [(1, 7)]


@servers("mariadb")
def test_types_that_cannot_be_followed_are_refused_by_name(db, mariadb, source):
    mariadb.run(
        """CREATE TABLE t (id INT PRIMARY KEY, g GEOMETRY, at TIME, n DECIMAL(40, 2), s VARCHAR(9) CHARACTER SET sjis,
        z VARCHAR(500) COMPRESSED, v INT AS (id) VIRTUAL)"""
    )
    for columns, error, message in (
        ("*", Unsupported, 'column "g" is of type geometry'),
        ("id INT, g VARCHAR", Unsupported, 'column "g"'),
        ("id INT, at INT", Unsupported, 'column "at" is of type time'),
        ("id INT, n NUMERIC(38, 2)", Unsupported, 'column "n" is of type decimal'),
        ("id INT, s VARCHAR", Unsupported, 'column "s" has the character set sjis'),
        ("id INT, z VARCHAR", Unsupported, 'column "z"'),
        ("id INT, v INT", InvalidDefinition, '"v" is generated'),
        ("id DATE", InvalidDefinition, "cannot be had as date"),
        ("id INT, nothing INT", Exception, 'no column "nothing"'),
    ):
        with pytest.raises(error, match=message):
            db.sql(f"CREATE TABLE t ({columns}) FROM my TABLE 't'")
    assert db.sql("SHOW TABLES").rows() == []
