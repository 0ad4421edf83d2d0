"""FROM: what each source of a query is, and which columns it has.

A part of the binder in :mod:`headrace.sql.bind`, which binds the queries and expressions inside.
"""

from __future__ import annotations

from sqlglot import exp

from headrace.catalog import INDEX, SOURCE, VIEW, Catalog, Relation
from headrace.errors import HeadraceError, UndefinedRelation, Unsupported, WrongObjectKind
from headrace.sql.dialect import parse_query
from headrace.sql.explicit import SAYS_IT
from headrace.sql.expressions import position_of, unsupported
from headrace.sql.names import SCHEMA, relation_name
from headrace.sql.scope import Output, Scope, Source, renamed, renamed_in_full, row_of_source
from headrace.sql.sets import ROWS_FROM
from headrace.sql.shapes import as_lateral, is_query, require_alias, unnest_call
from headrace.sql.time_windows import is_time_window, time_window, windowed_relation
from headrace.sql.translate import Translator, clause_name
from headrace.sql.tree import is_as_of_now
from headrace.sql.typed import TEXT
from headrace.types import SqlType


class Sources:
    catalog: Catalog
    inline_views: bool
    relations: dict[int, None]
    depends_on: dict[int, None]
    as_of: str | None
    _views: list[str]
    _reads: int

    def query(self, node: exp.Expression, outer: Scope) -> tuple[exp.Expression, list[Output]]:
        raise NotImplementedError

    def expression(self, node: exp.Expression, scope: Scope) -> exp.Expression:
        raise NotImplementedError

    def _values(self, node: exp.Values, scope: Scope) -> list[Output]:
        raise NotImplementedError

    def _sources(self, node: exp.Select, scope: Scope) -> None:
        clause = node.args.get("from_")
        if clause is not None:
            clause.set("this", self._source(clause.this, scope))
        for join in node.args.get("joins") or []:
            self._join(join, scope)

    def _join(self, join: exp.Join, scope: Scope) -> None:
        if join.method.upper() == "ASOF":
            as_lateral(join)
        before = list(scope.sources)
        join.set("this", self._source(join.this, scope))
        after = [source for source in scope.sources if not any(source is other for other in before)]
        side = join.side.upper()
        for source in [*(before if side in ("RIGHT", "FULL") else []), *(after if side in ("LEFT", "FULL") else [])]:
            source.optional = True
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
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Values):  # so sqlglot has it inside of parentheses
            node.this.set("alias", node.args.get("alias"))
            node = node.this
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
        if is_time_window(node):
            _, columns = self.query(windowed_relation(node), Scope(parent=scope.parent, ctes=scope.ctes))
            windows = time_window(node, [each.name for each in columns])
            windows.this.meta[SAYS_IT] = True  # windows are the same in every zone
            return self._subquery(windows, scope)
        if isinstance(node.this, exp.Anonymous):
            return self._function(node, scope)
        if node.args.get("rows_from"):
            calls = [
                (unnest_call(each) if isinstance(each, exp.Unnest) else each).this for each in node.args["rows_from"]
            ]
            if not all(isinstance(each, exp.Anonymous) for each in calls):
                raise unsupported("ROWS FROM with something else than functions", node)
            together = exp.Anonymous(this=ROWS_FROM, expressions=calls)
            node = exp.Table(this=together, alias=node.args.get("alias"), ordinality=node.args.get("ordinality"))
            return self._function(node, scope)
        if not isinstance(node.this, exp.Identifier):
            raise unsupported("this in FROM", node)
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
            if node.args.get("alias") is not None:
                return self._aliased_join(node, scope)
            # (a JOIN b ON …): its sources are sources of this level
            bound = self._nested_joins(node.this, scope)
            if isinstance(bound, exp.Values):  # of which joins are not printed
                joins, alias = bound.args["joins"], bound.args["alias"]
                bound.set("joins", None)
                bound.set("alias", None)
                bound = exp.Subquery(this=bound, alias=alias, joins=joins)
            node.set("this", bound)
            return node
        alias = require_alias(node, "subquery in FROM")
        # a subquery sees the CTEs but not the tables beside it
        inner, columns = self.query(node.this, Scope(parent=scope.parent, ctes=scope.ctes))
        bound = exp.Subquery(this=inner, alias=node.args["alias"])
        for key in ("pivots", "sample"):
            if node.args.get(key):
                raise unsupported(clause_name(key), node)
        scope.add(Source(alias, renamed(bound, columns)), node)
        return bound

    def _aliased_join(self, node: exp.Subquery, scope: Scope) -> exp.Expression:
        """(a JOIN b ON …) AS j: a query of all its columns, in which a and b cannot be seen any more."""
        inner = Scope(parent=scope.parent, ctes=scope.ctes)
        source = self._nested_joins(node.this, inner)
        joins = source.args.get("joins")
        source.set("joins", None)
        columns = inner.star(exp.Star())
        names = [name for name, _ in columns]
        given = [column.name for column in node.args["alias"].args.get("columns") or []]
        shown = [*given, *names[len(given) :]]
        twice = next((name for name in shown if shown.count(name) > 1), None)
        if twice is not None:
            raise unsupported(f'an alias for a join that has two columns named "{twice}"', node)
        items = [exp.alias_(each, name, quoted=True) for name, (_, each) in zip(shown, columns, strict=True)]
        select = exp.Select(expressions=items, from_=exp.From(this=source), joins=joins)
        kinds = Translator({}).types(select)
        alias = exp.TableAlias(this=node.args["alias"].this)
        outputs = [Output(name, kind or TEXT) for name, kind in zip(shown, kinds, strict=True)]
        scope.add(Source(alias.name, outputs), node)
        return exp.Subquery(this=select, alias=alias)

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
        outputs = renamed_in_full(node, columns)
        names = [each.name for each in outputs]
        twice = next((name for name in names if names.count(name) > 1), None)
        if function.this == ROWS_FROM and twice is not None:
            raise unsupported(f'ROWS FROM with two columns named "{twice}"', node, hint="name them: AS t (a, b)")
        scope.add(Source(alias.name, outputs, scalar=len(rows.columns) == 1), node)
        return node

    def hidden_rows(self, call: exp.Anonymous, alias: str, node: exp.Select, scope: Scope) -> exp.Expression:
        """The row of a function that is joined to the other sources without being seen by ``*``."""
        names = [name or alias for name, _ in Translator({}).rows_of(call).columns]
        columns = [exp.to_identifier(name, quoted=True) for name in names]
        table = exp.Table(this=call, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=columns))
        kinds = [kind for _, kind in Translator({}).rows_of(call).columns]
        source = Source(alias, [Output(name, kind, hidden=True) for name, kind in zip(names, kinds, strict=True)])
        scope.add(source, call)
        if node.args.get("from_") is None:
            node.set("from_", exp.From(this=table))
        else:
            node.append("joins", exp.Join(this=table, kind="CROSS"))
        return row_of_source(source)

    def _as_of(self, node: exp.Table) -> None:
        version = node.args.get("version")
        if is_as_of_now(node):
            return  # a temporal join: the rows as they are
        self._reads += 1
        moment = None
        if version is not None:
            if version.args.get("kind") != "AS OF" or not isinstance(version.expression, exp.Literal):
                raise Unsupported(
                    "FOR SYSTEM_TIME is only supported as FOR SYSTEM_TIME AS OF <epoch or timestamp constant>, or of"
                    " PROCTIME() in a join",
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
        if relation.kind == INDEX or (relation.kind == SOURCE and not relation.columns):
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
            if key not in ("this", "db", "catalog", "alias", "joins", "sample", "only", "version") and value:
                raise unsupported(clause_name(key), node)
        bound.set("sample", node.args.get("sample"))
        bound.set("version", node.args.get("version"))
        scope.add(Source(alias, renamed(bound, columns)), node)
        return bound

    def _view(self, node: exp.Table, relation: Relation, alias: str, scope: Scope) -> exp.Expression:
        if relation.name in self._views:
            raise Unsupported(f'view "{relation.name}" is defined by itself')
        self._views.append(relation.name)
        try:
            inner, columns = self.query(parse_query(relation.query or ""), Scope())
            inner.meta[SAYS_IT] = True
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
