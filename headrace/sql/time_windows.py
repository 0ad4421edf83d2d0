"""TUMBLE, HOP and SESSION in FROM: the rows of a relation with the windows of time that they fall into.

    TUMBLE(bids, at, INTERVAL '10 minutes')                          each row in one window
    HOP(bids, at, INTERVAL '5 minutes', INTERVAL '10 minutes')       a window every 5 minutes: each row in two
    SESSION(bids, at, INTERVAL '10 seconds', bidder)                 until a bidder does nothing for 10 seconds

They are queries over the relation: all its columns, then ``window_start`` and ``window_end``. HOP is a UNION ALL of one
such query for each window that a row may fall into, so both are linear. Windows are counted from 1970 on, or from as
much later as one more interval says. SESSION has window functions over the rows of each key: a session begins with a
row that comes later than the gap after the one before it.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX
from headrace.errors import SqlSyntaxError, Unsupported
from headrace.intervals import parse_interval
from headrace.sql.dialect import parse_query, print_sql
from headrace.sql.expressions import position_of

BEGINS, NUMBER = f'"{INTERNAL_PREFIX}begins"', f'"{INTERNAL_PREFIX}number"'
"""Columns on the way to a session: whether one begins with the row, and how many have."""

MOST = 1000
"""Windows that a row of HOP may fall into."""


def is_time_window(node: exp.Expression) -> bool:
    call = node.this
    return isinstance(call, exp.Anonymous) and str(call.this).lower() in ("tumble", "hop", "session")


def windowed_relation(node: exp.Table) -> exp.Select:
    """All rows of the relation that the call names."""
    call = node.this
    if not call.expressions or not isinstance(call.expressions[0], exp.Column):
        raise SqlSyntaxError(f"{call.this}() is written {_form(call)}", position=position_of(call))
    return parse_query(f"SELECT * FROM {_relation(call)}")


def _relation(call: exp.Anonymous) -> str:
    return ".".join(print_sql(part) for part in call.expressions[0].parts)


def _form(call: exp.Anonymous) -> str:
    return {
        "tumble": "tumble(relation, column, size)",
        "hop": "hop(relation, column, slide, size)",
        "session": "session(relation, column, gap, key, …)",
    }[str(call.this).lower()]


def time_window(node: exp.Table, columns: Sequence[str]) -> exp.Subquery:
    """The query that the call stands for; ``columns`` are those of the relation."""
    call = node.this
    if str(call.this).lower() == "session":
        return _session(node, columns)
    name, arguments = str(call.this).lower(), call.expressions
    count = 3 if name == "tumble" else 4
    named = all(isinstance(each, exp.Column) for each in arguments[:2])
    if len(arguments) not in (count, count + 1) or not named:
        raise SqlSyntaxError(f"{name}() is written {_form(call)}", position=position_of(call))
    relation = _relation(call)
    column = print_sql(arguments[1])
    lengths = [_micros(name, each) for each in arguments[2:]]
    slide, size = lengths[0], lengths[0] if name == "tumble" else lengths[1]
    later = lengths[count - 2] if len(lengths) > count - 2 else 0
    windows = -(-size // slide)
    if windows > MOST:
        raise Unsupported(f"hop() with more than {MOST} windows for each row", position=position_of(call))
    binned = f"date_bin({_interval(slide)}, {column}, TIMESTAMP '1970-01-01' + {_interval(later)})"
    branches = []
    for number in range(windows):
        start = f"{binned} - {_interval(number * slide)}" if number else binned
        end = f"{start} + {_interval(size)}"
        # The last window of those that a row may fall into does not reach it where sizes are no multiples.
        where = f" WHERE {end} > {column}" if size % slide else f" WHERE {column} IS NOT NULL"
        branches.append(f"SELECT *, {start} AS window_start, {end} AS window_end FROM {relation}{where}")
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(arguments[0].name, quoted=True))
    return exp.Subquery(this=parse_query(" UNION ALL ".join(branches)), alias=alias)


def _session(node: exp.Table, columns: Sequence[str]) -> exp.Subquery:
    call = node.this
    arguments = call.expressions
    if len(arguments) < 3 or not isinstance(arguments[1], exp.Column):
        raise SqlSyntaxError(f"session() is written {_form(call)}", position=position_of(call))
    at, gap = print_sql(arguments[1]), _interval(_micros("session", arguments[2]))
    keys = [print_sql(each) for each in arguments[3:]]
    by_key = f"PARTITION BY {', '.join(keys)} " if keys else ""
    by_session = f"PARTITION BY {', '.join([*keys, NUMBER])}"
    shown = ", ".join(exp.to_identifier(name, quoted=True).sql() for name in columns)
    begins = f"CASE WHEN {at} <= lag({at}) OVER ({by_key}ORDER BY {at}) + {gap} THEN 0 ELSE 1 END"
    marked = f"SELECT {shown}, {begins} AS {BEGINS} FROM {_relation(call)} WHERE {at} IS NOT NULL"
    numbered = f"SELECT {shown}, sum({BEGINS}) OVER ({by_key}ORDER BY {at}) AS {NUMBER} FROM ({marked}) AS marked"
    text = (
        f"SELECT {shown}, min({at}) OVER ({by_session}) AS window_start,"
        f" max({at}) OVER ({by_session}) + {gap} AS window_end FROM ({numbered}) AS numbered"
    )
    alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(arguments[0].name, quoted=True))
    return exp.Subquery(this=parse_query(text), alias=alias)


def _micros(name: str, node: exp.Expression) -> int:
    literal = node.find(exp.Literal)
    if literal is None or not literal.is_string:
        raise Unsupported(f"{name}() with an interval that is not a constant", position=position_of(node))
    span = parse_interval(literal.name)
    if span.months or span.length <= 0:
        raise Unsupported(f"{name}() with an interval of months, or of no time", position=position_of(node))
    return span.length


def _interval(micros: int) -> str:
    return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06} seconds'"
