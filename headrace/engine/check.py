"""``CHECK MATERIALIZED VIEW v``: is it what its query says, at one committed epoch?

The query is run as a batch over the relations it reads and compared with the rows that the view holds, duplicates
counted. A view that is still being filled is compared over the part that its positions cover.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from headrace.backfill.filters import covered
from headrace.catalog import SOURCE, Relation
from headrace.engine.feeds import view_state
from headrace.engine.filling import jobs_of
from headrace.engine.moments import at_its_time
from headrace.engine.spark import spark_errors
from headrace.engine.watermarks import events_on_time
from headrace.errors import ObjectNotReady, Unsupported
from headrace.plan.finished import finished
from headrace.plan.temporal import looked_up_once
from headrace.sql.bind import bind_query
from headrace.sql.dialect import parse_query
from headrace.sql.translate import to_spark
from headrace.state.layout import Layout
from headrace.state.manifest import Manifest
from headrace.state.scan import scan
from headrace.types import SqlType, quote_spark

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

SHOWN = 20
"""Differing rows that are listed."""

_TEXT = SqlType("varchar")


def check(engine: Engine, relation: Relation) -> tuple[list[tuple[str, SqlType]], list[tuple]]:
    """One line that says "equal", or a line per differing row; the columns, and the lines."""
    state = engine.committed
    relation = state.catalog.relations[relation.id]
    if looked_up_once(relation, state.catalog):
        raise Unsupported(
            f'{relation.kind} "{relation.name}" has a temporal join: no query says what it found when its rows came'
        )
    with spark_errors(f"checking {relation.name}"):
        expected, actual = _expected(engine, state, relation), _actual(engine, state, relation)
        missing, surplus = expected.exceptAll(actual), actual.exceptAll(expected)
        differing = missing.selectExpr("'missing' AS difference", "*").unionAll(
            surplus.selectExpr("'surplus' AS difference", "*")
        )
        rows = differing.limit(SHOWN + 1).collect()
        if not rows:
            return [("Check", _TEXT)], [(_equal(state, relation, actual.count()),)]
    names = [column.name for column in relation.visible_columns]
    lines = [
        (row[0], ", ".join(f"{name}={value}" for name, value in zip(names, row[1:], strict=True)))
        for row in rows[:SHOWN]
    ]
    if len(rows) > SHOWN:
        lines.append(("…", "and more"))
    return [("Difference", _TEXT), ("Row", _TEXT)], lines


def _equal(state: Manifest, relation: Relation, rows: int) -> str:
    job = jobs_of(state).get(relation.id)
    part = "" if job is None else f", over the {job.fraction:.1%} that is filled"
    if (filling := view_state(state, relation.id)) is not None:
        part = f", over {filling.read} of the {filling.total} offsets of its history, and what came since"
    return f"equal, {rows} rows at epoch {state.epoch}{part}"


def _expected(engine: Engine, state: Manifest, relation: Relation) -> DataFrame:
    job = jobs_of(state).get(relation.id)
    if job is not None and job.builds:
        raise ObjectNotReady(
            f'{relation.kind} "{relation.name}" has no rows yet', hint="SHOW JOBS shows what it waits for"
        )
    # What is being filled is compared with what it is filled from.
    query = relation.query if job is None or relation.maintained is None else relation.maintained
    bound = bind_query(parse_query(query), state.catalog)
    frames = {}
    for upstream in (state.catalog.relations[id] for id in bound.relations):
        if upstream.kind == SOURCE:
            on_time = _on_time(state, upstream, relation)
            if on_time is None:
                frames[upstream.name] = engine.event_sources.covered(state, upstream, relation)
            elif finished(state.catalog.relations[on_time], state.catalog) is not None:
                raise Unsupported(
                    f'what {relation.kind} "{relation.name}" has read of source "{upstream.name}" is not kept:'
                    " it goes when windows have closed"
                )
            else:
                frames[upstream.name] = engine.frame(state, on_time)
            continue
        layout = Layout.of(upstream)
        rows = scan(engine.spark, engine.storage.uri(""), layout, state.runs.get(upstream.id, ()), internal=True)
        if job is not None:
            rows = rows.where(covered(layout, job.inputs[upstream.id].positions))
        frames[upstream.name] = rows.selectExpr(*map(quote_spark, layout.names))
    with engine.frames.named(frames) as names:
        frame = engine.spark.sql(to_spark(at_its_time(bound.expression, state, relation), table_names=names))
    columns = relation.visible_columns
    return frame.toDF(*(f"c{number}" for number in range(len(columns)))).selectExpr(
        *(f"CAST(c{number} AS {column.type.spark}) AS c{number}" for number, column in enumerate(columns))
    )


def _on_time(state: Manifest, source: Relation, view: Relation) -> int | None:
    """What is stored of a source without its late events, if that is what the view stands on."""
    for each in events_on_time(state.catalog, source.id):
        if view.id in (above.id for above in state.catalog.dependents(each.id)):
            return each.id
    return None


def _actual(engine: Engine, state: Manifest, relation: Relation) -> DataFrame:
    layout = Layout.of(relation)
    rows = scan(engine.spark, engine.storage.uri(""), layout, state.runs.get(relation.id, ()))
    return rows.selectExpr(
        *(f"{quote_spark(column.name)} AS c{number}" for number, column in enumerate(relation.visible_columns))
    )
