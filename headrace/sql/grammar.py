"""Statements other than queries: what sqlglot's parser does not know, or knows too leniently.

Each function reads one kind of statement off the parser, which has the first keyword behind it, and returns what is
still missing only the text: a :class:`functools.partial` of a class of :mod:`headrace.sql.statements`. The parts of
statements are in :mod:`headrace.sql.clauses`; types, expressions and queries are sqlglot's.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

from sqlglot import exp
from sqlglot.tokens import TokenType

from headrace.catalog import OF_SESSION
from headrace.errors import DuplicateColumn, InvalidDefinition, InvalidParameterValue, SqlSyntaxError, Unsupported
from headrace.intervals import parse_interval
from headrace.sql import clauses, clients, connectors, jobs
from headrace.sql import statements as s
from headrace.sql.clauses import Unfinished
from headrace.sql.dialect import Parser, fold
from headrace.sql.indexes import create_index
from headrace.sql.names import NameInSchema, check_column_names, relation_name


def statement(p: Parser) -> Unfinished:
    for words, parse in _STATEMENTS.items():
        if p._match_text_seq(*words.split()):
            return parse(p)
    word = p._curr.text.upper()
    if word in _REFUSED and p._curr.token_type not in (TokenType.STRING, TokenType.IDENTIFIER):
        raise Unsupported(f"{word} is not supported", hint=_REFUSED[word], position=p._curr.start + 1)
    return partial(s.Select, query=fold(p.parse_query()))


# --- CREATE -----------------------------------------------------------------------------------------------------


def _create(p: Parser) -> Unfinished:
    replace = bool(p._match_text_seq("OR", "REPLACE"))
    if p._match_text_seq("TABLE"):
        if replace:
            raise Unsupported("CREATE OR REPLACE TABLE is not supported")
        return _create_table(p)
    if p._match_text_seq("MATERIALIZED", "VIEW"):
        if replace:
            raise Unsupported("CREATE OR REPLACE MATERIALIZED VIEW is not supported", hint="drop it first")
        return _create_materialized_view(p)
    if p._match_text_seq("VIEW"):
        return _create_view(p, replace)
    for word, parse in (("SOURCE", connectors.create_source), ("SECRET", connectors.create_secret)):
        if p._match_text_seq(word):
            if replace:
                raise Unsupported(f"CREATE OR REPLACE {word} is not supported", hint="drop it first")
            return parse(p)
    if p._match_text_seq("INDEX"):
        if replace:
            raise Unsupported(
                "CREATE OR REPLACE INDEX is not supported", hint="drop it first", position=p._prev.start + 1
            )
        return create_index(p)
    if p._match_text_seq("UNIQUE", "INDEX"):
        raise Unsupported(
            "CREATE UNIQUE INDEX is not supported",
            hint="only a primary key is unique",
            position=p._tokens[p._index - 2].start + 1,
        )
    what = p._curr.text.upper()
    if what == "LOCAL" or what in _TEMPORARY:
        return _create_temporary(p, replace)
    if what in _NOT_CREATED:
        raise Unsupported(f"CREATE {what} is not supported yet", position=p._curr.start + 1)
    p.raise_error("unknown CREATE")


_TEMPORARY = ("TEMP", "TEMPORARY")


def _create_temporary(p: Parser, replace: bool) -> Unfinished:
    start = p._curr
    p._match_text_seq("LOCAL")
    if not p._match_texts(_TEMPORARY):
        p.raise_error("expected TEMPORARY")
    if replace or not p._match_text_seq("TABLE"):
        raise Unsupported(
            f"CREATE {'OR REPLACE ' if replace else ''}TEMPORARY {p._curr.text.upper() if p._curr else ''}".rstrip()
            + " is not supported",
            hint="only tables can be temporary",
            position=start.start + 1,
        )
    return _create_table(p, temporary=True)


_NOT_CREATED = {
    "SINK", "SCHEMA", "DATABASE", "FUNCTION", "CONNECTION", "SUBSCRIPTION", "USER", "ROLE", "TYPE", "SEQUENCE",
    "TRIGGER", "AGGREGATE", "EXTENSION", "UNLOGGED", "DOMAIN",
}  # fmt: skip


def _create_materialized_view(p: Parser) -> Unfinished:
    if_not_exists = clauses.if_not_exists(p)
    name = clauses.relation(p)
    columns = clauses.identifiers(p) if p._match(TokenType.L_PAREN, advance=False) else ()
    check_column_names(columns)
    options = clauses.with_options(p) if p._match(TokenType.WITH) else ()
    if not p._match(TokenType.ALIAS):
        p.raise_error("expected AS")
    on_window_close = clauses.takes_last(p, "EMIT", "ON", "WINDOW", "CLOSE")
    query = fold(p.parse_query())
    return partial(
        s.CreateMaterializedView,
        name=name,
        query=query,
        column_names=columns,
        if_not_exists=if_not_exists,
        options=options,
        on_window_close=on_window_close,
    )


def _create_view(p: Parser, replace: bool) -> Unfinished:
    if_not_exists = clauses.if_not_exists(p)
    name = clauses.relation(p)
    columns = clauses.identifiers(p) if p._match(TokenType.L_PAREN, advance=False) else ()
    check_column_names(columns)
    if p._match(TokenType.WITH, advance=False):
        raise Unsupported("CREATE VIEW with WITH options is not supported")
    if not p._match(TokenType.ALIAS):
        p.raise_error("expected AS")
    query = fold(p.parse_query())
    return partial(
        s.CreateView, name=name, query=query, column_names=columns, if_not_exists=if_not_exists, or_replace=replace
    )


def _create_table(p: Parser, *, temporary: bool = False) -> Unfinished:
    if_not_exists = clauses.if_not_exists(p)
    start = p._curr
    name = clauses.relation(p)
    temporary = temporary or name.endswith(OF_SESSION)
    if temporary and isinstance(name, NameInSchema):
        raise InvalidDefinition("cannot create temporary relation in non-temporary schema", position=start.start + 1)
    definition = clauses.TableDefinition()
    if p._match(TokenType.L_PAREN) and not p._match(TokenType.R_PAREN):
        p._parse_csv(lambda: clauses.table_item(p, name, definition) or True)
        p._match_r_paren()
    included = connectors.included(p)
    fields = clauses.table_options(p)
    secrets = fields.pop("secrets", ())
    if definition.watermarks and (temporary or not fields.get("append_only")):
        raise Unsupported(
            f"WATERMARK is not supported in a table that is {'temporary' if temporary else 'not append-only'}",
            hint=None if temporary else "what has closed must not change: CREATE TABLE … (…) APPEND ONLY",
            position=start.start + 1,
        )
    if temporary:
        fields["temporary"] = True
        _refuse_if_it_outlives(p, included or "connector" in dict(fields.get("options", ())))
    if included or "connector" in dict(fields.get("options", ())):
        return connectors.table_of_events(p, name, definition, if_not_exists, fields, included, secrets)
    if p._match_texts(("FORMAT", "INCLUDE"), advance=False):
        raise Unsupported(
            f"CREATE TABLE … {p._curr.text.upper()} without a connector is not supported", position=p._curr.start + 1
        )
    if p._match(TokenType.FROM):
        return connectors.table_from(p, name, definition, if_not_exists, fields)
    if definition.star is not None:
        raise Unsupported(
            "CREATE TABLE (*) needs a source", hint="CREATE TABLE t (*) FROM source TABLE 'schema.table'",
            position=definition.star.start + 1,
        )  # fmt: skip
    if p._match(TokenType.ALIAS):
        return _create_table_as(p, name, definition, if_not_exists, fields)
    if definition.bare_names:
        p.raise_error("expected a type or AS")
    if not definition.columns:
        raise Unsupported("a table without columns is not supported")
    if "on_conflict" in fields and not definition.pk:
        raise InvalidDefinition("ON CONFLICT needs a primary key", hint="without one, rows cannot conflict")
    if fields.get("append_only") and fields.get("on_conflict", "ignore") != "ignore":
        raise InvalidDefinition(
            f'table "{name}" cannot be append-only and change rows on conflict',
            hint="use ON CONFLICT IGNORE, or leave APPEND ONLY out",
        )
    columns = clauses.finish_columns(definition)
    return partial(
        s.CreateTable,
        name=name,
        columns=columns,
        pk=definition.pk or (),
        if_not_exists=if_not_exists,
        watermark=clauses.finish_watermark(definition, [column.name for column in columns]),
        **fields,
    )


def _refuse_if_it_outlives(p: Parser, follows: bool) -> None:
    """What a temporary table has, and cannot have."""
    if follows or p._match(TokenType.FROM, advance=False):
        raise Unsupported("a temporary table with a source is not supported", hint="leave TEMPORARY out")
    if p._match_text_seq("ON", "COMMIT") and not p._match_text_seq("PRESERVE", "ROWS"):
        raise Unsupported(
            f"ON COMMIT {p._curr.text.upper() if p._curr else ''}".rstrip() + " is not supported",
            hint="there are no transactions: the rows stay until the session ends, or the table is dropped",
            position=p._prev.start + 1,
        )


def _create_table_as(
    p: Parser, name: str, definition: clauses.TableDefinition, if_not_exists: bool, fields: dict[str, Any]
) -> Unfinished:
    if definition.columns or definition.pk is not None:
        raise Unsupported("CREATE TABLE with both column types and AS is not supported", hint="leave the types out")
    if fields.pop("on_conflict", "overwrite") != "overwrite":
        raise Unsupported("CREATE TABLE AS with ON CONFLICT is not supported")
    if definition.watermarks:
        raise Unsupported("CREATE TABLE AS with WATERMARK is not supported", hint="create the table, then INSERT")
    check_column_names(definition.bare_names)
    query = fold(p.parse_query())
    return partial(
        s.CreateTableAs,
        name=name,
        query=query,
        column_names=tuple(definition.bare_names),
        if_not_exists=if_not_exists,
        **fields,
    )


# --- DROP, ALTER, COMMENT ---------------------------------------------------------------------------------------


def _drop(p: Parser) -> Unfinished:
    start = p._curr
    if p._match_text_seq("SECRET"):
        return connectors.drop_secret(p)
    kind = clauses.relation_kind(p)
    if kind is None:
        if start and start.text.upper() in _NOT_CREATED:
            raise Unsupported(f"DROP {start.text.upper()} is not supported yet", position=start.start + 1)
        p.raise_error("unknown DROP")
    if_exists = bool(p._match_text_seq("IF", "EXISTS"))
    names = tuple(p._parse_csv(partial(clauses.relation, p)))
    cascade = bool(p._match_text_seq("CASCADE"))
    if not cascade:
        p._match_text_seq("RESTRICT")
    return partial(s.Drop, kind=kind, names=names, if_exists=if_exists, cascade=cascade)


def _alter(p: Parser) -> Unfinished:
    if p._match_text_seq("SYSTEM"):
        if p._match_text_seq("RESET"):
            return partial(s.SetParameter, name=clauses.parameter_name(p), value=None, system=True)
        clauses.expect(p, "SET")
        return _assignment(p, system=True)
    start = p._curr
    kind = clauses.relation_kind(p)
    if kind is None:
        if start and start.text.upper() in _NOT_CREATED:
            raise Unsupported(f"ALTER {start.text.upper()} is not supported yet", position=start.start + 1)
        p.raise_error("unknown ALTER")
    if p._match_text_seq("IF", "EXISTS"):
        raise Unsupported(f"ALTER {kind.upper()} IF EXISTS is not supported")
    name = clauses.relation(p)
    if p._match_text_seq("RENAME", "TO"):
        return partial(s.Rename, kind=kind, name=name, new_name=clauses.identifier(p))
    setting = jobs.alter(p, kind, name)
    if setting is not None:
        return setting
    if not p._curr:
        p.raise_error("expected an action")
    action = [p._curr.text.upper()]
    # What follows is part of the action, unless it is a name: of a column, say. SET is followed by what to set.
    names = (TokenType.L_PAREN,) if action == ["SET"] else (TokenType.VAR, TokenType.IDENTIFIER, TokenType.L_PAREN)
    if p._next.token_type not in names and p._next:
        action.append(p._next.text.upper())
    raise Unsupported(f"ALTER {kind.upper()} {' '.join(action)} is not supported yet", position=p._curr.start + 1)


def _comment(p: Parser) -> Unfinished:
    clauses.expect(p, "ON")
    column = None
    if p._match_text_seq("COLUMN"):
        kind, position = "column", p._curr.start + 1 if p._curr else None
        parts = [clauses.identifier(p)]
        while p._match(TokenType.DOT):
            parts.append(clauses.identifier(p))
        if len(parts) < 2:
            raise SqlSyntaxError("column name must be qualified", position=position, hint="write table.column")
        *relation, column = parts
        name = relation_name(relation, position)
    else:
        kind = clauses.relation_kind(p)
        if kind is None:
            p.raise_error("unknown COMMENT")
        name = clauses.relation(p)
    clauses.expect(p, "IS")
    text = None if p._match(TokenType.NULL) else clauses.string(p)
    return partial(s.Comment, kind=kind, name=name, column=column, text=text)


# --- INSERT, UPDATE, DELETE -------------------------------------------------------------------------------------


def _insert(p: Parser) -> Unfinished:
    clauses.expect(p, "INTO")
    table = clauses.relation(p)
    if p._match(TokenType.ALIAS):
        raise Unsupported("INSERT INTO … AS alias is not supported", position=p._prev.start + 1)
    columns: tuple[str, ...] = ()
    if p._match(TokenType.L_PAREN, advance=False) and p._next.text.upper() not in ("SELECT", "WITH", "VALUES", "("):
        columns = clauses.identifiers(p)
    for position, column in enumerate(columns):
        if column in columns[:position]:
            raise DuplicateColumn(f'column "{column}" specified more than once')
    rows, query = None, None
    if p._match_text_seq("DEFAULT", "VALUES"):
        rows = ((),)
    elif p._match(TokenType.VALUES):
        rows = clauses.rows_of_values(p, columns)
    else:
        query = fold(p.parse_query())
    if p._match_text_seq("ON", "CONFLICT"):
        raise Unsupported(
            "INSERT … ON CONFLICT is not supported",
            hint="declare it on the table: CREATE TABLE … ON CONFLICT OVERWRITE | IGNORE | DO UPDATE IF NOT NULL",
            position=p._tokens[p._index - 2].start + 1,
        )
    return partial(s.Insert, table=table, columns=columns, rows=rows, query=query, returning=clauses.returning(p))


def _update(p: Parser) -> Unfinished:
    table, alias = clauses.relation(p), clauses.table_alias(p)
    clauses.expect(p, "SET")
    assignments: list[tuple[str, exp.Expression]] = []
    for assignment in p._parse_csv(p._parse_update_assignment):
        assignments += clauses.column_assignments(fold(assignment))
    for position, (column, _) in enumerate(assignments):
        if column in [other for other, _ in assignments[:position]]:
            raise SqlSyntaxError(f'multiple assignments to same column "{column}"')
    if p._match(TokenType.FROM):
        raise Unsupported("UPDATE … FROM is not supported", position=p._prev.start + 1)
    where = clauses.where(p)
    return partial(
        s.Update, table=table, alias=alias, assignments=tuple(assignments), where=where, returning=clauses.returning(p)
    )


def _delete(p: Parser) -> Unfinished:
    clauses.expect(p, "FROM")
    table, alias = clauses.relation(p), clauses.table_alias(p)
    if p._match(TokenType.USING):
        raise Unsupported("DELETE … USING is not supported", position=p._prev.start + 1)
    where = clauses.where(p)
    return partial(s.Delete, table=table, alias=alias, where=where, returning=clauses.returning(p))


def _truncate(p: Parser) -> Unfinished:
    p._match_text_seq("TABLE")
    table = clauses.relation(p)
    if p._match(TokenType.COMMA):
        raise Unsupported("TRUNCATE of several tables is not supported", hint="one by one", position=p._prev.start + 1)
    for words in (("RESTART", "IDENTITY"), ("CASCADE",)):
        if p._match_text_seq(*words):
            raise Unsupported(f"TRUNCATE … {' '.join(words)} is not supported", hint="leave it out")
    _ = p._match_text_seq("CONTINUE", "IDENTITY"), p._match_text_seq("RESTRICT")
    return partial(s.Truncate, table=table)


# --- SHOW, SET, DESCRIBE, EXPLAIN and the like ------------------------------------------------------------------


def _show(p: Parser) -> Unfinished:
    if p._match_text_seq("CREATE"):
        kind = clauses.relation_kind(p)
        return partial(s.ShowCreate, kind=kind, name=clauses.relation(p))
    if p._match_text_seq("COLUMNS", "FROM"):
        return partial(s.Describe, name=clauses.relation(p))
    if p._match_text_seq("JOBS"):
        return partial(s.ShowJobs, like=clauses.string(p) if p._match(TokenType.LIKE) else None)
    if p._match_text_seq("JOB"):
        return jobs.show_job(p)
    if p._match_text_seq("INDEXES", "FROM") or p._match_text_seq("INDEXES", "IN"):
        table = clauses.relation(p)
        return partial(s.ShowIndexes, table=table, like=clauses.string(p) if p._match(TokenType.LIKE) else None)
    for words, what in _SHOWN.items():
        if p._match_text_seq(*words.split()):
            if p._match_texts(("FROM", "IN")):
                relation_name([clauses.identifier(p), "*"])
            like = clauses.string(p) if p._match(TokenType.LIKE) else None
            return partial(s.Show, what=what, like=like)
    for words in _NOT_SHOWN:
        if p._match_text_seq(*words.split()):
            raise Unsupported(f"SHOW {words} is not supported yet", position=p._prev.start + 1)
    return partial(s.ShowParameter, name=clauses.parameter_name(p))


_SHOWN = {
    "TABLES": "tables",
    "INTERNAL TABLES": "internal tables",
    "SOURCES": "sources",
    "VIEWS": "views",
    "MATERIALIZED VIEWS": "materialized views",
    "INDEXES": "indexes",
    "SECRETS": "secrets",
    "WATERMARKS": "watermarks",
    "PARAMETERS": "parameters",
    "ALL": "parameters",
}

_NOT_SHOWN = (
    "SINKS", "FUNCTIONS", "CONNECTIONS", "DATABASES", "SCHEMAS", "CLUSTER", "PROCESSLIST", "SUBSCRIPTIONS",
    "CURSORS", "COLUMNS",
)  # fmt: skip


def _set(p: Parser) -> Unfinished:
    if p._match_text_seq("TRANSACTION"):
        return clients.set_transaction(p)
    if p._match_text_seq("SESSION", "CHARACTERISTICS"):
        clauses.expect(p, "AS", "TRANSACTION")
        return clients.set_transaction(p, session=True)
    local = bool(p._match_text_seq("LOCAL"))
    p._match_text_seq("SESSION")
    if p._match_text_seq("TIME", "ZONE"):
        return partial(s.SetParameter, name="timezone", value=_zone(p), local=local)
    return _assignment(p, system=False, local=local)


def _zone(p: Parser) -> str | None:
    """What stands behind SET TIME ZONE; None: the session's default."""
    if p._match_texts(("DEFAULT", "LOCAL")):
        return None
    if not p._match_text_seq("INTERVAL"):
        return clauses.value(p)
    text = clauses.string(p)
    p._match_text_seq("HOUR")
    p._match_text_seq("TO", "MINUTE")
    span = parse_interval(text)
    if span.months or span.days or abs(span.micros) >= _DAY:
        raise InvalidParameterValue(f'invalid value for parameter "TimeZone": "INTERVAL \'{text}\'"')
    return format(Decimal(span.micros) / _HOUR, "f")  # hours, east of Greenwich


_HOUR, _DAY = 3_600_000_000, 86_400_000_000


def _assignment(p: Parser, *, system: bool, local: bool = False) -> Unfinished:
    name = clauses.parameter_name(p)
    if not p._match(TokenType.EQ) and not p._match_text_seq("TO"):
        p.raise_error("expected = or TO")
    if p._match(TokenType.DEFAULT):
        return partial(s.SetParameter, name=name, value=None, system=system, local=local)
    value = ", ".join(p._parse_csv(partial(clauses.value, p)))
    return partial(s.SetParameter, name=name, value=value, system=system, local=local)


def _reset(p: Parser) -> Unfinished:
    if p._match_text_seq("ALL"):
        return partial(s.ResetAll)
    return partial(s.SetParameter, name=clauses.parameter_name(p), value=None)


def _describe(p: Parser) -> Unfinished:
    p._match_text_seq("TABLE")
    return partial(s.Describe, name=clauses.relation(p))


def _explain(p: Parser) -> Unfinished:
    if p._match(TokenType.L_PAREN, advance=False) and p._next.text.upper() not in ("SELECT", "WITH", "VALUES", "("):
        raise Unsupported("EXPLAIN with options in parentheses is not supported", position=p._curr.start + 1)
    analyze = bool(p._match_text_seq("ANALYZE"))
    p._match_text_seq("VERBOSE")
    if not p._curr:
        p.raise_error("expected a statement")
    start = p._curr.start
    inner = statement(p)
    text = p.sql[start : p._tokens[-1].end + 1]
    return partial(s.Explain, statement=inner(sql=text), analyze=analyze)


def _refresh(p: Parser) -> Unfinished:
    clauses.expect(p, "MATERIALIZED", "VIEW")
    p._match_text_seq("CONCURRENTLY")
    name = clauses.relation(p)
    p._match_text_seq("WITH", "DATA")
    return partial(s.Refresh, name=name)


def _compact(p: Parser) -> Unfinished:
    return partial(s.Compact, name=clauses.relation(p) if p._curr else None)


_STATEMENTS: dict[str, Callable[[Parser], Unfinished]] = {
    "CREATE": _create,
    "DROP": _drop,
    "ALTER": _alter,
    "COMMENT": _comment,
    "INSERT": _insert,
    "UPDATE": _update,
    "DELETE": _delete,
    "TRUNCATE": _truncate,
    "SHOW": _show,
    "SET": _set,
    "RESET": _reset,
    "DESCRIBE": _describe,
    "DESC": _describe,
    "EXPLAIN": _explain,
    "FLUSH": lambda p: partial(s.Flush),
    "VACUUM": lambda p: partial(s.Vacuum),
    "REFRESH": _refresh,
    "COMPACT": _compact,
    "CHECK": jobs.check,
    "WAIT": jobs.wait,
    "CANCEL": jobs.cancel,
    "PAUSE": jobs.pause,
    "RESUME": jobs.resume,
    "RESNAPSHOT": jobs.resnapshot,
    **clients.STATEMENTS,
}

_REFUSED: dict[str, str | None] = {
    "MERGE": None,
    "GRANT": None,
    "REVOKE": None,
    "ANALYZE": None,
    "REINDEX": None,
    "LOCK": None,
    "CALL": None,
    "DO": None,
    "USE": None,
    "KILL": None,
    "RECOVER": None,
    "LISTEN": None,
    "NOTIFY": None,
}
