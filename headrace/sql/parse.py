"""Text to statements.

>>> parse("CREATE TABLE t (a INT PRIMARY KEY); FLUSH;")[1]
Flush(sql='FLUSH')
>>> parse("SELECT * FORM t")
Traceback (most recent call last):
headrace.errors.SqlSyntaxError: syntax error at or near "FORM"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from sqlglot.tokens import Token, TokenType

from headrace.errors import DuplicateColumn, HeadraceError, UndefinedColumn, UndefinedRelation
from headrace.sql import grammar
from headrace.sql.dialect import run, tokenize
from headrace.sql.statements import CreateIndex, CreateTable, Insert, Statement, Update
from headrace.sql.text import is_complete, split

__all__ = ["is_complete", "parse", "split"]


def parse(text: str, *, between: Callable[[], None] = lambda: None) -> list[Statement]:
    """The statements of the text. The positions in errors count from the start of the whole text.

    ``between`` is called before each: it may raise if nobody wants them any more.
    """
    statements = []
    for tokens in _by_statement(tokenize(text)):
        between()
        unfinished = run(text, tokens, grammar.statement)
        first = tokens[0].start
        statement = unfinished(sql=text[first : tokens[-1].end + 1])
        statements.append(replace(statement, begins=first) if first else statement)
    return statements


def point_at(error: BaseException, statement: Statement) -> None:
    """Gives an error the place of the name or the constant that it speaks of, if that is in the statement only once."""
    if not isinstance(error, HeadraceError) or error.position is not None:
        return
    if isinstance(error, (UndefinedRelation, UndefinedColumn, DuplicateColumn)):
        said, strings = re.match(r'(?:relation|column|table|index|source) "([^"]+)"', error.message), False
    elif error.sqlstate in _BAD_CONSTANTS and isinstance(statement, (CreateTable, Insert, Update)):
        said, strings = re.search(r': "([^"]*)"$', error.message), True
    else:
        return
    tokens = tokenize(statement.sql) if said is not None else []
    found = [each for each in tokens if (each.token_type == TokenType.STRING) == strings and _means(each, said[1])]
    if len(found) == (2 if isinstance(error, DuplicateColumn) else 1):
        error.position = statement.begins + found[-1].start + 1


_BAD_CONSTANTS = ("22P02", "22007", "22008", "22003")


def _means(token: Token, name: str) -> bool:
    return token.text == name or (token.token_type == TokenType.VAR and token.text.lower() == name)


def index_statement(definition: str) -> CreateIndex:
    """What the stored definition of an index says."""
    (statement,) = parse(definition)
    assert isinstance(statement, CreateIndex), definition
    return statement


_BEFORE_NAME = ("CREATE", "OR REPLACE", "LOCAL", "TEMP", "TEMPORARY", "MATERIALIZED", "TABLE", "VIEW", "IF NOT EXISTS")


def created_name(definition: str) -> slice:
    """Where a CREATE TABLE, VIEW or MATERIALIZED VIEW has the name, without its schema.

    >>> text = 'CREATE TABLE IF NOT EXISTS public."table" (id INT) APPEND ONLY'
    >>> text[created_name(text)]
    '"table"'
    """
    tokens = tokenize(definition)
    at = 0
    for words in map(str.split, _BEFORE_NAME):
        found = tokens[at : at + len(words)]
        if [token.text.upper() for token in found] == words and found[0].token_type != TokenType.IDENTIFIER:
            at += len(words)
    while tokens[at + 1].token_type == TokenType.DOT:
        at += 2
    return slice(tokens[at].start, tokens[at].end + 1)


def _by_statement(tokens: list[Token]) -> list[list[Token]]:
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]
