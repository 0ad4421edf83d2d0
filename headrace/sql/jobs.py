"""Statements about jobs, and the options that steer them.

A job fills a relation with the rows that are there already: what `CREATE MATERIALIZED VIEW` and `CREATE INDEX` start.
The functions read what follows a statement's first keywords, like those of :mod:`headrace.sql.grammar`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from sqlglot.tokens import TokenType

from headrace.catalog import INDEX, MATERIALIZED_VIEW, SOURCE, TABLE
from headrace.config import parse_parallelism, parse_rate_limit
from headrace.errors import HeadraceError, InvalidParameterValue, Unsupported
from headrace.sql import clauses
from headrace.sql import statements as s
from headrace.sql.clauses import Unfinished
from headrace.sql.dialect import Parser, run, tokenize


def _job_id(p: Parser) -> int:
    if p._curr.token_type != TokenType.NUMBER or not re.fullmatch(r"[0-9]{1,18}", p._curr.text):
        p.raise_error("expected the number of a job")
    p._advance()
    return int(p._prev.text)


def show_job(p: Parser) -> Unfinished:
    return partial(s.ShowJobs, id=_job_id(p), positions=bool(p._match_text_seq("POSITIONS")))


def wait(p: Parser) -> Unfinished:
    return partial(s.Wait, name=clauses.relation(p) if p._curr else None)


def cancel(p: Parser) -> Unfinished:
    if not p._match_texts(("JOB", "JOBS")):
        p.raise_error("expected JOBS")
    return partial(s.CancelJobs, ids=tuple(dict.fromkeys(p._parse_csv(partial(_job_id, p)))))


def pause(p: Parser) -> Unfinished:
    return partial(s.Pause, job_id=_job_id(p) if p._match_text_seq("JOB") else None)


def resume(p: Parser) -> Unfinished:
    return partial(s.Resume, job_id=_job_id(p) if p._match_text_seq("JOB") else None)


def resnapshot(p: Parser) -> Unfinished:
    clauses.expect(p, "TABLE")
    return partial(s.Resnapshot, name=clauses.relation(p))


def check(p: Parser) -> Unfinished:
    start = p._curr
    kind = clauses.relation_kind(p)
    if kind is None:
        p.raise_error("unknown CHECK")
    if kind not in (MATERIALIZED_VIEW, INDEX):
        raise Unsupported(
            f"CHECK {kind.upper()} is not supported",
            hint="only a materialized view or an index is computed from something that it can be compared with",
            position=start.start + 1,
        )
    return partial(s.Check, kind=kind, name=clauses.relation(p))


# --- ALTER … SET ------------------------------------------------------------------------------------------------


def alter(p: Parser, kind: str, name: str) -> Unfinished | None:
    """What can be set while a job runs, and after; None if it is something else that ALTER is asked for."""
    for word, (kinds, statement) in _SETTINGS.items():
        if p._match_text_seq("SET", word):
            if kind not in kinds:
                raise Unsupported(f"ALTER {kind.upper()} SET {word} is not supported", position=p._prev.start + 1)
            return statement(p, kind=kind, name=name)
    return None


def _set_parallelism(p: Parser, **relation: str) -> Unfinished:
    parallelism = _setting(p, "PARALLELISM", parse_parallelism)
    if p._match_text_seq("DEFERRED"):
        raise Unsupported("SET PARALLELISM … DEFERRED is not supported", position=p._prev.start + 1)
    return partial(s.SetParallelism, **relation, parallelism=parallelism)


def _set_backfill_rate_limit(p: Parser, **relation: str) -> Unfinished:
    return partial(s.SetBackfillRateLimit, **relation, limit=_setting(p, "BACKFILL_RATE_LIMIT", parse_rate_limit))


def _setting(p: Parser, word: str, parse: Callable[[str], int | None]) -> int | None:
    if not p._match(TokenType.EQ) and not p._match_text_seq("TO"):
        p.raise_error("expected = or TO")
    start = p._curr
    text = clauses.value(p)
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidParameterValue(
            f'invalid value for {word}: "{text}"', hint=str(error), position=start.start + 1
        ) from None


_SETTINGS = {
    "PARALLELISM": ((TABLE, MATERIALIZED_VIEW, INDEX), _set_parallelism),
    "BACKFILL_RATE_LIMIT": ((TABLE, MATERIALIZED_VIEW, INDEX, SOURCE), _set_backfill_rate_limit),
}


# --- the option backfill_order ----------------------------------------------------------------------------------


def backfill_order(text: str) -> str | tuple[tuple[str, str], ...]:
    """The value of the option: auto, none, or pairs of relations of which the first is filled before the second.

    >>> backfill_order("AUTO")
    'auto'
    >>> backfill_order("FIXED(a -> b, b -> public.c)")
    (('a', 'b'), ('b', 'c'))
    """
    if text.lower() in ("auto", "none"):
        return text.lower()

    def fixed(p: Parser) -> list[clauses.Before]:
        clauses.expect(p, "FIXED")
        return clauses.fixed_order(p)

    try:
        return tuple((each.first, each.then) for each in run(text, tokenize(text), fixed))
    except HeadraceError as error:
        raise InvalidParameterValue(
            f'invalid value for option "backfill_order": "{text}"',
            hint=f"AUTO, NONE or FIXED(a -> b, …) is expected: {error.message}",
        ) from None
