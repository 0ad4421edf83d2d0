"""Functions of PostgreSQL's that speak of the system: each becomes a plain expression before the query is bound.

The catalog is small and known, so what PostgreSQL looks up becomes a ``CASE`` over what there is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlglot import exp

from headrace import __version__
from headrace.catalog import INDEX
from headrace.config import SERVER_VERSION, find_parameter
from headrace.errors import UndefinedFunction, UndefinedParameter, UndefinedRelation, Unsupported
from headrace.serving.pg_catalog.postgres import index_definition, key_definition
from headrace.serving.pg_catalog.relations import Context, has_key, key_oid, numbered, oid, schema_of, type_modifier
from headrace.serving.pg_catalog.system import HIDDEN_OIDS, SYSTEM_OIDS
from headrace.serving.wire.oids import PG_TYPES, modifier_text, typmod_of
from headrace.sql.dialect import call, parse_expression
from headrace.sql.names import DATABASE, SCHEMA, TEMPORARY_SCHEMA
from headrace.sql.positions import position_of
from headrace.types import SqlType, quote_sql

Arguments = list[exp.Expression]
Build = Callable[[Arguments, Context], exp.Expression]

TRUE, FALSE = exp.true(), exp.false()


def text(value: str | None) -> exp.Expression:
    return (
        null("varchar") if value is None else exp.Cast(this=exp.Literal.string(value), to=exp.DataType.build("varchar"))
    )


def null(kind: str) -> exp.Expression:
    return exp.Cast(this=exp.null(), to=exp.DataType.build(kind, dialect="postgres"))


def number(value: int) -> exp.Expression:
    return exp.Literal.number(value)


def _bigint(value: int) -> exp.Expression:
    return exp.Cast(this=number(value), to=exp.DataType.build("bigint"))


def lookup(key: exp.Expression, values: Mapping[int, str], default: exp.Expression | None = None) -> exp.Expression:
    """CASE key WHEN … THEN … END"""
    if not values:
        return default or null("varchar")
    case = exp.Case(this=key.copy())
    for each, value in values.items():
        case = case.when(number(each), text(value))
    return case.else_(default or null("varchar"))


# --- what there is --------------------------------------------------------------------------------------------------


def relation_names(context: Context, schemas: Sequence[str] = (SCHEMA, TEMPORARY_SCHEMA)) -> dict[int, str]:
    """By number, those of the first schema first."""
    shown = sorted(
        (each for each in context.shown if schema_of(each) in schemas), key=lambda each: schemas.index(schema_of(each))
    )
    names = {oid(relation): quote_sql(relation.name) for relation in shown}
    return names | {key_oid(relation): quote_sql(f"{relation.name}_pkey") for relation in shown if has_key(relation)}


def relation_oid(name: str, context: Context) -> int:
    """As ``'name'::regclass``."""
    if name.isdigit():
        return int(name)
    *schema, bare = [part if part.startswith('"') else part.lower() for part in name.split(".")]
    bare = bare.strip('"')
    wanted = [schema[-1].strip('"')] if schema else [TEMPORARY_SCHEMA, SCHEMA]
    for number_, found in relation_names(context, wanted).items():
        if found.strip('"') == bare:
            return number_
    for searched in [schema[-1].strip('"')] if schema else ("pg_catalog", "rw_catalog"):
        if (searched, bare) in SYSTEM_OIDS:
            return SYSTEM_OIDS[searched, bare]
    raise UndefinedRelation(f'relation "{name}" does not exist')


def named_relation(name: exp.Expression, context: Context) -> exp.Expression:
    """``name::regclass`` of a name that is not a constant: its number, or NULL."""
    case = exp.Case(this=name.copy())
    for schema in (TEMPORARY_SCHEMA, SCHEMA):
        for number_, found in relation_names(context, (schema,)).items():
            case = case.when(text(f"{schema}.{found}"), number(number_)).when(text(found), number(number_))
    return case.else_(null("integer")) if case.args.get("ifs") else null("integer")


TYPE_NAMES = (
    {each.oid: each.shown for each in PG_TYPES.values()}
    | {each.array_oid: f"{each.shown}[]" for each in PG_TYPES.values()}
    | {26: "oid", 19: "name", 705: "unknown", 114: "json"}
)


def format_type(arguments: Arguments, context: Context) -> exp.Expression:
    unknown = exp.Case().when(exp.Not(this=exp.Is(this=arguments[0].copy(), expression=exp.null())), text("???"))
    plain = lookup(arguments[0], TYPE_NAMES, unknown)
    if len(arguments) < 2 or isinstance(arguments[1], exp.Null):
        return plain
    modifiers = {
        modifier: modifier_text(column.type)
        for relation in context.shown
        for column in relation.columns
        if (modifier := type_modifier(column.type)) != -1 and not _has_digits(column.type)
    }
    found = exp.DPipe(this=plain, expression=lookup(arguments[1], modifiers, text("")), safe=True)
    for digits in sorted(_digits_of_times(context)):  # of which the name goes on behind them
        for kind, brackets in ((PG_TYPES["time"].oid, ""), (PG_TYPES["time"].array_oid, "[]")):
            asked = zip(arguments, (kind, digits), strict=False)
            same = exp.and_(*(exp.EQ(this=each.copy(), expression=number(value)) for each, value in asked))
            found = exp.Case().when(same, text(f"time({digits}) without time zone{brackets}")).else_(found)
    return found


def _digits_of_times(context: Context) -> set[int]:
    kinds = (column.type for relation in context.shown for column in relation.columns)
    return {typmod_of(kind) for kind in kinds if _has_digits(kind)}


def _has_digits(kind: SqlType) -> bool:
    """Whether it is a time(3), or an array of them."""
    while kind.name == "array":
        kind = kind.element
    return kind.name == "time" and kind.precision is not None


def _index_definition(arguments: Arguments, context: Context) -> exp.Expression:
    whole: dict[int, str] = {}
    columns: dict[int, list[str]] = {}
    for relation in context.shown:
        if relation.kind == INDEX:
            whole[oid(relation)] = index_definition(relation, context)
            columns[oid(relation)] = [quote_sql(column.name) for column in relation.visible_columns]
        elif has_key(relation):
            whole[key_oid(relation)] = key_definition(relation)
            columns[key_oid(relation)] = [quote_sql(key.name) for key in relation.pk]
    if len(arguments) < 2 or (isinstance(arguments[1], exp.Literal) and arguments[1].this == "0"):
        return lookup(arguments[0], whole)
    case = exp.Case()
    for id, names in columns.items():
        for at, name in enumerate(names, 1):
            wanted = exp.and_(
                exp.EQ(this=arguments[0].copy(), expression=number(id)),
                exp.EQ(this=arguments[1].copy(), expression=number(at)),
            )
            case = case.when(wanted, text(name))
    return case.else_(null("varchar")) if columns else null("varchar")


def _constraint_definition(arguments: Arguments, context: Context) -> exp.Expression:
    return lookup(
        arguments[0],
        {
            key_oid(relation): f"PRIMARY KEY ({', '.join(quote_sql(key.name) for key in relation.pk)})"
            for relation in context.shown
            if has_key(relation)
        },
    )


def _view_definition(arguments: Arguments, context: Context) -> exp.Expression:
    views = {oid(view): view.query for view in context.shown.of_kind("view", "materialized view")}
    return lookup(_as_oid(arguments[0], context), {id: f" {query};" for id, query in views.items()})


def _comment(arguments: Arguments, context: Context) -> exp.Expression:
    comments = {oid(relation): relation.comment for relation in context.shown if relation.comment is not None}
    return lookup(_as_oid(arguments[0], context), comments)


def _column_comment(arguments: Arguments, context: Context) -> exp.Expression:
    case = None
    for relation in context.shown:
        for at, column in numbered(relation):
            if column.comment is not None:
                wanted = exp.and_(
                    exp.EQ(this=_as_oid(arguments[0], context), expression=number(oid(relation))),
                    exp.EQ(this=arguments[1].copy(), expression=number(at)),
                )
                case = (case or exp.Case()).when(wanted, text(column.comment))
    return null("varchar") if case is None else case.else_(null("varchar"))


def _size(arguments: Arguments, context: Context) -> exp.Expression:
    case = exp.Case(this=_as_oid(arguments[0], context))
    for relation in context.shown:
        case = case.when(number(oid(relation)), number(context.stored_bytes(relation)))
    sized: exp.Expression = case.else_(number(0)) if case.args.get("ifs") else number(0)
    return exp.Cast(this=sized, to=exp.DataType.build("bigint"))


def _is_visible(arguments: Arguments, context: Context) -> exp.Expression:
    low, high = map(number, HIDDEN_OIDS)
    wanted = _as_oid(arguments[0], context)
    invisible: exp.Expression = exp.Between(this=wanted, low=low, high=high)
    own = {each.name for each in context.shown if each.temporary}
    shadowed = [number(oid(each)) for each in context.shown if each.name in own and not each.temporary]
    if shadowed:
        invisible = exp.Or(this=invisible, expression=exp.In(this=wanted.copy(), expressions=shadowed))
    return exp.Not(this=exp.paren(invisible))


def _as_oid(argument: exp.Expression, context: Context) -> exp.Expression:
    if isinstance(argument, exp.Literal) and argument.is_string:
        return number(relation_oid(argument.this, context))
    return argument.copy()


def _setting(arguments: Arguments, context: Context) -> exp.Expression:
    if not isinstance(arguments[0].unnest(), exp.Literal):
        case = exp.Case(this=arguments[0].copy())
        for name, value in context.settings.items():
            case = case.when(exp.Literal.string(name), text(value))
        return case.else_(null("varchar"))
    name = arguments[0].unnest().name
    try:
        return text(context.settings.get(find_parameter(name).name))
    except UndefinedParameter:
        if len(arguments) > 1:
            return null("varchar")
        raise


def _to_regclass(arguments: Arguments, context: Context) -> exp.Expression:
    try:
        return number(relation_oid(arguments[0].name, context))
    except UndefinedRelation:
        return null("integer")


def _to_regtype(arguments: Arguments, context: Context) -> exp.Expression:
    name = arguments[0].name.lower()
    names = {each.pg_name: each.oid for each in PG_TYPES.values()} | {name: id for id, name in TYPE_NAMES.items()}
    return number(names[name]) if name in names else null("integer")


MOST_KEYS = 32
"""Columns of an index that clients count: as many as PostgreSQL allows."""


def _subscripts(arguments: Arguments, context: Context) -> exp.Expression:
    """A CASE and not a generate_series: Spark cannot plan that one beside an unnest of the same array."""
    case = exp.Case(this=call("cardinality", arguments[0].copy()))
    for size in range(1, MOST_KEYS + 1):
        case = case.when(number(size), exp.Array(expressions=[number(at) for at in range(1, size + 1)]))
    return call("unnest", case)


def _expanded(arguments: Arguments, context: Context) -> exp.Expression:
    """``_pg_expandarray``: the elements as rows, x, with their numbers, n. As many as an index here has."""
    longest = max((len(relation.columns) for relation in context.shown), default=1)
    pairs = [f"CAST(ROW(a[{at}], {at}) AS STRUCT<x INT, n INT>)" for at in range(1, min(longest, MOST_KEYS) + 1)]
    cases = (f"WHEN {size} THEN ARRAY[{', '.join(pairs[:size])}]" for size in range(1, len(pairs) + 1))
    pattern = parse_expression(f"unnest(CASE cardinality(a) {' '.join(cases)} END)")
    return pattern.transform(lambda node: arguments[0].copy() if isinstance(node, exp.Column) else node)


def _parse_ident(arguments: Arguments, context: Context) -> exp.Expression:
    """The parts of a name, as they are kept: 'public."T"' is public and T."""
    parts = re.findall(r'"(?:[^"]|"")+"|[^."]+', arguments[0].name)
    kept = (part[1:-1].replace('""', '"') if part[0] == '"' else part.strip().lower() for part in parts)
    return exp.Array(expressions=[text(part) for part in kept])


def _set_config(arguments: Arguments, context: Context) -> exp.Expression:
    if len(arguments) != 3:
        raise UndefinedFunction(f"set_config takes 3 arguments, not {len(arguments)}")
    if context.assign is None:
        return text(None)  # asked only for its type
    name, value, local = map(_given, arguments)
    if name is None or value is None or local is None:
        raise Unsupported("set_config of something that is not a constant is not supported", hint="use SET")
    if local.lower() not in ("f", "false", "no", "off", "0"):
        raise Unsupported(
            "set_config until the end of a transaction is not supported", hint="there are none; use false"
        )
    context.assign(name, value)
    return text(value)


def _given(argument: exp.Expression) -> str | None:
    """What a constant says."""
    if isinstance(argument, (exp.Cast, exp.Paren)):
        return _given(argument.this)
    if isinstance(argument, exp.Boolean):
        return str(argument.this).lower()
    return argument.this if isinstance(argument, exp.Literal) else None


def _size_pretty(arguments: Arguments, context: Context) -> exp.Expression:
    """As PostgreSQL rounds: up to 10 kB in bytes, then in the largest unit of which there are ten."""
    whole = exp.Cast(this=arguments[0].copy(), to=exp.DataType.build("bigint"))
    made = parse_expression(_PRETTY)
    return made.transform(lambda node: whole.copy() if isinstance(node, exp.Column) else node)


_PRETTY = (
    "CASE WHEN size < 10240 THEN CAST(size AS varchar) || ' bytes' "
    + " ".join(
        f"WHEN size / {half} < 20479 THEN CAST((size / {half} + 1) / 2 AS varchar) || ' {unit}'"
        for half, unit in ((2**9, "kB"), (2**19, "MB"), (2**29, "GB"))
    )
    + f" ELSE CAST((size / {2**39} + 1) / 2 AS varchar) || ' TB' END"
)


def constant(value: Any) -> Build:
    return lambda arguments, context: value(context) if callable(value) else value.copy()


def version() -> str:
    return f"PostgreSQL {SERVER_VERSION}-Headrace-{__version__}"


_STARTED = datetime.now(UTC)

FUNCTIONS: dict[str, Build] = {
    "version": constant(lambda context: text(version())),
    "rw_version": constant(lambda context: text(version())),
    "rw_recovery_status": constant(text("RUNNING")),  # whoever is answered is not recovering any more
    "current_schema": constant(text("public")),
    "current_schemas": constant(exp.Array(expressions=[text("pg_catalog"), text("public")])),
    "current_database": constant(text(DATABASE)),
    "current_catalog": constant(text(DATABASE)),
    **dict.fromkeys(("current_user", "session_user", "current_role"), constant(lambda context: text(context.user))),
    "pg_get_userbyid": constant(lambda context: text(context.user)),
    "pg_backend_pid": constant(lambda context: number(context.process)),
    "pg_encoding_to_char": constant(text("UTF8")),
    "getdatabaseencoding": constant(text("UTF8")),
    "pg_char_to_encoding": constant(number(6)),
    "pg_database_size": constant(lambda context: _bigint(sum(map(context.stored_bytes, context.shown)))),
    "pg_tablespace_size": constant(lambda context: _bigint(0)),
    "pg_is_in_recovery": constant(FALSE),
    "pg_relation_is_publishable": constant(FALSE),
    "pg_is_other_temp_schema": constant(FALSE),
    **dict.fromkeys(("pg_stat_get_numscans", "pg_my_temp_schema"), constant(number(0))),
    **dict.fromkeys(
        (
            "pg_collation_is_visible",
            "pg_type_is_visible",
            "pg_function_is_visible",
            "pg_opclass_is_visible",
            "pg_opfamily_is_visible",
            "pg_operator_is_visible",
            "pg_conversion_is_visible",
            "pg_statistics_obj_is_visible",
            "pg_ts_config_is_visible",
            "pg_ts_dict_is_visible",
            "pg_ts_parser_is_visible",
            "pg_ts_template_is_visible",
            "has_table_privilege",
            "has_schema_privilege",
            "has_database_privilege",
            "has_column_privilege",
            "has_any_column_privilege",
            "has_function_privilege",
            "has_sequence_privilege",
            "has_type_privilege",
            "pg_has_role",
        ),
        constant(TRUE),
    ),
    **dict.fromkeys(
        (
            "shobj_description",
            "pg_get_partkeydef",
            "pg_get_statisticsobjdef_columns",
            "pg_get_serial_sequence",
            "pg_get_function_result",
            "pg_get_function_arguments",
            "pg_get_function_identity_arguments",
            "pg_get_functiondef",
            "pg_get_triggerdef",
            "pg_get_ruledef",
            "pg_advisory_unlock_all",
            "inet_server_addr",
            "inet_client_addr",
            "pg_tablespace_location",
            "pg_get_partition_constraintdef",
        ),
        constant(null("varchar")),
    ),
    "pg_postmaster_start_time": constant(
        exp.Cast(
            this=exp.Literal.string(_STARTED.isoformat()), to=exp.DataType.build("timestamptz", dialect="postgres")
        )
    ),
    "txid_current": constant(lambda context: number(context.state.epoch)),
    "pg_table_is_visible": _is_visible,
    "pg_get_expr": lambda arguments, context: arguments[0].copy(),
    "pg_get_indexdef": _index_definition,
    "pg_get_constraintdef": _constraint_definition,
    "pg_get_viewdef": _view_definition,
    "obj_description": _comment,
    "col_description": _column_comment,
    "format_type": format_type,
    **dict.fromkeys(("pg_relation_size", "pg_table_size", "pg_total_relation_size"), _size),
    "pg_indexes_size": constant(lambda context: _bigint(0)),
    "pg_size_pretty": _size_pretty,
    "current_setting": _setting,
    "to_regclass": _to_regclass,
    "to_regtype": _to_regtype,
    "generate_subscripts": _subscripts,
    "_pg_expandarray": _expanded,
    "parse_ident": _parse_ident,
    "set_config": _set_config,
}


def of_risingwave(name: str) -> bool:
    """Its own functions begin so, and no other's do."""
    return name.lower().startswith("rw_")


def unknown_of_risingwave(call: exp.Anonymous) -> UndefinedFunction:
    known = ", ".join(sorted(filter(of_risingwave, FUNCTIONS)))
    hint = f"of RisingWave's own functions there are {known}"
    return UndefinedFunction(f"function {call.name.lower()}() does not exist", hint=hint, position=position_of(call))
