"""The types uuid and time as PostgreSQL prints, sends and refuses them: the same statements to it and to a server."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from tests.server import type_cases as cases
from tests.server.test_like_postgres import BINARY, TEXT, ask, different, statements
from tests.support.postgres import PASSWORD, Postgres, binaries

pytestmark = [
    pytest.mark.xdist_group("types_like_postgres"),
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


@pytest.fixture
def filled(postgres, connect, table) -> tuple[psycopg.Connection, str]:
    """A table of them, in both."""
    connection = connect()
    for each in (postgres, connection):
        each.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, {cases.DECLARED})")
        rows = ", ".join(f"({number}, {row})" for number, row in enumerate(cases.ROWS))
        each.execute(f"INSERT INTO {table} VALUES {rows}")
        each.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT * FROM {table}")
    return connection, table


@pytest.mark.parametrize("kind", cases.EXPRESSIONS)
def test_expressions(kind, postgres, connect):
    connection = connect()
    wrong = []
    for sql, expressions in statements(cases.EXPRESSIONS[kind]):
        for form in (TEXT, BINARY):
            answers = zip(expressions, ask(postgres, sql, form), ask(connection, sql, form), strict=True)
            for expression, theirs, ours in answers:
                if theirs != ours and not (form == BINARY and "ROW(" in expression):
                    wrong.append(f"{expression}: {ours}, PostgreSQL {theirs}")
    assert not wrong, "\n".join(wrong)


def test_columns(postgres, filled):
    connection, table = filled
    wrong = [line for name in (table, f"{table}_v") for line in different(queries(name), postgres, connection)]
    assert not wrong, "\n".join(wrong)


def queries(table: str) -> str:
    return cases.QUERIES.format(t=table)


@pytest.mark.parametrize("form", ["text", "csv", "binary"])
def test_copies(postgres, filled, form):
    """What either writes is what the other does, and what both read."""
    connection, table = filled
    copied, asked = [], f"SELECT {cases.COPIED} FROM {table} ORDER BY id"
    for each in (postgres, connection):
        with each.cursor().copy(f"COPY ({asked}) TO STDOUT (FORMAT {form})") as copy:
            copied.append(b"".join(copy))
    assert copied[0] == copied[1]
    for each in (postgres, connection):
        each.execute(f"DELETE FROM {table}")
        with each.cursor().copy(f"COPY {table} ({cases.COPIED}) FROM STDIN (FORMAT {form})") as copy:
            copy.write(copied[0])
    assert not different(queries(table), postgres, connection)


def told(connection: psycopg.Connection, sql: str) -> tuple:
    result = connection.pgconn.exec_(sql.encode())
    if result.status != ExecStatus.FATAL_ERROR:
        return ("none",)
    code, message = map(result.error_field, (DiagnosticField.SQLSTATE, DiagnosticField.MESSAGE_PRIMARY))
    return code, message.decode()


NAMES = {"varchar": "text", "time without time zone": "time", "timestamp without time zone": "timestamp"}


def test_errors(postgres, filled):
    connection, table = filled
    wrong = []
    for line in cases.SAME_ERRORS.format(t=table).strip().splitlines():
        answers = []
        for each in (postgres, connection):
            code, *message = told(each, line)
            for ours, theirs in itertools.chain(NAMES.items()):
                message = [part.replace(ours, theirs) for part in message]
            answers.append((code, *message))
        if answers[0] != answers[1]:
            wrong.append(f"{line}: {answers[1]}, PostgreSQL {answers[0]}")
    assert not wrong, "\n".join(wrong)


def test_the_catalog(postgres, filled):
    """What clients ask about a column, and about its type."""
    connection, table = filled
    asked = (
        "SELECT column_name, data_type, udt_name, is_nullable, numeric_precision FROM information_schema.columns"
        f" WHERE table_name = '{table}' AND column_name <> 'id' ORDER BY ordinal_position",
        "SELECT a.attname, format_type(a.atttypid, a.atttypmod), a.attlen FROM pg_attribute a JOIN pg_class c"
        f" ON c.oid = a.attrelid WHERE c.relname = '{table}' AND a.attnum > 0 ORDER BY a.attnum",
        "SELECT oid, typname, typlen, typcategory, typelem, typarray FROM pg_type WHERE typname IN"
        " ('uuid', '_uuid', 'time', '_time') ORDER BY oid",
    )
    for sql in asked:
        assert connection.execute(sql).fetchall() == postgres.execute(sql).fetchall(), sql
