"""From an INSERT, UPDATE or DELETE statement to the change that an epoch carries out."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import DataFrame
from sqlglot import exp

from headrace.catalog import ROW_ID, Column, Relation, shown_name
from headrace.engine.access import choose, conditions
from headrace.engine.changes import NEW_ROW, OLD_ROW, InsertFrame, InsertRows, UpdateFrame
from headrace.engine.plans import index_paths, query_frame, source_scans
from headrace.engine.reads import read_part
from headrace.engine.small import with_vnode
from headrace.engine.spark import spark_errors
from headrace.errors import (
    DataError,
    DuplicateColumn,
    InvalidDefinition,
    NotNullViolation,
    SqlSyntaxError,
)
from headrace.sql import statements as ast
from headrace.sql.arriving import converted, refuse_unless_writable, target_columns
from headrace.sql.bind import BoundQuery, bind_expression, bind_query, has_query, relations_of
from headrace.sql.casts import assign, cast
from headrace.sql.dialect import parse_expression, print_sql
from headrace.sql.explicit import explicit_as
from headrace.sql.expressions import Expressions
from headrace.sql.literals import NOT_CONSTANT, constant, spark_string
from headrace.sql.translate import Translator
from headrace.sql.typed import Typed
from headrace.sql.zoned import meant_in
from headrace.state.layout import Layout
from headrace.state.lookup import lookup
from headrace.state.manifest import Manifest
from headrace.types import quote_spark

if TYPE_CHECKING:
    from headrace.engine.engine import Engine

_DEFAULT = object()


def expression_sql(
    expression: str | exp.Expression,
    over: Sequence[Column],
    relation: Relation,
    column: Column,
    zone: str | None = None,
) -> str:
    """An expression over some columns, converted to the type of the column it goes to, as Spark SQL.

    ``zone``: that of the session whose expression it is. What a table computes says its zones itself."""
    tree = parse_expression(expression) if isinstance(expression, str) else expression
    bound = bind_expression(tree, over, relation.label, zone=zone)
    return assigned(Expressions(qualified=False).value(bound), column, zone)


def assigned(value: Typed, column: Column, zone: str | None) -> str:
    """Spark SQL of a value as that of a column."""
    with meant_in(zone):
        return assign(value, column.type, column.name).sql


def in_its_zone(column: Column, over: Sequence[Column], table: str, zone: str) -> Column:
    """A column of a new table, with the zone of the session that makes it written in what it computes."""

    def said(text: str | None, columns: Sequence[Column]) -> str | None:
        if text is None or (not columns and parse_expression(text).find(exp.Column) is not None):
            return text
        bound = bind_expression(parse_expression(text), columns, shown_name(table))
        asked = explicit_as(bound, column.type, zone)
        return text if asked is None else print_sql(asked)

    return dataclasses.replace(column, default=said(column.default, ()), generated=said(column.generated, over))


def writable_table(state: Manifest, name: str, doing: str) -> Relation:
    relation = state.catalog.get(name)
    refuse_unless_writable(relation, doing)
    return relation


def stored_columns(relation: Relation) -> list[Column]:
    """The columns that a statement provides: all but the hidden row id."""
    return [column for column in relation.columns if column.name != ROW_ID]


# --- INSERT … VALUES --------------------------------------------------------------------------------------------


def insert_values(engine: Engine, relation: Relation, statement: ast.Insert) -> InsertRows:
    change = insert_constants(relation, statement)
    if change is not None:
        return change
    targets, cells = _cells(relation, statement)
    with spark_errors("INSERT"):
        table = _evaluated_rows(engine, relation, stored_columns(relation), targets, cells, statement.zone)
    check_not_null(relation, table)
    return InsertRows(rows=table)


def insert_constants(relation: Relation, statement: ast.Insert) -> InsertRows | None:
    """The rows, if every value is a plain constant."""
    table = _constant_rows(stored_columns(relation), *_cells(relation, statement), statement.zone)
    if table is None:
        return None
    check_not_null(relation, table)
    return InsertRows(rows=table)


def _cells(relation: Relation, statement: ast.Insert) -> tuple[list[Column], list[list[Any]]]:
    targets = target_columns(relation, statement.columns)
    return targets, [_row_cells(row, targets, explicit=bool(statement.columns)) for row in statement.rows or ()]


def _row_cells(row: Sequence[exp.Expression], targets: Sequence[Column], *, explicit: bool) -> list[Any]:
    if len(row) > len(targets):
        raise SqlSyntaxError("INSERT has more expressions than target columns")
    if len(row) < len(targets) and explicit:
        raise SqlSyntaxError("INSERT has more target columns than expressions")
    cells: list[Any] = [_DEFAULT if _is_default(cell) else cell for cell in row]
    return cells + [_DEFAULT] * (len(targets) - len(row))


def _is_default(cell: exp.Expression) -> bool:
    return isinstance(cell, exp.Var) and cell.name.upper() == "DEFAULT"


def _constant_rows(
    columns: list[Column], targets: list[Column], cells: list[list[Any]], zone: str | None
) -> pa.Table | None:
    """The rows, if every value is a plain constant: no Spark needed."""
    positions = {column.name: index for index, column in enumerate(targets)}
    arrays = []
    for column in columns:
        if column.generated is not None:
            return None
        at = positions.get(column.name)
        values, default = [], _DEFAULT  # which is looked at only where it is needed
        for row in cells:
            cell = _DEFAULT if at is None else row[at]
            if cell is _DEFAULT and default is _DEFAULT:
                default = _constant_default(column)
            value = default if cell is _DEFAULT else _constant_cell(cell, column, zone)
            if value is NOT_CONSTANT:
                return None
            values.append(value)
        try:
            arrays.append(pa.array(values, column.type.arrow))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
            return None
    return pa.Table.from_arrays(arrays, names=[column.name for column in columns])


def _constant_cell(cell: exp.Expression, column: Column, zone: str | None) -> Any:
    if zone is None:
        return constant(cell, column.type)
    with meant_in(zone):
        return constant(cell, column.type)


def _constant_default(column: Column) -> Any:
    return None if column.default is None else constant(parse_expression(column.default), column.type)


def _evaluated_rows(
    engine: Engine,
    relation: Relation,
    columns: list[Column],
    targets: list[Column],
    cells: list[list[Any]],
    zone: str | None,
) -> pa.Table:
    """The rows, evaluated by Spark."""
    given = [column for column in columns if column.generated is None]
    positions = {column.name: index for index, column in enumerate(targets)}

    def cell_sql(column: Column, row: list[Any]) -> str:
        at = positions.get(column.name)
        if at is None or row[at] is _DEFAULT:
            return expression_sql(column.default or exp.Null(), (), relation, column)
        return expression_sql(row[at], (), relation, column, zone)

    # Not Spark's VALUES: it hides what goes wrong in a cell behind an error of its own.
    lines = [
        "struct(" + ", ".join(f"{cell_sql(column, row)} AS {quote_spark(column.name)}" for column in given) + ")"
        for row in cells
    ]
    frame = engine.spark.sql(f"SELECT inline(array({', '.join(lines)}))")
    table = frame.selectExpr(*_with_generated(relation, columns)).toArrow()
    return table.cast(pa.schema([pa.field(column.name, column.type.arrow) for column in columns]))


def _with_generated(relation: Relation, columns: list[Column]) -> list[str]:
    given = [column for column in columns if column.generated is None]
    return [
        quote_spark(column.name)
        if column.generated is None
        # An interval is put together of parts that are never NULL, and Arrow then takes none that is.
        else f"CAST({expression_sql(column.generated, given, relation, column)} AS {column.type.spark})"
        f" AS {quote_spark(column.name)}"
        for column in columns
    ]


def check_not_null(relation: Relation, table: pa.Table) -> None:
    for column in relation.columns:
        if not column.nullable and column.name in table.column_names and table[column.name].null_count:
            raise NotNullViolation(_null_message(relation, column))


def _null_message(relation: Relation, column: Column) -> str:
    return f'null value in column "{column.name}" of relation "{relation.label}" violates not-null constraint'


def insert_arrow(engine: Engine, relation: Relation, rows: pa.Table) -> InsertRows:
    """Rows that a program brings: columns by name, defaults for those that are missing."""
    columns = stored_columns(relation)
    provided = {column.name: column for column in target_columns(relation, rows.column_names)}
    names = [column.name for column in columns]
    table = pa.Table.from_arrays(
        [
            converted(rows[name], provided[name])
            if name in provided
            else pa.nulls(rows.num_rows, relation.column(name).type.arrow)
            for name in names
        ],
        names=names,
    )
    computed = [column for column in columns if column.generated is not None]
    computed += [column for column in columns if column.default is not None and column.name not in provided]
    if computed and rows.num_rows:
        with spark_errors("INSERT"):
            table = _with_computed(engine, relation, columns, table, provided)
    check_not_null(relation, table)
    return InsertRows(rows=table)


def _with_computed(
    engine: Engine, relation: Relation, columns: list[Column], table: pa.Table, provided: dict[str, Column]
) -> pa.Table:
    schema = ", ".join(f"{quote_spark(column.name)} {column.type.spark}" for column in columns)
    given = [
        f"{expression_sql(column.default, (), relation, column)} AS {quote_spark(column.name)}"
        if column.default is not None and column.name not in provided
        else quote_spark(column.name)
        for column in columns
        if column.generated is None
    ]
    frame = engine.spark.createDataFrame(table, schema=schema).selectExpr(*given)
    return frame.selectExpr(*_with_generated(relation, columns)).toArrow().cast(table.schema)


# --- INSERT … SELECT --------------------------------------------------------------------------------------------


def insert_query(engine: Engine, relation: Relation, statement: ast.Insert, *, use_indexes: bool = True) -> InsertFrame:
    targets = target_columns(relation, statement.columns)
    committed = engine.committed

    def bind(state: Manifest) -> BoundQuery:
        return bind_query(statement.query, state.catalog, functions=engine.functions, zone=statement.zone)

    scans = source_scans(engine, committed, bind(committed))

    def build(state: Manifest) -> DataFrame:
        bound = bind(state)
        frame, types = query_frame(
            engine, state, bound, use_indexes=use_indexes, given=scans, may_be_cancelled=True
        )  # fmt: skip
        if len(types) > len(targets):
            raise SqlSyntaxError("INSERT has more expressions than target columns")
        if len(types) < len(targets) and statement.columns:
            raise SqlSyntaxError("INSERT has more target columns than expressions")
        provided = {column.name: index for index, column in enumerate(targets[: len(types)])}
        numbered = frame.toDF(*(f"c{index}" for index in range(len(types))))
        columns = stored_columns(relation)
        given = [column for column in columns if column.generated is None]
        exprs = []
        for column in given:
            if column.name in provided:
                at = provided[column.name]
                if bound.types[at] is None:
                    # As PostgreSQL does, a NULL or a bare string in the select list takes the type of the column.
                    with meant_in(statement.zone):
                        sql = cast(Typed(f"CAST(c{at} AS STRING)", types[at]), column.type).sql
                else:
                    sql = assigned(Typed(f"c{at}", types[at]), column, statement.zone)
            else:
                sql = expression_sql(column.default or exp.Null(), (), relation, column)
            exprs.append(f"{_required(relation, column, sql)} AS {quote_spark(column.name)}")
        return numbered.selectExpr(*exprs).selectExpr(*_with_generated(relation, columns))

    build(committed)  # what is wrong with the query is said before it waits for an epoch
    return InsertFrame(build=build, returning=bool(statement.returning))


def _required(relation: Relation, column: Column, sql: str) -> str:
    if column.nullable:
        return sql
    return f"coalesce({sql}, CAST(raise_error({spark_string(_null_message(relation, column))}) AS {column.type.spark}))"


# --- UPDATE and DELETE ------------------------------------------------------------------------------------------


def update(engine: Engine, relation: Relation, statement: ast.Update, *, use_indexes: bool = True) -> UpdateFrame:
    given: dict[str, exp.Expression] = {}
    for name, expression in statement.assignments:
        column = relation.column(name)
        if name in given:
            raise DuplicateColumn(f'multiple assignments to same column "{name}"')
        if column.generated is not None or column.hidden:
            raise InvalidDefinition(f'column "{name}" can only be updated to DEFAULT', hint="it is computed")
        given[name] = expression
    generated = [column for column in relation.columns if column.generated is not None]
    keys = {key.name for key in relation.pk}

    def build(state: Manifest) -> DataFrame:
        scope = _Scope(engine, state, relation, statement.alias, statement.zone)
        rows = _affected(scope, statement.where, use_indexes=use_indexes)
        old = f"struct({', '.join(quote_spark(name) for name in Layout.of(relation).names)}) AS {OLD_ROW}"
        values = {name: scope.bind(each) for name, each in given.items() if not _is_default(each)}
        with scope.reading(values.values()) as names:
            fields = [
                _new_value(scope, column, given.get(column.name), values.get(column.name), names)
                for column in relation.columns
            ]
            changed = rows.selectExpr(old, *fields)
        if generated:
            columns = [
                f"{expression_sql(column.generated, relation.columns, relation, column)} AS {quote_spark(column.name)}"
                if column.generated is not None
                else quote_spark(column.name)
                for column in relation.columns
            ]
            changed = changed.selectExpr(OLD_ROW, *columns)
        new = ", ".join(quote_spark(name) for name in Layout.of(relation).names)
        return changed.selectExpr(OLD_ROW, f"struct({new}) AS {NEW_ROW}")

    with spark_errors("UPDATE"):
        build(engine.committed)
    moves_key = bool(keys & given.keys())
    return UpdateFrame(build=build, deletes=False, moves_key=moves_key, returning=bool(statement.returning))


def _new_value(
    scope: _Scope,
    column: Column,
    expression: exp.Expression | None,
    bound: exp.Expression | None,
    names: Mapping[str, str],
) -> str:
    relation, name = scope.relation, quote_spark(column.name)
    if expression is None:
        return name if column.generated is None else f"CAST(NULL AS {column.type.spark}) AS {name}"
    if bound is None:
        sql = expression_sql(column.default or exp.Null(), (), relation, column)
    else:
        value = Translator(names, qualified=has_query(bound)).value(bound)
        sql = assigned(value, column, scope.zone)
    return f"{_required(relation, column, sql)} AS {name}"


def delete(engine: Engine, relation: Relation, statement: ast.Delete, *, use_indexes: bool = True) -> UpdateFrame:
    def build(state: Manifest) -> DataFrame:
        scope = _Scope(engine, state, relation, statement.alias, statement.zone)
        rows = _affected(scope, statement.where, use_indexes=use_indexes)
        names = ", ".join(quote_spark(name) for name in Layout.of(relation).names)
        return rows.selectExpr(f"struct({names}) AS {OLD_ROW}")

    with spark_errors("DELETE"):
        build(engine.committed)
    return UpdateFrame(build=build, deletes=True)


@dataclass(frozen=True)
class _Scope:
    """What the expressions of an UPDATE or DELETE can see: the table, and all relations in subqueries."""

    engine: Engine
    state: Manifest
    relation: Relation
    alias: str | None
    zone: str | None

    @property
    def name(self) -> str:
        return self.alias or self.relation.label

    def bind(self, expression: exp.Expression) -> exp.Expression:
        return bind_expression(
            expression,
            self.relation.columns,
            self.name,
            catalog=self.state.catalog,
            functions=self.engine.functions,
            zone=self.zone,
        )

    @contextmanager
    def reading(self, bound: Iterable[exp.Expression]) -> Iterator[Mapping[str, str]]:
        """The names under which Spark finds the relations of the subqueries, all as of the same epoch."""
        read = dict.fromkeys(name for each in bound for name in relations_of(each))
        catalog = self.state.catalog
        frames = {name: self.engine.frame(self.state, catalog.get(name).id) for name in read}
        with self.engine.frames.named(frames) as names:
            yield names


def _affected(scope: _Scope, where: exp.Expression | None, *, use_indexes: bool) -> DataFrame:
    """The table's rows that a WHERE selects: by a lookup where it names keys, by an index, else by a scan."""
    engine, relation = scope.engine, scope.relation
    runs = scope.state.runs.get(relation.id, ())
    layout = Layout.of(relation)
    with meant_in(scope.zone):
        keys = None if where is None else pinned_keys(relation, where)
    if keys is not None:
        keyed = with_vnode(layout, pa.table(keys))
        found = lookup(engine.spark, engine.storage.files, layout, runs, keyed, engine.indexes)
        frame = engine.spark.createDataFrame(found.select(layout.names), schema=layout.row_ddl)
    else:
        frame = engine.frames.frame(relation, runs)
    if where is None:
        return frame.alias(scope.name)
    bound = scope.bind(where)
    if keys is None and use_indexes and (found := _by_index(scope, bound)) is not None:
        frame = found
    frame = frame.alias(scope.name)
    with scope.reading([bound]) as names:
        return frame.where(Translator(names, qualified=has_query(bound)).condition("WHERE", bound))


def _by_index(scope: _Scope, bound: exp.Expression) -> DataFrame | None:
    relation, catalog = scope.relation, scope.state.catalog
    found = conditions(bound, relation, scope.name if has_query(bound) else "")
    needed = Layout.of(relation).names
    access = choose(relation, found, needed=needed, indexes=index_paths(relation, catalog))
    rows = None if access is None else read_part(scope.engine, scope.state, access)
    return None if rows is None else rows.selectExpr(*map(quote_spark, needed))


def pinned_keys(relation: Relation, where: exp.Expression) -> dict[str, pa.Array] | None:
    """The keys that a condition names, if it can hold for no other: ``id = 1 AND …`` or ``id IN (1, 2)``."""
    layout = Layout.of(relation)
    values: dict[str, list[Any]] = {}
    for part in where.flatten() if isinstance(where, exp.And) else [where]:
        part = part.unnest()
        column, found = None, None
        if isinstance(part, exp.EQ):
            sides = (part.this, part.expression)
            column, other = sides if isinstance(sides[0], exp.Column) else sides[::-1]
            found = [other]
        elif isinstance(part, exp.In) and not part.args.get("query") and part.expressions:
            column, found = part.this, part.expressions
        if not isinstance(column, exp.Column) or column.name not in layout.key_names or column.name in values:
            continue
        kind = layout.types[column.name]
        try:
            constants = [constant(each, kind) for each in found]
        except DataError:
            continue
        if all(each is not NOT_CONSTANT for each in constants):
            values[column.name] = [each for each in constants if each is not None]
    if set(values) != set(layout.key_names) or any(len(v) != 1 for v in values.values()) and len(values) > 1:
        return None
    return {name: pa.array(values[name], layout.types[name].arrow) for name in layout.key_names}
