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
    """SOURCE name WITH (connector = 'postgres-cdc', …, password = SECRET name)"""
    start = p._prev
    if_not_exists = clauses.if_not_exists(p)
    name = clauses.relation(p)
    if p._match(TokenType.L_PAREN, advance=False):
        raise Unsupported("CREATE SOURCE with columns is not supported yet", position=p._curr.start + 1)
    secrets: list[tuple[str, str]] = []
    if not p._match(TokenType.WITH):
        p.raise_error("expected WITH")
    options = clauses.with_options(p, secrets)
    connector = dict(options).get("connector")
    if connector not in CONNECTORS:
        raise Unsupported(
            f"CREATE SOURCE with connector = '{connector}' is not supported yet"
            if connector
            else "CREATE SOURCE needs a connector",
            hint=f"there are connector = {' and '.join(map(repr, CONNECTORS))}",
            position=start.start + 1,
        )
    return partial(s.CreateSource, name=name, options=options, secrets=tuple(secrets), if_not_exists=if_not_exists)


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
