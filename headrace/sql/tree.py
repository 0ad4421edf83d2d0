"""Nodes that bound queries have and sqlglot does not.

Each prints as the text that it was bound from, so that a view's query still binds to itself.

>>> from headrace.sql.dialect import print_sql
>>> print_sql(LambdaVariable(this=exp.to_identifier("x")))
'"x"'
"""

from __future__ import annotations

from sqlglot import exp


class LambdaVariable(exp.Expression):
    """A name that ``x -> …`` introduced. It is no column: it belongs to no relation, and is in no GROUP BY."""

    arg_types = {"this": True}


class WholeRow(exp.Expression):
    """A relation's name where a value is wanted: its row. The expressions are its columns.

    Where an outer join may have found none, ``missing`` are the columns that are then all NULL."""

    arg_types = {"this": True, "expressions": True, "missing": False}


PARAMETER_TYPES = "headrace_parameters"
"""The key under which bind leaves the types of a lambda's variables, in the meta of an exp.Lambda."""


def is_as_of_now(node: exp.Expression) -> bool:
    """Whether it is a table FOR SYSTEM_TIME AS OF PROCTIME()."""
    version = node.args.get("version")
    moment = version.expression if version is not None and version.args.get("kind") == "AS OF" else None
    return isinstance(moment, exp.Anonymous) and str(moment.this).lower() == "proctime"
