"""From a bound query to a plan, for the queries that Headrace keeps up to date; the others are refused by name.

Linear queries only: every output row comes from one input row. A view's ORDER BY is ignored, as in RisingWave,
because a relation has no order.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from headrace.catalog import INTERNAL_PREFIX, Catalog
from headrace.errors import DuplicateColumn, Unsupported
from headrace.plan.nodes import Filter, Node, Project, Scan, UnionAll, column
from headrace.plan.rules import simplify
from headrace.sql.aggregates import is_aggregate, is_ordered_set
from headrace.sql.bind import BoundQuery
from headrace.sql.collations import spark_collation
from headrace.sql.dialect import parse_expression
from headrace.sql.expressions import position_of
from headrace.sql.functions import is_volatile
from headrace.sql.names import SCHEMA, check_column_names
from headrace.sql.oracle import found_for
from headrace.sql.sets import is_set_returning
from headrace.sql.translate import type_of, types_of
from headrace.sql.tree import is_as_of_now
from headrace.sql.typed import NUMERIC, TEXT, digits, numeric
from headrace.types import SqlType

NOW = ("now", "current_timestamp")
"""The clock, which may be compared with, see :mod:`headrace.plan.moments`."""

Environment = dict[str, Node]
"""The plans of the CTEs in sight."""


def build(bound: BoundQuery, catalog: Catalog, names: Sequence[str] | None = None) -> Node:
    """The plan of a view whose columns have the query's names, or those given."""
    if bound.as_of is not None:
        raise refuse("FOR SYSTEM_TIME AS OF")
    names = tuple(bound.output if names is None else names)
    _check_names(names)
    return simplify(_rename(_Builder(catalog).query(bound.expression, {}), names))


def _check_names(names: tuple[str, ...]) -> None:
    try:
        check_column_names(names)
    except DuplicateColumn as error:
        error.hint = "give one of them another name with AS"
        raise


def refuse(construct: str, node: exp.Expression | None = None, hint: str | None = None) -> Unsupported:
    return Unsupported(
        f"{construct} is not supported in a materialized view yet", hint=hint, position=position_of(node)
    )


def cast_to(expression: exp.Expression, kind: SqlType) -> exp.Expression:
    """The expression as exactly this type: a numeric without precision gets the one its columns have."""
    if type_of(expression) == kind:
        return expression
    if kind == NUMERIC:
        kind = numeric(*digits(NUMERIC), free=True)
    return exp.Cast(this=expression, to=parse_expression(f"CAST(NULL AS {kind})").to)


def _rename(node: Node, names: tuple[str, ...]) -> Node:
    if node.output == names and isinstance(node, (Project, UnionAll)):
        return node
    if isinstance(node, UnionAll):
        return UnionAll(inputs=tuple(_rename(branch, names) for branch in node.inputs))
    if isinstance(node, Project):
        return Project(input=node.input, columns=tuple(zip(names, (each for _, each in node.columns), strict=True)))
    raise AssertionError(f"a query ends in {type(node).__name__}")


class _Builder:
    def __init__(self, catalog: Catalog):
        self.catalog = catalog

    def query(self, node: exp.Expression, outer: Environment) -> Node:
        env = dict(outer)
        clause = node.args.get("with_")
        if clause is not None and clause.args.get("recursive"):
            raise refuse("WITH RECURSIVE", clause)
        for cte in clause.expressions if clause is not None else []:
            env[cte.alias] = self._aliased(cte, self.query(cte.this, env))
        for key in ("limit", "offset"):
            if node.args.get(key) is not None:
                raise refuse(key.upper(), node.args[key])
        if isinstance(node, exp.Select):
            return self._select(node, env)
        if isinstance(node, exp.Union):
            return self._union(node, env)
        if isinstance(node, exp.SetOperation):
            raise refuse(type(node).__name__.upper(), node)
        if isinstance(node, exp.Subquery):
            return self.query(node.this, env)
        raise refuse("VALUES" if isinstance(node, exp.Values) else type(node).__name__, node)

    def _union(self, node: exp.Union, env: Environment) -> Node:
        if node.args.get("distinct"):
            raise refuse("UNION", node, hint="use UNION ALL")
        kinds = types_of(node)
        left, right = self.query(node.this, env), self.query(node.expression, env)
        branches = []
        for plan, query in ((left, node.this), (right, node.expression)):
            branches.append(self._converted(plan, types_of(query), kinds, left.output))
        return UnionAll(inputs=tuple(branches))

    def _converted(
        self, plan: Node, have: Sequence[SqlType | None], want: Sequence[SqlType | None], names: tuple[str, ...]
    ) -> Node:
        """A branch with the names and types of the union."""
        items = []
        for old, new, kind, wanted in zip(plan.output, names, have, want, strict=True):
            items.append((new, cast_to(column(old, kind or TEXT), wanted or TEXT)))
        if plan.output == names and all(isinstance(each, exp.Column) for _, each in items):
            return plan
        return Project(input=plan, columns=tuple(items))

    def _select(self, node: exp.Select, env: Environment) -> Node:
        self._check_clauses(node)
        plan = self._source(node.args["from_"].this, env)
        where = node.args.get("where")
        if where is not None:
            plan = Filter(input=plan, condition=_checked(where.this))
        items, kinds = [], types_of(node)
        for each, kind in zip(node.expressions, kinds, strict=True):
            expression = _checked(each.unalias())
            items.append(expression if kind is not None else cast_to(expression, TEXT))
        names = [each.alias for each in node.expressions]
        # Two columns of one name are harmless if nobody uses it, but a plan's columns need distinct names.
        distinct = [
            name if names.count(name) == 1 else f"{INTERNAL_PREFIX}column_{number}" for number, name in enumerate(names)
        ]
        return Project(input=plan, columns=tuple(zip(distinct, items, strict=True)))

    def _check_clauses(self, node: exp.Select) -> None:
        if node.args.get("distinct") is not None:
            on = node.args["distinct"].args.get("on") is not None
            raise refuse("DISTINCT ON" if on else "DISTINCT", node)
        for key, name in (("group", "GROUP BY"), ("having", "HAVING")):
            if node.args.get(key) is not None:
                raise refuse(name, node.args[key])
        if node.args.get("joins"):
            raise refuse("JOIN", node.args["joins"][0])
        if node.args.get("from_") is None:
            raise refuse("a query without FROM", node)

    # --- FROM -----------------------------------------------------------------------------------------------------

    def _source(self, node: exp.Expression, env: Environment) -> Node:
        if isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Table):
                if node.this.args.get("joins"):
                    raise refuse("JOIN", node)
                return self._source(node.this, env)
            return self._aliased(node, self.query(node.this, env))
        if isinstance(node, exp.Lateral):
            raise refuse("LATERAL", node)
        if isinstance(node, exp.Values):
            raise refuse("VALUES", node)
        if isinstance(node.this, exp.Anonymous):
            raise refuse(f"the table function {node.this.this}()", node)
        if node.args.get("sample") is not None:
            raise refuse("TABLESAMPLE", node)
        if is_as_of_now(node):
            raise refuse_as_of_now(node)
        if node.db != SCHEMA:
            return self._aliased(node, env[node.name])
        relation = self.catalog.get(node.name)
        columns = tuple(each.name for each in relation.columns)
        return self._aliased(node, Scan(relation=relation.name, relation_id=relation.id, columns=columns))

    def _aliased(self, node: exp.Expression, plan: Node) -> Node:
        """The plan with the column names of an alias like ``AS x(a, b)``."""
        alias = node.args.get("alias")
        given = tuple(each.name for each in alias.args.get("columns") or []) if alias is not None else ()
        if not given or given == plan.output:
            return plan
        types = output_types(plan, self.catalog)
        items = [(new, column(old, types[old])) for new, old in zip(given, plan.output, strict=False)]
        return Project(input=plan, columns=tuple(items))


def output_types(node: Node, catalog: Catalog) -> dict[str, SqlType]:
    """The types of a plan's columns: those that Spark gives their expressions."""
    if isinstance(node, Scan):
        relation = catalog.relations[node.relation_id]
        return {name: relation.column(name).type for name in node.columns}
    if isinstance(node, Project):
        return {name: type_of(expression) or TEXT for name, expression in node.columns}
    return output_types(node.inputs[0], catalog)


def _checked(expression: exp.Expression) -> exp.Expression:
    """The expression over a single input: unqualified, and computed from one row alone."""
    for node in expression.walk():
        if isinstance(node, exp.Exists):
            raise refuse("EXISTS", node)
        if isinstance(node, exp.Query):
            raise refuse("a subquery in an expression", node)
        if isinstance(node, exp.Window):
            raise refuse("a window function", node)
        if isinstance(node, exp.Collate):
            _check_collation(node)
        if isinstance(node, exp.Anonymous):
            _check_function(node)
    copy = expression.copy()
    for node in copy.find_all(exp.Column):
        node.set("table", None)
    return copy


def refuse_what_changes(query: exp.Expression) -> None:
    """No query that is kept up to date may mean something else at another time, or with another version of Spark."""
    for node in query.walk():
        if isinstance(node, exp.Collate):
            _check_collation(node)
        if isinstance(node, exp.Anonymous):
            _check_meaning(node)
        if isinstance(node, exp.Table) and node.args.get("sample") is not None:
            raise refuse("TABLESAMPLE", node)
        if isinstance(node, exp.Table) and is_as_of_now(node):
            raise refuse_as_of_now(node)


def refuse_as_of_now(node: exp.Table) -> Unsupported:
    return refuse(
        "FOR SYSTEM_TIME AS OF PROCTIME() here",
        node,
        hint="it is for a table or view that is joined by equality to what comes before it, JOIN or LEFT JOIN",
    )


def _check_collation(node: exp.Collate) -> None:
    if spark_collation(node.expression.name) is not None:
        raise refuse(f'COLLATE "{node.expression.name}"', node, "its order may change with Spark's version")


def _check_function(node: exp.Anonymous) -> None:
    if is_aggregate(node.this) or is_ordered_set(node.this):
        raise refuse(f"the aggregate function {node.this}()", node)
    if is_set_returning(node.this):
        raise refuse(f"the set-returning function {node.this}()", node)
    _check_meaning(node)


def _check_meaning(node: exp.Anonymous) -> None:
    if found_for(node) is not None:
        hint = "a view must not change its meaning with Spark's version; use it in a query on the view"
        raise refuse(f"Spark's function {node.this}()", node, hint)
    if is_volatile(node):
        hint = (
            "WHERE may compare a time with it, or with it and an interval without months"
            if str(node.this).lower() in NOW
            else None
        )
        raise refuse(f"{node.this}(), whose result changes by itself,", node, hint)
