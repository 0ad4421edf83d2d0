"""TUMBLE and HOP in FROM: the rows of a relation with the windows of time that they fall into.

    TUMBLE(bids, at, INTERVAL '10 minutes')                          each row in one window
    HOP(bids, at, INTERVAL '5 minutes', INTERVAL '10 minutes')       a window every 5 minutes: each row in two

They are queries over the relation: all its columns, then ``window_start`` and ``window_end``. HOP is a UNION ALL of one
such query for each window that a row may fall into, so both are linear. Windows are counted from 1970 on, or from as
much later as one more interval says.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import SqlSyntaxError, Unsupported
from headrace.sql.dialect import parse_query, print_sql
from headrace.sql.expressions import position_of
from headrace.sql.intervals import parse_interval

MOST = 1000
"""Windows that a row of HOP may fall into."""


def is_time_window(node: exp.Expression) -> bool:
    call = node.this
    return isinstance(call, exp.Anonymous) and str(call.this).lower() in ("tumble", "hop")


def time_window(node: exp.Table) -> exp.Subquery:
    """The query that the call stands for."""
    call = node.this
    name, arguments = str(call.this).lower(), call.expressions
    count = 3 if name == "tumble" else 4
    named = all(isinstance(each, exp.Column) for each in arguments[:2])
    if len(arguments) not in (count, count + 1) or not named:
        form = "tumble(relation, column, size)" if name == "tumble" else "hop(relation, column, slide, size)"
        raise SqlSyntaxError(f"{name}() is written {form}", position=position_of(call))
    relation = ".".join(print_sql(part) for part in arguments[0].parts)
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


def _micros(name: str, node: exp.Expression) -> int:
    literal = node.find(exp.Literal)
    if literal is None or not literal.is_string:
        raise Unsupported(f"{name}() with an interval that is not a constant", position=position_of(node))
    span = parse_interval(literal.name)
    if span.months or span.micros <= 0:
        raise Unsupported(f"{name}() with an interval of months, or of no time", position=position_of(node))
    return span.micros


def _interval(micros: int) -> str:
    return f"INTERVAL '{micros // 1_000_000}.{micros % 1_000_000:06} seconds'"
