"""Rows that a program brings to a table: which of its columns they fill, and as which types.

Whoever takes them asks this, an engine in the program's own process and the client of one in another: so both say the
same of what is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from headrace.arrow_values import as_stored
from headrace.catalog import TABLE, Column, Relation
from headrace.errors import DuplicateColumn, InvalidDefinition, TypeMismatch, WrongObjectKind
from headrace.sql.text import nul_character


def refuse_unless_writable(relation: Relation, doing: str) -> None:
    if relation.kind != TABLE:
        raise WrongObjectKind(f'cannot {doing} {relation.kind} "{relation.name}"', hint="only tables can be written to")
    if relation.follows:
        raise WrongObjectKind(
            f'cannot {doing} table "{relation.name}"', hint="it follows a table of its source; write there"
        )
    if relation.append_only and doing != "insert into":
        raise WrongObjectKind(f'cannot {doing} append-only table "{relation.name}"')


def target_columns(relation: Relation, names: Sequence[str]) -> list[Column]:
    if not names:
        return [column for column in relation.visible_columns if column.generated is None]
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise DuplicateColumn(f'column "{twice}" specified more than once')
    columns = [relation.column(name) for name in names]
    for column in columns:
        if column.generated is not None or column.hidden:
            raise InvalidDefinition(
                f'cannot insert a value into column "{column.name}"', hint="it is computed; leave it out"
            )
    return columns


def converted(values: pa.ChunkedArray, column: Column) -> pa.ChunkedArray:
    """As the column's type has them."""
    try:
        found = as_stored(values, column.type)
        if any(_has_nul(chunk) for chunk in found.chunks):
            raise nul_character()
        return found
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise TypeMismatch(f'column "{column.name}" is of type {column.type}: {error}') from error


def _has_nul(values: pa.Array) -> bool:
    """Whether a text in it, at any depth, has the one character that text cannot have."""
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return bool(pc.any(pc.match_substring(values, "\0")).as_py())
    if pa.types.is_struct(values.type):
        return any(map(_has_nul, values.flatten()))
    return pa.types.is_nested(values.type) and _has_nul(values.flatten())
