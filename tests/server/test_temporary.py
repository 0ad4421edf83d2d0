"""Temporary tables: their session sees them and nobody else, and they go with it."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.waiting import eventually


def names(database) -> list[str]:
    return [each.name for each in database.engine.committed.catalog if each.temporary]


def test_a_temporary_table_is_its_sessions_own(database, connect, psql, table):
    one, two = connect(), connect()
    one.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v TEXT)")
    one.execute(f"INSERT INTO {table} VALUES (1, 'for all')")
    one.execute(f"CREATE VIEW {table}_v AS SELECT v FROM {table}")
    for connection in (one, two):
        text = "one" if connection is one else "two"
        assert connection.execute(f"CREATE TEMP TABLE {table} (id INT PRIMARY KEY, v TEXT DEFAULT 'x')").statusmessage
        connection.execute(f"INSERT INTO {table} (id, v) VALUES (%s, %s)", (7, text))
    for connection in (one, two):
        text = "one" if connection is one else "two"
        assert connection.execute(f"SELECT {table}.v FROM {table}").fetchall() == [(text,)]
        assert connection.execute(f"SELECT v FROM public.{table}").fetchall() == [("for all",)]
        assert connection.execute(f"SELECT v FROM {table}_v").fetchall() == [("for all",)]
    updated = one.execute(f"UPDATE {table} SET v = v || '!' WHERE {table}.id = 7 RETURNING {table}.v").fetchall()
    assert updated == [("one!",)]
    assert one.execute(f"INSERT INTO {table} (id) VALUES (8) RETURNING {table}.v").fetchall() == [("x",)]
    with one.cursor() as cursor:
        with cursor.copy(f"COPY {table} (id, v) FROM STDIN") as copy:
            copy.write_row((9, "copied"))
        with cursor.copy(f"COPY {table} TO STDOUT") as copy:
            assert sorted(copy.rows()) == [("7", "one!"), ("8", "x"), ("9", "copied")]
    assert one.execute(f"DELETE FROM {table} WHERE id IN (SELECT id FROM {table} WHERE id > 7)").rowcount == 2
    assert two.execute(f"SELECT id, v FROM {table}").fetchall() == [(7, "two")]
    with pytest.raises(psycopg.errors.DuplicateTable, match=f'table "{table}" already exists'):
        one.execute(f"CREATE TEMP TABLE {table} (id INT)")
    with pytest.raises(psycopg.errors.NotNullViolation, match=f'relation "{table}"'):
        one.execute(f"INSERT INTO {table} VALUES (NULL, 'x')")
    one.execute(f"DROP TABLE {table}")
    assert one.execute(f"SELECT v FROM {table}").fetchall() == [("for all",)]
    assert psql(f"SELECT v FROM {table}", f"SELECT 1 FROM pg_temp.{table}").stdout == "for all\n"


def test_what_the_catalogs_say(connect, psql, table):
    """psql's \\d finds the table that a query would read; others are told nothing."""
    listed = f"SELECT table_schema, table_type FROM information_schema.tables WHERE table_name = '{table}'"
    done = psql(
        f"CREATE TABLE {table} (a INT)", f"CREATE TEMP TABLE {table} (b NUMERIC(6,2) PRIMARY KEY)", f"\\d {table}",
        f"SELECT c.relpersistence FROM pg_class c WHERE c.oid = '{table}'::regclass", f"\\dt {table}", listed,
    )  # fmt: skip
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert f'Table "pg_temp.{table}"' not in lines  # rows only: the title is left out, the columns are not
    assert "b|numeric(6,2)||not null|" in lines and not any(line.startswith("a|") for line in lines)
    assert "t" in lines and f"pg_temp|{table}|table|root" in lines
    assert {"public|BASE TABLE", "pg_temp|LOCAL TEMPORARY"} <= set(lines)
    assert connect().execute(listed).fetchall() == [("public", "BASE TABLE")]


def test_it_goes_with_its_session(database, connect, table):
    connection = connect()
    connection.execute(f"CREATE TEMPORARY TABLE {table} AS SELECT x FROM generate_series(1, 3) s(x)")
    assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (3,)
    assert len([name for name in names(database) if name.startswith(table)]) == 1
    connection.execute("DISCARD ALL")
    assert not [name for name in names(database) if name.startswith(table)]
    connection.execute(f"CREATE TEMP TABLE {table} (a INT)")
    connection.execute(f"CREATE TEMP TABLE IF NOT EXISTS {table} (b INT)")
    connection.execute(f"ALTER TABLE {table} RENAME TO {table}_b")
    assert connection.execute(f"SELECT a FROM {table}_b").fetchall() == []
    connection.close()
    eventually(lambda: not [name for name in names(database) if name.startswith(table)])
    with pytest.raises(psycopg.errors.UndefinedTable):
        connect().execute(f"SELECT 1 FROM {table}_b")


def test_prepared_statements_mean_what_the_name_means_when_they_run(connect, table):
    connection = connect(prepare_threshold=0)
    connection.execute(f"CREATE TABLE {table} (id INT)")
    insert, select = f"INSERT INTO {table} VALUES (%s)", f"SELECT id FROM {table} WHERE id < %s"
    connection.execute(insert, (1,))
    connection.execute(f"CREATE TEMP TABLE {table} (id INT)")
    connection.execute(insert, (2,))
    with connection.pipeline():
        for each in (3, 4):
            connection.execute(insert, (each,))
    assert sorted(connection.execute(select, (9,)).fetchall()) == [(2,), (3,), (4,)]
    connection.execute(f"DROP TABLE {table}")
    assert connection.execute(select, (9,)).fetchall() == [(1,)]
