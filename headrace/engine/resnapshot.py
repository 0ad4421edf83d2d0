"""Reading a table of a source anew, beside the rows that it has, and putting the new ones in their place at once.

The new rows go into a *copy*: a relation that no catalog shows, which follows the same table of the source from its
beginning, like any new table. The table itself goes on as it was. When the copy has been filled, both are of the same
position of the log, and one commit puts what is different into the table, and into its views.

A crash loses nothing: the copy is in the manifest, like everything that is being filled.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from sqlglot import exp

from headrace.catalog import Catalog, Column, Relation
from headrace.cdc.database import Database
from headrace.cdc.intake import Progress
from headrace.cdc.schema import evolved, same_columns
from headrace.engine.changes import NEW_ROW, OLD_ROW, ReplaceFrame
from headrace.engine.coordinator import Mutate, Write
from headrace.engine.filling import jobs_of
from headrace.engine.following import (
    TableState,
    copy_of,
    progress_of,
    table_state,
    with_copies_shown,
    with_copy,
    with_following,
    with_table,
    without_copy,
)
from headrace.engine.plans import columns_read_by
from headrace.errors import InvalidDefinition
from headrace.sql.dialect import parse_query
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.types import quote_spark

if TYPE_CHECKING:
    from headrace.engine.engine import Engine


def beginning(state: Manifest, server: Database, control: Any, table: Relation, following: TableState) -> Mutate:
    """Adds a copy, with the columns that the source's table has now; one that there is goes. What stands against it is
    raised at once."""
    found, key = control.table(following.table.schema, following.table.name), [each.name for each in table.pk]
    if following.all_columns:
        columns, found = evolved(server, found, table.columns, key, needs(table, state.catalog))
    else:
        columns, found = table.columns, same_columns(server, found, table.columns, key)
    wanted = dataclasses.replace(following, table=found, copy_of=table.id, started_at=time.time(), snapshot=True)
    return _adding(table.id, columns, wanted, control.estimated_rows(found))


def _adding(table_id: int, columns: Sequence[Column], following: TableState, total: int) -> Mutate:
    def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
        table = state.catalog.relations.get(table_id)
        if table is None:
            return state, None
        state = without_copy(state, table_id)
        copy = table.replace(id=state.catalog.next_id, columns=tuple(columns), created_epoch=epoch)
        return with_copy(state, copy, following, Progress(total=total)), None

    return apply


def growing(state: Manifest, server: Database, control: Any, table: Relation, following: TableState) -> Mutate | None:
    """Adds columns of which all rows have NULL; None: that is not all that has changed."""
    found, key = control.table(following.table.schema, following.table.name), [each.name for each in table.pk]
    columns, found = evolved(server, found, table.columns, key, needs(table, state.catalog))
    if columns[: len(table.columns)] != table.columns or len(columns) == len(table.columns):
        return None

    def apply(state: Manifest, epoch: int) -> tuple[Manifest, bool]:
        if state.catalog.relations.get(table.id) != table:
            return state, False
        catalog = state.catalog.update(table.replace(columns=columns))
        return with_following(
            dataclasses.replace(state, catalog=catalog), table.id, dataclasses.replace(following, table=found)
        ), True

    return apply


def needs(table: Relation, catalog: Catalog) -> dict[str, list[str]]:
    """The columns of a table that others are derived from, and who they are."""
    found: dict[str, list[str]] = {}
    for other in catalog.dependents(table.id):
        if other.stored:
            read = columns_read_by(other, table, catalog)
        else:  # a plain view, which may be any query: whatever it names
            read = {column.name for column in parse_query(other.query).find_all(exp.Column)}
        for name in read:
            found.setdefault(name, []).append(f'{other.kind} "{other.name}"')
    return found


def refuse_loss(table: Relation, columns: Sequence[Column], catalog: Catalog) -> None:
    """No column goes, or becomes another, that others are derived from."""
    types, needed = {column.name: column.type for column in columns}, needs(table, catalog)
    for column in table.columns:
        if types.get(column.name) != column.type and needed.get(column.name):
            others = ", ".join(needed[column.name])
            raise InvalidDefinition(
                f'column "{column.name}" is gone or has another type, and is needed by {others}',
                hint="drop what needs it, then RESNAPSHOT TABLE",
            )


def may_replace(state: Manifest, table_id: int) -> bool:
    """Whether the copy is complete, and nobody reads the table who would not understand what it becomes."""
    copy = copy_of(state, table_id)
    if copy is None:
        return False
    progress = progress_of(state, copy.id)
    if not progress.done or progress.error is not None:
        return False
    same = Layout.of(copy).row_schema == Layout.of(state.catalog.relations[table_id]).row_schema
    return same or not any(table_id in job.inputs for job in jobs_of(state).values())


def replacing(engine: Engine, table_id: int) -> Mutate:
    """Puts the copy in the place of the table; answers whether it could be done."""

    def apply(state: Manifest, epoch: int) -> tuple[Manifest, bool]:
        if table_id not in state.catalog.relations or not may_replace(state, table_id):
            return state, False
        table, copy = state.catalog.relations[table_id], copy_of(state, table_id)
        assert copy is not None
        refuse_loss(table, copy.columns, state.catalog)  # of what came while it was read
        following, progress = table_state(state, copy.id), progress_of(state, copy.id)
        read_by_others = any(each.stored for each in state.catalog.dependents(table_id))
        if read_by_others:
            write = Write(
                table_id=table_id, change=ReplaceFrame(build=lambda now: _differences(engine, now, table, copy))
            )
            catalog = state.catalog
            state, _ = engine.evaluator(with_copies_shown(state), [write], epoch)
            state = dataclasses.replace(state, catalog=catalog, epoch=epoch)
        runs = dict(state.runs)
        if not read_by_others or table.columns != copy.columns:
            runs[table_id] = runs.get(copy.id, ())
        catalog = state.catalog.update(table.replace(columns=copy.columns))
        state = without_copy(dataclasses.replace(state, catalog=catalog, runs=runs), table_id)
        return with_table(state, table_id, dataclasses.replace(following, copy_of=None), progress), True

    return apply


def _differences(engine: Engine, state: Manifest, table: Relation, copy: Relation) -> DataFrame:
    """Rows of the table that are other, or not there, in the copy, and those that only the copy has."""
    keys = [quote_spark(key.name) for key in table.pk]
    old, new = (
        engine.frame(state, relation.id).selectExpr(
            *(f"{key} AS _hr_{side}{number}" for number, key in enumerate(keys)),
            f"struct({', '.join(map(quote_spark, Layout.of(relation).names))}) AS {name}",
        )
        for relation, side, name in ((table, "o", OLD_ROW), (copy, "n", NEW_ROW))
    )
    joined = old.join(new, on=[old[f"_hr_o{n}"] == new[f"_hr_n{n}"] for n in range(len(keys))], how="full_outer")
    # In the columns that the table has. What the copy has not, or has as another type, nobody derives anything from.
    types = {column.name: column.type for column in copy.columns}
    values = (
        f"{NEW_ROW if types.get(column.name) == column.type else OLD_ROW}.{quote_spark(column.name)}"
        f" AS {quote_spark(column.name)}"
        for column in table.columns
    )
    row = f"CASE WHEN {NEW_ROW} IS NOT NULL THEN struct({', '.join(values)}) END AS {NEW_ROW}"
    return joined.selectExpr(OLD_ROW, row).where(f"NOT ({OLD_ROW} <=> {NEW_ROW})")
