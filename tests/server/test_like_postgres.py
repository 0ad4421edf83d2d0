"""Values as PostgreSQL prints and sends them: the same statements to it and to a server of Headrace."""

from __future__ import annotations

import itertools
import os
import socket
import struct
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import generators
from psycopg.pq import DiagnosticField, ExecStatus

from tests.server import like_postgres as cases
from tests.support.postgres import PASSWORD, Postgres, binaries

TEXT, BINARY = 0, 1
AT_ONCE = 60
"""Expressions of one SELECT."""

pytestmark = [
    pytest.mark.xdist_group("like_postgres"),
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed"),
]


@pytest.fixture(scope="module")
def postgres() -> Iterator[psycopg.Connection]:
    server = Postgres(timezone="UTC", bytea_output="hex")
    server.start()
    dsn = f"host=127.0.0.1 port={server.port} user=postgres dbname=postgres"
    with psycopg.connect(dsn, password=PASSWORD, autocommit=True) as connection:
        yield connection
    server.stop()


def ask(connection: psycopg.Connection, sql: str, form: int = TEXT) -> list[tuple]:
    """Number and modifier of the type, and the values, of each column."""
    result = connection.pgconn.exec_params(sql.encode(), None, result_format=form)
    assert result.status == ExecStatus.TUPLES_OK, f"{sql}: {result.error_message}"
    return [
        (result.ftype(at), result.fmod(at), [result.get_value(row, at) for row in range(result.ntuples)])
        for at in range(result.nfields)
    ]


def statements(expressions: list[str], source: str = "") -> Iterator[tuple[str, list[str]]]:
    """Many expressions in each, but for those with a FROM or an aggregate of their own."""
    plain = [each for each in expressions if " FROM (" not in each]
    for start in range(0, len(plain), AT_ONCE):
        part = plain[start : start + AT_ONCE]
        yield f"SELECT {', '.join(part)}{source}", part
    for each in expressions:
        if " FROM (" in each:
            yield f"SELECT {each}", [each]


def shown(column: tuple) -> tuple:
    return column[0], column[1], None if column[2][0] is None else column[2][0].decode()


@pytest.mark.parametrize("kind", cases.EXPRESSIONS)
def test_expressions(kind, postgres, connect):
    connection = connect()
    wrong = []
    for sql, expressions in statements(cases.EXPRESSIONS[kind]):
        texts = [ask(each, sql) for each in (postgres, connection)]
        data = [ask(each, sql, BINARY) for each in (postgres, connection)]
        for expression, *answers in zip(expressions, *texts, *data, strict=True):
            theirs, ours, their_data, our_data = answers
            known = cases.DIFFERENT.get(expression)
            if known is not None:
                expected = known if isinstance(known, tuple) else (*shown(theirs)[:2], known)
                assert shown(theirs) != expected, f"{expression} no longer differs"
                if shown(ours) != expected:
                    wrong.append(f"{expression}: {shown(ours)}, not {expected}")
            elif theirs != ours:
                wrong.append(f"{expression}: {shown(ours)}, PostgreSQL {shown(theirs)}")
            elif their_data != our_data and "ROW(" not in expression:  # whose constants are unknown there, text here
                wrong.append(f"{expression} in binary: {our_data}, PostgreSQL {their_data}")
    assert not wrong, "\n".join(wrong)


def test_columns(postgres, connect, table):
    connection = connect()
    for each in (postgres, connection):
        each.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, {cases.DECLARED})")
        rows = ", ".join(f"({number}, {row})" for number, row in enumerate(cases.ROWS))
        each.execute(f"INSERT INTO {table} VALUES {rows}")
        each.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT * FROM {table}")
    expressions = [each.strip() for each in cases.OF_COLUMNS.replace("\n", ";").split(";") if each.strip()]
    aggregates = [
        each for each in expressions if each.startswith(("sum(", "max(", "min(", "array_agg", "count", "string_"))
    ]
    windows = [each for each in expressions if " OVER " in each]
    queries = [f"SELECT * FROM {each} ORDER BY id" for each in (table, f"{table}_v")]
    queries.append(f"SELECT {', '.join(each for each in aggregates if each not in windows)} FROM {table}")
    rest = [each for each in expressions if each not in aggregates and each not in windows]
    queries.append(f"SELECT id, {', '.join(rest + windows)} FROM {table} ORDER BY id")
    wrong = []
    for sql in queries:
        names = [column.name for column in postgres.execute(sql).description]
        for form in (TEXT, BINARY):
            answers = zip(names, ask(postgres, sql, form), ask(connection, sql, form), strict=True)
            wrong += [f"{name}: {ours}, PostgreSQL {theirs}" for name, theirs, ours in answers if theirs != ours]
    assert not wrong, "\n".join(wrong)


def different(
    queries: str, postgres: psycopg.Connection, connection: psycopg.Connection, forms: tuple = (TEXT, BINARY)
) -> list[str]:
    """What the answers to some queries have not in common."""
    wrong = []
    for sql, form in itertools.product(queries.split(";\n")[:-1], forms):
        theirs, ours = (ask(each, sql, form) for each in (postgres, connection))
        for at, (their, our) in enumerate(zip(theirs, ours, strict=True)):
            if their != our:
                pairs = list(itertools.zip_longest(our[2], their[2]))
                found = [(number, *pair) for number, pair in enumerate(pairs) if pair[0] != pair[1]]
                wrong.append(
                    f"{sql}\n  column {at}, {len(found)} of {len(pairs)} rows: {found[:3]} {our[:2]} {their[:2]}"
                )
    return wrong


def test_quotients(postgres, connect, table):
    connection = connect()
    pairs = [(one, other) for one in cases.FACTORS for other in cases.FACTORS if float(other)]
    rows = ", ".join(
        f"({number}, {a}, {b}, {'NULL' if number % 3 else b}, {number * 7919 % 31 + 2})"
        for number, (a, b) in enumerate(pairs)
    )
    for each in (postgres, connection):
        each.execute(
            f"CREATE TABLE {table} (id int PRIMARY KEY, a numeric(12,2), b numeric(16,4), c numeric(16,4), i int)"
        )
        each.execute(f"INSERT INTO {table} VALUES {rows}")
    wrong = different(cases.OF_FACTORS.format(t=table), postgres, connection)
    assert not wrong, "\n".join(wrong)


def test_stored_quotients(postgres, connect, table):
    """Of a view's column it is known which decimals are shown, unless it begins with the digit 1 in base 10,000."""
    connection = connect()
    for each in (postgres, connection):
        each.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, i int, a numeric(12,2))")
        rows = ", ".join(f"({id}, {id % 10}, {(id * 7919) % 100_000 + 30}.25)" for id in range(1, 200))
        each.execute(f"INSERT INTO {table} VALUES {rows}")
        each.execute(
            f"CREATE MATERIALIZED VIEW {table}_v AS SELECT i, avg(a) AS m, avg(i) / 100 AS n, sum(a) / count(*) AS q,"
            f" round(avg(a), 2) AS r FROM {table} WHERE i > 2 GROUP BY i"
        )
    wrong = different(cases.OF_AVERAGES.format(t=f"{table}_v"), postgres, connection)
    assert not wrong, "\n".join(wrong)
    copied = []
    for each in (postgres, connection):
        with each.cursor() as cursor, cursor.copy(f"COPY (SELECT * FROM {table}_v ORDER BY i) TO STDOUT") as copy:
            copied.append(b"".join(copy))
    assert copied[0] == copied[1]


def test_intervals(postgres, connect, table):
    connection = connect()
    pairs = [(one, other) for one in cases.SPANS for other in cases.SPANS]
    rows = ", ".join(
        f"({number}, '{a}', '{b}', {'NULL' if number % 3 else repr(b)}, {number % 5 - 2 or 7}, {number % 9 / 4 + 0.3},"
        f" timestamp '2024-01-31 12:34:56', ARRAY[interval '{a}', NULL, '{b}'])"
        for number, (a, b) in enumerate(pairs)
    )
    columns = "id int PRIMARY KEY, a interval, b interval, c interval, n int, f float8, ts timestamp, l interval[]"
    for each in (postgres, connection):
        each.execute(f"CREATE TABLE {table} ({columns})")
        each.execute(f"INSERT INTO {table} VALUES {rows}")
    wrong = []
    for number, sql in enumerate(cases.OF_SPANS.format(t=table).split(";\n")[:-1]):
        for form in (TEXT, BINARY) if number < 2 else (TEXT,):
            try:
                theirs, ours = (ask(each, sql, form) for each in (postgres, connection))
            except AssertionError as error:
                wrong.append(str(error))
                continue
            for at, (their, our) in enumerate(zip(theirs, ours, strict=True)):
                if their != our:
                    pairs = list(itertools.zip_longest(our[2], their[2]))
                    row = next((n for n, (one, other) in enumerate(pairs) if one != other), 0)
                    shape = f"{our[:2]}, {their[:2]}, {len(our[2])} and {len(their[2])} rows"
                    wrong.append(f"{sql}\n  column {at}: {pairs[row][0]}, PostgreSQL {pairs[row][1]} ({shape})")
    assert not wrong, "\n".join(wrong)


def test_what_differs(postgres, connect):
    """What the SQL reference lists. PostgreSQL is asked, too, so that the list does not outlive its reasons."""
    connection = connect()
    for expression, expected in cases.KNOWN.items():
        theirs, ours = (shown(ask(each, f"SELECT {expression}")[0])[2] for each in (postgres, connection))
        assert (ours, theirs != ours) == (expected, True), f"{expression}: {ours}, PostgreSQL {theirs}"


def test_what_is_refused(postgres, connect):
    connection = connect()
    for expression, code in cases.REFUSED.items():
        ask(postgres, f"SELECT {expression}")
        result = connection.pgconn.exec_(f"SELECT {expression}".encode())
        assert result.error_field(DiagnosticField.SQLSTATE) == code.encode(), f"{expression}: {result.error_message}"


def test_errors(postgres, connect):
    connection = connect()
    for each in (postgres, connection):
        each.execute(
            "CREATE TABLE et (k int PRIMARY KEY, a int, v varchar, n numeric(5,2), d date, nn int NOT NULL DEFAULT 1)"
        )
        each.execute("INSERT INTO et VALUES (1, 1, 'x', 1.5, '2024-01-01')")

    def told(connection: psycopg.Connection, sql: str) -> tuple:
        result = connection.pgconn.exec_(sql.encode())
        fields = (DiagnosticField.SQLSTATE, DiagnosticField.STATEMENT_POSITION)
        return tuple(map(result.error_field, fields)) if result.status == ExecStatus.FATAL_ERROR else ("none",)

    same, codes = (text.strip().splitlines() for text in (cases.SAME_ERRORS, cases.SAME_CODES))
    answers = [(sql, told(postgres, sql), told(connection, sql)) for sql in same + codes]
    wrong = [each for each in answers[: len(same)] if each[1] != each[2]]
    wrong += [each for each in answers[len(same) :] if each[1][0] != each[2][0] or each[1] == each[2]]
    assert not wrong, "\n".join(map(str, wrong))


PREPARED = """
SELECT $1::int, $2::jsonb, $3 + 1, 1 + $3
SELECT $1, $2 || 'a', upper($3)
SELECT a FROM (VALUES (1)) v(a) WHERE a = $1 AND $2
SELECT b FROM (VALUES (1.5, date '2024-01-01')) v(a, b) WHERE a < $1 AND b >= $2 LIMIT $3 OFFSET $4
SELECT sum(a) FROM (VALUES (1)) v(a) GROUP BY a % 2 HAVING sum(a) > $1 AND max(a + 0.5) < $2
SELECT now() - $1, $2 AND true, extract(year FROM date '2024-01-01') = $3
SELECT ARRAY[$1, 1], $2 = ANY (ARRAY[1, 2]), 1 IN ($3, $4), length('abc') BETWEEN $5 AND $6
SELECT CASE WHEN $1 THEN 1 END, CASE 'a' WHEN $2 THEN 1 END, coalesce($3, 1), nullif(true, $4), NOT $5
SELECT left('abc', $1), repeat('a', $2), 'a' LIKE $3, position($4 in 'abc'), round($5::float8)
SELECT * FROM generate_series(1, $1)
SELECT 1 UNION SELECT $1
SELECT (SELECT max(x) FROM (VALUES (1), (2)) v(x) WHERE x < $1) IN (SELECT 1 WHERE true = $2)
"""
"""Statements with parameters whose types the client leaves open."""


def test_types_of_parameters(postgres, connect):
    connection = connect()
    wrong = []
    for sql in PREPARED.strip().splitlines():
        told = []
        for each in (postgres, connection):
            parsed = each.pgconn.prepare(b"", sql.encode())
            assert parsed.status == ExecStatus.COMMAND_OK, f"{sql}: {parsed.error_message}"
            # Not describe_prepared(): it holds Python's lock while it waits for a server in the same process.
            each.pgconn.send_describe_prepared(b"")
            (found,) = each.wait(generators.execute(each.pgconn))
            assert found.status == ExecStatus.COMMAND_OK, f"{sql}: {found.error_message}"
            told.append([*map(found.param_type, range(found.nparams)), *map(found.ftype, range(found.nfields))])
        if told[0] != told[1]:
            wrong.append(f"{sql}: {told[1]}, PostgreSQL {told[0]}")
    assert not wrong, "\n".join(wrong)


NOTICES = """
CREATE TABLE IF NOT EXISTS noted (a int)
CREATE TABLE IF NOT EXISTS noted AS SELECT 1 AS a
CREATE MATERIALIZED VIEW IF NOT EXISTS noted_v AS SELECT id FROM noted
CREATE INDEX IF NOT EXISTS noted_v ON noted (id)
DROP TABLE IF EXISTS nowhere
DROP VIEW IF EXISTS nowhere
DROP MATERIALIZED VIEW IF EXISTS nowhere
DROP INDEX IF EXISTS nowhere
COMMIT
ROLLBACK
SET LOCAL jit = off
SET TRANSACTION READ ONLY
BEGIN; BEGIN; COMMIT
"""
"""Statements that have something to tell."""


def test_notices(postgres, connect):
    connection = connect()
    connection.execute("BEGIN")  # of which a session is told once that it means little
    connection.execute("COMMIT")
    told = {}
    for each in (postgres, connection):
        said = told[each] = []
        each.execute("CREATE TABLE noted (id int PRIMARY KEY)")
        each.execute("CREATE MATERIALIZED VIEW noted_v AS SELECT id FROM noted")
        each.add_notice_handler(
            lambda told, said=said: said.append((told.severity_nonlocalized, told.sqlstate, told.message_primary))
        )
    for sql in NOTICES.strip().splitlines():
        for each, said in told.items():
            said.clear()
            each.execute(sql)
        assert told[connection] == told[postgres] != [], sql


def test_query_during_copy(connect, table):
    """Both say what is wrong, and then that they cannot know where the data ends."""
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (a int)")
    assert connection.pgconn.exec_(f"COPY {table} FROM STDIN".encode()).status == ExecStatus.COPY_IN
    query = b"SELECT 1\0"
    with socket.socket(fileno=os.dup(connection.pgconn.socket)) as wire:
        wire.settimeout(30)
        wire.sendall(b"Q" + struct.pack("!i", len(query) + 4) + query)
        said = b""
        while data := wire.recv(65536):
            said += data
    error, fatal = said.index(b"SERROR"), said.index(b"SFATAL")
    assert b"C08P01\0Munexpected message type 0x51 during COPY from stdin\0" in said[error:fatal]
    assert b"C08P01\0Mterminating connection because protocol synchronization was lost\0" in said[fatal:]
