"""The tables of ``pg_catalog``, as far as clients ask for them."""

from __future__ import annotations

from collections.abc import Iterator

from headrace import config
from headrace.catalog import INDEX, MATERIALIZED_VIEW, VIEW, Relation
from headrace.serving.pg_catalog.absent import ABSENT
from headrace.serving.pg_catalog.relations import (
    KINDS,
    NAMESPACES,
    OWNER,
    Context,
    SystemRelation,
    column_numbers,
    has_key,
    is_required,
    key_oid,
    namespace_of,
    numbered,
    oid,
    rule_oid,
    schema_of,
    system_relation,
    type_modifier,
    type_oid,
)
from headrace.serving.wire.oids import PG_TYPES, size_of
from headrace.sql.dialect import RESERVED
from headrace.sql.indexes import key_text
from headrace.sql.names import DATABASE
from headrace.sql.parse import index_statement
from headrace.types import SqlType, quote_sql

HEAP, BTREE, DEFAULT_SPACE = 2, 403, 1663
CLASS_OID, CONSTRAINT_OID, TYPE_OID, REWRITE_OID = 1259, 2606, 1247, 2618
"""Of pg_class and others, by which comments say what they are on"""


def _class(context: Context) -> Iterator[tuple]:
    indexed = {id for relation in context.shown.of_kind(INDEX) for id in relation.depends_on}
    for relation in context.shown:
        index = relation.kind == INDEX
        yield class_row(
            oid(relation), relation.name, KINDS[relation.kind], BTREE if index else HEAP,
            len(relation.visible_columns), context.live_rows(relation), relation.id in indexed or has_key(relation),
            relation.kind == VIEW, namespace=namespace_of(relation), temporary=relation.temporary,
            populated=not relation.creating,
        )  # fmt: skip
        if has_key(relation):
            yield class_row(
                key_oid(relation), f"{relation.name}_pkey", "i", BTREE, len(relation.pk),
                context.live_rows(relation), False, False, namespace=namespace_of(relation),
                temporary=relation.temporary,
            )  # fmt: skip


def class_row(
    number: int, name: str, kind: str, method: int, columns: int, rows: int, indexed: bool, rules: bool,
    *, namespace: int, temporary: bool = False, populated: bool = True,
) -> tuple:  # fmt: skip
    return (
        number, name, namespace, 0, 0, OWNER, method, 0, 0, 0, float(rows), 0, 0, indexed, False,
        "t" if temporary else "p", kind, columns, 0,
        rules, False, False, False, False, populated, "d", False, None, None, None, 0, 0,
    )  # fmt: skip


def _attribute(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        for number, column in numbered(relation):
            yield attribute_row(
                oid(relation), column.name, number, column.type,
                required=is_required(relation, column),
                default=column.default is not None or column.generated is not None,
                generated=column.generated is not None,
            )  # fmt: skip
        if has_key(relation):
            for number, key in enumerate(relation.pk, 1):
                yield attribute_row(key_oid(relation), key.name, number, relation.column(key.name).type)


def attribute_row(
    relation: int, name: str, number: int, kind: SqlType, *, required: bool = False, default: bool = False,
    generated: bool = False,
) -> tuple:  # fmt: skip
    return (
        relation, name, type_oid(kind), -1, size_of(kind), number, 0, -1, type_modifier(kind),
        required, default, "", "s" if generated else "", False, True, 0, None, None, False, "", None, 0, "p",
    )  # fmt: skip


def _defaults(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        for number, column in numbered(relation):
            text = column.default if column.generated is None else column.generated
            if text is not None:
                yield oid(relation) * 1000 % 2**31 + number, oid(relation), number, text


def _index(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        if has_key(relation):
            keys = column_numbers(relation, [key.name for key in relation.pk])
            yield _index_row(key_oid(relation), oid(relation), keys, len(keys), [0] * len(keys), key=True)
        if relation.kind == INDEX:
            table = context.shown.relations[relation.depends_on[0]]
            statement = index_statement(relation.definition)
            names = [key.name for key in statement.keys]
            options = [2 * key.nulls_first + key.descending for key in statement.keys]
            others = [name for name in statement.include or () if name not in names]
            yield _index_row(
                oid(relation), oid(table), column_numbers(table, [*names, *others]), len(names), options, key=False,
                valid=not relation.creating,
            )  # fmt: skip


def _index_row(
    number: int, table: int, columns: list[int], keys: int, options: list[int], *, key: bool, valid: bool = True
) -> tuple:
    return (
        number, table, len(columns), keys, key, key, False, True, False, valid, False, valid, True, False, columns,
        [0] * keys, [0] * keys, " ".join(map(str, options)), None, None,
    )  # fmt: skip


def _constraint(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        if has_key(relation):
            columns = column_numbers(relation, [key.name for key in relation.pk])
            yield (
                key_oid(relation), f"{relation.name}_pkey", namespace_of(relation), "p", False, False, True,
                oid(relation), 0, key_oid(relation), 0, 0, " ", " ", " ", True, 0, True, columns, None, None, None,
                None, None, CONSTRAINT_OID,
            )  # fmt: skip


def _types(context: Context) -> Iterator[tuple]:
    for each in PG_TYPES.values():
        kind = "p" if each.category == "P" else "b"
        yield _type_row(each.oid, each.pg_name, each.size, kind, each.category, 0, each.array_oid)
        yield _type_row(each.array_oid, f"_{each.pg_name}", -1, "b", "A", each.oid, 0)
    for number, name, size, category in (
        (26, "oid", 4, "N"), (19, "name", 64, "S"), (705, "unknown", -2, "X"), (114, "json", -1, "U"),
    ):  # fmt: skip
        yield _type_row(number, name, size, "b", category, 0, 0)


def _type_row(number: int, name: str, size: int, kind: str, category: str, element: int, array: int) -> tuple:
    prefix = "array_" if element else name  # by which drivers tell an array
    functions = tuple(prefix + each for each in ("in", "out", "recv", "send"))
    return (
        number, name, NAMESPACES["pg_catalog"], OWNER, size, size in (1, 2, 4, 8), kind, category, False, True, ",", 0,
        element, array, *functions, "-", False, 0, -1, 0, 0, None, "i",
        "p", None, TYPE_OID,
    )  # fmt: skip


def _namespaces(context: Context) -> Iterator[tuple]:
    for name, number in context.namespaces.items():
        yield number, name, OWNER, None


def _database(context: Context) -> Iterator[tuple]:
    yield 1, DATABASE, OWNER, 6, "c", False, True, -1, "C", "C", DEFAULT_SPACE, None, None


def _roles(context: Context) -> Iterator[tuple]:
    yield context.user, True, True, True, True, True, False, -1, None, None, True, None, OWNER


def _user(context: Context) -> Iterator[tuple]:
    yield context.user, OWNER, True, True, False, True, None, None, None


def _tables(context: Context) -> Iterator[tuple]:
    for relation in context.shown.of_kind("table", "source"):
        yield schema_of(relation), relation.name, context.user, None, has_key(relation), False, False, False


def _views(context: Context) -> Iterator[tuple]:
    for relation in context.shown.of_kind("view"):
        yield "public", relation.name, context.user, relation.definition


def _materialized_views(context: Context) -> Iterator[tuple]:
    for relation in context.shown.of_kind("materialized view"):
        yield "public", relation.name, context.user, None, False, not relation.creating, relation.definition


def _indexes(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        if has_key(relation):
            yield schema_of(relation), relation.name, f"{relation.name}_pkey", None, key_definition(relation)
        if relation.kind == INDEX:
            table = context.shown.relations[relation.depends_on[0]]
            yield "public", table.name, relation.name, None, index_definition(relation, context)


def key_definition(relation: Relation) -> str:
    """As pg_get_indexdef has it."""
    columns = ", ".join(quote_sql(key.name) for key in relation.pk)
    name = quote_sql(f"{relation.name}_pkey")
    return f"CREATE UNIQUE INDEX {name} ON public.{quote_sql(relation.name)} USING btree ({columns})"


def index_definition(index: Relation, context: Context) -> str:
    """The same of an index; psql shows what follows USING."""
    table = context.shown.relations[index.depends_on[0]]
    statement = index_statement(index.definition)
    keys = ", ".join(map(key_text, statement.keys))
    include = f" INCLUDE ({', '.join(map(quote_sql, statement.include))})" if statement.include else ""
    return f"CREATE INDEX {quote_sql(index.name)} ON public.{quote_sql(table.name)} USING btree ({keys}){include}"


def _descriptions(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        if relation.comment is not None:
            yield oid(relation), CLASS_OID, 0, relation.comment
        for number, column in numbered(relation):
            if column.comment is not None:
                yield oid(relation), CLASS_OID, number, column.comment


def _settings(context: Context) -> Iterator[tuple]:
    for name, value in sorted(context.settings.items()):
        parameter = config.PARAMETERS[name]
        default, changed = parameter.show(parameter.default), "configuration file" if parameter.system else "session"
        yield (
            name,
            value,
            None,
            "Headrace",
            config.PARAMETERS[name].description,
            "user",
            "string",
            "default" if value == default else changed,
            default,
            default,
        )


def _activity(context: Context) -> Iterator[tuple]:
    """The session that asks; those of others are their own business."""
    name = context.settings.get("application_name", "")
    yield (
        1, DATABASE, context.process, OWNER, context.user, name, None, None, None, None, None, None, None, None, None,
        "active", None, "client backend",
    )  # fmt: skip


def _table_statistics(context: Context) -> Iterator[tuple]:
    """How many rows there are is known; who read them is not counted."""
    for relation in context.shown.of_kind("table", "materialized view"):
        yield (
            oid(relation), schema_of(relation), relation.name, *(0,) * 8, context.live_rows(relation),
            0, 0, 0, None, None, None, None, 0, 0, 0, 0,
        )  # fmt: skip


def _tablespaces(context: Context) -> Iterator[tuple]:
    yield DEFAULT_SPACE, "pg_default", OWNER, None, None


def _rules(context: Context) -> Iterator[tuple]:
    """PostgreSQL has one for each view: its query."""
    for relation in context.shown.of_kind(VIEW, MATERIALIZED_VIEW):
        yield rule_oid(relation), "_RETURN", oid(relation), "1", True, REWRITE_OID


def _depend(context: Context) -> Iterator[tuple]:
    """By which clients find out what goes with what: the rule of a view is a part of it, and needs what it reads."""
    for relation in context.shown.of_kind(VIEW, MATERIALIZED_VIEW):
        rule = (REWRITE_OID, rule_oid(relation), 0, CLASS_OID)
        yield *rule, oid(relation), 0, "i"
        for upstream in context.upstream(relation):
            yield *rule, oid(upstream), 0, "n"


def _access_methods(context: Context) -> Iterator[tuple]:
    yield HEAP, "heap", "-", "t"
    yield BTREE, "btree", "-", "i"


RELATIONS: dict[str, SystemRelation] = {
    "pg_class": system_relation(
        """oid oid, relname text, relnamespace oid, reltype oid, reloftype oid, relowner oid, relam oid,
        relfilenode oid, reltablespace oid, relpages int, reltuples real, relallvisible int, reltoastrelid oid,
        relhasindex bool, relisshared bool, relpersistence text, relkind text, relnatts small, relchecks small,
        relhasrules bool, relhastriggers bool, relhassubclass bool, relrowsecurity bool, relforcerowsecurity bool,
        relispopulated bool, relreplident text, relispartition bool, relpartbound text, relacl texts,
        reloptions texts, relfrozenxid int, relminmxid int""",
        _class,
    ),
    "pg_attribute": system_relation(
        """attrelid oid, attname text, atttypid oid, attstattarget int, attlen small, attnum small, attndims int,
        attcacheoff int, atttypmod int, attnotnull bool, atthasdef bool, attidentity text, attgenerated text,
        attisdropped bool, attislocal bool, attinhcount int, attacl texts, attoptions texts, atthasmissing bool,
        attcompression text, attfdwoptions texts, attcollation oid, attstorage text""",
        _attribute,
    ),
    "pg_attrdef": system_relation("oid oid, adrelid oid, adnum small, adbin text", _defaults),
    "pg_index": system_relation(
        """indexrelid oid, indrelid oid, indnatts small, indnkeyatts small, indisunique bool, indisprimary bool,
        indisexclusion bool, indimmediate bool, indisclustered bool, indisvalid bool, indcheckxmin bool,
        indisready bool, indislive bool, indisreplident bool, indkey ints, indcollation ints, indclass ints,
        indoption text, indexprs text, indpred text""",
        _index,
    ),
    "pg_constraint": system_relation(
        """oid oid, conname text, connamespace oid, contype text, condeferrable bool, condeferred bool,
        convalidated bool, conrelid oid, contypid oid, conindid oid, conparentid oid, confrelid oid,
        confupdtype text, confdeltype text, confmatchtype text, conislocal bool, coninhcount int,
        connoinherit bool, conkey ints, confkey ints, conpfeqop ints, conppeqop ints, conffeqop ints, conbin text,
        tableoid oid""",
        _constraint,
    ),
    "pg_type": system_relation(
        """oid oid, typname text, typnamespace oid, typowner oid, typlen small, typbyval bool, typtype text,
        typcategory text, typispreferred bool, typisdefined bool, typdelim text, typrelid oid, typelem oid,
        typarray oid, typinput text, typoutput text, typreceive text, typsend text, typanalyze text,
        typnotnull bool, typbasetype oid, typtypmod int, typndims int, typcollation oid, typdefault text,
        typalign text, typstorage text, typacl texts, tableoid oid""",
        _types,
    ),
    "pg_namespace": system_relation("oid oid, nspname text, nspowner oid, nspacl texts", _namespaces),
    "pg_database": system_relation(
        """oid oid, datname text, datdba oid, encoding int, datlocprovider text, datistemplate bool,
        datallowconn bool, datconnlimit int, datcollate text, datctype text, dattablespace oid, daticulocale text,
        datacl texts""",
        _database,
    ),
    "pg_roles": system_relation(
        """rolname text, rolsuper bool, rolinherit bool, rolcreaterole bool, rolcreatedb bool, rolcanlogin bool,
        rolreplication bool, rolconnlimit int, rolpassword text, rolvaliduntil time, rolbypassrls bool,
        rolconfig texts, oid oid""",
        _roles,
    ),
    "pg_user": system_relation(
        """usename text, usesysid oid, usecreatedb bool, usesuper bool, userepl bool, usebypassrls bool,
        passwd text, valuntil time, useconfig texts""",
        _user,
    ),
    "pg_tables": system_relation(
        """schemaname text, tablename text, tableowner text, tablespace text, hasindexes bool, hasrules bool,
        hastriggers bool, rowsecurity bool""",
        _tables,
    ),
    "pg_views": system_relation("schemaname text, viewname text, viewowner text, definition text", _views),
    "pg_matviews": system_relation(
        """schemaname text, matviewname text, matviewowner text, tablespace text, hasindexes bool,
        ispopulated bool, definition text""",
        _materialized_views,
    ),
    "pg_indexes": system_relation(
        "schemaname text, tablename text, indexname text, tablespace text, indexdef text", _indexes
    ),
    "pg_tablespace": system_relation(
        "oid oid, spcname text, spcowner oid, spcacl texts, spcoptions texts", _tablespaces
    ),
    "pg_rewrite": system_relation(
        "oid oid, rulename text, ev_class oid, ev_type text, is_instead bool, tableoid oid", _rules
    ),
    "pg_depend": system_relation(
        "classid oid, objid oid, objsubid int, refclassid oid, refobjid oid, refobjsubid int, deptype text", _depend
    ),
    "pg_description": system_relation("objoid oid, classoid oid, objsubid int, description text", _descriptions),
    "pg_settings": system_relation(
        """name text, setting text, unit text, category text, short_desc text, context text, vartype text,
        source text, boot_val text, reset_val text""",
        _settings,
    ),
    "pg_am": system_relation("oid oid, amname text, amhandler text, amtype text", _access_methods),
    "pg_get_keywords": system_relation(
        "word text, catcode text, catdesc text", lambda context: [(word, "R", "reserved") for word in sorted(RESERVED)]
    ),
    **dict.fromkeys(
        ("pg_stat_user_tables", "pg_stat_all_tables"),
        system_relation(
            """relid oid, schemaname text, relname text, seq_scan big, seq_tup_read big, idx_scan big,
            idx_tup_fetch big, n_tup_ins big, n_tup_upd big, n_tup_del big, n_tup_hot_upd big, n_live_tup big,
            n_dead_tup big, n_mod_since_analyze big, n_ins_since_vacuum big, last_vacuum time, last_autovacuum time,
            last_analyze time, last_autoanalyze time, vacuum_count big, autovacuum_count big, analyze_count big,
            autoanalyze_count big""",
            _table_statistics,
        ),
    ),
    "pg_stat_activity": system_relation(
        """datid oid, datname text, pid int, usesysid oid, usename text, application_name text, client_addr text,
        client_hostname text, client_port int, backend_start time, xact_start time, query_start time,
        state_change time, wait_event_type text, wait_event text, state text, query text, backend_type text""",
        _activity,
    ),
} | ABSENT
