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


def _by_statement(tokens: list[Token]) -> list[list[Token]]:
    statements: list[list[Token]] = [[]]
    for token in tokens:
        if token.token_type == TokenType.SEMICOLON:
            statements.append([])
        else:
            statements[-1].append(token)
    return [statement for statement in statements if statement]
