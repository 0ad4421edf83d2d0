"""Names: what every table and column of a query is, found in the catalog.

A bound query says everything explicitly: stars are listed, columns carry their source and their type, joins their
condition, outputs their name, stored relations the schema ``public`` (so that no CTE can be meant). It prints as
text that binds to itself, which is how a view's query is stored.

>>> from headrace.sql.dialect import parse_query
>>> columns = (Column(name="a", type=SqlType("integer")),)
>>> catalog = Catalog().add(Relation(id=1, name="t", kind="table", columns=columns))
>>> bind_query(parse_query("SELECT *, a + 1 FROM t"), catalog).text()
'SELECT "t"."a" AS "a", "t"."a" + 1 AS "?column?" FROM "public"."t" AS "t"'
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from headrace.catalog import INDEX, SOURCE, VIEW, Catalog, Column, Relation
from headrace.errors import (
    AmbiguousColumn,
    DuplicateRelation,
    HeadraceError,
    SqlSyntaxError,
    TypeMismatch,
    UndefinedColumn,
    UndefinedRelation,
    Unsupported,
    WrongObjectKind,
)
from headrace.sql.dialect import parse_query, print_sql
from headrace.sql.expressions import position_of, unsupported
from headrace.sql.grouping import check_grouping
from headrace.sql.labels import label
from headrace.sql.names import SCHEMA, relation_name
from headrace.sql.oracle import FOUND, Argument, FunctionOracle, is_constant, is_ours
from headrace.sql.recursion import check_recursive, refers_to
from headrace.sql.scope import Output, Scope, Source, renamed, renamed_in_full
from headrace.sql.shapes import (
    array_query,
    is_array_query,
    is_query,
    meaning,
    name_windows,
    ordinal,
    plain_arguments,
    require_alias,
    unnest_call,
    wrapped,
)
from headrace.sql.translate import Translator
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
    query: exp.Expression, catalog: Catalog, *, inline_views: bool = True, functions: FunctionOracle | None = None
) -> BoundQuery:
    """``inline_views=False`` leaves plain views by name: for the definition of a view on a view.

    ``functions`` knows the functions that Headrace does not; without it they are refused."""
    binder = _Binder(catalog, inline_views=inline_views, functions=functions)
    bound, columns = binder.query(query.copy(), Scope())
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
) -> list[tuple[str, exp.Expression]]:
    """The output names and bound expressions of a RETURNING list; ``*`` is all visible columns."""
    items: list[tuple[str, exp.Expression]] = []
    for each in expressions:
        if isinstance(each, exp.Star) or (isinstance(each, exp.Column) and isinstance(each.this, exp.Star)):
            stars = [exp.column(c.name, quoted=True) for c in columns if not c.hidden]
            items += [(star.name, bind_expression(star, columns, relation_name)) for star in stars]
        else:
            bound = bind_expression(each.unalias(), columns, relation_name, alias=alias, functions=functions)
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


class _Binder:
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
        if isinstance(node, exp.Select):
            return node, self._select(node, scope)
        if isinstance(node, exp.SetOperation):
            return node, self._set_operation(node, scope)
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
                raise DuplicateRelation(f'WITH query name "{name}" specified more than once', position=position_of(cte))
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
        items = self._projections(node.expressions, scope)
        node.set("expressions", items)
        self._group_by(node, scope)
        having = node.args.get("having")
        if having is not None:
            having.set("this", self.expression(having.this, scope))
        self._order_by(node, scope)
        self._limits(node)
        check_grouping(node)
        kinds = Translator({}).types(node)
        return [Output(item.alias, kind or TEXT) for item, kind in zip(items, kinds, strict=True)]

    def _projections(self, items: list[exp.Expression], scope: Scope) -> list[exp.Expression]:
        projections: list[exp.Expression] = []
        for item in items:
            if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
                projections += [exp.alias_(column, name, quoted=True) for name, column in scope.star(item)]
                continue
            if isinstance(item, exp.Aliases):
                raise unsupported("an alias with several names", item)
            name = label(item)
            projections.append(exp.alias_(self.expression(item.unalias(), scope), name, quoted=True, copy=False))
        return projections

    # --- clauses --------------------------------------------------------------------------------------------------

    def _group_by(self, node: exp.Select, scope: Scope) -> None:
        group = node.args.get("group")
        if group is None:
            return
        if group.args.get("all"):
            raise unsupported("GROUP BY ALL", group)
        sets = (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)
        for owner in [group, *group.find_all(*sets)]:
            items = [each.unnest() for each in owner.expressions]
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

    def _order_item(self, item: exp.Expression, names: list[str], scope: Scope | None) -> exp.Expression:
        number = ordinal(item)
        if number is None and isinstance(item, exp.Column) and not item.table and item.name in names:
            if names.count(item.name) > 1:
                raise AmbiguousColumn(f'ORDER BY "{item.name}" is ambiguous', position=position_of(item))
            number = names.index(item.name) + 1
        if number is not None:
            if not 1 <= number <= len(names):
                raise SqlSyntaxError(f"ORDER BY position {number} is not in select list", position=position_of(item))
            literal = exp.Literal.number(number)
            return literal
        if scope is None:
            raise SqlSyntaxError(
                "ORDER BY here takes only names and positions of the result's columns",
                hint="wrap the query: SELECT * FROM (…) AS q ORDER BY …",
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
                if value.find(exp.Column) is not None:
                    raise SqlSyntaxError(
                        f"argument of {key.upper()} must not contain variables", position=position_of(value)
                    )
                clause.set(inner, self.expression(value, Scope()))

    # --- FROM -----------------------------------------------------------------------------------------------------

    def _sources(self, node: exp.Select, scope: Scope) -> None:
        clause = node.args.get("from_")
        if clause is not None:
            clause.set("this", self._source(clause.this, scope))
        for join in node.args.get("joins") or []:
            self._join(join, scope)

    def _join(self, join: exp.Join, scope: Scope) -> None:
        before = list(scope.sources)
        join.set("this", self._source(join.this, scope))
        after = [source for source in scope.sources if source not in before]
        using = join.args.get("using")
        if join.method.upper() == "NATURAL":
            left = {c.name for source in before for c in source.columns if not c.hidden}
            right = [c.name for source in after for c in source.columns if not c.hidden]
            using = [exp.to_identifier(name, quoted=True) for name in right if name in left]
            join.set("method", None)
            if not using:
                join.set("kind", "CROSS")
        elif join.method:
            raise unsupported(f"{join.method} JOIN", join)
        if using:
            join.set("using", None)
            join.set("on", scope.merge([each.name for each in using], join.side.upper(), before, after))
        elif join.args.get("on") is not None:
            join.set("on", self.expression(join.args["on"], scope))

    def _source(self, node: exp.Expression, scope: Scope) -> exp.Expression:
        if isinstance(node, exp.Unnest):
            node = unnest_call(node)
        if isinstance(node, exp.Lateral):
            return self._lateral(node, scope)
        if isinstance(node, exp.Subquery):
            return self._subquery(node, scope)
        if isinstance(node, exp.Values):
            columns = self._values(node, Scope(parent=scope.parent, ctes=scope.ctes))
            alias = require_alias(node, "VALUES in FROM")
            scope.add(Source(alias, renamed_in_full(node, columns)), node)
            return node
        if not isinstance(node, exp.Table):
            raise unsupported(f"{type(node).__name__} in FROM", node)
        if isinstance(node.this, exp.Anonymous):
            return self._function(node, scope)
        if not isinstance(node.this, exp.Identifier):
            raise unsupported("ROWS FROM" if node.args.get("rows_from") else "this in FROM", node)
        self._as_of(node)
        return self._table(node, scope)

    def _lateral(self, node: exp.Lateral, scope: Scope) -> exp.Expression:
        if isinstance(node.this, exp.Anonymous):
            table = exp.Table(this=node.this, alias=node.args.get("alias"), ordinality=node.args.get("ordinality"))
            return self._function(table, scope)
        if isinstance(node.this, exp.Unnest):
            unnest = node.this
            unnest.set("alias", node.args.get("alias"))
            return self._function(unnest_call(unnest), scope)
        if not isinstance(node.this, exp.Subquery):
            raise unsupported("this use of LATERAL", node)
        alias = require_alias(node, "subquery in FROM")
        inner, columns = self.query(node.this.this, scope)
        node.set("this", inner)
        scope.add(Source(alias, renamed(node, columns)), node)
        return exp.Lateral(this=exp.Subquery(this=inner), alias=node.args["alias"])

    def _subquery(self, node: exp.Subquery, scope: Scope) -> exp.Expression:
        if isinstance(node.this, (exp.Table, exp.Subquery)) and not is_query(node.this):
            # (a JOIN b ON …): its sources are sources of this level
            if node.args.get("alias") is not None:
                raise unsupported("an alias for a join in parentheses", node)
            node.set("this", self._nested_joins(node.this, scope))
            return node
        alias = require_alias(node, "subquery in FROM")
        # a subquery sees the CTEs but not the tables beside it
        inner, columns = self.query(node.this, Scope(parent=scope.parent, ctes=scope.ctes))
        bound = exp.Subquery(this=inner, alias=node.args["alias"])
        for key in ("pivots", "sample"):
            if node.args.get(key):
                raise unsupported(key.upper(), node)
        scope.add(Source(alias, renamed(bound, columns)), node)
        return bound

    def _nested_joins(self, node: exp.Expression, scope: Scope) -> exp.Expression:
        joins = node.args.get("joins") or []
        node.set("joins", None)
        bound = self._source(node, scope)
        bound.set("joins", joins)
        for join in joins:
            self._join(join, scope)
        return bound

    def _function(self, node: exp.Table, scope: Scope) -> exp.Expression:
        function = self.expression(node.this, scope)
        rows = Translator({}).rows_of(function)
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(function.this, quoted=True))
        node.set("alias", alias)
        if alias.this is None:
            alias.set("this", exp.to_identifier(function.this, quoted=True))
        node.set("this", function)
        # the alias of a function that returns one column names that column, too
        columns = [Output(name or alias.name, kind) for name, kind in rows.columns]
        if node.args.get("ordinality"):
            columns.append(Output("ordinality", SqlType("bigint")))
        scope.add(Source(alias.name, renamed_in_full(node, columns), scalar=len(rows.columns) == 1), node)
        return node

    def _as_of(self, node: exp.Table) -> None:
        version = node.args.get("version")
        self._reads += 1
        moment = None
        if version is not None:
            if version.args.get("kind") != "AS OF" or not isinstance(version.expression, exp.Literal):
                raise Unsupported(
                    "FOR SYSTEM_TIME is only supported as FOR SYSTEM_TIME AS OF <epoch or timestamp constant>",
                    position=position_of(node),
                )
            moment = version.expression.name
            node.set("version", None)
        if self._reads > 1 and moment != self.as_of:
            raise Unsupported(
                "FOR SYSTEM_TIME AS OF must be the same for all tables of a query", position=position_of(node)
            )
        self.as_of = moment

    def _table(self, node: exp.Table, scope: Scope) -> exp.Expression:
        position = position_of(node)
        parts = [part.name for part in node.parts]
        name = relation_name(parts, position)
        alias = node.alias or name
        if node.args.get("alias") is None:
            node.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        relation, columns = self.catalog.find(name), scope.cte(name) if len(parts) == 1 else None
        if node.args.get("sample") and (columns is not None or (relation is not None and relation.kind == VIEW)):
            raise unsupported("TABLESAMPLE of something else than a table or materialized view", node)
        if columns is not None:
            scope.add(Source(alias, renamed(node, columns)), node)
            return node
        if relation is None:
            raise UndefinedRelation(
                f'relation "{name}" does not exist',
                position=position,
                hint="SHOW TABLES and SHOW MATERIALIZED VIEWS list what there is",
            )
        if relation.kind in (SOURCE, INDEX):
            raise WrongObjectKind(
                f'"{name}" is {"an" if relation.kind == INDEX else "a"} {relation.kind}, which cannot be queried',
                hint="query what it is on; the index is used where it helps" if relation.kind == INDEX else None,
                position=position,
            )
        if not self._views:
            self.depends_on.setdefault(relation.id)
        if relation.kind == VIEW:
            return self._view(node, relation, alias, scope)
        self.relations.setdefault(relation.id)
        columns = [Output(column.name, column.type, column.hidden) for column in relation.columns]
        bound = exp.Table(
            this=exp.to_identifier(name, quoted=True),
            db=exp.to_identifier(SCHEMA, quoted=True),
            alias=node.args["alias"],
        )
        for key, value in node.args.items():
            if key not in ("this", "db", "catalog", "alias", "joins", "sample", "only") and value:
                raise unsupported(key.upper(), node)
        bound.set("sample", node.args.get("sample"))
        scope.add(Source(alias, renamed(bound, columns)), node)
        return bound

    def _view(self, node: exp.Table, relation: Relation, alias: str, scope: Scope) -> exp.Expression:
        if relation.name in self._views:
            raise Unsupported(f'view "{relation.name}" is defined by itself')
        self._views.append(relation.name)
        try:
            inner, columns = self.query(parse_query(relation.query or ""), Scope())
        except HeadraceError as error:
            error.position = position_of(node)  # not the position in the view's text
            raise
        finally:
            self._views.pop()
        visible = relation.visible_columns
        outputs = [Output(c.name, column.type) for c, column in zip(visible, columns, strict=True)]
        if not self.inline_views and not self._views:
            bound: exp.Expression = exp.Table(
                this=exp.to_identifier(relation.name, quoted=True),
                db=exp.to_identifier(SCHEMA, quoted=True),
                alias=node.args["alias"],
            )
            scope.add(Source(alias, renamed(bound, outputs)), node)
            return bound
        bound = exp.Subquery(this=inner, alias=node.args["alias"])
        if not node.args["alias"].args.get("columns") and [c.name for c in columns] != [c.name for c in visible]:
            names = [exp.to_identifier(column.name, quoted=True) for column in visible]
            bound.args["alias"].set("columns", names)
        scope.add(Source(alias, renamed(bound, outputs)), node)
        return bound

    # --- expressions ----------------------------------------------------------------------------------------------

    def expression(self, node: exp.Expression, scope: Scope) -> exp.Expression:
        if isinstance(node, exp.Column):
            return scope.column(node)
        if isinstance(node, exp.Subquery):
            node.set("this", self.query(node.this, scope)[0])
            return node
        if isinstance(node, exp.Query):
            return self.query(node, scope)[0]
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
        return node

    def _ask(self, node: exp.Anonymous, functions: FunctionOracle) -> None:
        """A function that Headrace does not define: what does Spark say?"""
        arguments = []
        for each in plain_arguments(node):
            value = Translator({}).value(each)
            arguments.append(Argument(type=value.type, sql=value.sql if is_constant(each) else None))
        try:
            found = functions.find(node.this, arguments)
        except HeadraceError as error:
            error.position = position_of(node)
            raise
        if found is not None:
            node.meta[FOUND] = found
