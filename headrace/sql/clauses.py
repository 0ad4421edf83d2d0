"""Parts of statements: names, values, options, column definitions, rows.

Each function reads one part off the parser and leaves it at what follows. Which parts a statement has, and in which
order, is said in :mod:`headrace.sql.grammar`. Expressions, types and queries are sqlglot's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from headrace.catalog import INDEX, MATERIALIZED_VIEW, SOURCE, TABLE, VIEW
from headrace.errors import DuplicateColumn, InvalidDefinition, SqlSyntaxError, UndefinedColumn, Unsupported
from headrace.sql.datatypes import sql_type
from headrace.sql.dialect import Parser, fold, fold_name, parse_expression, print_sql
from headrace.sql.names import check_column_names, relation_name
from headrace.sql.statements import ColumnSpec, Statement, Watermark
from headrace.types import SqlType

Unfinished = Callable[..., Statement]
"""A statement that lacks only its text."""

# --- names ------------------------------------------------------------------------------------------------------


def _identifier_node(p: Parser) -> exp.Identifier:
    node = p._parse_id_var(any_token=False)
    if not isinstance(node, exp.Identifier):
        p.raise_error("expected a name")
    return fold(node)


def identifier(p: Parser) -> str:
    return _identifier_node(p).name


def relation(p: Parser) -> str:
    """The name of a relation, without the schema that it may be written with."""
    position = p._curr.start + 1 if p._curr else None
    parts = [identifier(p)]
    while p._match(TokenType.DOT):
        parts.append(identifier(p))
    return relation_name(parts, position)


def identifiers(p: Parser) -> tuple[str, ...]:
    """(a, b, …)"""
    names = p._parse_wrapped_csv(partial(_identifier_node, p))
    return tuple(name.name for name in names)


def parameter_name(p: Parser) -> str:
    for words, name in (("TIME ZONE", "timezone"), ("TRANSACTION ISOLATION LEVEL", "transaction_isolation")):
        if p._match_text_seq(*words.split()):
            return name
    parts = [identifier(p)]
    while p._match(TokenType.DOT):
        parts.append(identifier(p))
    return ".".join(parts)


def relation_kind(p: Parser) -> str | None:
    for words, kind in _KINDS.items():
        if p._match_text_seq(*words.split()):
            return kind
    return None


_KINDS = {"TABLE": TABLE, "MATERIALIZED VIEW": MATERIALIZED_VIEW, "VIEW": VIEW, "INDEX": INDEX, "SOURCE": SOURCE}


# --- words, expressions, values ---------------------------------------------------------------------------------


def expect(p: Parser, *words: str) -> None:
    if not p._match_text_seq(*words):
        for word in words:  # stand at the word that is wrong
            if not p._match_text_seq(word):
                break
        p.raise_error(f"expected {' '.join(words)}")


def if_not_exists(p: Parser) -> bool:
    return bool(p._match_text_seq("IF", "NOT", "EXISTS"))


def expression(p: Parser) -> exp.Expression:
    parsed = p._parse_disjunction()
    if parsed is None:
        p.raise_error("expected an expression")
    return fold(parsed)


def where(p: Parser) -> exp.Expression | None:
    return expression(p) if p._match(TokenType.WHERE) else None


def returning(p: Parser) -> tuple[exp.Expression, ...]:
    if not p._match(TokenType.RETURNING):
        return ()
    items = p._parse_csv(p._parse_expression)
    if not items:
        p.raise_error("expected an expression")
    return tuple(fold(item) for item in items)


def string(p: Parser) -> str:
    literal = p._parse_string()
    if literal is None:
        p.raise_error("expected a string")
    return literal.name


def value(p: Parser) -> str:
    """The value of an option or a parameter, as text: 'a string', 5, -1, true, or a bare word."""
    if p._match_text_seq("-"):
        return f"-{value(p)}"
    p._match_text_seq("+")
    if p._curr.token_type in (TokenType.R_PAREN, TokenType.COMMA, TokenType.EQ) or not p._curr:
        p.raise_error("expected a value")
    literal = p._parse_string()
    if literal is not None:
        return literal.name
    p._advance()
    return p._prev.text if p._prev.token_type in (TokenType.IDENTIFIER, TokenType.NUMBER) else fold_name(p._prev.text)


def with_options(p: Parser, secrets: list[tuple[str, str]] | None = None) -> tuple[tuple[str, str], ...]:
    """(key = value, …), behind WITH. Where secrets are allowed, key = SECRET name goes to them."""

    def option() -> tuple[str, str]:
        key = [string(p) if p._match(TokenType.STRING, advance=False) else _option_word(p)]
        while p._match(TokenType.DOT):
            key.append(_option_word(p))
        if not p._match(TokenType.EQ):
            p.raise_error("expected =")
        if key == ["backfill_order"] and p._match_text_seq("FIXED"):
            return "backfill_order", f"FIXED({', '.join(order.text for order in fixed_order(p))})"
        if secrets is not None and not p._match(TokenType.STRING, advance=False) and p._match_text_seq("SECRET"):
            secrets.append((".".join(key), identifier(p)))
            return secrets[-1]
        return ".".join(key), value(p)

    options = p._parse_wrapped_csv(option)
    for key in {key for key, _ in options}:
        if sum(1 for other, _ in options if other == key) > 1:
            raise SqlSyntaxError(f'option "{key}" specified more than once')
    return tuple(each for each in options if each not in (secrets or ()))


def _option_word(p: Parser) -> str:
    """A part of an option's name: any word, also one that SQL has reserved."""
    if p._curr and p._curr.token_type != TokenType.IDENTIFIER and re.fullmatch(r"[A-Za-z_]\w*", p._curr.text):
        p._advance()
        return fold_name(p._prev.text)
    return identifier(p)


class Before(NamedTuple):
    """a -> b: a is filled before b."""

    first: str
    then: str
    text: str
    """As written"""


def fixed_order(p: Parser) -> list[Before]:
    """(a -> b, …), behind FIXED"""

    def written(start: Token) -> str:
        return p.sql[start.start : p._prev.end + 1]

    def pair() -> Before:
        start = p._curr
        first = relation(p)
        left = written(start)
        if not p._match(TokenType.ARROW):
            p.raise_error("expected ->")
        start = p._curr
        then = relation(p)
        return Before(first, then, f"{left} -> {written(start)}")

    return p._parse_wrapped_csv(pair)


def takes_last(p: Parser, *words: str) -> bool:
    """Whether the statement ends with these words. If so they are taken, so that they are no alias in its query."""
    if [each.text.upper() for each in p._tokens[-len(words) :]] != [*words]:
        return False
    p._tokens = p._tokens[: -len(words)]
    p._tokens_size = len(p._tokens)
    p._advance(0)
    return True


# --- CREATE TABLE -----------------------------------------------------------------------------------------------


class TableDefinition:
    """What the parentheses of a CREATE TABLE say, collected."""

    def __init__(self) -> None:
        self.columns: list[ColumnSpec] = []
        self.bare_names: list[str] = []
        self.pk: tuple[str, ...] | None = None
        self.star: Token | None = None
        """(*): all columns of a table elsewhere"""
        self.watermarks: list[Watermark] = []

    def set_pk(self, name: str, names: tuple[str, ...]) -> None:
        if self.pk is not None:
            raise InvalidDefinition(f'multiple primary keys for table "{name}" are not allowed')
        self.pk = names


def table_options(p: Parser) -> dict[str, Any]:
    """What follows the parentheses, as fields of :class:`headrace.sql.statements.CreateTable`."""
    fields: dict[str, Any] = {}
    while True:
        if p._match_text_seq("APPEND", "ONLY"):
            fields["append_only"] = True
        elif p._match_text_seq("ON", "CONFLICT"):
            fields["on_conflict"] = _conflict_action(p)
        elif p._match(TokenType.WITH):
            secrets: list[tuple[str, str]] = []
            start = p._index
            fields["options"] = with_options(p, secrets)
            if secrets and "connector" not in dict(fields["options"]):
                p._retreat(start)
                fields["options"] = with_options(p)  # says what is wrong with it
            fields["secrets"] = tuple(secrets)
        elif p._match_texts(("FORMAT", "INCLUDE"), advance=False):
            return fields
        elif p._match_texts(("ENGINE",)):
            raise Unsupported(f"CREATE TABLE … {p._prev.text.upper()} is not supported yet", position=p._prev.start + 1)
        else:
            return fields


def _conflict_action(p: Parser) -> str:
    for words, action in _CONFLICT_ACTIONS.items():
        if p._match_text_seq(*words.split()):
            return action
    p.raise_error("expected an action")


_CONFLICT_ACTIONS = {
    "OVERWRITE": "overwrite",
    "IGNORE": "ignore",
    "DO NOTHING": "ignore",
    "DO UPDATE FULL": "overwrite",
    "DO UPDATE IF NOT NULL": "update_if_not_null",
}


def table_item(p: Parser, table: str, definition: TableDefinition) -> None:
    """A column, or a constraint of the table."""
    if p._match_text_seq("CONSTRAINT"):
        identifier(p)
    if p._match(TokenType.PRIMARY_KEY):
        definition.set_pk(table, identifiers(p))
        return
    if p._match_text_seq("WATERMARK", "FOR"):
        column = identifier(p)
        if not p._match(TokenType.ALIAS):
            p.raise_error("expected AS")
        definition.watermarks.append(Watermark(column=column, expression=print_sql(expression(p))))
        return
    for words in ("UNIQUE", "CHECK", "FOREIGN KEY", "EXCLUDE", "LIKE"):
        if p._match_text_seq(words):
            raise Unsupported(f"{words} is not supported in CREATE TABLE", position=p._prev.start + 1)
    if p._match(TokenType.STAR):
        definition.star = p._prev
        return
    name = identifier(p)
    if p._curr.token_type in (TokenType.COMMA, TokenType.R_PAREN):
        definition.bare_names.append(name)
        return
    _column(p, table, name, definition)


def finish_watermark(definition: TableDefinition, names: Iterable[str]) -> Watermark | None:
    if len(definition.watermarks) > 1:
        raise InvalidDefinition("there is one watermark at most")
    for each in definition.watermarks:
        if each.column not in names:
            raise InvalidDefinition(f'column "{each.column}" named in WATERMARK does not exist')
        return each
    return None


def data_type(p: Parser) -> SqlType:
    parsed = p._parse_types(schema=True)
    if parsed is None:
        p.raise_error("expected a type")
    return sql_type(parsed)


def _column(p: Parser, table: str, name: str, definition: TableDefinition) -> None:
    kind = data_type(p)
    nullable, default, generated = True, None, None
    while True:
        if p._match_text_seq("CONSTRAINT"):
            identifier(p)
        if p._match(TokenType.PRIMARY_KEY):
            definition.set_pk(table, (name,))
        elif p._match_text_seq("NOT", "NULL"):
            nullable = False
        elif p._match_text_seq("NULL"):
            pass
        elif p._match_text_seq("DEFAULT"):
            default = _constraint_expression(p)
        elif p._match_text_seq("GENERATED", "ALWAYS", "AS"):
            if p._match_text_seq("IDENTITY"):
                raise Unsupported("GENERATED ALWAYS AS IDENTITY is not supported", position=p._prev.start + 1)
            generated = print_sql(p._parse_wrapped(partial(expression, p)))
            if p._match_text_seq("VIRTUAL"):
                raise Unsupported("a VIRTUAL generated column is not supported", hint="use STORED")
            p._match_text_seq("STORED")
        elif p._match(TokenType.ALIAS):
            generated = _constraint_expression(p)
        else:
            break
    for words in ("UNIQUE", "CHECK", "REFERENCES", "COLLATE"):
        if p._match_text_seq(words):
            raise Unsupported(f"{words} is not supported in CREATE TABLE", position=p._prev.start + 1)
    if default is not None and generated is not None:
        raise InvalidDefinition(f'both default and generation expression specified for column "{name}"')
    definition.columns.append(ColumnSpec(name=name, type=kind, nullable=nullable, default=default, generated=generated))


def _constraint_expression(p: Parser) -> str:
    """Without parentheses only what cannot be confused with the next constraint, as in PostgreSQL."""
    parsed = None if p._match(TokenType.NOT, advance=False) else p._parse_bitwise()
    if parsed is None:
        p.raise_error("expected an expression")
    return print_sql(fold(parsed).unnest())


def finish_columns(definition: TableDefinition) -> tuple[ColumnSpec, ...]:
    names = [column.name for column in definition.columns]
    check_column_names(names)
    _check_generated(definition.columns)
    pk = definition.pk or ()
    for position, key in enumerate(pk):
        if key not in names:
            raise UndefinedColumn(f'column "{key}" named in key does not exist')
        if key in pk[:position]:
            raise DuplicateColumn(f'column "{key}" appears twice in primary key constraint')
    return tuple(
        ColumnSpec(
            name=column.name,
            type=column.type,
            nullable=column.nullable and column.name not in pk,
            default=column.default,
            generated=column.generated,
        )
        for column in definition.columns
    )


def _check_generated(columns: list[ColumnSpec]) -> None:
    """A generated column is computed from the columns that a statement gives, in one step."""
    generated = {column.name for column in columns if column.generated is not None}
    for column in columns:
        if column.generated is None:
            continue
        for used in parse_expression(column.generated).find_all(exp.Column):
            if used.name in generated:
                raise InvalidDefinition(f'cannot use generated column "{used.name}" in column generation expression')


# --- INSERT, UPDATE, DELETE -------------------------------------------------------------------------------------


def rows_of_values(p: Parser, columns: tuple[str, ...]) -> tuple[tuple[exp.Expression, ...], ...]:
    def cell() -> exp.Expression:
        return exp.var("DEFAULT") if p._match(TokenType.DEFAULT) else expression(p)

    rows = tuple(tuple(row) for row in p._parse_csv(lambda: p._parse_wrapped_csv(cell)))
    if any(len(row) != len(rows[0]) for row in rows):
        raise SqlSyntaxError("VALUES lists must all be the same length")
    if columns and len(rows[0]) > len(columns):
        raise SqlSyntaxError("INSERT has more expressions than target columns")
    if columns and len(rows[0]) < len(columns):
        raise SqlSyntaxError("INSERT has more target columns than expressions")
    return rows


def table_alias(p: Parser) -> str | None:
    if p._match(TokenType.ALIAS):
        return identifier(p)
    if p._match_texts(("SET", "WHERE", "USING", "RETURNING", "FROM"), advance=False) or not p._curr:
        return None
    return identifier(p)


def column_assignments(assignment: exp.Expression) -> list[tuple[str, exp.Expression]]:
    """Of a = 1, or of (a, b) = (1, 2)."""
    target, value = assignment.this, assignment.expression
    if isinstance(target, exp.Column) and not target.table:
        return [(target.name, value)]
    if isinstance(target, (exp.Tuple, exp.Paren)):
        targets = target.expressions if isinstance(target, exp.Tuple) else [target.this]
        if isinstance(value, exp.Anonymous) and value.this == "row":
            value = exp.Tuple(expressions=value.expressions)
        values = value.expressions if isinstance(value, exp.Tuple) else [value.unnest()]
        if len(targets) == len(values) and all(isinstance(t, exp.Column) and not t.table for t in targets):
            return [(t.name, v) for t, v in zip(targets, values, strict=True)]
        raise Unsupported("UPDATE … SET (…) = subquery is not supported")
    raise Unsupported(f"SET {print_sql(target)} is not supported", hint="assign to a whole column")
