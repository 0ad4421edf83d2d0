"""The manifest: everything that is true at one moment, and the changes that lead from one to the next.

A checkpoint is the birth of one file, ``manifest/<version>.json``; what it names exists, what it does not name does
not. The file holds only what changed since the version before, so that an epoch of a few rows costs a few hundred bytes
however large the warehouse is:

    old = Manifest(version=6, runs={1: (a, b)}, …)
    new = Manifest(version=7, runs={1: (a, b, c)}, …)
    Change.between(old, new)   ->   {"version": 7, "runs": {"1": {"add": [[2, c]]}}, …}

Every so often (:mod:`headrace.state.store`) the whole manifest is written too, as ``<version>.full.json``, so that
loading need not start from the beginning of time.

Each file starts with a line that names the format and the checksum of the rest.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.catalog import Catalog, Relation
from headrace.errors import CorruptWarehouse, Unsupported
from headrace.state.runs import Run

FORMAT = 1
_MAGIC = "headrace-manifest"

Moment = tuple[int, int, int]
"""(version, epoch, committed_at)"""


@dataclass(frozen=True, kw_only=True)
class Writer:
    id: str
    host: str
    pid: int

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    version: int = 0
    """0 is the manifest of an empty directory; nothing is written for it."""
    epoch: int = 0
    committed_at: int = 0
    """Microseconds since 1970, UTC."""
    writer: Writer = Writer(id="", host="", pid=0)
    catalog: Catalog = field(default_factory=Catalog)
    runs: dict[int, tuple[Run, ...]] = field(default_factory=dict)
    """By relation id, oldest first."""
    positions: dict[str, Any] = field(default_factory=dict)
    offsets: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, str] = field(default_factory=dict)
    history: tuple[Moment, ...] = ()
    """The versions that can still be read, oldest first, this one included."""

    def next(self, *, writer: Writer, committed_at: int, **changes: Any) -> Manifest:
        """The version after this one, with itself in its history."""
        new = dataclasses.replace(self, version=self.version + 1, writer=writer, committed_at=committed_at, **changes)
        return dataclasses.replace(new, history=(*new.history, (new.version, new.epoch, committed_at)))

    def forget_before(self, version: int) -> Manifest:
        """The same with a shorter history: what only older versions name may be removed."""
        return dataclasses.replace(self, history=tuple(moment for moment in self.history if moment[0] >= version))

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "kind": "full",
            "version": self.version,
            "epoch": self.epoch,
            "committed_at": self.committed_at,
            "writer": dataclasses.asdict(self.writer),
            "catalog": self.catalog.to_json(),
            "runs": {str(id): [run.to_json() for run in runs] for id, runs in self.runs.items()},
            "positions": self.positions,
            "offsets": self.offsets,
            "parameters": self.parameters,
            "history": self.history,
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Manifest:
        return Manifest(
            version=data["version"],
            epoch=data["epoch"],
            committed_at=data["committed_at"],
            writer=Writer(**data["writer"]),
            catalog=Catalog.from_json(data["catalog"]),
            runs={int(id): tuple(map(Run.from_json, runs)) for id, runs in data["runs"].items()},
            positions=data["positions"],
            offsets=data["offsets"],
            parameters=data["parameters"],
            history=tuple(map(tuple, data["history"])),
        )


@dataclass(frozen=True, kw_only=True)
class MapChange:
    """What to set and what to remove to get from one dict to another."""

    set: dict[Any, Any] = field(default_factory=dict)
    unset: tuple[Any, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.set or self.unset)

    @staticmethod
    def between(old: Mapping[Any, Any], new: Mapping[Any, Any]) -> MapChange:
        if old is new:
            return MapChange()
        return MapChange(
            set={key: value for key, value in new.items() if key not in old or _differs(old[key], value)},
            unset=tuple(key for key in old if key not in new),
        )

    def apply(self, old: Mapping[Any, Any]) -> dict[Any, Any]:
        return {key: value for key, value in old.items() if key not in self.unset} | self.set

    def to_json(self) -> dict[str, Any]:
        return {"set": self.set, "unset": list(self.unset)}

    @staticmethod
    def from_json(data: dict[str, Any] | None) -> MapChange:
        return MapChange() if data is None else MapChange(set=data["set"], unset=tuple(data["unset"]))


@dataclass(frozen=True, kw_only=True)
class RunsChange:
    """Which runs of a relation go, and which come, each with its place in the new order."""

    remove: tuple[str, ...] = ()
    add: tuple[tuple[int, Run], ...] = ()

    @staticmethod
    def between(old: tuple[Run, ...], new: tuple[Run, ...]) -> RunsChange:
        if new[: len(old)] == old:  # the usual epoch only appends
            return RunsChange(add=tuple(enumerate(new[len(old) :], len(old))))
        by_id = {run.id: run for run in new}
        kept = [run.id for run in old if by_id.get(run.id) == run]
        if [run.id for run in new if run.id in set(kept)] != kept:
            kept = []  # reordered, which nothing does on purpose: write all of it
        staying = set(kept)
        return RunsChange(
            remove=tuple(run.id for run in old if run.id not in staying),
            add=tuple((place, run) for place, run in enumerate(new) if run.id not in staying),
        )

    def apply(self, old: tuple[Run, ...]) -> tuple[Run, ...]:
        gone = set(self.remove)
        if missing := gone.difference(run.id for run in old):
            raise ValueError(f"it removes the run {min(missing)}, which is not there")
        runs = [run for run in old if run.id not in gone] if gone else list(old)
        for place, run in self.add:
            runs.insert(place, run)
        return tuple(runs)

    def to_json(self) -> dict[str, Any]:
        return {"remove": list(self.remove), "add": [[place, run.to_json()] for place, run in self.add]}

    @staticmethod
    def from_json(data: dict[str, Any]) -> RunsChange:
        return RunsChange(
            remove=tuple(data["remove"]), add=tuple((place, Run.from_json(run)) for place, run in data["add"])
        )


@dataclass(frozen=True, kw_only=True)
class Change:
    version: int
    epoch: int
    committed_at: int
    writer: Writer
    next_id: int
    """The catalog's."""
    relations: MapChange = MapChange()
    runs: dict[int, RunsChange] = field(default_factory=dict)
    without_runs: tuple[int, ...] = ()
    positions: MapChange = MapChange()
    offsets: MapChange = MapChange()
    parameters: MapChange = MapChange()
    forget_before: int = 0
    """History older than this version is gone."""
    history: tuple[Moment, ...] = ()
    """What history gains."""

    @staticmethod
    def between(old: Manifest, new: Manifest) -> Change:
        forget_before, gained = _history_change(old.history, new.history)
        return Change(
            version=new.version,
            epoch=new.epoch,
            committed_at=new.committed_at,
            writer=new.writer,
            next_id=new.catalog.next_id,
            relations=MapChange.between(old.catalog.relations, new.catalog.relations),
            runs={
                id: RunsChange.between(old.runs.get(id, ()), runs)
                for id, runs in new.runs.items()
                if id not in old.runs or _differs(old.runs[id], runs)
            },
            without_runs=tuple(id for id in old.runs if id not in new.runs),
            positions=MapChange.between(old.positions, new.positions),
            offsets=MapChange.between(old.offsets, new.offsets),
            parameters=MapChange.between(old.parameters, new.parameters),
            forget_before=forget_before,
            history=gained,
        )

    def apply(self, old: Manifest) -> Manifest:
        if self.version != old.version + 1:
            raise ValueError(f"it follows version {self.version - 1}, not {old.version}")
        runs = {id: each for id, each in old.runs.items() if id not in self.without_runs}
        for id, change in self.runs.items():
            runs[id] = change.apply(runs.get(id, ()))
        kept = tuple(moment for moment in old.history if moment[0] >= self.forget_before)
        return Manifest(
            version=self.version,
            epoch=self.epoch,
            committed_at=self.committed_at,
            writer=self.writer,
            catalog=Catalog(self.relations.apply(old.catalog.relations), self.next_id),
            runs=runs,
            positions=self.positions.apply(old.positions),
            offsets=self.offsets.apply(old.offsets),
            parameters=self.parameters.apply(old.parameters),
            history=kept + self.history,
        )

    def to_json(self) -> dict[str, Any]:
        """Only what changed: an epoch's file is written and read far more often than it is looked at."""
        data: dict[str, Any] = {
            "format": FORMAT,
            "kind": "change",
            "version": self.version,
            "epoch": self.epoch,
            "committed_at": self.committed_at,
            "writer": dataclasses.asdict(self.writer),
            "next_id": self.next_id,
            "forget_before": self.forget_before,
            "history": self.history,
        }
        if self.relations:
            data["relations"] = {
                "set": [relation.to_json() for relation in self.relations.set.values()],
                "unset": list(self.relations.unset),
            }
        if self.runs:
            data["runs"] = {str(id): change.to_json() for id, change in self.runs.items()}
        if self.without_runs:
            data["without_runs"] = list(self.without_runs)
        for name in ("positions", "offsets", "parameters"):
            if change := getattr(self, name):
                data[name] = change.to_json()
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Change:
        relations = data.get("relations", {"set": [], "unset": []})
        return Change(
            version=data["version"],
            epoch=data["epoch"],
            committed_at=data["committed_at"],
            writer=Writer(**data["writer"]),
            next_id=data["next_id"],
            relations=MapChange(
                set={relation.id: relation for relation in map(Relation.from_json, relations["set"])},
                unset=tuple(relations["unset"]),
            ),
            runs={int(id): RunsChange.from_json(change) for id, change in data.get("runs", {}).items()},
            without_runs=tuple(data.get("without_runs", ())),
            positions=MapChange.from_json(data.get("positions")),
            offsets=MapChange.from_json(data.get("offsets")),
            parameters=MapChange.from_json(data.get("parameters")),
            forget_before=data["forget_before"],
            history=tuple(map(tuple, data["history"])),
        )


def encode(document: Manifest | Change) -> bytes:
    body = json.dumps(document.to_json(), separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode() + b"\n"
    return f"{_MAGIC} {FORMAT} sha256={hashlib.sha256(body).hexdigest()}\n".encode() + body


def decode(data: bytes, path: str) -> Manifest | Change:
    header, _, body = data.partition(b"\n")
    words = header.decode("ascii", "replace").split(" ")
    if len(words) != 3 or words[0] != _MAGIC:
        raise damaged(path, "it does not start like a manifest")
    if words[1] != str(FORMAT):
        raise Unsupported(
            f"{path} has format {words[1]}; this version of Headrace reads format {FORMAT}",
            hint="open the warehouse with the version of Headrace that wrote it, or a newer one",
        )
    if words[2] != f"sha256={hashlib.sha256(body).hexdigest()}":
        raise damaged(path, "its checksum does not match")
    try:
        document = json.loads(body)
        return Manifest.from_json(document) if document["kind"] == "full" else Change.from_json(document)
    except (KeyError, TypeError, ValueError) as problem:
        raise damaged(path, f"it lacks what a manifest must have ({problem!r})") from problem


def damaged(path: str, what: str) -> CorruptWarehouse:
    return CorruptWarehouse(
        f"the manifest {path} is damaged: {what}",
        hint="restore it from a backup; if it is the newest, moving it away returns to the checkpoint before",
    )


def referenced_files(manifests: Iterable[Manifest]) -> set[str]:
    """Every data file that one of them names, with the sidecars."""
    seen: set[int] = set()
    paths: set[str] = set()
    for manifest in manifests:
        for runs in manifest.runs.values():
            for run in runs:
                if id(run) not in seen:  # versions share most of their runs
                    seen.add(id(run))
                    for file in run.files:
                        paths.add(file.path)
                        if file.sidecar:
                            paths.add(file.sidecar)
    return paths


def _history_change(old: tuple[Moment, ...], new: tuple[Moment, ...]) -> tuple[int, tuple[Moment, ...]]:
    """History loses its oldest and gains newer ones; anything else is written whole."""
    if new and old and new[0] in old:
        kept = old[old.index(new[0]) :]
        if new[: len(kept)] == kept:
            return new[0][0], new[len(kept) :]
    return max((moment[0] for moment in old), default=0) + 1, new


def _differs(old: Any, new: Any) -> bool:
    return old is not new and old != new
