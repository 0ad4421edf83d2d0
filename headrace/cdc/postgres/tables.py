"""A table of a PostgreSQL server, and the SQL that reads it. The server orders keys; nobody else does."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from headrace.cdc.changelog import UNCHANGED, Change, Key, Truncate
from headrace.cdc.postgres.pgoutput import LogColumn, LogRelation, RowChange, Truncated
from headrace.cdc.postgres.types import SourceType
from headrace.cdc.problems import AGAIN, SchemaChanged, TableStopped


@dataclass(frozen=True, kw_only=True)
class SourceColumn:
    name: str
    type: SourceType
    collation: str | None = None
    """Quoted, with its schema; None for types that have none"""
    generated: bool = False
    nullable: bool = True
    type_oid: int = 0
    type_modifier: int = -1
    """As the log names its type; of a domain, not of what it is based on"""
    number: int = 0
    """One that is dropped and made again has another; 0: not known"""
    labels: tuple[str, ...] = ()
    """The values of an enum"""


NEVER_EMPTY = (
    "bool", "int2", "int4", "int8", "float4", "float8", "numeric", "date", "timestamp", "timestamptz",
)  # fmt: skip
"""Types of PostgreSQL's own whose values are not printed as an empty text"""


@dataclass(frozen=True, kw_only=True)
class SourceTable:
    schema: str
    name: str
    columns: tuple[SourceColumn, ...]
    """Those that are read, in the order of our table"""
    key: tuple[str, ...]
    """The primary key, in its own order"""
    oid: int = 0
    last_attnum: int = 0
    """The number of its last column, also if that was dropped; 0: not known"""
    files: tuple[int, ...] = ()
    """Where its rows are, and those of its partitions: other ones if they have been written anew"""

    @staticmethod
    def from_json(data: dict[str, Any]) -> SourceTable:
        columns = tuple(
            SourceColumn(**(each | {"type": SourceType(**each["type"]), "labels": tuple(each.get("labels", ()))}))
            for each in data["columns"]
        )
        files = tuple(data.get("files", ()))
        return SourceTable(**(data | {"columns": columns, "key": tuple(data["key"]), "files": files}))

    @property
    def full_name(self) -> str:
        return f"{identifier(self.schema)}.{identifier(self.name)}"

    def is_described_by(self, relation: LogRelation) -> bool:
        """Also under another name, or by another table that has its name now: both have to be noticed."""
        return relation.oid == self.oid or (relation.schema, relation.name) == (self.schema, self.name)

    @property
    def key_columns(self) -> list[SourceColumn]:
        by_name = {column.name: column for column in self.columns}
        return [by_name[name] for name in self.key]

    # --- SQL ---------------------------------------------------------------------------------------------------

    def rows_between(self, start: Key | None, end: Key | None) -> str:
        names = ", ".join(identifier(column.name) for column in self.columns)
        return f"SELECT {names} FROM {self.full_name}{self._where(start, end)}"

    def rows_of(self, keys: Sequence[Key]) -> str:
        names = ", ".join(identifier(column.name) for column in self.columns)
        key = _row([identifier(name) for name in self.key])
        return f"SELECT {names} FROM {self.full_name} WHERE {key} IN ({', '.join(map(self._bound, keys))})"

    def copied(self, query: str) -> str:
        """Rows of the table as CSV. What can be an empty text comes in quotes, always: NULL has none."""
        quoted = [
            identifier(column.name)
            for column in self.columns
            if not column.type.built_in or column.type.name not in NEVER_EMPTY
        ]
        force = f", FORCE_QUOTE ({', '.join(quoted)})" if quoted else ""
        return f"COPY ({query}) TO STDOUT (FORMAT csv{force})"

    def key_after(self, start: Key | None, rows: int) -> str:
        """The key that so many rows follow the start up to; no row, if there are not as many."""
        order = ", ".join(f"source.{identifier(name)}" for name in self.key)
        counted = f"SELECT {order} FROM {self.full_name} AS source{self._where(start, None)} ORDER BY {order}"
        # Only the one that is wanted is made a text, and none of those that are counted.
        names = ", ".join(f"{identifier(name)}::text" for name in self.key)
        return f"SELECT {names} FROM ({counted} OFFSET {rows} LIMIT 1) AS found"

    def rewritten(self) -> str:
        """How many of its files are not those that the snapshot knows. To an older snapshot, what TRUNCATE or ALTER
        TABLE has written anew is empty, whatever is in it."""
        parts = f"SELECT relid FROM pg_partition_tree({self.oid}) UNION SELECT {self.oid}"
        return (
            f"SELECT count(*) FROM pg_class AS seen WHERE seen.oid IN ({parts}) AND seen.relkind = 'r'"
            " AND seen.relfilenode IS DISTINCT FROM pg_relation_filenode(seen.oid)"
        )

    def places(self, keys: Sequence[Key], bounds: Sequence[Key]) -> str:
        """How many of the bounds each of the keys is at or behind, in the order of the keys."""
        values = ", ".join("(" + ", ".join([str(number), *map(literal, key)]) + ")" for number, key in enumerate(keys))
        names = [f"k{number}" for number in range(len(self.key))]
        typed = ", ".join(
            f"CAST({name} AS {column.type.text}){_collate(column)} AS {name}"
            for name, column in zip(names, self.key_columns, strict=True)
        )
        cases = (f"WHEN {_row(names)} < {self._bound(bound)} THEN {number}" for number, bound in enumerate(bounds))
        given = f"(VALUES {values}) AS given (n, {', '.join(names)})"
        place = f"CASE {' '.join(cases)} ELSE {len(bounds)} END"
        return f"SELECT {place} FROM (SELECT n, {typed} FROM {given}) AS typed ORDER BY n"

    def _where(self, start: Key | None, end: Key | None) -> str:
        key = _row([identifier(name) for name in self.key])
        parts = [] if start is None else [f"{key} >= {self._bound(start)}"]
        parts += [] if end is None else [f"{key} < {self._bound(end)}"]
        return f" WHERE {' AND '.join(parts)}" if parts else ""

    def _bound(self, key: Key) -> str:
        return _row(
            [f"CAST({literal(text)} AS {each.type.text})" for text, each in zip(key, self.key_columns, strict=True)]
        )


def check_shape(table: SourceTable, oid: int, columns: Sequence[LogColumn]) -> None:
    """Whether the table as it is now, or was at a place of the log, has the columns that we read, as we know them."""
    if oid != table.oid:
        raise SchemaChanged(f"{table.full_name} is another table now", hint=AGAIN)
    now = {column.name: column for column in columns}
    for column in table.columns:
        if column.name not in now:
            raise SchemaChanged(f'column "{column.name}" of {table.full_name} is gone', hint=AGAIN)
        if not _holds_the_same(column, now[column.name]):
            # The rows that are there may have been rewritten, of which the log says nothing.
            raise SchemaChanged(f'column "{column.name}" of {table.full_name} has another type now', hint=AGAIN)


def check_name(table: SourceTable, schema: str, name: str) -> None:
    if (schema, name) != (table.schema, table.name):
        raise SchemaChanged(f"{table.full_name} is called {identifier(schema)}.{identifier(name)} now", hint=AGAIN)


def check_key(table: SourceTable, key: Collection[str]) -> None:
    """Rows that another key tells apart may be one to us."""
    if set(key) != set(table.key):
        raise SchemaChanged(f"{table.full_name} has another primary key now", hint=AGAIN)


def check_labels(table: SourceTable, labels: Mapping[str, Collection[str]]) -> None:
    """Whether no value of an enum got another name: rows that have it have it under that name, in silence."""
    for column in table.columns:
        if gone := sorted(set(column.labels) - set(labels.get(column.name, column.labels))):
            raise SchemaChanged(
                f'"{gone[0]}" of the type of column "{column.name}" of {table.full_name} has another name now',
                hint=AGAIN,
            )


def check_rewritten(table: SourceTable, file: int, columns: Collection[str]) -> None:
    known = not table.files or file in table.files
    if not known and (written := sorted(set(columns) & {column.name for column in table.columns})):
        raise SchemaChanged(
            f'rows of {table.full_name} were written anew with column "{written[0]}", of which the log says nothing',
            hint=AGAIN,
        )


class Partition(NamedTuple):
    file: int
    """With its rows; 0: it has none itself, but partitions"""
    attached: bool = False
    """Whether it was a table of its own before, and is not empty"""


def check_partitions(table: SourceTable, before: Mapping[str, int] | None, now: Mapping[int, Partition]) -> bool:
    """The log says nothing of rows that come or go with a partition, or go with a TRUNCATE of one by itself. Answers
    whether all of them were written anew: the log has that, if it was a TRUNCATE of the table.

    ``before``: their files; 0 is any. None: nobody has looked since the table was created.
    """
    if before is not None and before.keys() - {str(oid) for oid in now}:
        raise SchemaChanged(f"a partition of {table.full_name} was dropped or detached", hint=AGAIN)
    known = set(table.files) if before is None else {file for file in before.values() if file}
    gone = known - {part.file for part in now.values()} if now else set()
    anew = bool(gone) and gone == known
    if not anew and any(part.attached and _is_new(oid, part, before, known) for oid, part in now.items()):
        raise SchemaChanged(f"a partition of {table.full_name} was attached with its rows", hint=AGAIN)
    if gone and not anew:
        what = "dropped, detached, truncated" if before is None else "truncated"
        raise SchemaChanged(f"a partition of {table.full_name} was {what} by itself, or written anew", hint=AGAIN)
    return anew


def _is_new(oid: int, part: Partition, before: Mapping[str, int] | None, known: Collection[int]) -> bool:
    if before is None:
        return part.file not in {0, *known}
    return bool(before) and str(oid) not in before


def check_numbers(table: SourceTable, numbers: Mapping[str, int]) -> None:
    """Whether no column was dropped and made again, with the same name and type: the log tells them not apart."""
    for column in table.columns:
        if column.number and numbers[column.name] != column.number:
            raise SchemaChanged(f'column "{column.name}" of {table.full_name} is another one now', hint=AGAIN)


def grown_columns(table: SourceTable, columns: Sequence[LogColumn]) -> tuple[str, ...]:
    """Columns that we do not have, or that may have values which are too long for ours; those of the key stay."""
    known = {column.name: column for column in table.columns}
    return tuple(
        column.name
        for column in columns
        if column.name not in known
        or (
            known[column.name].type.name == "numeric"
            and column.name not in table.key
            and column.type_modifier != known[column.name].type_modifier
        )
    )


class LogReader:
    """Rows of the log, as the log describes the table at that place, to rows of ours."""

    def __init__(
        self, table: SourceTable, relation: LogRelation, on_truncate: Callable[[SourceTable], None] = lambda _: None
    ):
        self._truncated = functools.partial(on_truncate, table)
        at = {column.name: number for number, column in enumerate(relation.columns)}
        check_shape(table, relation.oid, relation.columns)
        check_name(table, relation.schema, relation.name)
        self.adds = grown_columns(table, relation.columns)
        self._columns = [at[column.name] for column in table.columns]
        self._key = [at[name] for name in table.key]
        self._name = table.full_name
        self._full = relation.identity == "f"
        if not self._full and not all(relation.columns[number].key for number in self._key):
            raise TableStopped(
                f"the log does not have the primary key of rows of {table.full_name} that are changed or deleted",
                hint="its REPLICA IDENTITY must be DEFAULT or FULL; then create the table again",
            )
        if relation.identity == "d":
            check_key(table, {column.name for column in relation.columns if column.key})

    def changes(self, event: RowChange | Truncated) -> list[Change | Truncate]:
        if isinstance(event, Truncated):
            self._truncated()
            return [Truncate()]
        old_key = None
        if event.old is not None:
            old_key = tuple(event.old[number] for number in self._key)
        if event.new is None:
            return [Change(key=old_key)]
        values: tuple[Any, ...] = tuple(event.new[number] for number in self._columns)
        if self._full and event.old is not None:
            # All of the row before is there, large values too.
            before = [event.old[number] for number in self._columns]
            values = tuple(old if new is UNCHANGED else new for old, new in zip(before, values, strict=True))
        key = tuple(event.new[number] for number in self._key)
        if any(not isinstance(part, str) for part in key):
            # A key part that is stored out of line and did not change; an old key is then not sent, or has it.
            if old_key is None:
                raise TableStopped(f"the log leaves the key of a row of {self._name} out", hint="REPLICA IDENTITY FULL")
            key = tuple(new if isinstance(new, str) else old for new, old in zip(key, old_key, strict=True))
            known = dict(zip(self._key, key, strict=True))
            values = tuple(known.get(at, value) for at, value in zip(self._columns, values, strict=True))
        if old_key is None or old_key == key:
            return [Change(key=key, values=values)]
        return [Change(key=key, values=values, origin=old_key), Change(key=old_key)]


def _holds_the_same(column: SourceColumn, now: LogColumn) -> bool:
    """Also if it was only made wider, which changes no row."""
    if (now.type_oid, now.type_modifier) == (column.type_oid, column.type_modifier):
        return True
    before, after = column.type_modifier, now.type_modifier
    if now.type_oid != column.type_oid or column.type.name not in ("varchar", "numeric") or before < 0:
        return False
    if column.type.name == "varchar":
        return after < 0 or after > before
    return after >= 0 and (after - before) & 0x7FF == 0 and after > before


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _row(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _collate(column: SourceColumn) -> str:
    return "" if column.collation is None else f" COLLATE {column.collation}"
