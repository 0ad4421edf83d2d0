"""Bound queries to Spark SQL.

Clauses are written here, expressions by :class:`headrace.sql.expressions.Expressions`. As there, what is not known
is refused: a query must not run with a clause left out.

>>> from headrace.sql.dialect import parse_query
>>> to_spark(parse_query("SELECT 7 / 2 AS x ORDER BY 1 DESC"))
'SELECT CAST((7 DIV 2) AS INT) AS `x` ORDER BY 1 DESC NULLS FIRST'
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from headrace.errors import DataError, SqlSyntaxError
from headrace.sql import zoned
from headrace.sql.casts import assign as _assign
from headrace.sql.casts import cast
from headrace.sql.decimals import handed_out
from headrace.sql.expressions import _METHODS as _EXPRESSION_METHODS
from headrace.sql.expressions import position_of, unsupported
from headrace.sql.grouping import has_aggregate, own_calls
from headrace.sql.literals import NOT_CONSTANT, constant
from headrace.sql.names import SCHEMA
from headrace.sql.oracle import generates
from headrace.sql.recursion import LEVELS, refers_to
from headrace.sql.sets import is_set_returning
from headrace.sql.subqueries import Subqueries, Types
from headrace.sql.typed import BIGINT, TEXT, Typed, common_type, is_integer
from headrace.types import SHOWN_VALUE, SqlType, quote_spark

LONG_SERIES = 10_000


def to_spark(
    expression: exp.Expression,
    *,
    table_names: Mapping[str, str] | None = None,
    qualified: bool = True,
    within: str | None = None,
    printed: bool = False,
) -> str:
    """Spark SQL for a bound query or expression. Stored relations are read from the views that table_names gives.

    Columns keep their qualifiers, or lose them (``qualified=False``), or are fields of the struct named ``within``.
    ``printed``: its results are for people and clients. A quotient among them says how many decimals are shown.
    """
    translator = Translator(table_names or {}, qualified=qualified, within=within)
    translator.printed = expression if printed else None
    if isinstance(expression, (exp.Query, exp.Values)):
        return translator.query(expression)
    return translator.text(expression)


def type_of(expression: exp.Expression) -> SqlType | None:
    """The type of a bound expression; None for NULL or a string constant, which can be of any."""
    return Translator({}).value(expression).type


def types_of(query: exp.Expression) -> Types:
    """The types of a bound query's columns."""
    return Translator({}).types(query)


def assign(sql: str, source: SqlType | None, target: SqlType, column: str) -> str:
    """Spark SQL that converts what INSERT or UPDATE gives to a column of the target type, if PostgreSQL would.

    The source type None is that of NULL and string constants as queries return them: text that may become anything.
    """
    if source is None:
        return cast(Typed(sql, TEXT), target).sql
    return _assign(Typed(sql, source), target, column).sql


def _keys(group: exp.Expression) -> Iterator[exp.Expression]:
    """The expressions that a GROUP BY has, also inside of ROLLUP and its like."""
    for each in group.iter_expressions():
        if isinstance(each, (exp.Rollup, exp.Cube, exp.GroupingSets, exp.Tuple)):
            yield from _keys(each)
        else:
            yield each


def _outputs(query: exp.Expression) -> list[exp.Expression] | None:
    """The columns of a SELECT, for errors to point at."""
    query = query.unnest()
    return query.expressions if isinstance(query, exp.Select) else None


def _first_output(query: exp.Expression) -> int | None:
    items = _outputs(query)
    return position_of(items[0]) if items else None


_SELECT_CLAUSES = {
    "with_", "expressions", "distinct", "from_", "joins", "where", "group", "having", "order", "limit", "offset",
}  # fmt: skip


class Translator(Subqueries):
    def __init__(self, table_names: Mapping[str, str], *, qualified: bool = True, within: str | None = None):
        super().__init__(qualified=qualified, within=within)
        self._unfolded: dict[int, Typed] = {}
        self.table_names = table_names
        self.printed: exp.Expression | None = None
        """The query whose results are for people and clients."""
        self._pairs: dict[str, str] = {}
        """Its columns that are quotients with the number of decimals that are shown, by what ORDER BY calls them."""
        self._types: dict[int, Types] = {}

    @classmethod
    def _methods(cls) -> dict[type, Callable[[Any, Any], Typed]]:
        return _METHODS

    # --- queries --------------------------------------------------------------------------------------------------

    def query(self, node: exp.Expression, want: Types | None = None) -> str:
        """The query; its columns converted to the types that are wanted, where those are known."""
        with zoned.meant_in(None):  # what stands around it may be meant elsewhere
            return self._with(node) + self._body(node, want)

    def _body(self, node: exp.Expression, want: Types | None) -> str:
        if isinstance(node, exp.Select):
            return self._select(node, want)
        if isinstance(node, exp.SetOperation):
            return self._set_operation(node, want)
        if isinstance(node, exp.Subquery):
            _only(node, {"this", "with_", "order", "limit", "offset", "alias"})
            inner = self.query(node.this, want)
            tail = self._tail(node)
            return f"({inner}){tail}" if tail else inner
        if isinstance(node, exp.Values):
            return self._values(node, want)
        raise unsupported(type(node).__name__, node)

    def types(self, node: exp.Expression) -> Types:
        known = self._types.get(id(node))
        if known is None:
            known = self._types[id(node)] = self._compute_types(node)
        return known

    def _compute_types(self, node: exp.Expression) -> Types:
        if isinstance(node, exp.Select):
            return [self.value(each.unalias()).type for each in node.expressions]
        if isinstance(node, exp.Subquery):
            return self.types(node.this)
        if isinstance(node, exp.SetOperation):
            word = type(node).__name__.upper()
            left, right = self.types(node.this), self.types(node.expression)
            if len(left) != len(right):
                raise SqlSyntaxError(
                    f"each {word} query must have the same number of columns", position=_first_output(node.expression)
                )
            items = _outputs(node.expression) or [None] * len(right)
            return [common_type(word, pair, position_of(item)) for *pair, item in zip(left, right, items, strict=True)]
        if isinstance(node, exp.Values):
            rows = [[self.value(each) for each in row.expressions] for row in node.expressions]
            if any(len(row) != len(rows[0]) for row in rows):
                raise SqlSyntaxError("VALUES lists must all be the same length")
            return [common_type("VALUES", [value.type for value in column]) for column in zip(*rows, strict=True)]
        raise unsupported(type(node).__name__, node)

    def _with(self, node: exp.Expression) -> str:
        clause = node.args.get("with_")
        if clause is None:
            return ""
        parts = []
        for cte in clause.expressions:
            columns = cte.args["alias"].args.get("columns") or []
            names = f"({', '.join(quote_spark(column.name) for column in columns)})" if columns else ""
            recursive = clause.args.get("recursive") and refers_to(cte.this, cte.alias)
            # the step gives what the start gives, whatever it would have been by itself
            kinds = self._settled(cte.this.this if recursive else cte.this)
            levels = f" MAX RECURSION LEVEL {LEVELS}" if recursive else ""
            parts.append(f"{quote_spark(cte.alias)}{names}{levels} AS ({self.query(cte.this, kinds)})")
        return f"WITH {'RECURSIVE ' if clause.args.get('recursive') else ''}{', '.join(parts)} "

    def _settled(self, node: exp.Expression) -> Types:
        """The types of a query in FROM, where constants must make up their minds."""
        return [kind or TEXT for kind in self.types(node)]

    def _select(self, node: exp.Select, want: Types | None) -> str:
        _only(node, _SELECT_CLAUSES)
        distinct = node.args.get("distinct")
        if distinct is not None and distinct.args.get("on") is not None:
            return self._distinct_on(node, distinct.args["on"], want)
        if self._with_ties(node) or self._hidden_aggregate(node) or self._having_grouping(node):
            return self._numbered(node, want)
        unfolded = self._unfold(node)
        head = "SELECT DISTINCT " if distinct is not None else "SELECT "
        items = [f"{value} AS {quote_spark(name)}" for name, value in self._projections(node, want)]
        pairs = self._pairs if node is self.printed else {}
        return head + ", ".join(items) + self._from(node, unfolded) + self._tail(node, pairs)

    def _projections(self, node: exp.Select, want: Types | None) -> list[tuple[str, str]]:
        items = []
        printed = node is self.printed and node.args.get("distinct") is None
        names = [each.alias_or_name for each in node.expressions]
        order = node.args.get("order")
        keys = [each.this.name for each in order.expressions if isinstance(each.this, exp.Literal)] if order else []
        for number, each in enumerate(node.expressions):
            value = self.value(each.unalias())
            kind = want[number] if want is not None else None
            if kind is not None and kind != value.type:
                value = cast(value, kind)
            elif value.type is None:
                value = cast(value, TEXT)
            sql = value.sql
            name = quote_spark(each.alias_or_name)
            # The rows are ordered by the value alone, which can be asked for only by a name.
            clear = names.count(each.alias_or_name) == 1 or str(number + 1) not in keys
            if printed and clear and self._has_operands(node, each, value):
                sql = handed_out(value)
                self._pairs |= {name: name, str(number + 1): name}
            items.append((each.alias_or_name, sql))
        return items

    def _has_operands(self, node: exp.Select, item: exp.Expression, value: Typed) -> bool:
        """Whether it can be told by them, once more and at little cost, how many decimals of a quotient are shown."""
        if value.decimals is None or item.find(exp.Query) is not None:
            return False
        if any(is_set_returning(call.this) or generates(call) for call in own_calls(item)):
            return False
        # Where a group is one of quotients, its operands are not at hand.
        group = node.args.get("group")
        return group is None or not any(
            not isinstance(key, exp.Column) and self.text(key) in value.sql for key in _keys(group)
        )

    def _unfold(self, node: exp.Select) -> str:
        """Set-returning functions inside expressions, or several side by side, as one more thing in FROM.

        They run in step: where one has fewer rows than another, it is NULL."""
        items = [each.unalias() for each in node.expressions]
        calls = [call for item in items for call in own_calls(item) if is_set_returning(call.this) or generates(call)]
        if calls and any(item.find(exp.Window) is not None for item in items):
            # Spark would unfold the rows first, PostgreSQL numbers them first
            raise unsupported(f"{calls[0].this}() beside a window function", calls[0])
        calls = [call for call in calls if not generates(call)]
        if not calls or (len(calls) == 1 and any(calls[0] is item for item in items)):
            return ""
        if any(node.args.get(key) for key in ("group", "having")) or any(map(has_aggregate, items)):
            raise unsupported(f"{calls[0].this}() inside an expression beside aggregates", calls[0])
        arrays, fields = [], []
        for number, call in enumerate(calls):
            generated = self.rows_of(call)
            if generated.structs:
                raise unsupported(f"{call.this}(), which returns several columns, outside of FROM", call)
            kind = generated.columns[0][1]
            arrays.append(f"coalesce({generated.sql}, CAST(array() AS ARRAY<{kind.spark}>))")
            fields.append(f"`{number}`: {kind.spark}")
            self._unfolded[id(call)] = Typed(f"`_srf`.`_s{number}`", kind)
        names = ", ".join(f"`_s{number}`" for number in range(len(calls)))
        zipped = f"CAST(arrays_zip({', '.join(arrays)}) AS ARRAY<STRUCT<{', '.join(fields)}>>)"
        lateral = "FROM " if node.args.get("from_") is None else "CROSS JOIN LATERAL "
        return f" {lateral}(SELECT inline({zipped})) AS `_srf`({names})"

    def _generator(self, node: exp.Anonymous) -> Typed:
        return self._unfolded.get(id(node)) or super()._generator(node)

    def _from(self, node: exp.Select, unfolded: str = "", *, having: bool = True) -> str:
        """FROM to HAVING."""
        parts = []
        source = node.args.get("from_")
        if source is not None:
            parts.append(f" FROM {self._source(source.this, first=True)}")
        parts += [f" {self._join(join)}" for join in node.args.get("joins") or []]
        parts.append(unfolded)
        if node.args.get("where") is not None:
            parts.append(f" WHERE {self.condition('WHERE', node.args['where'].this)}")
        if node.args.get("group") is not None:
            parts.append(f" GROUP BY {self._group(node.args['group'])}")
        if having and node.args.get("having") is not None:
            parts.append(f" HAVING {self.condition('HAVING', node.args['having'].this)}")
        return "".join(parts)

    def _group(self, group: exp.Group) -> str:
        _only(group, {"expressions", "rollup", "cube", "grouping_sets"})
        keys = ("rollup", "cube", "grouping_sets")
        items = [*group.expressions, *(each for key in keys for each in group.args.get(key) or [])]
        if all(isinstance(each, exp.Tuple) and not each.expressions for each in items):
            return "GROUPING SETS (())"
        return ", ".join(filter(None, (self._group_item(each) for each in items)))

    def _group_item(self, item: exp.Expression, *, inside: bool = False) -> str:
        if isinstance(item, (exp.Rollup, exp.Cube, exp.GroupingSets)):
            word = "GROUPING SETS" if isinstance(item, exp.GroupingSets) else type(item).__name__.upper()
            return f"{word} ({', '.join(self._group_item(each, inside=True) for each in item.expressions)})"
        if isinstance(item, exp.Tuple):
            listed = ", ".join(self.text(each) for each in item.expressions)
            return f"({listed})" if inside else listed
        return self.text(item)

    def _tail(self, node: exp.Expression, pairs: Mapping[str, str] = MappingProxyType({})) -> str:
        """ORDER BY, LIMIT and OFFSET. Of ``pairs`` only the value counts: equal ones may show other decimals."""
        order = node.args.get("order")
        if order is None:
            return self._limit(node)
        keys = [
            replace(key, value=replace(key.value, sql=f"{pairs[key.value.sql]}.{SHOWN_VALUE}"))
            if key.value.sql in pairs
            else key
            for key in self.order_keys(order.expressions)
        ]
        return f" ORDER BY {', '.join(key.sql for key in keys)}" + self._limit(node)

    def _limit(self, node: exp.Expression) -> str:
        limit, offset = node.args.get("limit"), node.args.get("offset")
        clause = ""
        if isinstance(limit, exp.Fetch):
            options = limit.args.get("limit_options")
            if options is not None and options.args.get("percent"):
                raise unsupported("FETCH … PERCENT", limit)
            clause += self._count("LIMIT", limit.args.get("count") or exp.Literal.number(1))
        elif limit is not None:
            _only(limit, {"expression"})
            clause += self._count("LIMIT", limit.expression)
        if offset is not None:
            clause += self._count("OFFSET", offset.expression)
        return clause

    def _count(self, word: str, node: exp.Expression) -> str:
        if isinstance(node, exp.Null) or (isinstance(node, exp.Var) and node.name.upper() == "ALL"):
            return ""
        if node.find(exp.Query) is not None:
            raise unsupported(f"{word} with a subquery", node)
        if isinstance(node, exp.Neg):
            raise DataError(f"{word} must not be negative", sqlstate="2201W" if word == "LIMIT" else "2201X")
        if isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit():
            # Spark counts in integers; a limit beyond them is none
            return f" {word} {node.name}" if int(node.name) < 2**31 else ""
        return f" {word} CAST({cast(self.value(node), BIGINT).sql} AS INT)"

    def _with_ties(self, node: exp.Expression) -> bool:
        limit = node.args.get("limit")
        options = limit.args.get("limit_options") if isinstance(limit, exp.Fetch) else None
        if options is None or not options.args.get("with_ties"):
            return False
        if node.args.get("order") is None or node.args.get("distinct") or not isinstance(node, exp.Select):
            raise unsupported("FETCH … WITH TIES without ORDER BY, or beside DISTINCT or a set operation,", limit)
        return True

    def _hidden_aggregate(self, node: exp.Select) -> bool:
        """Spark does not find an aggregate of ORDER BY behind a HAVING, or grouping(), unless it is selected, too."""
        order = node.args.get("order")
        if order is None or node.args.get("distinct"):
            return False
        if any(call.this == "grouping" for each in order.expressions for call in own_calls(each.this)):
            return True
        return node.args.get("having") is not None and any(has_aggregate(each.this) for each in order.expressions)

    def _having_grouping(self, node: exp.Select) -> bool:
        """Spark knows grouping() in a SELECT list only."""
        having = node.args.get("having")
        return having is not None and any(call.this == "grouping" for call in own_calls(having.this))

    def _distinct_on(self, node: exp.Select, on: exp.Expression, want: Types | None) -> str:
        return self._numbered(node, want, on.expressions if isinstance(on, exp.Tuple) else [on])

    def _numbered(self, node: exp.Select, want: Types | None, groups: Sequence[exp.Expression] = ()) -> str:
        """The query inside another one that sorts and cuts it: the first row of each group, or all ties of the last."""
        projections = self._projections(node, want)
        order = node.args.get("order")

        def key(each: exp.Expression) -> str:
            if isinstance(each, exp.Literal) and not each.is_string:
                _, sql = projections[int(each.name) - 1]
                # By the value alone: the struct with it is never NULL, and has other decimals for an equal value.
                return f"{sql}.{SHOWN_VALUE}" if node is self.printed and each.name in self._pairs else sql
            return self.text(each)

        keys = self.order_keys(order.expressions) if order is not None else []
        texts = [key(each.this) for each in order.expressions] if order is not None else []
        ways = [each.sql.removeprefix(each.value.sql) for each in keys]
        window = "ORDER BY " + (", ".join(text + way for text, way in zip(texts, ways, strict=True)) or "NULL")
        inner = [f"{value} AS `_c{number}`" for number, (_, value) in enumerate(projections)]
        inner += [f"{text} AS `_o{number}`" for number, text in enumerate(texts)]
        condition, limit, source = "", self._limit(node), None
        if self._having_grouping(node):
            if groups or self._with_ties(node):
                raise unsupported("grouping() in HAVING beside DISTINCT ON or WITH TIES", node)
            inner.append(f"{self.boolean('HAVING', node.args['having'].this)} AS `_h`")
            condition, source = " WHERE `_h`", self._from(node, having=False)
        if groups:
            inner.append(f"row_number() OVER (PARTITION BY {', '.join(map(key, groups))} {window}) AS `_n`")
            condition = " WHERE `_n` = 1"
        elif self._with_ties(node):
            inner += [f"row_number() OVER ({window}) AS `_n`", f"rank() OVER ({window}) AS `_r`"]
            count, skipped = node.args["limit"].args.get("count") or exp.Literal.number(1), node.args.get("offset")
            first = cast(self.value(skipped.expression), BIGINT).sql if skipped is not None else "0"
            last = f"{first} + {cast(self.value(count), BIGINT).sql}"
            condition, limit = f" WHERE `_n` > {first} AND `_r` <= {last}", ""
        outer = [f"`_c{number}` AS {quote_spark(name)}" for number, (name, _) in enumerate(projections)]
        sort = ", ".join(f"`_o{number}`{way}" for number, way in enumerate(ways))
        return (
            f"SELECT {', '.join(outer)} FROM (SELECT {', '.join(inner)}{source or self._from(node)}){condition}"
            + (f" ORDER BY {sort}" if sort else "")
            + limit
        )

    def _set_operation(self, node: exp.SetOperation, want: Types | None) -> str:
        _only(node, {"this", "expression", "distinct", "with_", "order", "limit", "offset"})
        self._with_ties(node)
        word = type(node).__name__.upper()
        kinds = self.types(node)
        if want is not None:
            kinds = [wanted or kind for wanted, kind in zip(want, kinds, strict=True)]
        kinds = [kind or TEXT for kind in kinds]
        left, right = self.query(node.this, kinds), self.query(node.expression, kinds)
        every = "" if node.args.get("distinct") else " ALL"
        return f"({left}) {word}{every} ({right}){self._tail(node)}"

    def _values(self, node: exp.Values, want: Types | None) -> str:
        kinds = [kind or TEXT for kind in (want or self.types(node))]
        columns = ", ".join(quote_spark(f"column{number}") for number in range(1, len(kinds) + 1))
        return f"SELECT * FROM {self._rows(node, kinds)} AS `values`({columns}){self._tail(node)}"

    def _rows(self, node: exp.Values, kinds: Types) -> str:
        """Something for FROM. Spark's own VALUES know no outer columns, no subqueries and no raise_error()."""
        rows = [
            [cast(self.value(each), kind).sql for each, kind in zip(row.expressions, kinds, strict=True)]
            for row in node.expressions
        ]
        checks = any("raise_error(" in each for row in rows for each in row)
        if not checks and node.find(exp.Column, exp.Query) is None:
            return f"(VALUES {', '.join('(' + ', '.join(row) + ')' for row in rows)})"
        fields = [", ".join(f"'{number}', {each}" for number, each in enumerate(row)) for row in rows]
        structs = [f"named_struct({each})" for each in fields]
        return f"(SELECT inline(array({', '.join(structs)})))"

    # --- FROM -----------------------------------------------------------------------------------------------------

    def _source(self, node: exp.Expression, *, first: bool = False) -> str:
        if isinstance(node, exp.Lateral):
            _only(node, {"this", "alias"})
            inner = node.this
            sql = (
                self._function(inner)
                if isinstance(inner, exp.Anonymous)
                else f"({self.query(inner, self._settled(inner))})"
            )
            return f"LATERAL {sql}{_alias(node)}"
        if isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Table):  # (a JOIN b ON …)
                return f"({self._source(node.this, first=True)})"
            if isinstance(node.this, exp.Subquery) and node.this.args.get("joins"):  # ((SELECT …) AS a JOIN b ON …)
                joins = "".join(f" {self._join(join)}" for join in node.this.args["joins"])
                return f"({self._source(node.this, first=True)}{joins})"
            return f"({self.query(node.this, self._settled(node.this))}){_alias(node)}"
        if isinstance(node, exp.Values):
            return f"{self._rows(node, self._settled(node))}{_alias(node)}"
        if not isinstance(node, exp.Table):
            raise unsupported(f"{type(node).__name__} in FROM", node)
        _only(node, {"this", "db", "alias", "joins", "ordinality", "sample", "version"})  # of PROCTIME(): as it is now
        if isinstance(node.this, exp.Anonymous):
            # Spark does not full join what is lateral, even if it needs nothing from its left
            lateral = "" if first or node.this.find(exp.Column) is None else "LATERAL "
            sql = lateral + self._function(node.this, ordinality=bool(node.args.get("ordinality")))
        elif node.db == SCHEMA:
            sql = quote_spark(self.table_names.get(node.name, node.name))
        else:
            sql = quote_spark(node.name)
        if node.args.get("sample") is not None:
            if node.db != SCHEMA:
                raise unsupported("TABLESAMPLE of something else than a table or materialized view", node)
            sql += self._sample(node.args["sample"])
        joins = "".join(f" {self._join(join)}" for join in node.args.get("joins") or [])
        return f"{sql}{_alias(node)}{joins}"

    def _sample(self, node: exp.TableSample) -> str:
        _only(node, {"method", "percent", "seed"})
        percent, seed = node.args.get("percent"), node.args.get("seed")
        if not isinstance(percent, exp.Literal) or percent.is_string:
            raise unsupported("TABLESAMPLE with something else than a constant percentage", node)
        if seed is not None and not (isinstance(seed, exp.Literal) and seed.name.isdigit()):
            raise unsupported("REPEATABLE with something else than a whole number", node)
        return f" TABLESAMPLE ({percent.name} PERCENT)" + (f" REPEATABLE ({seed.name})" if seed is not None else "")

    def _function(self, node: exp.Anonymous, *, ordinality: bool = False) -> str:
        generated = self.rows_of(node)
        if generated.generator is not None:
            if ordinality:
                raise unsupported(f"{node.this}() WITH ORDINALITY", node)
            return f"(SELECT {generated.generator})"
        if not ordinality and (series := self._range(node, generated.columns[0][1])) is not None:
            return series
        if ordinality:
            return f"(SELECT inline({generated.numbered()}))"
        return f"(SELECT {'inline' if generated.structs else 'explode'}({generated.sql}))"

    def _range(self, node: exp.Anonymous, kind: SqlType | None) -> str | None:
        """A long series of constants as Spark's range(): made by all executors, and never an array in memory."""
        if node.name.lower() not in ("generate_series", "range") or kind is None or not is_integer(kind):
            return None
        numbers = [constant(argument, BIGINT) for argument in node.expressions]
        if any(number is NOT_CONSTANT or number is None for number in numbers):
            return None
        if node.name.lower() == "range":
            return f"(SELECT id FROM range({', '.join(map(str, numbers))}))"
        start, stop, step = (*numbers, 1)[:3]
        if step <= 0 or (stop - start) // step < LONG_SERIES:
            return None
        return f"(SELECT CAST(id AS {kind.spark}) FROM range({start}, {stop + 1}, {step}))"

    def _join(self, join: exp.Join) -> str:
        _only(join, {"this", "side", "kind", "on"})
        side, kind = join.side.upper(), join.kind.upper()
        if kind not in ("", "INNER", "OUTER", "CROSS") or side not in ("", "LEFT", "RIGHT", "FULL"):
            raise unsupported(f"{side} {kind} JOIN".strip(), join)
        word = "CROSS JOIN" if kind == "CROSS" else f"{side} JOIN".strip()
        on = join.args.get("on")
        condition = f" ON {self.condition('JOIN/ON', on, top=False)}" if on is not None else ""
        return f"{word} {self._source(join.this)}{condition}"


def _alias(node: exp.Expression) -> str:
    alias = node.args.get("alias")
    if alias is None:
        return ""
    columns = alias.args.get("columns") or []
    names = f"({', '.join(quote_spark(column.name) for column in columns)})" if columns else ""
    return f" AS {quote_spark(alias.name)}{names}"


def _only(node: exp.Expression, known: set[str]) -> None:
    for key, value in node.args.items():
        if key not in known and value not in (None, False, []):
            raise unsupported(clause_name(key), node)


def clause_name(key: str) -> str:
    """A clause as SQL calls it, by its name in sqlglot's tree."""
    return _CLAUSES.get(key, key.strip("_").upper())


_CLAUSES = {
    "locks": "FOR UPDATE",
    "sample": "TABLESAMPLE",
    "into": "SELECT INTO",
    "pivots": "PIVOT",
    "laterals": "LATERAL VIEW",
    "by_name": "BY NAME",
    "only": "ONLY",
    "version": "FOR SYSTEM_TIME",
    "windows": "WINDOW",
    "rows_from": "ROWS FROM",
}

_METHODS: dict[type, Callable[[Any, Any], Typed]] = {
    **_EXPRESSION_METHODS,
    **dict.fromkeys((exp.Subquery, exp.Select, exp.Union, exp.Except, exp.Intersect), Subqueries._scalar),
    exp.Exists: Subqueries._exists,
}
