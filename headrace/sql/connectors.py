"""Statements about other databases: secrets, sources, and tables that follow one of theirs.

The functions read what follows a statement's first keywords, like those of :mod:`headrace.sql.grammar`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlglot.tokens import TokenType

from headrace.errors import InvalidDefinition, SqlSyntaxError, Unsupported
from headrace.sql import clauses
from headrace.sql import statements as s
from headrace.sql.clauses import Unfinished
from headrace.sql.dialect import Parser
from headrace.types import quote_sql

CONNECTORS = ("postgres-cdc", "mysql-cdc")
"""Databases, whose tables have columns"""

EVENT_CONNECTORS = ("datagen", "file", "kafka", "nexmark")
"""Sequences of events, whose columns the source has"""


def create_secret(p: Parser) -> Unfinished:
    """SECRET name [WITH (backend = 'meta')] AS 'value'"""
    if_not_exists = clauses.if_not_exists(p)
    name = clauses.identifier(p)
    options = dict(clauses.with_options(p)) if p._match(TokenType.WITH) else {}
    if options.pop("backend", "meta") != "meta" or options:
        raise Unsupported("CREATE SECRET knows no other option than backend = 'meta'")
    if not p._match(TokenType.ALIAS):
        p.raise_error("expected AS")
    value = clauses.string(p)

    def finished(*, sql: str) -> s.CreateSecret:
        # The text of a statement gets around: into definitions, logs and screens.
        return s.CreateSecret(
            sql=f"CREATE SECRET {quote_sql(name)} AS '***'", name=name, value=value, if_not_exists=if_not_exists
        )

    return finished


def drop_secret(p: Parser) -> Unfinished:
    if_exists = bool(p._match_text_seq("IF", "EXISTS"))
    return partial(s.DropSecret, names=tuple(p._parse_csv(partial(clauses.identifier, p))), if_exists=if_exists)


def create_source(p: Parser) -> Unfinished:
    """SOURCE name [(columns)] [INCLUDE …] WITH (connector = …, password = SECRET name) [FORMAT … ENCODE …]"""
    start = p._prev
    if_not_exists = clauses.if_not_exists(p)
    name = clauses.relation(p)
    fields: dict[str, Any] = {"name": name, "if_not_exists": if_not_exists}
    columns_at = p._curr.start + 1 if p._match(TokenType.L_PAREN, advance=False) else None
    if columns_at is not None:
        fields |= _source_columns(p, name)
    fields["include"] = included(p)
    secrets: list[tuple[str, str]] = []
    if not p._match(TokenType.WITH):
        p.raise_error("expected WITH")
    options = clauses.with_options(p, secrets)
    connector = dict(options).get("connector")
    known = (*CONNECTORS, *EVENT_CONNECTORS)
    if connector not in known:
        raise Unsupported(
            f"CREATE SOURCE with connector = '{connector}' is not supported yet"
            if connector
            else "CREATE SOURCE needs a connector",
            hint=f"there are connector = {', '.join(map(repr, known))}",
            position=start.start + 1,
        )
    format_at = p._curr.start + 1 if p._curr else None
    if p._match_text_seq("FORMAT"):
        fields |= _format(p, secrets)
    if connector in CONNECTORS:
        if columns_at is not None:
            raise Unsupported(
                f"CREATE SOURCE with columns is not supported for {connector}",
                hint="its tables have columns: CREATE TABLE t (*) FROM source TABLE 'schema.table'",
                position=columns_at,
            )
        if fields["include"] or "format" in fields:
            raise Unsupported(f"INCLUDE and FORMAT are not supported for {connector}", position=format_at)
    elif columns_at is None:
        raise InvalidDefinition(f"a source with connector = '{connector}' needs columns")
    return partial(s.CreateSource, options=options, secrets=tuple(secrets), **fields)


def _source_columns(p: Parser, name: str) -> dict[str, Any]:
    definition = clauses.TableDefinition()
    p._match(TokenType.L_PAREN)
    p._parse_csv(lambda: clauses.table_item(p, name, definition) or True)
    p._match_r_paren()
    if definition.bare_names:
        p.raise_error("expected a type")
    if definition.star is not None:
        raise Unsupported("CREATE SOURCE (*) is not supported", position=definition.star.start + 1)
    if definition.pk is not None:
        raise Unsupported(
            "PRIMARY KEY is not supported in CREATE SOURCE",
            hint="a source is a sequence of events; each of them counts",
        )
    columns = clauses.finish_columns(definition)
    if not columns:
        raise InvalidDefinition("a source needs columns")
    for column in columns:
        if column.default is not None or column.generated is not None:
            raise Unsupported(
                f'column "{column.name}" of a source has a default or is generated', hint="compute it in a view"
            )
    return {
        "columns": columns, "watermark": clauses.finish_watermark(definition, [column.name for column in columns]),
    }  # fmt: skip


INCLUDED = ("partition", "offset", "timestamp", "key", "header", "headers", "file", "payload")


def included(p: Parser) -> tuple[s.Include, ...]:
    """INCLUDE partition, offset AS o INCLUDE header 'trace' AS t …"""
    found: list[s.Include] = []
    while p._match_text_seq("INCLUDE"):
        while True:
            at = p._curr
            if not at or at.text.lower() not in INCLUDED:
                p.raise_error(f"expected one of {', '.join(INCLUDED)}")
            p._advance()
            what = at.text.lower()
            header = clauses.string(p) if what == "header" and p._match(TokenType.STRING, advance=False) else None
            what = "headers" if what == "header" and header is None else what
            name = clauses.identifier(p) if p._match(TokenType.ALIAS) else header or what
            found.append(s.Include(what=what, name=name, header=header))
            if not p._match(TokenType.COMMA):
                break
    return tuple(found)


FORMATS, ENCODINGS = ("plain", "upsert", "debezium"), ("json", "csv", "bytes", "parquet", "avro")


def _format(p: Parser, secrets: list[tuple[str, str]]) -> dict[str, Any]:
    """PLAIN ENCODE JSON [(…)], behind FORMAT; options whose value is a secret are added to those that are known."""

    def word(known: tuple[str, ...], what: str) -> str:
        at = p._curr
        if not at or at.text.lower() not in known:
            raise Unsupported(
                f"{what} {at.text.upper() if at else ''} is not supported".replace("  ", " "),
                hint=f"there are {', '.join(each.upper() for each in known)}",
                position=at.start + 1 if at else None,
            )
        p._advance()
        return at.text.lower()

    format = word(FORMATS, "FORMAT")
    clauses.expect(p, "ENCODE")
    encode = word(ENCODINGS, "ENCODE")
    mine: list[tuple[str, str]] = []
    options = clauses.with_options(p, mine) if p._match(TokenType.L_PAREN, advance=False) else ()
    secrets += mine
    return {"format": format, "encode": encode, "encode_options": options}


def table_of_events(
    p: Parser,
    name: str,
    definition: clauses.TableDefinition,
    if_not_exists: bool,
    fields: dict[str, Any],
    include: tuple[s.Include, ...],
    secrets: tuple[tuple[str, str], ...],
) -> Unfinished:
    """TABLE name (columns) [INCLUDE …] WITH (connector = …), before FORMAT UPSERT | DEBEZIUM ENCODE …"""
    for unwanted, words in (("append_only", "APPEND ONLY"), ("on_conflict", "ON CONFLICT")):
        if unwanted in fields:
            raise Unsupported(f"CREATE TABLE with a connector and {words} is not supported")
    connector = dict(fields.get("options", ())).get("connector")
    at = p._curr.start + 1 if p._curr else None
    found = list(secrets)
    described = _format(p, found) if p._match_text_seq("FORMAT") else {}
    if connector != "kafka" or described.get("format") not in ("upsert", "debezium"):
        raise Unsupported(
            f"CREATE TABLE with connector = '{connector}' is not supported like this",
            hint="FORMAT UPSERT and DEBEZIUM of connector = 'kafka' make tables; for all else there is CREATE SOURCE",
            position=at,
        )
    if definition.bare_names or definition.star is not None:
        p.raise_error("expected columns with their types")
    columns = clauses.finish_columns(definition)
    for column in columns:
        if column.default is not None or column.generated is not None:
            raise Unsupported(f'column "{column.name}" has a default or is generated', hint="its source has the values")
    if not definition.pk:
        raise InvalidDefinition(
            f"FORMAT {described['format'].upper()} needs a primary key",
            hint="events change the rows that have their key",
        )
    return partial(
        s.CreateTableOfEvents, name=name, columns=columns, pk=definition.pk, if_not_exists=if_not_exists,
        options=fields["options"], secrets=tuple(found), include=include, **described,
    )  # fmt: skip


def table_from(
    p: Parser, name: str, definition: clauses.TableDefinition, if_not_exists: bool, fields: dict[str, Any]
) -> Unfinished:
    """TABLE name (*) FROM source TABLE 'schema.table' [WITH (…)], behind FROM"""
    for unwanted, words in (("append_only", "APPEND ONLY"), ("on_conflict", "ON CONFLICT")):
        if unwanted in fields:
            raise Unsupported(
                f"CREATE TABLE … FROM with {words} is not supported", hint="it has the rows of its source"
            )
    source = clauses.relation(p)
    clauses.expect(p, "TABLE")
    table = clauses.string(p)
    options = fields.get("options", ())
    if p._match(TokenType.WITH):
        options = (*options, *clauses.with_options(p))
        if len({key for key, _ in options}) < len(options):
            raise SqlSyntaxError("an option is specified more than once")
    if definition.bare_names:
        p.raise_error("expected a type")
    columns = None
    if definition.star is not None:
        if definition.columns or definition.pk:
            raise Unsupported("CREATE TABLE (*, …) is not supported", position=definition.star.start + 1)
    else:
        columns = clauses.finish_columns(definition)
        if not columns:
            raise InvalidDefinition("which columns?", hint="(*) takes all that the other table has")
        for column in columns:
            if column.default is not None or column.generated is not None:
                raise Unsupported(
                    f'column "{column.name}" has a default or is generated', hint="its source has the values"
                )
    return partial(
        s.CreateTableFrom, name=name, source=source, table=table, columns=columns, pk=definition.pk or (),
        if_not_exists=if_not_exists, options=options,
    )  # fmt: skip
