"""A table of a MariaDB or MySQL server, and the SQL that reads it. The server orders keys; nobody else does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.cdc.changelog import Change, Key
from headrace.cdc.mysql.binlog import LogColumn, LogRelation, RowChanges
from headrace.cdc.mysql.rows import KINDS, Rows
from headrace.cdc.mysql.types import (
    ADDRESSES,
    BYTES,
    CHOICES,
    TEXTS,
    SourceType,
    decoder,
    encoded,
    undecodable,
)
from headrace.cdc.problems import AGAIN, SchemaChanged, SourceRefused, TableStopped


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    name: str
    type: SourceType
    generated: bool = False
    """Worked out when it is read, and so not in the log"""
    nullable: bool = True


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    """Those that are read, in the order of our table"""
    key: tuple[str, ...]
    """The primary key, in its own order"""
    folds: bool = False
    """Whether the server takes names in upper and lower case for the same"""
    logs_cascades: bool = False
    """Whether the log has what foreign keys do to its rows"""

    @staticmethod
    def from_json(data: dict[str, Any]) -> SourceTable:
        columns = tuple(
            SourceColumn(**(each | {"type": SourceType(**(each["type"] | {"values": tuple(each["type"]["values"])}))}))
            for each in data["columns"]
        )
        return SourceTable(**(data | {"columns": columns, "key": tuple(data["key"])}))

    @property
    def full_name(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.name)}"

    @property
    def key_columns(self) -> list[SourceColumn]:
        by_name = {column.name: column for column in self.columns}
        return [by_name[name] for name in self.key]

    def is_described_by(self, relation: LogRelation) -> bool:
        return self.is_called(relation.schema, relation.name)

    def is_called(self, schema: str, name: str) -> bool:
        if self.folds:
            return (schema.lower(), name.lower()) == (self.schema.lower(), self.name.lower())
        return (schema, name) == (self.schema, self.name)

    # --- SQL ---------------------------------------------------------------------------------------------------

    def rows_between(self, start: Key | None, end: Key | None) -> str:
        return f"SELECT {', '.join(map(_shown, self.columns))} FROM {self.full_name}{self._where(start, end)}"

    def key_after(self, start: Key | None, rows: int) -> str:
        """The key that so many rows follow the start up to; no row, if there are not as many."""
        shown = ", ".join(map(_shown, self.key_columns))
        order = ", ".join(map(identifier, self.key))
        # Without the hint, a large offset makes the server sort the table instead.
        source = f"{self.full_name} FORCE INDEX (PRIMARY){self._where(start, None)}"
        return f"SELECT {shown} FROM {source} ORDER BY {order} LIMIT {rows}, 1"

    def places(self, keys: Sequence[Key], bounds: Sequence[Key]) -> str:
        """How many of the bounds each of the keys is at or behind, in one row."""
        ends = [self._values(bound) for bound in bounds]
        return "SELECT " + ", ".join(_place(self._values(key), ends) for key in keys)

    def _values(self, key: Key) -> list[str]:
        return [literal(text, each.type) for text, each in zip(key, self.key_columns, strict=True)]

    def _where(self, start: Key | None, end: Key | None) -> str:
        names = [identifier(name) for name in self.key]
        parts = [] if start is None else [_not_before(names, self._bounds(start))]
        parts += [] if end is None else [_before(names, self._bounds(end))]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _bounds(self, key: Key) -> list[str]:
        return [bound(text, each.type) for text, each in zip(key, self.key_columns, strict=True)]


# Row values, (a, b) < (x, y), mean the same, but the server does not use an index for them.


def _place(key: list[str], bounds: list[list[str]]) -> str:
    cases = (f"WHEN {_before(key, bound)} THEN {number}" for number, bound in enumerate(bounds))
    return f"CASE {' '.join(cases)} ELSE {len(bounds)} END"


def _before(key: Sequence[str], bound: Sequence[str]) -> str:
    """
    >>> _before(["a", "b"], ["1", "2"])
    '(a < 1 OR (a = 1 AND b < 2))'
    """
    if len(key) == 1:
        return f"{key[0]} < {bound[0]}"
    return f"({key[0]} < {bound[0]} OR ({key[0]} = {bound[0]} AND {_before(key[1:], bound[1:])}))"


def _not_before(key: Sequence[str], bound: Sequence[str]) -> str:
    if len(key) == 1:
        return f"{key[0]} >= {bound[0]}"
    return f"({key[0]} > {bound[0]} OR ({key[0]} = {bound[0]} AND {_not_before(key[1:], bound[1:])}))"


def _shown(column: SourceColumn) -> str:
    name, kind = identifier(column.name), column.type
    if kind.name in ("float", "double") and (kind.name == "float" or "(" in kind.text):
        return f"{name} * 1e0"  # else it has six digits, or is rounded; and -0 + 0 would be 0
    if "zerofill" in kind.text and kind.name not in CHOICES:
        return f"{name} + 0"
    return name


def literal(text: str, kind: SourceType) -> str:
    """A value that compares with others of the kind as the column does."""
    if kind.name in TEXTS:
        charset = kind.charset or ""
        return f"_{charset} X'{encoded(text, charset).hex()}' COLLATE {kind.collation}"
    if kind.name in CHOICES:
        return str(_choice_number(text, kind))  # they are ordered as they are listed
    if kind.name in BYTES:
        return f"_binary X'{text[2:]}'"
    if kind.name in ADDRESSES:
        return f"CAST('{text}' AS {kind.name})"
    if kind.name == "time":
        return f"CAST('{text}' AS TIME(6))"
    if kind.name in ("float", "double"):
        return text if "e" in text else f"{text}e0"
    if kind.name in ("date", "datetime", "timestamp", "year"):
        return f"_ascii'{text.removesuffix('+00')}'"  # all of one width: they are ordered as their text
    return text


def bound(text: str, kind: SourceType) -> str:
    """A value that a column of the kind is compared with."""
    if kind.name in ("date", "datetime", "timestamp", "year"):
        return f"'{text.removesuffix('+00')}'"
    return literal(text, kind)


def _choice_number(text: str, kind: SourceType) -> int:
    """Its place in the order. One that came since we know the table has none."""
    try:
        if kind.name == "enum":
            return kind.values.index(text) + 1 if text else 0
        return sum(1 << kind.values.index(part) for part in text.split(",")) if text else 0
    except ValueError:
        raise SourceRefused(f'a key has the value "{text}", which its type has got since', hint=AGAIN) from None


# --- the log ----------------------------------------------------------------------------------------------------


class LogReader:
    """Rows of the log, as the log describes the table at that place, to rows of ours."""

    adds = ()
    """The log also has columns that are worked out when they are read: which ones are new, the server has to say."""

    def __init__(self, table: SourceTable, relation: LogRelation):
        if not relation.named:
            raise TableStopped(
                f"the log does not name the columns of {table.full_name}",
                hint=f"SET GLOBAL binlog_row_metadata = 'FULL', then {AGAIN}",
            )
        at = {column.name: number for number, column in enumerate(relation.columns)}
        if relation.key != table.key:
            raise SchemaChanged(f"{table.full_name} has another primary key now", hint=AGAIN)
        for column in table.columns:
            if column.name not in at:
                raise SchemaChanged(f'column "{column.name}" of {table.full_name} is gone', hint=AGAIN)
            if not _holds_the_same(column.type, relation.columns[at[column.name]]):
                raise SchemaChanged(f'column "{column.name}" of {table.full_name} has another type now', hint=AGAIN)
            if column.name in table.key and not _has_known_values(column.type, relation.columns[at[column.name]]):
                raise SchemaChanged(f'column "{column.name}" of {table.full_name} has other values now', hint=AGAIN)
        self._table = table
        self._columns = [at[column.name] for column in table.columns]
        self._key = [at[name] for name in table.key]
        self._rows = Rows(relation.columns, {at[column.name]: column.type for column in table.columns})

    def changes(self, event: RowChanges) -> list[Change]:
        try:
            rows = self._rows.read(event.data, pairs=event.kind == "U")
        except UnicodeDecodeError:
            raise self._undecodable() from None
        if rows is None:
            raise TableStopped(
                f"the log has only some columns of rows of {self._table.full_name}",
                hint=f"binlog_row_image must be FULL, for every session; then {AGAIN}",
            )
        if event.kind == "D":
            return [Change(key=self._key_of(row)) for row in rows]
        if event.kind == "I":
            return [Change(key=self._key_of(row), values=self._values_of(row)) for row in rows]
        found = []
        for old, new in zip(rows[::2], rows[1::2], strict=True):
            before, after = self._key_of(old), self._key_of(new)
            found.append(Change(key=after, values=self._values_of(new)))
            if before != after:
                found.append(Change(key=before))
        return found

    def _key_of(self, row: tuple) -> Key:
        return tuple(row[number] for number in self._key)

    def _values_of(self, row: tuple) -> tuple:
        return tuple(row[number] for number in self._columns)

    def _undecodable(self) -> TableStopped:
        """Which column it was is not worth finding out again: those with texts are few."""
        for column in self._table.columns:
            if column.type.name in TEXTS:
                return TableStopped(undecodable(column.name, column.type).message, hint=AGAIN)
        return TableStopped(f"a text of {self._table.full_name} cannot be decoded", hint=AGAIN)


def _holds_the_same(kind: SourceType, now: LogColumn) -> bool:
    """Also if it was only made longer, which changes no row."""
    if now.kind not in KINDS[kind.name] or now.unsigned != (kind.unsigned or kind.name == "year"):
        return False
    if kind.name == "decimal":
        return now.length == kind.precision << 8 | kind.scale
    if kind.name in ("time", "datetime", "timestamp"):
        return now.length == kind.scale
    if kind.name == "bit":
        return now.length == kind.precision
    if kind.name == "binary":
        return now.length == kind.length
    if kind.name in CHOICES:
        return _values(kind, now)[: len(kind.values)] == kind.values and now.collation in (0, kind.collation_id)
    if kind.name in TEXTS:
        return now.collation == kind.collation_id
    return True


def _has_known_values(kind: SourceType, now: LogColumn) -> bool:
    """Where a new one lies among keys could not be asked for."""
    return kind.name not in CHOICES or _values(kind, now) == kind.values


def _values(kind: SourceType, now: LogColumn) -> tuple[str, ...]:
    decode: Callable[[bytes], str] = decoder(kind.charset)
    return tuple(decode(value) for value in now.values)


def identifier(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
