"""``information_schema``, which is standard SQL's, and ``rw_catalog``, which is RisingWave's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

from headrace.catalog import INDEX, MATERIALIZED_VIEW, SOURCE, TABLE, VIEW, Relation
from headrace.serving.pg_catalog.relations import (
    NAMESPACES,
    OWNER,
    Context,
    SystemRelation,
    has_key,
    is_required,
    namespace_of,
    numbered,
    schema_of,
    system_relation,
)
from headrace.serving.progress import create_type
from headrace.serving.wire.oids import pg_type
from headrace.sql.names import DATABASE
from headrace.sql.parse import index_statement
from headrace.state.vnode import VNODES
from headrace.types import SqlType

_TABLE_TYPES = {TABLE: "BASE TABLE", SOURCE: "BASE TABLE", VIEW: "VIEW", MATERIALIZED_VIEW: "MATERIALIZED VIEW"}


def shown_type(kind: SqlType) -> str:
    return "ARRAY" if kind.name == "array" else pg_type(kind).shown


def _length(kind: SqlType) -> int | None:
    return kind.modifier - 4 if kind.name == "varchar" and kind.modifier not in (None, -1) else None


def _digits(kind: SqlType) -> tuple[int | None, int | None, int | None]:
    """Of a numeric all of them, and those of its fraction; of a time, those of the fraction of a second."""
    if kind.name == "time":
        return None, None, 6 if kind.precision is None else kind.precision
    return (kind.precision, kind.scale, None) if kind.name == "numeric" else (None, None, None)


def _tables(context: Context) -> Iterator[tuple]:
    for relation in context.shown.of_kind(*_TABLE_TYPES):
        writable = "YES" if relation.kind == TABLE else "NO"
        kind = "LOCAL TEMPORARY" if relation.temporary else _TABLE_TYPES[relation.kind]
        yield DATABASE, schema_of(relation), relation.name, kind, writable


def _columns(context: Context) -> Iterator[tuple]:
    for relation in context.shown.of_kind(*_TABLE_TYPES):
        for number, column in numbered(relation):
            kind = column.type
            nullable = "NO" if is_required(relation, column) else "YES"
            inner = kind
            while inner.name == "array":  # arrays of arrays have no type of their own
                inner = inner.element
            pg_name = ("_" if kind.name == "array" else "") + pg_type(inner).pg_name
            generated = ("ALWAYS", column.generated) if column.generated is not None else ("NEVER", None)
            yield (
                DATABASE, schema_of(relation), relation.name, column.name, number, column.default, nullable,
                shown_type(kind), _length(kind), *_digits(kind), DATABASE, "pg_catalog", pg_name,
                "NO", *generated, "YES",
            )  # fmt: skip


def _views(context: Context) -> Iterator[tuple]:
    for relation in context.shown.of_kind(VIEW):
        yield DATABASE, "public", relation.name, relation.definition, "NONE", "NO", "NO"


def _schemata(context: Context) -> Iterator[tuple]:
    for name in context.namespaces:
        yield DATABASE, name, context.user


def _table_constraints(context: Context) -> Iterator[tuple]:
    for relation in filter(has_key, context.shown):
        name = f"{relation.name}_pkey"
        schema = schema_of(relation)
        yield DATABASE, schema, name, DATABASE, schema, relation.name, "PRIMARY KEY", "NO", "NO"


def _key_columns(context: Context) -> Iterator[tuple]:
    for relation in filter(has_key, context.shown):
        for number, key in enumerate(relation.pk, 1):
            name, schema = f"{relation.name}_pkey", schema_of(relation)
            yield DATABASE, schema, name, DATABASE, schema, relation.name, key.name, number, None


INFORMATION_SCHEMA: dict[str, SystemRelation] = {
    "tables": system_relation(
        "table_catalog text, table_schema text, table_name text, table_type text, is_insertable_into text", _tables
    ),
    "columns": system_relation(
        """table_catalog text, table_schema text, table_name text, column_name text, ordinal_position int,
        column_default text, is_nullable text, data_type text, character_maximum_length int, numeric_precision int,
        numeric_scale int, datetime_precision int, udt_catalog text, udt_schema text, udt_name text,
        is_identity text, is_generated text, generation_expression text, is_updatable text""",
        _columns,
    ),
    "views": system_relation(
        """table_catalog text, table_schema text, table_name text, view_definition text, check_option text,
        is_updatable text, is_insertable_into text""",
        _views,
    ),
    "schemata": system_relation("catalog_name text, schema_name text, schema_owner text", _schemata),
    "table_constraints": system_relation(
        """constraint_catalog text, constraint_schema text, constraint_name text, table_catalog text,
        table_schema text, table_name text, constraint_type text, is_deferrable text, initially_deferred text""",
        _table_constraints,
    ),
    "key_column_usage": system_relation(
        """constraint_catalog text, constraint_schema text, constraint_name text, table_catalog text,
        table_schema text, table_name text, column_name text, ordinal_position int,
        position_in_unique_constraint int""",
        _key_columns,
    ),
    "referential_constraints": system_relation(
        """constraint_catalog text, constraint_schema text, constraint_name text, unique_constraint_schema text,
        unique_constraint_name text, match_option text, update_rule text, delete_rule text"""
    ),
    "constraint_column_usage": system_relation(
        "table_schema text, table_name text, column_name text, constraint_schema text, constraint_name text"
    ),
    **dict.fromkeys(
        ("role_table_grants", "table_privileges"),
        system_relation(
            """grantor text, grantee text, table_catalog text, table_schema text, table_name text,
            privilege_type text, is_grantable text, with_hierarchy text"""
        ),
    ),
    "check_constraints": system_relation("constraint_schema text, constraint_name text, check_clause text"),
    "view_table_usage": system_relation(
        "view_schema text, view_name text, table_catalog text, table_schema text, table_name text"
    ),
    "enabled_roles": system_relation("role_name text", lambda context: [(context.user,)]),
    "domains": system_relation("domain_schema text, domain_name text, data_type text"),
    "parameters": system_relation("specific_schema text, specific_name text, parameter_name text, data_type text"),
    "routines": system_relation("routine_schema text, routine_name text, routine_type text, data_type text"),
    "sequences": system_relation("sequence_schema text, sequence_name text, data_type text"),
    "triggers": system_relation("trigger_schema text, trigger_name text, event_object_table text"),
}


# --- RisingWave ---------------------------------------------------------------------------------------------------


# Its relations have the numbers that Headrace itself gives them: jobs have those, too. Only pg_catalog adds to them.


def _of_kind(kind: str) -> Callable[[Context], Iterator[tuple]]:
    return lambda context: (_defined(relation, context) for relation in context.shown.of_kind(kind))


def _defined(relation: Relation, context: Context) -> tuple:
    return (
        relation.id, relation.name, namespace_of(relation), OWNER, relation.definition, relation.append_only,
        "CREATING" if relation.creating else "CREATED", relation.created_epoch, context.live_rows(relation),
        context.stored_bytes(relation),
    )  # fmt: skip


def _rw_sources(context: Context) -> Iterator[tuple]:
    for source in context.shown.of_kind(SOURCE):
        yield *_defined(source, context), dict(source.options).get("connector")


def _rw_columns(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        keys = {key.name for key in relation.pk}
        for number, column in enumerate(relation.columns, 1):
            yield (
                relation.id, column.name, number, column.hidden, column.name in keys,
                column.name in relation.distribution, column.generated is not None, not is_required(relation, column),
                str(column.type),
            )  # fmt: skip


def _rw_indexes(context: Context) -> Iterator[tuple]:
    for relation in context.shown.of_kind(INDEX):
        table = context.shown.relations[relation.depends_on[0]]
        positions = {column.name: at for at, column in enumerate(table.columns, 1)}
        keys = [key.name for key in index_statement(relation.definition).keys]
        included = [column.name for column in relation.visible_columns if column.name not in keys]
        yield (
            relation.id, relation.name, table.id, [positions[name] for name in keys],
            [positions[name] for name in included], NAMESPACES["public"], OWNER, relation.definition,
        )  # fmt: skip


def _ddl_progress(context: Context) -> Iterator[tuple]:
    for job in context.jobs():
        started = datetime.fromtimestamp(job["started_at"], tz=UTC)
        yield (
            job["id"], job["statement"], create_type(job), f"{job['fraction']:.2%}", started, job["state"],
            job["error"],
        )  # fmt: skip


def _cdc_progress(context: Context) -> Iterator[tuple]:
    for job in context.jobs():
        if job["splits_done"] is not None:
            done = job["splits_done"]
            yield job["id"], job["splits_total"], done, done, job["lag_bytes"], job["lag_seconds"]


def _depend(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        for upstream in context.upstream(relation):
            yield relation.id, upstream.id


def _fragments(context: Context) -> Iterator[tuple]:
    """RisingWave's fragments are pieces of a dataflow; Headrace's are the relations that are kept up to date."""
    for relation in context.shown:
        if relation.stored:
            yield (
                relation.id, relation.id, relation.name, "HASH", [relation.id],
                [upstream.id for upstream in context.upstream(relation)],
                [_FLAGS[relation.kind]], relation.parallelism or None, VNODES,
            )  # fmt: skip


_FLAGS = {TABLE: "TABLE", SOURCE: "SOURCE", MATERIALIZED_VIEW: "MVIEW", INDEX: "INDEX"}


def _runs(context: Context) -> Iterator[tuple]:
    for relation in context.shown:
        for run in context.state.runs.get(relation.id, ()):
            yield relation.id, str(run.id), run.last_epoch, run.rows, run.retractions, run.bytes


_DEFINED = """id int, name text, schema_id int, owner int, definition text, append_only bool, create_status text,
    created_at_epoch big, row_count big, stored_bytes big"""

RW_CATALOG: dict[str, SystemRelation] = {
    "rw_tables": system_relation(_DEFINED, _of_kind(TABLE)),
    "rw_materialized_views": system_relation(_DEFINED, _of_kind(MATERIALIZED_VIEW)),
    "rw_views": system_relation(_DEFINED, _of_kind(VIEW)),
    "rw_sources": system_relation(f"{_DEFINED}, connector text", _rw_sources),
    "rw_sinks": system_relation(_DEFINED),
    "rw_indexes": system_relation(
        """id int, name text, primary_table_id int, key_columns ints, include_columns ints, schema_id int, owner int,
        definition text""",
        _rw_indexes,
    ),
    "rw_columns": system_relation(
        """relation_id int, name text, position int, is_hidden bool, is_primary_key bool, is_distribution_key bool,
        is_generated bool, is_nullable bool, data_type text""",
        _rw_columns,
    ),
    "rw_schemas": system_relation(
        "id int, name text, owner int", lambda context: [(id, name, OWNER) for name, id in context.namespaces.items()]
    ),
    "rw_databases": system_relation("id int, name text, owner int", lambda context: [(1, DATABASE, OWNER)]),
    "rw_users": system_relation("id int, name text, is_super bool", lambda context: [(OWNER, context.user, True)]),
    "rw_ddl_progress": system_relation(
        """ddl_id big, ddl_statement text, create_type text, progress text, initialized_at time, state text,
        error text""",
        _ddl_progress,
    ),
    "rw_cdc_progress": system_relation(
        """job_id big, split_total_count big, split_backfilled_count big, split_completed_count big, lag_bytes big,
        lag_seconds real""",
        _cdc_progress,
    ),
    "rw_depend": system_relation("objid int, refobjid int", _depend),
    "rw_fragments": system_relation(
        """fragment_id int, table_id int, name text, distribution_type text, state_table_ids ints,
        upstream_fragment_ids ints, flags texts, parallelism int, max_parallelism int""",
        _fragments,
    ),
    "rw_relations": system_relation(
        "id int, name text, relation_type text, schema_id int, owner int, definition text",
        lambda context: [
            (each.id, each.name, each.kind, namespace_of(each), OWNER, each.definition) for each in context.shown
        ],
    ),
    "rw_relation_runs": system_relation(
        "relation_id int, run text, epoch big, rows big, retractions big, bytes big", _runs
    ),
}
