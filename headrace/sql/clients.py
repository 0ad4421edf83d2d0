"""Statements by which clients manage their connection: transactions, cursors, COPY, and tidying up.

Drivers send most of them on their own account, so they are accepted wherever that promises nothing untrue. What they
do is decided by :mod:`headrace.serving.session` and :mod:`headrace.serving.server`.
"""

from __future__ import annotations

from functools import partial

from sqlglot.tokens import TokenType

from headrace.errors import Unsupported
from headrace.sql import clauses
from headrace.sql import statements as s
from headrace.sql.clauses import Unfinished
from headrace.sql.dialect import Parser, fold


def _skip(p: Parser) -> None:
    while p._curr:
        p._advance()


def _begin(p: Parser) -> Unfinished:
    if p._prev.text.upper() == "BEGIN":
        p._match_texts(("WORK", "TRANSACTION"))
    return partial(s.Begin, read_only=_modes(p))


def _end(kind: type[s.Statement]):
    def read(p: Parser) -> Unfinished:
        if p._match_text_seq("PREPARED"):
            raise Unsupported(
                f"{p._tokens[0].text.upper()} {p._prev.text.upper()} is not supported: there are no transactions",
                hint="every statement takes effect by itself",
                position=p._prev.start + 1,
            )
        p._match_texts(("WORK", "TRANSACTION"))
        if kind is s.Rollback and p._match_text_seq("TO"):
            return _savepoint(s.RollbackTo)(p)
        chain = False
        if p._match_text_seq("AND"):
            chain = not p._match_text_seq("NO")
            clauses.expect(p, "CHAIN")
        return partial(kind, chain=chain)

    return read


_LEVELS = (("SERIALIZABLE",), ("REPEATABLE", "READ"), ("READ", "COMMITTED"), ("READ", "UNCOMMITTED"))


def _modes(p: Parser) -> bool | None:
    """Whether the transaction is READ ONLY, if that is said.

    Isolation levels promise nothing that is not so: a statement sees one committed state, which is the strictest.
    """
    read_only = None
    while p._curr:
        if p._match_text_seq("ISOLATION", "LEVEL"):
            if not any(p._match_text_seq(*words) for words in _LEVELS):
                p.raise_error("expected an isolation level")
        elif p._match_text_seq("READ", "ONLY"):
            read_only = True
        elif p._match_text_seq("READ", "WRITE"):
            read_only = False
        elif not p._match_text_seq("DEFERRABLE") and not p._match_text_seq("NOT", "DEFERRABLE"):
            break
        if p._match(TokenType.COMMA) and not p._curr:
            p.raise_error("expected a mode of the transaction")
    return read_only


def _savepoint(kind: type[s.Statement]):
    def read(p: Parser) -> Unfinished:
        p._match_text_seq("SAVEPOINT")
        clauses.identifier(p)
        return partial(kind)

    return read


def set_transaction(p: Parser, *, session: bool = False) -> Unfinished:
    if not session and p._match_text_seq("SNAPSHOT"):
        raise Unsupported("SET TRANSACTION SNAPSHOT is not supported", position=p._prev.start + 1)
    if not p._curr:
        p.raise_error("expected a mode of the transaction")
    return partial(s.SetTransaction, read_only=_modes(p), session=session)


def _declare(p: Parser) -> Unfinished:
    name = clauses.identifier(p)
    while not p._match_text_seq("CURSOR"):
        if p._match_text_seq("SCROLL"):
            raise Unsupported("a SCROLL cursor is not supported", position=p._prev.start + 1)
        if p._match_text_seq("NO", "SCROLL"):
            continue
        if not p._match_texts(("BINARY", "INSENSITIVE", "ASENSITIVE")):
            p.raise_error("expected CURSOR")
        if p._prev.text.upper() == "BINARY":
            raise Unsupported("a BINARY cursor is not supported", position=p._prev.start + 1)
    hold = bool(p._match_text_seq("WITH", "HOLD"))
    if not hold:
        p._match_text_seq("WITHOUT", "HOLD")
    clauses.expect(p, "FOR")
    return partial(s.DeclareCursor, name=name, query=fold(p.parse_query()), hold=hold)


def _fetch(p: Parser, *, move: bool = False) -> Unfinished:
    count: int | None = 1
    p._match_text_seq("FORWARD")
    if p._match_text_seq("ALL"):
        count = None
    elif p._match(TokenType.NUMBER) and p._prev.text.isdigit():
        count = int(p._prev.text)
    elif not p._match_text_seq("NEXT") and p._match_texts(
        ("PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "BACKWARD")
    ):
        raise Unsupported(
            f"FETCH {p._prev.text.upper()} is not supported",
            hint="cursors only move forward",
            position=p._prev.start + 1,
        )
    if not p._match_text_seq("FROM"):
        p._match_text_seq("IN")
    return partial(s.FetchCursor, name=clauses.identifier(p), count=count, move=move)


def _name_or_all(p: Parser) -> str | None:
    return None if p._match_text_seq("ALL") else clauses.identifier(p)


def _prepare(p: Parser) -> Unfinished:
    if p._match_text_seq("TRANSACTION"):
        raise Unsupported(
            "PREPARE TRANSACTION is not supported: there are no transactions", position=p._tokens[0].start + 1
        )
    name, types = clauses.identifier(p), ()
    if p._match(TokenType.L_PAREN):
        types = tuple(p._parse_csv(lambda: clauses.data_type(p)))
        p._match_r_paren()
    clauses.expect(p, "AS")
    if not p._curr:
        p.raise_error("expected a statement")
    start = p._curr.start
    _skip(p)  # it is read when its parameters are known
    return partial(s.Prepare, name=name, types=types, text=p.sql[start : p._tokens[-1].end + 1], start=start)


def _execute(p: Parser) -> Unfinished:
    name, values = clauses.identifier(p), []
    if p._match(TokenType.L_PAREN):
        while True:
            start = p._curr.start if p._curr else 0
            tree = clauses.expression(p)
            values.append((tree, p.sql[start : p._prev.end + 1]))
            if not p._match(TokenType.COMMA):
                break
        p._match_r_paren()
    trees, texts = zip(*values, strict=True) if values else ((), ())
    return partial(s.Execute, name=name, values=trees, texts=texts)


def _deallocate(p: Parser) -> Unfinished:
    p._match_text_seq("PREPARE")
    return partial(s.Deallocate, name=_name_or_all(p))


def _discard(p: Parser) -> Unfinished:
    clauses.expect(p, "ALL")
    return partial(s.Discard)


def _unlisten(p: Parser) -> Unfinished:
    _skip(p)
    return partial(s.Unlisten)


_COPY_FORMATS = ("text", "csv", "binary")


def _copy(p: Parser) -> Unfinished:
    table, columns, query = None, (), None
    if p._match(TokenType.L_PAREN):
        query = fold(p.parse_query())
        p._match_r_paren()
    else:
        table = clauses.relation(p)
        if p._match(TokenType.L_PAREN, advance=False):
            columns = clauses.identifiers(p)
    into = bool(p._match_text_seq("FROM"))
    if not into:
        clauses.expect(p, "TO")
    elif query is not None:
        p.raise_error("a query cannot be written to")
    if not p._match_text_seq("STDIN" if into else "STDOUT"):
        raise Unsupported(
            "COPY of a file is not supported",
            hint="use COPY … FROM STDIN or TO STDOUT, or psql's \\copy",
            position=p._curr.start + 1 if p._curr else None,
        )
    return partial(s.Copy, table=table, columns=columns, query=query, into=into, options=_copy_options(p))


def _copy_options(p: Parser) -> tuple[tuple[str, str], ...]:
    """WITH (FORMAT csv, HEADER), or the old way: WITH CSV HEADER DELIMITER ';'"""
    p._match_text_seq("WITH")
    found: dict[str, str] = {}
    if p._match(TokenType.L_PAREN):
        p._parse_csv(lambda: _copy_option(p, found) or True)
        p._match_r_paren()
    else:
        while p._curr:
            _copy_option(p, found, old=True)
    if found.get("format", "text") not in _COPY_FORMATS:
        raise Unsupported(f"COPY in format {found['format']} is not supported", hint="text, csv and binary are")
    return tuple(found.items())


def _copy_option(p: Parser, found: dict[str, str], *, old: bool = False) -> None:
    if old and p._match_texts(("CSV", "BINARY")):
        found["format"] = p._prev.text.lower()
    elif p._match_text_seq("FORMAT"):
        found["format"] = clauses.value(p).lower()
    elif p._match_text_seq("HEADER"):
        given = not old and not p._match_set((TokenType.COMMA, TokenType.R_PAREN), advance=False)
        found["header"] = clauses.value(p).lower() if given else "true"
    elif p._match_texts(("DELIMITER", "NULL", "QUOTE", "ESCAPE")):
        name = p._prev.text.lower()
        p._match(TokenType.ALIAS)
        found[name] = clauses.string(p)
    elif p._match_text_seq("ENCODING"):
        if clauses.string(p).lower().replace("-", "") != "utf8":
            raise Unsupported("COPY in an encoding other than UTF8 is not supported", position=p._prev.start + 1)
    else:
        name = p._curr.text.upper() if p._curr else ""
        raise Unsupported(f"option {name} of COPY is not supported", position=p._curr.start + 1 if p._curr else None)


STATEMENTS = {
    "BEGIN": _begin,
    "START TRANSACTION": _begin,
    "COMMIT": _end(s.Commit),
    "END": _end(s.Commit),
    "ROLLBACK": _end(s.Rollback),
    "ABORT": _end(s.Rollback),
    "SAVEPOINT": _savepoint(s.Savepoint),
    "RELEASE": _savepoint(s.Savepoint),
    "DECLARE": _declare,
    "FETCH": _fetch,
    "MOVE": partial(_fetch, move=True),
    "CLOSE": lambda p: partial(s.CloseCursor, name=_name_or_all(p)),
    "PREPARE": _prepare,
    "EXECUTE": _execute,
    "DEALLOCATE": _deallocate,
    "DISCARD": _discard,
    "UNLISTEN": _unlisten,
    "COPY": _copy,
}
