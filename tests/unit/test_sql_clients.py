"""Statements that drivers send on their own account."""

from __future__ import annotations

import pytest

from headrace.errors import SqlSyntaxError, Unsupported
from headrace.sql import statements as s
from headrace.sql.parse import parse


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("BEGIN", s.Begin),
        ("BEGIN ISOLATION LEVEL READ COMMITTED", s.Begin),
        ("START TRANSACTION READ ONLY", s.Begin),
        ("COMMIT", s.Commit),
        ("END", s.Commit),
        ("ROLLBACK", s.Rollback),
        ('SAVEPOINT "_pg3_1"', s.Savepoint),
        ('RELEASE SAVEPOINT "_pg3_1"', s.Savepoint),
        ('ROLLBACK TO SAVEPOINT "_pg3_1"', s.RollbackTo),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", s.SetTransaction),
        ("DISCARD ALL", s.Discard),
        ("RESET ALL", s.ResetAll),
        ("UNLISTEN *", s.Unlisten),
    ],
)
def test_kinds(sql, kind):
    (statement,) = parse(sql)
    assert type(statement) is kind and statement.sql == sql


@pytest.mark.parametrize(
    ("sql", "read_only"),
    [
        ("BEGIN", None),
        ("BEGIN WORK READ ONLY", True),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE", True),
        ("START TRANSACTION ISOLATION LEVEL READ UNCOMMITTED READ WRITE NOT DEFERRABLE", False),
        ("SET TRANSACTION READ ONLY", True),
        ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", None),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", False),
    ],
)
def test_modes_of_a_transaction(sql, read_only):
    (statement,) = parse(sql)
    assert statement.read_only is read_only
    assert getattr(statement, "session", False) == ("SESSION" in sql)


def test_chains():
    assert [each.chain for each in parse("COMMIT AND CHAIN; END WORK AND NO CHAIN; ABORT TRANSACTION AND CHAIN")] == [
        True, False, True,
    ]  # fmt: skip
    (back,) = parse("ROLLBACK WORK TO SAVEPOINT a")
    assert type(back) is s.RollbackTo


@pytest.mark.parametrize(
    "sql",
    [
        "COMMIT nonsense here",
        "COMMIT AND",
        "BEGIN READ",
        "BEGIN READ ONLY,",
        "BEGIN ISOLATION LEVEL high",
        "START TRANSACTION WORK",
        "SET TRANSACTION",
        "SET SESSION CHARACTERISTICS READ ONLY",
        "ROLLBACK to",
    ],
)
def test_what_is_no_transaction(sql):
    with pytest.raises(SqlSyntaxError):
        parse(sql)


def test_cursors():
    declare, fetch, move, all_rows, close = parse(
        "DECLARE c NO SCROLL CURSOR FOR SELECT 1; FETCH FORWARD 10 FROM c; MOVE 5 IN c; FETCH ALL c; CLOSE ALL"
    )
    assert declare.name == "c" and not declare.hold
    assert [each.hold for each in parse("DECLARE c CURSOR WITH HOLD FOR SELECT 1; DECLARE c CURSOR FOR SELECT 1")] == [
        True, False,
    ]  # fmt: skip
    assert (fetch.name, fetch.count, fetch.move) == ("c", 10, False)
    assert (move.count, move.move, all_rows.count, close.name) == (5, True, None, None)


def test_prepared_statements():
    prepare, execute, bare = parse(
        "PREPARE p (int, numeric(10,2)) AS SELECT $1 + $2; EXECUTE p (1, 2 * (3 - x)); EXECUTE q"
    )
    assert (prepare.name, list(map(str, prepare.types))) == ("p", ["integer", "numeric(10,2)"])
    assert prepare.text == "SELECT $1 + $2" and prepare.start == len("PREPARE p (int, numeric(10,2)) AS ")
    assert (execute.name, execute.texts) == ("p", ("1", "2 * (3 - x)"))
    assert (bare.name, bare.values) == ("q", ())


@pytest.mark.parametrize(
    ("sql", "options"),
    [
        ("COPY t (a, b) FROM STDIN", {}),
        ("COPY t FROM STDIN (FORMAT csv, DELIMITER ';')", {"format": "csv", "delimiter": ";"}),
        ("COPY t FROM STDIN WITH CSV HEADER NULL AS '-'", {"format": "csv", "header": "true", "null": "-"}),
        ("COPY (SELECT 1) TO STDOUT (HEADER false)", {"header": "false"}),
    ],
)  # fmt: skip
def test_copy(sql, options):
    (statement,) = parse(sql)
    assert dict(statement.options) == options
    assert statement.into == ("STDIN" in sql)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("COPY t FROM '/etc/passwd'", Unsupported),
        ("COPY t FROM PROGRAM 'x'", Unsupported),
        ("COPY t FROM STDIN (FORMAT arrow)", Unsupported),
        ("COPY (SELECT 1) FROM STDIN", SqlSyntaxError),
        ("DECLARE c SCROLL CURSOR FOR SELECT 1", Unsupported),
        ("FETCH BACKWARD 1 FROM c", Unsupported),
        ("COMMIT PREPARED 'x'", Unsupported),
    ],
)
def test_refused(sql, error):
    with pytest.raises(error):
        parse(sql)
