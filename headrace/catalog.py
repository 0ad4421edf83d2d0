"""What exists: relations, their columns and keys, and who depends on whom.

Pure and immutable: a change makes a new :class:`Catalog`, which becomes visible when the manifest that holds it is
committed. Nothing here knows Spark.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace.errors import DependentObjects, DuplicateRelation, UndefinedColumn, UndefinedRelation, WrongObjectKind
from headrace.types import SqlType

TABLE, VIEW, MATERIALIZED_VIEW, INDEX, SOURCE = "table", "view", "materialized view", "index", "source"
INTERNAL = "internal table"
"""What a materialized view keeps for itself: arrangements of its inputs, and results on the way to its own."""

ROW_ID = "_row_id"
"""The hidden key of a table without a primary key."""

INTERNAL_PREFIX = "_hr_"
"""Columns that Headrace adds to stored rows; users cannot name one so."""

OF_SESSION = "\0"
"""In the name of a temporary table, before the number of the session that sees it: no client can write such a name."""


def with_article(kind: str) -> str:
    """
    >>> with_article("table"), with_article("index")
    ('a table', 'an index')
    """
    return f"{'an' if kind[0] in 'aeiou' else 'a'} {kind}"


def shown_name(name: str) -> str:
    """As it was written by whoever made the relation.

    >>> shown_name("orders"), shown_name("orders\\0" + "7")
    ('orders', 'orders')
    """
    return name.partition(OF_SESSION)[0]


@dataclass(frozen=True, kw_only=True)
class Column:
    name: str
    type: SqlType
    nullable: bool = True
    hidden: bool = False
    default: str | None = None
    """SQL text in our own dialect, evaluated for a row that leaves the column out."""
    generated: str | None = None
    """SQL text in our own dialect over the row's other columns."""
    comment: str | None = None

    def to_json(self) -> dict[str, Any]:
        return _without_defaults(self) | {"type": self.type.to_json()}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Column:
        return Column(**(data | {"type": SqlType.from_json(data["type"])}))


@dataclass(frozen=True, kw_only=True)
class KeyColumn:
    """One column of a pk, in the order rows are sorted by. NULLs sort as PostgreSQL's do: as if larger than all."""

    name: str
    descending: bool = False
    nulls_first: bool = False

    def to_json(self) -> dict[str, Any]:
        return _without_defaults(self)


@dataclass(frozen=True, kw_only=True)
class Lateness:
    """WATERMARK FOR column AS column - delay: a row is late if its time is so much earlier than the latest."""

    column: str
    delay: int
    """In microseconds"""


@dataclass(frozen=True, kw_only=True)
class Operator:
    """How a relation follows its inputs where their changes cannot simply be mapped (docs/design/incremental.md).

    The rows of one key depend on nothing but the inputs' rows of that key. So what an epoch touched is a set of keys,
    and their rows are computed anew from what the inputs hold under them now.
    """

    key: tuple[str, ...]
    """The relation's first pk columns, by which it is recomputed; none: all of it is."""
    inputs: tuple[tuple[int, tuple[str, ...]], ...]
    """The relations that it reads and, of each, the columns that correspond to the key."""
    describe: str
    """What it does, for EXPLAIN."""
    adds: tuple[tuple[str, str | None], ...] = ()
    """If all columns but the key can be had from their old values and the inputs' changes: those columns, each with the
    one that counts what it is the sum of, if it is one. The first counts the rows of a key."""
    averages: tuple[tuple[str, str, str], ...] = ()
    """… and columns that are one of those divided by another: its name, and theirs."""
    extremes: tuple[tuple[str, str], ...] = ()
    """… and columns that are a minimum or maximum, with which of the two. If an input has columns of the key, rows of
    a key that may have lost one are looked up there; else rows only come."""
    first: tuple[int, ...] = ()
    """If no more than the first rows of a key are needed, in the order of an input's pk: how many, for each input."""
    kept: tuple[tuple[str, str], ...] = ()
    """… and if the relation holds these rows itself: columns of the input that it is computed from, and its own. Then
    the first rows follow from the old ones and what came, unless one of them goes."""
    whole: tuple[int, ...] = ()
    """Inputs of which all rows belong to every key: if one of them changes, all is computed anew."""
    clock: tuple[str, str] | None = None
    """If a row is there only at some times: a column, and how the time must compare with it. The first of its key."""
    watermark: int | None = None
    """… if that time is not the clock's: the relation whose watermark it is."""
    as_of_now: tuple[int, ...] = ()
    """Inputs whose rows are looked up when a key is touched, and whose changes touch none: those of temporal joins."""
    linear: tuple[int, ...] = ()
    """Inputs of which each row gives rows of its own: a change is mapped, with what the others hold of its key."""
    passing: bool = False
    """Whether its rows are not stored: who reads it needs its changes alone, and all inputs are linear."""

    def __post_init__(self):
        ids = {id for id, _ in self.inputs}
        if unknown := {*self.whole, *self.as_of_now, *self.linear} - ids:
            raise ValueError(f"{self.describe}: {sorted(unknown)} are not among the inputs {sorted(ids)}")
        if self.passing and set(self.linear) != ids:
            raise ValueError(f"{self.describe}: it is not stored, but does not follow from changes of all inputs")

    @property
    def follows_changes(self) -> bool:
        """Whether changes of the inputs are all that it needs of them, beside its own rows."""
        return bool(self.adds) and not any(columns for _, columns in self.inputs)

    @property
    def recomputes(self) -> bool:
        """Whether all of it is computed anew when an input changes."""
        return not self.key and not self.adds and not self.first

    def to_json(self) -> dict[str, Any]:
        inputs = [[id, list(columns)] for id, columns in self.inputs]
        data = {"key": list(self.key), "inputs": inputs, "describe": self.describe}
        more = {
            "adds": list(map(list, self.adds)),
            "averages": list(map(list, self.averages)),
            "extremes": list(map(list, self.extremes)),
            "first": list(self.first),
            "kept": list(map(list, self.kept)),
            "whole": list(self.whole),
            "clock": list(self.clock or ()),
            "watermark": self.watermark,
            "as_of_now": list(self.as_of_now),
            "linear": list(self.linear),
            "passing": self.passing,
        }
        return data | {name: value for name, value in more.items() if value}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Operator:
        return Operator(
            key=tuple(data["key"]),
            inputs=tuple((id, tuple(columns)) for id, columns in data["inputs"]),
            describe=data["describe"],
            adds=tuple((name, count) for name, count in data.get("adds", ())),
            averages=tuple((name, total, count) for name, total, count in data.get("averages", ())),
            extremes=tuple((name, function) for name, function in data.get("extremes", ())),
            first=tuple(data.get("first", ())),
            kept=tuple((name, own) for name, own in data.get("kept", ())),
            whole=tuple(data.get("whole", ())),
            clock=tuple(data["clock"]) if "clock" in data else None,
            watermark=data.get("watermark"),
            as_of_now=tuple(data.get("as_of_now", ())),
            linear=tuple(data.get("linear", ())),
            passing=data.get("passing", False),
        )


@dataclass(frozen=True, kw_only=True)
class Relation:
    id: int
    name: str
    kind: str
    columns: tuple[Column, ...]
    pk: tuple[KeyColumn, ...] = ()
    distribution: tuple[str, ...] = ()
    """The columns whose hash is the vnode."""
    append_only: bool = False
    on_conflict: str = "overwrite"
    """overwrite, ignore, or update_if_not_null"""
    definition: str = ""
    """The statement that made it, as the user wrote it."""
    query: str | None = None
    """Views: the query in our own dialect, with every name resolved."""
    depends_on: tuple[int, ...] = ()
    options: tuple[tuple[str, str], ...] = ()
    comment: str | None = None
    created_epoch: int = 0
    creating: bool = False
    """Still being filled: nothing can be read from it yet."""
    parallelism: int = 0
    """In how many partitions large work on it is done; 0 leaves it to the engine."""
    maintained: str | None = None
    """Views whose query has been cut into pieces: the last piece, over internal tables and others."""
    reads: tuple[int, ...] = ()
    """… and the relations that this piece reads."""
    operator: Operator | None = None
    """… and how it follows them; None: their changes are mapped row by row."""
    temporary: bool = False
    """Only one session sees it, under the first part of its name, and it goes with that session."""
    lateness: Lateness | None = None
    """Sources, append-only tables, and what is stored of a source: which rows have come too late."""

    @property
    def visible_columns(self) -> tuple[Column, ...]:
        return tuple(column for column in self.columns if not column.hidden)

    @property
    def label(self) -> str:
        return shown_name(self.name)

    @property
    def stored(self) -> bool:
        """Whether the relation has rows of its own."""
        return self.kind in (TABLE, MATERIALIZED_VIEW, INDEX, INTERNAL)

    @property
    def rehashed(self) -> bool:
        """Whether its rows are mapped one by one from others that have another vnode, and another order."""
        return self.kind in (INDEX, INTERNAL) and self.operator is None

    @property
    def follows(self) -> bool:
        """Whether its rows are those of a table elsewhere, and nobody else may write to it."""
        return self.kind == TABLE and (bool(self.depends_on) or "connector" in dict(self.options))

    def column(self, name: str) -> Column:
        for column in self.columns:
            if column.name == name:
                return column
        known = ", ".join(column.name for column in self.visible_columns)
        raise UndefinedColumn(f'column "{name}" of {self.kind} "{self.name}" does not exist', hint=f"it has: {known}")

    def replace(self, **changes: Any) -> Relation:
        return dataclasses.replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        data = _without_defaults(self)
        data["columns"] = [column.to_json() for column in self.columns]
        if self.pk:
            data["pk"] = [key.to_json() for key in self.pk]
        if self.operator is not None:
            data["operator"] = self.operator.to_json()
        if self.lateness is not None:
            data["lateness"] = dataclasses.asdict(self.lateness)
        return data

    @staticmethod
    def from_json(data: dict[str, Any]) -> Relation:
        return Relation(
            **(
                data
                | {
                    "columns": tuple(map(Column.from_json, data["columns"])),
                    "pk": tuple(KeyColumn(**key) for key in data.get("pk", ())),
                    "distribution": tuple(data.get("distribution", ())),
                    "depends_on": tuple(data.get("depends_on", ())),
                    "options": tuple((key, value) for key, value in data.get("options", ())),
                    "reads": tuple(data.get("reads", ())),
                    "operator": Operator.from_json(data["operator"]) if "operator" in data else None,
                    "lateness": Lateness(**data["lateness"]) if "lateness" in data else None,
                }
            )
        )


@dataclass(frozen=True)
class Catalog:
    relations: dict[int, Relation] = field(default_factory=dict)
    next_id: int = 1

    def __iter__(self) -> Iterator[Relation]:
        return iter(sorted(self.relations.values(), key=lambda relation: relation.id))

    def find(self, name: str) -> Relation | None:
        return next((relation for relation in self.relations.values() if relation.name == name), None)

    def get(self, name: str, *kinds: str) -> Relation:
        relation = self.find(name)
        if relation is None:
            what = kinds[0] if kinds else "relation"
            raise UndefinedRelation(
                f'{what} "{name}" does not exist', hint="SHOW TABLES and SHOW MATERIALIZED VIEWS list what there is"
            )
        if kinds and relation.kind not in kinds:
            raise WrongObjectKind(f'"{name}" is {with_article(relation.kind)}, not {with_article(kinds[0])}')
        return relation

    def of_kind(self, *kinds: str) -> list[Relation]:
        return [relation for relation in self if relation.kind in kinds]

    def add(self, relation: Relation) -> Catalog:
        if (existing := self.find(relation.name)) is not None:
            raise DuplicateRelation(f'{existing.kind} "{relation.name}" already exists')
        return Catalog(self.relations | {relation.id: relation}, max(self.next_id, relation.id + 1))

    def update(self, relation: Relation) -> Catalog:
        other = self.find(relation.name)
        if other is not None and other.id != relation.id:
            raise DuplicateRelation(f'{other.kind} "{relation.name}" already exists')
        return Catalog(self.relations | {relation.id: relation}, self.next_id)

    def dependents(self, relation_id: int) -> list[Relation]:
        """Everything that stands on the relation, directly or not, nearest first."""
        found: dict[int, Relation] = {}
        frontier = {relation_id}
        while frontier:
            layer = [r for r in self if r.id not in found and frontier.intersection(r.depends_on)]
            found |= {relation.id: relation for relation in layer}
            frontier = {relation.id for relation in layer}
        return list(found.values())

    def inputs_of(self, relation: Relation) -> list[int]:
        """The stored relations that a view's rows are computed from, plain views between them left out."""
        ids = relation.reads or relation.depends_on
        return [id for id in ids if id in self.relations and self.relations[id].stored]

    def stored_inputs(self, ids: Iterable[int]) -> list[int]:
        """These relations, and in place of those that only pass changes on what they read."""
        found: dict[int, None] = {}
        for id in ids:
            relation = self.relations[id]
            passing = relation.operator is not None and relation.operator.passing
            found |= dict.fromkeys(self.stored_inputs(relation.reads) if passing else [id])
        return list(found)

    def owner(self, relation: Relation) -> Relation:
        """The view that an internal table was made for, or another that uses it, too."""
        if relation.kind != INTERNAL:
            return relation
        return next((each for each in self.dependents(relation.id) if each.kind == MATERIALIZED_VIEW), relation)

    def users(self, relation: Relation) -> list[Relation]:
        """The views whose pieces an internal table is one of; not those that stand on such a view."""
        above = [each for each in self if relation.id in each.depends_on]
        found = {each.id: each for each in above if each.kind != INTERNAL}
        for each in above:
            found |= {user.id: user for user in self.users(each)} if each.kind == INTERNAL else {}
        return list(found.values())

    def drop(self, relation: Relation, *, cascade: bool = False) -> tuple[Catalog, list[Relation]]:
        """The catalog without it, and all that went. Indexes go with their relation; views only if asked."""
        dependents = self.dependents(relation.id)
        held_by = [dependent for dependent in dependents if dependent.kind not in (INDEX, INTERNAL)]
        if held_by and not cascade:
            names = ", ".join(f'{dependent.kind} "{dependent.name}"' for dependent in held_by)
            raise DependentObjects(
                f'cannot drop {relation.kind} "{relation.name}" because other objects depend on it: {names}',
                hint="use DROP … CASCADE to drop them too",
            )
        gone = [relation, *dependents]
        ids = {each.id for each in gone}
        # Internal tables go with the last view that needs them, the ones on top first.
        for each in reversed(list(self)):
            left = (other for other in self.relations.values() if other.id not in ids)
            if each.kind == INTERNAL and each.id not in ids and not any(each.id in other.depends_on for other in left):
                gone.append(each)
                ids.add(each.id)
        return Catalog({id: each for id, each in self.relations.items() if id not in ids}, self.next_id), gone

    def in_order(self, ids: Iterable[int] | None = None) -> list[Relation]:
        """Upstream before downstream. Ids grow and a view only names what exists, so the id order is such an order."""
        wanted = None if ids is None else set(ids)
        return [relation for relation in self if wanted is None or relation.id in wanted]

    def to_json(self) -> dict[str, Any]:
        return {"next_id": self.next_id, "relations": [relation.to_json() for relation in self]}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Catalog:
        relations = [Relation.from_json(each) for each in data["relations"]]
        return Catalog({relation.id: relation for relation in relations}, data["next_id"])


def _without_defaults(instance: Any) -> dict[str, Any]:
    """The fields of a dataclass that are not at their default: what is worth writing down."""
    data = {}
    for spec in dataclasses.fields(instance):
        value = getattr(instance, spec.name)
        if spec.default is dataclasses.MISSING or value != spec.default:
            data[spec.name] = list(value) if isinstance(value, tuple) else value
    return data
