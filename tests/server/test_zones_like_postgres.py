"""Sessions in time zones: the same expressions to PostgreSQL and to a server of Headrace, zone by zone."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from psycopg.pq import DiagnosticField, ExecStatus

from tests.server import zone_cases as cases
from tests.server.test_like_postgres import BINARY, TEXT, ask, postgres, shown  # noqa: F401 (the fixture)
from tests.support.postgres import binaries

pytestmark = [
    pytest.mark.xdist_group("like_postgres"),
    pytest.mark.skipif(binaries() is None, reason="PostgreSQL is not installed"),
]

OF_INSTANTS, OF_LOCAL, ALONE = map(cases.listed, (cases.OF_INSTANTS, cases.OF_LOCAL, cases.ALONE))


@pytest.fixture(scope="module")
def both(postgres, server) -> Iterator[tuple[psycopg.Connection, psycopg.Connection]]:  # noqa: F811
    ours = psycopg.connect(f"host=127.0.0.1 port={server.port} user=root dbname=dev", autocommit=True)
    for each in (postgres, ours):
        each.execute("CREATE TABLE zt (k int PRIMARY KEY, t timestamptz)")
        each.execute("CREATE TABLE zl (k int PRIMARY KEY, l timestamp)")
        for table, values in (("zt", cases.INSTANTS), ("zl", cases.LOCAL)):
            rows = ", ".join(f"({number}, '{value}')" for number, value in enumerate(values))
            each.execute(f"INSERT INTO {table} VALUES {rows}")
    yield postgres, ours
    postgres.execute("SET TIME ZONE 'UTC'")
    ours.close()


@pytest.mark.parametrize("zone", cases.ZONES)
def test_expressions(zone, both):
    for each in both:
        each.execute(f"SET TIME ZONE '{zone}'")
    wrong = []
    for source, expressions in (
        (" FROM zt ORDER BY k", OF_INSTANTS), (" FROM zl ORDER BY k", OF_LOCAL), ("", ALONE),
    ):  # fmt: skip
        sql = f"SELECT {', '.join(expressions)}{source}"
        for form in (TEXT, BINARY):
            for expression, theirs, ours in zip(expressions, *(ask(each, sql, form) for each in both), strict=True):
                if theirs != ours and not (form == BINARY and "ROW(" in expression):
                    wrong.append(f"{expression}: {ours}, PostgreSQL {theirs}")
    assert not wrong, "\n".join(wrong)


def test_names(both):
    for name in cases.NAMES:
        answers = []
        for each in both:
            each.execute(f"SET TIME ZONE {name}")
            told = each.pgconn.parameter_status(b"TimeZone")
            answers.append((told, shown(ask(each, "SHOW timezone")[0]), shown(ask(each, "SELECT to_timestamp(0)")[0])))
        assert answers[0] == answers[1], name
    for name in cases.WRONG_NAMES:
        results = [each.pgconn.exec_(f"SET TIME ZONE {name}".encode()) for each in both]
        codes = [result.error_field(DiagnosticField.SQLSTATE) for result in results]
        assert codes == [b"22023", b"22023"], (name, codes)


def test_for_one_transaction_and_back_to_what_was_asked_for_at_the_start(both, connect, postgres):  # noqa: F811
    theirs = psycopg.connect(postgres.info.dsn, password=postgres.info.password, options="-c timezone=Asia/Tokyo")
    ours = connect(options="-c timezone=Asia/Tokyo")
    for each in (theirs, ours):
        each.autocommit = True
        said = []
        for statement in (
            "SELECT 1", "SET timezone TO 'Europe/Berlin'", "RESET timezone", "SET TIME ZONE 'Europe/Berlin'",
            "SET TIME ZONE DEFAULT", "BEGIN", "SET LOCAL TIME ZONE 'America/New_York'", "COMMIT", "BEGIN",
            "SET LOCAL timezone = '+3'", "ROLLBACK", "SELECT set_config('TimeZone', 'UTC', false)", "DISCARD ALL",
            "SET LOCAL timezone = '+3'",
        ):  # fmt: skip
            result = each.pgconn.exec_(statement.encode())
            assert result.status in (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK), result.error_message
            said.append((each.pgconn.parameter_status(b"TimeZone"), ask(each, "SHOW timezone")[0][2]))
        if each is theirs:
            expected = said
    assert said == expected
    theirs.close()


def test_an_unknown_zone_ends_a_connection(connect):
    with pytest.raises(psycopg.OperationalError, match='invalid value for parameter "TimeZone": "Mars/Olympus"'):
        connect(options="-c timezone=Mars/Olympus")


def test_writes_and_copies(both, table):
    rows = []
    for each in both:
        each.execute("SET TIME ZONE 'Europe/Berlin'")
        each.execute(f"CREATE TABLE {table} (k int PRIMARY KEY, t timestamptz, l timestamp, d date, s text)")
        each.execute(f"INSERT INTO {table} VALUES (1, '2024-07-01 12:00', '2024-07-01 12:00', '2024-07-01', 'x')")
        each.execute(f"INSERT INTO {table} SELECT 2, x, x, x, x FROM (SELECT '2024-07-01 00:30'::timestamptz AS x) q")
        each.execute(
            f"INSERT INTO {table} VALUES (3, timestamp '2024-10-27 02:30', now() - now() + timestamptz "
            "'2024-07-01 00:30', timestamptz '2024-07-01 00:30', timestamptz '2024-07-01 00:30')"
        )
        each.execute(f"INSERT INTO {table} SELECT 4, '2024-07-01', NULL, NULL, NULL")
        each.execute(f"UPDATE {table} SET t = l, l = t, d = t, s = t WHERE t = '2024-07-01 12:00'")
        each.execute(f"UPDATE {table} SET t = '2024-01-01' WHERE t::date = '2024-07-01' AND k = 4")
        with each.cursor().copy(f"COPY {table} FROM STDIN") as copy:
            copy.write("5\t2024-07-01 12:00\t2024-07-01 12:00\t\\N\ta\n6\t2024-07-01 12:00+00\t\\N\t\\N\tb\n")
        prepared = f"INSERT INTO {table} VALUES (7, $1, $2, $3, $4)"
        values = [b"2024-07-01 12:00", b"2024-07-01 12:00", b"2024-07-01", b"p"]
        each.pgconn.exec_params(prepared.encode(), values)
        each.execute(f"DELETE FROM {table} WHERE t = timestamp '2024-07-01 12:00' AND k = 5")
        with each.cursor().copy(f"COPY (SELECT * FROM {table} ORDER BY k) TO STDOUT") as copy:
            copied = b"".join(map(bytes, copy))
        returned = each.execute(f"UPDATE {table} SET s = 'z' WHERE k = 7 RETURNING t::date::text, t::text").fetchall()
        rows.append((copied, returned, ask(each, f"SELECT * FROM {table} ORDER BY k")))
    assert rows[0] == rows[1]
