"""Jobs as clients see them: in SHOW JOBS and in rw_catalog, under one number, by which they are cancelled."""

from __future__ import annotations

import threading

import psycopg
import pytest

from tests.support.waiting import eventually

PROGRESS = """
    SELECT p.ddl_id, p.create_type, p.progress, p.state, v.name, v.create_status FROM rw_ddl_progress p
    JOIN rw_materialized_views v ON v.id = p.ddl_id WHERE v.name LIKE %s"""


@pytest.fixture
def held(connect, table) -> psycopg.Connection:
    """A session whose jobs do not begin, and a table with rows."""
    connection = connect(options="-c background_ddl=true -c backfill_rate_limit=0")
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)")
    connection.execute(f"INSERT INTO {table} VALUES (1, 10), (2, 20), (3, NULL)")
    return connection


@pytest.mark.usefixtures("spark_is_not_asked")
def test_what_is_being_filled(held, table):
    statement = f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id FROM {table}"
    held.execute(statement)
    cursor = held.execute(f"SHOW JOBS LIKE '{table}%'")
    assert [column.name for column in cursor.description[:4]] == ["Id", "Statement", "Create Type", "Progress"]
    ((id, *shown),) = cursor.fetchall()
    assert shown == [statement, "BACKGROUND", "0.0%", "paused", 0, 3, *(None,) * 6]
    (progress,) = held.execute(PROGRESS, (f"{table}%",)).fetchall()
    assert progress == (id, "BACKGROUND", "0.00%", "paused", f"{table}_v", "CREATING")
    by_name = f"SELECT id FROM rw_relations WHERE name = '{table}_v'"
    assert held.execute(by_name).fetchall() == [(id,)]
    assert held.execute(f"CANCEL JOBS {progress[0]}").fetchall() == [(id,)]
    assert held.execute(f"SHOW JOBS LIKE '{table}%'").fetchall() == held.execute(by_name).fetchall() == []


def test_who_waits_for_a_create_is_told_that_it_was_cancelled(held, connect, table):
    waiting, told = connect(options="-c backfill_rate_limit=0"), []

    def create() -> None:
        with pytest.raises(psycopg.errors.QueryCanceled) as caught:
            waiting.execute(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id FROM {table}")
        told.append(str(caught.value))

    thread = threading.Thread(target=create)
    thread.start()
    ((id, kind, *_),) = eventually(lambda: held.execute(PROGRESS, (f"{table}%",)).fetchall())
    assert kind == "FOREGROUND"
    held.execute(f"CANCEL JOB {id}")
    thread.join(60)
    assert told == [f"job {id} was cancelled"]


@pytest.mark.usefixtures("spark_is_not_asked")
def test_sources_and_indexes(held, table):
    held.execute(f"CREATE SOURCE {table}_s (id bigint) WITH (connector = 'datagen')")
    held.execute(f"CREATE INDEX {table}_n ON {table} (n DESC)")
    ((id, connector),) = held.execute(f"SELECT id, connector FROM rw_sources WHERE name = '{table}_s'").fetchall()
    assert connector == "datagen"
    assert held.execute(f"SELECT relation_type FROM rw_relations WHERE id = {id}").fetchall() == [("source",)]
    indexes = f"""
        SELECT i.name, c.name, p.state FROM rw_indexes i JOIN rw_tables t ON t.id = i.primary_table_id
        JOIN rw_columns c ON c.relation_id = t.id AND c.position = ANY(i.key_columns)
        JOIN rw_ddl_progress p ON p.ddl_id = i.id WHERE t.name = '{table}'"""
    assert held.execute(indexes).fetchall() == [(f"{table}_n", "n", "paused")]
    held.execute(f"DROP SOURCE {table}_s; DROP TABLE {table} CASCADE")
