"""What a system relation is: columns, and rows worked out from the committed state when it is asked for.

A client of PostgreSQL finds out what there is by asking tables: ``pg_catalog``, ``information_schema``, and
``rw_catalog`` as RisingWave has it. Their rows are few, so they become small local DataFrames, and any query works on
them. What Headrace has not got (policies, triggers, sequences) is a table without rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from headrace.catalog import INDEX, INTERNAL, MATERIALIZED_VIEW, SOURCE, TABLE, VIEW, Catalog, Column, Relation
from headrace.serving.wire.oids import OID, oid_of, typmod_of
from headrace.sql.names import SCHEMA, TEMPORARY_SCHEMA
from headrace.state.manifest import Manifest
from headrace.types import SqlType, array_of

OWNER = 10
NAMESPACES = {
    "pg_catalog": 11, SCHEMA: 2200, "information_schema": 13_000, "rw_catalog": 13_001, TEMPORARY_SCHEMA: 13_002,
}  # fmt: skip
FIRST_OID, FIRST_KEY_OID, FIRST_RULE_OID = 16_384, 1_000_000_000, 1_500_000_000
KINDS = {TABLE: "r", VIEW: "v", MATERIALIZED_VIEW: "m", INDEX: "i", SOURCE: "r"}

_SHORT = {
    "int": SqlType("integer"), "oid": SqlType("integer", modifier=OID), "small": SqlType("smallint"),
    "big": SqlType("bigint"), "text": SqlType("varchar"),
    "bool": SqlType("boolean"), "real": SqlType("real"), "time": SqlType("timestamptz"),
    "ints": array_of(SqlType("integer")), "texts": array_of(SqlType("varchar")),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Context:
    """All that system relations and functions may know."""

    state: Manifest
    user: str = "root"
    process: int = 0
    settings: Mapping[str, str] = field(default_factory=dict)
    assign: Callable[[str, str], None] | None = None
    """SET name = value, for set_config; None: the query is only looked at"""
    jobs: Callable[[], list[dict[str, Any]]] = list
    """SHOW JOBS; asked for only by those who show it"""
    owns: Callable[[Relation], bool] = lambda relation: False
    """Whether a temporary table is the session's own"""

    @property
    def catalog(self) -> Catalog:
        return self.state.catalog

    @property
    def shown(self) -> Catalog:
        """What clients are told of: internal tables are nobody's business but SHOW INTERNAL TABLES', and temporary
        ones only their session's. A name may be there twice, once of each schema."""
        known = {
            id: each.replace(name=each.label) if each.temporary else each
            for id, each in self.catalog.relations.items()
            if each.kind != INTERNAL and (not each.temporary or self.owns(each))
        }
        return Catalog(known, self.catalog.next_id)

    @property
    def namespaces(self) -> dict[str, int]:
        """The schema of temporary tables is there for who has one."""
        temporary = any(each.temporary for each in self.shown)
        return {name: number for name, number in NAMESPACES.items() if temporary or name != TEMPORARY_SCHEMA}

    def upstream(self, relation: Relation) -> list[Relation]:
        """What it was made on; internal tables in between are left out."""
        found: dict[int, Relation] = {}
        for id in relation.depends_on:
            each = self.catalog.relations[id]
            below = self.upstream(each) if each.kind == INTERNAL else [each]
            found |= {other.id: other for other in below}
        return list(found.values())

    def stored_bytes(self, relation: Relation) -> int:
        return sum(run.bytes for run in self.state.runs.get(relation.id, ()))

    def live_rows(self, relation: Relation) -> int:
        return sum(run.live_rows for run in self.state.runs.get(relation.id, ()))


Rows = Callable[[Context], Iterable[tuple]]


@dataclass(frozen=True)
class SystemRelation:
    columns: dict[str, SqlType]
    rows: Rows | None = None
    """None: there are never any"""
    fixed: Callable[[Collection[str]], pa.Table] | None = None
    """Rows about the system itself, given the words of the query"""

    def table(self, context: Context | None, words: Collection[str] = ()) -> pa.Table:
        rows = [] if self.rows is None else [tuple(row) for row in self.rows(context)]
        arrays = [pa.array([row[at] for row in rows], kind.arrow) for at, kind in enumerate(self.columns.values())]
        table = pa.Table.from_arrays(arrays, names=list(self.columns))
        return table if self.fixed is None else pa.concat_tables([table, self.fixed(words)])


def system_relation(columns: str, rows: Rows | None = None) -> SystemRelation:
    """Columns as ``name type, …``; types by the short names above."""
    pairs = (column.split() for column in columns.replace("\n", " ").split(",") if column.strip())
    return SystemRelation({name: _SHORT[kind] for name, kind in pairs}, rows)


# --- numbers ------------------------------------------------------------------------------------------------------


def schema_of(relation: Relation) -> str:
    return TEMPORARY_SCHEMA if relation.temporary else SCHEMA


def namespace_of(relation: Relation) -> int:
    return NAMESPACES[schema_of(relation)]


def oid(relation: Relation) -> int:
    return FIRST_OID + relation.id


def key_oid(relation: Relation) -> int:
    """Of the primary key, which PostgreSQL has an index and a constraint for."""
    return FIRST_KEY_OID + relation.id


def rule_oid(relation: Relation) -> int:
    """Of a view's query."""
    return FIRST_RULE_OID + relation.id


def has_key(relation: Relation) -> bool:
    """Whether the user declared a primary key."""
    return relation.kind == TABLE and bool(relation.pk) and all(not relation.column(k.name).hidden for k in relation.pk)


def is_required(relation: Relation, column: Column) -> bool:
    """Whether it is never NULL. The key of a view is not declared: groups, say, have one that is NULL."""
    return not column.nullable or (has_key(relation) and column.name in {key.name for key in relation.pk})


def type_oid(kind: SqlType) -> int:
    return oid_of(kind)


def type_modifier(kind: SqlType) -> int:
    return typmod_of(kind)


def numbered(relation: Relation) -> list[tuple[int, Column]]:
    """Columns with their numbers; hidden ones have none, as if they were system columns."""
    return list(enumerate(relation.visible_columns, 1))


def column_numbers(relation: Relation, names: Iterable[str]) -> list[int]:
    numbers = {column.name: number for number, column in numbered(relation)}
    return [numbers[name] for name in names if name in numbers]
