"""MariaDB and MySQL, as following needs them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from headrace.cdc.database import Database, Hold
from headrace.cdc.mysql.reading import Window
from headrace.cdc.mysql.server import Control
from headrace.cdc.mysql.session import Address
from headrace.cdc.mysql.stream import LogStream, register
from headrace.cdc.mysql.tables import LogReader, SourceTable
from headrace.cdc.mysql.types import checked, natural
from headrace.cdc.problems import AGAIN, SchemaChanged, SourceRefused
from headrace.cdc.source import SourceState
from headrace.types import SqlType


class Mysql(Database):
    def address(self, state: SourceState, password: str | None) -> Address:
        return Address(
            host=state.host, port=state.port, user=state.user, database=state.database, password=password,
            sslmode=state.sslmode, sslrootcert=state.sslrootcert, sslcert=state.sslcert, sslkey=state.sslkey,
        )  # fmt: skip

    def control(self, address: Address) -> Control:
        return Control(address)

    def feed(self, state: SourceState, address: Address, on_news: Callable[[], None]) -> LogStream:
        return LogStream(
            address, base=state.log_base, server_id=state.server_id, server_uuid=state.server_uuid,
            gtids=state.gtids, position=state.lsn, skip=state.skip, on_news=on_news,
        )  # fmt: skip

    def check_source(self, control: Control, state: SourceState) -> SourceState:
        control.check_server(state.server_id)
        session = control.address.session()
        try:
            register(session, state.server_id)
        except SourceRefused:
            user = control.address.user
            raise SourceRefused(
                f'user "{user}" may not replicate', hint=f"GRANT REPLICATION SLAVE ON *.* TO '{user}'"
            ) from None
        finally:
            session.close()
        return state

    def set_up(self, control: Control, state: SourceState) -> SourceState:
        place, known = control.start()
        return dataclasses.replace(
            state, lsn=place.number, log_base=place.base, gtids=known, server_uuid=control.uuid()
        )  # nothing has to be made there: a server's log is for whoever reads it

    def clean_up(self, control: Control, state: SourceState) -> None:
        pass

    def by_hand(self, state: SourceState) -> str:
        return ""

    def default_schema(self, state: SourceState, options: dict[str, str]) -> str:
        return state.database

    def natural(self, kind: Any, column: str) -> SqlType:
        return natural(kind, column)

    def checked(self, kind: Any, wanted: SqlType, column: str) -> SqlType:
        return checked(kind, wanted, column)

    def table_from_json(self, data: dict[str, Any]) -> SourceTable:
        return SourceTable.from_json(data)

    def begin_table(self, control: Control, state: SourceState, table: SourceTable) -> None:
        control.check_log_settings()

    def end_table(self, control: Control, state: SourceState, table: SourceTable) -> None:
        pass

    def gone(
        self, control: Control, state: SourceState, tables: Sequence[SourceTable]
    ) -> list[tuple[SourceTable, str]]:
        return [(table, f"{table.full_name} was dropped or renamed ({AGAIN})") for table in control.gone(tables)]

    def changed(
        self, control: Control, tables: Sequence[SourceTable], position: int
    ) -> dict[SourceTable, SchemaChanged | bool]:
        """Only whether there are more: what happens to those that we know is in the log. But foreign keys may act on
        rows in silence, since a restart."""
        stored = control.stored_columns(tables)
        found: dict[SourceTable, SchemaChanged | bool] = {
            table: not stored[table] <= {column.name for column in table.columns} for table in tables
        }
        return found | {
            table: SchemaChanged(f"{table.full_name}: its foreign keys change rows, and the log does not say so now")
            for table in control.not_logged(tables)
        }

    def hold(self, address: Address) -> Hold:
        return Window(address)

    def reader(self, table: SourceTable, relation: Any) -> LogReader:
        return LogReader(table, relation)
