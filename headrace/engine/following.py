"""What the manifest knows about sources and the tables that follow them, under its offsets.

cdc_source:<id>     address, slot and publication, and how far its log is applied; changes with every cut
cdc_table:<id>      which table it follows, and how its columns are there
cdc_progress:<id>   how far its snapshot is
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from headrace.cdc.database import database
from headrace.cdc.intake import Progress
from headrace.cdc.source import SourceState
from headrace.state.manifest import Manifest

SOURCE_KEY, TABLE_KEY, PROGRESS_KEY = "cdc_source:", "cdc_table:", "cdc_progress:"


@dataclass(frozen=True, kw_only=True)
class TableState:
    source_id: int
    table: Any
    """As its database describes it"""
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
            source = source_state(state, data["source_id"])
            assert source is not None
            table = database(source.connector).table_from_json(data["table"])
            found[int(key.removeprefix(TABLE_KEY))] = TableState(**(data | {"table": table}))
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
