"""What the manifest knows about sources and the tables that follow them, under its offsets.

cdc_source:<id>     address, slot and publication, and how far its log is applied; changes with every cut
cdc_table:<id>      which table it follows, and how its columns are there
cdc_progress:<id>   how far its snapshot is
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from headrace.cdc.intake import Progress
from headrace.cdc.postgres.server import Address
from headrace.cdc.postgres.tables import SourceColumn, SourceTable
from headrace.cdc.postgres.types import SourceType
from headrace.state.manifest import Manifest

SOURCE_KEY, TABLE_KEY, PROGRESS_KEY = "cdc_source:", "cdc_table:", "cdc_progress:"


@dataclass(frozen=True, kw_only=True)
class SourceState:
    host: str
    port: int
    user: str
    database: str
    secret: str | None
    """The name of the password's"""
    sslmode: str
    sslrootcert: str | None
    slot: str
    publication: str
    owned: bool
    """Whether the publication was made by us, and goes with the source"""
    lsn: int = 0
    """All that was committed before is in the tables; 0: the slot is not there yet"""
    skip: int = 0
    """So many events of the transaction after it are, too"""

    def address(self, password: str | None) -> Address:
        return Address(
            host=self.host, port=self.port, user=self.user, database=self.database, password=password,
            sslmode=self.sslmode, sslrootcert=self.sslrootcert,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TableState:
    source_id: int
    table: SourceTable
    parallelism: int
    split_rows: int
    started_at: float
    """Seconds since 1970"""


def source_state(state: Manifest, id: int) -> SourceState | None:
    data = state.offsets.get(f"{SOURCE_KEY}{id}")
    return None if data is None else SourceState(**data)


def with_source(state: Manifest, id: int, source: SourceState) -> Manifest:
    return dataclasses.replace(state, offsets=state.offsets | {f"{SOURCE_KEY}{id}": dataclasses.asdict(source)})


def tables_of(state: Manifest, source_id: int | None = None) -> dict[int, TableState]:
    found = {}
    for key, data in state.offsets.items():
        if key.startswith(TABLE_KEY) and source_id in (None, data["source_id"]):
            found[int(key.removeprefix(TABLE_KEY))] = TableState(**(data | {"table": _table(data["table"])}))
    return found


def progress_of(state: Manifest, table_id: int) -> Progress:
    return Progress.from_json(state.offsets[f"{PROGRESS_KEY}{table_id}"])


def with_table(state: Manifest, id: int, table: TableState, progress: Progress) -> Manifest:
    added = {f"{TABLE_KEY}{id}": dataclasses.asdict(table)}
    return with_progress(dataclasses.replace(state, offsets=state.offsets | added), {id: progress})


def with_progress(state: Manifest, progress: dict[int, Progress]) -> Manifest:
    changed = {
        f"{PROGRESS_KEY}{id}": each.to_json()
        for id, each in progress.items()
        if state.offsets.get(f"{PROGRESS_KEY}{id}") != each.to_json()
    }
    return dataclasses.replace(state, offsets=state.offsets | changed) if changed else state


def forgotten(offsets: dict[str, Any], id: int) -> None:
    """Takes out all that is known of a relation that is dropped."""
    for prefix in (SOURCE_KEY, TABLE_KEY, PROGRESS_KEY):
        offsets.pop(f"{prefix}{id}", None)


def _table(data: dict[str, Any]) -> SourceTable:
    columns = tuple(SourceColumn(**(each | {"type": SourceType(**each["type"])})) for each in data["columns"])
    return SourceTable(**(data | {"columns": columns, "key": tuple(data["key"])}))
