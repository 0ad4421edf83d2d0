"""All schemas of the system, which are relations like others: ``pg_class`` and ``pg_attribute`` name them, too.

So psql completes their names, and trees of tools show them. They never change, so their rows are made once. Those of
``information_schema`` and ``rw_catalog`` are not on the search path: whoever lists what is visible does not see them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from headrace.serving.pg_catalog.others import INFORMATION_SCHEMA, RW_CATALOG
from headrace.serving.pg_catalog.postgres import CLASS_OID, CONSTRAINT_OID, HEAP, TYPE_OID, attribute_row, class_row
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


def _with_fixed(name: str) -> SystemRelation:
    return dataclasses.replace(POSTGRES[name], fixed=lambda: _fixed(name))


SCHEMAS: dict[str, dict[str, SystemRelation]] = _RELATIONS | {
    "pg_catalog": POSTGRES | {name: _with_fixed(name) for name in ("pg_class", "pg_attribute")}
}
