"""What the manifest knows about sources of events and the views that are filled from them, under its offsets.

source:<id>         where its views begin, how far its shared reader is, what was skipped and lost
source_log:<id>     the segments of the log that a connector keeps in the warehouse
source_table:<id>   of a table whose rows events change: the same as of a source
source_view:<id>    of a view that is being filled: what it has still to read for itself
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace.catalog import INDEX, INTERNAL, MATERIALIZED_VIEW, SOURCE, Catalog, Relation
from headrace.sources.connector import Resolved, Segment
from headrace.sources.definition import Definition
from headrace.sources.handover import Extent, Handover, Stream
from headrace.sql.statements import Include, Watermark
from headrace.state.manifest import Manifest
from headrace.types import SqlType

STREAM_KEY, LOG_KEY, VIEW_KEY, TABLE_KEY = "source:", "source_log:", "source_view:", "source_table:"
KEYS = (STREAM_KEY, LOG_KEY, VIEW_KEY, TABLE_KEY)
USERS = (STREAM_KEY, TABLE_KEY)
"""Those that may use secrets"""

Extents = Mapping[int, Mapping[int, Extent]]
"""What there is, by source and split"""


@dataclass(frozen=True, kw_only=True)
class StreamState:
    definition: Definition
    resolved: Resolved
    secrets: Mapping[str, str] = field(default_factory=dict)
    """Names of secrets, by option"""
    starts: Mapping[int, int] = field(default_factory=dict)
    """Where the history of a view begins, by split; of splits that came later, too"""
    stream: Stream | None = None
    """None: nobody reads it"""
    skipped: int = 0
    """Bad records that were left out"""
    lost: int = 0
    """Offsets that were removed before they were read"""
    dead_letters: int | None = None
    """The table that events go to which cannot be read"""

    def to_json(self) -> dict[str, Any]:
        return {
            "definition": _definition_json(self.definition),
            "resolved": {"starts": _texts(self.resolved.starts), "known": dict(self.resolved.known)},
            "secrets": dict(self.secrets),
            "starts": _texts(self.starts),
            "next": None if self.stream is None else _texts(self.stream.next),
            "skipped": self.skipped,
            "lost": self.lost,
            "dead_letters": self.dead_letters,
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StreamState:
        resolved = data["resolved"]
        return StreamState(
            definition=_definition(data["definition"]),
            resolved=Resolved(starts=_numbers(resolved["starts"]), known=resolved["known"]),
            secrets=data["secrets"],
            starts=_numbers(data["starts"]),
            stream=None if data["next"] is None else Stream(next=_numbers(data["next"])),
            skipped=data["skipped"],
            lost=data["lost"],
            dead_letters=data["dead_letters"],
        )


@dataclass(frozen=True, kw_only=True)
class ViewState:
    """A view that is being filled."""

    inputs: Mapping[int, Handover]
    """By source"""
    parallelism: int
    started_at: float
    """Seconds since 1970"""
    created_epoch: int
    rate_limit: int | None = None
    """Rows per second; 0 is paused, None unlimited"""
    paused: bool = False
    error: str | None = None
    background: bool | None = None
    """As that of :class:`headrace.backfill.job.Job`"""

    @property
    def done(self) -> bool:
        return all(each.done for each in self.inputs.values())

    @property
    def on_hold(self) -> bool:
        return self.paused or self.rate_limit == 0

    @property
    def read(self) -> int:
        return sum(each.read for each in self.inputs.values())

    @property
    def total(self) -> int:
        return sum(each.total for each in self.inputs.values())

    def to_json(self) -> dict[str, Any]:
        data = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return data | {"inputs": {str(id): each.to_json() for id, each in self.inputs.items()}}

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ViewState:
        inputs = {int(id): Handover.from_json(each) for id, each in data["inputs"].items()}
        return ViewState(**{**data, "inputs": inputs})


def _texts(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(split): offset for split, offset in offsets.items()}


def _numbers(data: Mapping[str, int]) -> dict[int, int]:
    return {int(split): offset for split, offset in data.items()}


def _definition_json(definition: Definition) -> dict[str, Any]:
    data = dataclasses.asdict(definition)
    return data | {"columns": [[name, kind.to_json()] for name, kind in definition.columns]}


def _definition(data: Mapping[str, Any]) -> Definition:
    pairs: dict[str, Any] = {
        name: tuple((key, value) for key, value in data[name]) for name in ("options", "encode_options")
    }
    return Definition(
        **{
            **data,
            **pairs,
            "columns": tuple((name, SqlType.from_json(kind)) for name, kind in data["columns"]),
            "include": tuple(Include(**each) for each in data["include"]),
            "key": tuple(data["key"]),
            "watermark": Watermark(**data["watermark"]) if data.get("watermark") else None,
        }
    )


def stream_state(state: Manifest, id: int) -> StreamState | None:
    data = state.offsets.get(f"{STREAM_KEY}{id}")
    return None if data is None else StreamState.from_json(data)


def with_stream(state: Manifest, id: int, stream: StreamState) -> Manifest:
    return dataclasses.replace(state, offsets=state.offsets | {f"{STREAM_KEY}{id}": stream.to_json()})


def table_stream(state: Manifest, id: int) -> StreamState | None:
    data = state.offsets.get(f"{TABLE_KEY}{id}")
    return None if data is None else StreamState.from_json(data)


def with_table_stream(state: Manifest, id: int, stream: StreamState) -> Manifest:
    return dataclasses.replace(state, offsets=state.offsets | {f"{TABLE_KEY}{id}": stream.to_json()})


def is_event_source(state: Manifest, id: int) -> bool:
    return f"{STREAM_KEY}{id}" in state.offsets


def view_state(state: Manifest, id: int) -> ViewState | None:
    data = state.offsets.get(f"{VIEW_KEY}{id}")
    return None if data is None else ViewState.from_json(data)


def views_being_filled(state: Manifest) -> dict[int, ViewState]:
    return {
        int(key.removeprefix(VIEW_KEY)): ViewState.from_json(data)
        for key, data in state.offsets.items()
        if key.startswith(VIEW_KEY)
    }


def with_view(state: Manifest, id: int, view: ViewState) -> Manifest:
    return dataclasses.replace(state, offsets=state.offsets | {f"{VIEW_KEY}{id}": view.to_json()})


def without_view(state: Manifest, id: int) -> Manifest:
    offsets = {key: data for key, data in state.offsets.items() if key != f"{VIEW_KEY}{id}"}
    return dataclasses.replace(state, offsets=offsets)


def restarted_view(state: Manifest, id: int, view: ViewState, epoch: int) -> Manifest:
    """It failed, and is empty: it begins anew, where the streams are now."""
    inputs = {}
    for source_id, before in view.inputs.items():
        known = stream_state(state, source_id)
        assert known is not None
        # Nobody may have read the source since: then its stream goes on from where this view's history ended.
        stream = known.stream or Stream(next={split: stage.until for split, stage in before.stages.items()})
        state = with_stream(state, source_id, dataclasses.replace(known, stream=stream))
        inputs[source_id] = Handover.begin(known.starts, stream)
    begun = dataclasses.replace(
        view, inputs=inputs, error=None, paused=False, created_epoch=epoch, started_at=time.time()
    )
    return with_view(state, id, begun)


def log_segments(state: Manifest, id: int) -> list[Segment]:
    return [Segment(*each) for each in state.offsets.get(f"{LOG_KEY}{id}", [])]


def with_log(state: Manifest, id: int, segments: Sequence[Segment]) -> Manifest:
    return dataclasses.replace(state, offsets=state.offsets | {f"{LOG_KEY}{id}": [list(each) for each in segments]})


# --- who reads what ----------------------------------------------------------------------------------------------


def sources_of(catalog: Catalog, view: Relation) -> list[Relation]:
    """The sources whose events become rows of the view: none, if it stands on internal tables that hold them."""
    return [each for each in catalog.in_order(view.reads or view.depends_on) if each.kind == SOURCE]


def views_on(state: Manifest, source_id: int) -> list[Relation]:
    """The views, and internal tables, that take what the stream takes; none of them has been given up."""
    given_up = {id for id, each in views_being_filled(state).items() if each.error is not None}
    return [
        each
        for each in state.catalog
        if each.kind in (MATERIALIZED_VIEW, INTERNAL)
        and source_id in (each.reads or each.depends_on)
        and each.id not in given_up
    ]


def events_for(state: Manifest, id: int) -> dict[int, ViewState]:
    """What a view waits for of sources: itself, or the internal tables that hold their events for it."""
    relations, found, waiting = state.catalog.relations, {}, [id]
    while waiting:
        at = waiting.pop()
        if at in relations and (at == id or relations[at].kind == INTERNAL):
            if (known := view_state(state, at)) is not None:
                found[at] = known
            waiting += relations[at].depends_on
    return found


def stood_on(catalog: Catalog, views: Iterable[Relation]) -> set[int]:
    """Those of the views that something stored stands on."""
    ids = {view.id for view in views}
    kinds = (MATERIALIZED_VIEW, INDEX, INTERNAL)
    return {id for each in catalog.relations.values() if each.kind in kinds for id in ids.intersection(each.depends_on)}
