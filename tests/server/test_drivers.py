"""Other clients: psycopg2, asyncpg, SQLAlchemy's reflection, and the system's own tables."""

from __future__ import annotations

import asyncio
from datetime import date, time, timedelta
from decimal import Decimal
from uuid import UUID

import pytest


def test_psycopg2(dsn, table):
    psycopg2 = pytest.importorskip("psycopg2")
    connection = psycopg2.connect(dsn)
    cursor = connection.cursor()
    cursor.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n varchar, x numeric(10,2))")
    cursor.executemany(f"INSERT INTO {table} VALUES (%s, %s, %s)", [(1, "a", Decimal("1.5")), (2, None, None)])
    connection.commit()
    cursor.execute(f"SELECT * FROM {table} WHERE id = ANY(%s) ORDER BY id", ([1, 2],))
    assert cursor.fetchall() == [(1, "a", Decimal("1.50")), (2, None, None)]
    connection.rollback()
    connection.close()


def test_asyncpg(server, table):
    asyncpg = pytest.importorskip("asyncpg")

    async def talk() -> None:
        connection = await asyncpg.connect(f"postgresql://root@127.0.0.1:{server.port}/dev")
        await connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n varchar, x numeric(10,2))")
        await connection.executemany(
            f"INSERT INTO {table} VALUES ($1, $2, $3)", [(n, f"n{n}", Decimal(n)) for n in range(10)]
        )
        assert await connection.fetchval(f"SELECT n FROM {table} WHERE id = $1", 3) == "n3"
        rows = await connection.fetch(f"SELECT * FROM {table} WHERE id BETWEEN $1 AND $2 ORDER BY id LIMIT $3", 2, 8, 2)
        assert [tuple(row) for row in rows] == [(2, "n2", Decimal(2)), (3, "n3", Decimal(3))]
        async with connection.transaction():
            cursor = connection.cursor(f"SELECT id FROM {table} ORDER BY id", prefetch=3)
            assert [row["id"] async for row in cursor] == list(range(10))
        with pytest.raises(asyncpg.exceptions.UndefinedTableError):
            await connection.fetch("SELECT * FROM nowhere")
        await connection.close()

    asyncio.run(talk())


@pytest.mark.usefixtures("spark_is_not_asked")
def test_asyncpg_with_arrays(server, table):
    asyncpg = pytest.importorskip("asyncpg")

    async def talk() -> None:
        connection = await asyncpg.connect(f"postgresql://root@127.0.0.1:{server.port}/dev")
        await connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, numbers int[], words varchar[], d date[])")
        days = [date(2026, 1, 1), None]
        async with connection.transaction():  # it looks types up inside, too
            await connection.execute(f"INSERT INTO {table} VALUES ($1, $2, $3, $4)", 1, [1, None], ["a,b", "c"], days)
        assert await connection.fetchrow(f"SELECT * FROM {table} WHERE id = ANY($1)", [1, 2]) == (
            1, [1, None], ["a,b", "c"], days,
        )  # fmt: skip
        assert await connection.fetchval("SELECT ARRAY[1.5, 2.5]::numeric[]") == [Decimal("1.5"), Decimal("2.5")]
        assert await connection.fetchval("SELECT ARRAY[ARRAY[1, 2], ARRAY[3, 4]]") == [[1, 2], [3, 4]]
        nested = [[1, 2], [3, None]]
        assert await connection.fetchval("SELECT $1::int[]", nested) == nested
        rows = [(2, [5, None], ["x"]), (3, [], None)]
        await connection.copy_records_to_table(table, records=rows, columns=["id", "numbers", "words"])
        assert await connection.fetch(f"SELECT id, numbers, words FROM {table} WHERE id > 1 ORDER BY id") == rows
        await connection.close()

    asyncio.run(talk())


def test_asyncpg_with_uuids(server, table):
    asyncpg = pytest.importorskip("asyncpg")
    drawn = [UUID(int=number << 100) for number in range(4)]

    async def talk() -> None:
        connection = await asyncpg.connect(f"postgresql://root@127.0.0.1:{server.port}/dev")
        await connection.execute(f"CREATE TABLE {table} (id uuid PRIMARY KEY, others uuid[])")
        await connection.executemany(f"INSERT INTO {table} VALUES ($1, $2)", [(each, [each, None]) for each in drawn])
        assert await connection.fetchval(f"SELECT others FROM {table} WHERE id = $1", drawn[2]) == [drawn[2], None]
        rows = await connection.fetch(f"SELECT id FROM {table} WHERE id = ANY($1::uuid[]) ORDER BY id DESC", drawn[1:])
        assert [row["id"] for row in rows] == drawn[:0:-1]
        records = [(UUID(int=1), None)]
        await connection.copy_records_to_table(table, records=records, columns=["id", "others"])
        assert await connection.fetchval(f"SELECT count(*) FROM {table} WHERE id < $1", drawn[1]) == 2
        await connection.close()

    asyncio.run(talk())


def test_asyncpg_with_times(server, table):
    asyncpg = pytest.importorskip("asyncpg")
    given = [time(0), time(4, 5, 6, 789), time(23, 59, 59, 999_999)]

    async def talk() -> None:
        connection = await asyncpg.connect(f"postgresql://root@127.0.0.1:{server.port}/dev")
        await connection.execute(f"CREATE TABLE {table} (t time PRIMARY KEY, others time[])")
        await connection.executemany(f"INSERT INTO {table} VALUES ($1, $2)", [(each, [each, None]) for each in given])
        assert await connection.fetchval(f"SELECT others FROM {table} WHERE t = $1", given[1]) == [given[1], None]
        rows = await connection.fetch(f"SELECT t FROM {table} WHERE t = ANY($1::time[]) ORDER BY t DESC", given[1:])
        assert [row["t"] for row in rows] == given[:0:-1]
        assert await connection.fetchval(f"SELECT max(t - $1) FROM {table}", time(23)) == timedelta(
            minutes=59, seconds=59, microseconds=999_999
        )
        moved = await connection.fetchval(f"SELECT t + $1 FROM {table} WHERE t = $2", timedelta(hours=20), given[1])
        assert moved == time(0, 5, 6, 789)
        await connection.copy_records_to_table(table, records=[(time(12), None)], columns=["t", "others"])
        assert await connection.fetchval(f"SELECT count(*) FROM {table} WHERE t <= $1", time(12)) == 3
        await connection.close()

    asyncio.run(talk())


@pytest.mark.usefixtures("spark_is_not_asked")
def test_sqlalchemy_reflects(server, table):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://root@127.0.0.1:{server.port}/dev")
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                f"CREATE TABLE {table} (id int, at timestamptz, n varchar DEFAULT 'x', PRIMARY KEY (at, id))"
            )
        )
        connection.execute(sqlalchemy.text(f"CREATE INDEX {table}_n ON {table} (n)"))
        connection.execute(sqlalchemy.text(f"CREATE MATERIALIZED VIEW {table}_v AS SELECT id, n FROM {table}"))
    inspector = sqlalchemy.inspect(engine)
    assert table in inspector.get_table_names()
    assert f"{table}_v" in inspector.get_materialized_view_names()
    columns = {column["name"]: column for column in inspector.get_columns(table)}
    assert str(columns["id"]["type"]) == "INTEGER" and not columns["id"]["nullable"]
    assert columns["at"]["type"].timezone and columns["n"]["default"] == "'x'"
    assert inspector.get_pk_constraint(table)["constrained_columns"] == ["at", "id"]
    assert [index["column_names"] for index in inspector.get_indexes(table)] == [["n"]]
    everything = sqlalchemy.MetaData()
    everything.reflect(engine, views=True)
    assert {table, f"{table}_v"} & {*everything.tables} and len(everything.tables[table].indexes) == 1
    reflected = sqlalchemy.Table(table, sqlalchemy.MetaData(), autoload_with=engine)
    with engine.begin() as connection:
        connection.execute(reflected.insert(), [{"id": 1, "at": "2026-01-01T00:00:00Z", "n": "a"}])
        assert connection.execute(sqlalchemy.select(reflected.c.id, reflected.c.n)).fetchall() == [(1, "a")]
    engine.dispose()


def test_system_tables_can_be_queried(connect, table):
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id int PRIMARY KEY, n varchar)")
    connection.execute(f"INSERT INTO {table} VALUES (1, 'a')")

    def one(sql: str) -> tuple:
        return connection.execute(sql).fetchone()

    assert one(f"SELECT table_type FROM information_schema.tables WHERE table_name = '{table}'") == ("BASE TABLE",)
    columns = f"SELECT column_name, data_type FROM information_schema.columns WHERE table_name = '{table}' ORDER BY 1"
    assert connection.execute(columns).fetchall() == [("id", "integer"), ("n", "character varying")]
    assert one(f"SELECT row_count FROM rw_catalog.rw_tables WHERE name = '{table}'") == (1,)
    assert one("SELECT count(*) FROM rw_catalog.rw_ddl_progress") == (0,)
    assert one(f"SELECT relname FROM pg_class WHERE oid = '{table}'::regclass") == (table,)
    assert one("SELECT current_database(), current_schema(), current_user") == ("dev", "public", "root")
    assert one("SELECT version()")[0].startswith("PostgreSQL 13.14")
    assert one("SHOW server_version") == ("13.14.0",)


def test_the_shell_on_a_server(server, table, capsys):
    from headrace.cli import main

    url = ["sql", "--url", f"postgresql://root@127.0.0.1:{server.port}/dev"]
    create = f"CREATE TABLE {table} (id INT PRIMARY KEY, a INT[], j JSONB)"
    assert main([*url, "-c", create, "-c", f"INSERT INTO {table} VALUES (1, ARRAY[1, NULL], '{{\"b\": 1}}')"]) == 0
    assert main([*url, "-c", f"SELECT * FROM {table}; SHOW background_ddl", "--format", "csv"]) == 0
    assert capsys.readouterr().out == (
        'CREATE_TABLE\nINSERT 0 1\nid,a,j\n1,"{1,NULL}","{""b"": 1}"\nbackground_ddl\nfalse\n'
    )
    assert main([*url, "-c", "SELECT nothing"]) == 1
    assert "LINE 1: SELECT nothing" in capsys.readouterr().err
    assert main(["sql", "--url", "postgresql://root@127.0.0.1:1/dev", "-c", "SELECT 1"]) == 1
