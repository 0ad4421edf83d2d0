"""Text to statements.

>>> parse("CREATE TABLE t (a INT PRIMARY KEY); FLUSH;")[1]
Flush(sql='FLUSH')
>>> parse("SELECT * FORM t")
Traceback (most recent call last):
headrace.errors.SqlSyntaxError: syntax error at or near "FORM"
"""

from __future__ import annotations

from sqlglot.tokens import Token, TokenType

from headrace.sql import grammar
from headrace.sql.dialect import run, tokenize
from headrace.sql.statements import CreateIndex, Statement
from headrace.sql.text import is_complete, split

__all__ = ["is_complete", "parse", "split"]


def parse(text: str) -> list[Statement]:
    """The statements of the text. The positions in errors count from the start of the whole text."""
    statements = []
    for tokens in _by_statement(tokenize(text)):
        unfinished = run(text, tokens, grammar.statement)
        statements.append(unfinished(sql=text[tokens[0].start : tokens[-1].end + 1]))
    return statements


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
