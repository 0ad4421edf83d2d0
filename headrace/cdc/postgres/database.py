"""PostgreSQL, as following needs it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from headrace.cdc.changelog import Key
from headrace.cdc.database import Database, Hold
from headrace.cdc.postgres.reading import SharedSnapshot, rows_now
from headrace.cdc.postgres.server import Address, Control
from headrace.cdc.postgres.stream import LogStream
from headrace.cdc.postgres.tables import (
    LogReader,
    SourceTable,
    check_key,
    check_labels,
    check_name,
    check_numbers,
    check_partitions,
    check_rewritten,
    check_shape,
    grown_columns,
)
from headrace.cdc.postgres.types import checked, natural
from headrace.cdc.problems import AGAIN, SchemaChanged
from headrace.cdc.rereads import Reread
from headrace.cdc.source import SourceState
from headrace.errors import InvalidDefinition, InvalidParameterValue
from headrace.types import SqlType


class Postgres(Database):
    waits_for_others = True

    def __init__(self) -> None:
        self._partitions: dict[str, dict[str, int]] = {}
        """As of when tables were looked at last: see :class:`SourceState`"""
        self._anew: dict[int, int] = {}
        """Tables of which all partitions were written anew: where the log ended when that was seen"""

    def address(self, state: SourceState, password: str | None) -> Address:
        return Address(
            host=state.host, port=state.port, user=state.user, database=state.database, password=password,
            sslmode=state.sslmode, sslrootcert=state.sslrootcert, sslcert=state.sslcert, sslkey=state.sslkey,
        )  # fmt: skip

    def control(self, address: Address) -> Control:
        return Control(address)

    def feed(self, state: SourceState, address: Address, on_news: Callable[[], None]) -> LogStream:
        self._partitions = state.partitions
        return LogStream(
            address, slot=state.slot, publication=state.publication, position=state.lsn, skip=state.skip,
            on_news=on_news,
        )  # fmt: skip

    def check_source(self, control: Control, state: SourceState) -> SourceState:
        control.check_server()
        if control.slot(state.slot) is not None:
            raise InvalidParameterValue(
                f'the replication slot "{state.slot}" is there already',
                hint="choose another slot.name; one that nobody needs goes by pg_drop_replication_slot",
            )
        owned = not control.has_publication(state.publication)
        if owned:
            control.check_may_publish()
        return dataclasses.replace(state, owned=owned)

    def set_up(self, control: Control, state: SourceState) -> SourceState:
        if state.owned:
            control.create_publication(state.publication)  # first: a slot shows only publications before it
        return dataclasses.replace(state, lsn=control.create_slot(state.slot))

    def clean_up(self, control: Control, state: SourceState) -> None:
        try:
            control.drop_slot(state.slot)
        finally:
            if state.owned:
                control.drop_publication(state.publication)

    def by_hand(self, state: SourceState) -> str:
        wanted = f"SELECT pg_drop_replication_slot('{state.slot}')"
        return f'{wanted}; DROP PUBLICATION "{state.publication}"' if state.owned else wanted

    def default_schema(self, state: SourceState, options: dict[str, str]) -> str:
        return options.get("schema.name", "public")

    def natural(self, kind: Any, column: str) -> SqlType:
        return natural(kind, column)

    def checked(self, kind: Any, wanted: SqlType, column: str) -> SqlType:
        return checked(kind, wanted, column)

    def table_from_json(self, data: dict[str, Any]) -> SourceTable:
        return SourceTable.from_json(data)

    def begin_table(self, control: Control, state: SourceState, table: SourceTable) -> None:
        if state.owned:
            control.publish(state.publication, table)
        elif not control.publishes(state.publication, table.schema, table.name):
            raise InvalidDefinition(
                f'the publication "{state.publication}" does not have {table.full_name}',
                hint=f"ALTER PUBLICATION … ADD TABLE {table.full_name}, as its owner",
            )
        elif part := control.publishes_in_part(state.publication).get(table.oid):
            raise InvalidDefinition(
                f'the publication "{state.publication}" publishes {part} of {table.full_name}',
                hint="all that happens to its rows is needed; let it publish that, or name another",
            )

    def end_table(self, control: Control, state: SourceState, table: SourceTable) -> None:
        if state.owned:
            control.unpublish(state.publication, table.schema, table.name)

    def gone(
        self, control: Control, state: SourceState, tables: Sequence[SourceTable]
    ) -> list[tuple[SourceTable, str]]:
        published = control.published(state.publication)
        gone = [
            (table, f"{table.full_name} was dropped, or is not published any more ({AGAIN})")
            for table in tables
            if table.oid not in published
        ]
        in_part = control.publishes_in_part(state.publication)
        return gone + [
            (table, f"of {table.full_name} only a part is published: {in_part[table.oid]} ({AGAIN})")
            for table in tables
            if table.oid in in_part
        ]

    def changed(
        self, control: Control, tables: Sequence[SourceTable], position: int
    ) -> dict[SourceTable, SchemaChanged | bool]:
        oids = [table.oid for table in tables]
        shapes, names, keys = control.shapes(oids), control.names(oids), control.keys(oids)
        labels, rewritten, partitions = control.labels(oids), control.rewritten_columns(oids), control.partitions(oids)
        found: dict[SourceTable, SchemaChanged | bool] = {}
        seen = {str(oid): {str(part): each.file for part, each in parts.items()} for oid, parts in partitions.items()}
        for table in tables:
            oid, now = table.oid, shapes.get(table.oid, {})
            try:
                check_shape(table, oid, [*now.values()])
                check_name(table, *names.get(oid, (table.schema, table.name)))
                check_key(table, keys.get(oid, ()))
                check_numbers(table, {column.name: number for number, column in now.items()})
                check_labels(table, labels.get(oid, {}))
                check_rewritten(table, *rewritten.get(oid, (0, set())))
                before = self._partitions.get(str(oid))
                if not check_partitions(table, before, partitions.get(oid, {})):
                    self._anew.pop(oid, None)
                elif position < self._anew.setdefault(oid, control.log_end()):
                    seen.pop(str(oid), None)  # a TRUNCATE may be on its way: it is looked at again
                    seen |= {} if before is None else {str(oid): before}
                else:
                    raise SchemaChanged(
                        f"the partitions of {table.full_name} were truncated by themselves, or written anew", hint=AGAIN
                    )
                found[table] = bool(grown_columns(table, [*now.values()]))
            except SchemaChanged as error:
                found[table] = error
        self._partitions = seen
        return found

    def _truncated(self, table: SourceTable) -> None:
        """The log says so: whatever files its partitions have when they are looked at next, that was why."""
        self._partitions = {
            **self._partitions,
            str(table.oid): dict.fromkeys(self._partitions.get(str(table.oid), ()), 0),
        }

    def looked_at(self) -> dict[str, Any]:
        return {"partitions": self._partitions}

    def only_nulls_added(self, control: Control, table: SourceTable) -> bool:
        return control.only_nulls_added(table)

    def hold(self, address: Address) -> Hold:
        return SharedSnapshot(address)

    def rows_now(self, address: Address, table: SourceTable, keys: Sequence[Key]) -> Reread:
        return rows_now(address, table, keys)

    def reader(self, table: SourceTable, relation: Any) -> LogReader:
        return LogReader(table, relation, self._truncated)
