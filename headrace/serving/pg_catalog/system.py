"""All schemas of the system, which are relations like others: ``pg_class`` and ``pg_attribute`` name them, too.

So psql completes their names, and trees of tools show them. They never change, so their rows are made once. Those of
``information_schema`` and ``rw_catalog`` are not on the search path: whoever lists what is visible does not see them.

All of them have a thousand columns, which would make every question about columns slow. So ``pg_attribute`` only has
those of relations that the query names, as a constant, by name or by number.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator
from functools import cache

import pyarrow as pa
import pyarrow.compute as pc

from headrace.serving.pg_catalog.others import INFORMATION_SCHEMA, RW_CATALOG
from headrace.serving.pg_catalog.postgres import (
    CLASS_OID,
    CONSTRAINT_OID,
    HEAP,
    REWRITE_OID,
    TYPE_OID,
    attribute_row,
    class_row,
)
from headrace.serving.pg_catalog.postgres import RELATIONS as POSTGRES
from headrace.serving.pg_catalog.relations import NAMESPACES, SystemRelation

_FIRST = {"pg_catalog": 1_000, "information_schema": 12_000, "rw_catalog": 12_500}
HIDDEN_OIDS = (12_000, 12_999)
"""Relations that are not on the search path."""

_RELATIONS = {"pg_catalog": POSTGRES, "information_schema": INFORMATION_SCHEMA, "rw_catalog": RW_CATALOG}
SYSTEM_OIDS = {
    (schema, name): _FIRST[schema] + at for schema, relations in _RELATIONS.items() for at, name in enumerate(relations)
} | {
    ("pg_catalog", "pg_class"): CLASS_OID,
    ("pg_catalog", "pg_constraint"): CONSTRAINT_OID,
    ("pg_catalog", "pg_rewrite"): REWRITE_OID,
    ("pg_catalog", "pg_type"): TYPE_OID,
}


def _classes() -> Iterator[tuple]:
    for (schema, name), oid in SYSTEM_OIDS.items():
        columns = len(_RELATIONS[schema][name].columns)
        yield class_row(oid, name, "v", HEAP, columns, 0, False, True, namespace=NAMESPACES[schema])


def _attributes() -> Iterator[tuple]:
    for (schema, name), oid in SYSTEM_OIDS.items():
        for number, (column, kind) in enumerate(_RELATIONS[schema][name].columns.items(), 1):
            yield attribute_row(oid, column, number, kind)


@cache
def _fixed(name: str) -> pa.Table:
    rows = {"pg_class": _classes, "pg_attribute": _attributes}[name]
    return SystemRelation(POSTGRES[name].columns, lambda context: rows()).table(None)


def _named_attributes(words: Collection[str]) -> pa.Table:
    named = [oid for (_, name), oid in SYSTEM_OIDS.items() if name in words or str(oid) in words]
    table = _fixed("pg_attribute")
    return table.filter(pc.is_in(table["attrelid"], value_set=pa.array(named, pa.int32())))


SCHEMAS: dict[str, dict[str, SystemRelation]] = _RELATIONS | {
    "pg_catalog": POSTGRES
    | {
        "pg_class": dataclasses.replace(POSTGRES["pg_class"], fixed=lambda words: _fixed("pg_class")),
        "pg_attribute": dataclasses.replace(POSTGRES["pg_attribute"], fixed=_named_attributes),
    }
}
