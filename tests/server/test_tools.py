"""What tools ask on their own account: psql's tab key, dbt, Grafana and DBeaver. The same kind of statements, run."""

from __future__ import annotations

import os
import pty
import shutil
from decimal import Decimal

import pytest

from tests.support.terminal import read_until


@pytest.fixture
def orders(connect, table) -> str:
    connection = connect()
    connection.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, at TIMESTAMPTZ, price NUMERIC(10,2), quantity INT)")
    connection.execute(f"CREATE INDEX {table}_quantity ON {table} (quantity DESC)")
    connection.execute(f"CREATE MATERIALIZED VIEW {table}_cheap AS SELECT id, price FROM {table} WHERE price < 10")
    connection.execute(f"INSERT INTO {table} SELECT x, '2026-01-01 00:00:00Z', x, x FROM generate_series(1, 9) s(x)")
    return table


# --- psql's tab key ---------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark_is_not_asked")
def test_psql_completes_names(server, orders):
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    child, terminal = pty.fork()
    if child == 0:
        os.environ.update(TERM="dumb", INPUTRC=os.devnull, PSQL_HISTORY=os.devnull)
        os.execvp("psql", ["psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(server.port), "-U", "root", "-d", "dev"])
    try:
        assert b"=> " in read_until(terminal, b"=> ", 30)
        for typed, completed in (
            (f"SELECT * FROM {orders}_ch", f"{orders}_cheap "),
            (f"SELECT * FROM {orders} WHERE quan", "quantity "),
            (f"UPDATE {orders} SET pri", "price "),
            (f"DROP MATERIALIZED VIEW {orders}_", "cheap "),
            (f"\\d {orders}_ch", f"{orders}_cheap "),
            ("SET background_", "background_ddl "),
            ("SELECT * FROM publ", "public."),
            ("SELECT * FROM pg_matv", "pg_matviews "),
            ("SELECT * FROM rw_catalog.rw_ddl", "rw_ddl_progress "),
            ("SELECT * FROM information_schema.key_c", "key_column_usage "),
            ("SELECT * FROM pg_matviews WHERE matviewo", "matviewowner "),
        ):
            os.write(terminal, typed.encode() + b"\t")
            shown = read_until(terminal, completed.encode(), 20)
            assert completed.encode() in shown, f"{typed!r} became {shown!r}"
            os.write(terminal, b"\x15\x03")  # forget the line
            read_until(terminal, b"=> ", 5)
    finally:
        os.write(terminal, b"\x15\\q\n")
        os.close(terminal)
        os.waitpid(child, 0)


# --- dbt --------------------------------------------------------------------------------------------------------------

COMMENT = '/* {{"app": "dbt"}} */\n'
LIST = """select 'dev' as database, tablename as name, schemaname as schema, 'table' as type from pg_tables
  where schemaname ilike 'public' union all select 'dev' as database, viewname as name, schemaname as schema,
  'view' as type from pg_views where schemaname ilike 'public' union all select 'dev' as database, matviewname as name,
  schemaname as schema, 'materialized_view' as type from pg_matviews where schemaname ilike 'public'"""


@pytest.mark.usefixtures("spark_is_not_asked")
def test_dbt_replaces_a_model(connect, orders):
    """A view, a table and a materialized view, made beside the old ones and then renamed."""
    connection = connect(autocommit=False)
    for _ in range(2):
        connection.execute(f'drop view if exists "dev"."public"."{orders}_v__dbt_tmp" cascade')
        connection.execute(
            f'{COMMENT}create view "dev"."public"."{orders}_v__dbt_tmp"\n as (\n select id from {orders});'
        )
        if _has(connection, f"{orders}_v"):
            connection.execute(f'alter table "dev"."public"."{orders}_v" rename to "{orders}_v__dbt_backup"')
        connection.execute(f'alter table "dev"."public"."{orders}_v__dbt_tmp" rename to "{orders}_v"')
        connection.commit()
        connection.execute(f'drop view if exists "dev"."public"."{orders}_v__dbt_backup" cascade')
        connection.execute(
            f'create  table "dev"."public"."{orders}_t__dbt_tmp"\n  as\n  (select id, price from {orders});'
        )
        connection.execute(f'drop table if exists "dev"."public"."{orders}_t" cascade')
        connection.execute(f'alter table "dev"."public"."{orders}_t__dbt_tmp" rename to "{orders}_t"')
        connection.commit()
    assert connection.execute(f'refresh materialized view "dev"."public"."{orders}_cheap"').statusmessage == (
        "REFRESH_MATERIALIZED_VIEW"
    )
    found = {(name, kind) for _, name, _, kind in connection.execute(LIST) if name.startswith(orders)}
    assert found == {
        (orders, "table"), (f"{orders}_t", "table"), (f"{orders}_v", "view"),
        (f"{orders}_cheap", "materialized_view"),
    }  # fmt: skip
    assert connection.execute(f'select count(*) from "dev"."public"."{orders}_t"').fetchone() == (9,)
    columns = connection.execute(
        f"""select column_name, data_type, numeric_precision, numeric_scale from "dev".INFORMATION_SCHEMA.columns
        where table_name = '{orders}_t' and table_schema = 'public' order by ordinal_position"""
    )
    assert columns.fetchall() == [("id", "integer", None, None), ("price", "numeric", 10, 2)]


def _has(connection, name: str) -> bool:
    return any(each == name for _, each, _, _ in connection.execute(LIST))


# --- Grafana ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark_is_not_asked")
def test_grafana_draws_a_series(connect, orders):
    connection = connect()
    assert connection.execute("SELECT current_setting('server_version_num')::int/100 as version").fetchone() == (1300,)
    points = connection.execute(
        f"""SELECT floor(extract(epoch from at)/60)*60 AS "time", avg(price) AS "price" FROM {orders}
        WHERE at BETWEEN '2025-12-31T00:00:00Z' AND '2026-01-02T00:00:00Z' GROUP BY 1 ORDER BY 1"""
    ).fetchall()
    assert [(int(time), Decimal(price)) for time, price in points] == [(1_767_225_600, 5)]
    tables = connection.execute(
        """SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user
             ELSE trim(s[i]) END FROM generate_series(array_lower(string_to_array(current_setting('search_path'), ','),
             1), array_upper(string_to_array(current_setting('search_path'), ','), 1)) AS i,
             string_to_array(current_setting('search_path'), ',') s)
           THEN quote_ident(table_name) ELSE quote_ident(table_schema) || '.' || quote_ident(table_name) END AS "table"
           FROM information_schema.tables WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog')"""
    )
    assert (orders,) in tables.fetchall()
    columns = connection.execute(
        f"""SELECT quote_ident(column_name) AS "column", data_type AS "type" FROM information_schema.columns
        WHERE CASE WHEN array_length(parse_ident('public.{orders}'), 1) = 2
          THEN quote_ident(table_schema) = (parse_ident('public.{orders}'))[1]
            AND quote_ident(table_name) = (parse_ident('public.{orders}'))[2]
          ELSE quote_ident(table_name) = '{orders}' END"""
    )
    assert ("at", "timestamp with time zone") in columns.fetchall()


# --- DBeaver ----------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("spark_is_not_asked")
def test_dbeaver_draws_its_tree(connect, orders):
    connection = connect()

    def ask(sql: str) -> list[dict]:
        cursor = connection.execute(sql)
        names = [column.name for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]

    databases = ask("SELECT db.oid, db.* FROM pg_catalog.pg_database db WHERE datallowconn AND NOT datistemplate")
    assert [each["datname"] for each in databases] == ["dev"]
    schemas = ask(
        """SELECT n.oid, n.*, d.description FROM pg_catalog.pg_namespace n LEFT OUTER JOIN pg_catalog.pg_description d
        ON d.objoid = n.oid AND d.objsubid = 0 AND d.classoid = 'pg_namespace'::regclass ORDER BY nspname"""
    )
    (public,) = (each["oid"] for each in schemas if each["nspname"] == "public")
    relations = ask(
        f"""SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) AS partition_expr,
        pg_catalog.pg_get_partkeydef(c.oid) AS partition_key FROM pg_catalog.pg_class c
        LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0
          AND d.classoid = 'pg_class'::regclass
        WHERE c.relnamespace = {public} AND c.relkind NOT IN ('i', 'I', 'c')"""
    )
    kinds = {each["relname"]: each["relkind"] for each in relations}
    assert kinds[orders] == "r" and kinds[f"{orders}_cheap"] == "m"
    (oid,) = (each["oid"] for each in relations if each["relname"] == orders)
    columns = ask(
        f"""SELECT c.relname, a.*, pg_catalog.pg_get_expr(ad.adbin, ad.adrelid, true) AS def_value, dsc.description
        FROM pg_catalog.pg_attribute a INNER JOIN pg_catalog.pg_class c ON (a.attrelid = c.oid)
        LEFT OUTER JOIN pg_catalog.pg_attrdef ad ON (a.attrelid = ad.adrelid AND a.attnum = ad.adnum)
        LEFT OUTER JOIN pg_catalog.pg_description dsc ON (c.oid = dsc.objoid AND a.attnum = dsc.objsubid)
        WHERE NOT a.attisdropped AND c.oid = {oid} ORDER BY a.attnum"""
    )
    assert [each["attname"] for each in columns] == ["id", "at", "price", "quantity"]
    indexes = ask(
        f"""SELECT i.*, i.indkey AS keys, c.relname, pg_catalog.pg_get_expr(i.indpred, i.indrelid) AS pred_expr,
        pg_catalog.pg_relation_size(i.indexrelid) AS size, pg_catalog.pg_stat_get_numscans(i.indexrelid) AS scans
        FROM pg_catalog.pg_index i INNER JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid
        WHERE i.indrelid = {oid} ORDER BY c.relname"""
    )
    assert [(each["relname"], each["keys"]) for each in indexes] == [
        (f"{orders}_pkey", [1]),
        (f"{orders}_quantity", [4]),
    ]
    keys = ask(f"SELECT c.oid, c.*, pg_get_constraintdef(c.oid) AS d FROM pg_constraint c WHERE c.conrelid = {oid}")
    assert [each["d"] for each in keys] == ["PRIMARY KEY (id)"]
    assert ask("SELECT sa.* FROM pg_catalog.pg_stat_activity sa")[0]["usename"] == "root"


def test_what_depends_on_what(connect, orders):
    """Views of aggregates and joins, too, which keep tables of their own in between that nobody is told of."""
    connection = connect()
    for name, query in (
        ("sums", f"SELECT quantity, sum(price) FROM {orders} GROUP BY quantity"),
        ("both", f"SELECT o.id, c.price FROM {orders} o JOIN {orders}_cheap c USING (id)"),
    ):
        connection.execute(f"CREATE MATERIALIZED VIEW {orders}_{name} AS {query}")
    connection.execute(f"CREATE VIEW {orders}_v AS SELECT id FROM {orders}_both")
    wanted = {
        (f"{orders}_cheap", orders), (f"{orders}_sums", orders), (f"{orders}_both", orders),
        (f"{orders}_both", f"{orders}_cheap"), (f"{orders}_v", f"{orders}_both"),
    }  # fmt: skip
    rules = connection.execute(
        """SELECT DISTINCT v.relname, t.relname FROM pg_class v
        JOIN pg_depend i ON i.refobjid = v.oid AND i.classid = 'pg_rewrite'::regclass
          AND i.refclassid = 'pg_class'::regclass AND i.deptype = 'i'
        JOIN pg_depend n ON n.objid = i.objid AND n.classid = 'pg_rewrite'::regclass AND n.refobjid <> i.refobjid
        JOIN pg_rewrite r ON r.oid = i.objid AND r.ev_class = v.oid
        JOIN pg_class t ON t.oid = n.refobjid WHERE v.relname LIKE %s""",
        (f"{orders}%",),
    )
    assert set(rules.fetchall()) == wanted
    relations = "rw_catalog.rw_relations"
    pairs = {"rw_depend": "x.objid, x.refobjid", "rw_fragments": "x.table_id, unnest(x.upstream_fragment_ids)"}
    for table, below in pairs.items():
        found = connection.execute(
            f"""SELECT v.name, t.name FROM (SELECT {below} FROM rw_catalog.{table} x) AS p (id, ref)
            JOIN {relations} v ON v.id = p.id JOIN {relations} t ON t.id = p.ref
            WHERE v.name LIKE '{orders}_%' AND v.relation_type LIKE '%view'"""
        ).fetchall()
        # a view has no fragment: it holds nothing
        assert set(found) == {pair for pair in wanted if table == "rw_depend" or pair[0] != f"{orders}_v"}


def test_what_fragments_there_are(connect, orders):
    rows = connect().execute(
        f"""SELECT f.name, f.flags, u.name FROM rw_catalog.rw_fragments f
        LEFT JOIN rw_catalog.rw_relations u ON u.id = ANY(f.upstream_fragment_ids)
        WHERE f.name LIKE '{orders}%' ORDER BY f.name"""
    )
    assert rows.fetchall() == [
        (orders, ["TABLE"], None),
        (f"{orders}_cheap", ["MVIEW"], orders),
        (f"{orders}_quantity", ["INDEX"], orders),
    ]
