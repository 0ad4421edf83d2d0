"""What a source is: its columns, what they are made of, and what is to be done with events that do not fit.

A row of a source is known by the split that it comes from and its offset there. Both are hidden columns, and the key:
so a view on the source has each event once, or would notice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from headrace.catalog import INTERNAL_PREFIX, Column, KeyColumn
from headrace.errors import InvalidDefinition, InvalidParameterValue
from headrace.sql.names import check_column_names
from headrace.sql.statements import CreateSource, Include, Watermark
from headrace.types import SqlType

PARTITION, OFFSET = f"{INTERNAL_PREFIX}partition", f"{INTERNAL_PREFIX}offset"
_BIGINT = SqlType("bigint")
KEY_COLUMNS = (
    Column(name=PARTITION, type=_BIGINT, nullable=False, hidden=True),
    Column(name=OFFSET, type=_BIGINT, nullable=False, hidden=True),
)
PK = (KeyColumn(name=PARTITION), KeyColumn(name=OFFSET))

FAIL, SKIP, DEAD_LETTER = "fail", "skip", "dead_letter"
BAD_RECORDS, GAPS = "bad.records", "retention.gaps"
WARN = "warn"

SHARED_OPTIONS = {"connector", BAD_RECORDS, GAPS}

_INCLUDED = {
    "partition": SqlType("bigint"),
    "offset": SqlType("bigint"),
    "timestamp": SqlType("timestamptz"),
    "key": SqlType("bytea"),
    "header": SqlType("bytea"),
    "headers": SqlType(
        "array",
        element=SqlType("struct", fields=(("key", SqlType("varchar")), ("value", SqlType("bytea")))),
    ),
    "file": SqlType("varchar"),
    "payload": SqlType("bytea"),
}


@dataclass(frozen=True, kw_only=True)
class Definition:
    """It pickles: tasks take it along. Secrets are not in it."""

    connector: str
    columns: tuple[tuple[str, SqlType], ...]
    """Those that an event's content has"""
    include: tuple[Include, ...] = ()
    format: str = "plain"
    encode: str | None = None
    encode_options: tuple[tuple[str, str], ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    key: tuple[str, ...] = ()
    """Of a table whose rows events change"""
    watermark: Watermark | None = None

    @staticmethod
    def of(statement: CreateSource) -> Definition:
        assert statement.columns is not None
        found = Definition(
            connector=dict(statement.options)["connector"],
            columns=tuple((column.name, column.type) for column in statement.columns),
            include=statement.include,
            format=statement.format or "plain",
            encode=statement.encode,
            encode_options=statement.encode_options,
            options=statement.options,
            key=getattr(statement, "pk", ()),
            watermark=statement.watermark,
        )
        check_column_names([name for name, _ in found.shown])
        one_of(found.option, BAD_RECORDS, (FAIL, SKIP, DEAD_LETTER))
        one_of(found.option, GAPS, (WARN, FAIL))
        return found

    @cached_property
    def option(self) -> dict[str, str]:
        return dict(self.options)

    @property
    def shown(self) -> list[tuple[str, SqlType]]:
        """All columns that a user sees."""
        return [*self.columns, *((each.name, _INCLUDED[each.what]) for each in self.include)]

    @property
    def on_bad(self) -> str:
        return self.option.get(BAD_RECORDS, FAIL)

    @property
    def gaps_are_errors(self) -> bool:
        return self.option.get(GAPS, WARN) == FAIL

    @property
    def relation_columns(self) -> tuple[Column, ...]:
        return (*(Column(name=name, type=kind) for name, kind in self.shown), *KEY_COLUMNS)

    @cached_property
    def schema(self) -> pa.Schema:
        """Of the rows, as Arrow has them."""
        return pa.schema([pa.field(column.name, column.type.arrow) for column in self.relation_columns])

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def check_options(self, known: Iterable[str], prefixes: tuple[str, ...] = ()) -> None:
        names = SHARED_OPTIONS | set(known)
        for name in self.option:
            if name not in names and not name.startswith(prefixes or ("\0",)):
                raise InvalidParameterValue(
                    f'option "{name}" is not known', hint=f"these are: {', '.join(sorted(names))}"
                )

    def check_include(self, possible: Iterable[str]) -> None:
        for each in self.include:
            if each.what not in possible:
                raise InvalidDefinition(
                    f"INCLUDE {each.what} is not possible with connector = '{self.connector}'",
                    hint=f"there are {', '.join(sorted(possible))}",
                )

    def refuse_format(self) -> None:
        if self.encode is not None or self.format != "plain":
            raise InvalidDefinition(f"connector = '{self.connector}' has no FORMAT and ENCODE", hint="leave it out")


def one_of(options: Mapping[str, str], name: str, known: tuple[str, ...]) -> None:
    if options.get(name, known[0]) not in known:
        raise InvalidParameterValue(
            f"option \"{name}\" cannot be '{options[name]}'", hint=f"it is one of {', '.join(known)}"
        )


def whole_number(options: Mapping[str, str], name: str, default: int, *, least: int = 0, most: int = 1 << 62) -> int:
    text = options.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise InvalidParameterValue(f"option \"{name}\" cannot be '{text}'", hint=f"it is a number from {least} on")
    return number
