"""The system's tables and functions: what they hold, and that the queries of clients can be bound. No JVM."""

from __future__ import annotations

import pytest

from headrace.catalog import Catalog, Column, KeyColumn, Relation
from headrace.config import PARAMETERS
from headrace.errors import UndefinedRelation
from headrace.serving.pg_catalog.relations import Context, oid
from headrace.serving.pg_catalog.rewrite import SCHEMAS, resolve
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.state.manifest import Manifest
from headrace.types import SqlType, array_of

ORDERS = Relation(
    id=1,
    name="orders",
    kind="table",
    columns=(
        Column(name="id", type=SqlType("integer"), nullable=False),
        Column(name="price", type=SqlType("numeric", precision=10, scale=2), default="1", comment="in euros"),
        Column(name="tags", type=array_of(SqlType("varchar"))),
    ),
    pk=(KeyColumn(name="id"),),
    distribution=("id",),
    definition="CREATE TABLE orders (…)",
    comment="sold",
)
INDEX = Relation(
    id=2,
    name="by_price",
    kind="index",
    columns=ORDERS.columns,
    definition="create index by_price on orders (price desc)",
    depends_on=(1,),
)
VIEW = Relation(
    id=3, name="Seen", kind="view", columns=ORDERS.columns[:1], query='SELECT "id" FROM "orders"', depends_on=(1,)
)
KEPT = Relation(id=4, name="internal_5", kind="internal table", columns=ORDERS.columns, depends_on=(1,))
SUMS = Relation(id=5, name="sums", kind="materialized view", columns=ORDERS.columns[:2], depends_on=(4,), query="…")
BY_SUM = INDEX.replace(id=6, name="by_sum", definition="CREATE INDEX by_sum ON sums (price)", depends_on=(5,))
EVENTS = Relation(id=8, name="events", kind="source", columns=ORDERS.columns[:1], definition="CREATE SOURCE events")
SERVER = Relation(id=9, name="server", kind="source", columns=(), definition="CREATE SOURCE server")
FOLLOWS = ORDERS.replace(id=10, name="follows", depends_on=(9,))
OWN = ORDERS.replace(id=11, name="orders\0" + "7", temporary=True)
OTHERS = ORDERS.replace(id=12, name="orders\0" + "8", temporary=True)
CATALOG = Catalog()
for _relation in (ORDERS, INDEX, VIEW, KEPT, SUMS, BY_SUM, EVENTS, SERVER, FOLLOWS, OWN, OTHERS):
    CATALOG = CATALOG.add(_relation)
JOB = {
    "id": 9, "statement": "CREATE …", "fraction": 0.5, "started_at": 0, "state": "running", "error": None,
    "splits_done": 3, "splits_total": 10, "lag_bytes": 0, "lag_seconds": 0.5,
}  # fmt: skip
CONTEXT = Context(
    state=Manifest(catalog=CATALOG),
    settings={name: each.show(each.default) for name, each in PARAMETERS.items()},
    jobs=lambda: [JOB],
    owns=lambda relation: relation.id == OWN.id,
)


@pytest.mark.parametrize(
    ("schema", "name"), [(schema, name) for schema, relations in SCHEMAS.items() for name in relations]
)
def test_rows_fit_their_columns(schema, name):
    relation = SCHEMAS[schema][name]
    table = relation.table(CONTEXT)
    assert table.column_names == list(relation.columns)
    if relation.rows is not None and name != "rw_relation_runs":
        assert table.num_rows
    texts = [value for column in table.columns for value in column.to_pylist() if isinstance(value, str)]
    assert not any("\0" in text or text == KEPT.name for text in texts)


CLIENT_QUERIES = (
    # psql: \dt, \d name
    """SELECT n.nspname as "Schema", c.relname, CASE c.relkind WHEN 'r' THEN 'table' END as "Type",
         pg_catalog.pg_get_userbyid(c.relowner) as "Owner" FROM pg_catalog.pg_class c
       LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
       WHERE c.relkind IN ('r','p','') AND n.nspname !~ '^pg_toast'
         AND pg_catalog.pg_table_is_visible(c.oid) ORDER BY 1,2""",
    """SELECT c.oid FROM pg_catalog.pg_class c
       WHERE c.relname OPERATOR(pg_catalog.~) '^(t)$' COLLATE pg_catalog.default""",
    """SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod),
         (SELECT pg_catalog.pg_get_expr(d.adbin, d.adrelid, true) FROM pg_catalog.pg_attrdef d
          WHERE d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.atthasdef)
       FROM pg_catalog.pg_attribute a WHERE a.attrelid = '16385' AND a.attnum > 0 AND NOT a.attisdropped""",
    """SELECT CASE WHEN pol.polroles = '{0}' THEN NULL ELSE pg_catalog.array_to_string(array(select rolname from
         pg_catalog.pg_roles where oid = any (pol.polroles) order by 1),',') END FROM pg_catalog.pg_policy pol""",
    # drivers and tools
    "SELECT pg_catalog.version(), current_schema(), current_user, session_user, current_catalog",
    "SELECT typname FROM pg_type t WHERE t.oid = to_regtype('hstore')",
    "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class WHERE oid = 'orders'::regclass",
    "SELECT c.oid::regclass::text FROM pg_class c",
    "SELECT nspname FROM pg_namespace WHERE nspname NOT LIKE 'pg/_'::varchar || '%' ESCAPE '/'",
    "SELECT col_description(c.oid, 2), obj_description(c.oid, 'pg_class') FROM pg_class c",
    "SELECT table_name FROM information_schema.tables t JOIN rw_catalog.rw_tables r ON r.name = t.table_name",
    # JDBC: primary keys, indexes, and whether a type is an array
    """SELECT r.key_seq FROM (SELECT (information_schema._pg_expandarray(i.indkey)).n AS KEY_SEQ,
         information_schema._pg_expandarray(i.indkey) AS KEYS, i.indrelid AS rel FROM pg_catalog.pg_index i) r
       JOIN pg_attribute a ON a.attrelid = r.rel WHERE a.attnum = (r.KEYS).x""",
    """SELECT CASE i.indoption[1 - 1] & 1::smallint WHEN 1 THEN 'D' ELSE 'A' END, trim(both '"' from
         pg_catalog.pg_get_indexdef(i.indexrelid, 1, false)) FROM pg_index i""",
    "SELECT typinput = 'pg_catalog.array_in'::regproc AS is_array FROM pg_type WHERE oid = '1007'",
    "select string_agg(word, ',') from pg_catalog.pg_get_keywords() where word <> ALL ('{a,abs}'::text[])",
    "SELECT t.typname FROM pg_type t WHERE (n.nspname = ANY(current_schemas(true)))".replace("n.nspname", "'public'"),
    # dbt: what depends on what, grants, the catalog
    """select distinct c.relname from pg_class c join pg_depend d on d.refobjid = c.oid
       and d.classid = 'pg_rewrite'::regclass and d.refclassid = 'pg_class'::regclass and d.deptype = 'i'""",
    """select grantee, privilege_type from "dev".information_schema.role_table_grants
       where grantor = current_role and grantee != current_role and table_schema = 'public'""",
    "select 1 from pg_namespace sch where not pg_is_other_temp_schema(sch.oid)",
    # Grafana: the version, tables in the search path, columns of a table
    "SELECT current_setting('server_version_num')::int/100 as version",
    """SELECT CASE WHEN quote_ident(table_schema) IN (SELECT CASE WHEN trim(s[i]) = '"$user"' THEN user
         ELSE trim(s[i]) END FROM generate_series(1, array_upper(string_to_array(current_setting('search_path'), ','),
         1)) AS i, string_to_array(current_setting('search_path'), ',') s)
       THEN quote_ident(table_name) ELSE table_name END AS "table" FROM information_schema.tables""",
    """SELECT quote_ident(column_name) FROM information_schema.columns
       WHERE CASE WHEN array_length(parse_ident('public.x'), 1) = 2 THEN quote_ident(table_schema) =
         (parse_ident('public.x'))[1] ELSE quote_ident(table_name) = 'x' END""",
    # DBeaver: everything of a catalog table, with comments
    """SELECT c.oid, c.*, d.description, pg_catalog.pg_get_expr(c.relpartbound, c.oid) FROM pg_catalog.pg_class c
       LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid = c.oid AND d.objsubid = 0
         AND d.classoid = 'pg_class'::regclass WHERE c.relnamespace = 2200 AND c.relkind NOT IN ('i', 'I', 'c')""",
    """SELECT i.*, i.indkey AS keys, pg_catalog.pg_relation_size(i.indexrelid),
         pg_catalog.pg_stat_get_numscans(i.indexrelid) FROM pg_catalog.pg_index i WHERE i.indrelid = 16385""",
    "SELECT p.oid, p.*, pg_catalog.pg_get_expr(p.proargdefaults, 0) FROM pg_catalog.pg_proc p",
    "SELECT sa.* FROM pg_catalog.pg_stat_activity sa",
)


@pytest.mark.parametrize("sql", CLIENT_QUERIES)
def test_queries_of_clients_can_be_bound(sql):
    system = resolve(parse_query(sql), CONTEXT)
    bind_query(system.query, system.catalog)


def test_types_that_asyncpg_looks_up():
    """Its query is recursive, and so are parts of it; Spark is asked for what it comes to."""
    introspection = pytest.importorskip("asyncpg.introspection")
    for given, rows in (("CAST('{1007}' AS bigint[])", 2), ("CAST('{25}' AS bigint[])", 0), ("NULL", 0)):
        system = resolve(parse_query(introspection.INTRO_LOOKUP_TYPES_13.replace("$1", given)), CONTEXT)
        assert not system.tables
        bound = bind_query(system.query, system.catalog)
        assert bound.output[:3] == ("oid", "ns", "name") and bound.output[-1] == "range_subtype_name"
        assert system.query.sql().count("'pg_catalog'") == rows


def test_set_config_sets():
    told = []
    context = Context(
        state=Manifest(catalog=CATALOG), settings=CONTEXT.settings, assign=lambda *each: told.append(each)
    )
    resolve(parse_query("SELECT current_setting('jit'), set_config('jit', 'off', false)"), context)
    assert told == [("jit", "off")]


@pytest.mark.parametrize(
    "sql", ["SELECT id, lower('x') FROM orders", "SELECT * FROM ROWS FROM (generate_series(1, 2), unnest(ARRAY[3])) r"]
)
def test_other_queries_stay_what_they_are(sql):
    query = parse_query(sql)
    assert resolve(query, CONTEXT).query is query


def test_a_users_table_comes_before_one_of_the_system():
    mine = ORDERS.replace(id=70, name="pg_class")
    context = Context(state=Manifest(catalog=CATALOG.add(mine)))
    assert not resolve(parse_query("SELECT * FROM pg_class"), context).tables
    assert resolve(parse_query("SELECT * FROM pg_catalog.pg_class"), context).tables


def test_names_and_numbers_of_relations():
    (number,) = resolve(parse_query("SELECT 'public.orders'::regclass"), CONTEXT).query.expressions
    assert number.sql() == str(oid(ORDERS))
    for own in ("orders", "pg_temp.orders"):
        assert resolve(parse_query(f"SELECT '{own}'::regclass"), CONTEXT).query.expressions[0].sql() == str(oid(OWN))
    with pytest.raises(UndefinedRelation):
        resolve(parse_query("SELECT 'nowhere'::regclass"), CONTEXT)
