"""Names: what every table and column of a query is, found in the catalog.

A bound query says everything explicitly: stars are listed, columns carry their source and their type, joins their
condition, outputs their name, stored relations the schema ``public`` (so that no CTE can be meant). It prints as
text that binds to itself, which is how a view's query is stored.

>>> from headrace.catalog import Relation
>>> from headrace.sql.dialect import parse_query
>>> columns = (Column(name="a", type=SqlType("integer")),)
>>> catalog = Catalog().add(Relation(id=1, name="t", kind="table", columns=columns))
>>> bind_query(parse_query("SELECT *, a + 1 FROM t"), catalog).text()
'SELECT "t"."a" AS "a", "t"."a" + 1 AS "?column?" FROM "public"."t" AS "t"'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlglot import exp

from headrace.catalog import Catalog, Column
from headrace.errors import (
    AmbiguousColumn,
    DuplicateAlias,
    HeadraceError,
    InvalidColumnReference,
    SqlSyntaxError,
    TypeMismatch,
    UndefinedColumn,
    Unsupported,
)
from headrace.sql import lengths
from headrace.sql.dialect import parse_query, print_sql
from headrace.sql.explicit import explicit
from headrace.sql.expressions import COLUMN_TYPE, position_of, row_of, unsupported
from headrace.sql.grouping import check_grouping, has_aggregate, own_calls
from headrace.sql.labels import label
from headrace.sql.lambdas import bind_call, takes_lambda
from headrace.sql.names import SCHEMA
from headrace.sql.oracle import FOUND, UNKNOWN, Argument, FunctionOracle, for_spark, generates, is_constant, is_ours
from headrace.sql.recursion import check_recursive, refers_to
from headrace.sql.scope import Output, Scope, Source, renamed
from headrace.sql.sets import is_set_returning
from headrace.sql.shapes import (
    array_query,
    check_distinct_order,
    fields_of,
    is_array_query,
    meaning,
    name_windows,
    ordinal,
    plain_arguments,
    wrapped,
)
from headrace.sql.sources import Sources
from headrace.sql.translate import Translator
from headrace.sql.tree import WholeRow
from headrace.sql.typed import TEXT, widen
from headrace.types import SqlType


@dataclass(frozen=True, kw_only=True)
class BoundQuery:
    expression: exp.Expression
    relations: tuple[int, ...]
    """The stored relations that the query reads, in the order of their first mention, views looked through."""
    depends_on: tuple[int, ...]
    """What the query itself names: stored relations and plain views."""
    output: tuple[str, ...]
    types: tuple[SqlType | None, ...]
    """None is a string constant or NULL, which comes out as text but may be stored as anything."""
    as_of: str | None = None
    """FOR SYSTEM_TIME AS OF: an epoch or a timestamp, for the whole query."""

    def text(self) -> str:
        """The query in our own dialect: parses and binds to this very query."""
        return print_sql(self.expression)


def bind_query(
    query: exp.Expression,
    catalog: Catalog,
    *,
    inline_views: bool = True,
    functions: FunctionOracle | None = None,
    zone: str | None = None,
    definition: bool = False,
) -> BoundQuery:
    """``inline_views=False`` leaves plain views by name: for the definition of a view on a view.

    ``functions`` knows the functions that Headrace does not; without it they are refused. ``zone``: in which the query
    is meant, if not in UTC; bound, it says so itself. ``definition``: of something that stays."""
    binder = _Binder(catalog, inline_views=inline_views, functions=functions)
    bound, columns = binder.query(query.copy(), Scope())
    if zone is not None:
        bound = explicit(bound, zone, definition=definition)
    translator = Translator({})
    translator.query(bound)  # everything in it is known, and the types fit
    return BoundQuery(
        expression=bound,
        relations=tuple(binder.relations),
        depends_on=tuple(binder.depends_on),
        output=tuple(column.name for column in columns),
        types=tuple(translator.types(bound)),
        as_of=binder.as_of,
    )


def bind_expression(
    expression: exp.Expression,
    columns: Sequence[Column],
    relation_name: str | None = None,
    *,
    alias: str | None = None,
    catalog: Catalog | None = None,
    functions: FunctionOracle | None = None,
    zone: str | None = None,
) -> exp.Expression:
    """An expression over the columns of one relation: DEFAULT (no columns), generated columns, WHERE, SET, RETURNING.

    Its columns come out unqualified. Subqueries need the catalog; then the columns are qualified by the alias.
    """
    copy = expression.copy()
    queries = has_query(copy)
    if queries and catalog is None:
        raise unsupported("a subquery here", copy.find(exp.Query))
    scope = Scope()
    if relation_name is not None:
        scope.add(Source(alias or relation_name, [Output(c.name, c.type, c.hidden) for c in columns]), None)
    bound = _Binder(catalog or Catalog(), functions=functions).expression(copy, scope)
    if not queries:
        for column in bound.find_all(exp.Column):
            column.set("table", None)
    if zone is not None:
        bound = explicit(bound, zone)
    Translator({}).value(bound.unalias())  # everything in it is known
    return bound


def has_query(expression: exp.Expression) -> bool:
    return expression.find(exp.Query) is not None


def relations_of(bound: exp.Expression) -> list[str]:
    """The names of the stored relations that a bound expression's subqueries read."""
    return list(dict.fromkeys(table.name for table in bound.find_all(exp.Table) if table.db == SCHEMA))


def bind_returning(
    expressions: Sequence[exp.Expression],
    columns: Sequence[Column],
    relation_name: str,
    *,
    alias: str | None = None,
    functions: FunctionOracle | None = None,
    zone: str | None = None,
) -> list[tuple[str, exp.Expression]]:
    """The output names and bound expressions of a RETURNING list; ``*`` is all visible columns."""
    items: list[tuple[str, exp.Expression]] = []
    for each in expressions:
        if isinstance(each, exp.Star) or (isinstance(each, exp.Column) and isinstance(each.this, exp.Star)):
            stars = [exp.column(c.name, quoted=True) for c in columns if not c.hidden]
            items += [(star.name, bind_expression(star, columns, relation_name)) for star in stars]
        else:
            bound = bind_expression(each.unalias(), columns, relation_name, alias=alias, functions=functions, zone=zone)
            items.append((label(each), bound))
    return items


def rename_relation(query_text: str, old: str, new: str) -> str:
    """The text of a bound query after a stored relation or view that it names was renamed."""
    tree = parse_query(query_text)
    for table in tree.find_all(exp.Table):
        if table.db == SCHEMA and table.name == old:
            table.set("this", exp.to_identifier(new, quoted=True))
    return print_sql(tree)


# --- the binder -------------------------------------------------------------------------------------------------


class _Binder(Sources):
    def __init__(self, catalog: Catalog, *, inline_views: bool = True, functions: FunctionOracle | None = None):
        self.catalog = catalog
        self.functions = functions
        self.inline_views = inline_views
        self.relations: dict[int, None] = {}
        self.depends_on: dict[int, None] = {}
        self.as_of: str | None = None
        self._views: list[str] = []
        self._reads = 0

    # --- queries --------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expression, outer: Scope) -> tuple[exp.Expression, list[Output]]:
        scope = Scope(parent=outer)
        self._ctes(node, scope)
        if isinstance(node, (exp.Select, exp.SetOperation)):
            bind = self._select if isinstance(node, exp.Select) else self._set_operation
            columns = bind(node, scope)
            names, kinds = [column.name for column in columns], [column.type for column in columns]
            return lengths.each_once(node, names, kinds, _kind), columns
        if isinstance(node, exp.Subquery):
            inner, columns = self.query(node.this, scope)
            if not any(node.args.get(key) for key in ("with_", "order", "limit", "offset")):
                return inner, columns
            node.set("this", inner)
            self._order_by_output(node, columns)
            self._limits(node)
            return node, columns
        if isinstance(node, exp.Values):
            return node, self._values(node, scope)
        raise unsupported(type(node).__name__, node)

    def _ctes(self, node: exp.Expression, scope: Scope) -> None:
        clause = node.args.get("with_")
        if clause is None:
            return
        for cte in clause.expressions:
            name = cte.alias
            if name in scope.ctes:
                raise DuplicateAlias(f'WITH query name "{name}" specified more than once', position=position_of(cte))
            cte.set("materialized", None)
            if clause.args.get("recursive") and refers_to(cte.this, name):
                self._recursive(cte, name, scope)
                continue
            bound, columns = self.query(cte.this, scope)
            cte.set("this", bound)
            scope.ctes[name] = renamed(cte, columns)

    def _recursive(self, cte: exp.CTE, name: str, scope: Scope) -> None:
        """start UNION ALL step: the step sees the columns of the start under the query's name."""
        union = check_recursive(cte)
        start, columns = self.query(union.this, scope)
        scope.ctes[name] = renamed(cte, columns)
        step, others = self.query(union.expression, scope)
        if len(others) != len(columns):
            raise SqlSyntaxError("each UNION query must have the same number of columns", position=position_of(cte))
        for number, (column, other) in enumerate(zip(columns, others, strict=True), 1):
            if widen(column.type, other.type) != column.type:
                raise TypeMismatch(
                    f'recursive query "{name}" column {number} has type {column.type} in non-recursive term '
                    f"but type {widen(column.type, other.type) or other.type} overall",
                    hint="Cast the output of the non-recursive term to the correct type.",
                    position=position_of(union.this),
                )
        union.set("this", wrapped(start))
        union.set("expression", wrapped(step))

    def _values(self, node: exp.Values, scope: Scope) -> list[Output]:
        for row in node.expressions:
            for each in row.expressions:
                if isinstance(each, exp.Var):
                    raise SqlSyntaxError("DEFAULT is not allowed in this context")
            row.set("expressions", [self.expression(each, scope) for each in row.expressions])
        kinds = Translator({}).types(node)
        columns = [Output(f"column{number}", kind or TEXT) for number, kind in enumerate(kinds, 1)]
        self._order_by_output(node, columns)
        self._limits(node)
        return columns

    def _set_operation(self, node: exp.SetOperation, scope: Scope) -> list[Output]:
        left, columns = self.query(node.this, scope)
        right, _ = self.query(node.expression, scope)
        node.set("this", wrapped(left))
        node.set("expression", wrapped(right))
        kinds = Translator({}).types(node)
        columns = [Output(column.name, kind or TEXT) for column, kind in zip(columns, kinds, strict=True)]
        self._order_by_output(node, columns)
        self._limits(node)
        return columns

    def _select(self, node: exp.Select, scope: Scope) -> list[Output]:
        self._sources(node, scope)
        if not node.expressions:
            node.set("expressions", [exp.alias_(exp.Null(), "?column?", quoted=True)])
            if node.find_ancestor(exp.Exists) is None:
                raise unsupported("SELECT without columns", node)
        name_windows(node)
        where = node.args.get("where")
        if where is not None:
            where.set("this", self.expression(where.this, scope))
        items = self._projections(node, scope)
        node.set("expressions", items)
        self._group_by(node, scope)
        having = node.args.get("having")
        if having is not None:
            having.set("this", self.expression(having.this, scope))
        self._order_by(node, scope)
        self._limits(node)
        check_grouping(node)
        kinds = Translator({}).types(node)
        lengths.in_select(node, kinds, _kind)
        return [Output(item.alias, kind or TEXT) for item, kind in zip(items, kinds, strict=True)]

    def _projections(self, node: exp.Select, scope: Scope) -> list[exp.Expression]:
        projections: list[exp.Expression] = []
        rows: list[tuple[exp.Expression, WholeRow]] = []
        for item in node.expressions:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                projections += [exp.alias_(column, name, quoted=True) for name, column in scope.star(item)]
                continue
            if isinstance(item, exp.Aliases):
                raise unsupported("an alias with several names", item)
            star = isinstance(item, exp.Dot) and isinstance(item.expression, exp.Star)
            name = label(item)
            value = item.this.unnest() if star else item.unalias()
            bound = self._rows_beside(self.expression(value, scope), node, scope, rows)
            if star or (generates(value) and isinstance(bound, WholeRow)):
                projections += [exp.alias_(each, field, quoted=True) for field, each in fields_of(bound)]
            else:
                if isinstance(bound, exp.Subquery):
                    bound.set("alias", None)  # the name is the column's: GROUP BY 1 takes the value alone
                projections.append(exp.Alias(this=bound, alias=exp.to_identifier(name, quoted=True)))
        others = [call for item in projections for call in own_calls(item) if _returns_rows(call)]
        if rows and len(rows) + len(others) > 1:  # they would have to run in step
            call = rows[0][0]
            raise unsupported(f"{call.this}(), which returns several columns, beside another such function", call)
        return projections

    def _rows_beside(
        self, bound: exp.Expression, node: exp.Select, scope: Scope, known: list[tuple[exp.Expression, WholeRow]]
    ) -> exp.Expression:
        """A call in the SELECT list that returns rows of several columns: one more source, and its row as the value."""
        for call in own_calls(bound):
            if not _returns_rows(call) or len(Translator({}).rows_of(call).columns) == 1:
                continue
            items = [each.unalias() for each in node.expressions]
            if node.args.get("group") or node.args.get("having") or any(map(has_aggregate, items)):
                raise unsupported(f"{call.this}() beside aggregates", call)
            if any(item.find(exp.Window) is not None for item in items):
                raise unsupported(f"{call.this}() beside a window function", call)
            row = next((row.copy() for other, row in known if other == call), None)
            if row is None:
                row = self.hidden_rows(call.copy(), f"_g{len(scope.sources)}", node, scope)
                known.append((call.copy(), row.copy()))
            if call is bound:
                return row
            call.replace(row)
        return bound

    # --- clauses --------------------------------------------------------------------------------------------------

    def _group_by(self, node: exp.Select, scope: Scope) -> None:
        group = node.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            raise unsupported("GROUP BY ALL", group)
        sets = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
        for owner in [group, *group.find_all(*sets)]:
            # A query keeps its parentheses: it is a value, and printed as one.
            items = [each if isinstance(each, exp.Subquery) else each.unnest() for each in owner.expressions]
            items = [each if isinstance(each, sets) else self._group_item(each, node, scope) for each in items]
            owner.set("expressions", items)

    def _group_item(self, item: exp.Expression, node: exp.Select, scope: Scope) -> exp.Expression:
        """A column of the input, else the name or the number of an output."""
        number = ordinal(item)
        if number is not None:
            return meaning(node, number, "GROUP BY", item)
        if isinstance(item, exp.Column) and not item.table:
            try:
                return self.expression(item.copy(), scope)
            except UndefinedColumn as error:
                if isinstance(error, AmbiguousColumn):
                    raise
                numbers = [n for n, each in enumerate(node.expressions, 1) if each.alias == item.name]
                if not numbers:
                    raise
                return meaning(node, numbers[0], "GROUP BY", item)
        return self.expression(item, scope)

    def _order_by(self, node: exp.Select, scope: Scope) -> None:
        """The name or the number of an output, else an expression of the input."""
        order, distinct = node.args.get("order"), node.args.get("distinct")
        names = [each.alias for each in node.expressions]
        for each in order.expressions if order is not None else []:
            each.set("this", self._order_item(each.this, names, scope))
        on = distinct.args.get("on") if distinct is not None else None
        if on is not None:
            on.set("expressions", [self._order_item(each, names, scope) for each in on.expressions])
        if distinct is not None and order is not None:
            check_distinct_order(node, order, on)

    def _order_item(self, item: exp.Expression, names: list[str], scope: Scope | None) -> exp.Expression:
        number = ordinal(item)
        if number is None and isinstance(item, exp.Column) and not item.table and item.name in names:
            if names.count(item.name) > 1:
                raise AmbiguousColumn(f'ORDER BY "{item.name}" is ambiguous', position=position_of(item))
            number = names.index(item.name) + 1
        if number is not None:
            if not 1 <= number <= len(names):
                raise InvalidColumnReference(
                    f"ORDER BY position {number} is not in select list", position=position_of(item)
                )
            literal = exp.Literal.number(number)
            return literal
        if scope is None:
            raise Unsupported(
                "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                hint="only names and positions of the result's columns; or wrap it: SELECT * FROM (…) AS q ORDER BY …",
                position=position_of(item),
            )
        if isinstance(item.unnest(), exp.Literal):
            raise SqlSyntaxError("non-integer constant in ORDER BY", position=position_of(item))
        return self.expression(item, scope)

    def _order_by_output(self, node: exp.Expression, columns: list[Output]) -> None:
        order = node.args.get("order")
        names = [column.name for column in columns]
        for each in order.expressions if order is not None else []:
            each.set("this", self._order_item(each.this, names, None))

    def _limits(self, node: exp.Expression) -> None:
        for key in ("limit", "offset"):
            clause = node.args.get(key)
            inner = "count" if isinstance(clause, exp.Fetch) else "expression"
            value = clause.args.get(inner) if clause is not None else None
            if isinstance(value, exp.Expression) and not isinstance(value, exp.Var):
                if value.find(exp.Query) is not None:
                    raise unsupported(f"{key.upper()} with a subquery", value)
                if value.find(exp.Column) is not None:
                    raise InvalidColumnReference(
                        f"argument of {key.upper()} must not contain variables", position=position_of(value)
                    )
                clause.set(inner, self.expression(value, Scope()))

    # --- expressions ----------------------------------------------------------------------------------------------

    def expression(self, node: exp.Expression, scope: Scope) -> exp.Expression:
        if isinstance(node, exp.Column):
            return scope.column(node)
        if isinstance(node, exp.Subquery):
            node.set("this", self.query(node.this, scope)[0])
            return node
        if isinstance(node, exp.Query):
            return self.query(node, scope)[0]
        if row_of(node) is not None:
            node.set("expressions", [part for each in node.expressions for part in self._row_parts(each, scope)])
        if takes_lambda(node):
            bind_call(node, partial(self._with_variables, scope), lambda each: Translator({}).value(each).type)
            return node
        if is_array_query(node):
            return self.expression(array_query(node), scope)
        for key, value in list(node.args.items()):
            if isinstance(value, exp.Expression):
                if not isinstance(value, (exp.DataType, exp.Identifier, exp.Var)):
                    node.set(key, self.expression(value, scope))
            elif isinstance(value, list):
                node.set(key, [self.expression(v, scope) if isinstance(v, exp.Expression) else v for v in value])
        if isinstance(node, exp.Anonymous) and self.functions is not None and not is_ours(node.this):
            self._ask(node, self.functions)
        lengths.in_expression(node, _kind)
        return node

    def _row_parts(self, node: exp.Expression, scope: Scope) -> list[exp.Expression]:
        """A part of ROW(…); t.* stands for all columns of t."""
        star = isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        return [column for _, column in scope.star(node)] if star else [node]

    def _with_variables(self, scope: Scope, node: exp.Expression, variables: Mapping[str, SqlType]) -> exp.Expression:
        return self.expression(node, Scope(parent=scope, variables=dict(variables)) if variables else scope)

    def _ask(self, node: exp.Anonymous, functions: FunctionOracle) -> None:
        """A function that Headrace does not define: what does Spark say?"""
        arguments = []
        for each in plain_arguments(node):
            value = Translator({}).value(each)
            arguments.append(Argument(type=value.type, sql=for_spark(value) if is_constant(each) else None))
        try:
            found = functions.find(node.this, arguments)
        except HeadraceError as error:
            error.position = position_of(node)
            raise
        node.meta[FOUND if found is not None else UNKNOWN] = found or True


def _kind(node: exp.Expression) -> SqlType | None:
    known = node.meta_get(COLUMN_TYPE) if isinstance(node, exp.Column) else None
    return known or Translator({}).value(node).type


def _returns_rows(call: exp.Anonymous) -> bool:
    return is_set_returning(call.this) or generates(call)
