"""Queries and views on Spark: a bound query as a DataFrame, a view's plan from its stored text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import DataFrame
from sqlglot import exp

from headrace.catalog import SOURCE, Catalog, Column, Relation
from headrace.engine.access import Path, demands, narrow, usable_indexes
from headrace.engine.loops import loops_of, may_loop, stoppable
from headrace.engine.reads import read_part
from headrace.engine.spark import spark_errors
from headrace.errors import ObjectNotReady, Unsupported
from headrace.operators.vector_pieces import Plan, vectorized_piece
from headrace.operators.vectorize import vectorized
from headrace.operators.vectors import VectorBranch, is_slow
from headrace.plan.build import build, output_types
from headrace.plan.keys import StreamKey, stream_key
from headrace.plan.nodes import Node, Project, columns_read
from headrace.sql.bind import BoundQuery, bind_query
from headrace.sql.dialect import parse_query
from headrace.sql.translate import to_spark
from headrace.state.manifest import Manifest
from headrace.types import SqlType, quote_spark, quote_sql

if TYPE_CHECKING:
    from headrace.engine.engine import Engine


def query_frame(
    engine: Engine,
    state: Manifest,
    bound: BoundQuery,
    *,
    use_indexes: bool = False,
    notes: list[str] | None = None,
    given: Mapping[int, pa.Table | DataFrame] | None = None,
    may_be_cancelled: bool = False,
    printed: bool = False,
) -> tuple[DataFrame, list[SqlType]]:
    """The query over one state, and its columns' types. A column of no type (NULL, a bare string) is text.

    ``use_indexes`` reads what can match by keys and indexes; ``notes`` is then told which. ``given`` are the rows of
    relations that the state's catalog names but does not store. ``may_be_cancelled``: its tasks end soon if it is.
    ``printed``: quotients may be structs, which say how many of their decimals are shown.
    """
    refuse_unfinished(state.catalog, bound)
    expression = bound.expression
    with spark_errors("the query"):
        if given:
            frames = {
                state.catalog.relations[id].name: _given_or_stored(engine, state, id, given) for id in bound.relations
            }
        elif use_indexes:
            expression, frames = _narrowed(engine, state, expression, [] if notes is None else notes)
        else:
            frames = {state.catalog.relations[id].name: engine.frame(state, id) for id in bound.relations}

        def translated(frames: Mapping[str, DataFrame]) -> DataFrame:
            with engine.frames.named(frames) as names:
                sql = to_spark(expression, table_names=names, printed=printed)
                return engine.spark.sql(_from_somewhere(sql, expression))

        frame = translated(frames)
        if may_be_cancelled and not given and may_loop(expression) and (loops := loops_of(frame)):
            frame = translated(stoppable(frames, loops))
    return frame, [kind or SqlType("varchar") for kind in bound.types]


def _from_somewhere(sql: str, expression: exp.Expression) -> str:
    """A query that is only a list of expressions reads a row that the planner can work with without a job."""
    parts = {name for name, value in expression.args.items() if value}
    listed = isinstance(expression, exp.Select) and parts == {"expressions"}
    # Functions that return rows may have brought a FROM of their own. That word in a constant does no harm either.
    return f"{sql} FROM VALUES (0)" if listed and not re.search(r"\b(?:FROM|LATERAL)\b", sql, re.IGNORECASE) else sql


def source_scans(engine: Engine, state: Manifest, bound: BoundQuery) -> dict[int, DataFrame]:
    """What there is now of the sources that a query reads: for statements that write, because an epoch cannot ask."""
    relations = [state.catalog.relations[id] for id in bound.relations]
    return {
        each.id: engine.event_sources.frame(each, demands(bound.expression, each))
        for each in relations
        if each.kind == SOURCE
    }


def _given_or_stored(engine: Engine, state: Manifest, id: int, given: Mapping[int, pa.Table | DataFrame]) -> DataFrame:
    if id not in given:
        return engine.frame(state, id)
    if isinstance(given[id], DataFrame):
        return given[id]
    columns = state.catalog.relations[id].columns
    schema = ", ".join(f"{quote_spark(column.name)} {column.type.spark}" for column in columns)
    return engine.spark.createDataFrame(given[id], schema=schema)


def _narrowed(
    engine: Engine, state: Manifest, expression: exp.Expression, notes: list[str]
) -> tuple[exp.Expression, dict[str, DataFrame]]:
    catalog = state.catalog
    narrowed = narrow(expression, catalog, lambda table: index_paths(table, catalog))
    frames = {}
    for name in narrowed.whole:
        relation = catalog.get(name)
        if relation.kind == SOURCE:
            frames[name] = engine.event_sources.frame(relation, demands(narrowed.expression, relation), notes)
        else:
            frames[name] = engine.frame(state, relation.id)
    for name, access in narrowed.parts.items():
        frame = read_part(engine, state, access)
        frames[name] = engine.frame(state, access.table.id) if frame is None else frame
        if frame is not None:
            notes.append(access.describe())
    return narrowed.expression, frames


def index_paths(table: Relation, catalog: Catalog) -> list[Path]:
    """The complete indexes of a table, and what they hold of it."""
    return [Path(relation=index, columns=_columns_held(index, catalog)) for index in usable_indexes(table, catalog)]


def _columns_held(index: Relation, catalog: Catalog) -> dict[str, str]:
    """Columns of the table → columns of the index. The plan says which is which, of hidden ones too."""
    plan = plan_of(index, catalog)
    assert isinstance(plan, Project)
    return {expression.name: name for name, expression in plan.columns}


def refuse_unfinished(catalog: Catalog, bound: BoundQuery) -> None:
    for id in bound.relations:
        refuse_unfinished_relation(catalog.relations[id])


def refuse_unfinished_relation(relation: Relation) -> None:
    if relation.creating:
        raise ObjectNotReady(
            f'{relation.kind} "{relation.name}" is still being created',
            hint=f"SHOW JOBS shows how far it is; WAIT {quote_sql(relation.name)} waits for it",
        )
    if relation.operator is not None and relation.operator.passing:
        raise Unsupported(
            f'{relation.kind} "{relation.name}" is not stored: it only passes changes on',
            hint="read the view that it belongs to, or what it stands on",
        )


def describe_view(
    query: exp.Expression | BoundQuery, catalog: Catalog, names: Sequence[str] = ()
) -> tuple[BoundQuery, StreamKey, tuple[Column, ...]]:
    """What a materialized view on the query would be: the bound query, its plan with a key, and its columns."""
    bound = query if isinstance(query, BoundQuery) else bind_query(query, catalog)
    node = build(bound, catalog, names or None)
    key = stream_key(node, catalog)
    types = output_types(key.plan, catalog)
    hidden = dict(key.hidden)
    columns = tuple(Column(name=name, type=types[name], hidden=name in hidden) for name in key.plan.output)
    return bound, key, columns


def plan_of(view: Relation, catalog: Catalog) -> Node:
    """The plan of a stored view."""
    upstream = tuple(catalog.relations[id] for id in view.depends_on if id in catalog.relations)
    return _plan(view, upstream)


def columns_derived_from(relation: Relation, catalog: Catalog) -> set[str]:
    """The columns of a relation that decide what is in the views and indexes on it."""
    needed: set[str] = set()
    for view in catalog.dependents(relation.id):
        needed |= columns_read_by(view, relation, catalog) if view.stored else set()
    return needed


def columns_read_by(view: Relation, relation: Relation, catalog: Catalog) -> set[str]:
    """The columns of a relation that decide what is in a stored view on it."""
    if view.operator is None:
        return columns_read(plan_of(view, catalog), relation.id)
    if relation.id not in view.reads:
        return set()
    named = {column.name for column in piece_of(view, catalog).expression.find_all(exp.Column)}
    return {column.name for column in relation.columns if column.name in named}


def vectors_of(view: Relation, catalog: Catalog, *, few: bool = False) -> tuple[VectorBranch, ...] | None:
    """How to evaluate a stored view over Arrow arrays, if that is possible, and as fast as Spark; ``few``: rows."""
    upstream = tuple(catalog.relations[id] for id in view.depends_on if id in catalog.relations)
    found = _vectors(view, upstream)
    return None if found is not None and not few and is_slow(found) else found


@lru_cache(maxsize=1024)
def _vectors(view: Relation, upstream: tuple[Relation, ...]) -> tuple[VectorBranch, ...] | None:
    return vectorized(_plan(view, upstream), {column.name: column.type for column in view.columns})


@lru_cache(maxsize=1024)
def _plan(view: Relation, upstream: tuple[Relation, ...]) -> Node:
    # The arguments are all that the plan depends on; a catalog of just them binds the same.
    catalog = Catalog({relation.id: relation for relation in upstream})
    names = [column.name for column in view.visible_columns]
    return describe_view(parse_query(view.maintained or view.query), catalog, names)[1].plan


def piece_of(view: Relation, catalog: Catalog) -> BoundQuery:
    """The query of a relation with an operator, over its inputs."""
    return _piece(view, tuple(catalog.relations[id] for id in view.reads))


def vector_piece_of(view: Relation, catalog: Catalog) -> Plan | None:
    """How to evaluate it over Arrow tables, if that is possible."""
    return _vector_piece(view, tuple(catalog.relations[id] for id in view.reads))


@lru_cache(maxsize=1024)
def _vector_piece(view: Relation, inputs: tuple[Relation, ...]) -> Plan | None:
    types = {column.name: column.type for column in view.columns}
    averages = [name for name, _, _ in view.operator.averages] if view.operator is not None else ()
    names = {each.name: each.id for each in inputs}
    return vectorized_piece(_piece(view, inputs).expression, names, types, averages)


@lru_cache(maxsize=1024)
def _piece(view: Relation, inputs: tuple[Relation, ...]) -> BoundQuery:
    assert view.maintained is not None
    return bind_query(parse_query(view.maintained), Catalog({relation.id: relation for relation in inputs}))
