"""Nodes of the tree, as errors speak of them: where they stood in the text, and what they are called.

>>> from headrace.sql.dialect import parse_expression
>>> print(unsupported("this", parse_expression("1 + a")))
this is not supported
"""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import Unsupported


def position_of(node: exp.Expression | None) -> int | None:
    """Where the node was in the text, counted from 1, as far as sqlglot recorded it."""
    if node is None:
        return None
    starts = [part.meta_get("start") for part in node.walk()]
    return min((start + 1 for start in starts if start is not None), default=None)


def unsupported(construct: str, node: exp.Expression, hint: str | None = None) -> Unsupported:
    return Unsupported(f"{construct} is not supported", hint=hint, position=position_of(node))


_NAMES: dict[type, str] = {
    exp.Star: "* here",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.Collate: "COLLATE",
    exp.IgnoreNulls: "IGNORE NULLS",
}


def name_of(node: exp.Expression) -> str:
    return _NAMES.get(type(node)) or type(node).__name__
