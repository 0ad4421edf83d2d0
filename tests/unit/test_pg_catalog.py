"""The system's tables and functions: what they hold, and that the queries of clients can be bound. No JVM."""

from __future__ import annotations

import pytest

from headrace.catalog import Catalog, Column, KeyColumn, Relation
from headrace.config import PARAMETERS
from headrace.errors import UndefinedFunction, UndefinedRelation, Unsupported
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
BY_SUM = INDEX.replace(
    id=6, name="by_sum", definition="CREATE INDEX by_sum ON sums (price)", columns=SUMS.columns, depends_on=(5,)
)
EVENTS = Relation(
    id=8, name="events", kind="source", columns=ORDERS.columns[:1], definition="CREATE SOURCE events",
    options=(("connector", "kafka"), ("topic", "t")),
)  # fmt: skip
SERVER = Relation(id=9, name="server", kind="source", columns=(), definition="CREATE SOURCE server")
FOLLOWS = ORDERS.replace(id=10, name="follows", depends_on=(9,))
OWN = ORDERS.replace(id=11, name="orders\0" + "7", temporary=True)
OTHERS = ORDERS.replace(id=12, name="orders\0" + "8", temporary=True)
CATALOG = Catalog()
for _relation in (ORDERS, INDEX, VIEW, KEPT, SUMS, BY_SUM, EVENTS, SERVER, FOLLOWS, OWN, OTHERS):
    CATALOG = CATALOG.add(_relation)
JOB = {
    "id": 9, "statement": "CREATE …", "background": True, "fraction": 0.5, "started_at": 0, "state": "running",
    "error": None, "splits_done": 3, "splits_total": 10, "lag_bytes": 0, "lag_seconds": 0.5,
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


def test_settings_tell_defaults_from_what_was_set():
    context = Context(state=CONTEXT.state, settings={**CONTEXT.settings, "jit": "on", "retention": "1h"})
    rows = SCHEMAS["pg_catalog"]["pg_settings"].table(context).to_pylist()
    found = {row["name"]: (row["setting"], row["boot_val"], row["reset_val"], row["source"]) for row in rows}
    assert found["jit"] == ("on", "off", "off", "session")
    assert found["retention"] == ("1h", "10min", "10min", "configuration file")
    assert found["timezone"] == ("UTC", "UTC", "UTC", "default")


def test_what_is_being_filled_is_not_populated():
    filling = SUMS.replace(id=20, name="filling", creating=True)
    context = Context(state=Manifest(catalog=CATALOG.add(filling)))
    rows = SCHEMAS["pg_catalog"]["pg_class"].table(context).to_pylist()
    found = {row["relname"]: row["relispopulated"] for row in rows}
    assert found["filling"] is False and found[SUMS.name] is True


def test_the_key_of_a_view_may_be_null():
    columns = (Column(name="item", type=SqlType("varchar")), Column(name="n", type=SqlType("bigint")))
    groups = SUMS.replace(id=20, name="groups", columns=columns, pk=(KeyColumn(name="item"),))
    keyed = ORDERS.replace(id=21, name="keyed", columns=columns, pk=(KeyColumn(name="item"),))
    context = Context(state=Manifest(catalog=CATALOG.add(groups).add(keyed)))

    def told(schema: str, name: str, whose: str, required: str, *relations: object) -> list[list]:
        rows = SCHEMAS[schema][name].table(context).to_pylist()
        return [[row[required] for row in rows if row[whose] == relation] for relation in relations]

    assert told("pg_catalog", "pg_attribute", "attrelid", "attnotnull", oid(groups), oid(keyed)) == [
        [False, False], [True, False]
    ]  # fmt: skip
    assert told("information_schema", "columns", "table_name", "is_nullable", "groups", "keyed") == [
        ["YES", "YES"], ["NO", "YES"]
    ]  # fmt: skip
    assert told("rw_catalog", "rw_columns", "relation_id", "is_nullable", groups.id, keyed.id) == [
        [True, True], [False, True]
    ]  # fmt: skip


def test_the_server_started_once():
    first, second = (resolve(parse_query("SELECT pg_postmaster_start_time()"), CONTEXT).query.sql() for _ in range(2))
    assert first == second and "now" not in first.lower()


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
    # Metabase: fields (of materialized views, too), tables, privileges, indexes
    """SELECT c.column_name AS name, CASE WHEN c.udt_schema IN ('public', 'pg_catalog') THEN FORMAT('%s',
         c.udt_name) ELSE FORMAT('"%s"."%s"', c.udt_schema, c.udt_name) END AS "database-type", c.ordinal_position -
         1 AS "database-position", c.table_schema AS "table-schema", c.table_name AS "table-name", pk.column_name IS
         NOT NULL AS "pk?", COL_DESCRIPTION(CAST(CAST(FORMAT('%I.%I', CAST(c.table_schema AS TEXT), CAST(c.table_name
         AS TEXT)) AS REGCLASS) AS OID), c.ordinal_position) AS "field-comment", ((column_default IS NULL) OR
         (LOWER(column_default) = 'null')) AND (is_nullable = 'NO') AND NOT (((column_default IS NOT NULL) AND
         (column_default LIKE '%nextval(%')) OR (is_identity <> 'NO')) AS "database-required", ((column_default IS
         NOT NULL) AND (column_default LIKE '%nextval(%')) OR (is_identity <> 'NO') AS "database-is-auto-increment"
         FROM information_schema.columns AS c LEFT JOIN (SELECT tc.table_schema, tc.table_name, kc.column_name FROM
         information_schema.table_constraints AS tc INNER JOIN information_schema.key_column_usage AS kc ON
         (tc.constraint_name = kc.constraint_name) AND (tc.table_schema = kc.table_schema) AND (tc.table_name =
         kc.table_name) WHERE tc.constraint_type = 'PRIMARY KEY') AS pk ON (c.table_schema = pk.table_schema) AND
         (c.table_name = pk.table_name) AND (c.column_name = pk.column_name) WHERE c.table_schema !~
         '^information_schema|catalog_history|pg_' AND (c.table_schema IN ('public')) ORDER BY "table-schema" ASC,
         "table-name" ASC, "database-position" ASC""",
    """SELECT pa.attname AS name, CASE WHEN ptn.nspname IN ('public','pg_catalog') THEN FORMAT('%s', pt.typname)
         ELSE FORMAT('"%s"."%s"', ptn.nspname, pt.typname) END AS "database-type", pa.attnum - 1 AS
         "database-position", pn.nspname AS "table-schema", pc.relname AS "table-name", FALSE AS "pk?", NULL AS
         "field-comment" FROM pg_catalog.pg_class AS pc INNER JOIN pg_catalog.pg_namespace AS pn ON pn.oid =
         pc.relnamespace INNER JOIN pg_catalog.pg_attribute AS pa ON pa.attrelid = pc.oid INNER JOIN
         pg_catalog.pg_type AS pt ON pt.oid = pa.atttypid INNER JOIN pg_catalog.pg_namespace AS ptn ON ptn.oid =
         pt.typnamespace WHERE (pc.relkind = 'm') AND (pa.attnum >= 1) AND pn.nspname = 'public'""",
    """SELECT n.nspname AS schema, c.relname AS name, CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN
         'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' WHEN 'm' THEN 'MATERIALIZED VIEW'
         ELSE NULL END AS type, d.description AS description, NULLIF(stat.n_live_tup, 0) AS estimated_row_count FROM
         pg_catalog.pg_class AS c INNER JOIN pg_catalog.pg_namespace AS n ON c.relnamespace = n.oid LEFT JOIN
         pg_catalog.pg_description AS d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
         LEFT JOIN pg_stat_user_tables AS stat ON n.nspname = stat.schemaname AND c.relname = stat.relname WHERE
         c.relnamespace = n.oid AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND c.relkind IN
         ('r','p','v','f','m') AND n.nspname IN ('public') ORDER BY type ASC, schema ASC, name ASC""",
    """with table_privileges as (select NULL as role, t.schemaname as schema, t.objectname as table,
         pg_catalog.has_any_column_privilege(current_user, '"' || replace(t.schemaname, '"', '""') || '"' || '.' ||
         '"' || replace(t.objectname, '"', '""') || '"', 'update') as update,
         pg_catalog.has_table_privilege(current_user, '"' || t.schemaname || '"."' || t.objectname || '"', 'DELETE')
         as delete from (select schemaname, tablename as objectname from pg_catalog.pg_tables union select
         schemaname, viewname as objectname from pg_views union select schemaname, matviewname as objectname from
         pg_matviews) t where t.schemaname !~ '^pg_' and t.schemaname <> 'information_schema' and
         pg_catalog.has_schema_privilege(current_user, t.schemaname, 'usage')) select t.* from table_privileges t
         where t.delete or t.update""",
    """SELECT fk_ns.nspname AS "fk-table-schema", fk_table.relname AS "fk-table-name", fk_column.attname AS
         "fk-column-name", pk_ns.nspname AS "pk-table-schema" FROM pg_constraint AS c INNER JOIN pg_class AS fk_table
         ON c.conrelid = fk_table.oid INNER JOIN pg_namespace AS fk_ns ON c.connamespace = fk_ns.oid INNER JOIN
         pg_attribute AS fk_column ON c.conrelid = fk_column.attrelid INNER JOIN pg_class AS pk_table ON c.confrelid
         = pk_table.oid INNER JOIN pg_namespace AS pk_ns ON pk_table.relnamespace = pk_ns.oid INNER JOIN pg_attribute
         AS pk_column ON c.confrelid = pk_column.attrelid WHERE fk_ns.nspname !~ '^information_schema$|^pg_' AND
         c.contype = 'f'::"char" AND fk_column.attnum = ANY(c.conkey) AND pk_column.attnum = ANY(c.confkey) ORDER BY
         fk_ns.nspname ASC""",
    """SELECT tmp.table_schema AS "table-schema", tmp.table_name AS "table-name", TRIM(BOTH '"' FROM
         PG_CATALOG.PG_GET_INDEXDEF(tmp.ci_oid, tmp.pos, FALSE)) AS "field-name" FROM (SELECT n.nspname AS
         table_schema, ct.relname AS table_name, ci.oid AS ci_oid, (information_schema._PG_EXPANDARRAY(i.indkey)).n
         AS pos FROM pg_catalog.pg_class AS ct INNER JOIN pg_catalog.pg_namespace AS n ON ct.relnamespace = n.oid
         INNER JOIN pg_catalog.pg_index AS i ON ct.oid = i.indrelid INNER JOIN pg_catalog.pg_class AS ci ON ci.oid =
         i.indexrelid WHERE (pg_catalog.PG_GET_EXPR(i.indpred, i.indrelid) IS NULL) AND n.nspname !~
         '^information_schema|catalog_history|pg_') AS tmp WHERE tmp.pos = 1""",
    # DBeaver: types, constraints, indexes, what depends on a table
    """SELECT t.oid,t.*,c.relkind,format_type(nullif(t.typbasetype, 0), t.typtypmod) as base_type_name,
         d.description FROM pg_catalog.pg_type t LEFT OUTER JOIN pg_catalog.pg_type et ON et.oid=t.typelem LEFT OUTER
         JOIN pg_catalog.pg_class c ON c.oid=t.typrelid LEFT OUTER JOIN pg_catalog.pg_description d ON t.oid=d.objoid
         WHERE t.typname IS NOT NULL AND (c.relkind IS NULL OR c.relkind = 'c') AND (et.typcategory IS NULL OR
         et.typcategory <> 'C')""",
    """SELECT c.oid,c.*,t.relname as tabrelname,rt.relnamespace as refnamespace,d.description, case when
         c.contype='c' then "substring"(pg_get_constraintdef(c.oid), 7) else null end consrc_copy FROM
         pg_catalog.pg_constraint c INNER JOIN pg_catalog.pg_class t ON t.oid=c.conrelid LEFT OUTER JOIN
         pg_catalog.pg_class rt ON rt.oid=c.confrelid LEFT OUTER JOIN pg_catalog.pg_description d ON d.objoid=c.oid
         AND d.objsubid=0 AND d.classoid='pg_constraint'::regclass WHERE c.conrelid=16385 ORDER BY c.oid""",
    """SELECT i.*,i.indkey as keys,c.relname,c.relnamespace,c.relam,c.reltablespace,tc.relname as
         tabrelname,dsc.description,pg_catalog.pg_get_expr(i.indpred, i.indrelid) as
         pred_expr,pg_catalog.pg_get_expr(i.indexprs, i.indrelid, true) as
         expr,pg_catalog.pg_relation_size(i.indexrelid) as
         index_rel_size,pg_catalog.pg_stat_get_numscans(i.indexrelid) as index_num_scans FROM pg_catalog.pg_index i
         INNER JOIN pg_catalog.pg_class c ON c.oid=i.indexrelid INNER JOIN pg_catalog.pg_class tc ON
         tc.oid=i.indrelid LEFT OUTER JOIN pg_catalog.pg_description dsc ON i.indexrelid=dsc.objoid WHERE
         i.indrelid=16385 ORDER BY tabrelname, c.relname""",
    """SELECT DISTINCT n.nspname, c.relname, a.attname FROM pg_depend d JOIN pg_rewrite r ON d.objid = r.oid JOIN
         pg_class c ON r.ev_class = c.oid LEFT JOIN pg_attribute a ON d.refobjid = a.attrelid AND d.refobjsubid =
         a.attnum JOIN pg_namespace n ON n.oid = c.relnamespace WHERE d.refobjid = 16385""",
    """SELECT a.oid,a.*,pd.description FROM pg_catalog.pg_roles a left join pg_catalog.pg_shdescription pd on a.oid
         = pd.objoid ORDER BY a.rolname""",
    # Grafana: the first table with a time; Tableau: columns
    """SELECT quote_ident(table_name) as table_name,( SELECT quote_ident(column_name) as column_name FROM
         information_schema.columns c WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND
         udt_name IN ('timestamptz','timestamp') ORDER BY ordinal_position LIMIT 1) AS time_column, ( SELECT
         quote_ident(column_name) AS column_name FROM information_schema.columns c WHERE c.table_schema =
         t.table_schema AND c.table_name = t.table_name AND udt_name='float8' ORDER BY ordinal_position LIMIT 1) AS
         value_column FROM information_schema.tables t WHERE table_schema = 'public' AND EXISTS( SELECT 1 FROM
         information_schema.columns c WHERE c.table_schema = t.table_schema AND c.table_name = t.table_name AND
         udt_name IN ('timestamptz','timestamp')) LIMIT 1""",
    """select NULL, n.nspname, c.relname, a.attname, a.atttypid, t.typname, a.attnum, a.attlen, a.atttypmod,
         a.attnotnull, c.relhasrules, c.relkind, c.oid, pg_get_expr(d.adbin, d.adrelid), case t.typtype when 'd' then
         t.typbasetype else 0 end, t.typtypmod, 0, attidentity, c.relhassubclass from (((pg_catalog.pg_class c inner
         join pg_catalog.pg_namespace n on n.oid = c.relnamespace and c.relname = 'orders' and n.nspname = 'public')
         inner join pg_catalog.pg_attribute a on (not a.attisdropped) and a.attnum > 0 and a.attrelid = c.oid) inner
         join pg_catalog.pg_type t on t.oid = a.atttypid) left outer join pg_attrdef d on a.atthasdef and d.adrelid =
         a.attrelid and d.adnum = a.attnum order by n.nspname, c.relname, attnum""",
)


@pytest.mark.parametrize("sql", CLIENT_QUERIES)
def test_queries_of_clients_can_be_bound(sql):
    system = resolve(parse_query(sql), CONTEXT)
    bind_query(system.query, system.catalog)


def test_types_that_asyncpg_looks_up():
    """Its query is recursive, and so are parts of it; Spark is asked for what it comes to."""
    introspection = pytest.importorskip("asyncpg.introspection")
    for given, rows in (("CAST('{1007}' AS bigint[])", 2), ("CAST('{26}' AS bigint[])", 0), ("NULL", 0)):
        system = resolve(parse_query(introspection.INTRO_LOOKUP_TYPES_13.replace("$1", given)), CONTEXT)
        assert not system.tables
        bound = bind_query(system.query, system.catalog)
        assert bound.output[:3] == ("oid", "ns", "name") and bound.output[-1] == "range_subtype_name"
        assert system.query.sql().count("'pg_catalog'") == rows


def test_functions_of_risingwave():
    (status,) = resolve(parse_query("SELECT rw_recovery_status()"), CONTEXT).query.expressions
    assert status.alias == "rw_recovery_status" and "'RUNNING'" in status.sql()
    with pytest.raises(UndefinedFunction, match=r"function rw_vnode\(\) does not exist") as caught:
        resolve(parse_query("SELECT id, RW_VNODE(256, id) FROM orders"), CONTEXT)
    assert caught.value.hint == "of RisingWave's own functions there are rw_recovery_status, rw_version"
    assert caught.value.position == 12


def test_set_config_sets():
    told = []
    context = Context(
        state=Manifest(catalog=CATALOG), settings=CONTEXT.settings, assign=lambda *each: told.append(each)
    )
    resolve(parse_query("SELECT current_setting('jit'), set_config('jit', 'off', false)"), context)
    resolve(parse_query("SELECT set_config('jit', CAST('on' AS text), CAST('f' AS boolean))"), context)
    assert told == [("jit", "off"), ("jit", "on")]
    for refused in ("upper('off'), false", "NULL, false", "'off', true"):
        with pytest.raises(Unsupported):
            resolve(parse_query(f"SELECT set_config('jit', {refused})"), context)
    with pytest.raises(UndefinedFunction):
        resolve(parse_query("SELECT set_config('jit')"), context)


def test_set_config_that_is_only_looked_at_sets_nothing():
    """As when a client asks for the columns of what it has prepared: its parameters have no values yet."""
    context = Context(state=Manifest(catalog=CATALOG), settings=CONTEXT.settings)
    system = resolve(parse_query("SELECT set_config(CAST(NULL AS text), CAST(NULL AS text), false) AS c"), context)
    bound = bind_query(system.query, system.catalog)
    assert bound.output == ("c",) and bound.types[0].name == "varchar"


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


@pytest.mark.parametrize(("name", "schema"), [("pg_class", "pg_catalog"), ("rw_tables", "rw_catalog")])
def test_names_without_a_schema(name, schema):
    assert resolve(parse_query(f"SELECT * FROM {name}"), CONTEXT).tables
    own = f"WITH {name} AS (SELECT 1 AS a) SELECT a FROM {name}"
    assert not resolve(parse_query(own), CONTEXT).tables
    numbers = [
        resolve(parse_query(f"SELECT '{each}'::regclass"), CONTEXT).query.sql() for each in (name, f"{schema}.{name}")
    ]
    assert numbers[0] == numbers[1]
    assert not resolve(parse_query("SELECT * FROM schemata"), CONTEXT).tables  # nobody searches information_schema


def test_relations_have_the_numbers_of_jobs():
    def column(name: str, *columns: str) -> list[tuple]:
        rows = SCHEMAS["rw_catalog"][name].table(CONTEXT).select(columns).to_pylist()
        return [tuple(row.values()) for row in rows]

    assert column("rw_ddl_progress", "ddl_id") == column("rw_cdc_progress", "job_id") == [(JOB["id"],)]
    assert (SERVER.id, "server") in column("rw_relations", "id", "name")
    assert column("rw_sources", "id", "connector") == [(EVENTS.id, "kafka"), (SERVER.id, None)]
    assert column("rw_indexes", "id", "primary_table_id", "key_columns", "include_columns") == [
        (INDEX.id, ORDERS.id, [2], [1, 3]), (BY_SUM.id, SUMS.id, [2], [1]),
    ]  # fmt: skip
    assert (BY_SUM.id, SUMS.id) in column("rw_depend", "objid", "refobjid")
    assert (SUMS.id, [SUMS.id], [ORDERS.id]) in column(
        "rw_fragments", "table_id", "state_table_ids", "upstream_fragment_ids"
    )
    assert (SUMS.id, "price", 2) in column("rw_columns", "relation_id", "name", "position")


@pytest.mark.parametrize(("background", "type"), [(True, "BACKGROUND"), (False, "FOREGROUND"), (None, None)])
def test_how_a_job_was_begun(background, type):
    context = Context(state=CONTEXT.state, jobs=lambda: [JOB | {"background": background}])
    (row,) = SCHEMAS["rw_catalog"]["rw_ddl_progress"].table(context).to_pylist()
    assert row["create_type"] == type and list(row)[:4] == ["ddl_id", "ddl_statement", "create_type", "progress"]


def test_names_and_numbers_of_relations():
    (number,) = resolve(parse_query("SELECT 'public.orders'::regclass"), CONTEXT).query.expressions
    assert number.sql() == str(oid(ORDERS))
    for own in ("orders", "pg_temp.orders"):
        assert resolve(parse_query(f"SELECT '{own}'::regclass"), CONTEXT).query.expressions[0].sql() == str(oid(OWN))
    with pytest.raises(UndefinedRelation):
        resolve(parse_query("SELECT 'nowhere'::regclass"), CONTEXT)
