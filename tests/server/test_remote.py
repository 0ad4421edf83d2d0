"""A server in place of an engine: the Python API and the shell with a URL."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal

import pytest

import headrace
from headrace import cli
from headrace.errors import HeadraceError, InvalidParameterValue
from headrace.intervals import Interval


@pytest.fixture
def url(server) -> str:
    return f"postgresql://root@127.0.0.1:{server.port}/dev"


def test_values_are_those_of_an_engine(url, database):
    query = """SELECT 12.50::numeric(10,2), 'NaN'::float8, '-inf'::float8, 1e300::float8, 0.1::real, NULL::int,
        '-1 day -02:03:04.5'::interval, date '2026-02-03', '\\xdead'::bytea, true, 'it''s',
        '{"b": 1, "a": [true]}'::jsonb,
        12345678901234567890.5::numeric(38,10)"""
    with headrace.connect(url) as remote:
        (row,) = remote.sql(query).rows()
    (local,) = database.sql(query).rows()
    assert [str(value) if value != value else value for value in row] == [
        str(value) if value != value else value for value in local
    ], "of NaN even a copy is not equal"
    assert row[0] == Decimal("12.50") and math.isnan(row[1]) and row[6] == Interval(0, -1, -7_384_500_000)
    assert row[7] == date(2026, 2, 3) and row[8] == b"\xde\xad"


def test_statements_and_errors(url, table):
    with headrace.connect(url) as remote:
        remote.sql(f"CREATE TABLE {table} (id INT PRIMARY KEY); INSERT INTO {table} VALUES (1), (2)")
        tags = [result.tag for result in remote.execute(f"SELECT 1; SELECT id FROM {table}; DELETE FROM {table}")]
        assert tags == ["SELECT 1", "SELECT 2", "DELETE 2"]
        with pytest.raises(HeadraceError, match='column "nothing" does not exist') as caught:
            remote.sql(f"SELECT nothing FROM {table}")
        assert (caught.value.sqlstate, caught.value.position) == ("42703", 8)
        assert any(each["name"] == table for each in remote.status()["relations"])
    with pytest.raises(InvalidParameterValue, match="has its engine already"):
        headrace.connect(url, takeover=True)


def test_the_shell(url, capsys):
    assert (
        cli.main(
            ["sql", "--url", url, "-c", "SELECT 1.50::numeric(4,2) AS n, '{1,NULL}'::int[] AS a", "-c", "SHOW JOBS"]
        )
        == 0
    )
    shown = capsys.readouterr().out
    assert " 1.50 | {1,NULL}" in shown and "(0 rows)" in shown
    assert cli.main(["sql", "--url", url, "-c", "SELECT * FROM nowhere"]) == 1
    assert 'relation "nowhere" does not exist' in capsys.readouterr().err
    assert cli.main(["sql", "--url", "postgresql://root:secret@127.0.0.1:1/dev", "-c", "SELECT 1"]) == 1
    told = capsys.readouterr().err
    assert "cannot connect to 127.0.0.1:1/dev" in told and "secret" not in told
