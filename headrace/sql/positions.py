"""Nodes of the tree, as errors speak of them: where they stood in the text, and what they are called.

>>> from headrace.sql.dialect import parse_expression
>>> print(unsupported("this", parse_expression("1 + a")))
this is not supported
"""

from __future__ import annotations

from sqlglot import exp

from headrace.errors import DataError, HeadraceError, UndefinedFunction, Unsupported


def position_of(node: exp.Expression | None) -> int | None:
    """Where the node was in the text, counted from 1, as far as sqlglot recorded it."""
    if node is None:
        return None
    starts = [part.meta_get("start") for part in node.walk()]
    return min((start + 1 for start in starts if start is not None), default=None)


OPERATOR = "operator"
"""The key under which the parser leaves where an operator stood, in the meta of its node."""


def blamed(error: HeadraceError, node: exp.Expression) -> int | None:
    """Where an error is that the node itself has made: an operator that is missing, a constant that is none."""
    if isinstance(error, DataError):
        for part in node.iter_expressions():
            if isinstance(part, exp.Literal) and part.is_string and f'"{part.this}"' in error.message:
                return position_of(part)
    operator = node.meta_get(OPERATOR)
    if operator is not None and (isinstance(error, UndefinedFunction) or isinstance(node, exp.Collate)):
        return operator + 1
    return position_of(node)


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
