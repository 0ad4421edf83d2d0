"""Results that are larger than what the server, or a task of Spark's, may hold."""

from __future__ import annotations

import time

import psycopg
import pytest

from headrace.state import cuts

ROWS = 400_000
ORDERED = f"SELECT x, repeat('x', 60) || x FROM generate_series(1, {ROWS}) s(x) ORDER BY x DESC"
"""About 30 MB, in two partitions"""
CUT_BYTES = 100_000
LARGEST_PART = 4_000_000
"""A part is at least a batch of Arrow's: 32,768 rows."""


@pytest.fixture
def answers(database, monkeypatch) -> list[int]:
    """How many bytes each answer of a task had, with cuts so small that nearly all rows wait in files."""
    sizes: list[int] = []

    def parts_of(answer, storage):
        sizes.append(len(answer))
        return cuts.parts_of(answer, storage)

    monkeypatch.setattr("headrace.engine.streams.parts_of", parts_of)
    monkeypatch.setattr(database.engine.streams, "cut_bytes", CUT_BYTES)
    return sizes


@pytest.fixture
def parts(monkeypatch) -> list[int]:
    """How many bytes the server held at a time."""
    sizes: list[int] = []

    def parts_of(answer, storage):
        for part in cuts.parts_of(answer, storage):
            sizes.append(len(part))
            yield part

    monkeypatch.setattr("headrace.engine.streams.parts_of", parts_of)
    return sizes


def waiting_files(database) -> list[str]:
    return [entry.name for entry in database.engine.storage.list(cuts.RESULTS)]


def test_a_result_that_is_larger_than_the_bound(database, connect, answers):
    expected = ROWS
    with connect().cursor() as cursor:
        for number, text in cursor.stream(ORDERED):
            assert number == expected and text == "x" * 60 + str(number)
            expected -= 1
    assert expected == 0
    assert len(answers) > 8 and max(answers) < 200, "tasks answered rows, not names of files"
    assert waiting_files(database) == []


def test_a_result_of_one_partition_by_a_cursor(database, connect, answers, table):
    connection = connect(autocommit=False)
    connection.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, text VARCHAR)")
    connection.execute(f"INSERT INTO {table} SELECT x, repeat('y', 200) FROM generate_series(1, 100000) s(x)")
    connection.commit()
    with connection.cursor("all") as cursor:
        cursor.execute(f"SELECT id, text FROM {table} WHERE id > 10")
        first = cursor.fetchmany(5)
        assert waiting_files(database), "what the client did not ask for yet waits in files"
        assert database.engine.maintenance.vacuum() >= 0
        assert sorted(id for id, _ in [*first, *cursor]) == list(range(11, 100_001))
    assert max(answers) < LARGEST_PART
    connection.commit()
    assert waiting_files(database) == []


@pytest.mark.parametrize("how", ["close", "disconnect", "rollback"])
def test_what_an_abandoned_result_leaves_goes(database, connect, answers, how):
    connection = connect(autocommit=False)
    cursor = connection.cursor("left")
    cursor.execute(ORDERED)
    assert cursor.fetchone()[0] == ROWS
    assert waiting_files(database)
    if how == "close":
        cursor.close()
    elif how == "disconnect":
        connection.close()
    else:
        connection.rollback()
    deadline = time.monotonic() + 20
    while waiting_files(database) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert waiting_files(database) == []


def test_small_results_need_no_files(connect, answers, database):
    before = next(database.engine.streams._numbers)
    rows = connect().execute("SELECT x FROM generate_series(1, 1000) s(x) ORDER BY x").fetchall()
    assert rows == [(number,) for number in range(1, 1001)]
    # Tasks of an earlier one, which was cancelled, may leave some even now.
    later = [name for name in waiting_files(database) if int(name.partition("-")[0].partition(".")[2]) > before]
    assert sum(answers) > 1000 and later == []


def test_copy_streams(connect, answers):
    with connect().cursor() as cursor, cursor.copy(f"COPY ({ORDERED}) TO STDOUT") as rows:
        assert sum(bytes(data).count(b"\n") for data in rows) == ROWS
    assert max(answers) < 200


def test_parts_are_bounded_however_wide_the_rows(connect, parts):
    wide = "SELECT repeat('x', 100000) || x FROM generate_series(1, 400) s(x)"
    with connect().cursor() as cursor:
        assert sum(len(text) > 100_000 for (text,) in cursor.stream(wide)) == 400
    assert sum(parts) > 40_000_000 and max(parts) < 5_000_000


def test_what_reads_nothing_starts_no_job(connect, parts):
    """Pools ask SELECT 1 all the time, and should be answered while Spark is busy."""
    connection = connect()
    for sql in ("SELECT 1, 'a' || 'b'", "SELECT version(), current_schema(), now() IS NULL", "SELECT NULL::int[]"):
        assert len(connection.execute(sql).fetchall()) == 1
    with pytest.raises(psycopg.errors.DivisionByZero):
        connection.execute("SELECT 1 / 0")
    assert parts == []
    with pytest.raises(psycopg.errors.DatetimeFieldOverflow, match="years 1 to 9999"):
        connection.execute("SELECT date '9999-12-31' + 1")
    twice = connection.execute("SELECT x AS a, x AS a FROM generate_series(1, 2) s(x) ORDER BY 1")
    assert twice.fetchall() == [(1, 1), (2, 2)] and parts
