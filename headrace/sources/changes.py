"""Events that are changes of rows: FORMAT UPSERT and FORMAT DEBEZIUM.

An upsert is the row that its key has from now on; without content (a tombstone) the row is gone. An event of Debezium
says what a row was before and is after, or, for a deletion, only what it was. Of several changes of a key the last one
counts, and all events of a key are in one partition, so their order is that of the offsets.

>>> from headrace.types import SqlType
>>> definition = Definition(connector="kafka", format="upsert", encode="json",
...     columns=(("id", SqlType("bigint")), ("name", SqlType("varchar"))))
>>> Changes(definition=definition, key=("id",)).of(b"7", b'{"name": "x"}')
([7, 'x'], False)
>>> Changes(definition=definition, key=("id",)).of(b'{"id": 7}', None)
([7, None], True)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from headrace.errors import DataError
from headrace.sources import avro, debezium
from headrace.sources.decoding import arrow_fields, checked, decode, json_table
from headrace.sources.definition import Definition
from headrace.sources.values import NotThis, field_value, json_value, read_json, reason_of, text_value
from headrace.types import SqlType

DELETED = "_hr_deleted"
"""The column that says that a row is gone: it has its key, and nothing else"""


_DECIMAL = debezium.DECIMAL.encode()


class Truncated(DataError):
    """All rows are gone at once. Left out like a bad event, it would leave a table that is wrong."""


@dataclass(frozen=True, kw_only=True)
class Block:
    """Changes, in the order in which they came."""

    columns: dict[str, pa.Array]
    gone: np.ndarray
    said: np.ndarray
    """Which events these are: others say nothing"""


def _nulls(column: pa.Array) -> np.ndarray:
    return column.is_null().to_numpy(zero_copy_only=False)


@dataclass(frozen=True, kw_only=True)
class Changes:
    definition: Definition
    key: tuple[str, ...]
    records: avro.Records | None = None
    """Who reads the events, if they are Avro's and not JSON"""

    @cached_property
    def _kinds(self) -> dict[str, SqlType]:
        return dict(self.definition.columns)

    def block(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Block | None:
        """Many at once, by Arrow; None if there is one that has to be looked at by itself."""
        if self.records is not None:
            return None
        try:
            found = self._envelopes(values) if self.definition.format == "debezium" else self._upserts(keys, values)
        except Exception as problem:
            reason_of(problem)
            return None
        return None if found is None or any(found.columns[name].null_count for name in self.key) else found

    def _upserts(self, keys: Sequence[bytes | None], values: Sequence[bytes | None]) -> Block | None:
        gone = np.array([value is None for value in values])
        kept = [value for value in values if value is not None]
        columns, faults = decode(dataclasses.replace(self.definition, format="plain"), kept) if kept else ({}, [])
        if faults:
            return None
        try:
            deleted = [self.of(key, None) for key, is_gone in zip(keys, gone, strict=True) if is_gone]
        except NotThis:
            return None
        # First all that stay, then all that go; and back into the order in which they came.
        order = pa.array(np.argsort(np.argsort(gone, kind="stable"), kind="stable"))
        for at, (name, kind) in enumerate(self.definition.columns):
            of_deleted = pa.array([row[at] for row, _ in filter(None, deleted)], kind.arrow)
            columns[name] = pa.concat_arrays([*([columns[name]] if kept else []), of_deleted]).take(order)
        return Block(columns=columns, gone=gone, said=np.arange(len(values)))

    def _envelopes(self, values: Sequence[bytes | None]) -> Block | None:
        if (fields := arrow_fields(self.definition.columns)) is None:
            return None
        if any(value is not None and _DECIMAL in value for value in values):
            return None  # Arrow would take the bytes of a decimal for a text
        said = np.array([at for at, value in enumerate(values) if value is not None], dtype=np.int64)
        row, key = pa.struct(fields), pa.struct([each for each in fields if each.name in self.key])
        envelope = [pa.field("op", pa.string()), pa.field("before", key), pa.field("after", row)]
        table = json_table([pa.field("payload", pa.struct(envelope)), *envelope], [values[at] for at in said])
        if table is None:
            return None
        payload = table["payload"].combine_chunks()
        if payload.null_count == 0:
            parts = dict(zip(("op", "before", "after"), payload.flatten(), strict=True))
        elif payload.null_count == len(payload):
            parts = {name: table[name].combine_chunks() for name in ("op", "before", "after")}
        else:
            return None
        operations = parts["op"].to_pylist()
        gone = np.array([each == "d" for each in operations])
        lacks = np.where(gone, _nulls(parts["before"]), _nulls(parts["after"]))
        if not set(operations) <= {"c", "r", "u", "d"} or lacks.any():
            return None
        after = dict(zip((each.name for each in fields), parts["after"].flatten(), strict=True))
        before = dict(zip((each.name for each in key), parts["before"].flatten(), strict=True))
        columns = {}
        for name, kind in self.definition.columns:
            of_deleted = checked(before[name], kind) if name in before else pa.nulls(len(said), kind.arrow)
            columns[name] = pc.if_else(pa.array(gone), of_deleted, checked(after[name], kind))
        return Block(columns=columns, gone=gone, said=said)

    def of(self, key: bytes | None, value: bytes | None) -> tuple[list[Any], bool] | None:
        """The row's values, and whether it is gone; None: the event says nothing."""
        if self.definition.format == "debezium":
            return self._debezium(value)
        fields = {} if value is None else self._content(value)
        row = {name: self._value(fields, name) for name in self._kinds}
        if any(row[name] is None for name in self.key):
            row |= {name: each for name, each in self._of_key(key).items() if row[name] is None}
        return self._checked(row, deleted=value is None)

    def _debezium(self, value: bytes | None) -> tuple[list[Any], bool] | None:
        if value is None:
            return None  # it follows a deletion, for compaction
        event = self._content(value)
        payload = event.get("payload", event)
        operation = payload.get("op") if isinstance(payload, dict) else None
        if operation == "t":
            raise Truncated(
                "the table that Debezium follows was truncated, and rows cannot be removed without their keys",
                hint="drop the table and create it again; skipped.operations = t, Debezium's default, leaves this out",
            )
        if operation not in ("c", "r", "u", "d"):
            raise NotThis(f"it is not an event of Debezium that changes a row: op is {operation!r}")
        deleted = operation == "d"
        fields = payload.get("before" if deleted else "after")
        if not isinstance(fields, dict):
            raise NotThis(f"it lacks the row {'before' if deleted else 'after'} the change")
        names = self.key if deleted else self._kinds
        if self.records is None:
            schemas = debezium.schemas_of(event, "before" if deleted else "after")
            found = {name: debezium.field_value(fields, name, self._kinds[name], schemas.get(name)) for name in names}
        else:
            found = {name: self._value(fields, name) for name in names}
        row = dict.fromkeys(self._kinds) | found
        return self._checked(row, deleted=deleted)

    def _checked(self, row: dict[str, Any], *, deleted: bool) -> tuple[list[Any], bool]:
        for name in self.key:
            if row[name] is None:
                raise NotThis(f'its key lacks column "{name}"')
        return [row[name] for name in self._kinds], deleted

    def _of_key(self, key: bytes | None) -> dict[str, Any]:
        """An object with the columns of the key, or the value of its only column."""
        if key is None:
            raise NotThis("it has no key")
        if self.records is not None and key[:1] == b"\0":  # what no text begins with: the key is Avro's, too
            found = self.records.read(key)
            if not isinstance(found, dict) and len(self.key) == 1:
                found = {self.key[0]: found}
            return {name: self._value(found, name) for name in self.key} if isinstance(found, dict) else {}
        try:
            found = read_json(key)
        except ValueError:
            found = None
        if isinstance(found, dict):
            payload = found.get("payload")
            found = payload if isinstance(payload, dict) else found
            return {name: self._value(found, name) for name in self.key}
        if len(self.key) > 1:
            raise NotThis(f"its key is not an object with {', '.join(self.key)}")
        (name,) = self.key
        try:
            text = key.decode()
            kind = self._kinds[name]
            if isinstance(found, str):
                return {name: json_value(found, kind)}
            return {name: text_value(text, kind)}
        except UnicodeDecodeError:
            raise NotThis("its key is not text") from None

    def _content(self, value: bytes) -> Mapping[str, Any]:
        return _object(value, "its content") if self.records is None else avro.fields_of(self.records, value)

    def _value(self, fields: Mapping[str, Any], name: str) -> Any:
        read = field_value if self.records is None else avro.field_value
        return read(fields, name, self._kinds[name])


def _object(text: bytes, what: str) -> dict[str, Any]:
    try:
        found = read_json(text)
    except ValueError as problem:
        raise NotThis(f"{what} is not JSON: {problem}") from None
    if not isinstance(found, dict):
        raise NotThis(f"{what} is JSON, but not an object")
    return found
