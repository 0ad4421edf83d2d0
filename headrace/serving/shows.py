"""What SHOW and DESCRIBE answer: columns and rows, from the committed state and the jobs. Nothing is changed."""

from __future__ import annotations

import datetime
import functools
import re
from collections.abc import Callable
from typing import Any

from headrace.catalog import INDEX, INTERNAL, MATERIALIZED_VIEW, SOURCE, TABLE, VIEW, Relation
from headrace.config import PARAMETERS, find_parameter
from headrace.engine.engine import Engine
from headrace.engine.secrets import names as secret_names
from headrace.engine.watermarks import NONE, late_count, watermark
from headrace.serving.progress import create_type
from headrace.sql import statements as ast
from headrace.sql.indexes import key_text
from headrace.sql.parse import index_statement
from headrace.types import SqlType, quote_sql

TEXT, BIGINT, TIMESTAMPTZ = SqlType("varchar"), SqlType("bigint"), SqlType("timestamptz")
SHOWN = (ast.Show, ast.ShowIndexes, ast.ShowJobs, ast.ShowCreate, ast.ShowParameter, ast.Describe)

_START = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

Shown = tuple[list[tuple[str, SqlType]], list[tuple]]
Setting = Callable[[str], str]
"""A parameter as the session has it"""


@functools.singledispatch
def show(statement: ast.Statement, engine: Engine, setting: Setting) -> Shown | None:
    """None: the statement is none of these."""
    return None


@show.register
def _show(statement: ast.Show, engine: Engine, setting: Setting) -> Shown:
    if statement.what == "parameters":
        rows = [(each.name, setting(each.name), each.description) for each in PARAMETERS.values()]
        return [("Name", TEXT), ("Setting", TEXT), ("Description", TEXT)], sorted(rows)
    if statement.what == "secrets":
        matches = _like(statement.like)
        return [("Name", TEXT)], [(name,) for name in secret_names(engine.committed) if matches(name)]
    if statement.what == "sources":
        return _sources(engine, _like(statement.like))
    if statement.what == "watermarks":
        return _watermarks(engine, _like(statement.like))
    if statement.what == "internal tables":
        return _internal_tables(engine, _like(statement.like))
    kind = {"tables": TABLE, "views": VIEW, "materialized views": MATERIALIZED_VIEW, "indexes": INDEX}[statement.what]
    matches = _like(statement.like)
    known = (each.name for each in engine.committed.catalog.of_kind(kind) if not each.temporary)
    names = sorted(filter(matches, known))
    return [("Name", TEXT)], [(name,) for name in names]


def _internal_tables(engine: Engine, matches: Callable[[str], bool]) -> Shown:
    state = engine.committed
    columns = [("Name", TEXT), ("Rows", BIGINT), ("Bytes", BIGINT), ("Used By", TEXT)]
    rows = []
    for each in sorted(state.catalog.of_kind(INTERNAL), key=lambda each: each.name):
        if matches(each.name):
            runs = state.runs.get(each.id, ())
            views = ", ".join(sorted(quote_sql(view.name) for view in state.catalog.users(each)))
            rows.append((each.name, sum(run.live_rows for run in runs), sum(run.bytes for run in runs), views))
    return columns, rows


def _watermarks(engine: Engine, matches: Callable[[str], bool]) -> Shown:
    """Of tables, and of what views with EMIT ON WINDOW CLOSE have stored of a source, under the view's name."""
    state = engine.committed
    columns = [("Name", TEXT), ("Column", TEXT), ("Watermark", TIMESTAMPTZ), ("Late Rows", BIGINT)]
    rows = []
    for relation in state.catalog:
        if relation.lateness is None or relation.kind == SOURCE:
            continue
        name, at = state.catalog.owner(relation).label, watermark(state.offsets, relation.id)
        time = None if at == NONE else _START + datetime.timedelta(microseconds=at)
        rows.append((name, relation.lateness.column, time, late_count(state.offsets, relation.id)))
    return columns, sorted((each for each in rows if matches(each[0])), key=lambda each: each[:2])


def _sources(engine: Engine, matches: Callable[[str], bool]) -> Shown:
    columns = [
        ("Name", TEXT), ("Connector", TEXT), ("State", TEXT), ("Lag Bytes", BIGINT), ("Lag", TEXT), ("Error", TEXT),
        ("Lag Rows", BIGINT), ("Rows/s", BIGINT), ("Skipped", BIGINT), ("Lost", BIGINT),
    ]  # fmt: skip
    return columns, [
        (
            each["name"], each["connector"], each["state"], each["lag_bytes"], _seconds(each["lag_seconds"]),
            each["error"], each["lag_rows"],
            None if each["rows_per_second"] is None else round(each["rows_per_second"]), each["skipped"], each["lost"],
        )
        for each in engine.sources.status()
        if matches(each["name"])
    ]  # fmt: skip


@show.register
def _show_parameter(statement: ast.ShowParameter, engine: Engine, setting: Setting) -> Shown:
    name = find_parameter(statement.name).name
    return [(name, TEXT)], [(setting(name),)]


@show.register
def _show_create(statement: ast.ShowCreate, engine: Engine, setting: Setting) -> Shown:
    catalog = engine.committed.catalog
    relation = catalog.get(statement.name)
    if statement.kind is not None:
        catalog.get(statement.name, statement.kind)  # or an error that says what it is
    return [("Name", TEXT), ("Create Sql", TEXT)], [(relation.label, relation.definition)]


@show.register
def _describe(statement: ast.Describe, engine: Engine, setting: Setting) -> Shown:
    relation = engine.committed.catalog.get(statement.name)
    columns = [("Name", TEXT), ("Type", TEXT), ("Is Hidden", TEXT), ("Description", TEXT)]
    rows: list[tuple] = [
        (column.name, str(column.type), str(column.hidden).lower(), column.comment) for column in relation.columns
    ]
    if relation.pk:
        rows.append(("primary key", ", ".join(key.name for key in relation.pk), None, None))
    if relation.distribution:
        rows.append(("distribution key", ", ".join(relation.distribution), None, None))
    rows.append(("table description", relation.label, None, relation.comment))
    return columns, rows


@show.register
def _show_indexes(statement: ast.ShowIndexes, engine: Engine, setting: Setting) -> Shown:
    catalog, matches = engine.committed.catalog, _like(statement.like)
    table = catalog.get(statement.table)
    rows = [
        _index_line(each, table)
        for each in catalog.of_kind(INDEX)
        if each.depends_on == (table.id,) and matches(each.name)
    ]
    return [(name, TEXT) for name in ("Name", "On", "Key", "Include", "Distributed By")], rows


def _index_line(index: Relation, table: Relation) -> tuple[str, ...]:
    keys = index_statement(index.definition).keys
    names = [key.name for key in keys]
    include = [quote_sql(column.name) for column in index.visible_columns if column.name not in names]
    distribution = map(quote_sql, index.distribution)
    return index.name, table.name, ", ".join(map(key_text, keys)), ", ".join(include), ", ".join(distribution)


@show.register
def _show_jobs(statement: ast.ShowJobs, engine: Engine, setting: Setting) -> Shown:
    if statement.positions:
        return [("Relation", TEXT), ("Vnode", BIGINT), ("Position", TEXT)], engine.jobs.positions(statement.id)
    jobs = engine.jobs.list() if statement.id is None else [engine.jobs.progress(statement.id)]
    columns = [
        ("Id", BIGINT), ("Statement", TEXT), ("Create Type", TEXT), ("Progress", TEXT), ("State", TEXT),
        ("Rows", BIGINT), ("Total Rows", BIGINT), ("Rows/s", BIGINT), ("Time Left", TEXT), ("Error", TEXT),
        ("Splits", TEXT), ("Lag Bytes", BIGINT), ("Lag", TEXT),
    ]  # fmt: skip
    matches = _like(statement.like)
    return columns, [_job_line(job) for job in jobs if matches(job["name"])]


def _job_line(job: dict[str, Any]) -> tuple:
    rate, left = job["rows_per_second"], job["seconds_left"]
    return (
        job["id"],
        job["statement"],
        create_type(job),
        f"{job['fraction']:.1%}",
        job["state"],
        job["rows_read"],
        job["rows_total"],
        None if rate is None else round(rate),
        None if left is None else str(datetime.timedelta(seconds=round(left))),
        job["error"],
        None if job["splits_done"] is None else f"{job['splits_done']}/{job['splits_total']}",
        job["lag_bytes"],
        _seconds(job["lag_seconds"]),
    )


def _seconds(seconds: float | None) -> str | None:
    return None if seconds is None else f"{seconds:.1f} s"


def _like(pattern: str | None) -> Callable[[str], bool]:
    if pattern is None:
        return lambda name: True
    regex = "".join(".*" if c == "%" else "." if c == "_" else re.escape(c) for c in pattern)
    return lambda name: re.fullmatch(regex, name, flags=re.DOTALL) is not None
