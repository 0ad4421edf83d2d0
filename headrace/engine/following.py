"""What the manifest knows about sources and the tables that follow them, under its offsets.

cdc_source:<id>     address, slot and publication, and how far its log is applied; changes with every cut
cdc_table:<id>      which table it follows, and how its columns are there
cdc_progress:<id>   how far its snapshot is
cdc_copy:<id>       the relation that a table is read anew into, to take its place. It has an id of its own, and
                    under that id the two above, and runs; but the catalog does not know it, so nobody else does
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from headrace.catalog import Catalog, Relation
from headrace.cdc.database import database
from headrace.cdc.intake import Progress
from headrace.cdc.source import SourceState
from headrace.engine import feeds
from headrace.engine.watermarks import LATE, WATERMARK
from headrace.state.manifest import Manifest

SOURCE_KEY, TABLE_KEY, PROGRESS_KEY, COPY_KEY = "cdc_source:", "cdc_table:", "cdc_progress:", "cdc_copy:"

ROW_ID_KEY = "row_id:"
"""Of a table without a primary key: the next number"""


@dataclass(frozen=True, kw_only=True)
class TableState:
    source_id: int
    table: Any
    """As its database describes it"""
    parallelism: int
    split_rows: int
    started_at: float
    """Seconds since 1970"""
    batch_rows: int | None = None
    """The most that is read between two commits; None: as many as the splits have"""
    rate_limit: int | None = None
    """Rows per second of the snapshot; 0 is paused, None unlimited"""
    paused: bool = False
    snapshot: bool = True
    """Whether the rows are read that were there; or else only what is changed since"""
    all_columns: bool = False
    """Whether it has those that its source has, (*), or those that somebody has named"""
    copy_of: int | None = None
    """The table that it is read for, to take its place"""

    @property
    def on_hold(self) -> bool:
        """Whether its snapshot stands still because somebody has said so."""
        return self.paused or self.rate_limit == 0


def source_state(state: Manifest, id: int) -> SourceState | None:
    data = state.offsets.get(f"{SOURCE_KEY}{id}")
    return None if data is None else SourceState(**data)


def with_source(state: Manifest, id: int, source: SourceState) -> Manifest:
    return dataclasses.replace(state, offsets=state.offsets | {f"{SOURCE_KEY}{id}": dataclasses.asdict(source)})


def tables_of(state: Manifest, source_id: int | None = None, *, copies: bool = False) -> dict[int, TableState]:
    """Those of the catalog, and perhaps also what some of them are read into anew."""
    found = {}
    for key, data in state.offsets.items():
        if not copies and key.startswith(TABLE_KEY) and data.get("copy_of") is not None:
            continue
        if key.startswith(TABLE_KEY) and source_id in (None, data["source_id"]):
            id = int(key.removeprefix(TABLE_KEY))
            found[id] = table_state(state, id)
    return found


def table_state(state: Manifest, id: int) -> TableState:
    data = state.offsets[f"{TABLE_KEY}{id}"]
    source = source_state(state, data["source_id"])
    assert source is not None
    return TableState(**(data | {"table": database(source.connector).table_from_json(data["table"])}))


def is_following(state: Manifest, id: int) -> bool:
    return f"{TABLE_KEY}{id}" in state.offsets and id in state.catalog.relations


def progress_of(state: Manifest, table_id: int) -> Progress:
    return Progress.from_json(state.offsets[f"{PROGRESS_KEY}{table_id}"])


def with_table(state: Manifest, id: int, table: TableState, progress: Progress) -> Manifest:
    return with_progress(with_following(state, id, table), {id: progress})


def with_following(state: Manifest, id: int, table: TableState) -> Manifest:
    return dataclasses.replace(state, offsets=state.offsets | {f"{TABLE_KEY}{id}": dataclasses.asdict(table)})


def with_progress(state: Manifest, progress: dict[int, Progress]) -> Manifest:
    changed = {
        f"{PROGRESS_KEY}{id}": each.to_json()
        for id, each in progress.items()
        if state.offsets.get(f"{PROGRESS_KEY}{id}") != each.to_json()
    }
    return dataclasses.replace(state, offsets=state.offsets | changed) if changed else state


def without(state: Manifest, id: int) -> Manifest:
    """Without all that is known of a relation that is dropped, and what it is read into."""
    known = {id} if (copy := copy_of(state, id)) is None else {id, copy.id}
    prefixes = (SOURCE_KEY, TABLE_KEY, PROGRESS_KEY, COPY_KEY, ROW_ID_KEY, WATERMARK, LATE, *feeds.KEYS)
    keys = {f"{prefix}{each}" for prefix in prefixes for each in known}
    return dataclasses.replace(
        state,
        offsets={key: data for key, data in state.offsets.items() if key not in keys},
        runs={key: runs for key, runs in state.runs.items() if key not in known},
    )


# --- copies -----------------------------------------------------------------------------------------------------


def copy_of(state: Manifest, table_id: int) -> Relation | None:
    data = state.offsets.get(f"{COPY_KEY}{table_id}")
    return None if data is None else Relation.from_json(data)


def with_copy(state: Manifest, copy: Relation, table: TableState, progress: Progress) -> Manifest:
    assert table.copy_of is not None
    catalog = Catalog(state.catalog.relations, max(state.catalog.next_id, copy.id + 1))
    offsets = state.offsets | {f"{COPY_KEY}{table.copy_of}": copy.to_json()}
    return with_table(dataclasses.replace(state, catalog=catalog, offsets=offsets), copy.id, table, progress)


def without_copy(state: Manifest, table_id: int) -> Manifest:
    copy = copy_of(state, table_id)
    if copy is None:
        return state
    offsets = {key: data for key, data in state.offsets.items() if key != f"{COPY_KEY}{table_id}"}
    return without(dataclasses.replace(state, offsets=offsets), copy.id)


def with_copies_shown(state: Manifest) -> Manifest:
    """The state with a catalog that has the copies, too: for who writes or merges them."""
    copies = [Relation.from_json(data) for key, data in state.offsets.items() if key.startswith(COPY_KEY)]
    if not copies:
        return state
    relations = state.catalog.relations | {copy.id: copy for copy in copies}
    return dataclasses.replace(state, catalog=Catalog(relations, state.catalog.next_id))
