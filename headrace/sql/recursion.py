"""WITH RECURSIVE: which queries refer to themselves, and whether Spark can run them.

>>> from headrace.sql.dialect import parse_query
>>> refers_to(parse_query("SELECT 1 UNION ALL SELECT n FROM r"), "r")
True
"""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import Unsupported
from headrace.sql.expressions import position_of, unsupported

LEVELS = 1000
"""Steps after which a recursive query is stopped; each is a Spark job."""


def refers_to(query: exp.Expression, name: str) -> bool:
    return any(table.name == name and not table.db for table in query.find_all(exp.Table))


def check_recursive(cte: exp.CTE) -> exp.Union:
    """The union of a start and a step that a recursive query is; anything else is refused."""
    union, name = cte.this, cte.alias
    while isinstance(union, exp.Subquery) and union.args.get("alias") is None:
        union = union.this
    if not isinstance(union, exp.Union) or refers_to(union.this, name):
        raise unsupported(
            f'recursive query "{name}" that is not of the form non-recursive-term UNION ALL recursive-term', cte
        )
    if union.args.get("distinct"):
        raise Unsupported(
            "UNION in WITH RECURSIVE is not supported",
            hint="use UNION ALL, and a condition that ends the recursion",
            position=position_of(union),
        )
    for key in ("order", "limit", "offset", "with_"):
        if union.args.get(key) is not None:
            raise unsupported(f"{key.strip('_').upper()} in a recursive query", union)
    cte.set("this", union)
    return union
