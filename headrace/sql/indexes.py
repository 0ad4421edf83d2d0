"""CREATE INDEX: which columns of which relation, in which order.

What PostgreSQL's and RisingWave's indexes can be beyond sorted columns is refused by name.
"""

from __future__ import annotations

from functools import partial

from sqlglot.tokens import TokenType

from headrace.errors import InvalidDefinition, Unsupported
from headrace.sql import clauses
from headrace.sql import statements as s
from headrace.sql.clauses import Unfinished
from headrace.sql.dialect import Parser
from headrace.sql.text import quoted_string
from headrace.types import quote_sql


def create_index(p: Parser) -> Unfinished:
    """[IF NOT EXISTS] i ON t (a, b DESC, …) [INCLUDE (c, …)] [DISTRIBUTED BY (a, …)] [WITH (…)]"""
    if p._curr.text.upper() == "CONCURRENTLY" and p._curr.token_type != TokenType.IDENTIFIER:
        raise Unsupported(
            "CREATE INDEX CONCURRENTLY is not supported",
            hint="leave it out: writes go on while an index is filled",
            position=p._curr.start + 1,
        )
    if_not_exists = clauses.if_not_exists(p)
    if p._match(TokenType.ON, advance=False):
        raise Unsupported("CREATE INDEX without a name is not supported", position=p._curr.start + 1)
    name = clauses.relation(p)
    clauses.expect(p, "ON")
    table = clauses.relation(p)
    _refuse(p, "USING")
    # A column that is named again sorts nothing that its first mention has not sorted.
    keys: dict[str, s.IndexKey] = {}
    for key in p._parse_wrapped_csv(partial(_key, p)):
        keys.setdefault(key.name, key)
    include = None
    if p._match_text_seq("INCLUDE"):
        include = tuple(column for column in dict.fromkeys(clauses.identifiers(p)) if column not in keys)
    distributed_by = _distributed_by(p, tuple(keys)) if p._match_text_seq("DISTRIBUTED") else ()
    options = clauses.with_options(p) if p._match(TokenType.WITH) else ()
    _refuse(p, "WHERE", "NULLS", "TABLESPACE")
    return partial(
        s.CreateIndex,
        name=name,
        table=table,
        keys=tuple(keys.values()),
        include=include,
        distributed_by=distributed_by,
        if_not_exists=if_not_exists,
        options=options,
    )


def index_text(statement: s.CreateIndex) -> str:
    """The statement in full, as one that makes the same index.

    >>> from headrace.sql.parse import index_statement
    >>> index_text(index_statement('create index I on T (a desc, "B" nulls first) include (c)'))
    'CREATE INDEX i ON t (a DESC, "B" NULLS FIRST) INCLUDE (c)'
    """
    keys = [quote_sql(key.name) for key in statement.keys]
    text = f"CREATE INDEX {quote_sql(statement.name)} ON {quote_sql(statement.table)}"
    text += f" ({', '.join(map(key_text, statement.keys))})"
    if statement.include is not None:
        # Nothing but the key: a column of the key says so.
        text += f" INCLUDE ({', '.join(map(quote_sql, statement.include)) or keys[0]})"
    if statement.distributed_by:
        text += f" DISTRIBUTED BY ({', '.join(map(quote_sql, statement.distributed_by))})"
    if statement.options:
        text += f" WITH ({', '.join(f'{name} = {quoted_string(value)}' for name, value in statement.options)})"
    return text


def key_text(key: s.IndexKey) -> str:
    nulls = "" if key.nulls_first == key.descending else " NULLS FIRST" if key.nulls_first else " NULLS LAST"
    return quote_sql(key.name) + (" DESC" if key.descending else "") + nulls


def _refuse(p: Parser, *words: str) -> None:
    if p._match_texts(words):
        raise Unsupported(f"CREATE INDEX … {p._prev.text.upper()} is not supported", position=p._prev.start + 1)


def _key(p: Parser) -> s.IndexKey:
    name = _column(p)
    if p._match_text_seq("COLLATE"):
        raise Unsupported("COLLATE is not supported in CREATE INDEX", position=p._prev.start + 1)
    descending = bool(p._match_text_seq("DESC"))
    if not descending:
        p._match_text_seq("ASC")
    nulls_first = descending  # NULLs are larger than all else
    if p._match_text_seq("NULLS"):
        if not p._match_texts(("FIRST", "LAST")):
            p.raise_error("expected FIRST or LAST")
        nulls_first = p._prev.text.upper() == "FIRST"
    return s.IndexKey(name=name, descending=descending, nulls_first=nulls_first)


_AFTER_A_COLUMN = ("", ",", ")", "ASC", "DESC", "NULLS", "COLLATE", ".")


def _column(p: Parser) -> str:
    start = p._curr
    if p._next.text.upper() in _AFTER_A_COLUMN:
        return clauses.identifier(p)
    clauses.expression(p)
    if p._curr.text.upper() not in _AFTER_A_COLUMN:
        p.raise_error("expected , or )")
    raise Unsupported(
        "an index takes columns, not expressions",
        hint="index the column, or create a materialized view that has the expression as a column and index that",
        position=start.start + 1,
    )


def _distributed_by(p: Parser, keys: tuple[str, ...]) -> tuple[str, ...]:
    clauses.expect(p, "BY")
    start = p._curr
    columns = tuple(dict.fromkeys(p._parse_wrapped_csv(partial(_column, p))))
    if columns != keys[: len(columns)]:
        raise InvalidDefinition(
            "an index can only be distributed by the first columns of its key",
            hint=f"the key is ({', '.join(keys)})",
            position=start.start + 1,
        )
    return columns
