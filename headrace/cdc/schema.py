"""Columns of a table that has changed: which of ours stay, go, come or grow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from headrace.catalog import Column
from headrace.cdc.database import Database
from headrace.errors import InvalidDefinition, UndefinedColumn
from headrace.types import INTEGERS, SqlType

Needs = Mapping[str, Sequence[str]]
"""Columns of ours that others are derived from, and who they are"""


def same_columns(server: Database, found: Any, columns: Sequence[Column], key: Sequence[str]) -> Any:
    """The table as it is now, reduced to the columns that ours has; or why it does not go."""
    _check_key(found, key)
    theirs = {column.name: column for column in found.columns}
    for column in columns:
        if column.name not in theirs:
            raise UndefinedColumn(
                f'{found.full_name} has no column "{column.name}" any more', hint="drop the table and create it again"
            )
        server.checked(theirs[column.name].type, column.type, column.name)
        _refuse_generated(theirs[column.name])
    return dataclasses.replace(found, columns=tuple(theirs[column.name] for column in columns))


def evolved(
    server: Database, found: Any, columns: Sequence[Column], key: Sequence[str], needs: Needs
) -> tuple[tuple[Column, ...], Any]:
    """Our columns as they have to be for the table as it is now: those that it has not any more are gone, wider ones
    are as wide, new ones come last. Or why that cannot be."""
    _check_key(found, key)
    theirs = {column.name: column for column in found.columns}
    kept = []
    for column in columns:
        if (now := theirs.get(column.name)) is None:
            _refuse_if_needed(column.name, needs, f"is gone from {found.full_name}")
            continue
        _refuse_generated(now)
        kind = server.natural(now.type, now.name)
        if kind != column.type:
            if column.name in key or not is_wider(column.type, kind):
                raise InvalidDefinition(
                    f'column "{column.name}" of {found.full_name} is of type {now.type.text} now, which {column.type}'
                    " cannot become",
                    hint="drop the table and create it again",
                )
            _refuse_if_needed(column.name, needs, f"of {found.full_name} is of type {now.type.text} now")
        kept.append(dataclasses.replace(column, type=kind))
    known = {column.name for column in columns}
    added = [column for column in found.columns if column.name not in known and not column.generated]
    kept += [Column(name=column.name, type=server.natural(column.type, column.name)) for column in added]
    return tuple(kept), dataclasses.replace(found, columns=tuple(theirs[column.name] for column in kept))


def is_wider(before: SqlType, after: SqlType) -> bool:
    """Whether every value of one type is one of the other.

    >>> is_wider(SqlType("integer"), SqlType("bigint")), is_wider(SqlType("bigint"), SqlType("integer"))
    (True, False)
    >>> money = SqlType("numeric", precision=10, scale=2)
    >>> is_wider(money, SqlType("numeric", precision=12, scale=3)), is_wider(money, SqlType("numeric"))
    (True, True)
    >>> is_wider(money, SqlType("numeric", precision=10, scale=3))
    False
    """
    if before.name in INTEGERS and after.name in INTEGERS:
        return INTEGERS.index(after.name) > INTEGERS.index(before.name)
    if before.name == after.name == "numeric":
        (digits, scale), (more, longer) = _digits(before), _digits(after)
        return more >= digits and longer >= scale
    return (before.name, after.name) == ("real", "double precision")


def _digits(kind: SqlType) -> tuple[int, int]:
    """Before and behind the point; without a precision it is numeric(38,10)."""
    precision, scale = (38, 10) if kind.precision is None else (kind.precision, kind.scale or 0)
    return precision - scale, scale


def _check_key(found: Any, key: Sequence[str]) -> None:
    if tuple(key) != found.key:
        raise InvalidDefinition(
            f"the primary key of {found.full_name} is ({', '.join(found.key)}) now",
            hint="drop the table and create it again",
        )


def _refuse_generated(column: Any) -> None:
    if column.generated:
        raise InvalidDefinition(f'column "{column.name}" is generated now, and not in the log')


def _refuse_if_needed(name: str, needs: Needs, what: str) -> None:
    if needs.get(name):
        raise InvalidDefinition(
            f'column "{name}" {what}, and is needed by {", ".join(needs[name])}',
            hint="drop what needs it, then RESNAPSHOT TABLE",
        )
