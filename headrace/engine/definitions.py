"""DDL: each statement as a mutation, which takes effect at a barrier.

Names are bound inside the mutation, against the catalog that it will change, so two clients cannot race.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from headrace.catalog import (
    INDEX,
    INTERNAL,
    MATERIALIZED_VIEW,
    ROW_ID,
    SOURCE,
    TABLE,
    VIEW,
    Column,
    KeyColumn,
    Relation,
    shown_name,
)
from headrace.config import find_parameter
from headrace.engine.changes import InsertFrame
from headrace.engine.coordinator import Mutate, Write
from headrace.engine.feeds import Extents
from headrace.engine.filling import with_names
from headrace.engine.following import without
from headrace.engine.inserts import expression_sql, in_its_zone
from headrace.engine.jobs import job_options, scan_fields
from headrace.engine.plans import describe_view, plan_of, query_frame, refuse_unfinished_relation, source_scans
from headrace.engine.stored_rows import READ_WHOLE
from headrace.engine.views import NewView, add_view, new_view
from headrace.errors import InvalidDefinition, InvalidParameterValue, Unsupported, WrongObjectKind
from headrace.notices import exists_already
from headrace.plan.closing import as_written, emitting_on_close
from headrace.plan.explain import explain, explain_pieces
from headrace.plan.keys import StreamKey
from headrace.plan.nodes import Scan
from headrace.sql import statements as ast
from headrace.sql.bind import BoundQuery, bind_query, rename_relation
from headrace.sql.dialect import parse_expression, parse_query, print_sql
from headrace.sql.indexes import index_text
from headrace.sql.parse import created_name, index_statement
from headrace.sql.watermarks import lateness_of
from headrace.state.keys import KeyCodec
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.types import SqlType, quote_sql

if TYPE_CHECKING:
    from headrace.engine.engine import Engine


class Definitions:
    def __init__(self, engine: Engine):
        self._engine = engine

    def _bound(self, statement: Any, state: Manifest, *, definition: bool = False) -> BoundQuery:
        functions, zone = self._engine.functions, statement.zone
        return bind_query(statement.query, state.catalog, functions=functions, zone=zone, definition=definition)

    # --- CREATE ------------------------------------------------------------------------------------------------

    def create_table(self, statement: ast.CreateTable) -> Mutate:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            if statement.if_not_exists and state.catalog.find(statement.name) is not None:
                return state, exists_already(f'relation "{shown_name(statement.name)}"')
            columns = [
                Column(
                    name=spec.name,
                    type=spec.type,
                    nullable=spec.nullable,
                    default=spec.default,
                    generated=_own_columns(spec.generated, shown_name(statement.name)),
                )
                for spec in statement.columns
            ]
            if statement.zone is not None:
                columns = [in_its_zone(each, columns, statement.name, statement.zone) for each in columns]
            relation = _table(state, statement, columns, statement.pk, epoch, statement.on_conflict)
            self._check_expressions(relation)
            if statement.watermark is not None:
                lateness = lateness_of(statement.watermark, relation.visible_columns, relation.label)
                relation = relation.replace(lateness=lateness)
            return dataclasses.replace(state, catalog=state.catalog.add(relation)), None

        return apply

    def create_table_as(self, statement: ast.CreateTableAs) -> Mutate:
        committed, scans = self._engine.committed, {}
        if committed.catalog.of_kind(SOURCE):
            bound = self._bound(statement, committed)
            scans = source_scans(self._engine, committed, bound)

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            if statement.if_not_exists and state.catalog.find(statement.name) is not None:
                return state, exists_already(f'relation "{shown_name(statement.name)}"')
            bound = self._bound(statement, state)
            frame, types = query_frame(self._engine, state, bound, given=scans, may_be_cancelled=True)
            names = _column_names(statement.name, statement.column_names, bound.output)
            columns = [Column(name=name, type=kind) for name, kind in zip(names, types, strict=True)]
            relation = _table(state, statement, columns, (), epoch, "overwrite")
            created = dataclasses.replace(state, catalog=state.catalog.add(relation))
            write = Write(table_id=relation.id, change=InsertFrame(build=lambda _: frame.toDF(*names)))
            filled, (outcome,) = self._engine.evaluator(created, [write], epoch)
            return filled, outcome

        return apply

    def _check_expressions(self, relation: Relation) -> None:
        for column in relation.columns:
            for text, over in ((column.default, ()), (column.generated, relation.columns)):
                if text is not None:
                    describe_expression(self._engine, text, over, relation, column)

    def create_view(self, statement: ast.CreateView) -> Mutate:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            catalog, existing = state.catalog, state.catalog.find(statement.name)
            if existing is not None and statement.if_not_exists:
                return state, exists_already(f'relation "{statement.name}"')
            bound = self._bound(statement, state, definition=True)
            # Of sources only the columns count: nobody is asked what they have.
            given = {
                id: Layout.of(catalog.relations[id]).row_schema.empty_table()
                for id in bound.relations
                if catalog.relations[id].kind == SOURCE
            }
            _, types = query_frame(self._engine, state, bound, given=given)
            names = _column_names(statement.name, statement.column_names, bound.output)
            relation = Relation(
                id=catalog.next_id,
                name=statement.name,
                kind=VIEW,
                columns=tuple(Column(name=name, type=kind) for name, kind in zip(names, types, strict=True)),
                definition=statement.sql,
                query=bound.text(),
                depends_on=bound.depends_on,
                created_epoch=epoch,
            )
            if existing is not None and statement.or_replace:
                if existing.kind != VIEW:
                    raise WrongObjectKind(f'"{statement.name}" is a {existing.kind}, not a view')
                catalog, _ = catalog.drop(existing)
                relation = relation.replace(id=max(existing.id, catalog.next_id))
            return dataclasses.replace(state, catalog=catalog.add(relation)), None

        return apply

    def create_materialized_view(self, statement: ast.CreateMaterializedView, variables: Mapping[str, Any]) -> Mutate:
        """Answers the relation that is being filled, or a notice, or None if there was nothing to fill it with.

        Sources are asked here what they have, before the epoch loop has to do with it.
        """
        committed = self._engine.committed
        extents: Extents = {}
        if committed.catalog.of_kind(SOURCE):
            bound = self._bound(statement, committed)
            extents = self._engine.event_sources.extents(committed, bound.relations)

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            if statement.if_not_exists and state.catalog.find(statement.name) is not None:
                return state, exists_already(f'relation "{statement.name}"')
            view = self.materialized_view(statement, state, epoch)
            options = job_options(statement.options, variables)
            return add_view(self._engine, view, state, options, epoch, extents)

        return apply

    def create_index(self, statement: ast.CreateIndex, variables: Mapping[str, Any]) -> Mutate:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            if statement.if_not_exists and state.catalog.find(statement.name) is not None:
                return state, exists_already(f'relation "{statement.name}"')
            relation, key = self.index(statement, state, epoch)
            index = NewView(relation=relation, key=key, catalog=state.catalog)
            return add_view(self._engine, index, state, job_options(statement.options, variables), epoch)

        return apply

    def materialized_view(self, statement: ast.CreateMaterializedView, state: Manifest, epoch: int) -> NewView:
        """What the statement would make; also what EXPLAIN shows."""
        bound = self._bound(statement, state, definition=True)
        names = _column_names(statement.name, statement.column_names, bound.output)
        if statement.on_window_close:
            statement = dataclasses.replace(statement, query=emitting_on_close(bound, state.catalog), zone=None)
        return new_view(self._engine, statement, state, names, epoch)

    def index(self, statement: ast.CreateIndex, state: Manifest, epoch: int) -> tuple[Relation, StreamKey]:
        """A view of the table's columns in another order, with another distribution."""
        catalog = state.catalog
        table = catalog.get(statement.table, TABLE, MATERIALIZED_VIEW)
        refuse_unfinished_relation(table)
        keys = [table.column(key.name).name for key in statement.keys]
        include = statement.include
        if include is None:
            include = tuple(column.name for column in table.visible_columns)
        names = [*keys, *(table.column(name).name for name in include if name not in keys)]
        query = parse_query(f"SELECT {', '.join(map(quote_sql, names))} FROM {quote_sql(table.name)}")
        bound, key, columns = describe_view(query, catalog, names)
        ordered = [
            KeyColumn(name=each.name, descending=each.descending, nulls_first=each.nulls_first)
            for each in statement.keys
        ]
        pk = (*ordered, *(each for each in key.pk if each.name not in keys))
        relation = Relation(
            id=catalog.next_id,
            name=statement.name,
            kind=INDEX,
            columns=columns,
            pk=pk,
            distribution=statement.distributed_by or (keys[0],),
            definition=statement.sql,
            query=bound.text(),
            depends_on=(table.id,),
            options=statement.options,
            created_epoch=epoch,
        )
        KeyCodec.of(relation)  # refuses key types that have no order
        return relation, dataclasses.replace(key, pk=pk, distribution=relation.distribution)

    def explain(
        self, statement: ast.CreateMaterializedView | ast.CreateIndex, state: Manifest, variables: Mapping[str, Any]
    ) -> str:
        """The plan that the statement would make, and how it would be filled."""
        options = job_options(statement.options, variables)
        if isinstance(statement, ast.CreateIndex):
            _, key = self.index(statement, state, state.epoch)
            view = None
        else:
            view = self.materialized_view(statement, state, state.epoch)
            key = view.key
        catalog = state.catalog if view is None else view.catalog

        def filled(scan: Scan) -> dict[str, str]:
            return scan_fields(catalog.relations[scan.relation_id], scan, options)

        if view is None or view.relation.maintained is None:
            return explain(key, catalog, filled)
        text = explain_pieces(view.relation, catalog, lambda each: plan_of(each, catalog), filled)
        by_key = any(each.operator and not each.operator.recomputes for each in (*view.made, view.relation))
        return f"{text}\n{READ_WHOLE}" if by_key else text

    # --- DROP, ALTER, COMMENT ----------------------------------------------------------------------------------

    def drop(self, statement: ast.Drop) -> Mutate:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            catalog, dropped, notices = state.catalog, [], []
            for name in statement.names:
                if statement.if_exists and catalog.find(name) is None:
                    notices.append(f'{statement.kind} "{name}" does not exist, skipping')
                    continue
                catalog, gone = catalog.drop(catalog.get(name, statement.kind), cascade=statement.cascade)
                dropped += [relation.id for relation in gone]
            for id in dropped:
                state = without(state, id)
            positions = {key: data for key, data in state.positions.items() if int(key) not in dropped}
            return dataclasses.replace(state, catalog=catalog, positions=positions), "; ".join(notices) or None

        return apply

    def rename(self, statement: ast.Rename) -> Mutate:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            catalog = state.catalog
            # As in PostgreSQL, ALTER TABLE renames whatever it is; dbt relies on that.
            relation = catalog.get(statement.name, *(() if statement.kind == TABLE else (statement.kind,)))
            if relation.kind == INDEX:
                definition = _index_definition(relation, name=statement.new_name)
            else:
                definition = _renamed(relation.definition, shown_name(statement.new_name))
            catalog = catalog.update(relation.replace(name=statement.new_name, definition=definition))
            for other in catalog.dependents(relation.id):
                # All of them: the text of a query has the plain views below it unfolded, down to what is stored.
                if other.query is None:
                    continue
                query, definition = rename_relation(other.query, statement.name, statement.new_name), other.definition
                maintained = other.maintained
                if maintained is not None:
                    maintained = rename_relation(maintained, statement.name, statement.new_name)
                if other.kind == INTERNAL:
                    definition = query
                elif relation.id in other.depends_on:
                    definition = _following(other, query, statement.new_name)
                changed = other.replace(query=query, definition=definition, maintained=maintained)
                catalog = catalog.update(changed)
            return with_names(dataclasses.replace(state, catalog=catalog)), None

        return apply

    def comment(self, statement: ast.Comment) -> Mutate:
        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            catalog = state.catalog
            if statement.column is None:
                relation = catalog.get(statement.name, statement.kind).replace(comment=statement.text)
            else:
                relation = catalog.get(statement.name, TABLE, VIEW, MATERIALIZED_VIEW, INDEX, SOURCE)
                column = relation.column(statement.column)
                commented = dataclasses.replace(column, comment=statement.text)
                relation = relation.replace(
                    columns=tuple(commented if each.name == column.name else each for each in relation.columns)
                )
            return dataclasses.replace(state, catalog=catalog.update(relation)), None

        return apply

    def set_system(self, statement: ast.SetParameter) -> Mutate:
        parameter = find_parameter(statement.name)
        if not parameter.system:
            raise InvalidParameterValue(
                f'"{parameter.name}" belongs to a session', hint=f"use SET {parameter.name} = …"
            )
        if statement.value is not None:
            parameter.parse(statement.value)

        def apply(state: Manifest, epoch: int) -> tuple[Manifest, Any]:
            parameters = {name: text for name, text in state.parameters.items() if name != parameter.name}
            if statement.value is not None:
                parameters[parameter.name] = statement.value
            return dataclasses.replace(state, parameters=parameters), None

        return apply


def describe_expression(engine: Engine, text: str, over: Any, relation: Relation, column: Column) -> None:
    """Binds a DEFAULT or generated expression, so that what is wrong with it is said at CREATE."""
    if not over and parse_expression(text).find(exp.Column) is not None:
        raise Unsupported(
            "cannot use column reference in DEFAULT expression",
            hint=f'a column that is computed from others is generated: "{column.name}" … AS (…)',
        )
    expression_sql(text, over, relation, column)


def _own_columns(expression: str | None, table: str) -> str | None:
    """A generated column's expression without the table's name in it, which may change."""
    if expression is None:
        return None
    tree = parse_expression(expression)
    named = [column for column in tree.find_all(exp.Column) if column.table == table]
    for column in named:
        column.set("table", None)
    return print_sql(tree) if named else expression


def _renamed(definition: str, new: str) -> str:
    """A CREATE statement with another name in it."""
    name = created_name(definition)
    return f"{definition[: name.start]}{quote_sql(new)}{definition[name.stop :]}"


def _following(other: Relation, query: str, table: str) -> str:
    """The statement of something that names a relation, after that was renamed: as written it would not work."""
    if other.kind == INDEX:
        return _index_definition(other, table=table)
    names = [column.name for column in other.visible_columns]
    written, on_window_close = as_written(parse_query(query))
    columns = "" if names == written.named_selects else f" ({', '.join(map(quote_sql, names))})"
    text, more = (print_sql(written), " EMIT ON WINDOW CLOSE") if on_window_close else (query, "")
    return f"CREATE {other.kind.upper()} {quote_sql(other.name)}{columns} AS {text}{more}"


def _index_definition(index: Relation, **changed: str) -> str:
    """The statement of an index after it, or its table, was renamed."""
    return index_text(dataclasses.replace(index_statement(index.definition), **changed))


def _check_options(statement: Any) -> None:
    for name, _ in statement.options:
        raise InvalidParameterValue(f'option "{name}" is not known', hint="leave it out of WITH (…)")


def _table(
    state: Manifest, statement: Any, columns: list[Column], pk: tuple[str, ...], epoch: int, on_conflict: str
) -> Relation:
    _check_options(statement)
    if on_conflict != "overwrite" and not pk:
        raise InvalidDefinition("ON CONFLICT needs a primary key")
    if statement.append_only and pk:
        on_conflict = "ignore"  # a row that is there stays as it is
    if pk:
        columns = [dataclasses.replace(column, nullable=False) if column.name in pk else column for column in columns]
    else:
        columns = [*columns, Column(name=ROW_ID, type=SqlType("bigint"), nullable=False, hidden=True)]
    key = tuple(KeyColumn(name=name) for name in pk or (ROW_ID,))
    relation = Relation(
        id=state.catalog.next_id,
        name=statement.name,
        kind=TABLE,
        columns=tuple(columns),
        pk=key,
        distribution=tuple(column.name for column in key),
        append_only=statement.append_only,
        on_conflict=on_conflict,
        definition=statement.sql,
        options=statement.options,
        created_epoch=epoch,
        temporary=statement.temporary,
    )
    KeyCodec.of(relation)  # refuses key types that have no order
    return relation


def _column_names(relation: str, given: tuple[str, ...], output: tuple[str, ...]) -> tuple[str, ...]:
    if len(given) > len(output):
        raise InvalidDefinition(f'"{relation}" names {len(given)} columns, but its query has {len(output)}')
    return (*given, *output[len(given) :])
