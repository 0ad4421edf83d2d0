"""Names of relations: there is one database, ``dev``, with one schema, ``public``.

>>> relation_name(["public", "orders"])
'orders'
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.catalog import INTERNAL_PREFIX, OF_SESSION, ROW_ID
from headrace.errors import DuplicateColumn, InvalidDefinition, SqlSyntaxError, UndefinedRelation

DATABASE, SCHEMA, TEMPORARY_SCHEMA = "dev", "public", "pg_temp"
SYSTEM_SCHEMAS = ("pg_catalog", "information_schema", "rw_catalog")


class NameInSchema(str):
    """A name that was written with its schema: no temporary table is meant, if there is one called so."""


def relation_name(parts: Sequence[str], position: int | None = None) -> str:
    """The bare name of ``[[database.]schema.]name``."""
    *qualifiers, name = parts
    if len(qualifiers) > 2:
        raise SqlSyntaxError(f"improper qualified name (too many dotted names): {'.'.join(parts)}", position=position)
    if qualifiers and qualifiers[-1] in SYSTEM_SCHEMAS:
        raise UndefinedRelation(f'relation "{qualifiers[-1]}.{name}" does not exist', position=position)
    if qualifiers == [TEMPORARY_SCHEMA]:
        return f"{name}{OF_SESSION}"  # of which session is not known here
    if qualifiers and qualifiers[-1] != SCHEMA:
        raise UndefinedRelation(
            f'schema "{qualifiers[-1]}" does not exist', position=position, hint=f"the only schema is {SCHEMA}"
        )
    if len(qualifiers) == 2 and qualifiers[0] != DATABASE:
        raise UndefinedRelation(
            f'database "{qualifiers[0]}" does not exist', position=position, hint=f"the only database is {DATABASE}"
        )
    return NameInSchema(name) if qualifiers else name


def check_column_names(names: Sequence[str]) -> None:
    """That a relation may have these columns."""
    seen = set()
    for name in names:
        if name in seen:
            raise DuplicateColumn(f'column "{name}" specified more than once')
        if name.startswith(INTERNAL_PREFIX) or name == ROW_ID:
            raise InvalidDefinition(
                f'column name "{name}" is reserved',
                hint=f"{ROW_ID} and names that start with {INTERNAL_PREFIX} are Headrace's own",
            )
        seen.add(name)
